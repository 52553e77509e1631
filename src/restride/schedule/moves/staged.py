"""Work in stages: one chunk at a time goes through scratch that stays in cache.

Two kinds of nests gain from it. If no stride describes how a digit moves (blocks cut by a shuffle), a chunk
is first moved to a plain layout, where one does. And if runs of the destination begin between two cache
lines, a chunk is assembled in scratch and flushed in whole lines, past the caches.

A `StagedNest` defines the stages for a number of positions; `stage` chooses the number, and schedules them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

from ...dtypes import DataType
from ...ir.nest import Axis, LoopNest, as_int
from ...ir.nest_rewrites import normalize, peel
from ...ir.staged_nest import Flush, FlushWay, StagedNest, StridedRun, runs_of
from ..machine import NOMINAL, SHORTEST_VECTOR, Machine
from .blocks import divisors_of
from .schedule import BoxScheduler, Schedule, schedule, square_side, writes_whole_lines
from .tiling import contiguous

# Shorter runs of the destination are not worth a separate stage.
_SHORTEST_RUN = NOMINAL.run_bytes // 2
# Smaller squares are not worth their stage.
_SMALLEST_SQUARE = NOMINAL.run_bytes


@dataclass(frozen=True, slots=True)
class ChunkStages:
    """A chunk's stages, each with its schedules, and how the last one's result is flushed.

    Without flushing, `ahead` is what the stages prefetch of the next chunk, if anything.
    """

    stages: tuple[tuple[Schedule, ...], ...]
    flush: Flush | None
    ahead: tuple[StridedRun, ...] = ()

    @property
    def streams(self) -> bool:
        """True if the last stage, or a flush, writes whole lines past the caches."""
        return any(plan.streams for plan in self.stages[-1]) or (
            self.flush is not None and self.flush.way == "lines"
        )


@dataclass(frozen=True, slots=True)
class StagedSchedule:
    """A scheduled chain: `whole` for chunks of `chunk` positions of `along`, `rest` for a smaller last one.

    `scratch` is in elements, for each of two buffers.
    """

    data_type: DataType
    bases: tuple[int, int]
    outer: tuple[Axis, ...]
    along: Axis
    chunk: int
    whole: ChunkStages
    rest: ChunkStages | None
    scratch: int
    kind: str
    why: str

    @property
    def chunks(self) -> int:
        """The number of chunks along the cut axis."""
        return -(-self.along.extent // self.chunk)

    @property
    def streams(self) -> bool:
        """True if the destination must begin at a line."""
        return self.whole.streams

    @property
    def plans(self) -> list[Schedule]:
        """The schedules of all boxes: of the stages of a chunk, then of those of a smaller last one."""
        both = (self.whole, *([self.rest] if self.rest else []))
        return [plan for steps in both for plans in steps.stages for plan in plans]

    def without_streams(self) -> StagedSchedule:
        """Return the same for any destination: the last stage writes through the caches."""
        if not self.streams:
            return self
        return replace(
            self, whole=_without_streams(self.whole), rest=self.rest and _without_streams(self.rest)
        )

    @property
    def steps(self) -> int:
        """The total number of chunks, which threads can share."""
        return prod(axis.extent for axis in self.outer) * self.chunks

    def __str__(self) -> str:
        plans = "\n".join(f"{plan}" for plans in self.whole.stages for plan in plans)
        stages = "\n".join(f"  {line}" for line in plans.splitlines())
        flush = f"\n  flush runs of {self.whole.flush.length}" if self.whole.flush else ""
        flush = flush or "\n  streaming stores in the last" * self.streams
        return f"{self.kind} ({self.why}): {self.steps} chunks of {self.chunk}, each\n{stages}{flush}"


def stage(chain: StagedNest, machine: Machine, *, through_scratch: bool) -> StagedSchedule | None:
    """Schedule a chain; None if a single position does not fit the scratch."""
    width = chain.nest.src_type.bits // 8
    row = chain.row * width
    # Twice the scratch of half a block, and what is read into it, stay in the L1 cache. Measured: 1.0 to 1.2
    # times as fast as scratch of a block, unless runs would become short.
    limit = max(machine.block // 2 // row, chain.plane, 1)
    if chain.whole_run:
        limit = max(machine.block // row, 1)
    if chain.run:
        # Runs of less than a line cannot be flushed: avoiding them justifies still more scratch.
        enough, least = (-(-length // (chain.run * width)) for length in (_SHORTEST_RUN, machine.line))
        limit = max(limit, min(enough, machine.block // row), min(least, machine.stack_bytes // row))
    is_short = (chain.whole_run or min(limit, chain.along.extent) * chain.run) * width < machine.line
    if row > machine.stack_bytes or (through_scratch and is_short):
        return None
    # In a square, a position is part of a run of the source.
    step = chain.row // chain.whole_run if chain.whole_run else chain.run
    grain = machine.line // gcd(machine.line, step * width)
    chunk = _chunk(chain.along.extent, limit, machine.stack_bytes // row, grain)
    return in_chunks(chain, chunk, machine, through_scratch=through_scratch)


def in_chunks(
    chain: StagedNest,
    chunk: int,
    machine: Machine,
    *,
    through_scratch: bool,
    plans_of: BoxScheduler | None = None,
) -> StagedSchedule:
    """Return a chain in chunks of this many positions.

    `plans_of`: the schedules of the boxes of all stages, a list for each; chosen if omitted.
    """
    last, way = chain.along.extent % chunk, _way_of_flush(chain, chunk, machine)
    stages = [_boxes(chain, positions, through_scratch) for positions in (chunk, last) if positions]
    boxes = [box for stage_boxes in stages for boxes in stage_boxes for box in boxes]
    plans = iter((plans_of or _chosen)(boxes, machine))
    whole, *rest = (
        ChunkStages(
            tuple(tuple(plan for _ in boxes for plan in next(plans)) for boxes in stage_boxes),
            replace(chain.flush(positions), way=way) if through_scratch else None,
        )
        for stage_boxes, positions in zip(stages, (chunk, last), strict=False)
    )
    return StagedSchedule(
        data_type=chain.nest.src_type,
        bases=(chain.nest.src_base, chain.nest.dst_base),
        outer=chain.outer,
        along=chain.along,
        chunk=chunk,
        whole=whole,
        rest=rest[0] if rest else None,
        scratch=chain.scratch(chunk),
        kind="staged",
        why=chain.why,
    )


def _way_of_flush(chain: StagedNest, chunk: int, machine: Machine) -> FlushWay:
    """Return how a chunk is flushed: runs of squares as whole lines, if they are, or if all of it is near."""
    if not chain.whole_run:
        return "runs"
    if chain.nest.moved_bytes < machine.l3:
        return "stores"
    axes = *chain.outer, *chain.flush(chunk).loops
    steps = chain.nest.dst_base, chain.whole_run, *(as_int(axis.dst) for axis in axes)
    is_whole = not any(step * chain.nest.dst_type.bits % (8 * machine.line) for step in steps)
    return "lines" if is_whole else "runs"


def boxes_of_stages(chain: StagedNest, plan: StagedSchedule) -> list[LoopNest]:
    """Return the boxes of the stages of a chunk, then of those of a smaller last one."""
    sizes = plan.chunk, plan.along.extent % plan.chunk
    stages = (_boxes(chain, n, plan.whole.flush is not None) for n in sizes if n)
    return [box for each in stages for boxes in each for box in boxes]


def _without_streams(steps: ChunkStages) -> ChunkStages:
    last = tuple(plan.without_streams() for plan in steps.stages[-1])
    return ChunkStages((*steps.stages[:-1], last), steps.flush and replace(steps.flush, way="runs"))


def _boxes(chain: StagedNest, positions: int, through_scratch: bool) -> list[list[LoopNest]]:
    return [[normalize(box) for box in peel(nest)] for nest in chain.nests(positions, through_scratch)]


def _chosen(boxes: Sequence[LoopNest], machine: Machine) -> list[tuple[Schedule, ...]]:
    return [tuple(plan.without_streams() for plan in schedule(box, machine)) for box in boxes]


def stream(chain: StagedNest, machine: Machine) -> StagedSchedule | None:
    """Schedule a chain whose last stage writes past the caches; None if it would cut a line."""
    staged = stage(chain, machine, through_scratch=False)
    return with_streams(staged, chain, machine) if staged else None


def with_streams(staged: StagedSchedule, chain: StagedNest, machine: Machine) -> StagedSchedule | None:
    """Let the last stage write past the caches; None if it would cut a line."""
    width = chain.nest.dst_type.bits // 8
    cut = replace(chain.along, dst=as_int(chain.along.dst) * staged.chunk)
    steps = (chain.nest.dst_base, *(as_int(axis.dst) for axis in (*chain.outer, cut)))
    both = [staged.whole, *([staged.rest] if staged.rest else [])]
    is_whole = all(writes_whole_lines(plan, machine) for steps in both for plan in steps.stages[-1])
    if not is_whole or any(step * width % machine.line for step in steps):
        return None
    ahead = chain.flush(staged.chunk).ahead
    whole, rest = (steps and _with_streams(steps, ahead) for steps in (staged.whole, staged.rest))
    assert whole is not None
    return replace(staged, whole=whole, rest=rest)


def _with_streams(steps: ChunkStages, ahead: tuple[StridedRun, ...]) -> ChunkStages:
    last = tuple(replace(plan, streams=True) for plan in steps.stages[-1])
    return ChunkStages((*steps.stages[:-1], last), None, ahead)


def _chunk(extent: int, limit: int, most: int, grain: int) -> int:
    """Return the positions of a chunk: all of them, an even part, or a multiple of what fills whole lines.

    Also all of them if a little more scratch, for at most `most`, avoids a rest: 49 for a limit of 32.
    """
    if extent <= limit:
        return extent
    whole = grain if extent % grain == 0 and grain <= limit else 1
    even = (n for n in range(limit, limit // 2, -1) if extent % n == 0 and n % whole == 0)
    rough = extent if extent < min(2 * limit, most + 1) else limit // whole * whole or limit
    return next(even, rough)


def one_stage(nest: LoopNest) -> StagedNest | None:
    """Return the chain of one stage of a nest without tables, bounds and zeros, if there is one."""
    boxes = [normalize(box) for box in peel(nest)]
    if len(boxes) != 1 or not _is_plain_move(boxes[0]):
        return None
    return _one_run(boxes[0]) or _square(boxes[0])


def _one_run(box: LoopNest) -> StagedNest | None:
    """Return chunks that are one run of the source and long runs of the destination: in the destination, the
    cut axis follows the axes `inner`; in the source, it follows these and some more, which separate runs.
    """
    limit = NOMINAL.block * 8 // box.dst_type.bits
    along_src, along_dst = contiguous(box, "src"), contiguous(box, "dst")
    for place in range(len(along_dst) - 1, -1, -1):
        inner, along = along_dst[:place], along_dst[place]
        if along not in along_src or not set(inner) <= set(along_src[: along_src.index(along)]):
            continue
        more = [i for i in along_src[: along_src.index(along)] if i not in inner]
        row = prod(box.axes[i].extent for i in (*inner, *more))
        run = prod(box.axes[i].extent for i in inner)
        if min(limit // row, box.axes[along].extent) * run * box.dst_type.bits >= 8 * _SHORTEST_RUN:
            return _chunked(box, inner, along, more)
    return None


def _square(box: LoopNest) -> StagedNest | None:
    """Return chunks of rows of the destination by a run of the source: the run is transposed into scratch,
    where rows never evict each other, and each row of it is written as a run.
    """
    width, side = box.dst_type.bits // 8, square_side(box.dst_type)
    read, row, held = list[int](), list[int](), 1
    for index in contiguous(box, "src"):
        if held < side:
            read.append(index)
            held *= box.axes[index].extent
    length = 1
    for index in contiguous(box, "dst"):
        # Axes that are read in a run anyway are not part of a row that is a line long.
        if length * width >= (NOMINAL.line if index in read else side * width):
            break
        row.append(index)
        length *= box.axes[index].extent
    if length > side:
        last, length = row[-1], length // box.axes[row[-1]].extent
        count = max(n for n in divisors_of(box.axes[last].extent) if n * length <= side)
        if 2 * count * length < side or count * length * width % NOMINAL.line:
            return None
        box, length = _cut(box, last, count), length * count
        read, row = ([i + (i >= last) for i in each] for each in (read, row))
    read = [i for i in read if i not in row]
    strides = [length * prod(box.axes[i].extent for i in read[:place]) for place in range(len(read))]
    held = length * prod(box.axes[i].extent for i in read)
    if not read or length * width < NOMINAL.line or held * width < _SMALLEST_SQUARE:
        return None
    scratch = [*strides, *(as_int(box.axes[i].dst) for i in row)]
    along = read[-1]
    outer = tuple(axis for i, axis in enumerate(box.axes) if i not in (*read, *row))
    # Tiles of more rows than a set holds would read each line repeatedly.
    step = as_int(box.axes[row[0]].src) * width
    is_read_first = NOMINAL.first_cache.overflows(2 * SHORTEST_VECTOR // width, step)

    def inside(positions: int) -> list[Axis]:
        """Return the axes of a chunk: those that are read in a run, innermost first, then those of a row."""
        cut = replace(box.axes[along], extent=positions, valid=positions)
        return [cut if i == along else box.axes[i] for i in (*read, *row)]

    def nests(positions: int, through_scratch: bool) -> tuple[LoopNest, ...]:
        axes = inside(positions)
        sides = scratch if through_scratch else [as_int(axis.dst) for axis in axes]
        written = [replace(axis, dst=to) for axis, to in zip(axes, sides, strict=True)]
        stages = [written]
        if is_read_first:
            dense = [prod(axis.extent for axis in axes[:place]) for place in range(len(axes))]
            pairs = list(zip(axes, written, dense, strict=True))
            stages = [
                [replace(axis, dst=at) for axis, _, at in pairs],
                [replace(axis, src=at) for _, axis, at in pairs],
            ]
        return tuple(replace(box, axes=tuple(each[::-1]), src_base=0, dst_base=0) for each in stages)

    def flush(positions: int) -> Flush:
        axes = inside(positions)
        loops = [replace(axis, src=at) for axis, at in zip(axes, strides, strict=False)]
        ahead = runs_of(StridedRun(axis.extent, as_int(axis.src)) for axis in axes)
        return Flush(tuple(sorted(loops, key=lambda axis: -abs(as_int(axis.dst)))), length, ahead)

    why = "rows of tiles would push each other out of the caches"
    return StagedNest(box, outer, box.axes[along], strides[-1], 0, nests, flush, why, whole_run=length)


def _cut(box: LoopNest, index: int, positions: int) -> LoopNest:
    """Split an axis in two: the parts of `positions`, and the positions within a part."""
    axis = box.axes[index]
    count, src, dst = axis.extent // positions, as_int(axis.src), as_int(axis.dst)
    parts = Axis(count, src * positions, dst * positions), Axis(positions, src, dst)
    return replace(box, axes=(*box.axes[:index], *parts, *box.axes[index + 1 :]))


def _is_plain_move(box: LoopNest) -> bool:
    is_same = box.src_type is box.dst_type and box.compute.is_move
    return is_same and all(axis.is_linear and axis.is_whole for axis in box.axes)


def _chunked(box: LoopNest, inner: list[int], along: int, more: list[int]) -> StagedNest:
    """Return a chain whose chunks are `inner` and `more` axes whole, and positions of `along`."""
    taken = (*more, along, *inner)
    outer = tuple(axis for i, axis in enumerate(box.axes) if i not in taken)
    run = prod(box.axes[i].extent for i in inner)

    def strides(positions: int) -> list[int]:
        """Return the strides of `more` in scratch."""
        extents = [box.axes[i].extent for i in more]
        return [run * positions * prod(extents[place + 1 :]) for place in range(len(more))]

    def nests(positions: int, through_scratch: bool) -> tuple[LoopNest, ...]:
        cut = replace(box.axes[along], extent=positions, valid=positions)
        apart = [replace(box.axes[i], dst=stride) for i, stride in zip(more, strides(positions), strict=True)]
        axes = (
            *(apart if through_scratch else (box.axes[i] for i in more)),
            cut,
            *(box.axes[i] for i in reversed(inner)),
        )
        return (replace(box, axes=axes, src_base=0, dst_base=0),)

    def flush(positions: int) -> Flush:
        loops = [replace(box.axes[i], src=stride) for i, stride in zip(more, strides(positions), strict=True)]
        inside = [StridedRun(box.axes[i].extent, as_int(box.axes[i].src)) for i in (*more, *inner)]
        ahead = runs_of((*inside, StridedRun(positions, as_int(box.axes[along].src))))
        return Flush(tuple(loops), run * positions, ahead)

    row = run * prod(box.axes[i].extent for i in more)
    why = "runs of the destination begin between two lines"
    return StagedNest(box, outer, box.axes[along], row, run, nests, flush, why)
