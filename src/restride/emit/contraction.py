"""Scheduled contractions -> the text of one LLVM module with the entry of all kernels.

`params` points at slots of 8 bytes: the addresses of all tensors of the tree in their order, then the scalars
as doubles. A **microkernel** makes one tile: its sums are values of the loops (phi), so that they stay in
registers; `plan/contraction_schedule.py` says how large it is and why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..plan.contraction import FIRST, SECOND, Contraction, ContractionLoop
from ..plan.contraction_schedule import ContractionPlan
from ..plan.contraction_tiles import Rows, RowTile
from .builder import Builder, Value, i64, vector
from .contraction_products import products_of
from .contraction_result import ResultWriter, TilePlace
from .kernel import Style, load_pointer, module_text, share_of

_PARAMS = Value("ptr", "%params")


@dataclass(frozen=True, slots=True)
class _ContractionTile:
    """Where a tile is: pointers of all accesses, indices of the grid's axes, and how large it is."""

    pointers: tuple[Value, ...]
    indices: dict[str, Value]
    kind: RowTile
    vectors: int
    valid: tuple[int, ...]


def emit_contraction(plan: ContractionPlan, style: Style, *, fused: bool) -> str:
    """The IR text of a contraction; `fused`: the instruction set multiplies and adds with one rounding."""
    b = style.builder()
    ContractionWriter(b, plan, style, fused=fused).emit()
    b.line("ret void")
    return module_text(b)


