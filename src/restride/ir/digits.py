"""Reorder: from two descriptors of the same dims to one loop nest over the digits of their indices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import gcd, lcm
from typing import Any, TypeVar

import numpy as np

from ..desc.layout import layout_digits
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import refuse
from ..frozen import dataclass
from .nest import Axis, Bound, Compute, LoopNest, Operand, Stride
from .nest_rewrites import linear_table

Array = np.ndarray[Any, np.dtype[Any]]
Index = TypeVar("Index", int, Array)

# --- digits ------------------------------------------------------------------
# The digits of an index along one dimension: how far each moves in one operand.


@dataclass(frozen=True, slots=True)
class IndexDigit:
    """One digit of a dimension in one operand: each `step` of the index moves the offset by `stride`."""

    step: int
    stride: int


IndexDigits = tuple[IndexDigit, ...]


def index_digits(md: MemoryDesc, dim: int) -> IndexDigits:
    """Return the digits of one dimension, the least significant first."""
    levels = (level for level in layout_digits(md.layout) if level.axis == dim)
    return tuple(IndexDigit(level.weight, level.stride) for level in sorted(levels, key=lambda v: v.weight))


def stride_at(of: IndexDigits, step: int) -> int:
    """Return how far the offset moves for `step` of the index, while no higher digit is reached."""
    level = max((level for level in of if level.step <= step), key=lambda level: level.step)
    return level.stride * (step // level.step)


def offset_at(of: IndexDigits, index: Index) -> Index:
    """Return the offset of an index, or offsets of an array of indices."""
    offset = index * 0
    for level in reversed(of):
        offset = offset + index // level.step * level.stride
        index = index % level.step
    return offset


def offsets(of: IndexDigits, indices: Iterable[int]) -> Stride:
    """Return the offsets of indices: a stride if they are evenly spaced from 0, else a table."""
    return linear_table(tuple(offset_at(of, index) for index in indices))


# --- reorder -----------------------------------------------------------------
# Reorder: from two descriptors of the same dims to one loop nest.

# The steps after which blocks that do not nest (32 and 48: 6 steps of 16) must realign, or the dim end. The
# code contains an 8-byte offset for each step and operand: more would not fit the code store, and would take
# many seconds to compile.
_LONGEST_TABLE = 1 << 20


_NO_MOVE = (IndexDigit(1, 0),)


@dataclass(frozen=True, slots=True)
class TensorOperand:
    """An operand of the computation: its type, the offset of its first element, the digits of each dim."""

    data_type: DataType
    base: int
    dims: tuple[IndexDigits, ...]

    @classmethod
    def of_desc(cls, md: MemoryDesc) -> TensorOperand:
        """Return a tensor that is broadcast along its dims of 1."""
        dims = range(md.ndims)
        return cls(
            md.data_type,
            md.offset0,
            tuple(_NO_MOVE if md.dims[d] == 1 else index_digits(md, d) for d in dims),
        )

    @classmethod
    def of_groups(
        cls, data_type: DataType, extents: tuple[int, ...], dims: tuple[int, ...], base: int = 0
    ) -> TensorOperand:
        """Return a row-major tensor of `extents`: an element for each group of `dims[i] // extents[i]`."""
        stride = 1
        found: list[IndexDigits] = []
        for extent, dim in zip(reversed(extents), reversed(dims), strict=True):
            group = dim // max(extent, 1)
            whole = (*_NO_MOVE, IndexDigit(group, stride)) if group > 1 else (IndexDigit(1, stride),)
            found.insert(0, whole if extent > 1 else _NO_MOVE)
            stride *= extent
        return cls(data_type, base, tuple(found))


def reorder_nest(
    src: MemoryDesc, dst: MemoryDesc, compute: Compute, tensors: Sequence[TensorOperand] = ()
) -> LoopNest:
    """Return the nest that moves every element of `src` and writes zero into the padding of `dst`.

    Both descriptors are concrete, checked and of equal dims. `tensors` are the further tensors that `compute`
    reads.
    """
    dims = [
        digits_of([index_digits(src, dim), index_digits(dst, dim), *(t.dims[dim] for t in tensors)], padded)
        for dim, padded in enumerate(dst.padded_dims)
    ]
    return nest_of(src, dst, compute, dims, tensors)


def nest_of(
    src: MemoryDesc,
    dst: MemoryDesc,
    compute: Compute,
    dims: Sequence[list[Axis]],
    tensors: Sequence[TensorOperand] = (),
) -> LoopNest:
    """Return the nest of the digits of each dimension, outermost first; their steps count dst's index."""
    bounds: list[Bound] = []
    axes: list[Axis] = []
    for digits, size, padded in zip(dims, dst.dims, dst.padded_dims, strict=True):
        axes += axes_of_digits(digits, size, padded, bounds)
    nest = LoopNest(
        src_type=src.data_type,
        dst_type=dst.data_type,
        axes=tuple(axes),
        src_base=src.offset0,
        dst_base=dst.offset0,
        compute=compute,
        bounds=tuple(bounds),
        operands=tuple(Operand(t.data_type, t.base) for t in tensors),
    )
    return nest.verify()


