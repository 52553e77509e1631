"""Sums + facts about a device -> how a grid of work-items finds them.

An item adds what it reads along some reduced axes, and adds that to the output of its position, in one step
that no other item can come between. Sums are modulo 2**32, so the order does not matter. Neighbours read
neighbouring elements: the innermost axis is never looped over by one item; where it is reduced and long, as
many items as a sub-group has share it, and each takes every so many-th element.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from .machine import DeviceFacts
from .reduction import Box, Reduction, ReductionAxis

# Fewer would leave a device idle: outer loops are shared among items until there are as many groups.
_ENOUGH_GROUPS = 64


@dataclass(frozen=True, slots=True)
class SumItems:
    """One box: the axes with an item for each position, and the reduced ones that an item runs through."""

    box: Box
    grid: tuple[ReductionAxis, ...]
    loops: tuple[ReductionAxis, ...]

    @property
    def items(self) -> int:
        """Number of items."""
        return prod(axis.extent for axis in self.grid)

    def groups(self, size: int) -> int:
        """Number of groups of `size` items."""
        return -(-self.items // size)


@dataclass(frozen=True, slots=True)
class SumPlan:
    """Sums of a whole tensor for a device."""

    reduction: Reduction
    device: DeviceFacts
    boxes: tuple[SumItems, ...]

    @property
    def groups(self) -> int:
        """Number of groups in all."""
        return sum(box.groups(self.device.group) for box in self.boxes)


def plan_sums(reduction: Reduction, device: DeviceFacts) -> SumPlan:
    """Schedule sums of at least one element for a device."""
    whole = [part for box in reduction.boxes for part in _shared(box, device.sub_group)]
    return SumPlan(reduction, device, tuple(_items(box, device) for box in whole))


def _shared(box: Box, lanes: int) -> tuple[Box, ...]:
    """A box whose innermost axis is reduced and long is two: `lanes` items share it, and what is left."""
    last = box.axes[-1] if box.axes else None
    if last is None or last.is_kept or last.extent <= lanes:
        return (box,)
    turns, rest = divmod(last.extent, lanes)
    split = (ReductionAxis(turns, last.src * lanes, 0), ReductionAxis(lanes, last.src, 0))
    whole = replace(box, axes=(*box.axes[:-1], *split))
    if not rest:
        return (whole,)
    behind = replace(
        box, axes=(*box.axes[:-1], replace(last, extent=rest)), base=box.base + turns * lanes * last.src
    )
    return whole, behind


def _items(box: Box, device: DeviceFacts) -> SumItems:
    loops = [axis for axis in box.axes[:-1] if not axis.is_kept]
    items = prod(axis.extent for axis in box.axes) // prod(axis.extent for axis in loops)
    while len(loops) > 1 and items < _ENOUGH_GROUPS * device.group:
        items *= loops.pop(0).extent
    grid = tuple(axis for axis in box.axes if not any(axis is loop for loop in loops))
    return SumItems(box, grid, tuple(loops))
