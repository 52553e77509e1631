"""Programs for 4-bit tensors whose bytes no single tile can own: spread to bytes, run, packed again.

Each of the three is a compiled nest. The bytes between are new for every run, or scratch of the caller's, so
that threads may share a program.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

import numpy as np

from ..dtypes import DataType
from ..loading import load_whole
from ..plan.machine import LINE
from ..plan.nest import LoopNest
from ..plan.nibbles import Span, Spread, line, spread, wide_type
from ..targets.isa import host_caches
from .alloc import Array, address_of
from .cpu import Params, Program

if TYPE_CHECKING:
    from ..plan.staged import Chain


class Runner(Protocol):
    """A nest ready to run: a `Program`, or one that needs bytes between."""

    name: str
    why: str

    @property
    def threads(self) -> int:
        """How many threads may share a run."""

    def direct_call(self) -> Callable[[int, int, int], None] | None:
        """The machine code itself, where nothing has to be decided."""

    @property
    def scratch_bytes(self) -> int:
        """How many bytes between a run needs."""

    def run(self, src: int, dst: int, params: int, scratch: int = 0) -> None:
        """Run on checked addresses of element offset 0, with bytes between at `scratch`, or new ones."""


def make_program(
    nest: LoopNest, moved_bytes: int, src_span: Span, dst_span: Span, is_read_next: bool = False
) -> Runner:
    """The program of a nest; spans are the elements [low, high) that source and destination may touch.

    `is_read_next`: the destination is read right after, and stays in the caches if it finds room there.
    """
    low, high = dst_span
    finds_room = nest.dst_type.nbytes(high - low) <= host_caches().l3 // 2
    stays = is_read_next and finds_room
    program = Program(nest, moved_bytes, None if stays else _chain(nest), may_stream=not stays)
    if program.lowered is None or not program.lowered.splits_bytes:
        return program
    return SpreadProgram(nest, moved_bytes, spread(nest, src_span, dst_span))


def _chain(nest: LoopNest) -> Chain | None:
    """The nest in stages where it is too large for the caches and of whole bytes."""
    is_large = not nest.is_empty and nest.moved_bytes >= host_caches().l3
    if not is_large or nest.has_nibbles:
        return None
    load_whole("restride.plan.staged")
    from ..plan.staged import linear_chain

    return linear_chain(nest)


class SpreadProgram:
    """Runs a nest on 4-bit sides in bytes of their own."""

    def __init__(self, nest: LoopNest, moved_bytes: int, made: Spread) -> None:
        self._made, self._words = made, len(nest.operands) + nest.compute.scalars
        self._operands = len(nest.operands)
        self._inner = Program(made.nest, moved_bytes)
        self.lowered, self.name = self._inner.lowered, self._inner.name
        self.why = f"{self._inner.why}; through bytes, as 4-bit elements of one byte are apart"
        kinds = {kind for kind in (made.reads_old, nest.dst_type if made.keeps else None) if kind}
        self._dst_type = nest.dst_type
        self._spread_src = _Line(nest.src_type, wide_type(nest.src_type), *made.src) if made.src else None
        self._spread_dst = {kind: _Line(kind, wide_type(kind), *made.dst) for kind in kinds if made.dst}
        self._pack = _Line(wide_type(nest.dst_type), nest.dst_type, *made.dst) if made.dst else None
        self.scratch_bytes = sum(lines(count) for count in self._rooms())

    def _rooms(self) -> list[int]:
        """The elements of each stretch of bytes that a run takes."""
        made = self._made
        counts = [made.src[1]] if made.src else []
        return counts + ([made.dst[1]] * (1 + (made.reads_old is not None)) if made.dst else [])

    @property
    def threads(self) -> int:
        """How many threads may share a run."""
        return self._inner.threads

    def direct_call(self) -> None:
        """There is no single piece of machine code."""

    def run(self, src: int, dst: int, params: int, scratch: int = 0) -> None:
        """Run on checked addresses of element offset 0; `scratch`: 0, or where `scratch_bytes` are free."""
        held = Rooms(scratch)
        if self._spread_src is not None:
            src = self._spread_src.wide(src, held)
        if self._pack is None:
            self._inner.run(src, dst, params)
            return
        given = Params((), self._slots(dst, params, held))
        keeps = self._spread_dst.get(self._dst_type) if self._made.keeps else None
        wide = keeps.wide(dst, held) if keeps else self._pack.room(held)
        self._inner.run(src, wide, given.address)
        self._pack.run(wide, dst + self._pack.byte)

    def _slots(self, dst: int, params: int, held: Rooms) -> list[int]:
        """The words of `params`, and behind the operands the old destination where a sum reads it."""
        words = list((ctypes.c_uint64 * self._words).from_address(params)) if self._words else []
        if self._made.reads_old is not None:
            words.insert(self._operands, self._spread_dst[self._made.reads_old].wide(dst, held))
        return words


class Rooms:
    """The bytes between of one run: taken one after the other from scratch, or made new and kept."""

    def __init__(self, scratch: int) -> None:
        self._next = scratch
        self._held: list[Array] = []

    def take(self, count: int) -> int:
        """The address of `count` free bytes."""
        if not self._next:
            self._held.append(np.empty(max(count, 1), np.uint8))
            return address_of(self._held[-1])
        address = self._next
        self._next += lines(count)
        return address

    def rest(self) -> int:
        """Where the scratch that is still free begins; 0 where all is made new."""
        return self._next


def lines(count: int) -> int:
    """Bytes in whole cache lines, so that all stretches of an aligned scratchpad are aligned."""
    return -(-count // LINE) * LINE


class _Line:
    """A compiled nest that spreads or packs the 4-bit elements from `first` on."""

    def __init__(self, src: DataType, dst: DataType, first: int, count: int) -> None:
        self.byte, self._count = first // 2, count
        self._program = Program(line(src, dst, count), count + count // 2)

    def run(self, src: int, dst: int) -> None:
        """Run on the addresses of the first elements."""
        self._program.run(src, dst, 0)

    def room(self, held: Rooms) -> int:
        """Bytes between, one for each element."""
        return held.take(self._count)

    def wide(self, packed: int, held: Rooms) -> int:
        """The elements of a packed tensor, given its address of offset 0, in bytes of their own."""
        address = self.room(held)
        self.run(packed + self.byte, address)
        return address
