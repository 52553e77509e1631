"""Scheduler: from a loop nest and machine facts to a scheduled nest.

A tile is a small box of positions that is loaded, permuted in registers and stored at once (`tiling.py`);
loops run the tiles in an order that suits the memory (`loop_order.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import isqrt, prod

from ...dtypes import DataType
from ...ir.nest import LoopNest, Stride
from ...ir.nest_rewrites import is_even, split_read
from ..language import Transform, schedule_text
from ..machine import LIMITS, NOMINAL, Machine
from .gather import fills_lines
from .local_square import LocalSquare
from .loop_order import Grid, order_loops
from .tiling import choose_tile, contiguous, moves_halves, rows_share_sets, tile_rows_share_sets

# Rows that go to fewer places count as contiguous.
_FEWEST_SCATTERED = 4


@dataclass(frozen=True, slots=True)
class Schedule:
    """A nest without bounds and how to run it: `chunks[i]` positions of axis i in a tile, loops, and why.

    `inner` are the axes of the loops inside a grid step, outermost first. `prefetch` is the prefetch distance
    in bytes along a source row. Tiles are permuted in `mid_type`: `late` ones as source values, converted
    when they are stored, the others as destination values. `square`: what a group of work-items stages.
    """

    nest: LoopNest
    chunks: tuple[int, ...]
    grid: tuple[Grid, ...]
    inner: tuple[int, ...]
    mid_type: DataType
    kind: str
    why: str
    late: bool = False
    streams: bool = False
    prefetch: int = 0
    square: LocalSquare | None = None

    def without_streams(self) -> Schedule:
        """The same schedule with ordinary stores, for a destination that is not aligned to cache lines."""
        return replace(self, streams=False)

    def steps(self) -> int:
        """The number of grid steps, which threads can share."""
        return prod(self.grid_extent(g) for g in self.grid)

    def tiles(self, axis: int) -> int:
        """Return the number of tiles along an axis, including a partial last one."""
        return -(-self.nest.axes[axis].extent // self.chunks[axis])

    def grid_extent(self, grid: Grid) -> int:
        """Return the number of steps of one grid loop."""
        return -(-self.tiles(grid.axis) // grid.tiles)

    def transforms(self, loop: int = 0) -> Iterator[Transform]:
        """Yield the transforms of `transforms.py` that produce this schedule for loop number `loop`."""
        loops = [i for i in range(len(self.chunks)) if self.tiles(i) > 1]
        order = [g.axis for g in self.grid if g.axis not in self.inner] + list(self.inner)
        for index, chunk in enumerate(self.chunks):
            if chunk > 1:
                yield Transform("tile", (f"a{index}", chunk), loop)
        if order != loops:
            yield Transform("reorder", tuple(f"a{index}" for index in order), loop)
        for grid in self.grid:
            count = (grid.tiles,) if grid.axis in self.inner else ()
            yield Transform("parallel", (f"a{grid.axis}", *count), loop)
        if self.late:
            yield Transform("permute_source", (), loop)
        if self.streams:
            yield Transform("stream", (), loop)
        if self.prefetch:
            yield Transform("prefetch", (self.prefetch,), loop)

    def text(self, loop: int = 0) -> str:
        """Return the schedule of loop number `loop` for `schedule/language.py`, under a comment line."""
        extents = enumerate(self.nest.axes)
        axes = ", ".join(
            f"a{index} {axis.extent}{'' if axis.valid in (0, axis.extent) else f' ({axis.valid} read)'}"
            for index, axis in extents
        )
        head = f"# {self.kind}{' of ' if axes else ''}{axes}: {self.why}"
        return f"{head}\n{schedule_text(self.transforms(loop))}".rstrip()

    def __str__(self) -> str:
        return self.text()


BoxScheduler = Callable[[Sequence[LoopNest], Machine], Iterable[Sequence[Schedule]]]
"""A function that schedules boxes: for each, the schedules of its parts."""


def schedule(nest: LoopNest, machine: Machine) -> tuple[Schedule, ...]:
    """Schedule a normalized nest without bounds.

    A partly read axis that no tile includes splits the nest: one part reads, the other writes zero.
    """
    late = converts_after_permute(nest)
    mid = nest.src_type if late else nest.dst_type
    tile = choose_tile(nest, mid, machine)
    for index, axis in enumerate(nest.axes):
        if not axis.is_whole and not nest.is_zero and tile.chunks[index] == 1:
            return _split_partial(nest, index, machine)
    order = order_loops(nest, tile.chunks, machine)
    plan = Schedule(nest, tile.chunks, order.grid, order.inner, mid, tile.kind, tile.why, late)
    if nest.moved_bytes < machine.l2:
        return (plan,)
    passes = nest.moved_bytes >= machine.l3 or _writes_collide(plan, machine)
    asking = with_prefetch(plan, machine, far=_reads_long_run(plan, machine))
    return (replace(asking, streams=passes and writes_whole_lines(plan, machine)),)


def scatters_rows(plan: Schedule, machine: Machine) -> bool:
    """Return whether rows of the source go to several places of the destination.

    Then short runs far apart reach memory directly. Longer ones are better assembled first: measured on ab to
    BA16a64b4a, 62 GB/s against 41.
    """
    nest = plan.nest
    if len(plan.inner) < 2 or nest.src_type.bits != nest.dst_type.bits:
        return False
    dealt, within = plan.inner[-2:]
    if plan.chunks[dealt] > 1 or dealt not in contiguous(nest, "src"):
        return False
    written = prod(plan.chunks) * _step_tiles(plan, within) * nest.dst_type.bits // 8
    step = _destination_step(plan, dealt)
    return _step_tiles(plan, dealt) >= _FEWEST_SCATTERED and step > max(written, machine.page)


def square_side(data_type: DataType) -> int:
    """Return the row and column length of the largest square that is a block."""
    return 1 << (isqrt(NOMINAL.block * 8 // data_type.bits).bit_length() - 1)


def needs_square(plan: Schedule, machine: Machine) -> bool:
    """Return whether rows of one side, as many as make a long run on the other, evict each other from the L1
    cache; and, past the caches, whether tiles are longer than the run of the source that they read.

    Measured with AVX2 on powers of two, through scratch: 1.1 to 2.2 times as fast. With many registers, tiles
    have whole lines of such rows.
    """
    nest = plan.nest
    if plan.kind != "transpose" or nest.src_type is not nest.dst_type or nest.moved_bytes < LIMITS.staged:
        return False
    if machine.registers > 16:
        first = contiguous(nest, "src")[0]
        return plan.chunks[first] > nest.axes[first].extent and nest.moved_bytes >= machine.l3
    sides = ("dst", "src"), ("src", "dst")
    return any(machine.first_cache.is_crowded_by(_rows(nest, *each, machine.line)) for each in sides)


def _rows(nest: LoopNest, along: str, side: str, line: int) -> list[tuple[int, int]]:
    """Return the number of rows on a side, up to those of a square, that are adjacent along the other side,
    with their distances, for each axis; rows in one line do not count.
    """
    rows, most, width = list[tuple[int, int]](), square_side(nest.dst_type), nest.dst_type.bits // 8
    for index in contiguous(nest, along):
        stride, extent = getattr(nest.axes[index], side), min(nest.axes[index].extent, most)
        if isinstance(stride, int) and abs(stride) * width >= line:
            rows.append((extent, abs(stride) * width))
        most //= extent
    return rows


def _step_tiles(plan: Schedule, index: int) -> int:
    """Return the tiles of an axis in one grid step."""
    return next((grid.tiles for grid in plan.grid if grid.axis == index), plan.tiles(index))


def _writes_collide(plan: Schedule, machine: Machine) -> bool:
    """Return whether the rows that a tile writes evict each other from the caches, so that these only cost.

    Measured on 1024 x 1024 f32: 31 GB/s through the caches, 71 past them; a subsequent reader, which then
    finds nothing in cache, loses less than was gained. Rows of bytes collide too, but gain nothing.
    """
    if plan.kind != "transpose" or plan.nest.dst_type.bits < 16 or plan.nest.moved_bytes < 4 * machine.l2:
        return False
    run, _ = _run_axes(plan)
    across = [i for i, chunk in enumerate(plan.chunks) if chunk > 1 and i not in run]
    return any(
        rows_share_sets(plan.chunks[i], plan.nest.axes[i].dst, plan.nest.dst_type, machine) for i in across
    )


def with_prefetch(plan: Schedule, machine: Machine, *, far: bool) -> Schedule:
    """Return the same schedule for a source that is not in cache, with prefetch. With `far`, it prefetches
    tiles ahead if a tile is a contiguous run that the innermost loop's next one continues.
    """
    is_run = far and (_run_of_tiles(plan) or _is_run_of_nibbles(plan, machine))
    ahead = machine.ahead_in_run_bytes if is_run else _prefetch_distance(plan, machine)
    return replace(plan, prefetch=ahead)


def _prefetch_distance(plan: Schedule, machine: Machine) -> int:
    """Return the prefetch distance: along the rows of a transpose, or to the next rows if rows are read to
    their end; to a jumping copy's next tile, or along each of the places where it continues.
    """
    if plan.kind == "transpose":
        if moves_halves(plan.nest) and _reads_lines_that_collide(plan, machine):
            # Nothing of a line is left to be read, and further lines would evict near ones.
            return 0
        return max(_next_rows(plan, machine), machine.ahead_bytes << plan.nest.shrinks)
    if plan.kind != "copy" or not plan.inner:
        return 0
    along = contiguous(plan.nest, "src")
    step = _source_step(plan, plan.inner[-1])
    if step <= machine.ahead_bytes or plan.inner[-1] in along[:1]:
        return 0
    # If tiles jump between places that are each read on, those continue soon.
    nearest = next((i for i in along if i in plan.inner[-2:]), None)
    return machine.ahead_bytes if nearest is not None and nearest != plan.inner[-1] else step


def _reads_long_run(plan: Schedule, machine: Machine) -> bool:
    """Return whether tiles continue along a long contiguous run of a source larger than the caches."""
    nest = plan.nest
    bits = min(nest.src_type.bits, nest.dst_type.bits)
    extents = [nest.axes[i].extent for i in contiguous(nest, "src")]
    # In shorter runs, most of what is prefetched would be past the end.
    is_long = prod(extents) * nest.src_type.bits >= 8 * 4 * machine.ahead_in_run_bytes
    return bits < 32 and is_long and nest.moved_bytes >= machine.l3


def _run_of_tiles(plan: Schedule) -> bool:
    """Return whether a tile is a contiguous run of the source, continued by the innermost loop's next one."""
    along, last = contiguous(plan.nest, "src"), plan.inner[-1:]
    is_wanted = plan.kind == "transpose" or (plan.kind == "copy" and plan.nest.operands)
    if not is_wanted or not last or last[0] not in along[1:]:
        return False
    inside = along[: along.index(last[0])]
    is_whole = all(plan.chunks[i] == plan.nest.axes[i].extent for i in inside)
    return is_whole and all(plan.chunks[i] == 1 for i in range(len(plan.chunks)) if i not in (*inside, *last))


