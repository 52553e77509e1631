"""Tiles of a contraction: how many rows and columns are held in registers, and what windows exclude.

Each step of the summed loops loads a vector for every vector of columns, broadcasts an element for every
row, and multiplies all pairs: an outer product, added to sums that stay in registers. So

- sums and the loads of a step must fit the registers;
- there are as many sums as multiply-adds in flight, or they would wait for each other;
- a tile is large, and nearly square in what it loads, so that loads are fewer than multiply-adds;
- vectors of columns are few, since they come from the L2 cache, and rows from the L1 cache;
- the remainder of rows and columns after the last whole tile is small.

With 32 registers of 64 bytes that gives 14 rows by 2 vectors, with 16 of 32 bytes 6 by 2, if nothing remains.
If channels are the lanes, as in a depthwise convolution, nothing is broadcast: rows share the overlap of
their windows, and the weights of all taps stay in registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..machine import Machine
from .strides import Contraction, ContractionLoop, Limit

Rows = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RowTile:
    """A kind of tile: its number of rows; and, if a window excludes rows, those [low, high) of each tap."""

    rows: int
    taps: tuple[Rows, ...] = ()

    def taps_of(self, row: int) -> tuple[int, ...]:
        """Return the taps that a row has; if a window excludes nothing, they count as one."""
        return tuple(i for i, (low, high) in enumerate(self.taps or ((0, self.rows),)) if low <= row < high)

    def of_taps(self) -> RowTile:
        """Return the tile with a row for each tap, and no window."""
        return RowTile(max(len(self.taps), 1), tuple((i, i + 1) for i in range(len(self.taps))))


@dataclass(frozen=True, slots=True)
class StepCost:
    """The cost of a step other than the sums: registers for each vector, for a row, and for constants.

    `operations`: how many times each sum is added to; `parts`: sums of each row and vector; `taps`: those
    processed together if channels are the lanes, else 0.
    """

    vector: int = 1
    row: int = 1
    fixed: int = 0
    operations: int = 1
    parts: int = 1
    taps: int = 0


ONE_OPERATION = StepCost()
"""One instruction multiplies and adds, or there are two in sequence."""
MOVED = StepCost(fixed=1)
"""One instruction, and an offset that is first added to each element of a row."""
OF_WORDS = StepCost(vector=1, fixed=1)
"""Words of columns, with masks, are kept while their elements are decoded."""
IN_HALVES = StepCost(vector=2, row=2, fixed=1, operations=2)
"""Both factors are split into halves, which are multiplied one after another."""


def _time_of_tiles(machine: Machine, cost: StepCost, rows: int, even: int, loaded: int) -> float:
    """Return the time of a step of all tiles of `even` rows, in independent multiply-adds."""
    at_once, tiles = machine.multiply_adds, -(-rows // even)
    if cost.parts > 1:
        # Vectors of several parts are so many that each tile reads them from the L2 cache: fewer tiles are
        # faster, even if the last one has fewer rows than the others.
        return (rows * loaded * cost.operations) / at_once + loaded * tiles * machine.far_load
    sums = even * loaded * cost.operations
    if cost.taps:
        # Adjacent columns share what they read; what is read of a single column is not shared.
        read = loaded * (even + 2 * cost.taps - 1) / cost.taps
        return (sums / at_once + read * machine.near_load + machine.tile_ends) * tiles
    loads = max(machine.load * (even + loaded), machine.lone_load * loaded) / at_once
    return max(sums / at_once, loads, machine.latency) * tiles


def tiles_by_time(machine: Machine, cost: StepCost, rows: int, vectors: int, whole: int) -> list[Rows]:
    """Return the rows and vectors of the tiles that fit into registers, by the time of all tiles of a kind:
    the fastest first, and among equals the largest. Vectors are multiples of `whole`.
    """
    candidates: set[tuple[float, int, int]] = set()
    for count in range(whole, min(max(vectors, whole), machine.registers // 2) + whole, whole):
        loaded = count * cost.parts
        most = (machine.registers - cost.row - cost.fixed - cost.vector * loaded) // loaded
        if most < 1 and count > whole:
            break
        for tile in range(1, min(max(most, 1), rows) + 1):
            tiles = -(-rows // tile)
            even = -(-rows // tiles)
            work = _time_of_tiles(machine, cost, rows, even, loaded)
            candidates.add((work * -(-vectors // count), -even * count, count))
    return [(-area // count, count) for _, area, count in sorted(candidates)]


@dataclass(frozen=True, slots=True)
class RowTiling:
    """Tiles of a number of rows, the last one of the remainder: their `kinds`, and `runs` of one kind.

    A run is its kind, and the number of tiles up to its end. `tap` is the summed axis of the taps.
    """

    rows: int
    kinds: tuple[RowTile, ...]
    runs: tuple[tuple[int, int], ...]
    tap: str

    @property
    def count(self) -> int:
        """The number of tiles."""
        return self.runs[-1][1]


def row_tiling(contraction: Contraction, row: ContractionLoop, rows: int) -> RowTiling:
    """Cut the rows into tiles. Rows inside a window are not examined individually, however many."""
    limit = next((limit for limit in contraction.limits if limit.coefficient(row.axis)), None)
    tap = None if limit is None else tap_of(contraction, limit, row)
    count = -(-row.extent // rows)
    low, high = 0, row.extent // rows
    if limit is not None and tap is not None:
        first, end = _rows_inside(limit, row, tap)
        low = min(-(-max(first, 0) // rows), count)
        high = max(min(end // rows, high), low)
    tiles: list[tuple[RowTile, int]] = []
    for place in (*range(low), *([high - 1] if high > low else []), *range(high, count)):
        tile = RowTile(rows) if low <= place < high else _edge_tile(limit, row, tap, place * rows, rows)
        if tiles and tiles[-1][0] == tile:
            tiles.pop()
        tiles.append((tile, place + 1))
    kinds = tuple(dict.fromkeys(tile for tile, _ in tiles))
    runs = tuple((kinds.index(tile), end) for tile, end in tiles)
    return RowTiling(rows, kinds, runs, tap.axis if tap is not None else "")


def _edge_tile(
    limit: Limit | None, row: ContractionLoop, tap: ContractionLoop | None, start: int, rows: int
) -> RowTile:
    count = min(rows, row.extent - start)
    taps = () if limit is None or tap is None else tuple(_taps(limit, row, tap, start, count))
    return RowTile(count, () if all(each == (0, count) for each in taps) else taps)


def _rows_inside(limit: Limit, row: ContractionLoop, tap: ContractionLoop) -> tuple[int, int]:
    """Return the first row, and one past the last, with all taps inside; rows increase the index."""
    factor, last = limit.coefficient(row.axis), limit.coefficient(tap.axis) * (tap.size - 1)
    least, most = limit.constant + min(last, 0), limit.constant + max(last, 0)
    if factor < 1:
        return row.extent, row.extent
    return -(least // factor), (limit.size - 1 - most) // factor + 1


def _taps(limit: Limit, row: ContractionLoop, tap: ContractionLoop, start: int, count: int) -> Iterator[Rows]:
    """Yield, for each tap, the rows of a tile whose index is inside."""
    for position in range(tap.size):
        at = limit.constant + limit.coefficient(tap.axis) * position
        inside = [i for i in range(count) if 0 <= at + limit.coefficient(row.axis) * (start + i) < limit.size]
        yield (inside[0], inside[-1] + 1) if inside else (0, 0)


def tap_of(contraction: Contraction, limit: Limit, row: ContractionLoop) -> ContractionLoop | None:
    """Return the summed loop that a limit combines with a row; None if it is not a single one."""
    others = [name for name, _ in limit.terms if name != row.axis]
    taps = [loop for loop in contraction.summed if loop.axis in others]
    return taps[0] if len(others) == len(taps) == 1 else None
