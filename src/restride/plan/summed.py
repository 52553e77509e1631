"""A nest and a reduction of what it writes, in one pass: a block at a time.

First the nest for one block, then the reduction of that block, while it lies in the caches. So each
byte of the destination passes once between them and memory, where a reduction after the whole nest would
fetch it again.
"""

from __future__ import annotations

from dataclasses import dataclass

from .blocks import Blocks, cuts, in_blocks
from .machine import Machine
from .nest import LoopNest
from .reduction import Box, Reduction, ReductionAxis
from .reduction_schedule import ReductionPlan, plan_block
from .rewrites import normalise

# Where every thread needs sums of its own: for each of them at least this many elements are read.
_PLANE_SHARE = 512


@dataclass(frozen=True, slots=True)
class Summed:
    """Blocks, and `sums`, the reduction of each. `out` is how far the sums move with a block, in elements; 0
    where all blocks have the same.
    """

    blocks: Blocks
    out: int
    reduction: Reduction
    sums: ReductionPlan

    @property
    def is_shared(self) -> bool:
        """True where blocks add to the same sums, so that threads need sums of their own."""
        return self.out == 0

    def __str__(self) -> str:
        return f"each block summed while it is near ({self.sums}), {self.blocks}"


def fuse_sums(nest: LoopNest, reduction: Reduction, machine: Machine) -> Summed | None:
    """A nest of whole bytes and a reduction of its destination block by block; None where no axis cuts both
    into blocks that are worth it.
    """
    if nest.is_empty or len(reduction.boxes) != 1:
        return None
    nest = nest if nest.bounds else normalise(nest)
    found = (_fuse(nest, index, reduction, machine) for index in cuts(nest))
    return next(filter(None, found), None)


def _fuse(nest: LoopNest, cut: int, reduction: Reduction, machine: Machine) -> Summed | None:
    """The blocks along one axis."""
    blocks, (box,) = in_blocks(nest, cut, machine), reduction.boxes
    if blocks is None:
        return None
    sliced = _slice_box(box, blocks.count, blocks.dst)
    if sliced is None:
        return None
    block, out = sliced
    if out == 0 and nest.positions < _PLANE_SHARE * reduction.outputs:
        return None
    return Summed(blocks, out, reduction, plan_block(reduction, block, machine))


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
