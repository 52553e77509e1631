"""Splits a scheduled contraction into the parameters of its code and the numbers passed at launch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from operator import methodcaller
from typing import NamedTuple

from ...ir.expression import Apply, Expr, Load
from ..machine import LINE, NOMINAL
from .kernel import (
    SUM_BYTES,
    AccessStrides,
    ColumnStream,
    ColumnTable,
    ColumnTile,
    ContractionKernel,
    GroupSums,
    LaunchGrid,
    LaunchNumber,
    LoopEnd,
    LoopPacks,
    LoopWindow,
    Number,
    SplitSums,
    SummedLoop,
    VectorPlace,
)
from .pack import has_whole_packs
from .parts import COLUMN_SUMS
from .schedule import ContractionPlan
from .strides import FIRST, SECOND, Contraction, ContractionLoop, Limit

# Strides of a summed loop up to this many bytes are near: they are within blocks of formats, which tensors of
# all sizes share.
_NEAR = 256
# With this many blocks after the first, the distance to the next is passed at launch. For more, LLVM computes
# the addresses early if they are constants, and moves sums to the stack for it.
_MOST_BLOCKS = 2
# The largest table of column sums, which is on the stack with everything else that a kernel keeps there.
_TABLE_BYTES = NOMINAL.stack_bytes // 4
# Rows whose sums are kept from part to part: with those of a few vectors, some KB on the stack.
_SPLIT_ROWS = 64
# Stand-ins for the axes of groups of columns, and of rows if there is no such loop.
_COLUMNS, _ROWS = "columns of a tile", "rows of a tile"


class _TileLoop(NamedTuple):
    """A loop around tiles: each position is a number of indices of an axis, and moves accesses by bytes.

    `tiles`: the tiles of the row loop in a position. Blocks of rows are of the same axis.
    """

    axis: str
    indices: int
    extent: int
    strides: tuple[int, ...]
    tiles: int = 0


class KernelLaunch(NamedTuple):
    """The parameters of the code, and the numbers passed at launch."""

    kernel: ContractionKernel
    numbers: tuple[int, ...]


def kernel_of_plan(plan: ContractionPlan) -> KernelLaunch:
    """Return both parts of a plan."""
    parting = _KernelSpecializer(plan)
    kernel = parting.kernel()
    return KernelLaunch(kernel, tuple(parting.numbers))


class _KernelSpecializer:
    """Splits one plan; `numbers` collects those of its launch."""

    def __init__(self, plan: ContractionPlan) -> None:
        self.plan = plan
        self.contraction: Contraction = plan.contraction
        self.numbers: list[int] = []
        self.bits = [access.tensor.data_type.bits for access in self.contraction.accesses]
        self.loops, self.rows_axis = plan.loops, plan.row.axis or _ROWS
        self.windows = [limit for loop in self.loops if (limit := self._limit(loop)) is not None]
        self.column_kinds, self.table = self._column_kinds(), self._table()

    def kernel(self) -> ContractionKernel:
        plan, contraction = self.plan, self.contraction
        loads = tuple(Load(str(i), ()) for i in range(len(contraction.loads)))
        names = dict(zip(contraction.loads, loads, strict=True))
        return ContractionKernel(
            types=tuple(access.tensor.data_type for access in contraction.accesses),
            places=contraction.places,
            strides=tuple(self._strides(i) for i in range(len(contraction.accesses))),
            tensors=contraction.tensors,
            results=tuple(
                replace(result, value=_with_loads(result.value, names)) for result in contraction.results
            ),
            loads=loads,
            parts=tuple(self._nbytes(SECOND, part) for part in contraction.parts),
            is_integral=contraction.is_integral,
            lanes=plan.lanes,
            grid=self._grid(),
            groups=self._brought(plan.groups),
            kinds=plan.tiling.kinds,
            runs=tuple((kind, self._brought(end)) for kind, end in plan.tiling.runs),
            column_kinds=self.column_kinds,
            loops=tuple(map(self._summed, range(len(self.loops)))),
            packs=self._packs(),
            is_dot=plan.is_dot,
            moves_rows=plan.moves_rows,
            is_by_lanes=plan.is_by_lanes,
            shared_taps=plan.shared_taps,
            operands=plan.prefetch.operands,
            stream=self._stream(),
            table=self.table,
            groups_of_sums=self._group_sums(),
            behind=plan.prefetch.behind,
            split=self._split(),
            tiles=self._brought(plan.tiling.count) if plan.strip else None,
        )

    def _split(self) -> SplitSums | None:
        plan, loop = self.plan, self.plan.split_loop
        if loop is None or not 0 < plan.split < plan.split_turns:
            return None
        rows = max(kind.rows for kind in plan.tiling.kinds)
        return SplitSums(self.loops.index(loop), self._brought(plan.split), -(-_SPLIT_ROWS // rows))

    def _group_sums(self) -> GroupSums | None:
        groups = self.contraction.groups
        if groups is None:
            return None
        loads = tuple(Load(str(i), ()) for i in range(len(groups.loads)))
        strides = enumerate(groups.loop.strides)
        return GroupSums(
            self._brought(groups.loop.extent),
            tuple(self._distance(self._nbytes(access, stride), _NEAR) for access, stride in strides),
            _with_loads(groups.value, dict(zip(groups.loads, loads, strict=True))),
            loads,
            groups.moved,
        )

    # --- numbers

    def _brought(self, number: int) -> Number:
        if self.plan.is_by_lanes:
            return number
        self.numbers.append(number)
        return LaunchNumber(len(self.numbers) - 1)

    def _distance(self, nbytes: int, near: int = 0) -> Number:
        """Return a stride: a constant if it is near, or zero, which needs no code."""
        return nbytes if abs(nbytes) <= near else self._brought(nbytes)

    def _nbytes(self, access: int, elements: int) -> int:
        return elements * self.bits[access] // 8

    # --- around tiles

    def _strides(self, access: int) -> AccessStrides:
        plan = self.plan
        block, *inner = plan.lane_digits
        lane = plan.lane_digits[-1].strides[access]
        places = []
        for number in range(plan.vectors):
            blocks, left = divmod(number * plan.lanes, block.step) if inner else (0, number * plan.lanes)
            places.append(VectorPlace(blocks, self._nbytes(access, left * lane)))
        blocks = max(place.blocks for place in places)
        has_rows = any(kind.rows > 1 for kind in plan.tiling.kinds)
        nbytes = self._nbytes(access, block.strides[access])
        return AccessStrides(
            row=self._nbytes(access, plan.row.strides[access]) if has_rows else 0,
            lane=lane,
            block=self._distance(nbytes, 0 if blocks <= _MOST_BLOCKS else abs(nbytes)) if blocks else 0,
            vectors=tuple(places),
        )

    def _grid(self) -> LaunchGrid:
        """Return the loops around tiles, those of one position outermost, so that the innermost is long."""
        columns = self.column_kinds
        has_group = len(columns) > 1 or (self.table is not None and self.table.room > 1)
        has_number = len(self.plan.tiling.runs) > 1 or self.plan.prefetch.lines > 0 or self.plan.strip > 0
        loops = sorted(self._tile_loops(), key=lambda loop: loop.extent > 1)
        strides = [
            (
                *loop.strides,
                *(limit.coefficient(loop.axis) * loop.indices for limit in self.windows),
                *([int(loop.axis == _COLUMNS)] if has_group else []),
                *([loop.tiles] if has_number else []),
            )
            for loop in loops
        ]
        starts = [self._nbytes(i, access.base) for i, access in enumerate(self.contraction.accesses)]
        starts += [limit.constant for limit in self.windows]
        starts += [0] * (has_group + has_number)
        extents = [loop.extent for loop in loops]
        return LaunchGrid(
            self._brought(self.plan.steps),
            self._all_brought(extents),
            self._all_brought(starts),
            tuple(map(self._all_brought, strides)),
            None if self.plan.is_by_lanes else self._jumps(extents, strides),
            has_group,
            has_number,
        )

    def _tile_loops(self) -> Iterator[_TileLoop]:
        """Yield the loops of the grid, and those over tiles."""
        plan = self.plan
        columns = plan.lanes * plan.vectors
        offsets = [plan.column_offset(i, columns) for i in range(len(self.bits))]
        loops = [(loop.axis, loop.step, loop.extent, loop.strides, 0) for loop in plan.grid]
        loops.insert(plan.columns_at, (_COLUMNS, columns, plan.groups, tuple(offsets), 0))

        def of_tiles(extent: int, tiles: int) -> tuple[str, int, int, tuple[int, ...], int]:
            rows = plan.tiling.rows * tiles
            strides = tuple(stride * rows for stride in plan.row.strides)
            return self.rows_axis, rows, extent, strides, tiles

        if plan.strip:
            loops.insert(plan.columns_at, of_tiles(plan.strips, plan.strip))
        loops.append(of_tiles(plan.strip or plan.tiling.count, 1))
        for axis, indices, extent, moved, tiles in loops:
            nbytes = tuple(map(self._nbytes, range(len(moved)), moved))
            yield _TileLoop(axis, indices, extent, nbytes, tiles)

    def _all_brought(self, numbers: Iterable[int]) -> tuple[Number, ...]:
        return tuple(map(self._brought, numbers))

    def _jumps(self, extents: Sequence[int], strides: Sequence[Sequence[int]]) -> LaunchNumber:
        """Return the first number of the table."""
        first = LaunchNumber(len(self.numbers))
        self.numbers += [jump for jumps in _jumps(extents, strides) for jump in jumps]
        return first

    def _column_kinds(self) -> tuple[ColumnTile, ...]:
        """Return whole tiles, and the last one if it differs."""
        plan = self.plan
        first = (plan.groups - 1) * plan.vectors * plan.lanes
        left = range(first, plan.columns, plan.lanes)
        valid = tuple(max(0, min(plan.lanes, plan.size - column)) for column in left)
        last = ColumnTile(valid, tuple(min(plan.lanes, plan.columns - column) for column in left))
        whole = ColumnTile((plan.lanes,) * plan.vectors, (plan.lanes,) * plan.vectors)
        return (last,) if plan.groups == 1 or last == whole else (whole, last)

    # --- summed loops

    def _summed(self, number: int) -> SummedLoop:
        loop, plan = self.loops[number], self.plan
        is_tap, limit = loop.axis == plan.tiling.tap, self._limit(loop)
        has_rest = self._is_over_packs(loop) and plan.pack is not None and plan.pack.rest > 0
        is_last = number == len(self.loops) - 1
        first, second = (self._nbytes(access, loop.strides[access]) for access in (FIRST, SECOND))
        # Taps that are processed together differ in where they read.
        is_written_out = is_last and plan.shared_taps
        return SummedLoop(
            strides=(
                first if is_written_out else self._distance(first, _NEAR),
                self._distance(second, _NEAR),
            ),
            end=self._end(number, of_full_packs=has_rest),
            unroll=plan.unroll if is_last else 1,
            is_once=loop.extent == 1 and not has_rest and not is_tap and limit is None,
            taps=loop.extent if is_tap and any(kind.taps for kind in plan.tiling.kinds) else 0,
            rest_end=self._end(number, of_full_packs=False) if has_rest else None,
            window=None if limit is None else self._window(limit, loop),
        )

    def _limit(self, loop: ContractionLoop) -> Limit | None:
        """Return the window that determines at run time which positions of a loop count."""
        own = (limit for limit in self.contraction.limits if limit.coefficient(loop.axis))
        return None if loop.axis == self.plan.tiling.tap else next(own, None)

    def _is_over_packs(self, loop: ContractionLoop) -> bool:
        pack = self.plan.pack
        return pack is not None and (loop.axis, loop.step) == (pack.loop.axis, pack.count)

    def _end(self, number: int, *, of_full_packs: bool) -> LoopEnd:
        loop, limits = self.loops[number], self.contraction.limits
        above = [i for i, each in enumerate(self.loops) if each.axis == loop.axis and each.step > loop.step]
        upper = self.loops[above[0]] if above else None
        is_cut = upper is not None and upper.extent > 1 and (loop.size % upper.step > 0 or of_full_packs)
        if upper is None or not is_cut:
            positions = loop.size // loop.step if of_full_packs else loop.extent
            # Blocks and windows have few positions, which can be constants of the code.
            is_brought = upper is None and not any(map(methodcaller("coefficient", loop.axis), limits))
            return LoopEnd(self._brought(positions) if is_brought else positions)
        size = loop.size // loop.step if of_full_packs else -(-loop.size // loop.step)
        return LoopEnd(self._brought(size), above[0], upper.step // loop.step, loop.extent)

    def _window(self, limit: Limit, loop: ContractionLoop) -> LoopWindow:
        return LoopWindow(self.windows.index(limit), limit.coefficient(loop.axis), self._brought(limit.size))

    def _packs(self) -> LoopPacks | None:
        pack = self.plan.pack
        if pack is None:
            return None
        rows = self.contraction.accesses[FIRST].tensor
        is_alone = not any(map(self._is_over_packs, self.loops))
        return LoopPacks(pack.count, pack.rest, is_alone, has_whole_packs(rows, pack.count))

    # --- further parameters

    def _stream(self) -> ColumnStream | None:
        plan, lines = self.plan, self.plan.prefetch.lines
        if not lines:
            return None
        behind = self._nbytes(SECOND, plan.column_offset(SECOND, plan.vectors * plan.lanes))
        share = self.loops[-1].extent // plan.unroll * lines * LINE
        return ColumnStream(lines, self._brought(behind), self._brought(share))

    def _table(self) -> ColumnTable | None:
        """Return the table of column sums; None if such sums are not needed, or each only once."""
        plan, kinds = self.plan, self.plan.tiling.kinds
        needs_sums = plan.moves_rows or self.contraction.has_sums_of(COLUMN_SUMS)
        again = plan.tiling.count > 1 or any(not loop.strides[SECOND] for loop in plan.grid)
        if not (needs_sums and again):
            return None
        # A tile has separate sums for each of its taps.
        sums = max(max(len(kind.taps), 1) for kind in kinds) * plan.vectors
        room = _TABLE_BYTES // (len(kinds) * sums * plan.lanes * SUM_BYTES)
        fits = 1 < plan.groups <= room
        return ColumnTable(sums, room, self._brought(plan.groups)) if fits else ColumnTable(sums, 1, 1)


def _jumps(extents: Sequence[int], strides: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield, for each loop but the last, the advance of the numbers where all loops inside it restart, of
    which the last has gone past its end.
    """
    for number, own in enumerate(strides[:-1]):
        inside = [*zip(extents, strides, strict=True)][number + 1 :]
        back = [sum((extent - 1) * each[i] for extent, each in inside) for i in range(len(own))]
        yield [moved - far - end for moved, far, end in zip(own, back, strides[-1], strict=True)]


def _with_loads(value: Expr, names: Mapping[Load, Load]) -> Expr:
    """Return the expression with its loads replaced."""
    if isinstance(value, Load):
        return names[value]
    if isinstance(value, Apply):
        return Apply(value.op, tuple(_with_loads(arg, names) for arg in value.args))
    return value
