"""A transpose on a device whose items run in step: a square of elements staged in the memory of a group.

Adjacent items of a sub-group read adjacent elements of the source into local memory, and write adjacent ones
of the destination from it. So a side is as long as a sub-group is wide, or longer for elements so narrow that
such a row would be less than a line.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.nest import LoopNest
from ..machine import LINE, DeviceFacts

# Shorter axes are read directly.
_LEAST_SIDE = 8
_SIDES = (16, 64)


@dataclass(frozen=True, slots=True)
class LocalSquare:
    """The positions that a group stages: `src_side` of the axis contiguous in the source, and so on."""

    src_axis: int
    dst_axis: int
    src_side: int
    dst_side: int

    @property
    def row(self) -> int:
        """The elements between rows in local memory: one more than a row, so that columns use all banks."""
        return self.src_side + 1

    @property
    def elements(self) -> int:
        """The elements of local memory."""
        return self.row * self.dst_side


def square_of(nest: LoopNest, device: DeviceFacts, src_axis: int, dst_axis: int) -> LocalSquare | None:
    """Return the largest square that is worth staging and fits local memory.

    `src_axis` and `dst_axis` are the contiguous axes of the two sides.
    """
    if nest.is_zero or nest.has_nibbles or src_axis == dst_axis:
        return None
    side = _longest_side(nest, device)
    while side >= _LEAST_SIDE:
        square = LocalSquare(
            src_axis, dst_axis, *(_side_within(nest, index, side) for index in (src_axis, dst_axis))
        )
        if _fits(nest, square, device):
            return square
        side //= 2
    return None


def _longest_side(nest: LoopNest, device: DeviceFacts) -> int:
    narrow = min(nest.src_type.bits, nest.dst_type.bits) // 8
    least, most = _SIDES
    return min(max(least, _ceil_power(device.sub_group), LINE // narrow), most)


def _side_within(nest: LoopNest, index: int, side: int) -> int:
    return min(side, _ceil_power(nest.axes[index].extent))


def _ceil_power(extent: int) -> int:
    """Return the next power of two."""
    return 1 << (max(extent, 1) - 1).bit_length()


def _fits(nest: LoopNest, square: LocalSquare, device: DeviceFacts) -> bool:
    sides = square.src_side, square.dst_side
    is_shared = sides[0] * sides[1] % device.group == 0
    needed = square.elements * nest.src_type.bits // 8
    return is_shared and min(sides) >= _LEAST_SIDE and needed <= device.local_bytes
