"""Reorder: two descriptors of the same dims -> one loop nest (R09)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, lcm

from ..desc.memory_desc import MemoryDesc
from ..errors import Unimplemented
from .digits import Level, levels, offsets, stride_at
from .nest import Axis, Bound, Compute, LoopNest

# Steps after which blocks that do not nest (32 and 48: 6 steps of 16) must meet again.
_LONGEST_TABLE = 1 << 14


def reorder_nest(src: MemoryDesc, dst: MemoryDesc, compute: Compute) -> LoopNest:
    """The nest that moves every element of `src` to its place in `dst` and writes zero into the padding of
    `dst`.

    Both descriptors are concrete and of equal dims; the caller has checked both.
    """
    return nest_of(src, dst, compute, [common_digits(src, dst, dim) for dim in range(dst.ndims)])


def nest_of(src: MemoryDesc, dst: MemoryDesc, compute: Compute, dims: Sequence[list[Axis]]) -> LoopNest:
    """The nest of the digits of each dimension, outermost first; their steps count the index in `dst`."""
    bounds: list[Bound] = []
    axes: list[Axis] = []
    for digits, size, padded in zip(dims, dst.dims, dst.padded_dims, strict=True):
        axes += bounded(digits, size, padded, bounds)
    nest = LoopNest(
        src_type=src.data_type,
        dst_type=dst.data_type,
        axes=tuple(axes),
        src_base=src.offset0,
        dst_base=dst.offset0,
        compute=compute,
        bounds=tuple(bounds),
    )
    return nest.verify()


def bounded(digits: list[Axis], size: int, padded: int, bounds: list[Bound]) -> list[Axis]:
    """The axes of a dimension's digits; where they do not cover it exactly, with a new bound."""
    if size == padded == digits[0].extent * digits[0].step:
        return [Axis(axis.extent, axis.src, axis.dst) for axis in digits]
    bounds.append(Bound(size, padded))
    return [replace(axis, bound=len(bounds) - 1) for axis in digits]


def common_digits(src: MemoryDesc, dst: MemoryDesc, dim: int) -> list[Axis]:
    """The digits of a dimension whose index is the same in both operands."""
    return digits_of(levels(src, dim), levels(dst, dim), dst.padded_dims[dim])


def digits_of(src: list[Level], dst: list[Level], padded: int) -> list[Axis]:
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
        places = range(0, extent * step, step)
        axes.insert(0, Axis(extent, offsets(src, places), offsets(dst, places), step=step))
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


def _axis(src: list[Level], dst: list[Level], step: int, extent: int) -> Axis:
    return Axis(extent, stride_at(src, step), stride_at(dst, step), step=step)
