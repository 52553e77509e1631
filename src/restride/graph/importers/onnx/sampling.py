"""ONNX's GridSample: elements of a tensor at positions given by another, in fractions of its extents.

    result[n, c, p] = sum over corners of weights[n, p] * x[n, c, corner[n, p]]

A corner is the nearest element, one of both neighbors along each axis, or one of four: the result is a sum
of gathers, each of rows with all channels. Indices are clamped before anything is read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from ....model.result_dims import Misfit
from ..operator_call import ONNX, OperatorCall, Tensor, Value

_F32, _S64 = 1, 7
_CUBIC = -0.75
_MODES = {"bilinear": "linear", "bicubic": "cubic"}


@dataclass(frozen=True, slots=True)
class _GridForm:
    """Attributes of a GridSample; outside the source are zeros, its border, or its mirror image."""

    mode: str = "linear"
    padding_mode: str = "zeros"
    align_corners: bool = False


class _Corner(NamedTuple):
    """An index along one axis, its weight, and whether it is inside (None if it always counts)."""

    at: Value
    weight: Value | None
    is_inside: Value | None


@ONNX("GridSample")
def _grid_sample(call: OperatorCall, x: Tensor, grid: Tensor, *, sampling: _GridForm) -> Value:
    apart, dims, places = call.with_outputs(0), call.dims(x), call.dims(grid)
    rank, mode = len(dims) - 2, _MODES.get(sampling.mode, sampling.mode)
    if mode not in ("linear", "cubic", "nearest") or sampling.padding_mode not in _PADDINGS:
        raise Misfit(f"mode {sampling.mode!r} with padding_mode {sampling.padding_mode!r} is not supported")
    if rank < 1 or places[0] != dims[0] or places[-1] != rank or len(places) != rank + 2:
        raise Misfit(f"a grid of {places} does not fit a tensor of {dims}")
    if not prod(dims):
        raise call.unimplemented("it samples an empty tensor")
    wide, count = apart.onnx("Cast", grid, to=_F32), prod(places[1:-1])
    axes: list[list[_Corner]] = []
    for axis, extent in enumerate(dims[2:]):
        column = rank - 1 - axis  # the last axis comes first
        part = apart.onnx("Slice", wide, (column,), (column + 1,), (rank + 1,))
        axis_of = _SampledAxis(apart, extent, sampling.padding_mode, sampling.align_corners)
        axes.append(axis_of.corners(apart.reshaped(part, (dims[0], count)), mode))
    rows = apart.transposed(apart.reshaped(x, (*dims[:2], prod(dims[2:]))), (0, 2, 1))
    terms = [_term(apart, rows, dims[2:], corner) for corner in product(*axes)]
    total = reduce(lambda left, right: apart.onnx("Add", left, right), terms)
    return call.reshaped(apart.transposed(total, (0, 2, 1)), (*dims[:2], *places[1:-1]))


def _term(call: OperatorCall, rows: Value, extents: Sequence[int], corner: Sequence[_Corner]) -> Value:
    """Return the contribution of one corner: rows at its index, times its weight."""
    at = corner[0].at
    for extent, each in zip(extents[1:], corner[1:], strict=True):
        at = call.onnx("Add", call.onnx("Mul", at, np.array(extent)), each.at)
    found = call.primitive("Gather", rows, at, algorithm="axis", axis=1, batch_dims=1)
    assert not isinstance(found, tuple)
    weights = [each.weight for each in corner if each.weight is not None]
    inside = [each.is_inside for each in corner if each.is_inside is not None]
    column = (*call.dims(at), 1)
    if weights:
        weight = reduce(lambda left, right: call.onnx("Mul", left, right), weights)
        found = call.onnx("Mul", found, call.onnx("CastLike", call.reshaped(weight, column), found))
    if inside:
        mask = reduce(lambda left, right: call.onnx("And", left, right), inside)
        found = call.onnx("Where", call.reshaped(mask, column), found, np.zeros((), call.numpy_type(found)))
    return found


@dataclass(frozen=True, slots=True)
class _SampledAxis:
    """An axis of the source: its extent, and its padding."""

    call: OperatorCall
    extent: int
    padding: str
    align_corners: bool

    def corners(self, part: Value, mode: str) -> list[_Corner]:
        """Return the elements along the axis that results depend on; `part`: the position, from -1 to 1."""
        onnx, n = self.call.onnx, self.extent
        if self.align_corners:
            place = onnx("Mul", onnx("Add", part, 1.0), (n - 1) / 2)
        else:
            place = onnx("Mul", onnx("Sub", onnx("Mul", onnx("Add", part, 1.0), float(n)), 1.0), 0.5)
        if mode != "cubic":
            place = self._padded(place)
        if mode == "nearest":
            return [self._corner(onnx("Round", place), None)]
        low = onnx("Floor", place)
        share = onnx("Sub", place, low)
        rest = onnx("Sub", 1.0, share)
        if mode == "linear":
            return [self._corner(low, rest), self._corner(onnx("Add", low, 1.0), share)]
        distances = (
            (onnx("Add", share, 1.0), False),
            (share, True),
            (rest, True),
            (onnx("Add", rest, 1.0), False),
        )
        return [
            self._corner(self._padded(onnx("Add", low, float(step))), self._cubic(distance, is_near=is_near))
            for step, (distance, is_near) in zip(range(-1, 3), distances, strict=True)
        ]

    def _padded(self, place: Value) -> Value:
        """Map a position outside the tensor into it, unless the padding is zeros."""
        onnx, last = self.call.onnx, float(self.extent - 1)
        if self.padding == "zeros":
            return place
        if self.padding == "reflection":
            low, high = (0.0, last) if self.align_corners else (-0.5, last + 0.5)
            length = high - low
            if length:
                way = onnx("Mod", onnx("Abs", onnx("Sub", place, low)), 2 * length, fmod=1)
                place = onnx("Sub", high, onnx("Abs", onnx("Sub", way, length)))
        return onnx("Clip", place, 0.0, last)

    def _corner(self, place: Value, weight: Value | None) -> _Corner:
        onnx, last = self.call.onnx, float(self.extent - 1)
        index = onnx("Cast", onnx("Clip", place, 0.0, last), to=_S64)
        if self.padding != "zeros":
            return _Corner(index, weight, None)
        ends = onnx("GreaterOrEqual", place, 0.0), onnx("LessOrEqual", place, last)
        return _Corner(index, weight, onnx("And", *ends))

    def _cubic(self, t: Value, *, is_near: bool) -> Value:
        """Evaluate Keys' kernel at a distance of up to 1, or from 1 to 2."""
        onnx, a = self.call.onnx, _CUBIC
        numbers = (a + 2, -(a + 3), 0.0, 1.0) if is_near else (a, -5 * a, 8 * a, -4 * a)
        total: Value = onnx("Add", onnx("Mul", t, numbers[0]), numbers[1])
        for number in numbers[2:]:
            total = onnx("Add", onnx("Mul", total, t), number)
        return total


_PADDINGS = ("zeros", "border", "reflection")
