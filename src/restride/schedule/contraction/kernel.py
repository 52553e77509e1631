"""What the code of a contraction depends on: constants, and which numbers each launch brings beside.

Layers of a network differ in their sizes, and hardly in what a tile does. So what a schedule says is parted:

| constants of the code | numbers of a launch |
| --- | --- |
| types, results, packs | where index 0 of each tensor lies |
| rows, vectors, lanes of a tile, and of the last one | how many tiles there are, how many of each kind |
| strides of a tile's rows, and within blocks | strides of the loops around tiles, from a block to the next |
| rows that taps of a window have at its edges; its taps | from where to where other windows go |
| blocks of the summed loops, steps written out | turns of the summed loops, and their strides past a block |

The left column is in the text of the code: it is what is written out, and displacements of instructions. The
right one is read from memory, for each tile once. So batches, images and channels of all sizes share code
where they have the same tile. What writes the code sees these values alone, so that it can depend on nothing
else. `schedule/contraction/numbers.py` parts a schedule.

Where channels are the lanes, tiles are so short that all numbers are constants: read from memory, they took
up to a sixth more.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...dtypes import DataType
from ...ir.expression import Expr, Load, Ref, parts_of
from .strides import ContractionResult, has_integers
from .tiles import RowTile

SUM_BYTES = 4
"""Of a sum: f32 or s32."""


@dataclass(frozen=True, slots=True)
class LaunchNumber:
    """A number that each launch brings: its place among them."""

    place: int


Number = int | LaunchNumber
"""A constant of the code, or a number of a launch."""


@dataclass(frozen=True, slots=True)
class LaunchGrid:
    """The loops around tiles, in any order; `steps` are all of their positions.

    They move numbers: the addresses of all accesses, where each window begins; where code depends on them,
    the group of columns and the number of the tile in its row loop. `starts` are those of the first tile,
    `strides` those of each loop. `jumps` is the first of a table: behind a run of the innermost loop, it has
    by how much each number is moved on, a row for each other loop. None where all are constants.
    """

    steps: Number
    extents: tuple[Number, ...]
    starts: tuple[Number, ...]
    strides: tuple[tuple[Number, ...], ...]
    jumps: LaunchNumber | None
    has_group: bool
    has_number: bool


@dataclass(frozen=True, slots=True)
class ColumnTile:
    """A kind of tile by its columns: of each vector, how many lanes are columns, and how many are written."""

    valid: tuple[int, ...]
    written: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VectorPlace:
    """Where a vector of a tile is, from its first one on: so many blocks and bytes."""

    blocks: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class AccessStrides:
    """By how many bytes an access is moved within a tile: from a row to the next, from a block of columns to
    the next, to each vector. `lane`: from a lane to the next, in elements.
    """

    row: int
    lane: int
    block: Number
    vectors: tuple[VectorPlace, ...]


@dataclass(frozen=True, slots=True)
class LoopWindow:
    """The positions k of a summed loop that count: `begin + step * k` is inside [0, size), where `begin` is
    that of window `number`.
    """

    number: int
    step: int
    size: Number


@dataclass(frozen=True, slots=True)
class LoopEnd:
    """How many positions a summed loop has. Below the loop number `upper`, each of whose positions is `ratio`
    of its own, these are the positions of all blocks together: `most` for each of them, and what is left for
    the last.
    """

    positions: Number
    upper: int | None = None
    ratio: int = 1
    most: int = 0


@dataclass(frozen=True, slots=True)
class SummedLoop:
    """A loop within a tile, `unroll` positions of which are written out: by how many bytes each position
    moves the two factors.

    `is_once`: it is no loop. `taps`: positions that are written out at the edges of a window; 0 where the
    rows of a tile do not depend on it. `rest_end`: the end of a loop over packs whose last one is not full,
    where `end` is that of the full ones. `window`: positions that count, of `end`.
    """

    strides: tuple[Number, Number]
    end: LoopEnd
    unroll: int = 1
    is_once: bool = False
    taps: int = 0
    rest_end: LoopEnd | None = None
    window: LoopWindow | None = None


@dataclass(frozen=True, slots=True)
class LoopPacks:
    """Products that are added in groups of `count`; the last one has `rest`, or 0 where it is full.

    `is_alone`: there is one pack, and no loop over them. `has_whole_rows`: all of a pack of the rows' factor
    is there to be read, though it is not full.
    """

    count: int
    rest: int
    is_alone: bool
    has_whole_rows: bool


@dataclass(frozen=True, slots=True)
class GroupSums:
    """Sums of groups: how many groups there are, by how many bytes each moves the accesses, and the value of
    a sum, which reads `loads`, the last accesses. `moved`: what is added to elements of columns.
    """

    count: Number
    strides: tuple[Number, ...]
    value: Expr
    loads: tuple[Load, ...]
    moved: int


@dataclass(frozen=True, slots=True)
class ColumnTable:
    """The table of column sums: so many vectors of `sums` for each kind of tile and group of columns; `room`
    for so many groups, and how many there are.
    """

    sums: int
    room: int
    groups: Number


@dataclass(frozen=True, slots=True)
class ColumnStream:
    """The next columns, asked for ahead: they lie `behind` those of a tile, tiles of a row of them ask for
    `share` bytes each, and a turn of the summed loop for so many `lines`.
    """

    lines: int
    behind: Number
    share: Number


@dataclass(frozen=True, slots=True)
class SplitSums:
    """Sums over `turns` of the loop number `level` at a time, for `tiles` of the grid one after the other."""

    level: int
    turns: Number
    tiles: int


@dataclass(frozen=True, slots=True)
class ContractionKernel:
    """What the code of a contraction depends on; `schedule/contraction/schedule.py` says what a tile is.

    `types` and `strides` of all accesses, and `places` of their tensors among the `tensors` of a launch;
    `loads` are accesses that results read. `runs`: a kind of tile by its rows, and the number of tiles up to
    its end; `groups` of columns, the last of which is of the last kind. `operands` are asked for ahead.
    """

    types: tuple[DataType, ...]
    places: tuple[int, ...]
    strides: tuple[AccessStrides, ...]
    tensors: int
    results: tuple[ContractionResult, ...]
    loads: tuple[Load, ...]
    parts: tuple[int, ...]
    is_integral: bool
    lanes: int
    grid: LaunchGrid
    groups: Number
    kinds: tuple[RowTile, ...]
    runs: tuple[tuple[int, Number], ...]
    column_kinds: tuple[ColumnTile, ...]
    loops: tuple[SummedLoop, ...]
    packs: LoopPacks | None
    is_dot: bool
    moves_rows: bool
    is_by_lanes: bool
    shared_taps: int
    operands: tuple[int, ...]
    stream: ColumnStream | None
    table: ColumnTable | None
    groups_of_sums: GroupSums | None = None
    # How many bytes behind those of a turn columns are asked for.
    behind: int = 0
    split: SplitSums | None = None
    # The tiles of the row loop, where it is cut into strips: behind the last one there are none.
    tiles: Number | None = None

    @property
    def sums_integers(self) -> bool:
        """True where products are of integers."""
        return self.is_integral or (
            self.groups_of_sums is not None and all(map(has_integers, self.types[:2]))
        )

    def has_sums_of(self, name: str) -> bool:
        """True where a result needs `COLUMN_SUMS` or `ROW_SUMS`."""
        return has_sums_of(self.results, name)


def has_sums_of(results: tuple[ContractionResult, ...], name: str) -> bool:
    """True where a result needs the sums of this name."""
    return any(part == Ref(name) for result in results for part in parts_of(result.value))
