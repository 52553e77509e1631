"""Scheduled contractions -> the text of one LLVM module with the entry of all kernels.

`params` points at slots of 8 bytes: the addresses of all tensors of the tree in their order, then the scalars
as doubles. A **microkernel** makes one tile: its sums are values of the loops (phi), so that they stay in
registers; `plan/contraction_schedule.py` says how large it is and why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..plan.contraction_schedule import ContractionPlan
from .builder import Builder, Value, i64
from .column_sums import ColumnSumTable, column_sum_table
from .contraction_loops import ContractionTile
from .contraction_microkernel import emit_microkernel
from .kernel import Style, load_pointer, module_text, share_of

_PARAMS = Value("ptr", "%params")


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
        self.table: ColumnSumTable | None = None

    def emit(self) -> None:
        """The loop over all tiles of a part."""
        b, found = self.b, self.contraction
        pointers = [
            b.advance(load_pointer(b, _PARAMS, place), access.base * access.tensor.data_type.bits // 8)
            for access, place in zip(found.accesses, found.places, strict=True)
        ]
        self.table = column_sum_table(b, self.plan)
        low, high = share_of(b, self.plan.steps)
        with b.loop(low, high) as step:
            self._tile(step, pointers)

    def _tile(self, step: Value, pointers: Sequence[Value]) -> None:
        """One tile: which it is, and the code for its kind."""
        plan, b = self.plan, self.b
        counts = [loop.extent for loop in plan.grid]
        counts.insert(plan.columns_at, plan.groups)
        *positions, tile = self._decoded(step, [*counts, plan.tiling.count])
        group = positions.pop(plan.columns_at)
        at = [self._moved(i, pointers[i], positions, group, tile) for i in range(len(pointers))]
        indices = {loop.axis: position for loop, position in zip(plan.grid, positions, strict=True)}
        indices[plan.row.axis] = b.op("mul", tile, i64(plan.tiling.rows))
        for last, (vectors, valid) in enumerate(self._column_kinds()):
            wanted = plan.groups - 1 if last else plan.groups - 2
            chosen = ("eq" if last else "sle", group, i64(wanted))
            if plan.groups == 1 and not last:
                continue
            self._when(
                len(self._column_kinds()) > 1 and plan.groups > 1,
                chosen,
                lambda v=vectors, m=valid: self._row_kinds(at, indices, (tile, group), v, m),  # type: ignore[misc]
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
        numbers: tuple[Value, Value],
        vectors: int,
        valid: tuple[int, ...],
    ) -> None:
        """The code of each kind of tile; `numbers` are those of the tile and of the group of columns."""
        plan, b, (tile, group) = self.plan, self.b, numbers
        *runs, (number, _) = plan.tiling.runs
        kind = i64(number)
        for number, end in reversed(runs):
            is_before = b.value("i1", f"icmp slt {tile}, {end}")
            kind = b.value("i64", f"select {is_before}, {i64(number)}, {kind}")
        for number, each in enumerate(plan.tiling.kinds):
            entry = None if self.table is None else self.table.entry(number, group)
            place = ContractionTile(tuple(at), indices, each, vectors, valid, tile, entry)
            self._when(
                len(plan.tiling.kinds) > 1,
                ("eq", kind, i64(number)),
                lambda place=place: self._microkernel(place),  # type: ignore[misc]
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
        row = plan.row.strides[access] * plan.tiling.rows
        columns = plan.column_offset(access, plan.lanes * plan.vectors) if plan.groups > 1 else 0
        strides = [*(loop.strides[access] for loop in plan.grid), columns, row]
        for position, stride in zip((*positions, group, tile), strides, strict=True):
            nbytes = stride * self.contraction.accesses[access].tensor.data_type.bits // 8
            pointer = b.step(pointer, position, nbytes)
        return pointer

    def _microkernel(self, tile: ContractionTile) -> None:
        emit_microkernel(self.b, self.plan, self.style, tile, self.table, fused=self.fused)
