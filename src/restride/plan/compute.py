"""What happens to a value between source and destination: a chain of steps (N1).

A value t starts as the source, as a real number. Its grammar::

    compute := step*
    step    := "mul" x | "rescale" x | "add" x | "sub" x | ...    t = t * x, t * (1 / x), t + x, t - x, ...
             | "sum" beta | "sum_shifted" beta zero               t = t + beta * (old destination [- zero])
             | "accumulate" factor x                              t = t + factor * x
             | <eltwise> alpha beta scale                         t = scale * f(t)
    x       := an element of a tensor operand, or a scalar

Scalars are not in the chain: kernels read them when they run, in the order in which the steps name them, so
that another scale is no other kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..dtypes import DataType
from .eltwise import ALGORITHMS

BINARY = ("add", "sub", "mul", "div", "min", "max", "ge", "gt", "le", "lt", "eq", "ne")
"""Steps of two values, as the binary post-op names them."""

_SUMS = {"sum": 1, "sum_shifted": 2}
_ELTWISE_SCALARS = 3
_SYMBOLS = {"mul": "*", "add": "+", "sub": "-", "div": "/"}


@dataclass(frozen=True, slots=True)
class Operand:
    """A tensor beside source and destination: its type, and where its first element is."""

    data_type: DataType
    base: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """One step. `operand` numbers a tensor, -1 is none; `data_type` is what a sum reads the old bits as.

    A sum with an operand finds the old values there, not in the destination.
    """

    name: str
    operand: int = -1
    data_type: DataType | None = None

    @property
    def scalars(self) -> int:
        """How many scalars the step reads."""
        if self.is_eltwise:
            return _ELTWISE_SCALARS
        if self.name in _SUMS:
            return _SUMS[self.name]
        return 1 if self.operand < 0 or self.name == "accumulate" else 0

    @property
    def is_eltwise(self) -> bool:
        """True for a function of the value alone."""
        return self.name in ALGORITHMS

    @property
    def is_sum(self) -> bool:
        """True where the step reads the old destination."""
        return self.name in _SUMS


@dataclass(frozen=True, slots=True)
class Compute:
    """The chain of steps; empty where values are only converted.

    `wide` asks for doubles, as an f64 source or destination does (N1).
    """

    steps: tuple[Step, ...] = ()
    wide: bool = False

    @property
    def is_move(self) -> bool:
        """True when the value is only converted."""
        return not self.steps

    @property
    def summed(self) -> bool:
        """True when the old destination is read."""
        return any(step.is_sum and step.operand < 0 for step in self.steps)

    @property
    def scalars(self) -> int:
        """How many scalars the chain reads."""
        return sum(step.scalars for step in self.steps)

    def numbered(self) -> Iterator[tuple[Step, int]]:
        """Each step with the number of its first scalar."""
        first = 0
        for step in self.steps:
            yield step, first
            first += step.scalars

    def show(self, dst: DataType) -> str:
        """The chain as one expression: `s8(alpha * src + beta * dst)`."""
        return f"{dst}({_expression(self.steps)})"


def linear(scaled: bool = False, summed: bool = False, shifted: bool = False) -> Compute:
    """`alpha * src + beta * dst + zero`, each part optional; the scalars in this order."""
    wanted = (("mul", scaled), ("sum", summed), ("add", shifted))
    return Compute(tuple(Step(name) for name, is_wanted in wanted if is_wanted))


def _expression(steps: tuple[Step, ...]) -> str:
    text = "src"
    for step in steps:
        text = _applied(step, text)
    return text


def _applied(step: Step, text: str) -> str:
    operand = f"x{step.operand}" if step.operand >= 0 else ""
    if step.is_sum:
        return f"{text} + beta * {'dst' if step.name == 'sum' else '(dst - zero)'}"
    if step.name == "accumulate":
        return f"{text} + factor * {operand}"
    inner = f"({text})" if " " in text else text
    if step.name == "mul" and not operand:
        return f"alpha * {inner}"
    if step.name == "rescale":
        return f"{inner} / {operand}"
    if step.name in _SYMBOLS:
        return f"{inner} {_SYMBOLS[step.name]} {operand or 'zero'}"
    return f"{step.name}({text}{', ' + operand if operand else ''})"
