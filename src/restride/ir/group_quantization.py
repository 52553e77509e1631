"""Quantisation in groups as a value: what loops run.

It says: *for every group, find the largest finite magnitude; write a scale; write every value divided by it*.
Its grammar::

    quantization := types rule bases across* within*
    across       := extent src dst scale      one loop over groups; how far each moves, in elements
    within       := extent src dst            one loop over the elements of a group

`ScaleRule` (`scale_rule.py`) says what the scale is, `group_schedule.py` how the loops run.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from .digits import TensorOperand, reorder_nest
from .nest import Axis, Compute, LoopNest, Step, as_int
from .nest_rewrites import normalise
from .scale_rule import ScaleRule


@dataclass(frozen=True, slots=True)
class GroupAxis:
    """One loop; `scale` is 0 within a group."""

    extent: int
    src: int
    dst: int
    scale: int = 0

    def __str__(self) -> str:
        scale = f", scale += {self.scale}" if self.scale else ""
        return f"for {self.extent}: src += {self.src}, dst += {self.dst}{scale}"


@dataclass(frozen=True, slots=True)
class GroupQuantization:
    """A frozen quantisation; equal ones share a kernel. Axes stand outermost first."""

    src_type: DataType
    rule: ScaleRule
    across: tuple[GroupAxis, ...]
    within: tuple[GroupAxis, ...]
    bases: tuple[int, int, int] = (0, 0, 0)

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        groups = prod(axis.extent for axis in self.across)
        elements = groups * prod(axis.extent for axis in self.within)
        widths = self.src_type.bits + self.rule.data_type.bits
        return (elements * widths + groups * self.rule.scale_type.bits) // 8

    def __str__(self) -> str:
        head = f"{self.rule.data_type}({self.src_type}) in scales of {self.rule.scale_type}"
        axes = [*self.across, *self.within]
        return "\n".join([head, *("  " * (depth + 1) + str(axis) for depth, axis in enumerate(axes))])


def group_quantization(
    src: MemoryDesc, dst: MemoryDesc, scale: MemoryDesc, rule: ScaleRule
) -> GroupQuantization | None:
    """The quantisation of tensors of equal dims, in which `scale` has 1 along the axes within a group.

    None where blocks are not whole, or cut otherwise on both sides.
    """
    operand = TensorOperand.of_desc(scale)
    nest = reorder_nest(src, dst, Compute((Step("div", operand=0),)), [operand])
    if nest.bounds or nest.is_empty or not all(axis.is_linear for axis in nest.axes):
        return None
    axes = _axes_of(normalise(nest))
    return GroupQuantization(
        src.data_type,
        rule,
        tuple(axis for axis in axes if axis.scale),
        tuple(axis for axis in axes if not axis.scale),
        (src.offset0, dst.offset0, scale.offset0),
    )


def _axes_of(nest: LoopNest) -> list[GroupAxis]:
    return [_group_axis(axis) for axis in nest.axes if axis.extent > 1]


def _group_axis(axis: Axis) -> GroupAxis:
    return GroupAxis(axis.extent, as_int(axis.src), as_int(axis.dst), as_int(axis.more[0]))
