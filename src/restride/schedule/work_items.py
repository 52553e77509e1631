"""Scheduler for loop nests and sums on a device: maps them to a grid of work-items.

A device runs one small program for every item of a grid, in **groups**. The work of an item or a group on a
box of the nest is a schedule like any other (`schedule_items`); here the boxes of a nest become one launch,
in which each has its own groups.

An item adds up what it reads along some reduced axes, and adds that atomically to the output of its position.
Sums are modulo 2**32, so the order does not matter. Adjacent items read adjacent elements: a single item
never loops over the innermost axis; if that is reduced and long, the items of a sub-group share it, each with
a stride of their number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import accumulate
from math import prod

from ..ir.nest import LoopNest
from ..ir.nest_rewrites import normalize, peel, peeled_boxes, split_read
from .machine import LIMITS, DeviceFacts, Machine
from .moves.local_square import LocalSquare, square_of
from .moves.loop_order import Grid, Order, order_loops
from .moves.schedule import Schedule, moves_whole_bytes, schedule
from .moves.tiling import contiguous

# --- one box for work-items --------------------------------------------------
# Scheduler from a loop nest and device facts to a nest of which each work-item runs one step.


def schedule_items(nest: LoopNest, device: DeviceFacts, tiles: bool = True) -> tuple[Schedule, ...]:
    """Schedule a normalized nest without bounds for work-items; each runs one step of the grid.

    If an item has its own registers, it runs `tiles` like a thread if vectors are suitable, else loops over
    elements. Items that run in step have one element each, the contiguous axis of the destination innermost,
    so that adjacent items write adjacent elements; a transpose goes by squares through a group's memory.
    """
    if device.vector_bytes and tiles and _suits_vectors(nest):
        plans = schedule(nest, Machine(vector_bytes=device.vector_bytes))
        return tuple(replace(plan, streams=False, prefetch=0) for plan in plans)
    for index, axis in enumerate(nest.axes):
        if not axis.is_whole and not nest.is_zero:
            parts = map(normalize, split_read(nest, index))
            return tuple(plan for part in parts for plan in schedule_items(part, device, tiles))
    along_src, along_dst = contiguous(nest, "src")[:1], contiguous(nest, "dst")[:1]
    square = square_of(nest, device, *along_src, *along_dst) if along_src and along_dst else None
    # Elements that are unpacked to bytes are contiguous only in the source.
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
    """Return whether device compilers handle vectors well: elements of 32 bits or more, moved unconverted.

    For vectors of bytes they take up to a minute, and LLVM cannot translate all vector arithmetic to SPIR-V
    (measured: Intel's for CPUs, 2026; LLVM 22).
    """
    is_move = nest.src_type is nest.dst_type and nest.compute.is_move
    return nest.dst_type.bits >= 32 and (is_move or nest.is_zero)


def _shared_byte(nest: LoopNest, index: int, along: list[int]) -> int:
    """Return the positions of an axis that one item takes: two if they share a byte along `along`."""
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
    return "strided", "adjacent elements of the destination are apart in the source"


# --- a whole nest ------------------------------------------------------------
# Scheduler from a loop nest and device facts to a grid of work-items.

# With bounds, separate items loop over the inner axes once there are this many of them.
_ENOUGH_ITEMS = 256


@dataclass(frozen=True, slots=True)
class Items:
    """One box: the work of an item as a step of a schedule, or of a group as a square."""

    plan: Schedule

    @property
    def local_bytes(self) -> int:
        """The bytes of local memory that a group takes."""
        square = self.plan.square
        return square.elements * self.plan.nest.src_type.bits // 8 if square else 0

    def groups(self, size: int) -> int:
        """Return the number of groups of `size` items."""
        return prod(self.group_extents()) if self.plan.square else -(-self.plan.steps() // size)

    def group_extents(self) -> list[int]:
        """For a square: the number of groups along each axis."""
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
        """The total number of groups."""
        size = self.device.group
        if self.guarded:
            items = prod(axis.extent for axis in self.guarded.axes[: self.guarded_axes])
            return -(-items // size)
        return sum(box.groups(size) for box in self.boxes)

    @property
    def local_bytes(self) -> int:
        """The bytes of local memory that a group takes."""
        return max((box.local_bytes for box in self.boxes), default=0)

    @property
    def splits_bytes(self) -> bool:
        """True if 4-bit elements of one byte would be in different items: then it must not be compiled."""
        if not self.nest.has_nibbles:
            return False
        return self.guarded is not None or not moves_whole_bytes(box.plan for box in self.boxes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.boxes)) or f"guarded ({self.why})"


def plan_items(nest: LoopNest, device: DeviceFacts) -> ItemPlan:
    """Schedule a nonempty nest for a device."""
    if peeled_boxes(nest) > LIMITS.boxes_of_items:
        return ItemPlan(nest, device, (), nest)
    boxes = list(map(normalize, peel(nest)))
    tiles = len(boxes) <= LIMITS.tiled_boxes_of_items
    plans = (plan for box in boxes for plan in schedule_items(box, device, tiles))
    return ItemPlan(nest, device, tuple(map(Items, plans)))