class ContractionWriter:
    """Writes the loops over tiles."""

    def __init__(self, b: Builder, plan: ContractionPlan, style: Style, *, fused: bool) -> None:
        self.b, self.plan, self.style, self.fused = b, plan, style, fused
        self.contraction = plan.contraction

    def emit(self) -> None:
        """The loop over all tiles of a part."""
        b, found = self.b, self.contraction
        pointers = [
            b.advance(load_pointer(b, _PARAMS, place), access.base * access.tensor.data_type.bits // 8)
            for access, place in zip(found.accesses, found.places, strict=True)
        ]
        low, high = share_of(b, self.plan.steps)
        with b.loop(low, high) as step:
            self._tile(step, pointers)

    def _tile(self, step: Value, pointers: Sequence[Value]) -> None:
        """One tile: which it is, and the code for its kind."""
        plan, b = self.plan, self.b
        counts = [loop.extent for loop in plan.grid]
        counts.insert(plan.columns_at, plan.groups)
        *positions, tile = self._decoded(step, [*counts, len(plan.tiles)])
        group = positions.pop(plan.columns_at)
        at = [self._moved(i, pointers[i], positions, group, tile) for i in range(len(pointers))]
        indices = {loop.axis: position for loop, position in zip(plan.grid, positions, strict=True)}
        indices[plan.row.axis] = b.op("mul", tile, i64(plan.starts[1] if len(plan.starts) > 1 else 0))
        for last, (vectors, valid) in enumerate(self._column_kinds()):
            wanted = plan.groups - 1 if last else plan.groups - 2
            chosen = ("eq" if last else "sle", group, i64(wanted))
            if plan.groups == 1 and not last:
                continue
            self._when(
                len(self._column_kinds()) > 1 and plan.groups > 1,
                chosen,
                lambda v=vectors, m=valid: self._row_kinds(at, indices, tile, v, m),  # type: ignore[misc]
            )

    def _column_kinds(self) -> list[tuple[int, tuple[int, ...]]]:
        """Tiles of whole columns, and the last one: of each vector, how many lanes are columns."""
        plan = self.plan
        whole = plan.vectors, (plan.lanes,) * plan.vectors
        first = (plan.groups - 1) * plan.vectors * plan.lanes
        left = range(first, plan.columns, plan.lanes)
        valid = tuple(max(0, min(plan.lanes, plan.size - column)) for column in left)
        return [whole, (len(valid), valid)]

    def _row_kinds(
        self,
        at: Sequence[Value],
        indices: dict[str, Value],
        tile: Value,
        vectors: int,
        valid: tuple[int, ...],
    ) -> None:
        plan, b = self.plan, self.b
        kind = tile
        if len(plan.kinds) > 1:
            table = b.table(plan.tiles)
            kind = b.value("i64", f"load i64, {b.advance(table, b.op('shl', tile, i64(3)))}, align 8")
        for number, each in enumerate(plan.kinds):
            place = _ContractionTile(tuple(at), indices, each, vectors, valid)
            self._when(
                len(plan.kinds) > 1,
                ("eq", kind, i64(number)),
                lambda place=place: Microkernel(self, place).emit(),  # type: ignore[misc]
            )

    def _when(self, is_asked: bool, condition: tuple[str, Value, Value], write: Callable[[], None]) -> None:
        if not is_asked:
            write()
            return
        with self.b.when(*condition):
            write()

    def _decoded(self, step: Value, counts: Sequence[int]) -> list[Value]:
        """The position in each of some loops, outermost first, of a step through all of them."""
        b, found, above = self.b, [], step
        for number, count in enumerate(reversed(counts)):
            if number == len(counts) - 1:
                found.append(above)
            elif count == 1:
                found.append(i64(0))
            else:
                found.append(b.op("urem", above, i64(count)))
                above = b.op("udiv", above, i64(count))
        return found[::-1]

    def _moved(
        self, access: int, pointer: Value, positions: Sequence[Value], group: Value, tile: Value
    ) -> Value:
        """The pointer of an access at a tile."""
        plan, b = self.plan, self.b
        row = plan.row.strides[access] * (plan.starts[1] if len(plan.starts) > 1 else 0)
        columns = plan.column_offset(access, plan.lanes * plan.vectors) if plan.groups > 1 else 0
        strides = [*(loop.strides[access] for loop in plan.grid), columns, row]
        for position, stride in zip((*positions, group, tile), strides, strict=True):
            nbytes = stride * self.contraction.accesses[access].tensor.data_type.bits // 8
            if nbytes and position.ref != "0":
                pointer = b.advance(pointer, b.op("mul", position, i64(nbytes)))
        return pointer


class Microkernel:
    """Writes the code of one kind of tile."""

    def __init__(self, writer: ContractionWriter, tile: _ContractionTile) -> None:
        self.b, self.plan, self.tile, self.writer = writer.b, writer.plan, tile, writer
        self.contraction: Contraction = writer.contraction
        self.loops, self.pack = self.plan.loops, self.plan.pack
        self.products = products_of(self.b, self.plan, writer.style, fused=writer.fused)
        self.counters: dict[ContractionLoop, Value] = {}

    def emit(self) -> None:
        """The sums of the tile, and what becomes of them."""
        kind = vector("i32" if self.contraction.is_integral else "float", self.plan.lanes)
        sums = [Value(kind, "zeroinitializer")] * (self.tile.kind.rows * self.tile.vectors)
        first, second = self.tile.pointers[FIRST], self.tile.pointers[SECOND]
        whole = 1 if self.pack is None else self.pack.count
        is_short = self.pack is not None and self._pack_loop() is None and self.pack.rest
        sums = self._level(0, (first, second), (0, self.tile.kind.rows), sums, is_short or whole)
        place = TilePlace(self.tile.pointers, self.tile.kind.rows, self.tile.valid)
        ResultWriter(self.b, self.plan, self.writer.style, place).emit(sums)

    def _level(
        self, level: int, at: tuple[Value, Value], rows: Rows, sums: list[Value], count: int
    ) -> list[Value]:
        """The summed loops from `level` on, with `count` elements of a pack."""
        if level == len(self.loops):
            return self._step(at, rows, sums, count)
        loop, is_last = self.loops[level], level == len(self.loops) - 1
        if loop.axis == self.plan.tap and self.tile.kind.taps:
            return self._taps(level, at, sums, count)
        unroll = self.plan.unroll if is_last else 1
        has_rest = self._has_rest(loop)
        start, stop = self._limits(loop, unroll)
        with self.b.carried_loop(start, stop, sums, may_be_empty=has_rest or self._may_be_empty(loop)) as (
            counter,
            inside,
        ):
            self.counters[loop] = counter
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
        for position, rows in enumerate(self.tile.kind.taps):
            if rows[0] != rows[1]:
                sums = self._level(level + 1, self._ahead(at, loop, position), rows, sums, count)
        return sums

    def _limits(self, loop: ContractionLoop, unroll: int) -> tuple[Value, Value]:
        """From where to where a loop goes here, in steps of `unroll` positions."""
        b = self.b
        limit = next((each for each in self.contraction.limits if each.coefficient(loop.axis)), None)
        if limit is None or loop.axis == self.plan.tap:
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
        is_limited = any(limit.coefficient(loop.axis) for limit in self.contraction.limits)
        return is_limited and loop.axis != self.plan.tap

    def _behind(
        self, at: tuple[Value, Value], loop: ContractionLoop, counter: Value, unroll: int
    ) -> tuple[Value, Value]:
        first, second = (
            self.b.advance(pointer, self.b.op("mul", counter, i64(unroll * self._nbytes(loop, i))))
            if loop.strides[i]
            else pointer
            for i, pointer in enumerate(at)
        )
        return first, second

    def _ahead(self, at: tuple[Value, Value], loop: ContractionLoop, positions: int) -> tuple[Value, Value]:
        first, second = (
            self.b.advance(pointer, positions * self._nbytes(loop, i)) for i, pointer in enumerate(at)
        )
        return first, second

    def _nbytes(self, loop: ContractionLoop, access: int) -> int:
        return loop.strides[access] * self.contraction.accesses[access].tensor.data_type.bits // 8

    def _step(self, at: tuple[Value, Value], rows: Rows, sums: list[Value], count: int) -> list[Value]:
        """A product for every sum of some rows, or `count` of them."""
        found, vectors = list(sums), range(self.tile.vectors)
        columns = [self.products.column(*self._vector(at, SECOND, i), count) for i in vectors]
        for row in range(*rows):
            there = self.b.advance(at[0], row * self._row_bytes()), at[1]
            shared = None if self.plan.is_by_lanes else self.products.row(there[FIRST], count)
            for i, column in enumerate(columns):
                factor = shared or self.products.column(*self._vector(there, FIRST, i), count, FIRST)
                number = row * self.tile.vectors + i
                found[number] = self.products.added(factor, column, found[number])
        return found

    def _row_bytes(self) -> int:
        return self.plan.row.strides[FIRST] * self.contraction.accesses[FIRST].tensor.data_type.bits // 8

    def _vector(self, at: tuple[Value, Value], access: int, number: int) -> tuple[Value, int]:
        """Where a vector of columns is, and how many lanes of it are columns."""
        bits = self.contraction.accesses[access].tensor.data_type.bits
        offset = self.plan.column_offset(access, number * self.plan.lanes) * bits // 8
        return self.b.advance(at[access], offset), self.tile.valid[number]
