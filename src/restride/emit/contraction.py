"""Code for kernels of contractions: the text of one LLVM module with the entry point of all kernels.

`params` points to slots of 8 bytes: the addresses of all tensors of the tree in order, then the scalars as
f64; `src` to the numbers of the launch (`schedule/contraction/kernel.py`). A **microkernel** computes one
tile: its sums are values of the loops (phi), so that they stay in registers;
`schedule/contraction/schedule.py` determines the size of a tile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from functools import partial

from ..schedule.contraction.kernel import (
    SUM_BYTES,
    ColumnTile,
    ContractionKernel,
    LaunchNumber,
    SplitSums,
)
from .builder import Builder, Value, i64
from .column_sums import ColumnSumTable
from .contraction_loops import ContractionTile, SumPart, TilePosition, window_ends
from .contraction_microkernel import emit_microkernel
from .contraction_numbers import distance_of, number_of, row_of
from .kernel import Style, load_pointer, module_text, share_of

_PARAMS = Value("ptr", "%params")


def emit_contraction(kernel: ContractionKernel, style: Style, *, fused: bool) -> str:
    """Return the IR text of a contraction; `fused`: the instruction set has fused multiply-add."""
    b = style.builder()
    ContractionWriter(b, kernel, style, fused=fused).emit()
    b.line("ret void")
    return module_text(b)


class ContractionWriter:
    """Writes the loops over tiles."""

    def __init__(self, b: Builder, kernel: ContractionKernel, style: Style, *, fused: bool) -> None:
        self.b, self.kernel, self.style, self.fused = b, kernel, style, fused
        self.table: ColumnSumTable | None = None
        self.part: SumPart | None = None

    def emit(self) -> None:
        """Write the loops over all tiles of a part."""
        b, kernel, grid = self.b, self.kernel, self.kernel.grid
        if kernel.table is not None:
            self.table = ColumnSumTable(b, kernel, kernel.table)
        low, high = share_of(b, number_of(b, grid.steps))
        starts = self._starts()
        if grid.jumps is None:
            with b.loop(low, high) as step:
                self._tile(self._moved(starts, self._decoded(step)))
        elif kernel.split is not None:
            self._split_sums((low, high), starts, grid.jumps, kernel.split)
        else:
            self._runs((low, high), starts, grid.jumps)

    def _split_sums(
        self, steps: tuple[Value, Value], starts: Sequence[Value], jumps: LaunchNumber, split: SplitSums
    ) -> None:
        """Write a few tiles at a time, whose sums are kept from part to part: only the first tile reads the
        columns of a part from the L2 cache.
        """
        b, kernel, (low, high), loop = self.b, self.kernel, steps, self.kernel.loops[split.level]
        sums = max(kind.rows for kind in kernel.kinds) * len(kernel.column_kinds[0].valid) * len(kernel.parts)
        size = SUM_BYTES * kernel.lanes * sums
        kept, turns, tiles = b.slot("i8", split.tiles * size), number_of(b, split.turns), i64(split.tiles)
        whole = b.op("udiv", number_of(b, loop.end.positions), i64(loop.unroll))
        parts, most = b.op("sub", whole, i64(1)), b.op("sub", high, low)
        last = b.op("udiv", parts, turns)
        with b.loop(i64(0), b.op("udiv", b.op("add", most, i64(split.tiles - 1)), tiles)) as strip:
            first = b.op("add", low, b.op("mul", strip, tiles))
            end = b.scalar_intrinsic("smin", b.op("add", first, tiles), high)
            with b.loop(i64(0), b.op("add", last, i64(1))) as number:
                begin = b.op("mul", number, turns)
                stop = b.scalar_intrinsic("smin", b.op("add", begin, turns), whole)
                self.part = SumPart((begin, stop), kept, size, number, last)
                self._runs((first, end), starts, jumps)

    def _runs(self, steps: tuple[Value, Value], starts: Sequence[Value], jumps: LaunchNumber) -> None:
        """Write tiles in runs of the innermost loop, the first and last of which can be partial."""
        b, grid, (low, high), part = self.b, self.kernel.grid, steps, self.part
        levels, length = len(grid.extents), number_of(b, grid.extents[-1])
        is_moved = b.scalar_intrinsic("smin", low, i64(1))
        first = [i64(0)] * levels + list(starts)
        # Most launches are one part, which begins at the first tile: they need no divisions.
        with b.carried_loop(i64(0), is_moved, first, may_be_empty=True) as (_, values):
            positions = self._decoded(low)
            values[:] = [*positions, *self._moved(starts, positions)]
        *positions, within = values[:levels]
        end = b.op("add", within, b.op("sub", high, low))
        runs = b.op("udiv", b.op("add", end, b.op("sub", length, i64(1))), length)
        strides = [number_of(b, stride) for stride in grid.strides[-1]]
        with b.carried_loop(i64(0), runs, [*positions, *values[levels:]], may_be_empty=True) as (run, inside):
            behind = b.op("mul", run, length)
            start = b.scalar_intrinsic("smax", b.op("sub", within, behind), i64(0))
            stop = b.scalar_intrinsic("smin", b.op("sub", end, behind), length)
            outer = inside[: levels - 1]
            with b.carried_loop(start, stop, inside[levels - 1 :], may_be_empty=True) as (i, moved):
                if part is not None:
                    number = b.op("sub", b.op("add", behind, i), within)
                    self.part = replace(part, kept=b.step(part.kept, number, part.nbytes))
                # LLVM must not maintain values derived from them as further counters: registers are few.
                self._tile([b.hidden(value) for value in moved])
                moved[:] = map(b.advance, moved, strides)
            inside[:] = self._following(outer, moved, jumps)

    def _decoded(self, step: Value) -> list[Value]:
        """Return the position in each loop of the grid, outermost first, of a step through all of them."""
        b, found, above = self.b, list[Value](), step
        for extent in map(partial(number_of, b), reversed(self.kernel.grid.extents[1:])):
            found.append(b.op("urem", above, extent))
            above = b.op("udiv", above, extent)
        return [above, *reversed(found)]

    def _starts(self) -> list[Value]:
        """Return what the grid moves, at its first tile: addresses first."""
        b, kernel, starts = self.b, self.kernel, self.kernel.grid.starts
        pointers = [load_pointer(b, _PARAMS, place) for place in kernel.places]
        pointers += [i64(0)] * (len(starts) - len(pointers))
        return [b.advance(value, number_of(b, start)) for value, start in zip(pointers, starts, strict=True)]

    def _moved(self, starts: Sequence[Value], positions: Sequence[Value]) -> list[Value]:
        """Return the same at some positions of the loops."""
        b, pointers = self.b, list(starts)
        for position, strides in zip(positions, self.kernel.grid.strides, strict=True):
            pointers = [
                b.step(value, position, distance_of(b, stride))
                for value, stride in zip(pointers, strides, strict=True)
            ]
        return pointers

    def _following(
        self, positions: Sequence[Value], moved: Sequence[Value], jumps: LaunchNumber
    ) -> list[Value]:
        """Return the positions of the next run, and what they move: by a jump of the advancing loop."""
        b, grid, found, carry = self.b, self.kernel.grid, list[Value](), i64(1)
        level = i64(len(positions) - 1)
        for position, extent in reversed([*zip(positions, grid.extents, strict=False)][1:]):
            further = b.op("add", position, carry)
            is_over = b.value("i1", f"icmp eq {further}, {number_of(b, extent).ref}")
            found.append(b.value("i64", f"select {is_over}, {i64(0)}, {further}"))
            carry = b.value("i64", f"zext {is_over} to i64")
            level = b.op("sub", level, carry)
        by = row_of(b, jumps, level, len(moved))
        return [b.op("add", positions[0], carry), *reversed(found), *map(b.advance, moved, by)]

    def _tile(self, moved: Sequence[Value]) -> None:
        """Write one tile: the code for its kind."""
        kernel, b = self.kernel, self.b
        pointers, kinds, rest = len(kernel.places), kernel.column_kinds, list(moved)
        number = rest.pop() if kernel.grid.has_number else i64(0)
        group = rest.pop() if kernel.grid.has_group else i64(0)
        windowed = [loop for loop in kernel.loops if loop.window is not None]
        windows = (window_ends(b, *each) for each in zip(windowed, rest[pointers:], strict=True))
        place = TilePosition(tuple(rest[:pointers]), tuple(windows), group, number)
        last = b.op("sub", number_of(b, kernel.groups), i64(1)) if len(kinds) > 1 else group
        with b.when("slt", number, number_of(b, kernel.tiles)) if kernel.tiles is not None else nullcontext():
            for kind, columns in enumerate(kinds):
                self._when(
                    len(kinds) > 1,
                    ("eq" if kind == len(kinds) - 1 else "ne", group, last),
                    lambda columns=columns: self._row_kinds(place, columns),  # type: ignore[misc]
                )

    def _row_kinds(self, place: TilePosition, columns: ColumnTile) -> None:
        """Write the code of each kind of tile by its rows."""
        kernel, b = self.kernel, self.b
        *runs, (number, _) = kernel.runs
        kind = i64(number)
        for number, end in reversed(runs):
            is_before = b.value("i1", f"icmp slt {place.number}, {number_of(b, end).ref}")
            kind = b.value("i64", f"select {is_before}, {i64(number)}, {kind}")
        for number, rows in enumerate(kernel.kinds):
            entry = None if self.table is None else self.table.entry(number, place.group)
            tile = ContractionTile(place, rows, columns, entry, self.part)
            self._when(
                len(kernel.kinds) > 1,
                ("eq", kind, i64(number)),
                lambda tile=tile: self._microkernel(tile),  # type: ignore[misc]
            )

    def _when(self, is_asked: bool, condition: tuple[str, Value, Value], write: Callable[[], None]) -> None:
        if not is_asked:
            write()
            return
        with self.b.when(*condition):
            write()

    def _microkernel(self, tile: ContractionTile) -> None:
        emit_microkernel(self.b, self.kernel, self.style, tile, self.table, fused=self.fused)
