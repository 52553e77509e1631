"""Microkernels of contractions: the sums of one tile, and the results from them.

    zero rows x vectors sums                     in registers (phi)
    for the summed loops, far strides outside:
      load the vectors of columns                from the L2 cache
      for each row:
        broadcast its element                    from the L1 cache
        multiply it with each vector, and add
    for each row and vector: convert the sum, and store it

The size of a tile is explained in `schedule/contraction/tiles.py`; the multiply instructions in
`emit/contraction_products.py`.

Most tiles need only sums of products. If zero points are subtracted, or elements are offset to suit an
instruction, the sums of one factor alone are needed too: of columns (`emit/column_sums.py`), and of rows.
They are computed by the same loops.
"""

from __future__ import annotations

from ..schedule.contraction.kernel import ContractionKernel
from ..schedule.contraction.parts import COLUMN_SUMS, ROW_SUMS
from ..schedule.contraction.strides import FIRST, SECOND
from ..schedule.contraction.tiles import Rows
from .builder import Builder, Value, i64, vector
from .column_sums import ColumnSums, ColumnSumTable
from .contraction_loops import ContractionTile, Factors, SumLoops
from .contraction_numbers import distance_of, number_of
from .contraction_prefetch import (
    next_columns,
    prefetch_behind,
    prefetch_columns,
    prefetch_groups,
    prefetch_operands,
    prefetch_rows,
)
from .contraction_products import Factor, NibbleDots, Products, products_of
from .contraction_result import ResultWriter
from .contraction_values import GroupValues, TilePlace, TileSums
from .kernel import Style

# The offset of a row's elements: 2 ** 7.
_MOVED_BITS = 7


def emit_microkernel(
    b: Builder,
    kernel: ContractionKernel,
    style: Style,
    tile: ContractionTile,
    table: ColumnSumTable | None,
    *,
    fused: bool,
) -> None:
    """Write the code of one kind of tile: its sums and results. `table`: of column sums."""
    products = products_of(b, kernel, style, fused=fused)
    prefetch_operands(b, kernel, tile)
    needs_columns = kernel.moves_rows or kernel.has_sums_of(COLUMN_SUMS)
    column_sums = ColumnSums(b, kernel, products, tile, table)
    if needs_columns:
        column_sums.prepare()
    writer = ResultWriter(b, kernel, style, TilePlace(tile.pointers, tile.kind.rows, tile.columns))
    product_sums = ProductSums(b, kernel, products, tile)
    totals = product_sums.sums()
    if tile.part is not None:
        with b.when("ne", tile.part.number, tile.part.last):
            product_sums.keep(tile.part, totals)
        with b.when("eq", tile.part.number, tile.part.last):
            writer.emit(TileSums(totals, [], []))
        return
    columns = column_sums.sums() if needs_columns else []
    rows = RowSums(b, kernel, products, tile).sums() if kernel.has_sums_of(ROW_SUMS) else []
    if kernel.moves_rows:
        bits = b.splat("i32", kernel.lanes, str(_MOVED_BITS))
        shifted = {column: b.op("shl", column, bits) for column in dict.fromkeys(columns)}
        moved = [shifted[column] for column in columns]
        totals = [b.op("sub", *pair) for pair in zip(totals, moved, strict=True)]
    writer.emit(TileSums(totals, rows, columns))


