"""A nest and a reduction of what it writes, in one pass: a block at a time.

One axis of the destination is done in blocks of some positions: first the nest for one block, then the
reduction of that block, while it lies in the nearest caches. So each byte of the destination passes once
between them and memory, where a reduction after the whole nest would fetch it again. Where the destination is
larger than the caches, blocks are put together in scratch, summed there, and poured out in whole lines.

Limits of the axis cut it into **sections** of blocks that are alike: of 17 outputs in blocks of 16 the second
block is one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from .machine import Machine
from .nest import Axis, LoopNest, Stride, normalise, peel, peeled_boxes
from .reduction import Box, Reduction, ReductionAxis
from .reduction_schedule import ReductionPlan, plan_block
from .schedule import Schedule, asking_ahead, schedule

# Past this many boxes the code would outgrow its use.
_MOST_BOXES = 16
# A block reads at least so long a run of each row of the source. Measured: runs of 256 bytes cost half of the
# speed.
_RUN_BYTES = 1 << 10
# The longest block that is put together in scratch, on the stack.
_SCRATCH_BYTES = 1 << 17
# Work from here on is shared by threads, which takes more than a few blocks.
_SHARED_BYTES = 1 << 18
_FEWEST_BLOCKS = 4
# Where every thread needs sums of its own: for each of them at least this many elements are read.
_PLANE_SHARE = 512


@dataclass(frozen=True, slots=True)
class Section:
    """Blocks [first, end) that are alike, and the schedules that write one of them."""

    first: int
    end: int
    plans: tuple[Schedule, ...]


@dataclass(frozen=True, slots=True)
class Summed:
    """Blocks along an axis of a nest: `src`, `dst` and `more` are how far each operand moves with a block,
    `out` how far the sums do, in elements; 0 where all blocks have the same sums.

    `sums` is the reduction of a block, written by the schedules of its section. `poured` is how many elements
    of scratch a block takes, and pours out from there; 0 where it is written in place.
    """

    nest: LoopNest
    blocks: int
    src: int
    dst: int
    more: tuple[int, ...]
    out: int
    sections: tuple[Section, ...]
    reduction: Reduction
    sums: ReductionPlan
    poured: int = 0

    @property
    def is_shared(self) -> bool:
        """True where blocks add to the same sums, so that threads need sums of their own."""
        return self.out == 0

    def __str__(self) -> str:
        lines = [f"in {self.blocks} blocks, each summed while it is near: {self.sums}"]
        for section in self.sections:
            lines += [f"blocks {section.first} to {section.end - 1}", *map(str, section.plans)]
        return "\n".join(lines)


def fuse_sums(nest: LoopNest, reduction: Reduction, machine: Machine) -> Summed | None:
    """A nest of whole bytes and a reduction of its destination block by block; None where no axis cuts both
    into blocks that are worth it.
    """
    if nest.is_empty or len(reduction.boxes) != 1 or peeled_boxes(nest) > _MOST_BOXES:
        return None
    nest = nest if nest.bounds else normalise(nest)
    free = [i for i, a in enumerate(nest.axes) if a.is_linear and a.extent > 1 and _int(a.dst) > 0]
    outermost_first = sorted(free, key=lambda i: -_int(nest.axes[i].dst))
    found = (_fuse(nest, index, reduction, machine) for index in outermost_first)
    return next(filter(None, found), None)


def _fuse(nest: LoopNest, cut: int, reduction: Reduction, machine: Machine) -> Summed | None:
    """The blocks along one axis."""
    if nest.axes[cut].bound >= 0 and not _is_apart(nest, cut):
        return None
    positions = _block_positions(nest.axes[cut], nest.src_type.bits)
    nest = _cut_in_blocks(nest, cut, positions)
    axis, (box,) = nest.axes[cut], reduction.boxes
    is_few = axis.extent < _FEWEST_BLOCKS and nest.moved_bytes >= _SHARED_BYTES
    sliced = _slice_box(box, axis.extent, _int(axis.dst))
    if sliced is None or is_few:
        return None
    block, out = sliced
    if out == 0 and nest.positions < _PLANE_SHARE * reduction.outputs:
        return None
    more = tuple(map(_int, axis.more))
    sections, sums = _sections(nest, cut, machine), plan_block(reduction, block, machine)
    poured = _int(axis.dst) if _is_poured(nest, cut, machine) else 0
    return Summed(
        nest, axis.extent, _int(axis.src), _int(axis.dst), more, out, sections, reduction, sums, poured
    )


def _block_positions(axis: Axis, bits: int) -> int:
    """How many positions of an axis make a block: an even part, the smallest that reads runs long enough."""
    step = max(abs(_int(axis.src)) * bits // 8, 1)
    least = min(-(-_RUN_BYTES // step), axis.extent)
    return next(n for n in range(least, axis.extent + 1) if axis.extent % n == 0)


def _cut_in_blocks(nest: LoopNest, cut: int, positions: int) -> LoopNest:
    """An axis as two: at its place that of the blocks, behind it that of the positions in a block."""
    axis = nest.axes[cut]
    if positions == 1:
        return nest
    sides = (axis.src, axis.dst, *axis.more)
    src, dst, *more = (_int(stride) * positions for stride in sides)
    blocks = Axis(
        axis.extent // positions, src, dst, bound=axis.bound, step=axis.step * positions, more=tuple(more)
    )
    inside = replace(axis, extent=positions, valid=positions)
    return replace(nest, axes=(*nest.axes[:cut], blocks, inside, *nest.axes[cut + 1 :]))


def _is_apart(nest: LoopNest, cut: int) -> bool:
    """True where positions of an axis write stretches that do not mix, from the base of the nest on."""
    others = [axis for i, axis in enumerate(nest.axes) if i != cut and axis.extent > 1]
    if any(_lowest(axis.dst) < 0 for axis in others):
        return False
    return sum(map(_highest, others)) < _int(nest.axes[cut].dst)


def _is_poured(nest: LoopNest, cut: int, machine: Machine) -> bool:
    """True where a destination larger than the caches is unbroken runs, one for each block."""
    length, width = _int(nest.axes[cut].dst), nest.dst_type.bits // 8
    written = nest.axes[cut].extent * length * width
    if written < machine.l3 // 2 or length * width > _SCRATCH_BYTES or nest.compute.summed:
        return False
    boxes = peel(nest)
    return _is_apart(nest, cut) and sum(box.positions for box in boxes) == nest.axes[cut].extent * length


def _slice_box(box: Box, extent: int, step: int) -> tuple[Box, int] | None:
    """One block of a box, and how far the outputs move from one to the next; None where no axis of it falls
    into so many parts with that step.
    """
    for index, axis in enumerate(box.axes):
        rows, odd = divmod(step, axis.src) if axis.src else (0, 1)
        if odd or not rows or axis.extent % (rows * extent):
            continue
        around = axis.extent // (rows * extent)
        parts = [
            ReductionAxis(around, step * extent, axis.out * rows * extent),
            ReductionAxis(rows, axis.src, axis.out),
        ]
        kept = [part for part in parts if part.extent > 1]
        return Box((*box.axes[:index], *kept, *box.axes[index + 1 :]), box.base, box.out), axis.out * rows
    return None


def _sections(nest: LoopNest, cut: int, machine: Machine) -> tuple[Section, ...]:
    """The boxes of a nest by the blocks in which they are, each as a nest within one block."""
    step, is_free = _int(nest.axes[cut].dst), nest.axes[cut].bound < 0
    found = [(0 if is_free else (box.dst_base - nest.dst_base) // step, box) for box in peel(nest)]
    ends = {end for start, box in found for end in (start, start + box.axes[cut].extent)}
    sections = []
    for first, end in pairwise(sorted(ends)):
        inside = [(at, box) for at, box in found if at <= first < at + box.axes[cut].extent]
        boxes = [_within(box, cut, at) for at, box in inside]
        sections.append(Section(first, end, _plans(boxes, nest.moved_bytes, machine)))
    return tuple(sections)


def _plans(boxes: list[LoopNest], moved_bytes: int, machine: Machine) -> tuple[Schedule, ...]:
    plans = [plan.without_streams() for box in boxes for plan in schedule(normalise(box), machine)]
    if moved_bytes < machine.l2:
        return tuple(plans)
    return tuple(asking_ahead(plan, machine) for plan in plans)


def _within(box: LoopNest, cut: int, start: int) -> LoopNest:
    """A box at one position of an axis, as if that were the first: of the axis only remains if it is read."""
    axis = box.axes[cut]
    rest = (Axis(1, 0, 0, valid=0, more=(0,) * len(axis.more)),) if axis.valid == 0 else ()
    moves = zip(box.operands, axis.more, strict=True)
    return replace(
        box,
        axes=(*box.axes[:cut], *rest, *box.axes[cut + 1 :]),
        src_base=box.src_base - start * _int(axis.src),
        dst_base=box.dst_base - start * _int(axis.dst),
        operands=tuple(replace(x, base=x.base - start * _int(stride)) for x, stride in moves),
    )


def _lowest(stride: Stride) -> int:
    return stride if isinstance(stride, int) else min(stride)


def _highest(axis: Axis) -> int:
    return axis.dst * (axis.extent - 1) if isinstance(axis.dst, int) else max(axis.dst)


def _int(stride: Stride) -> int:
    assert isinstance(stride, int)
    return stride
