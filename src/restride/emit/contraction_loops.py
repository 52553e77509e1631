"""The summed loops of one tile of a contraction, its sums in registers; what a step adds up, others say."""

from __future__ import annotations

from dataclasses import dataclass

from ..plan.contraction import FIRST, SECOND, Contraction, ContractionLoop
from ..plan.contraction_schedule import ContractionPlan
from ..plan.contraction_tiles import Rows, RowTile
from .builder import Builder, Value, i64, vector
from .contraction_products import Products


@dataclass(frozen=True, slots=True)
class ContractionTile:
    """Where a tile is: pointers of all accesses, indices of the grid's axes, and how large it is.

    `number` of the row of tiles. `entry`: where column sums of such tiles are kept, `emit/column_sums.py`;
    None where they are not.
    """

    pointers: tuple[Value, ...]
    indices: dict[str, Value]
    kind: RowTile
    vectors: int
    valid: tuple[int, ...]
    number: Value
    entry: Value | None = None


class SumLoops:
    """Writes the summed loops of one kind of tile; what a step adds up, a class below says."""

    def __init__(self, b: Builder, plan: ContractionPlan, products: Products, tile: ContractionTile) -> None:
        self.b, self.plan, self.products, self.tile = b, plan, products, tile
        self.contraction: Contraction = plan.contraction
        self.loops, self.pack, self.kind = plan.loops, plan.pack, tile.kind
        self.copies = 1
        self.counters: dict[ContractionLoop, Value] = {}

    @property
    def vectors(self) -> int:
        """How many vectors of sums a row has."""
        return self.tile.vectors

    def sums(self) -> list[Value]:
        """The sums of all rows, a row after the other."""
        at = self.tile.pointers[FIRST], self.tile.pointers[SECOND]
        whole = 1 if self.pack is None else self.pack.count
        is_short = self.pack is not None and self._pack_loop() is None and self.pack.rest
        rows = 0, self.kind.rows
        count = self.kind.rows * self.vectors * self.copies
        return self._level(0, at, rows, [self._zero()] * count, is_short or whole)

    def _zero(self) -> Value:
        element = "i32" if self.contraction.is_integral else "float"
        return Value(vector(element, self.plan.lanes), "zeroinitializer")

    def _turn(self, counter: Value) -> None:
        """What is done beside in a turn of the innermost loop."""

    def _step(self, at: tuple[Value, Value], rows: Rows, sums: list[Value], count: int) -> list[Value]:
        """One more term of the sums of some rows, or `count` of them."""
        raise NotImplementedError

    def _level(
        self, level: int, at: tuple[Value, Value], rows: Rows, sums: list[Value], count: int
    ) -> list[Value]:
        """The summed loops from `level` on, with `count` elements of a pack."""
        if level == len(self.loops):
            return self._step(at, rows, sums, count)
        loop, is_last = self.loops[level], level == len(self.loops) - 1
        if loop.axis == self.plan.tiling.tap and self.kind.taps:
            return self._taps(level, at, sums, count)
        unroll = self.plan.unroll if is_last else 1
        has_rest = self._has_rest(loop)
        if loop.extent == 1 and not has_rest and not self._is_limited(loop):
            self.counters[loop] = i64(0)
            return self._level(level + 1, at, rows, sums, count)
        start, stop = self._limits(loop, unroll)
        with self.b.carried_loop(start, stop, sums, may_be_empty=has_rest or self._may_be_empty(loop)) as (
            counter,
            inside,
        ):
            self.counters[loop] = counter
            if is_last:
                self._turn(counter)
            first = self._behind(at, loop, counter, unroll)
            for i in range(unroll):
                inside[:] = self._level(level + 1, self._ahead(first, loop, i), rows, inside, count)
        return self._rest(level, at, rows, inside) if has_rest else inside

    def _pack_loop(self) -> ContractionLoop | None:
        """The loop over packs; None where there is one pack."""
        assert self.pack is not None
        return next(
            (
                loop
                for loop in self.loops
                if loop.axis == self.pack.loop.axis and loop.step == self.pack.count
            ),
            None,
        )

    def _rest(self, level: int, at: tuple[Value, Value], rows: Rows, sums: list[Value]) -> list[Value]:
        """The last pack, where the loop over packs comes to it."""
        assert self.pack is not None
        loop = self.loops[level]
        start, stop = self._stop(loop, 1), self._stop(loop, 1, is_rest=True)
        with self.b.carried_loop(start, stop, sums, may_be_empty=True) as (counter, inside):
            there = self._behind(at, loop, counter, 1)
            inside[:] = self._level(level + 1, there, rows, inside, self.pack.rest)
        return inside

    def _taps(self, level: int, at: tuple[Value, Value], sums: list[Value], count: int) -> list[Value]:
        """The taps of a window at an edge: each has rows of its own, and code of its own."""
        loop = self.loops[level]
        for position, rows in enumerate(self.kind.taps):
            if rows[0] != rows[1]:
                sums = self._level(level + 1, self._ahead(at, loop, position), rows, sums, count)
        return sums

    def _limits(self, loop: ContractionLoop, unroll: int) -> tuple[Value, Value]:
        """From where to where a loop goes here, in steps of `unroll` positions."""
        b = self.b
        limit = next((each for each in self.contraction.limits if each.coefficient(loop.axis)), None)
        if limit is None or loop.axis == self.plan.tiling.tap:
            return i64(0), self._stop(loop, unroll)
        at = i64(limit.constant)
        for axis, factor in limit.terms:
            if axis != loop.axis:
                at = b.op("add", at, b.op("mul", self.tile.indices[axis], i64(factor)))
        factor = limit.coefficient(loop.axis)
        # The least k with at + factor * k >= 0, and the least with at + factor * k >= size.
        start = self._ceiling(b.op("sub", i64(0), at), factor, loop.extent)
        stop = self._ceiling(b.op("sub", i64(limit.size), at), factor, loop.extent)
        return start, stop

    def _ceiling(self, number: Value, divisor: int, most: int) -> Value:
        """number / divisor, rounded up, within 0 and `most`."""
        b = self.b
        positive = b.scalar_intrinsic("smax", number, i64(0))
        rounded = b.op("udiv", b.op("add", positive, i64(divisor - 1)), i64(divisor))
        return b.scalar_intrinsic("smin", rounded, i64(most))

    def _stop(self, loop: ContractionLoop, unroll: int, *, is_rest: bool = False) -> Value:
        """Where a loop ends that no window limits: before a pack that is not full, or behind this `rest`."""
        upper = next((each for each in self.loops if each.axis == loop.axis and each.step > loop.step), None)
        has_rest = self._has_rest(loop) and not is_rest
        if upper is None or upper.extent == 1 or (loop.size % upper.step == 0 and not has_rest):
            return i64((loop.size // loop.step if has_rest else loop.extent) // unroll)
        size = loop.size // loop.step if has_rest or loop.step == 1 else -(-loop.size // loop.step)
        rest = self.b.op("mul", self.counters[upper], i64(-upper.step // loop.step))
        left = self.b.op("add", rest, i64(size))
        return self.b.op("udiv", self.b.scalar_intrinsic("smin", left, i64(loop.extent)), i64(unroll))

    def _has_rest(self, loop: ContractionLoop) -> bool:
        """True for the loop over packs of which the last one is not full."""
        return self.pack is not None and self.pack.rest > 0 and loop == self._pack_loop()

    def _may_be_empty(self, loop: ContractionLoop) -> bool:
        return self._is_limited(loop) and loop.axis != self.plan.tiling.tap

    def _is_limited(self, loop: ContractionLoop) -> bool:
        return any(limit.coefficient(loop.axis) for limit in self.contraction.limits)

    def _behind(
        self, at: tuple[Value, Value], loop: ContractionLoop, counter: Value, unroll: int
    ) -> tuple[Value, Value]:
        first, second = (
            self.b.step(pointer, counter, unroll * self._nbytes(loop, i)) for i, pointer in enumerate(at)
        )
        return first, second

    def _ahead(self, at: tuple[Value, Value], loop: ContractionLoop, positions: int) -> tuple[Value, Value]:
        first, second = (
            self.b.advance(pointer, positions * self._nbytes(loop, i)) for i, pointer in enumerate(at)
        )
        return first, second

    def _nbytes(self, loop: ContractionLoop, access: int) -> int:
        return loop.strides[access] * self.contraction.accesses[access].tensor.data_type.bits // 8

    def _row(self, at: tuple[Value, Value], row: int) -> tuple[Value, Value]:
        """Where a row of the first factor is."""
        nbytes = self.plan.row.strides[FIRST] * self.contraction.accesses[FIRST].tensor.data_type.bits // 8
        return self.b.advance(at[FIRST], row * nbytes), at[SECOND]

    def _vector(self, at: tuple[Value, Value], access: int, number: int, part: int = 0) -> tuple[Value, int]:
        """Where a vector of columns is, `part` elements behind, and how many lanes of it are columns."""
        bits = self.contraction.accesses[access].tensor.data_type.bits
        offset = (self.plan.column_offset(access, number * self.plan.lanes) + part) * bits // 8
        return self.b.advance(at[access], offset), self.tile.valid[number]