class ProductSums(SumLoops):
    """The sums of products, `rows * vectors` vectors: one for each part of each vector of columns."""

    def __init__(
        self, b: Builder, kernel: ContractionKernel, products: Products, tile: ContractionTile
    ) -> None:
        super().__init__(b, kernel, products, tile)
        self._next_columns = next_columns(b, kernel, tile)
        self._inner_level = len(self.loops) - (2 if self._joined(len(self.loops) - 2) else 1)

    @property
    def vectors(self) -> int:
        """The number of vectors of sums in a row."""
        return self.tile.vectors * len(self.kernel.parts)

    def _turn(self, counter: Value) -> None:
        """Prefetch the next columns."""
        if self._next_columns is not None and self.kernel.stream is not None:
            prefetch_columns(self.b, self.kernel.stream.lines, self._next_columns, counter)

    def _level(self, level: int, at: Factors, rows: Rows, sums: list[Value], count: int) -> list[Value]:
        """Write the summed loops from `level` on; the last one at once if its taps share what rows read."""
        is_last = level == len(self.loops) - 1
        if FIRST in self.kernel.operands and level == self._inner_level:
            prefetch_rows(self.b, self.kernel, self.tile, at[FIRST])
        if is_last and self.kernel.shared_taps:
            return self._shared(at, rows, sums)
        products = self.products
        if isinstance(products, NibbleDots) and level == products.short_level:
            short = super()._level(level, at, rows, [products.short_zero] * len(sums), count)
            return [products.with_short(*pair) for pair in zip(sums, short, strict=True)]
        return super()._level(level, at, rows, sums, count)

    def _shared(self, at: Factors, rows: Rows, sums: list[Value]) -> list[Value]:
        """Write all taps of the innermost loop: a vector that several rows read, each with its own tap, is
        read once. Taps of a row stay in order.
        """
        level, found, pairs = len(self.loops) - 1, list(sums), dict[int, list[tuple[int, int]]]()
        stride = self.loops[level].strides[FIRST]
        assert isinstance(stride, int)
        is_cut = self.loops[level].taps and self.kind.taps
        for tap in range(self.kernel.shared_taps):
            for row in range(*(self.kind.taps[tap] if is_cut else rows)):
                place = tap * stride + row * self.kernel.strides[FIRST].row
                pairs.setdefault(place, []).append((tap, row))
        columns: dict[tuple[int, int], Factor] = {}
        for place, users in sorted(pairs.items()):
            there = self.b.advance(at[FIRST], place), at[SECOND]
            for i, (pointer, valid) in enumerate(self._vectors(there, FIRST)):
                factor = self.products.column(pointer, valid, 1, FIRST)
                for tap, row in users:
                    if (tap, i) not in columns:
                        behind = self._vectors(self._ahead(at, level, tap), SECOND)[i]
                        columns[tap, i] = self.products.column(*behind, 1)
                    number = row * self.vectors + i
                    found[number] = self.products.added(factor, columns[tap, i], found[number])
        return found

    def _step(self, at: Factors, rows: Rows, sums: list[Value], count: int) -> list[Value]:
        """Add a product to every sum of some rows, or `count` of them."""
        products, b, found = self.products, self.b, list(sums)
        products.keeps_places = rows[1] - rows[0] < self.vectors
        vectors = self._vectors(at, SECOND)
        if self.kernel.behind:
            prefetch_behind(b, self.kernel, [pointer for pointer, _ in vectors])
        for turn in range(products.turns(count)):
            # Words of a few vectors stay in registers.
            vectors = self._vectors(at, SECOND) if turn and not products.keeps_places else vectors
            columns = [
                products.column(b.advance(pointer, part), valid, count, turn=turn)
                for pointer, valid in vectors
                for part in self.kernel.parts
            ]
            for row in range(*rows):
                there = self._row(at, row)
                shared = None if self.kernel.is_by_lanes else products.row(there[FIRST], count, turn=turn)
                firsts = self._vectors(there, FIRST) if shared is None else []
                for i, column in enumerate(columns):
                    factor = shared or products.column(*firsts[i], count, FIRST)
                    number = row * self.vectors + i
                    found[number] = products.added(factor, column, found[number])
        return found

    def sums(self) -> list[Value]:
        """Return the sums of all rows; for groups, the values computed from them."""
        groups, b = self.kernel.groups_of_sums, self.b
        if groups is None:
            return super().sums()
        self.read_strides()
        strides = [distance_of(b, stride) for stride in groups.strides]
        zero = Value(vector("float", self.kernel.lanes), "zeroinitializer")
        zeros, count = [zero] * self.kind.rows * self.vectors, number_of(b, groups.count)
        with b.carried_loop(i64(0), count, zeros) as (counter, totals):
            pairs = zip(self.tile.pointers, strides, strict=True)
            place = tuple(b.step(pointer, counter, stride) for pointer, stride in pairs)
            prefetch_groups(b, self.kernel, self.tile, place, strides)
            parts = self.sums_at((place[FIRST], place[SECOND]))
            tile = TilePlace(place, self.kind.rows, self.tile.columns)
            values = GroupValues(b, self.kernel, self.products.style, tile, TileSums(parts, (), ()))
            totals[:] = [
                values.added(total, *divmod(i, self.vectors), fused=self.products.fused)
                for i, total in enumerate(totals)
            ]
        return totals


class RowSums(SumLoops):
    """The sums of the rows' factor, in every lane of a vector for each row."""

    @property
    def vectors(self) -> int:
        """One: it is the same for all columns."""
        return 1

    def _step(self, at: Factors, rows: Rows, sums: list[Value], count: int) -> list[Value]:
        totals = list(sums)
        for row in range(*rows):
            factor = self.products.row(self._row(at, row)[FIRST], count, is_alone=True)
            totals[row] = self.products.summed(factor, FIRST, count, totals[row])
        return totals
