"""The loop nest: the one program representation of restride.

A value t starts as the source, as a real number. The grammar::

    compute := step*
    step    := "mul" x | "rescale" x | "add" x | "sub" x | ...    t = t * x, t * (1 / x), t + x, t - x, ...
             | "sum" beta | "sum_shifted" beta zero               t = t + beta * (old destination [- zero])
             | "prelu" x | "prelu_slope" x                        t = t > 0 ? t : t * x, t > 0 ? 1 : x
             | "select" x y                                       t = y != 0 ? t : x
             | <eltwise> alpha beta scale                         t = scale * f(t)
    x       := an element of a tensor operand [* factor], or a scalar
    factor  := a scalar, or an element of another operand
    y       := an element of a tensor operand

Scalars are not in the chain: kernels read them at execution, in the order in which the steps name them, so
that another scale needs no other kernel.

A nest means: *for every index, read here, convert, write there*. The grammar::

    nest    := types bases compute operand* axis* bound*
    axis    := extent valid src dst more* [bound step]   one loop; each operand moves by a stride or a table
    operand := type base                                 a tensor that the computation reads
    bound   := size padded                               of one dimension: read below size, zero below padded

The index of a bounded dimension is the sum of `position * step` over the axes that name the bound. An index
below `size` is read, converted and written; one in [size, padded) writes zero; one at or past `padded` is
skipped. An axis with `valid < extent` writes zero for the positions from `valid` on. Axes are listed
outermost first.

`ir/interpret_nest.py` defines the meaning of a nest; `ir/nest_rewrites.py` transforms nests.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from math import prod

from ..dtypes import DataType
from ..frozen import dataclass

# --- the steps of a value ----------------------------------------------------
# The chain of steps applied to a value between source and destination (N1).

BINARY = ("add", "sub", "mul", "div", "min", "max", "ge", "gt", "le", "lt", "eq", "ne")
"""Steps of two values, by their names as binary post-ops."""

SCALAR = -2
"""Marks the factor of an operand as a scalar."""

_SUMS = {"sum": 1, "sum_shifted": 2}
_NOT_ELTWISE = frozenset((*BINARY, *_SUMS, "rescale", "prelu", "prelu_slope", "select"))
_ELTWISE_SCALARS = 3
_SYMBOLS = {"mul": "*", "add": "+", "sub": "-", "div": "/"}


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor other than source and destination: its type, and the offset of its first element."""

    data_type: DataType
    base: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `operand` is the number of a tensor, or -1; `data_type` is the type of old bits in a sum.

    A sum with an operand reads the old values there, not in the destination. `factor`: the operand, or the
    scalar, that multiplies `operand` first. `condition`: the operand that a select tests.
    """

    name: str
    operand: int = -1
    data_type: DataType | None = None
    factor: int = -1
    condition: int = -1

    @property
    def scalars(self) -> int:
        """The number of scalars that the step reads."""
        if self.is_eltwise:
            return _ELTWISE_SCALARS
        if self.name in _SUMS:
            return _SUMS[self.name]
        return 1 if self.operand < 0 or self.factor == SCALAR else 0

    @property
    def operands(self) -> tuple[int, ...]:
        """The tensors that the step reads."""
        return tuple(each for each in (self.operand, self.factor, self.condition) if each >= 0)

    @property
    def is_accumulation(self) -> bool:
        """True if a further source is added, times a scalar."""
        return self.name == "add" and self.operand >= 0 and self.factor == SCALAR

    @property
    def is_eltwise(self) -> bool:
        """True if it is a function of the value alone."""
        return self.name not in _NOT_ELTWISE

    @property
    def is_sum(self) -> bool:
        """True if the step reads the old destination."""
        return self.name in _SUMS


@dataclass(frozen=True, slots=True)
class Compute:
    """The chain of steps; empty if values are only converted.

    `wide` requests f64, as an f64 source or destination does (N1).
    """

    steps: tuple[Step, ...] = ()
    wide: bool = False

    @property
    def is_move(self) -> bool:
        """True if the value is only converted."""
        return not self.steps

    @property
    def reads_destination(self) -> bool:
        """True if the old destination is read."""
        return any(step.is_sum and step.operand < 0 for step in self.steps)

    @property
    def scalars(self) -> int:
        """The number of scalars that the chain reads."""
        return sum(step.scalars for step in self.steps)

    def steps_with_scalars(self) -> Iterator[tuple[Step, int]]:
        """Yield each step with the number of its first scalar."""
        first = 0
        for step in self.steps:
            yield step, first
            first += step.scalars

    def show(self, dst: DataType) -> str:
        """Return the chain as one expression: `s8(alpha * src + beta * dst)`."""
        return f"{dst}({_expression(self.steps)})"


def needs_double(data_type: DataType) -> bool:
    """Return whether f32 cannot represent the type: f64, and integers of 32 bits or more."""
    return data_type is DataType.f64 or (data_type.is_integral and data_type.bits > 16)


def has_wide(*data_types: DataType) -> bool:
    """Return whether steps on these types compute in f64: one needs it, but is not s32 (N1)."""
    return any(needs_double(each) and each is not DataType.s32 for each in data_types)


def linear(scaled: bool = False, summed: bool = False, shifted: bool = False) -> Compute:
    """Return `alpha * src + beta * dst + zero`, each part optional; the scalars in this order."""
    wanted = (("mul", scaled), ("sum", summed), ("add", shifted))
    return Compute(tuple(Step(name) for name, is_wanted in wanted if is_wanted))


def _expression(steps: tuple[Step, ...]) -> str:
    text = "src"
    for step in steps:
        text = _step_text(step, text)
    return text


def _operand_text(step: Step) -> str:
    if step.operand < 0:
        return ""
    factor = {-1: "", SCALAR: "factor * "}.get(step.factor, f"x{step.factor} * ")
    return f"{factor}x{step.operand}"


def _step_text(step: Step, text: str) -> str:
    operand = _operand_text(step)
    if step.is_sum:
        return f"{text} + beta * {'dst' if step.name == 'sum' else '(dst - zero)'}"
    if step.is_accumulation:
        return f"{text} + {operand}"
    if step.name == "select":
        return f"select(x{step.condition}, {text}, {operand})"
    inner = f"({text})" if " " in text else text
    if step.name == "mul" and not operand:
        return f"alpha * {inner}"
    if step.name == "rescale":
        return f"{inner} / {operand}"
    if step.name in _SYMBOLS:
        return f"{inner} {_SYMBOLS[step.name]} {operand or 'zero'}"
    return f"{step.name}({text}{', ' + operand if operand else ''})"


# --- the nest ----------------------------------------------------------------

Stride = int | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Bound:
    """Limits of one logical dimension whose axes do not cover it exactly."""

    size: int
    padded: int


@dataclass(frozen=True, slots=True)
class Axis:
    """One loop: `extent` positions; each operand moves by a stride, or by a table of offsets.

    `more` is for the operands of the computation, in order; all in elements.
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
        """True if every operand moves by a stride."""
        return isinstance(self.src, int) and isinstance(self.dst, int) and _are_linear(self.more)

    @property
    def is_whole(self) -> bool:
        """True if every position is read."""
        return self.valid == self.extent

    @property
    def sides(self) -> tuple[Stride, ...]:
        """The moves of each operand: source, destination, then those of the computation."""
        return (self.src, self.dst, *self.more)

    def offsets(self, position: int) -> tuple[int, ...]:
        """Return the offset of each operand at `position`, in the order of `sides`."""
        return tuple(_offset(stride, position) for stride in self.sides)

    def src_offset(self, position: int) -> int:
        """Return the offset of the source at `position`, in elements."""
        return _offset(self.src, position)

    def dst_offset(self, position: int) -> int:
        """Return the offset of the destination at `position`, in elements."""
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
        """True if there is nothing to write."""
        return any(a.extent == 0 for a in self.axes) or any(b.padded == 0 for b in self.bounds)

    @property
    def is_zero(self) -> bool:
        """True if every position writes zero."""
        return any(a.valid == 0 for a in self.axes)

    @property
    def has_nibbles(self) -> bool:
        """True if a side has a 4-bit type."""
        return min(self.src_type.bits, self.dst_type.bits) < 8

    @property
    def shrinks(self) -> bool:
        """True if most traffic is reading: wider elements become bytes, or a quarter of their bits."""
        wide, narrow = self.src_type.bits, self.dst_type.bits
        return narrow <= 8 < wide or 4 * narrow <= wide

    @property
    def positions(self) -> int:
        """The number of loop iterations."""
        return prod(a.extent for a in self.axes)

    @property
    def moved_bytes(self) -> int:
        """The bytes read and written."""
        return self.positions * (self.src_type.bits + self.dst_type.bits) // 8

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def verify(self) -> LoopNest:
        """Return self if well formed; else raise ValueError: a bug of the planner, never of a user."""
        for axis in self.axes:
            _verify_axis(self, axis)
        if any(not 0 <= b.size <= b.padded for b in self.bounds):
            raise ValueError(f"bound with size past padded in\n{self}")
        named = {a.bound for a in self.axes}
        if any(i not in named and b.padded > 1 for i, b in enumerate(self.bounds)):
            raise ValueError(f"bound without an axis in\n{self}")
        if any(operand >= len(self.operands) for step in self.compute.steps for operand in step.operands):
            raise ValueError(f"step without its operand in\n{self}")
        return self


