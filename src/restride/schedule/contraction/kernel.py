"""The parameters of a contraction's code: constants, and the numbers passed at each launch.

Layers of a network differ in their sizes, but hardly in the work of a tile. So a schedule is split:

| constants of the code | numbers of a launch |
| --- | --- |
| types, results, packs | where index 0 of each tensor is |
| rows, vectors, lanes of a tile, and of the last one | the number of tiles, and of each kind |
| strides of a tile's rows, and within blocks | strides of the loops around tiles, and between blocks |
| rows that taps of a window have at its edges; its taps | the ranges of other windows |
| blocks of summed loops, unrolled steps | iterations of the summed loops, and their strides past a block |

The left column is in the text of the code, as unrolled code and displacements of instructions. The right one
is read from memory, once per tile. So batches, images and channels of all sizes share code if they have the
same tile. The code generator sees only these values, so that the code cannot depend on anything else.
`schedule/contraction/numbers.py` splits a schedule.

If channels are the lanes, tiles are so short that all numbers are constants: reading them from memory took up
to a sixth longer.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...dtypes import DataType
from ...ir.expression import Expr, Load, Ref, parts_of
from .strides import ContractionResult, has_integers
from .tiles import RowTile

SUM_BYTES = 4
"""The type of a sum: f32 or s32."""


@dataclass(frozen=True, slots=True)
class LaunchNumber:
    """A number that each launch passes: its index."""

    place: int


Number = int | LaunchNumber
"""A constant of the code, or a number passed at launch."""


@dataclass(frozen=True, slots=True)
class LaunchGrid:
    """The loops around tiles, in any order; `steps` are all of their positions.

    They advance numbers: the addresses of all accesses, where each window begins; where code depends on them,
    the group of columns and the number of the tile in its row loop. `starts` are those of the first tile,
    `strides` those of each loop. `jumps` is the first number of a table of the advance of each number after a
    run of the innermost loop, with a row for each other loop. None if all are constants.
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
    """A kind of tile by columns: for each vector, the lanes that are columns, and those that are written."""

    valid: tuple[int, ...]
    written: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class VectorPlace:
    """The position of a vector in a tile, relative to its first one: in blocks and bytes."""

    blocks: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class AccessStrides:
    """The bytes that an access moves within a tile: between rows, between blocks of columns, and to each
    vector. `lane`: between lanes, in elements.
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
    """The number of positions of a summed loop. Within the loop number `upper`, each position of which is
    `ratio` of these, it counts the positions of all blocks together: `most` in each, and the rest in the
    last.
    """

    positions: Number
    upper: int | None = None
    ratio: int = 1
    most: int = 0


@dataclass(frozen=True, slots=True)
class SummedLoop:
    """A loop within a tile, unrolled `unroll` times: the bytes by which each position moves the two factors.

    `is_once`: there is no loop. `taps`: positions that are unrolled at the edges of a window; 0 if the rows
    of a tile do not depend on it. `rest_end`: the end of a loop over packs whose last one is not full, where
    `end` is that of the full ones. `window`: which positions count, out of `end`.
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
    """Products that are added in groups of `count`; the last one has `rest`, or 0 if it is full.

    `is_alone`: there is one pack, and no loop over them. `has_whole_rows`: a whole pack of the rows' factor
    can be read, even if it is not full.
    """

    count: int
    rest: int
    is_alone: bool
    has_whole_rows: bool


@dataclass(frozen=True, slots=True)
class GroupSums:
    """Sums of groups: the number of groups, the bytes by which each moves the accesses, and the value of a
    sum, which reads `loads`, the last accesses. `moved`: the offset added to elements of columns.
    """

    count: Number
    strides: tuple[Number, ...]
    value: Expr
    loads: tuple[Load, ...]
    moved: int


@dataclass(frozen=True, slots=True)
class ColumnTable:
    """The table of column sums: the vectors of `sums` for each kind of tile and group of columns; `room` for
    groups, and their number.
    """

    sums: int
    room: int
    groups: Number


@dataclass(frozen=True, slots=True)
class ColumnStream:
    """The next columns, to be prefetched: they are `behind` bytes after those of a tile; tiles of a row
    prefetch `share` bytes each, and an iteration of the summed loop this many `lines`.
    """

    lines: int
    behind: Number
    share: Number


@dataclass(frozen=True, slots=True)
class SplitSums:
    """Sums over `turns` of the loop number `level` at a time, for `tiles` of the grid one after another."""

    level: int
    turns: Number
    tiles: int


@dataclass(frozen=True, slots=True)
class ContractionKernel:
    """The parameters of a contraction's code; `schedule/contraction/schedule.py` defines tiles.

    `types` and `strides` of all accesses, and `places` of their tensors among the `tensors` of a launch;
    `loads` are accesses that results read. `runs`: a kind of tile by its rows, and the number of tiles up to
    its end; `groups` of columns, the last of which is of the last kind. `operands` are prefetched.
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
    # How many bytes ahead of an iteration columns are prefetched.
    behind: int = 0
    split: SplitSums | None = None
    # The tiles of the row loop, if it is cut into strips; after the last one there are none.
    tiles: Number | None = None

    @property
    def sums_integers(self) -> bool:
        """True if products are of integers."""
        return self.is_integral or (
            self.groups_of_sums is not None and all(map(has_integers, self.types[:2]))
        )

    def has_sums_of(self, name: str) -> bool:
        """Return whether a result needs `COLUMN_SUMS` or `ROW_SUMS`."""
        return has_sums_of(self.results, name)


def has_sums_of(results: tuple[ContractionResult, ...], name: str) -> bool:
    """Return whether a result needs the sums of this name."""
    return any(part == Ref(name) for result in results for part in parts_of(result.value))
