"""A nest in blocks, optionally with sums of its output, one block at a time.

A nest with limits is several boxes, each of which by itself would pass over all of memory. In blocks, memory
is read once, from beginning to end; and if a block is a contiguous run of the destination, it is assembled in
scratch and flushed in whole lines past the caches.

Limits of the axis itself cut it into **sections** of similar blocks: of 17 outputs in blocks of 16, the
second block is a section.

With sums, each block is written first and then summed while it is in cache. So each byte of the destination
moves only once between cache and memory, while sums after the whole nest would fetch it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from math import isqrt, prod
from typing import ClassVar

from ...ir.accesses import items_of, with_indices
from ...ir.digits import IndexDigits
from ...ir.expression import Load, TreeAxis
from ...ir.nest import Axis, LoopNest, as_int, highest, lowest
from ...ir.nest_rewrites import normalize, peel, peeled_boxes, split_read
from ...ir.tree import Each, Item, LoopTree, Store, TreeTensor
from ..machine import LIMITS, Machine
from ..trees.lanes import folds_in_lanes
from .schedule import BoxScheduler, Schedule, schedule, with_prefetch

# --- blocks ------------------------------------------------------------------
# A nest in blocks: all of its boxes for some positions of one axis, then for the next ones.

# Threads share work among more than a few blocks.
_FEWEST_BLOCKS = 8


@dataclass(frozen=True, slots=True)
class BlockRange:
    """Similar blocks [first, end), and the schedules that write one of them."""

    first: int
    end: int
    plans: tuple[Schedule, ...]


@dataclass(frozen=True, slots=True)
class Blocks:
    """`count` blocks along an axis of a nest: `src`, `dst` and `more` are how far each operand moves between
    blocks, in elements.

    `scratch_elements`: the elements of scratch in which a block is assembled before it is flushed; 0 if it is
    written in place. `cut` is the axis, `positions` the number of its positions in a block.
    """

    nest: LoopNest
    cut: int
    positions: int
    count: int
    src: int
    dst: int
    more: tuple[int, ...]
    sections: tuple[BlockRange, ...]
    scratch_elements: int = 0
    kind: ClassVar[str] = "blocks"
    why: ClassVar[str] = ""
    # Whether blocks are assembled in cache, with flushes that can begin anywhere.
    streams: ClassVar[bool] = False

    @property
    def steps(self) -> int:
        """The number of pieces that threads can share."""
        return self.count

    def without_streams(self) -> Blocks:
        """Return the same with ordinary stores, for any destination."""
        return self

    def __str__(self) -> str:
        lines = [
            f"in {self.count} blocks"
            + (f", flushed in runs of {self.scratch_elements}" if self.scratch_elements else "")
        ]
        for section in self.sections:
            lines += [f"blocks {section.first} to {section.end - 1}", *map(str, section.plans)]
        return "\n".join(lines)


def blocks_through_scratch(nest: LoopNest, machine: Machine) -> Blocks | None:
    """Return a nest of several boxes, larger than the caches, in blocks that are contiguous runs of the
    destination; None if there are no such short ones.
    """
    if not nest.bounds or nest.is_empty or nest.moved_bytes < machine.l3:
        return None
    axes = cuts(nest)
    if not axes or nest.axes[axes[0]].bound >= 0:
        return None
    result = in_blocks(nest, axes[0], machine)
    if result is None or not 0 < result.scratch_elements * nest.dst_type.bits // 8 <= machine.block:
        return None
    return result


def cuts(nest: LoopNest) -> list[int]:
    """Return the axes that can be cut into blocks, outermost in the destination first; none for many boxes.

    Also none if a tensor has two elements in a byte: a block might begin at the second.
    """
    if nest.is_empty or peeled_boxes(nest) > LIMITS.boxes_in_blocks or nest.has_nibbles:
        return []
    if any(operand.data_type.bits < 8 for operand in nest.operands):
        return []
    free = [i for i, a in enumerate(nest.axes) if a.is_linear and a.extent > 1 and as_int(a.dst) > 0]
    apart = [i for i in free if nest.axes[i].bound < 0 or _is_disjoint(nest, i)]
    return sorted(apart, key=lambda i: -as_int(nest.axes[i].dst))


def in_blocks(nest: LoopNest, cut: int, machine: Machine) -> Blocks | None:
    """Return a nest in blocks of one of its `cuts`; None if they are too few to share, or too long."""
    positions = _block_positions(nest, cut, machine)
    count = nest.axes[cut].extent // positions
    if count < _FEWEST_BLOCKS and nest.moved_bytes >= machine.alone_bytes:
        return None
    if nest.moved_bytes > machine.part_bytes * count:
        return None
    return blocks_of(nest, cut, positions, machine)


def blocks_of(
    nest: LoopNest, cut: int, positions: int, machine: Machine, plans_of: BoxScheduler | None = None
) -> Blocks:
    """Return a nest in blocks of a number of positions of one of its `cuts`, which it divides.

    `plans_of`: the schedules of the boxes of all blocks, a list for each; chosen if omitted.
    """
    nest = _cut_in_blocks(nest, cut, positions)
    axis, sections = nest.axes[cut], _sections(nest, cut)
    boxes = [box for _, _, boxes in sections for box in boxes]
    plans = iter((plans_of or partial(_plans, nest.moved_bytes))(boxes, machine))
    ranges = tuple(
        BlockRange(first, end, tuple(plan for _ in boxes for plan in next(plans)))
        for first, end, boxes in sections
    )
    src, dst, *more = map(as_int, (axis.src, axis.dst, *axis.more))
    scratch_elements = dst if _goes_through_scratch(nest, cut, machine) else 0
    # Limits can end before the axis does: after the last section, there is nothing to write.
    count = ranges[-1].end
    return Blocks(nest, cut, positions, count, src, dst, tuple(more), ranges, scratch_elements)


def boxes_of_blocks(blocks: Blocks) -> list[LoopNest]:
    """Return the boxes of a block, for each section in order."""
    return [box for _, _, boxes in _sections(blocks.nest, blocks.cut) for box in boxes]


def _block_positions(nest: LoopNest, cut: int, machine: Machine) -> int:
    """Return how many positions of an axis make a block: the smallest even part with long runs on both sides,
    so that tiles stay whole. Measured: blocks of one column each are 50 times slower.
    """
    axis = nest.axes[cut]
    sides = (axis.src, nest.src_type), (axis.dst, nest.dst_type)
    steps = [abs(as_int(stride)) * data_type.bits // 8 for stride, data_type in sides]
    least = min(max(-(-machine.run_bytes // max(step, 1)) for step in steps), axis.extent)
    return min(n for n in divisors_of(axis.extent) if n >= least)


def divisors_of(count: int) -> Iterator[int]:
    """Yield all divisors, unordered; found up to the square root, as an extent can be a large prime."""
    for n in range(1, isqrt(count) + 1):
        if count % n == 0:
            yield from (n, count // n)


def _cut_in_blocks(nest: LoopNest, cut: int, positions: int) -> LoopNest:
    """Split an axis in two: blocks at its place, then the positions in a block."""
    axis = nest.axes[cut]
    if positions == 1:
        return nest
    sides = (axis.src, axis.dst, *axis.more)
    src, dst, *more = (as_int(stride) * positions for stride in sides)
    blocks = Axis(
        axis.extent // positions, src, dst, bound=axis.bound, step=axis.step * positions, more=tuple(more)
    )
    inside = replace(axis, extent=positions, valid=positions)
    return replace(nest, axes=(*nest.axes[:cut], blocks, inside, *nest.axes[cut + 1 :]))


def _is_disjoint(nest: LoopNest, cut: int) -> bool:
    """Return whether positions of an axis write separate ranges, from the base of the nest on."""
    # Limits of other dimensions shorten the ranges.
    boxes = peel(nest) if nest.axes[cut].bound < 0 else (nest,)
    return all(_lies_within(box, cut, nest.dst_base) for box in boxes)


def _lies_within(box: LoopNest, cut: int, base: int) -> bool:
    others = [axis for i, axis in enumerate(box.axes) if i != cut and axis.extent > 1]
    if any(lowest(axis.dst, axis.extent) < 0 for axis in others):
        return False
    reach = sum(highest(axis.dst, axis.extent) for axis in others)
    return 0 <= box.dst_base - base < as_int(box.axes[cut].dst) - reach


def _goes_through_scratch(nest: LoopNest, cut: int, machine: Machine) -> bool:
    """Return whether a destination larger than the caches is contiguous runs, one for each block."""
    length, width = as_int(nest.axes[cut].dst), nest.dst_type.bits // 8
    written = nest.axes[cut].extent * length * width
    if written < machine.l3 // 2 or length * width > machine.stack_bytes or nest.compute.reads_destination:
        return False
    boxes = peel(nest)
    return _is_disjoint(nest, cut) and sum(box.positions for box in boxes) == nest.axes[cut].extent * length


def _sections(nest: LoopNest, cut: int) -> list[tuple[int, int, list[LoopNest]]]:
    """Return similar blocks [first, end) with the boxes of a nest in them, each within one block."""
    step, is_free = as_int(nest.axes[cut].dst), nest.axes[cut].bound < 0
    boxes = [part for box in peel(nest) for part in _split_partly_read(box, cut)]
    placed_boxes = [(0 if is_free else (box.dst_base - nest.dst_base) // step, box) for box in boxes]
    ends = {end for start, box in placed_boxes for end in (start, start + box.axes[cut].extent)}
    sections = []
    for first, end in pairwise(sorted(ends)):
        inside = [(at, box) for at, box in placed_boxes if at <= first < at + box.axes[cut].extent]
        sections.append((first, end, [normalize(_within(box, cut, at)) for at, box in inside]))
    return sections


def _split_partly_read(box: LoopNest, cut: int) -> tuple[LoopNest, ...]:
    """Split a box of which only some positions of the axis are read: into those, and the zeros."""
    axis = box.axes[cut]
    return (box,) if axis.valid in (0, axis.extent) else split_read(box, cut)


def _plans(moved_bytes: int, boxes: Sequence[LoopNest], machine: Machine) -> list[tuple[Schedule, ...]]:
    plans = [tuple(plan.without_streams() for plan in schedule(box, machine)) for box in boxes]
    if moved_bytes < machine.l2:
        return plans
    far = moved_bytes >= machine.l3
    return [tuple(with_prefetch(plan, machine, far=far) for plan in each) for each in plans]


def _within(box: LoopNest, cut: int, start: int) -> LoopNest:
    """Return a box at one position of an axis as if that were the first; the axis only marks a read."""
    axis = box.axes[cut]
    rest = (Axis(1, 0, 0, valid=0, more=(0,) * len(axis.more)),) if axis.valid == 0 else ()
    moves = zip(box.operands, axis.more, strict=True)
    return replace(
        box,
        axes=(*box.axes[:cut], *rest, *box.axes[cut + 1 :]),
        src_base=box.src_base - start * as_int(axis.src),
        dst_base=box.dst_base - start * as_int(axis.dst),
        operands=tuple(replace(x, base=x.base - start * as_int(stride)) for x, stride in moves),
    )


# --- fused sums --------------------------------------------------------------
# A nest and the sums of its output, in one pass: a block at a time.

# If every thread needs separate sums: at least this many elements are read for each of them.
_PLANE_SHARE = 512


@dataclass(frozen=True, slots=True)
class FusedSums:
    """Blocks, and `tree`, the sums of each. `outs` is how far each output moves between blocks, in elements.

    `is_shared`: blocks add to the same sums, so that threads need separate ones.
    """

    blocks: Blocks
    tree: LoopTree
    outs: tuple[int, ...]
    is_shared: bool

    def __str__(self) -> str:
        return f"each block summed while it is near, {self.blocks}\n{self.tree}"


def fuse_sums(nest: LoopNest, tree: LoopTree, machine: Machine) -> FusedSums | None:
    """Fuse a nest of whole bytes with a tree that sums its destination (its first tensor), block by block;
    None if no axis cuts both into worthwhile blocks.
    """
    if nest.is_empty or tree.is_empty:
        return None
    nest = nest if nest.bounds else normalize(nest)
    candidates = (_fuse_along(nest, index, tree, machine) for index in cuts(nest))
    return next(filter(None, candidates), None)


def _fuse_along(nest: LoopNest, cut: int, tree: LoopTree, machine: Machine) -> FusedSums | None:
    """Return the blocks along one axis."""
    blocks = in_blocks(nest, cut, machine)
    if blocks is None:
        return None
    (outer,), (src, *outs) = tree.items, tree.tensors
    inner = outer.items[0]
    assert isinstance(inner, Each)
    for axis, digits in zip(_in_order(src, tree), src.digits, strict=True):
        # A dim of one index has no axis, and is in one block.
        rows = _rows_of(digits, axis.extent, blocks) if axis.name else None
        if rows is None:
            continue
        is_shared = axis in inner.axes
        outputs = prod(outs[0].sizes)
        if is_shared and nest.positions < _PLANE_SHARE * outputs:
            return None
        moves = () if is_shared else tuple(rows * _stride(out, outer, axis) for out in outs)
        block = _of_block(tree, axis, rows, blocks.count, adds=is_shared)
        return FusedSums(blocks, folds_in_lanes(block), moves or (0,) * len(outs), is_shared)
    return None


def _in_order(src: TreeTensor, tree: LoopTree) -> list[TreeAxis]:
    """Return the axis of each dim of the source."""
    (load,) = (load for load in tree.loads if load.tensor == src.name)
    loops = (item for item in items_of(tree.items) if isinstance(item, Each))
    axes = {axis.name: axis for loop in loops for axis in loop.axes}
    return [axes.get(at.axis or "", TreeAxis("", 1)) for at in load.index]


def _rows_of(digits: IndexDigits, extent: int, blocks: Blocks) -> int | None:
    """Return how many indices of a dim a block has; None if it does not divide into that many."""
    ends = (*(digit.step for digit in digits[1:]), extent)
    for digit, end in zip(digits, ends, strict=True):
        rows, odd = divmod(blocks.dst, digit.stride) if digit.stride else (0, 1)
        positions = -(-end // digit.step)
        if not odd and rows and positions % (rows * blocks.count) == 0 and extent % end == 0:
            return rows * digit.step
    return None


def _stride(out: TreeTensor, outer: Each, axis: TreeAxis) -> int:
    """Return how far an output moves with an axis, given the order of the outer loop."""
    return out.digits[outer.axes.index(axis)][0].stride


def _of_block(tree: LoopTree, axis: TreeAxis, rows: int, count: int, *, adds: bool) -> LoopTree:
    """Return the tree of the first block, which has every `count`th run of `rows` positions of an axis; with
    `adds`, results are added to existing ones.
    """
    (outer,) = tree.items
    around, within = TreeAxis(f"{axis.name}.runs", axis.extent // (rows * count)), TreeAxis(axis.name, rows)
    parts = (around, within) if around.extent > 1 else (within,)
    by = {axis.name: around * (rows * count) + within if around.extent > 1 else within + 0}

    def cut(loop: Each, items: Iterable[Item]) -> Each:
        axes = (part for own in loop.axes for part in (parts if own == axis else (own,)))
        return replace(loop, axes=tuple(axes), items=tuple(items))

    def moved(item: Item) -> Item:
        if isinstance(item, Each):
            return cut(item, map(moved, item.items))
        item = with_indices(item, lambda index: index.with_axes(by))
        if adds and isinstance(item, Store):
            return replace(item, value=Load(item.tensor, item.index) + item.value)
        return item

    return replace(tree, items=(cut(outer, map(moved, outer.items)),)).verify()
