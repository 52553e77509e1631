"""Concat: from a source and its window of the destination to loop nests.

A window is a range of indices along one axis. If it begins at a whole block of the destination, it is one
nest. If it begins inside a block, or the source's blocks are not aligned with the destination's, it is cut
into pieces within which both sides count their digits from zero. Pieces that never align repeat with a
period, the least common multiple of the blocks, and one nest moves all repetitions of a piece::

    a source of 40 after 5 others, both sides in blocks of 16
    ->  for 2: for 11  (0 and 16 on)    for 2: for 5  (11 and 27 on)    for 8  (32 on)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import lcm

from ...desc.layout import axis_offset, extent_range
from ...desc.memory_desc import MemoryDesc
from ...errors import refuse
from ...ir.digits import TensorOperand, index_digits, reorder_nest
from ...ir.nest import Axis, Compute, LoopNest
from ...ir.nest_rewrites import Span, peel, slice_axis
from ...schedule.machine import LIMITS

_ENDLESS = 1 << 63


@dataclass(frozen=True, slots=True)
class Window:
    """The indices from `start` on along one axis of `dst`, which hold a source, followed by zeros.

    `until` is one past the last index that is written.
    """

    dst: MemoryDesc
    axis: int
    start: int
    until: int

    @property
    def origin(self) -> int:
        """The offset of the first element."""
        return self.dst.offset0 + axis_offset(self.dst.layout, self.axis, self.start)

    def is_like(self, src: MemoryDesc) -> bool:
        """Return whether the elements of `src` have the same relative offsets as those of the window."""
        if src.data_type.bits != self.dst.data_type.bits:
            return False
        return all(self._path(src, d) == self._path(src, d, self.dst) for d in range(src.ndims))

    def _path(self, src: MemoryDesc, dim: int, md: MemoryDesc | None = None) -> list[int]:
        """Return the offset of each index of a dim of `src` from the first, in `md`, over a block period."""
        layout = (md or src).layout
        start = self.start if md is not None and dim == self.axis else 0
        count = min(src.dims[dim], lcm(src.layout.blocks[dim], self.dst.layout.blocks[dim]) + 1)
        first = axis_offset(layout, dim, start)
        return [axis_offset(layout, dim, start + i) - first for i in range(count)]


@dataclass(frozen=True, slots=True)
class WindowMove:
    """One nest of a concat, and the elements [low, high) that it can read and write; zeros read none."""

    nest: LoopNest
    read: Span
    written: Span

    def padding(self) -> Iterator[WindowMove]:
        """Yield the zeros that the nest writes other than what it moves: a strip for each bounded dimension.

        Strips cross each other, so that their number is that of dimensions, not of combinations of them.
        """
        if self.nest.is_zero:
            yield self
            return
        bounds = self.nest.bounds
        filled = [replace(bound, size=bound.padded) for bound in bounds]
        for i, bound in enumerate(bounds):
            strip = replace(self.nest, bounds=(*filled[:i], bound, *filled[i + 1 :]))
            for zeros in (zeros for box in peel(strip) for zeros in _zeros_of(box)):
                yield replace(self, nest=zeros, read=(0, 0))


def window_moves(
    src: MemoryDesc, window: Window, compute: Compute | None = None, tensors: Sequence[TensorOperand] = ()
) -> tuple[WindowMove, ...]:
    """Return the nests that move all elements of `src`, and write zeros to the padding of the window.

    Both descriptors are concrete, nonempty, and of equal dims except along the axis; `tensors` do not move
    along the axis. No two nests write the same position. Raises Unimplemented for blocks that are too
    dissimilar.
    """
    return tuple(_WindowSource(src, window, compute or Compute(), tuple(tensors)).moves())


@dataclass(frozen=True, slots=True)
class _Piece:
    """`extent` positions of the source from `first` on, `count` times, a period apart."""

    first: int
    extent: int
    count: int = 1


@dataclass(frozen=True, slots=True)
class _WindowSource:
    """A source to be moved into a window."""

    src: MemoryDesc
    window: Window
    compute: Compute
    tensors: tuple[TensorOperand, ...]

    def moves(self) -> Iterator[WindowMove]:
        window, size = self.window, self.src.dims[self.window.axis]
        steps = _steps(window.dst, window.axis)
        rest = window.until - window.start - size
        for piece in self._pieces():
            padded = piece.extent
            is_last = piece.count == 1 and piece.first + piece.extent == size
            if is_last and padded + rest <= _indices_to_carry(steps, window.start + piece.first):
                padded, rest = padded + rest, 0
            yield self._move(piece, padded)
        for first, extent in _cuts(rest, [(steps, window.start + size)]):
            yield _zeros(_part(window.dst, window.axis, window.start + size + first, extent, extent))

    def _pieces(self) -> list[_Piece]:
        """Return the pieces in order; the first repetition of a repeated piece stands for all."""
        window, period = self.window, self._period
        size = self.src.dims[window.axis]
        sides = [(_steps(self.src, window.axis), 0), (_steps(window.dst, window.axis), window.start)]
        cuts = list(islice(_cuts(min(size, period), sides), LIMITS.pieces + 1))
        if len(cuts) > LIMITS.pieces:
            raise refuse(
                "RS-L01:blocks-source-destination", src=self.src, window=window, most_pieces=LIMITS.pieces
            )
        last = cuts[-1][0]
        if all(_indices_to_carry(steps, start + last) == _ENDLESS for steps, start in sides):
            return [*(_Piece(*cut) for cut in cuts[:-1]), _Piece(last, size - last)]
        whole = [_Piece(first, extent, (size - first - extent) // period + 1) for first, extent in cuts]
        begun = [_Piece(p.first + p.count * period, size - p.first - p.count * period) for p in whole]
        return whole + [piece for piece in begun if piece.extent > 0]

    @property
    def _period(self) -> int:
        axis = self.window.axis
        return lcm(self.src.layout.blocks[axis], self.window.dst.layout.blocks[axis])

    def _move(self, piece: _Piece, padded: int) -> WindowMove:
        window = self.window
        read = _part(self.src, window.axis, piece.first, piece.extent, piece.extent)
        written = _part(window.dst, window.axis, window.start + piece.first, piece.extent, padded)
        nest = reorder_nest(read, written, self.compute, self.tensors)
        if piece.count == 1:
            return WindowMove(nest, read.extent_range(), written.extent_range())
        src, dst = self._period_offset(read), self._period_offset(written)
        again = Axis(piece.count, src, dst, more=(0,) * len(self.tensors))
        repeated = replace(nest, axes=(again, *nest.axes)).verify()
        times = piece.count - 1
        return WindowMove(repeated, _longer(read, times * src), _longer(written, times * dst))

    def _period_offset(self, md: MemoryDesc) -> int:
        """Return the offset of one period of indices."""
        return self._period // md.layout.blocks[self.window.axis] * md.strides[self.window.axis]


def _longer(md: MemoryDesc, far: int) -> Span:
    """Return the extent in memory of a tensor and its repetitions, the last of which is at offset `far`."""
    low, high = md.extent_range()
    return low + min(far, 0), high + max(far, 0)


def _steps(md: MemoryDesc, dim: int) -> list[int]:
    """Return the indices each digit of a dim steps over, innermost first: 1, 4 and 16 in blocks of 4 by 4."""
    return [level.step for level in index_digits(md, dim)]


def _cuts(size: int, sides: list[tuple[list[int], int]]) -> Iterator[tuple[int, int]]:
    """Yield first and extent of the longest pieces of [0, size) in which neither side carries outward."""
    at = 0
    while at < size:
        extent = min(size - at, *(_indices_to_carry(steps, start + at) for steps, start in sides))
        yield at, extent
        at += extent


def _indices_to_carry(steps: list[int], at: int) -> int:
    """Return how many indices from `at` on have the same digits above the lowest as 0, 1, 2, ..."""
    inner = max(step for step in steps if at % step == 0)
    outer = min((step for step in steps if step > inner), default=0)
    return outer - at % outer if outer else _ENDLESS


def _part(md: MemoryDesc, axis: int, start: int, extent: int, padded: int) -> MemoryDesc:
    """Return a range of indices along an axis, counted from `start` on.

    Unlike a submemory, it can begin and end inside a block, as long as no index carries beyond it.
    """
    layout = md.layout
    dims = (*layout.dims[:axis], extent, *layout.dims[axis + 1 :])
    padded_dims = (*layout.padded_dims[:axis], padded, *layout.padded_dims[axis + 1 :])
    offset0 = layout.offset0 + axis_offset(layout, axis, start)
    moved = replace(layout, dims=dims, padded_dims=padded_dims, offset0=offset0)
    return MemoryDesc._make("blocked", md.data_type, moved)


def _zeros(md: MemoryDesc) -> WindowMove:
    """Write zero to every element, and to the padding."""
    nest = reorder_nest(md, md, Compute())
    nest = replace(nest, axes=(Axis(1, 0, 0, valid=0), *nest.axes)).verify()
    return WindowMove(nest, (0, 0), extent_range(md.layout))


def _zeros_of(box: LoopNest) -> Iterator[LoopNest]:
    """Yield the positions of a box that are written but not read."""
    if box.is_zero:
        yield box
        return
    for index, axis in enumerate(box.axes):
        if not axis.is_whole:
            yield slice_axis(box, index, axis.valid, axis.extent - axis.valid, 0)
            box = slice_axis(box, index, 0, axis.valid)
