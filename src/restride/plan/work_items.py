"""Loop nest + facts about a device -> how a grid of work-items runs it.

A device runs one small program for every item of a grid, in **groups**. What an item or a group does with a
box of the nest is a schedule like any other (`item_schedule.py`); here the boxes of a nest become one launch,
in which each has groups of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from math import prod

from .item_schedule import schedule_items
from .machine import DeviceFacts
from .nest import LoopNest
from .nibbles import moves_whole_bytes
from .rewrites import normalise, peel, peeled_boxes
from .schedule import Schedule

# Past this many boxes the bounds are checked by every item instead.
_MOST_BOXES = 8
# The device's compiler takes seconds where more boxes than these are in vectors (measured).
_MOST_TILED = 2
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
    if peeled_boxes(nest) > _MOST_BOXES:
        return ItemPlan(nest, device, (), nest)
    boxes = list(map(normalise, peel(nest)))
    tiles = len(boxes) <= _MOST_TILED
    plans = (plan for box in boxes for plan in schedule_items(box, device, tiles))
    return ItemPlan(nest, device, tuple(map(Items, plans)))
