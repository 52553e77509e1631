"""Loop nest + facts about a device -> how a grid of work-items runs it.

A device runs one small program for every position of a grid: **work-items**, in **groups** that share a
little memory of their own. Neighbours in a group should read neighbouring elements, and write neighbours.

Where one axis is contiguous on both sides they do: item i takes position i of the nest, the contiguous axis
of the destination innermost. Where it is not, a transpose, a group brings a square of elements into its local
memory, reading along the source, and takes it out again along the destination.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..dtypes import DataType
from .loop_order import Grid
from .nest import LoopNest, normalise, peel, peeled_boxes, slice_axis
from .nibbles import has_nibbles, moves_whole_bytes
from .schedule import Schedule
from .tiling import contiguous

# Past this many boxes the bounds are checked by every item instead.
_MOST_BOXES = 8
# The side of a square in local memory; shorter axes than the least are read as they lie.
_SIDE, _LEAST_SIDE = 32, 8


@dataclass(frozen=True, slots=True)
class Device:
    """What a schedule depends on: items of a group, and of a sub-group, which run in step.

    `local_bytes` is the memory that a group has of its own; 0 where that is no faster than any other memory,
    as on a CPU.
    """

    group: int = 256
    sub_group: int = 32
    local_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Square:
    """The positions that a group stages: `src_side` of the axis contiguous in the source, and so on."""

    src_axis: int
    dst_axis: int
    src_side: int
    dst_side: int

    @property
    def row(self) -> int:
        """Elements between rows in local memory: one more than a row, so that columns meet all banks."""
        return self.src_side + 1

    @property
    def elements(self) -> int:
        """Elements of local memory."""
        return self.row * self.dst_side


@dataclass(frozen=True, slots=True)
class Items:
    """One box: what an item does as a schedule, every axis in its grid; or what a group does as a square."""

    plan: Schedule
    square: Square | None = None

    @property
    def local_bytes(self) -> int:
        """Bytes of local memory that a group takes."""
        if self.square is None:
            return 0
        return self.square.elements * self.plan.nest.src_type.bits // 8

    def groups(self, size: int) -> int:
        """Number of groups of `size` items."""
        if self.square is None:
            return -(-self.plan.steps() // size)
        return prod(self.group_extents())

    def group_extents(self) -> list[int]:
        """For a square: how many groups lie along each axis."""
        square, axes = self.square, self.plan.nest.axes
        assert square is not None
        sides = {square.src_axis: square.src_side, square.dst_axis: square.dst_side}
        return [-(-axis.extent // sides.get(i, 1)) for i, axis in enumerate(axes)]

    def __str__(self) -> str:
        plan = self.plan
        if self.square is None:
            return f"{plan.kind} ({plan.why}): an item for each of {plan.steps()}"
        sides = f"{self.square.src_side} x {self.square.dst_side}"
        return f"{plan.kind} ({plan.why}): a group for each {sides} through local memory"


@dataclass(frozen=True, slots=True)
class ItemPlan:
    """A whole nest for a device: its boxes, or `guarded`, the nest whose items check bounds themselves."""

    nest: LoopNest
    device: Device
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
    def groups(self) -> int:
        """Number of groups in all."""
        size = self.device.group
        if self.guarded:
            return -(-self.guarded.positions // size)
        return sum(box.groups(size) for box in self.boxes)

    @property
    def local_bytes(self) -> int:
        """Bytes of local memory that a group takes."""
        return max((box.local_bytes for box in self.boxes), default=0)

    @property
    def splits_bytes(self) -> bool:
        """True where 4-bit elements of one byte would meet in different items: it must not be compiled."""
        if not has_nibbles(self.nest):
            return False
        return self.guarded is not None or not moves_whole_bytes(box.plan for box in self.boxes)

    def __str__(self) -> str:
        return "\n".join(map(str, self.boxes)) or f"guarded ({self.why})"


def plan_items(nest: LoopNest, device: Device) -> ItemPlan:
    """Schedule a nest that is not empty for a device."""
    if peeled_boxes(nest) > _MOST_BOXES:
        return ItemPlan(nest, device, (), nest)
    boxes = [normalise(whole) for box in peel(nest) for whole in _split(box)]
    return ItemPlan(nest, device, tuple(_items(box, device) for box in boxes))


def _split(nest: LoopNest) -> tuple[LoopNest, ...]:
    """A nest without bounds as nests that read everything, or nothing."""
    for index, axis in enumerate(nest.axes):
        if 0 < axis.valid < axis.extent and not nest.is_zero:
            read = slice_axis(nest, index, 0, axis.valid)
            zero = slice_axis(nest, index, axis.valid, axis.extent - axis.valid, 0)
            return (*_split(read), zero)
    return (nest,)


def _items(nest: LoopNest, device: Device) -> Items:
    along_src, along_dst = contiguous(nest, "src")[:1], contiguous(nest, "dst")[:1]
    square = _square(nest, device, along_src, along_dst)
    kind, why = _reason(nest, square, along_src, along_dst)
    chunks = tuple(_chunk(nest, index, along_dst) for index in range(len(nest.axes)))
    grid = tuple(Grid(index, 1) for index in range(len(nest.axes)))
    return Items(Schedule(nest, chunks, grid, (), nest.src_type, kind, why, late=True), square)


def _chunk(nest: LoopNest, index: int, along_dst: list[int]) -> int:
    """Positions of an axis that one item takes: two where they share a byte."""
    pairs = has_nibbles(nest) and along_dst[:1] == [index]
    return min(2, nest.axes[index].extent) if pairs else 1


def _reason(
    nest: LoopNest, square: Square | None, along_src: list[int], along_dst: list[int]
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


def _square(nest: LoopNest, device: Device, along_src: list[int], along_dst: list[int]) -> Square | None:
    """The square of a transpose that is worth staging, and that local memory has room for."""
    if nest.is_zero or has_nibbles(nest) or not along_src or not along_dst or along_src == along_dst:
        return None
    (src,), (dst,) = along_src, along_dst
    sides = [_side(nest.axes[index].extent) for index in (src, dst)]
    square = Square(src, dst, *sides)
    needed = square.elements * _bytes(nest.src_type)
    fits = needed <= device.local_bytes and sides[0] * sides[1] % device.group == 0
    return square if fits and min(sides) >= _LEAST_SIDE else None


def _bytes(data_type: DataType) -> int:
    return data_type.bits // 8


def _side(extent: int) -> int:
    """A power of two up to the side of a square: the next above a short axis."""
    return min(_SIDE, 1 << (max(extent, 1) - 1).bit_length())
