"""Reorder: two descriptors of the same dims -> one loop nest (R09)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, lcm

from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import Unimplemented
from .compute import Compute, Operand
from .nest import Axis, Bound, LoopNest, Stride, linear_table

# Steps after which blocks that do not nest (32 and 48: 6 steps of 16) must meet again.
_LONGEST_TABLE = 1 << 14


@dataclass(frozen=True, slots=True)
class Level:
    """One digit of a dimension in one operand: `step` of the index is `stride` of the offset."""

    step: int
    stride: int


Levels = tuple[Level, ...]
_STILL = (Level(1, 0),)


@dataclass(frozen=True, slots=True)
class Tensor:
    """An operand of the computation: its type, the offset of its first element, the digits of each dim."""

    data_type: DataType
    base: int
    dims: tuple[Levels, ...]

    @classmethod
    def of_desc(cls, md: MemoryDesc) -> Tensor:
        """A tensor that is repeated along its dims of 1 (P06)."""
        dims = range(md.ndims)
        return cls(
            md.data_type, md.offset0, tuple(_STILL if md.dims[d] == 1 else levels(md, d) for d in dims)
        )

    @classmethod
    def of_groups(cls, data_type: DataType, extents: tuple[int, ...], dims: tuple[int, ...]) -> Tensor:
        """A dense row-major tensor of `extents`, each element for a group of `dims[i] // extents[i]`."""
        stride = 1
        found: list[Levels] = []
        for extent, dim in zip(reversed(extents), reversed(dims), strict=True):
            group = dim // max(extent, 1)
            whole = (*_STILL, Level(group, stride)) if group > 1 else (Level(1, stride),)
            found.insert(0, whole if extent > 1 else _STILL)
            stride *= extent
        return cls(data_type, 0, tuple(found))


def reorder_nest(
    src: MemoryDesc, dst: MemoryDesc, compute: Compute, tensors: Sequence[Tensor] = ()
) -> LoopNest:
    """The nest that moves every element of `src` to its place in `dst` and writes zero into the padding of
    `dst`.

    Both descriptors are concrete and of equal dims; the caller has checked both. `tensors` are what
    `compute` reads beside them.
    """
    bounds: list[Bound] = []
    axes: list[Axis] = []
    for dim in range(dst.ndims):
        size, padded = dst.dims[dim], dst.padded_dims[dim]
        digits = _digits([levels(src, dim), levels(dst, dim), *(t.dims[dim] for t in tensors)], padded)
        if _covers(digits, size, padded):
            axes += digits
            continue
        axes += [replace(axis, bound=len(bounds)) for axis in digits]
        bounds.append(Bound(size, padded))
    nest = LoopNest(
        src_type=src.data_type,
        dst_type=dst.data_type,
        axes=tuple(_unbounded(axis) for axis in axes),
        src_base=src.offset0,
        dst_base=dst.offset0,
        compute=compute,
        bounds=tuple(bounds),
        operands=tuple(Operand(t.data_type, t.base) for t in tensors),
    )
    return nest.verify()


def _unbounded(axis: Axis) -> Axis:
    return axis if axis.bound >= 0 else replace(axis, step=0)


def _covers(digits: list[Axis], size: int, padded: int) -> bool:
    return size == padded == digits[0].extent * digits[0].step


def levels(md: MemoryDesc, dim: int) -> Levels:
    """The digits of one dimension, innermost first."""
    found: list[Level] = []
    step, stride = 1, 1
    for block, axis in reversed(tuple(zip(md.inner_blks, md.inner_idxs, strict=True))):
        if axis == dim:
            found.append(Level(step, stride))
            step *= block
        stride *= block
    return (*found, Level(step, md.strides[dim]))


def _digits(sides: list[Levels], padded: int) -> list[Axis]:
    """The coarsest common digits of all operands, outermost first (steps kept for the bound).

    Where block sizes do not nest (32a and 48a), the digits between their common divisor (16) and their common
    multiple (96) become one axis with a table.
    """
    borders = sorted({level.step for side in sides for level in side} - {1})
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
        apart = _apart(borders)
        extent = min(lcm(*apart), -(-padded // step) * step) // step
        if extent > _LONGEST_TABLE:
            raise _too_long(apart, extent)
        axes.insert(0, _moves(extent, [_table(side, step, extent) for side in sides], step))
        step *= extent
        borders = [border for border in borders if border > step] if step < padded else []
    if not axes or isinstance(axes[0].src, int) or padded > step:
        axes.insert(0, _axis(sides, step, -(-padded // step)))
    return axes


def _apart(borders: list[int]) -> list[int]:
    """The fewest of the first borders whose common multiple divides all others."""
    counts = range(2, len(borders) + 1)
    return next(borders[:n] for n in counts if all(b % lcm(*borders[:n]) == 0 for b in borders[n:]))


def _moves(extent: int, strides: list[Stride], step: int) -> Axis:
    src, dst, *more = strides
    return Axis(extent, src, dst, step=step, more=tuple(more))


def _too_long(borders: list[int], extent: int) -> Unimplemented:
    return Unimplemented(
        "reorder: the blocks of src and dst have too little in common",
        why=f"blocks of {' and '.join(map(str, borders))} meet again only after {extent} steps; "
        f"{_LONGEST_TABLE} are provided",
        hint="reorder into a plain format first, and from there into the other blocks",
    )


def _axis(sides: list[Levels], step: int, extent: int) -> Axis:
    return _moves(extent, [_stride(side, step) for side in sides], step)


def _stride(side: Levels, step: int) -> int:
    level = max((level for level in side if level.step <= step), key=lambda level: level.step)
    return level.stride * (step // level.step)


def _table(side: Levels, step: int, extent: int) -> Stride:
    return linear_table(tuple(_offset(side, position * step) for position in range(extent)))


def _offset(side: Levels, index: int) -> int:
    offset = 0
    for level in reversed(side):
        offset += index // level.step * level.stride
        index %= level.step
    return offset
