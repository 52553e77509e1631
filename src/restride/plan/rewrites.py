"""Pure rewrites of loop nests: an axis sliced, bounds peeled off, the normal form.

Each is a function from a nest to another, or to a tuple of nests that together mean the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import prod

from .compute import Compute
from .nest import Axis, LoopNest, Stride


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
    return _moved(replace(nest, axes=axes), (src_base, dst_base, *(base for _, base in more)))


def split_read(nest: LoopNest, index: int) -> tuple[LoopNest, LoopNest]:
    """An axis that is read in part as two: the positions that are read, and those that are zeros.

    `for 5 valid 3`  ->  `for 3`  and  `for 2 valid 0`.
    """
    axis = nest.axes[index]
    read = slice_axis(nest, index, 0, axis.valid)
    return read, slice_axis(nest, index, axis.valid, axis.extent - axis.valid)


def _moved(nest: LoopNest, by: tuple[int, ...]) -> LoopNest:
    """The nest with its bases moved: source, destination, then the operands."""
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
    """A table as a stride where it is one: `(0, 4, 8)` -> `4`."""
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
    """How many boxes `peel` would make, without making them."""
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
    """Boxes (start, extent, valid) per digit that cover the index range [0, padded), reading below `size`."""
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


def normalise(nest: LoopNest) -> LoopNest:
    """The canonical form of a nest without bounds: contiguous axes fused, unit axes dropped, others ordered.

    `for 2: src += 12, dst += 12` around `for 3: src += 4, dst += 4`  ->  `for 6: src += 4, dst += 4`.
    """
    if nest.is_zero:
        return _normalise_zero(nest)
    return _fold_units(replace(nest, axes=_ordered(nest.axes)))


def _normalise_zero(nest: LoopNest) -> LoopNest:
    """Zeros have no source: axes fuse by the destination alone, and one of them says that nothing is read."""
    written = tuple(_forget_source(a) for a in nest.axes)
    whole = _fold_units(replace(nest, axes=_ordered(written), src_base=0, compute=Compute(), operands=()))
    first = whole.axes[0] if whole.axes else Axis(extent=1, src=0, dst=0)
    return replace(whole, axes=(replace(first, valid=0), *whole.axes[1:]))


def _ordered(axes: tuple[Axis, ...]) -> tuple[Axis, ...]:
    units = [a for a in axes if a.extent == 1]
    fused = _fuse_all([a for a in axes if a.extent != 1])
    return (*units, *sorted(fused, key=_outermost_first))


def _fold_units(nest: LoopNest) -> LoopNest:
    """Drop axes of one position; what their tables say goes into the bases."""
    first = [a.offsets(0) for a in nest.axes if a.extent == 1]
    if not first:
        return nest
    kept = replace(nest, axes=tuple(a for a in nest.axes if a.extent != 1))
    sides = range(2 + len(nest.operands))
    return _moved(kept, tuple(sum(offsets[side] for offsets in first) for side in sides))


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
    # Asked of every pair of axes of every box: what most often says no comes first.
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
