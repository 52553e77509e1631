"""The summed loops of one tile of a contraction, with sums in registers; subclasses define a step."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from math import gcd

from ..schedule.contraction.kernel import SUM_BYTES, ColumnTile, ContractionKernel, LoopEnd, SummedLoop
from ..schedule.contraction.strides import FIRST, SECOND
from ..schedule.contraction.tiles import Rows, RowTile
from .builder import Builder, Value, i64, vector
from .contraction_numbers import Distance, distance_of, number_of, times
from .contraction_products import Products

Factors = tuple[Value, Value]
"""The addresses of both factors."""


@dataclass(frozen=True, slots=True)
class TilePosition:
    """The location of a tile: pointers of all accesses, the range of each window; if code depends on them,
    its group of columns and its number in the row loop.
    """

    pointers: tuple[Value, ...]
    windows: tuple[tuple[Value, Value], ...]
    group: Value
    number: Value


@dataclass(frozen=True, slots=True)
class SumPart:
    """A part of the sums of a tile: its range of the split loop, where the sums are kept from part to part,
    by how many bytes those of a tile move, and the numbers of the part and of the last one.
    """

    turns: tuple[Value, Value]
    kept: Value
    nbytes: int
    number: Value
    last: Value


@dataclass(frozen=True, slots=True)
class ContractionTile:
    """The location and size of a tile. `entry`: where column sums of such tiles are kept,
    `emit/column_sums.py`; None if they are not.
    """

    place: TilePosition
    kind: RowTile
    columns: ColumnTile
    entry: Value | None = None
    part: SumPart | None = None

    @property
    def pointers(self) -> tuple[Value, ...]:
        """The pointers of all accesses."""
        return self.place.pointers

    @property
    def vectors(self) -> int:
        """The number of vectors of columns."""
        return len(self.columns.valid)


def window_ends(b: Builder, loop: SummedLoop, begin: Value) -> tuple[Value, Value]:
    """Return the range of a window: the least k with begin + step * k >= 0, and the least with >= size."""
    assert loop.window is not None
    size, step, most = number_of(b, loop.window.size), loop.window.step, number_of(b, loop.end.positions)
    before, behind = b.op("sub", i64(0), begin), b.op("sub", size, begin)
    return _ceiling(b, before, step, most), _ceiling(b, behind, step, most)


def _ceiling(b: Builder, number: Value, divisor: int, most: Value) -> Value:
    """Return number / divisor, rounded up, clamped to 0 and `most`."""
    positive = b.scalar_intrinsic("smax", number, i64(0))
    rounded = b.op("udiv", b.op("add", positive, i64(divisor - 1)), i64(divisor))
    return b.scalar_intrinsic("smin", rounded, most)


class SumLoops:
    """Writes the summed loops of one kind of tile; subclasses define what a step adds up."""

    def __init__(
        self, b: Builder, kernel: ContractionKernel, products: Products, tile: ContractionTile
    ) -> None:
        self.b, self.kernel, self.products, self.tile = b, kernel, products, tile
        self.loops, self.packs, self.kind = kernel.loops, kernel.packs, tile.kind
        self.copies = 1
        self.counters: dict[int, Value] = {}
        self._moves: list[tuple[Distance, ...]] = []
        self._blocks: list[Distance] = []

    @property
    def vectors(self) -> int:
        """The number of vectors of sums in a row."""
        return self.tile.vectors

    def read_strides(self) -> None:
        """Read the strides of the loops before them."""
        kernel, b = self.kernel, self.b
        self._moves = [tuple(distance_of(b, stride) for stride in loop.strides) for loop in kernel.loops]
        self._blocks = [distance_of(b, kernel.strides[access].block) for access in (FIRST, SECOND)]

    def sums(self) -> list[Value]:
        """Return the sums of all rows, row by row."""
        self.read_strides()
        return self.sums_at((self.tile.pointers[FIRST], self.tile.pointers[SECOND]))

    def sums_at(self, at: Factors) -> list[Value]:
        """Return the sums, for factors that begin there."""
        whole = 1 if self.packs is None else self.packs.count
        is_short = self.packs is not None and self.packs.is_alone and self.packs.rest
        rows = 0, self.kind.rows
        count = self.kind.rows * self.vectors * self.copies
        return self._level(0, at, rows, self._begun(count), is_short or whole)

    def _begun(self, count: int) -> list[Value]:
        """Return the initial values of sums: zeros, or for later parts, what was kept."""
        part, zero = self.tile.part, self._zero()
        if part is None:
            return [zero] * count
        is_first = self.b.value("i1", f"icmp eq {part.number}, 0")
        size = count * SUM_BYTES * self.kernel.lanes
        at = self.b.select(is_first, self.b.zeros(size), part.kept)
        loads = (f"load {zero.type}, {at}, align {self._kept_align}" for at in self._kept(at, count))
        return [self.b.value(zero.type, load) for load in loads]

    def keep(self, part: SumPart, sums: list[Value]) -> None:
        """Store sums for the next part."""
        for total, at in zip(sums, self._kept(part.kept, len(sums)), strict=True):
            self.b.line(f"store {total}, {at}, align {self._kept_align}")

    @property
    def _kept_align(self) -> int:
        """The alignment; vectors of few lanes are adjacent."""
        return gcd(16, SUM_BYTES * self.kernel.lanes)

    def _kept(self, at: Value, count: int) -> list[Value]:
        size = SUM_BYTES * self.kernel.lanes
        return [self.b.advance(at, size * i) for i in range(count)]

    def _zero(self) -> Value:
        element = "i32" if self.kernel.sums_integers else "float"
        return Value(vector(element, self.kernel.lanes), "zeroinitializer")

    def _turn(self, counter: Value) -> None:
        """Write additional work in an iteration of the innermost loop."""

    def _step(self, at: Factors, rows: Rows, sums: list[Value], count: int) -> list[Value]:
        """Add one more term to the sums of some rows, or `count` terms."""
        raise NotImplementedError

    def _level(self, level: int, at: Factors, rows: Rows, sums: list[Value], count: int) -> list[Value]:
        """Write the summed loops from `level` on, with `count` elements of a pack."""
        if level == len(self.loops):
            return self._step(at, rows, sums, count)
        loop = self.loops[level]
        if loop.taps and self.kind.taps:
            return self._taps(level, at, sums, count)
        if loop.is_once:
            self.counters[level] = i64(0)
            return self._level(level + 1, at, rows, sums, count)
        if (below := self._joined(level)) and isinstance(loop.end.positions, int) and loop.window is None:
            return self._run(level + 1, self._turns(below, loop.end.positions), at, rows, sums, count)
        inside = self._run(level, self._limits(loop, loop.unroll), at, rows, sums, count)
        return inside if loop.rest_end is None else self._rest(level, at, rows, inside)

    def _joined(self, level: int) -> SummedLoop | None:
        """Return the next, innermost loop if the two traverse memory contiguously: taps and channels of a
        pixel.
        """
        if level < 0 or level != len(self.loops) - 2 or self.kernel.shared_taps:
            return None
        loop, below = self.loops[level:]
        positions = below.end.positions
        is_plain = below.window is None and below.rest_end is None and not below.taps and not below.is_once
        if not is_plain or below.end.upper is not None or not isinstance(positions, int):
            return None
        if self.kernel.split is not None and self.kernel.split.level == level:
            return None
        pairs = zip(loop.strides, below.strides, strict=True)
        is_one = all(isinstance(inner, int) and outer == inner * positions for outer, inner in pairs)
        return below if is_one else None

    def _turns(self, loop: SummedLoop, times: int) -> tuple[Value, Value]:
        """Return the range of an innermost loop that replaces several."""
        assert isinstance(loop.end.positions, int)
        return i64(0), i64(times * loop.end.positions // loop.unroll)

    def _run(
        self,
        level: int,
        turns: tuple[Value, Value],
        at: Factors,
        rows: Rows,
        sums: list[Value],
        count: int,
    ) -> list[Value]:
        """Write a loop of some iterations over the inner code."""
        loop, (start, stop), is_last = self.loops[level], turns, level == len(self.loops) - 1
        may_be_empty = loop.rest_end is not None or loop.window is not None
        with self.b.carried_loop(start, stop, sums, may_be_empty=may_be_empty) as (counter, inside):
            self.counters[level] = counter
            if is_last:
                self._turn(counter)
            here = self._behind(at, level, counter, loop.unroll)
            if is_last:
                here = self._apart(here[FIRST]), self._apart(here[SECOND])
            for i in range(loop.unroll):
                # Derived from the previous one: LLVM keeps a register for each address from one base.
                here = self._ahead(here, level, 1) if i else here
                inside[:] = self._level(level + 1, here, rows, inside, count)
        return inside

    def _rest(self, level: int, at: Factors, rows: Rows, sums: list[Value]) -> list[Value]:
        """Write the last pack, if the loop over packs reaches it."""
        loop = self.loops[level]
        assert self.packs is not None
        assert loop.rest_end is not None
        start, stop = self._stop(loop.end), self._stop(loop.rest_end)
        with self.b.carried_loop(start, stop, sums, may_be_empty=True) as (counter, inside):
            there = self._behind(at, level, counter, 1)
            inside[:] = self._level(level + 1, there, rows, inside, self.packs.rest)
        return inside

    def _taps(self, level: int, at: Factors, sums: list[Value], count: int) -> list[Value]:
        """Write the taps of a window at an edge: those that have the same rows share code."""
        for rows, taps in groupby(range(self.loops[level].taps), key=self.kind.taps.__getitem__):
            first, *others = taps
            if rows[0] == rows[1]:
                continue
            there = self._ahead(at, level, first)
            if not others:
                sums = self._level(level + 1, there, rows, sums, count)
                continue
            if below := self._joined(level):
                sums = self._run(level + 1, self._turns(below, 1 + len(others)), there, rows, sums, count)
                continue
            with self.b.carried_loop(i64(0), i64(1 + len(others)), sums) as (counter, inside):
                behind = self._behind(there, level, counter, 1)
                inside[:] = self._level(level + 1, behind, rows, inside, count)
            sums = inside
        return sums

    def _limits(self, loop: SummedLoop, unroll: int) -> tuple[Value, Value]:
        """Return the range of a loop here, in steps of `unroll` positions."""
        split, part = self.kernel.split, self.tile.part
        window = None if loop.window is None else self.tile.place.windows[loop.window.number]
        if part is not None and split is not None and loop is self.loops[split.level]:
            if window is None:
                return part.turns
            (start, stop), (low, high) = part.turns, window
            return self.b.scalar_intrinsic("smax", start, low), self.b.scalar_intrinsic("smin", stop, high)
        if window is not None:
            return window
        stop = self._stop(loop.end)
        if unroll == 1:
            return i64(0), stop
        whole = i64(int(stop.ref) // unroll) if stop.ref.isdigit() else self.b.op("udiv", stop, i64(unroll))
        return i64(0), whole

    def _stop(self, end: LoopEnd) -> Value:
        """Return the end of a loop that no window limits."""
        b, positions = self.b, number_of(self.b, end.positions)
        if end.upper is None:
            return positions
        before = b.op("mul", self.counters[end.upper], i64(-end.ratio))
        return b.scalar_intrinsic("smin", b.op("add", before, positions), i64(end.most))

    # --- addresses

    def _behind(self, at: Factors, level: int, counter: Value, unroll: int) -> Factors:
        first, second = (
            self.b.step(pointer, counter, times(self.b, move, unroll))
            for pointer, move in zip(at, self._moves[level], strict=True)
        )
        return first, second

    def _ahead(self, at: Factors, level: int, positions: int) -> Factors:
        first, second = (
            self.b.advance(pointer, times(self.b, move, positions))
            for pointer, move in zip(at, self._moves[level], strict=True)
        )
        return (self._apart(first), self._apart(second)) if positions else (first, second)

    def _row(self, at: Factors, row: int) -> Factors:
        """Return the address of a row of the first factor."""
        return self.b.advance(at[FIRST], row * self.kernel.strides[FIRST].row), at[SECOND]

    def _vectors(self, at: Factors, access: int) -> list[tuple[Value, int]]:
        """Return the addresses of the vectors of columns, and how many lanes of each are columns."""
        pointer, blocks, found = at[access], 0, list[tuple[Value, int]]()
        places = self.kernel.strides[access].vectors
        for place, valid in zip(places, self.tile.columns.valid, strict=False):
            if place.blocks > blocks:
                pointer = self._apart(self.b.advance(pointer, self._blocks[access]))
                blocks = place.blocks
            found.append((self.b.advance(pointer, place.nbytes), valid))
        return found

    def _apart(self, pointer: Value) -> Value:
        """Return the same pointer, hidden from LLVM: it would load adjacent elements at once, and what rows
        share only once, into registers that are not available.
        """
        return pointer if self.kernel.is_by_lanes else self.b.hidden(pointer)
