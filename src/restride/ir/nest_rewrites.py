"""Pure rewrites of loop nests: axes sliced, bounds peeled off, the normal form, 4-bit elements as bytes.

Each is a function from a nest to another, or to a tuple of nests that together have the same meaning.

Kernels move whole bytes from source to destination. If different tiles would write elements that share a
byte, or a tile would begin inside a byte, the nest runs on unpacked elements instead, a byte each: see
`byte_nest`. Operands are read from the half of a byte in which they begin.

Unpacked, an integer becomes an 8-bit one, which holds all its values. A float keeps its type, in the low half
of the byte: as a wider float that later becomes a 4-bit one, it would be rounded twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import prod

from ..dtypes import DataType
from ..frozen import dataclass
from .nest import Axis, Compute, LoopNest, Operand, Stride, multiplied

# --- rewrites ----------------------------------------------------------------
# Pure rewrites of loop nests: an axis sliced, bounds peeled off, the normal form.


def slice_axis(nest: LoopNest, index: int, start: int, extent: int, valid: int | None = None) -> LoopNest:
    """Keep the positions [start, start + extent) of one axis and move the bases.

    `for 5: src += 3` with start 2, extent 3  ->  base + 6, `for 3: src += 3`.
    """
    axis = nest.axes[index]
    whole = min(max(axis.valid - start, 0), extent) if valid is None else valid
    if axis.is_linear and (start, extent, whole) == (0, axis.extent, axis.valid):
        return nest
    (src, src_base), (dst, dst_base), *more = (_slice(stride, start, extent) for stride in axis.sides)
    kept = replace(
        axis, extent=extent, valid=whole, src=src, dst=dst, more=tuple(stride for stride, _ in more)
    )
    axes = (*nest.axes[:index], kept, *nest.axes[index + 1 :])
    return _move_bases(replace(nest, axes=axes), (src_base, dst_base, *(base for _, base in more)))


def split_read(nest: LoopNest, index: int) -> tuple[LoopNest, LoopNest]:
    """Split a partly read axis in two: the positions that are read, and those that are zeros.

    `for 5 valid 3`  ->  `for 3`  and  `for 2 valid 0`.
    """
    axis = nest.axes[index]
    read = slice_axis(nest, index, 0, axis.valid)
    return read, slice_axis(nest, index, axis.valid, axis.extent - axis.valid)


def _move_bases(nest: LoopNest, by: tuple[int, ...]) -> LoopNest:
    """Return the nest with its bases moved: source, destination, then the operands."""
    if not any(by):
        return nest
    src, dst, *more = by
    operands = tuple(replace(x, base=x.base + move) for x, move in zip(nest.operands, more, strict=True))
    return replace(nest, src_base=nest.src_base + src, dst_base=nest.dst_base + dst, operands=operands)


def _slice(stride: Stride, start: int, extent: int) -> tuple[Stride, int]:
    if isinstance(stride, int):
        return stride, stride * start
    table = stride[start : start + extent]
    base = table[0] if table else 0
    return linear_table(tuple(offset - base for offset in table)), base


def linear_table(table: tuple[int, ...]) -> Stride:
    """Return a table as a stride if it is one: `(0, 4, 8)` -> `4`."""
    if len(table) < 2:
        return 0
    stride = table[1] - table[0]
    is_line = table[0] == 0 and all(b - a == stride for a, b in pairwise(table))
    return stride if is_line else table


def peel(nest: LoopNest) -> tuple[LoopNest, ...]:
    """Split a bounded nest into nests without bounds, each a plain box that reads or writes zero.

    `for 2 (dim 0 step 16): for 16 (dim 0 step 1)`, read below 17, zero below 32
    ->  `for 1: for 16`  and  `for 1: for 16 valid 1`.
    """
    boxes: tuple[LoopNest, ...] = (nest,)
    for bound in range(len(nest.bounds)):
        boxes = tuple(box for whole in boxes for box in _peel_bound(whole, bound))
    return tuple(_unbound(box) for box in boxes if not box.is_empty)


def peeled_boxes(nest: LoopNest) -> int:
    """Return the number of boxes that `peel` would build, without building them."""
    return prod(sum(1 for _ in _cover(*_radix(nest, i))) for i in range(len(nest.bounds)))


def _unbound(nest: LoopNest) -> LoopNest:
    if not nest.bounds:
        return nest
    axes = tuple(a if a.bound < 0 else replace(a, bound=-1, step=0) for a in nest.axes)
    return replace(nest, axes=axes, bounds=())


def _radix(nest: LoopNest, bound: int) -> tuple[list[tuple[int, int]], int, int]:
    axes = sorted((a for a in nest.axes if a.bound == bound), key=lambda a: -a.step)
    limits = nest.bounds[bound]
    return [(a.step, a.extent) for a in axes], limits.size, limits.padded


def _peel_bound(nest: LoopNest, bound: int) -> Iterator[LoopNest]:
    digits, size, padded = _radix(nest, bound)
    order = [
        next(i for i, a in enumerate(nest.axes) if a.bound == bound and a.step == step and a.extent == extent)
        for step, extent in digits
    ]
    if not order:
        yield nest
        return
    for piece in _cover(digits, size, padded):
        box = nest
        for index, (start, extent, valid) in zip(order, piece, strict=True):
            box = slice_axis(box, index, start, extent, valid)
        yield box


Piece = tuple[tuple[int, int, int], ...]


def _cover(digits: list[tuple[int, int]], size: int, padded: int) -> Iterator[Piece]:
    """Yield boxes (start, extent, valid) per digit covering the indices [0, padded), read below `size`."""
    if not digits:
        yield ()
        return
    (step, _), inner = digits[0], digits[1:]
    if not inner and step == 1:
        yield ((0, padded, size),)
        return
    whole = tuple((0, extent, extent) for _, extent in inner)
    full, first_zero, end = size // step, -(-size // step), padded // step
    if full:
        yield ((0, full, full), *whole)
    if size % step:
        rest = min(padded - full * step, step)
        yield from (((full, 1, 1), *piece) for piece in _cover(inner, size % step, rest))
    if end > first_zero:
        yield ((first_zero, end - first_zero, 0), *whole)
    if padded % step and end >= first_zero:
        yield from (((end, 1, 0), *piece) for piece in _cover(inner, padded % step, padded % step))


def normalize(nest: LoopNest) -> LoopNest:
    """Return the canonical form of an unbounded nest: contiguous axes fused, unit axes dropped, sorted.

    `for 2: src += 12, dst += 12` around `for 3: src += 4, dst += 4`  ->  `for 6: src += 4, dst += 4`.
    """
    if nest.is_zero:
        return _normalize_zero(nest)
    return _fold_units(replace(nest, axes=_fuse_and_sort(nest.axes)))


def _normalize_zero(nest: LoopNest) -> LoopNest:
    """Zeros have no source: axes fuse by the destination alone, and one axis marks that nothing is read."""
    written = tuple(_forget_source(a) for a in nest.axes)
    whole = _fold_units(
        replace(nest, axes=_fuse_and_sort(written), src_base=0, compute=Compute(), operands=())
    )
    first = whole.axes[0] if whole.axes else Axis(extent=1, src=0, dst=0)
    return replace(whole, axes=(replace(first, valid=0), *whole.axes[1:]))


def _fuse_and_sort(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    units = [a for a in axes if a.extent == 1]
    fused = _fuse_all([a for a in axes if a.extent != 1])
    return (*units, *sorted(fused, key=_outermost_first))


def _fold_units(nest: LoopNest) -> LoopNest:
    """Drop axes of one position; their table entries go into the bases."""
    first = [a.offsets(0) for a in nest.axes if a.extent == 1]
    if not first:
        return nest
    kept = replace(nest, axes=tuple(a for a in nest.axes if a.extent != 1))
    sides = range(2 + len(nest.operands))
    return _move_bases(kept, tuple(sum(offsets[side] for offsets in first) for side in sides))


def _forget_source(axis: Axis) -> Axis:
    return replace(axis, src=0, bound=-1, step=0, valid=axis.extent, more=())


def _outermost_first(axis: Axis) -> tuple[int, int]:
    return -_reach(axis.dst), -_reach(axis.src)


def _reach(stride: Stride) -> int:
    return abs(stride) if isinstance(stride, int) else max(map(abs, stride), default=0)


def _fuse_all(axes: list[Axis]) -> list[Axis]:
    for outer in axes:
        for inner in axes:
            if outer is not inner and _fusable(outer, inner):
                rest = [a for a in axes if a is not outer and a is not inner]
                return _fuse_all([*rest, _fuse(outer, inner)])
    return axes


def _fusable(outer: Axis, inner: Axis) -> bool:
    # Evaluated for every pair of axes of every box: the test that fails most often comes first.
    extent = inner.extent
    return (
        inner.valid == extent
        and _follows(outer.dst, inner.dst, extent)
        and _follows(outer.src, inner.src, extent)
        and all(_follows(before, after, extent) for before, after in zip(outer.more, inner.more, strict=True))
    )


def _follows(outer: Stride, inner: Stride, extent: int) -> bool:
    return isinstance(outer, int) and isinstance(inner, int) and outer == inner * extent


def _fuse(outer: Axis, inner: Axis) -> Axis:
    return replace(inner, extent=outer.extent * inner.extent, valid=outer.valid * inner.extent)


# --- 4-bit elements ----------------------------------------------------------
# 4-bit types: two elements share a byte, the first in the low half.

Span = tuple[int, int]

_WIDE = {DataType.s4: DataType.s8, DataType.u4: DataType.u8}
# The 4-bit elements in a byte.
_HALVES = 2


def is_even(stride: Stride, chunk: int) -> bool:
    """Return whether this many positions make a whole number of bytes."""
    if isinstance(stride, int):
        return stride * chunk % 2 == 0
    return all(offset % 2 == 0 for offset in stride)


@dataclass(frozen=True, slots=True)
class ByteNest:
    """A nest on elements unpacked to bytes, and the location of packed ones.

    `src` and `dst` are (first, count) of the 4-bit elements that are unpacked, in whole bytes of memory; None
    for a side that is not packed. `reads_old`: the data type as which a sum reads the old destination, from
    the last operand of the nest. `keeps_gaps`: the old destination must be loaded, as the nest leaves gaps.
    """

    nest: LoopNest
    src: tuple[int, int] | None
    dst: tuple[int, int] | None
    reads_old: DataType | None
    keeps_gaps: bool


def byte_nest(nest: LoopNest, src_span: Span, dst_span: Span) -> ByteNest:
    """Return `nest` with each 4-bit side in bytes, from its first whole byte on. Spans are [low, high)."""
    made, old = nest, None
    src = dst = None
    if nest.src_type.bits == 4:
        src = _whole_bytes(*src_span)
        kind, step = wide_type(nest.src_type), byte_step(nest.src_type)
        axes = tuple(replace(axis, src=multiplied(axis.src, step)) for axis in made.axes)
        made = replace(made, src_type=kind, src_base=(nest.src_base - src[0]) * step, axes=axes)
    if nest.dst_type.bits == 4:
        dst = _whole_bytes(*dst_span)
        if nest.compute.reads_destination:
            made, old = _sum_from_operand(made, dst[0])
        kind, step = wide_type(nest.dst_type), byte_step(nest.dst_type)
        axes = tuple(replace(axis, dst=multiplied(axis.dst, step)) for axis in made.axes)
        made = replace(made, dst_type=kind, dst_base=(nest.dst_base - dst[0]) * step, axes=axes)
    return ByteNest(made, src, dst, old, dst is not None and not _fills(nest, dst[1]))


def _whole_bytes(low: int, high: int) -> tuple[int, int]:
    start = low - low % 2
    return start, high - start


def _fills(nest: LoopNest, count: int) -> bool:
    return not nest.bounds and nest.positions == count


def _sum_from_operand(nest: LoopNest, first: int) -> tuple[LoopNest, DataType]:
    """Let the sum read the old destination from a separate operand with the destination's layout."""
    index = len(nest.operands)
    old = next(step.data_type or nest.dst_type for step in nest.compute.steps if step.is_sum)
    steps = tuple(
        replace(step, operand=index, data_type=None) if step.is_sum else step for step in nest.compute.steps
    )
    each = byte_step(old)
    axes = tuple(replace(axis, more=(*axis.more, multiplied(axis.dst, each))) for axis in nest.axes)
    operand = Operand(wide_type(old), (nest.dst_base - first) * each)
    result = replace(nest, compute=Compute(steps), axes=axes, operands=(*nest.operands, operand))
    return result, old


