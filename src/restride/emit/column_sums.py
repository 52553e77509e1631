"""Sums of a contraction's column factor alone, and a table in which tiles store them for later ones.

They are the same for all tiles of the same columns, except for what windows exclude. So a kernel computes
them once: an entry of the table has the sums of a kind of tile and a group of columns, and a key: the address
of the columns, and the ranges of loops that a window limits at run time.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..schedule.contraction.kernel import ColumnTable, ContractionKernel, SummedLoop
from ..schedule.contraction.strides import SECOND
from ..schedule.contraction.tiles import Rows
from ..schedule.machine import NOMINAL
from .builder import Builder, Value, i64, vector
from .contraction_loops import ContractionTile, Factors, SumLoops
from .contraction_numbers import number_of
from .contraction_products import Products

_WORD = 8


class ColumnSumTable:
    """Entries on the stack of a kernel, created before its first tile."""

    def __init__(self, b: Builder, kernel: ContractionKernel, table: ColumnTable) -> None:
        self.b = b
        kinds, most = len(kernel.kinds), table.sums
        self.words = 1 + 2 * len(limited_loops(kernel))
        self.type, self.nbytes = vector("i32", kernel.lanes), most * kernel.lanes * 4
        entries = kinds * table.room
        self.sums, self.keys = b.slot(self.type, entries * most), b.slot("i64", entries * self.words)
        self.is_shared, self.groups = table.room == 1, number_of(b, table.groups)
        with b.loop(i64(0), b.op("mul", self.groups, i64(kinds * self.words))) as word:
            b.line(f"store i64 0, {b.step(self.keys, word, _WORD)}, align {_WORD}")

    def entry(self, kind: int, group: Value) -> Value:
        """Return the index of the entry for a kind of tile and a group of columns."""
        first = self.b.op("mul", self.groups, i64(kind))
        return first if self.is_shared else self.b.op("add", first, group)

    def key(self, entry: Value) -> list[Value]:
        """Return the addresses of the words of a key."""
        start = self.b.step(self.keys, entry, self.words * _WORD)
        return [self.b.advance(start, word * _WORD) for word in range(self.words)]

    def places(self, entry: Value, count: int) -> list[Value]:
        """Return the addresses of the first sums of an entry."""
        start = self.b.step(self.sums, entry, self.nbytes)
        size = int(self.type.split(" x ")[0].removeprefix("<")) * 4
        return [self.b.advance(start, number * size) for number in range(count)]


def limited_loops(kernel: ContractionKernel) -> list[SummedLoop]:
    """Return the summed loops that a window limits at run time."""
    return [loop for loop in kernel.loops if loop.window is not None]


class ColumnSums(SumLoops):
    """The sums of the columns' factor: of each tap in the loops, then of all taps that a row has.

    They are few, and each would wait for that of the previous step: so several of each alternate.
    """

    def __init__(
        self,
        b: Builder,
        kernel: ContractionKernel,
        products: Products,
        tile: ContractionTile,
        table: ColumnSumTable | None,
    ) -> None:
        super().__init__(b, kernel, products, tile)
        self.table = table
        self.kind = tile.kind.of_taps()
        self.size = self.kind.rows * self.vectors
        self.copies = max(1, min(NOMINAL.latency, NOMINAL.held_sums // self.size))

    def sums(self) -> list[Value]:
        """Return the sums of all rows, row by row; rows with the same taps have the same values."""
        totals = self._of_taps() if self.table is None else self._from_table(self.table)
        of_taps: dict[tuple[int, ...], list[Value]] = {}
        rows: list[Value] = []
        for row in range(self.tile.kind.rows):
            taps = self.tile.kind.taps_of(row)
            if taps not in of_taps:
                of_taps[taps] = self._together([totals[t * self.vectors :][: self.vectors] for t in taps])
            rows += of_taps[taps]
        return rows

    def _of_taps(self) -> list[Value]:
        """Return the sums of each tap, added up."""
        totals = super().sums()
        while len(totals) > self.size:
            *totals, last = totals
            place = len(totals) % self.size
            totals[place] = self.b.op("add", totals[place], last)
        return totals

    def prepare(self) -> None:
        """Fill the table entry, unless a previous tile did: while no other sums need registers."""
        b, table, entry = self.b, self.table, self.tile.entry
        if table is None or entry is None:
            return
        words, key, places = self._key(), table.key(entry), table.places(entry, self.size)
        difference = i64(0)
        for word, place in zip(words, key, strict=True):
            known = b.value("i64", f"load i64, {place}, align {_WORD}")
            difference = b.op("or", difference, b.op("xor", known, word))
        with b.when("ne", difference, i64(0)):
            for total, place in zip(self._of_taps(), places, strict=True):
                b.line(f"store {total}, {place}, align 64")
            for word, place in zip(words, key, strict=True):
                b.line(f"store {word}, {place}, align {_WORD}")

    def _from_table(self, table: ColumnSumTable) -> list[Value]:
        b, entry = self.b, self.tile.entry
        assert entry is not None
        places = table.places(entry, self.size)
        return [b.value(table.type, f"load {table.type}, {place}, align 64") for place in places]

    def _key(self) -> list[Value]:
        """Return what the sums depend on: the address of the columns, and the ranges of limited loops."""
        ends = [end for loop in limited_loops(self.kernel) for end in self._limits(loop, 1)]
        return [self.b.value("i64", f"ptrtoint {self.tile.pointers[SECOND]} to i64"), *ends]

    def _together(self, parts: Sequence[Sequence[Value]]) -> list[Value]:
        total = [self._zero()] * self.vectors
        for number, part in enumerate(parts):
            pairs = zip(total, part, strict=True)
            total = [self.b.op("add", *pair) for pair in pairs] if number else list(part)
        return total

    def _step(self, at: Factors, rows: Rows, sums: list[Value], count: int) -> list[Value]:
        found, first = list(sums), rows[0] * self.vectors
        for i, (pointer, valid) in enumerate(self._vectors(at, SECOND)):
            column = self.products.column(pointer, valid, count)
            found[first + i] = self.products.summed(column, SECOND, count, found[first + i])
        return [*found[self.size :], *found[: self.size]]