def _is_run_of_nibbles(plan: Schedule, machine: Machine) -> bool:
    """Return whether a grid step reads 4-bit elements in one contiguous run, in whatever order.

    Then the next elements in a row of a tile are near, and read by this step anyway. Measured on the formats
    of 4-bit weights that have tiles: 1.3 to 2.8 times as fast as prefetching two lines ahead.
    """
    nest, run = plan.nest, 1
    if plan.kind != "transpose" or nest.src_type.bits != 4:
        return False
    counts = {
        i: min(axis.extent, chunk * _step_tiles(plan, i) if i in plan.inner else chunk)
        for i, (axis, chunk) in enumerate(zip(nest.axes, plan.chunks, strict=True))
    }
    taken = [(nest.axes[i].src, count) for i, count in counts.items() if count > 1]
    if not all(isinstance(stride, int) for stride, _ in taken):
        return False
    for stride, count in sorted(taken):
        if stride != run:
            return False
        run *= count
    return run * nest.src_type.bits >= 8 * machine.run_bytes


def _next_rows(plan: Schedule, machine: Machine) -> int:
    """Return the bytes from a tile's rows to those of the next loop, if the innermost one reads rows to their
    end, or to the end of a block if rows collide: then lines far ahead would evict near ones.
    """
    if len(plan.inner) < 2 or plan.inner[-1] not in contiguous(plan.nest, "src")[:1]:
        return 0
    is_cut = any(grid.axis == plan.inner[-1] for grid in plan.grid)
    if is_cut and not tile_rows_share_sets(plan.nest, dict(enumerate(plan.chunks)), machine):
        return 0
    return _source_step(plan, plan.inner[-2])


