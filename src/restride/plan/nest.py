"""The loop nest: the one program representation of restride.

A nest says: *for every index, read here, convert, write there*. Its grammar::

    nest    := types bases compute operand* axis* bound*
    axis    := extent valid src dst more* [bound step]   one loop; each operand moves by a stride or a table
    operand := type base                                 a tensor that the computation reads
    bound   := size padded                               of one dimension: read below size, zero below padded

The index of a bounded dimension is the sum of `position * step` over the axes that name the bound. An index
below `size` is read, converted and written; one in [size, padded) writes zero; one at or past `padded` is
skipped. An axis with `valid < extent` writes zero for the positions from `valid` on. Axes stand outermost
first.

`plan/interpret.py` defines what a nest means; `plan/rewrites.py` has what makes other nests of one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

from ..dtypes import DataType
from .compute import Compute, Operand

Stride = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """Limits of one logical dimension whose axes do not cover it exactly."""

    size: int
    padded: int


@dataclass(frozen=True, slots=True)
class Axis:
    """One loop: `extent` positions; each operand moves by a stride, or as a table of offsets says.

    `more` is for the operands of the computation, in their order; all in elements.
    """

    extent: int
    src: Stride
    dst: Stride
    valid: int = -1
    bound: int = -1
    step: int = 0
    more: tuple[Stride, ...] = ()

    def __post_init__(self) -> None:
        if self.valid < 0:
            object.__setattr__(self, "valid", self.extent)

    @property
    def is_linear(self) -> bool:
        """True when every operand moves by a stride."""
        return isinstance(self.src, int) and isinstance(self.dst, int) and _are_linear(self.more)

    @property
    def is_whole(self) -> bool:
        """True when every position is read."""
        return self.valid == self.extent

    @property
    def sides(self) -> tuple[Stride, ...]:
        """How each operand moves: source, destination, then those of the computation."""
        return (self.src, self.dst, *self.more)

    def offsets(self, position: int) -> tuple[int, ...]:
        """Offset of each operand at `position`, in the order of `sides`."""
        return tuple(_offset(stride, position) for stride in self.sides)

    def src_offset(self, position: int) -> int:
        """Offset of the source at `position`, in elements."""
        return _offset(self.src, position)

    def dst_offset(self, position: int) -> int:
        """Offset of the destination at `position`, in elements."""
        return _offset(self.dst, position)

    def __str__(self) -> str:
        valid = "" if self.is_whole else f" valid {self.valid}"
        bound = "" if self.bound < 0 else f" (dim {self.bound} step {self.step})"
        more = "".join(f", x{i} += {_show(stride)}" for i, stride in enumerate(self.more))
        return f"for {self.extent}{valid}: src += {_show(self.src)}, dst += {_show(self.dst)}{more}{bound}"


@dataclass(frozen=True, slots=True)
class LoopNest:
    """A frozen program; equal nests share a kernel."""

    src_type: DataType
    dst_type: DataType
    axes: tuple[Axis, ...]
    src_base: int = 0
    dst_base: int = 0
    compute: Compute = field(default_factory=Compute)
    bounds: tuple[Bound, ...] = ()
    operands: tuple[Operand, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to write."""
        return any(a.extent == 0 for a in self.axes) or any(b.padded == 0 for b in self.bounds)

    @property
    def is_zero(self) -> bool:
        """True when every position writes zero."""
        return any(a.valid == 0 for a in self.axes)

    @property
    def has_nibbles(self) -> bool:
        """True where a side is of a 4-bit type."""
        return min(self.src_type.bits, self.dst_type.bits) < 8

    @property
    def positions(self) -> int:
        """Number of loop iterations."""
        return prod(a.extent for a in self.axes)

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return self.positions * (self.src_type.bits + self.dst_type.bits) // 8

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def verify(self) -> LoopNest:
        """Return self if well formed; else raise ValueError: a fault of the planner, never of a user."""
        for axis in self.axes:
            _verify_axis(self, axis)
        if any(not 0 <= b.size <= b.padded for b in self.bounds):
            raise ValueError(f"bound with size past padded in\n{self}")
        named = {a.bound for a in self.axes}
        if any(i not in named and b.padded > 1 for i, b in enumerate(self.bounds)):
            raise ValueError(f"bound without an axis in\n{self}")
        if any(step.operand >= len(self.operands) for step in self.compute.steps):
            raise ValueError(f"step without its operand in\n{self}")
        return self


def _verify_axis(nest: LoopNest, axis: Axis) -> None:
    if axis.extent < 0 or not 0 <= axis.valid <= axis.extent:
        raise ValueError(f"axis {axis} has a bad extent")
    if axis.bound >= len(nest.bounds) or (axis.bound >= 0 and axis.step < 1):
        raise ValueError(f"axis {axis} names a bound that is not there")
    if len(axis.more) != len(nest.operands):
        raise ValueError(f"axis {axis} moves {len(axis.more)} operands of {len(nest.operands)}")
    for table in axis.sides:
        if not isinstance(table, int) and len(table) != axis.extent:
            raise ValueError(f"axis {axis} has a table of {len(table)} offsets")


def _are_linear(strides: tuple[Stride, ...]) -> bool:
    return not strides or all(isinstance(stride, int) for stride in strides)


def _offset(stride: Stride, position: int) -> int:
    return stride * position if isinstance(stride, int) else stride[position]


def _show(stride: Stride) -> str:
    if isinstance(stride, int):
        return str(stride)
    shown = ", ".join(map(str, stride[:6]))
    return f"table[{shown}{', ...' if len(stride) > 6 else ''}]"


def _lines(nest: LoopNest) -> Iterator[str]:
    yield f"src {nest.src_type} + {nest.src_base}, dst {nest.dst_type} + {nest.dst_base}"
    for i, operand in enumerate(nest.operands):
        yield f"x{i} {operand.data_type} + {operand.base}"
    for i, bound in enumerate(nest.bounds):
        yield f"dim {i}: read below {bound.size}, zero below {bound.padded}"
    for depth, axis in enumerate(nest.axes):
        yield "  " * depth + str(axis)
    yield "  " * len(nest.axes) + _statement(nest)


def _statement(nest: LoopNest) -> str:
    return "dst = 0" if nest.is_zero else f"dst = {nest.compute.show(nest.dst_type)}"
