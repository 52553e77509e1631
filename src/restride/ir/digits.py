"""Reorder: two descriptors of the same dims -> one loop nest of the digits of their indices."""

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
    """One digit of a dimension in one operand: `step` of the index is `stride` of the offset."""

    step: int
    stride: int


IndexDigits = tuple[IndexDigit, ...]


def index_digits(md: MemoryDesc, dim: int) -> IndexDigits:
    """The digits of one dimension, the least significant first."""
    levels = (level for level in layout_digits(md.layout) if level.axis == dim)
    return tuple(IndexDigit(level.weight, level.stride) for level in sorted(levels, key=lambda v: v.weight))


def stride_at(of: IndexDigits, step: int) -> int:
    """How far the offset moves for `step` of the index, while no digit above is reached."""
    level = max((level for level in of if level.step <= step), key=lambda level: level.step)
    return level.stride * (step // level.step)


def offset_at(of: IndexDigits, index: Index) -> Index:
    """The offset of an index; of an array of indices the offsets."""
    offset = index * 0
    for level in reversed(of):
        offset = offset + index // level.step * level.stride
        index = index % level.step
    return offset


def offsets(of: IndexDigits, indices: Iterable[int]) -> Stride:
    """The offsets of some indices: a stride where they are evenly spaced from 0, else a table."""
    return linear_table(tuple(offset_at(of, index) for index in indices))


# --- reorder -----------------------------------------------------------------
# Reorder: two descriptors of the same dims -> one loop nest.

# Steps after which blocks that do not nest (32 and 48: 6 steps of 16) must meet again, or the dim end. The
# code holds an offset of 8 bytes for each step and operand: more would not fit the store of code, and take
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
        """A tensor that is repeated along its dims of 1."""
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
        """A dense row-major tensor of `extents`, each element for a group of `dims[i] // extents[i]`."""
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
    """The nest that moves every element of `src` to its place in `dst` and writes zero into the padding of
    `dst`.

    Both descriptors are concrete and of equal dims; the caller has checked both. `tensors` are what
    `compute` reads beside them.
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
    """The nest of the digits of each dimension, outermost first; their steps count the index in `dst`."""
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
    """The axes of a dimension's digits; where they do not cover it exactly, with a new bound."""
    if size == padded == digits[0].extent * digits[0].step:
        return [replace(axis, step=0) for axis in digits]
    bounds.append(Bound(size, padded))
    return [replace(axis, bound=len(bounds) - 1) for axis in digits]


def common_digits(src: MemoryDesc, dst: MemoryDesc, dim: int) -> list[Axis]:
    """The digits of a dimension whose index is the same in both operands."""
    return digits_of([index_digits(src, dim), index_digits(dst, dim)], dst.padded_dims[dim])


def digits_of(sides: Sequence[IndexDigits], padded: int) -> list[Axis]:
    """The coarsest common digits of all operands, outermost first (steps kept for the bound).

    Where block sizes do not nest (32a and 48a), the digits between their common divisor (16) and their common
    multiple (96) become one axis with a table.
    """
    # A dim without positions has no blocks that could be apart.
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
    """The fewest of the first borders whose common multiple divides all others."""
    counts = range(2, len(borders) + 1)
    return next(borders[:n] for n in counts if all(b % lcm(*borders[:n]) == 0 for b in borders[n:]))


def _moves(extent: int, strides: list[Stride], step: int) -> Axis:
    src, dst, *more = strides
    return Axis(extent, src, dst, step=step, more=tuple(more))


def _axis(sides: Sequence[IndexDigits], step: int, extent: int) -> Axis:
    return _moves(extent, [stride_at(side, step) for side in sides], step)