def in_pairs(nest: LoopNest) -> LoopNest:
    """Return a nest that moves elements sharing a byte together, on bytes; other nests unchanged.

    `s4: for 6: src += 8, dst += 8, for 8: src += 1, dst += 1`  ->  `u8: for 6: src += 4, ..., for 4: ...`.
    """
    if nest.src_type.bits != 4 or nest.dst_type is not nest.src_type or not nest.compute.is_move:
        return nest
    along = next((i for i, axis in enumerate(nest.axes) if axis.src == axis.dst == 1), None)
    if along is None or nest.axes[along].extent % 2 or not nest.axes[along].is_whole:
        return nest
    others = [axis for i, axis in enumerate(nest.axes) if i != along]
    sides = [stride for axis in others for stride in (axis.src, axis.dst)]
    if not all(is_even(stride, 1) for stride in (nest.src_base, nest.dst_base, *sides)):
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
    """Return the nest that unpacks `count` elements to a byte each."""
    return LoopNest(data_type, wide_type(data_type), (Axis(count, 1, byte_step(data_type)),))


def packing(data_type: DataType, count: int) -> LoopNest:
    """Return the nest that packs `count` elements of a byte each."""
    return LoopNest(wide_type(data_type), data_type, (Axis(count, byte_step(data_type), 1),))


def wide_type(data_type: DataType) -> DataType:
    """Return the type of an unpacked element of a 4-bit type."""
    return _WIDE.get(data_type, data_type)


def byte_step(data_type: DataType) -> int:
    """Return the number of elements of `wide_type` in a byte."""
    return 1 if data_type in _WIDE else _HALVES