def axes_of_digits(digits: list[Axis], size: int, padded: int, bounds: list[Bound]) -> list[Axis]:
    """Return the axes of a dimension's digits, with a new bound if they do not cover it exactly."""
    if size == padded == digits[0].extent * digits[0].step:
        return [replace(axis, step=0) for axis in digits]
    bounds.append(Bound(size, padded))
    return [replace(axis, bound=len(bounds) - 1) for axis in digits]


def common_digits(src: MemoryDesc, dst: MemoryDesc, dim: int) -> list[Axis]:
    """Return the digits of a dimension whose index is the same in both operands."""
    return digits_of([index_digits(src, dim), index_digits(dst, dim)], dst.padded_dims[dim])


def digits_of(sides: Sequence[IndexDigits], padded: int) -> list[Axis]:
    """Return the coarsest common digits of all operands, outermost first (steps kept for the bound).

    If block sizes do not nest (32a and 48a), the digits between their common divisor (16) and their common
    multiple (96) become one axis with a table.
    """
    # An empty dim has no blocks that could be misaligned.
    borders = sorted({level.step for side in sides for level in side} - {1}) if padded else []
    axes: list[Axis] = []
    step = 1
    while borders:
        common = gcd(*borders)
        if common > step:
            axes.insert(0, _axis(sides, step, common // step))
        step = common
        if common in borders:
            borders.remove(common)
            continue
        apart = _fewest_borders(borders)
        extent = min(lcm(*apart), -(-padded // step) * step) // step
        if extent > _LONGEST_TABLE:
            raise refuse(
                "RS-L01:blocks-src-dst",
                apart=" and ".join(map(str, apart)),
                extent=extent,
                longest_table=_LONGEST_TABLE,
            )
        places = range(0, extent * step, step)
        axes.insert(0, _moves(extent, [offsets(side, places) for side in sides], step))
        step *= extent
        borders = [border for border in borders if border > step] if step < padded else []
    if not axes or isinstance(axes[0].src, int) or padded > step:
        axes.insert(0, _axis(sides, step, -(-padded // step)))
    return axes


def _fewest_borders(borders: list[int]) -> list[int]:
    """Return the shortest prefix of borders whose common multiple divides all others."""
    counts = range(2, len(borders) + 1)
    return next(borders[:n] for n in counts if all(b % lcm(*borders[:n]) == 0 for b in borders[n:]))


def _moves(extent: int, strides: list[Stride], step: int) -> Axis:
    src, dst, *more = strides
    return Axis(extent, src, dst, step=step, more=tuple(more))


def _axis(sides: Sequence[IndexDigits], step: int, extent: int) -> Axis:
    return _moves(extent, [stride_at(side, step) for side in sides], step)
