"""Convolution and deconvolution: `--conv --dir=FWD_B --dt=bf16 g2ic16oc32_ih14oh14kh3ph1`, `--deconv …`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, ClassVar

import numpy as np

import restride as rs

from ..attr_text import wrong
from ..cases import ATTR_KNOB_NAMES
from ..driver import Driver
from ..fill import Array
from ..knobs import caseless
from ..products import PRODUCT_KNOBS, ProductCase, invalid_product, product_work
from ..spatial import LetteredProblem, parse_lettered
from ..work import CaseWork

_LETTERS = ("g", "mb", "ic", "oc", *(f"{kind}{dim}" for kind in "iokspd" for dim in "dhw"))
Sizes = tuple[int, ...]
Slices = tuple[slice, ...]
Tap = tuple[slice | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvCase(ProductCase):
    """A convolution. `source` are the spatial dims of the source; `groups` is 0 where none are written."""

    driver: ClassVar[str] = "conv"
    prefix: ClassVar[str] = "convolution"

    alg: str = "direct"
    channels: int = 0
    groups: int = 0
    source: Sizes = ()
    kernel: Sizes = ()
    strides: Sizes = ()
    dilation: Sizes = ()
    padding: Sizes = ()

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        return ("dir", "dt", "stag", "wtag", "dtag", "alg", "mb", *ATTR_KNOB_NAMES)

    @property
    def src_dims(self) -> Sizes:
        """The dims of the source."""
        return (self.dims[0], self.channels, *self.source)

    @property
    def weight_dims(self) -> Sizes:
        """The dims of the weights."""
        count = max(self.groups, 1)
        dims = (self.dims[1] // count, self.channels // count, *self.kernel)
        return (self.groups, *dims) if self.groups else dims

    @property
    def terms(self) -> int:
        """How many products a sum has, at most."""
        if self.direction == "backward_weights":
            return self.dims[0] * prod(self.dims[2:])
        channels = self.channels if self.direction == "forward" else self.dims[1]
        return channels // max(self.groups, 1) * prod(self.kernel)

    @property
    def zeros(self) -> float:
        """How many percent of a result may be zero: where windows leave gaps, much of what is under them."""
        return 100 - 30 / prod(self.strides)

    @property
    def window_sizes(self) -> Sizes:
        """The spatial dims of the tensor that windows slide over."""
        return self.source

    @property
    def point_sizes(self) -> Sizes:
        """The spatial dims of the tensor with a point for each window."""
        return self.dims[2:]

    @property
    def windows(self) -> tuple[Sizes, ...]:
        """The numbers that a descriptor takes, in its order."""
        parts = zip(
            *(self.window_sizes, self.point_sizes, self.kernel),
            *(self.strides, self.dilation, self.padding),
            strict=True,
        )
        behind = tuple((o - 1) * s - i + (k - 1) * (d + 1) + 1 - p for i, o, k, s, d, p in parts)
        return self.strides, self.dilation, self.padding, behind


@dataclass(frozen=True, slots=True, kw_only=True)
class DeconvCase(ConvCase):
    """A deconvolution: windows slide over its result."""

    driver: ClassVar[str] = "deconv"
    prefix: ClassVar[str] = "deconvolution"

    @property
    def window_sizes(self) -> Sizes:
        """The spatial dims of the result."""
        return self.dims[2:]

    @property
    def point_sizes(self) -> Sizes:
        """The spatial dims of the source."""
        return self.source

    @property
    def terms(self) -> int:
        """How many products a sum has, at most."""
        if self.direction == "backward_weights":
            return self.dims[0] * prod(self.source)
        channels = self.channels if self.direction == "forward" else self.dims[1]
        return channels // max(self.groups, 1) * prod(self.kernel)


# --- problems -----------------------------------------------------------------------------------------------


def _parse(text: str) -> dict[str, Any]:
    return _parsed(text, is_transposed=False)


def _parse_transposed(text: str) -> dict[str, Any]:
    return _parsed(text, is_transposed=True)


def _parsed(text: str, *, is_transposed: bool) -> dict[str, Any]:
    found = parse_lettered(text, _LETTERS)
    source, kernel, ndims = found.each("i"), found.each("k"), found.ndims
    inputs, outputs, groups = (found.whole(key) for key in ("ic", "oc", "g"))
    if not inputs or not outputs or not ndims or len(source) != ndims or len(kernel) != ndims:
        raise wrong("the problem", text, "ic, oc, a source and a kernel are needed", "ic16oc32_ih14kh3ph1")
    if ("g" in found.numbers and not groups) or (groups and (inputs % groups or outputs % groups)):
        raise wrong("the problem", text, f"{groups} groups of {inputs} and {outputs} channels", "")
    spatial = _spatial(text, found, is_transposed=is_transposed)
    result = spatial.pop("result")
    dims = (found.whole("mb", 2), outputs, *result)
    return {
        "problem": found.text,
        "name": found.name,
        "dims": dims,
        "channels": inputs,
        "groups": groups,
        **spatial,
    }


def _spatial(text: str, found: LetteredProblem, *, is_transposed: bool) -> dict[str, Sizes]:
    """The spatial numbers; the result or the padding follow from the others where they are left out."""
    source, kernel, result = found.each("i"), found.each("k"), found.each("o")
    strides, dilation, padding = found.each("s", 1), found.each("d", 0), found.each("p")
    if not all(strides):
        raise wrong("the problem", text, "a stride of 0", "strides count from 1")
    reach = [(k - 1) * (d + 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    if not result:
        padding = padding or (0,) * len(source)
        parts = zip(source, reach, strides, padding, strict=True)
        result = tuple(
            (i - 1) * s + span - 2 * p if is_transposed else (i - span + 2 * p) // s + 1
            for i, span, s, p in parts
        )
    elif not padding:
        points, windows = (source, result) if is_transposed else (result, source)
        parts = zip(points, windows, reach, strides, strict=True)
        padding = tuple(int(((o - 1) * s - i + span) / 2) for o, i, span, s in parts)
    return {
        "source": source,
        "kernel": kernel,
        "result": result,
        "strides": strides,
        "dilation": dilation,
        "padding": padding,
    }


_KNOBS = {**PRODUCT_KNOBS, "alg": caseless("alg", "direct", "auto", "wino")}


# --- what is run --------------------------------------------------------------------------------------------

_KINDS = {
    ("conv", "forward"): rs.ConvolutionForward,
    ("conv", "backward_data"): rs.ConvolutionBackwardData,
    ("conv", "backward_weights"): rs.ConvolutionBackwardWeights,
    ("deconv", "forward"): rs.DeconvolutionForward,
    ("deconv", "backward_data"): rs.DeconvolutionBackwardData,
    ("deconv", "backward_weights"): rs.DeconvolutionBackwardWeights,
}


def _forward_desc(case: ConvCase, engine: rs.Engine, attr: rs.PrimitiveAttr | None) -> Any:
    kind = "forward_inference" if case.dir == "FWD_I" else "forward_training"
    mds = case.mds
    made = _KINDS[case.driver, "forward"].PrimitiveDesc
    tensors = mds["src"], mds["weights"], mds.get("bias"), mds["dst"]
    return made(engine, kind, f"{case.prefix}_{case.alg}", *tensors, *case.windows, attr)


def _work(case: ConvCase) -> CaseWork:
    direction, mds = case.direction, case.mds
    kind: Any = _KINDS[case.driver, direction]

    def create(engine: rs.Engine, attr: rs.PrimitiveAttr) -> Any:
        if direction == "forward":
            return _forward_desc(case, engine, attr)
        hint = _forward_desc(case, engine, None)
        tensors: tuple[Any, ...] = (mds["src"], mds["weights"], mds["dst"])
        if direction == "backward_weights":
            tensors = (mds["src"], mds["weights"], mds.get("bias"), mds["dst"])
        alg = f"{case.prefix}_{case.alg}"
        return kind.PrimitiveDesc(engine, alg, *tensors, *case.windows, hint_pd=hint, attr=attr)

    return product_work(case, create, kind, _products(case))


# --- the formula --------------------------------------------------------------------------------------------


def _products(case: ConvCase) -> dict[str, Any]:
    if case.driver == "conv":
        return {
            "forward": lambda src, weights: _points(case, src, _grouped(case, weights)),
            "backward_data": lambda dst, weights: _windows(case, dst, _grouped(case, weights)),
            "backward_weights": lambda src, dst: _weights(case, src, dst).reshape(case.weight_dims),
        }
    return {
        "forward": lambda src, weights: _windows(case, src, _turned(_grouped(case, weights))),
        "backward_data": lambda dst, weights: _points(case, dst, _turned(_grouped(case, weights))),
        "backward_weights": lambda src, dst: _turned(_weights(case, dst, src)).reshape(case.weight_dims),
    }


def _grouped(case: ConvCase, weights: Array) -> Array:
    """Weights of groups, even of one."""
    return weights.reshape(-1, *weights.shape[-2 - len(case.kernel) :])


def _turned(weights: Array) -> Array:
    """Weights with the channels of points in front of those of windows, or back."""
    return np.swapaxes(weights, 1, 2)


def _taps(case: ConvCase) -> Iterator[tuple[Tap, Slices, Slices]]:
    """For each tap of the kernel: which elements under windows meet which points."""
    for tap in itertools.product(*map(range, case.kernel)):
        at = [_along(case, dim, step) for dim, step in enumerate(tap)]
        every = (slice(None),) * 3
        yield (*every, *tap), (*every, *(window for window, _ in at)), (*every, *(point for _, point in at))


def _along(case: ConvCase, dim: int, tap: int) -> tuple[slice, slice]:
    stride = case.strides[dim]
    first = tap * (case.dilation[dim] + 1) - case.padding[dim]
    low = max(0, -(first // stride))
    high = min(case.point_sizes[dim], (case.window_sizes[dim] - 1 - first) // stride + 1)
    if high <= low:
        return slice(0, 0), slice(0, 0)
    return slice(first + low * stride, first + (high - 1) * stride + 1, stride), slice(low, high)


def _split(case: ConvCase, x: Array) -> Array:
    """A tensor with its channels in groups."""
    groups = max(case.groups, 1)
    return x.reshape(x.shape[0], groups, x.shape[1] // groups, *x.shape[2:])


def _flat(x: Array) -> Array:
    return x.reshape(*x.shape[:3], -1)


def _points(case: ConvCase, x: Array, weights: Array) -> Array:
    """For each window the sum of what lies under it, times the weights (groups, points, windows, …)."""
    x, sizes = _split(case, x), case.point_sizes
    out = np.zeros((*x.shape[:2], weights.shape[1], *sizes))
    for tap, window, point in _taps(case):
        part = out[point]
        part += (weights[tap] @ _flat(x[window])).reshape(part.shape)
    return out.reshape(len(x), -1, *sizes)


def _windows(case: ConvCase, y: Array, weights: Array) -> Array:
    """For each element under windows the sum of the points that it is part of, times the weights."""
    y, sizes = _split(case, y), case.window_sizes
    out = np.zeros((*y.shape[:2], weights.shape[2], *sizes))
    for tap, window, point in _taps(case):
        part = out[window]
        part += (np.swapaxes(weights[tap], 1, 2) @ _flat(y[point])).reshape(part.shape)
    return out.reshape(len(y), -1, *sizes)


def _weights(case: ConvCase, x: Array, y: Array) -> Array:
    """For each weight the sum of elements under windows times points."""
    x, y = _split(case, x), _split(case, y)
    out = np.zeros((y.shape[1], y.shape[2], x.shape[2], *case.kernel))
    for tap, window, point in _taps(case):
        out[tap] = (_flat(y[point]) @ np.swapaxes(_flat(x[window]), 2, 3)).sum(0)
    return out


def _invalid(case: ConvCase) -> Iterator[str]:
    yield from invalid_product(case)
    if case.alg == "wino":
        yield "Case not supported: --alg=wino, there is direct"


_TEMPLATE = "%dir%,%dt%,%stag%,%dtag%,%alg%,%DESC%"
_MAKE = partial(Driver, types=lambda case: tuple(case.dt), template=_TEMPLATE, invalid=_invalid)
CONV = _MAKE(ConvCase, _KNOBS, _work, parse=_parse)
DECONV = _MAKE(DeconvCase, _KNOBS, _work, parse=_parse_transposed)