def _step_bytes(plan: Schedule, index: int, stride: Stride, data_type: DataType) -> int:
    """Return the bytes between tiles of an axis on the side of this stride; 0 if it moves by a table."""
    return abs(stride) * plan.chunks[index] * data_type.bits // 8 if isinstance(stride, int) else 0


def _reads_lines_that_collide(plan: Schedule, machine: Machine) -> bool:
    """Return whether a tile reads whole lines of rows that map to the same few sets of the L1 cache."""
    run = 1
    for index in contiguous(plan.nest, "src"):
        run *= plan.chunks[index]
        if plan.chunks[index] != plan.nest.axes[index].extent:
            break
    is_whole = run * plan.nest.src_type.bits >= 8 * machine.line
    return is_whole and tile_rows_share_sets(plan.nest, dict(enumerate(plan.chunks)), machine)


def _source_step(plan: Schedule, index: int) -> int:
    return _step_bytes(plan, index, plan.nest.axes[index].src, plan.nest.src_type)


def _destination_step(plan: Schedule, index: int) -> int:
    return _step_bytes(plan, index, plan.nest.axes[index].dst, plan.nest.dst_type)


def converts_after_permute(nest: LoopNest) -> bool:
    """Return whether values are converted after they are permuted, so that registers exchange fewer bytes.

    Always with a sum, since the old destination is then available; and with an operand that has the
    destination's layout.
    """
    if nest.compute.reads_destination or nest.dst_type.bits > nest.src_type.bits:
        return True
    along_src, along_dst = contiguous(nest, "src")[:1], contiguous(nest, "dst")[:1]
    if along_src == along_dst or not along_dst:
        return False
    moves = nest.axes[along_dst[0]].more
    across = nest.axes[along_src[0]].more if along_src else moves
    return any(there == 1 and here not in (0, 1) for there, here in zip(moves, across, strict=True))


