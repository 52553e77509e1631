"""Reorder: two descriptors of the same dims -> one loop nest (R09)."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, lcm

from ..desc.memory_desc import MemoryDesc
from ..errors import Unimplemented
from .nest import Axis, Bound, Compute, LoopNest, Stride, linear_table

# Steps after which blocks that do not nest (32 and 48: 6 steps of 16) must meet again.
_LONGEST_TABLE = 1 << 14


@dataclass(frozen=True, slots=True)
class _Level:
    """One digit of a dimension in one operand: `step` of the index is `stride` of the offset."""

    step: int
    stride: int


def reorder_nest(src: MemoryDesc, dst: MemoryDesc, compute: Compute) -> LoopNest:
    """The nest that moves every element of `src` to its place in `dst` and writes zero into the padding of
    `dst`.

    Both descriptors are concrete and of equal dims; the caller has checked both.
    """
    bounds: list[Bound] = []
    axes: list[Axis] = []
    for dim in range(dst.ndims):
        size, padded = dst.dims[dim], dst.padded_dims[dim]
        digits = _digits(_levels(src, dim), _levels(dst, dim), padded)
        if _covers(digits, size, padded):
            axes += digits
            continue
        axes += [_bounded(axis, len(bounds)) for axis in digits]
        bounds.append(Bound(size, padded))
    nest = LoopNest(
        src_type=src.data_type,
        dst_type=dst.data_type,
        axes=tuple(_unbounded(axis) for axis in axes),
        src_base=src.offset0,
        dst_base=dst.offset0,
        compute=compute,
        bounds=tuple(bounds),
    )
    return nest.verify()


def _bounded(axis: Axis, bound: int) -> Axis:
    return Axis(axis.extent, axis.src, axis.dst, bound=bound, step=axis.step)


def _unbounded(axis: Axis) -> Axis:
    return axis if axis.bound >= 0 else Axis(axis.extent, axis.src, axis.dst)


def _covers(digits: list[Axis], size: int, padded: int) -> bool:
    return size == padded == digits[0].extent * digits[0].step


def _levels(md: MemoryDesc, dim: int) -> list[_Level]:
    """The digits of one dimension, innermost first."""
    levels: list[_Level] = []
    step, stride = 1, 1
    for block, axis in reversed(tuple(zip(md.inner_blks, md.inner_idxs, strict=True))):
        if axis == dim:
            levels.append(_Level(step, stride))
            step *= block
        stride *= block
    levels.append(_Level(step, md.strides[dim]))
    return levels


def _digits(src: list[_Level], dst: list[_Level], padded: int) -> list[Axis]:
    """The coarsest common digits of both operands, outermost first (steps kept for the bound).

    Where block sizes do not nest (32a and 48a), the digits between their common divisor (16) and their common
    multiple (96) become one axis with a table.
    """
    borders = sorted({level.step for level in (*src, *dst)} - {1})
    axes: list[Axis] = []
    step = 1
    while borders:
        common = gcd(*borders)
        if common > step:
            axes.insert(0, _axis(src, dst, step, common // step))
        step = common
        if common not in borders:
            break
        borders.remove(common)
    if borders:
        extent = min(lcm(*borders), -(-padded // step) * step) // step
        if extent > _LONGEST_TABLE:
            raise _too_long(borders, extent)
        axes.insert(0, Axis(extent, _table(src, step, extent), _table(dst, step, extent), step=step))
        step *= extent
    if not borders or padded > step:
        axes.insert(0, _axis(src, dst, step, -(-padded // step)))
    return axes


def _too_long(borders: list[int], extent: int) -> Unimplemented:
    return Unimplemented(
        "reorder: the blocks of src and dst have too little in common",
        why=f"blocks of {' and '.join(map(str, borders))} meet again only after {extent} steps; "
        f"{_LONGEST_TABLE} are provided",
        hint="reorder into a plain format first, and from there into the other blocks",
    )


def _axis(src: list[_Level], dst: list[_Level], step: int, extent: int) -> Axis:
    return Axis(extent, _stride(src, step), _stride(dst, step), step=step)


def _stride(levels: list[_Level], step: int) -> int:
    level = max((level for level in levels if level.step <= step), key=lambda level: level.step)
    return level.stride * (step // level.step)


def _table(levels: list[_Level], step: int, extent: int) -> Stride:
    return linear_table(tuple(_offset(levels, position * step) for position in range(extent)))


def _offset(levels: list[_Level], index: int) -> int:
    offset = 0
    for level in reversed(levels):
        offset += index // level.step * level.stride
        index %= level.step
    return offset
