"""4-bit types: two elements share a byte, the first in the low half (M18).

Kernels move whole bytes from source to destination. Where elements that share a byte would be written by
different tiles, or a tile would begin in the midst of a byte, the nest runs on bytes of their own instead:
`spread` says how. Operands are read from the half of a byte on that they begin in.

In a byte of its own an integer is one of 8 bits, which holds all its values. A float stays what it is, in the
low half of the byte: as a wider float on its way to 4 bits it would be rounded twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..dtypes import DataType
from .compute import Compute, Operand
from .nest import Axis, LoopNest, Stride
from .stride import multiplied

if TYPE_CHECKING:
    from .schedule import Schedule

Span = tuple[int, int]

_WIDE = {DataType.s4: DataType.s8, DataType.u4: DataType.u8}
# Elements of 4 bits from one byte to the next.
_HALVES = 2


def moves_whole_bytes(plans: Iterable[Schedule]) -> bool:
    """True where every tile begins at a whole byte, and no byte of the destination has two tiles."""
    return all(_reads_bytes(plan) and _writes_bytes(plan) for plan in plans)


def splits_operand(plan: Schedule, index: int) -> bool:
    """True where an operand is of 4 bits and a tile of it may begin in the midst of a byte."""
    operand = plan.nest.operands[index]
    strides = [axis.more[index] for axis in plan.nest.axes]
    return operand.data_type.bits == 4 and not _begins_whole(plan, operand.base, strides)


def _reads_bytes(plan: Schedule) -> bool:
    nest = plan.nest
    if nest.src_type.bits != 4 or nest.is_zero:
        return True
    return _begins_whole(plan, nest.src_base, [axis.src for axis in nest.axes])


def _begins_whole(plan: Schedule, base: int, strides: Iterable[Stride]) -> bool:
    """True where what begins at `base` and moves by `strides` is at a whole byte in every tile."""
    return base % 2 == 0 and all(
        axis.extent <= chunk or _is_even(stride, chunk)
        for axis, stride, chunk in zip(plan.nest.axes, strides, plan.chunks, strict=True)
    )


def _writes_bytes(plan: Schedule) -> bool:
    """Only one axis may move by an odd number: by 1, and in tiles of even extents or in one tile.

    Elements that share a byte then differ along that axis alone, since no two share a place.
    """
    nest = plan.nest
    if nest.dst_type.bits != 4:
        return True
    odd = [i for i, axis in enumerate(nest.axes) if not _is_even(axis.dst, 1)]
    if nest.dst_base % 2 or len(odd) > 1:
        return False
    return all(
        nest.axes[i].dst == 1 and (plan.chunks[i] % 2 == 0 or plan.chunks[i] >= nest.axes[i].extent)
        for i in odd
    )


def _is_even(stride: Stride, chunk: int) -> bool:
    if isinstance(stride, int):
        return stride * chunk % 2 == 0
    return all(offset % 2 == 0 for offset in stride)


@dataclass(frozen=True, slots=True)
class Spread:
    """A nest on elements in bytes of their own, and what lies where.

    `src` and `dst` are (first, count) of the 4-bit elements that are spread, in whole bytes of memory; None
    where that side is none. `reads_old`: the data type that a sum reads the old destination as, from the last
    operand of the nest. `keeps`: the old destination must be there before, since the nest leaves gaps.
    """

    nest: LoopNest
    src: tuple[int, int] | None
    dst: tuple[int, int] | None
    reads_old: DataType | None
    keeps: bool


def spread(nest: LoopNest, src_span: Span, dst_span: Span) -> Spread:
    """`nest` with each 4-bit side in bytes, from its first whole byte on. Spans are [low, high)."""
    made, old = nest, None
    src = dst = None
    if nest.src_type.bits == 4:
        src = _whole_bytes(*src_span)
        kind, step = wide_type(nest.src_type), byte_step(nest.src_type)
        axes = tuple(replace(axis, src=multiplied(axis.src, step)) for axis in made.axes)
        made = replace(made, src_type=kind, src_base=(nest.src_base - src[0]) * step, axes=axes)
    if nest.dst_type.bits == 4:
        dst = _whole_bytes(*dst_span)
        if nest.compute.summed:
            made, old = _sum_from_operand(made, dst[0])
        kind, step = wide_type(nest.dst_type), byte_step(nest.dst_type)
        axes = tuple(replace(axis, dst=multiplied(axis.dst, step)) for axis in made.axes)
        made = replace(made, dst_type=kind, dst_base=(nest.dst_base - dst[0]) * step, axes=axes)
    return Spread(made, src, dst, old, dst is not None and not _fills(nest, dst[1]))


def _whole_bytes(low: int, high: int) -> tuple[int, int]:
    start = low - low % 2
    return start, high - start


def _fills(nest: LoopNest, count: int) -> bool:
    return not nest.bounds and nest.positions == count


def _sum_from_operand(nest: LoopNest, first: int) -> tuple[LoopNest, DataType]:
    """Let the sum read the old destination from an operand of its own, which lies as the destination does."""
    index = len(nest.operands)
    old = next(step.data_type or nest.dst_type for step in nest.compute.steps if step.is_sum)
    steps = tuple(
        replace(step, operand=index, data_type=None) if step.is_sum else step for step in nest.compute.steps
    )
    each = byte_step(old)
    axes = tuple(replace(axis, more=(*axis.more, multiplied(axis.dst, each))) for axis in nest.axes)
    operand = Operand(wide_type(old), (nest.dst_base - first) * each)
    made = replace(nest, compute=Compute(steps), axes=axes, operands=(*nest.operands, operand))
    return made, old


def in_pairs(nest: LoopNest) -> LoopNest:
    """A nest that moves elements and those that share their bytes together, on bytes; others as they are.

    `s4: for 6: src += 8, dst += 8, for 8: src += 1, dst += 1`  ->  `u8: for 6: src += 4, ..., for 4: ...`.
    """
    if nest.src_type.bits != 4 or nest.dst_type is not nest.src_type or not nest.compute.is_move:
        return nest
    along = next((i for i, axis in enumerate(nest.axes) if axis.src == axis.dst == 1), None)
    if along is None or nest.axes[along].extent % 2 or not nest.axes[along].is_whole:
        return nest
    others = [axis for i, axis in enumerate(nest.axes) if i != along]
    sides = [stride for axis in others for stride in (axis.src, axis.dst)]
    if not all(_is_even(stride, 1) for stride in (nest.src_base, nest.dst_base, *sides)):
        return nest
    pairs = replace(nest.axes[along], extent=nest.axes[along].extent // 2, valid=nest.axes[along].valid // 2)
    halved = (replace(axis, src=_half(axis.src), dst=_half(axis.dst)) for axis in others)
    axes = list(halved)
    axes.insert(along, pairs)
    bases = nest.src_base // 2, nest.dst_base // 2
    return LoopNest(DataType.u8, DataType.u8, tuple(axes), *bases)


def _half(stride: Stride) -> Stride:
    return stride // 2 if isinstance(stride, int) else tuple(offset // 2 for offset in stride)


def unpacking(data_type: DataType, count: int) -> LoopNest:
    """The nest that gives `count` packed elements a byte each."""
    return LoopNest(data_type, wide_type(data_type), (Axis(count, 1, byte_step(data_type)),))


def packing(data_type: DataType, count: int) -> LoopNest:
    """The nest that packs `count` elements that have a byte each."""
    return LoopNest(wide_type(data_type), data_type, (Axis(count, byte_step(data_type), 1),))


def wide_type(data_type: DataType) -> DataType:
    """The type of an element of a 4-bit type in a byte of its own."""
    return _WIDE.get(data_type, data_type)


def byte_step(data_type: DataType) -> int:
    """How many elements of `wide_type` a byte is."""
    return 1 if data_type in _WIDE else _HALVES