def _split_partial(nest: LoopNest, index: int, machine: Machine) -> tuple[Schedule, ...]:
    return tuple(plan for part in split_read(nest, index) for plan in schedule(part, machine))


def writes_whole_lines(plan: Schedule, machine: Machine) -> bool:
    """Return whether streaming stores pay: whole lines are written, and the old ones are not needed.

    Each contiguous run that a tile writes must begin at a line, and so must every step to another run.
    """
    nest = plan.nest
    if nest.compute.reads_destination or plan.kind == "strided":
        return False
    if plan.kind == "gather":
        return fills_lines(nest, plan.chunks, machine.line)
    line, width = machine.line * 8, nest.dst_type.bits
    run, last = _run_axes(plan)
    steps = [nest.dst_base]
    for index, axis in enumerate(nest.axes):
        if not isinstance(axis.dst, int):
            steps += axis.dst
            continue
        if index not in run and axis.extent > 1:
            steps.append(axis.dst)
        if index == last and axis.extent > plan.chunks[index]:
            steps.append(axis.dst * plan.chunks[index])
    run_bits = prod(min(plan.chunks[i], nest.axes[i].extent) for i in run) * width
    return run_bits % line == 0 and all(step * width % line == 0 for step in steps)


def _run_axes(plan: Schedule) -> tuple[list[int], int | None]:
    """Return the axes of a contiguous run of a tile, and the one where it is cut or rounded up."""
    run: list[int] = []
    for index in contiguous(plan.nest, "dst"):
        run.append(index)
        if plan.chunks[index] != plan.nest.axes[index].extent:
            return run, index
    return run, run[-1] if run else None


# --- 4-bit elements: two share a byte -----------------------------------------------------------------------


def moves_whole_bytes(plans: Iterable[Schedule]) -> bool:
    """Return whether every tile begins at a whole byte, and no byte of the destination is in two tiles."""
    return all(_reads_bytes(plan) and _writes_bytes(plan) for plan in plans)


def splits_operand(plan: Schedule, index: int) -> bool:
    """Return whether an operand is of 4 bits and a tile of it can begin inside a byte."""
    operand = plan.nest.operands[index]
    strides = [axis.more[index] for axis in plan.nest.axes]
    return operand.data_type.bits == 4 and not _begins_whole(plan, operand.base, strides)


def _reads_bytes(plan: Schedule) -> bool:
    nest = plan.nest
    if nest.src_type.bits != 4 or nest.is_zero:
        return True
    return _begins_whole(plan, nest.src_base, [axis.src for axis in nest.axes])


def _begins_whole(plan: Schedule, base: int, strides: Iterable[Stride]) -> bool:
    """Return whether an offset from `base` moving by `strides` is at a whole byte in every tile."""
    return base % 2 == 0 and all(
        axis.extent <= chunk or is_even(stride, chunk)
        for axis, stride, chunk in zip(plan.nest.axes, strides, plan.chunks, strict=True)
    )


def _writes_bytes(plan: Schedule) -> bool:
    """Return whether at most one axis moves by an odd number: by 1, in tiles of even extents or in one tile.

    Elements that share a byte then differ only along that axis, since no two share a place.
    """
    nest = plan.nest
    if nest.dst_type.bits != 4:
        return True
    odd = [i for i, axis in enumerate(nest.axes) if not is_even(axis.dst, 1)]
    if nest.dst_base % 2 or len(odd) > 1:
        return False
    return all(
        nest.axes[i].dst == 1 and (plan.chunks[i] % 2 == 0 or plan.chunks[i] >= nest.axes[i].extent)
        for i in odd
    )
