"""Microkernels of contractions: the sums of one tile, and what becomes of them.

Most tiles need the sums of products alone. Where zero points are subtracted, or elements are moved so that
an instruction takes them, the sums of one factor alone are needed too: of columns (`emit/column_sums.py`),
and of rows. They are found by the same loops.
"""

from __future__ import annotations

from ..plan.contraction import FIRST, SECOND
from ..plan.contraction_parts import COLUMN_SUMS, ROW_SUMS
from ..plan.contraction_schedule import ContractionPlan
from ..plan.contraction_tiles import Rows
from .builder import Builder, Value
from .column_sums import ColumnSums, ColumnSumTable
from .contraction_loops import ContractionTile, SumLoops
from .contraction_prefetch import prefetch_columns, prefetch_operands
from .contraction_products import products_of
from .contraction_result import ResultWriter
from .contraction_values import TilePlace, TileSums
from .kernel import Style

# By how much a row's elements are moved: 2 ** 7.
_MOVED_BITS = 7


def emit_microkernel(
    b: Builder,
    plan: ContractionPlan,
    style: Style,
    tile: ContractionTile,
    table: ColumnSumTable | None,
    *,
    fused: bool,
) -> None:
    """Write the code of one kind of tile: its sums, and what becomes of them. `table`: of column sums."""
    products = products_of(b, plan, style, fused=fused)
    contraction = plan.contraction
    prefetch_operands(b, plan, tile)
    totals = ProductSums(b, plan, products, tile).sums()
    columns: list[Value] = []
    if plan.moves_rows or contraction.has_sums_of(COLUMN_SUMS):
        columns = ColumnSums(b, plan, products, tile, table).sums()
    rows = RowSums(b, plan, products, tile).sums() if contraction.has_sums_of(ROW_SUMS) else []
    if plan.moves_rows:
        bits = b.splat("i32", plan.lanes, str(_MOVED_BITS))
        shifted = {column: b.op("shl", column, bits) for column in dict.fromkeys(columns)}
        moved = [shifted[column] for column in columns]
        totals = [b.op("sub", *pair) for pair in zip(totals, moved, strict=True)]
    place = TilePlace(tile.pointers, tile.kind.rows, tile.valid)
    ResultWriter(b, plan, style, place).emit(TileSums(totals, rows, columns))


class ProductSums(SumLoops):
    """The sums of products, `rows * vectors` vectors: of each vector of columns one for each part."""

    @property
    def vectors(self) -> int:
        """How many vectors of sums a row has."""
        return self.tile.vectors * len(self.contraction.parts)

    def _turn(self, counter: Value) -> None:
        """Ask for the next columns meanwhile."""
        prefetch_columns(self.b, self.plan, self.tile, counter)

    def _step(self, at: tuple[Value, Value], rows: Rows, sums: list[Value], count: int) -> list[Value]:
        """A product for every sum of some rows, or `count` of them."""
        found, parts = list(sums), self.contraction.parts
        columns = [
            self.products.column(*self._vector(at, SECOND, i, part), count)
            for i in range(self.tile.vectors)
            for part in parts
        ]
        for row in range(*rows):
            there = self._row(at, row)
            shared = None if self.plan.is_by_lanes else self.products.row(there[FIRST], count)
            for i, column in enumerate(columns):
                factor = shared or self.products.column(*self._vector(there, FIRST, i), count, FIRST)
                number = row * self.vectors + i
                found[number] = self.products.added(factor, column, found[number])
        return found


class RowSums(SumLoops):
    """The sums of the rows' factor, in every lane of a vector for each row."""

    @property
    def vectors(self) -> int:
        """One: all columns have the same."""
        return 1

    def _step(self, at: tuple[Value, Value], rows: Rows, sums: list[Value], count: int) -> list[Value]:
        found = list(sums)
        for row in range(*rows):
            factor = self.products.row(self._row(at, row)[FIRST], count, is_alone=True)
            found[row] = self.products.summed(factor, FIRST, count, found[row])
        return found
