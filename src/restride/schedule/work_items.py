"""Loop nests and sums + facts about a device -> how a grid of work-items runs them.

A device runs one small program for every item of a grid, in **groups**. What an item or a group does with a
box of the nest is a schedule like any other (`schedule_items`); here the boxes of a nest become one launch,
in which each has groups of its own.

An item adds what it reads along some reduced axes, and adds that to the output of its position, in one step
that no other item can come between. Sums are modulo 2**32, so the order does not matter. Neighbours read
neighbouring elements: the innermost axis is never looped over by one item; where it is reduced and long, as
many items as a sub-group has share it, and each takes every so many-th element.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod

from ..ir.nest import LoopNest
from ..ir.nest_rewrites import normalise, peel, peeled_boxes, split_read
from .machine import LIMITS, DeviceFacts, Machine
from .moves.local_square import LocalSquare, square_of
from .moves.loop_order import Grid, Order, order_loops
from .moves.schedule import Schedule, moves_whole_bytes, schedule
from .moves.tiling import contiguous

# --- one box for work-items --------------------------------------------------
# Loop nest + facts about a device -> scheduled nest, of which each work-item runs one step.


def schedule_items(nest: LoopNest, device: DeviceFacts, tiles: bool = True) -> tuple[Schedule, ...]:
    """Schedule a normalised nest without bounds for work-items; each runs one step of the grid.

    Where an item has registers to itself it runs `tiles` as a thread does if vectors will do, else loops over
    elements. Items that run in step have one element each, the contiguous axis of the destination innermost,
    so that neighbours write neighbours; a transpose goes by squares through the memory of a group.
    """
    if device.vector_bytes and tiles and _suits_vectors(nest):
        plans = schedule(nest, Machine(vector_bytes=device.vector_bytes))
        return tuple(replace(plan, streams=False, prefetch=0) for plan in plans)
    for index, axis in enumerate(nest.axes):
        if not axis.is_whole and not nest.is_zero:
            parts = map(normalise, split_read(nest, index))
            return tuple(plan for part in parts for plan in schedule_items(part, device, tiles))
    along_src, along_dst = contiguous(nest, "src")[:1], contiguous(nest, "dst")[:1]
    square = square_of(nest, device, *along_src, *along_dst) if along_src and along_dst else None
    # Elements that get a byte each are contiguous in the source alone.
    pairs = along_dst or along_src
    chunks = tuple(_shared_byte(nest, index, pairs) for index in range(len(nest.axes)))
    order = Order(tuple(Grid(index, 1) for index in range(len(nest.axes))), ())
    if device.vector_bytes:
        order = order_loops(nest, chunks, Machine(vector_bytes=device.vector_bytes))
    kind, why = _kind_of_items(nest, square, along_src, along_dst)
    return (
        Schedule(nest, chunks, order.grid, order.inner, nest.src_type, kind, why, late=True, square=square),
    )


def _suits_vectors(nest: LoopNest) -> bool:
    """True where compilers for devices do well with vectors: elements of 32 bits or more, moved as they are.

    For vectors of bytes they take up to a minute, and LLVM does not make SPIR-V of all that computes in
    vectors (measured: Intel's for CPUs, 2026; LLVM 22).
    """
    is_move = nest.src_type is nest.dst_type and nest.compute.is_move
    return nest.dst_type.bits >= 32 and (is_move or nest.is_zero)


def _shared_byte(nest: LoopNest, index: int, along: list[int]) -> int:
    """Positions of an axis that one item takes: two where they share a byte, `along` that axis."""
    pairs = nest.has_nibbles and along == [index]
    return min(2, nest.axes[index].extent) if pairs else 1


def _kind_of_items(
    nest: LoopNest, square: LocalSquare | None, along_src: list[int], along_dst: list[int]
) -> tuple[str, str]:
    if nest.is_zero:
        return "zero", "padding"
    if not nest.axes:
        return "copy", "there is one element"
    if square is not None:
        return "transpose", "the contiguous axes of the two sides differ: through local memory"
    if along_src and along_src == along_dst:
        return "copy", "one axis is contiguous on both sides"
    return "strided", "neighbours of the destination lie apart in the source"


# --- a whole nest ------------------------------------------------------------
# Loop nest + facts about a device -> how a grid of work-items runs it.

# With bounds, items of their own loop over the inner axes once there are this many of them.
_ENOUGH_ITEMS = 256


@dataclass(frozen=True, slots=True)
class Items:
    """One box: what an item does as a step of a schedule, or what a group does as a square."""

    plan: Schedule

    @property
    def local_bytes(self) -> int:
        """Bytes of local memory that a group takes."""
        square = self.plan.square
        return square.elements * self.plan.nest.src_type.bits // 8 if square else 0

    def groups(self, size: int) -> int:
        """Number of groups of `size` items."""
        return prod(self.group_extents()) if self.plan.square else -(-self.plan.steps() // size)

    def group_extents(self) -> list[int]:
        """For a square: how many groups lie along each axis."""
        square, axes = self.plan.square, self.plan.nest.axes
        assert square is not None
        sides = {square.src_axis: square.src_side, square.dst_axis: square.dst_side}
        return [-(-axis.extent // sides.get(i, 1)) for i, axis in enumerate(axes)]

    def __str__(self) -> str:
        plan, square = self.plan, self.plan.square
        if square is not None:
            sides = f"{square.src_side} x {square.dst_side}"
            return f"{plan.kind} ({plan.why}): a group for each {sides} through local memory"
        what = f"tile of {prod(plan.chunks)}" if max(plan.chunks, default=1) > 2 else "element"
        return f"{plan.kind} ({plan.why}): {plan.steps()} items, by {what}"


@dataclass(frozen=True, slots=True)
class ItemPlan:
    """A whole nest for a device: its boxes, or `guarded`, the nest whose items check bounds themselves."""

    nest: LoopNest
    device: DeviceFacts
    boxes: tuple[Items, ...]
    guarded: LoopNest | None = None

    @property
    def kind(self) -> str:
        """The kind of kernel that moves the most."""
        return "guarded" if self.guarded else self._main.plan.kind

    @property
    def why(self) -> str:
        """The reason for it."""
        return "too many partial blocks to peel" if self.guarded else self._main.plan.why

    @property
    def _main(self) -> Items:
        return max(self.boxes, key=lambda box: (not box.plan.nest.is_zero, box.plan.nest.positions))

    @property
    def guarded_axes(self) -> int:
        """With bounds: how many of the outer axes have an item for each position."""
        assert self.guarded is not None
        extents = [axis.extent for axis in self.guarded.axes]
        if not self.device.vector_bytes:
            return len(extents)
        counts = list(accumulate(extents, lambda items, extent: items * extent))
        return 1 + next((i for i, count in enumerate(counts) if count >= _ENOUGH_ITEMS), len(counts) - 1)

    @property
    def groups(self) -> int:
        """Number of groups in all."""
        size = self.device.group
        if self.guarded:
            items = prod(axis.extent for axis in self.guarded.axes[: self.guarded_axes])
            return -(-items // size)
        return sum(box.groups(size) for box in self.boxes)

    @property
    def local_bytes(self) -> int:
        """Bytes of local memory that a group takes."""
        return max((box.local_bytes for box in self.boxes), default=0)

    @property
    def splits_bytes(self) -> bool:
        """True where 4-bit elements of one byte would meet in different items: it must not be compiled."""
        if not self.nest.has_nibbles:
            return False
        return self.guarded is not None or not moves_whole_bytes(box.plan for box in self.boxes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.boxes)) or f"guarded ({self.why})"


def plan_items(nest: LoopNest, device: DeviceFacts) -> ItemPlan:
    """Schedule a nest that is not empty for a device."""
    if peeled_boxes(nest) > LIMITS.boxes_of_items:
        return ItemPlan(nest, device, (), nest)
    boxes = list(map(normalise, peel(nest)))
    tiles = len(boxes) <= LIMITS.tiled_boxes_of_items
    plans = (plan for box in boxes for plan in schedule_items(box, device, tiles))
    return ItemPlan(nest, device, tuple(map(Items, plans)))
