"""Tiles of a contraction: how many rows and columns are held in registers, and what windows leave out.

Each step of the summed loops loads a vector for every vector of columns, broadcasts an element for every
row, and multiplies each with each: an outer product, added to sums that stay in registers. So

- sums, and what a step loads, are no more than there are registers;
- there are as many sums as multiply-adds are under way at once, or they would wait for each other;
- a tile is large, and nearly square in what it loads, so that loads are fewer than multiply-adds;
- vectors of columns are few, since they come from the second cache, and rows from the first;
- what is left of rows and columns behind the last whole tile is small.

With 32 registers of 64 bytes that is 14 rows by 2 vectors, with 16 of 32 bytes 6 by 2, where nothing is left.
Where channels are the lanes, as in a depthwise convolution, nothing is broadcast: rows share what their
windows share, and the weights of all taps stay in registers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..machine import Machine
from .strides import Contraction, ContractionLoop, Limit

Rows = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RowTile:
    """A kind of tile: how many rows; and where a window leaves rows out, the rows [low, high) of each tap."""

    rows: int
    taps: tuple[Rows, ...] = ()

    def taps_of(self, row: int) -> tuple[int, ...]:
        """The taps that a row has; where a window leaves nothing out, they count as one."""
        return tuple(i for i, (low, high) in enumerate(self.taps or ((0, self.rows),)) if low <= row < high)

    def of_taps(self) -> RowTile:
        """The tile with a row for each tap, and nothing else for that."""
        return RowTile(max(len(self.taps), 1), tuple((i, i + 1) for i in range(len(self.taps))))


@dataclass(frozen=True, slots=True)
class StepCost:
    """What a step takes beside the sums: registers for each vector, for a row, and for numbers that stay.

    `operations`: how many times each sum is added to; `parts`: sums of each row and vector; `taps`: those
    that are done at once where channels are the lanes, else 0.
    """

    vector: int = 1
    row: int = 1
    fixed: int = 0
    operations: int = 1
    parts: int = 1
    taps: int = 0


ONE_OPERATION = StepCost()
"""One instruction multiplies and adds, or there are two in a row."""
MOVED = StepCost(fixed=1)
"""One instruction, and a number that is added to each element of a row before."""
OF_WORDS = StepCost(vector=1, fixed=1)
"""Words of columns are kept while their elements are decoded, with masks."""
IN_HALVES = StepCost(vector=2, row=2, fixed=1, operations=2)
"""Both factors are split into halves, which are multiplied one after the other."""


def _time_of_tiles(machine: Machine, cost: StepCost, rows: int, even: int, loaded: int) -> float:
    """How long a step of all tiles of `even` rows takes, in multiply-adds that do not wait for each other."""
    at_once, tiles = machine.multiply_adds, -(-rows // even)
    if cost.parts > 1:
        # Vectors of several parts are so many that each tile reads them from the second cache: fewer tiles
        # are faster, although the last one has fewer rows than the others.
        return (rows * loaded * cost.operations) / at_once + loaded * tiles * machine.far_load
    sums = even * loaded * cost.operations
    if cost.taps:
        # Neighbours share what they read, and what is read of one column has no part in another.
        read = loaded * (even + 2 * cost.taps - 1) / cost.taps
        return (sums / at_once + read * machine.near_load + machine.tile_ends) * tiles
    loads = max(machine.load * (even + loaded), machine.lone_load * loaded) / at_once
    return max(sums / at_once, loads, machine.latency) * tiles


def tiles_by_time(machine: Machine, cost: StepCost, rows: int, vectors: int, whole: int) -> list[Rows]:
    """The rows and vectors of the tiles that fit into registers, by the time that all tiles of a kind take:
    the least first, and of equal ones the largest tile. Vectors are multiples of `whole`.
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
    """Tiles of so many rows, the last one of what is left: the `kinds` of them, and `runs` of one kind.

    A run is its kind, and the number of tiles up to its end. `tap` is the summed axis that the taps count.
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
    """The rows in tiles. Of those inside of a window, however many, nothing is looked at one by one."""
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
    """The first row, and one past the last, of which all taps are inside; rows move the index up."""
    factor, last = limit.coefficient(row.axis), limit.coefficient(tap.axis) * (tap.size - 1)
    least, most = limit.constant + min(last, 0), limit.constant + max(last, 0)
    if factor < 1:
        return row.extent, row.extent
    return -(least // factor), (limit.size - 1 - most) // factor + 1


def _taps(limit: Limit, row: ContractionLoop, tap: ContractionLoop, start: int, count: int) -> Iterator[Rows]:
    """Of each tap, the rows of a tile whose index is inside."""
    for position in range(tap.size):
        at = limit.constant + limit.coefficient(tap.axis) * position
        inside = [i for i in range(count) if 0 <= at + limit.coefficient(row.axis) * (start + i) < limit.size]
        yield (inside[0], inside[-1] + 1) if inside else (0, 0)


def tap_of(contraction: Contraction, limit: Limit, row: ContractionLoop) -> ContractionLoop | None:
    """The summed loop that a limit counts beside a row; None where it is not one alone."""
    others = [name for name, _ in limit.terms if name != row.axis]
    taps = [loop for loop in contraction.summed if loop.axis in others]
    return taps[0] if len(others) == len(taps) == 1 else None