def _verify_axis(nest: LoopNest, axis: Axis) -> None:
    if axis.extent < 0 or not 0 <= axis.valid <= axis.extent:
        raise ValueError(f"axis {axis} has a bad extent")
    if axis.bound >= len(nest.bounds) or (axis.bound >= 0 and axis.step < 1):
        raise ValueError(f"axis {axis} names a bound that does not exist")
    if len(axis.more) != len(nest.operands):
        raise ValueError(f"axis {axis} moves {len(axis.more)} of {len(nest.operands)} operands")
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


# --- the reach of an axis ----------------------------------------------------
# For one axis and one operand: how far it moves, by a stride or by a table of offsets.


def as_int(stride: Stride) -> int:
    """Return the stride of an axis that `is_linear`, so without a table."""
    assert isinstance(stride, int)
    return stride


def lowest(stride: Stride, extent: int) -> int:
    """Return the least offset of `extent` positions, in elements; the first position of a stride is at 0."""
    return min(0, stride * (extent - 1)) if isinstance(stride, int) else min(stride)


def highest(stride: Stride, extent: int) -> int:
    """Return the largest offset of `extent` positions."""
    return max(0, stride * (extent - 1)) if isinstance(stride, int) else max(stride)


def multiplied(stride: Stride, by: int) -> Stride:
    """Return a stride multiplied by a factor."""
    return stride * by if isinstance(stride, int) else tuple(offset * by for offset in stride)
