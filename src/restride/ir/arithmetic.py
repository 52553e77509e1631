"""Arithmetic as a parameter: the operations that formulas need, and their definition in NumPy.

`ir/eltwise_formulas.py` writes each function once, over `Term`s. NumPy defines its meaning, `emit/compute.py`
generates its code; because every operation here is one IEEE operation, rounded once, both give equal bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]

V = TypeVar("V")


class Arithmetic(Protocol[V]):
    """Operations on values V: vectors of f32 or f64, of unsigned integers as wide, or of conditions.

    Integers wrap. Comparisons with NaN are false. Nothing is fused.
    """

    def constant(self, number: float, like: V) -> V:
        """`number` in every lane, in the type of `like`."""

    def is_wide(self, a: V) -> bool:
        """True for f64."""

    def add(self, a: V, b: V) -> V:
        """Sum of reals or integers."""

    def sub(self, a: V, b: V) -> V:
        """Difference of reals or integers."""

    def mul(self, a: V, b: V) -> V:
        """Product of reals or integers."""

    def div(self, a: V, b: V) -> V:
        """Quotient of reals; of signed integers, truncated toward zero, with 0 for a divisor of 0."""

    def sqrt(self, a: V) -> V:
        """Square root, correctly rounded."""

    def round(self, a: V) -> V:
        """The nearest whole number, halves to even; zero keeps the sign."""

    def less(self, a: V, b: V) -> V:
        """The condition a < b of reals."""

    def equal(self, a: V, b: V) -> V:
        """The condition a == b of reals."""

    def both(self, a: V, b: V) -> V:
        """Bitwise and of integers or conditions."""

    def either(self, a: V, b: V) -> V:
        """Bitwise or of integers or conditions."""

    def shift_left(self, a: V, count: int) -> V:
        """Integers shifted left, filled with zeros."""

    def shift_right(self, a: V, count: int) -> V:
        """Integers shifted right, filled with zeros."""

    def shift_left_by(self, a: V, counts: V) -> V:
        """Integers shifted left by individual counts; 0 for a count below 0, or at least the width."""

    def shift_right_by(self, a: V, counts: V) -> V:
        """Integers shifted right in the same way, filled with zeros."""

    def select(self, condition: V, a: V, b: V) -> V:
        """Lanes of `a` where the condition holds, else of `b`."""

    def bits(self, a: V) -> V:
        """The bits of reals, as integers."""

    def real(self, a: V) -> V:
        """The reals that have these integers as bits."""

    def widen(self, a: V) -> V:
        """Reals as f64."""

    def narrow(self, a: V, like: V) -> V:
        """f64 rounded to the type of `like`."""

    def single(self, a: V) -> V:
        """Reals rounded to f32, kept in their type."""


@dataclass(frozen=True, slots=True, eq=False)
class Term(Generic[V]):
    """A value with its arithmetic, so that formulas read as formulas. Plain numbers mean constants."""

    ar: Arithmetic[V]
    value: V

    def _new(self, value: V) -> Term[V]:
        return Term(self.ar, value)

    def _of(self, other: Term[V] | float) -> V:
        return other.value if isinstance(other, Term) else self.ar.constant(other, self.value)

    def __add__(self, other: Term[V] | float) -> Term[V]:
        return self._new(self.ar.add(self.value, self._of(other)))

    def __sub__(self, other: Term[V] | float) -> Term[V]:
        return self._new(self.ar.sub(self.value, self._of(other)))

    def __rsub__(self, other: float) -> Term[V]:
        return self._new(self.ar.sub(self._of(other), self.value))

    def __mul__(self, other: Term[V] | float) -> Term[V]:
        return self._new(self.ar.mul(self.value, self._of(other)))

    def __truediv__(self, other: Term[V] | float) -> Term[V]:
        return self._new(self.ar.div(self.value, self._of(other)))

    def __rtruediv__(self, other: float) -> Term[V]:
        return self._new(self.ar.div(self._of(other), self.value))

    def __lt__(self, other: Term[V] | float) -> Term[V]:
        return self._new(self.ar.less(self.value, self._of(other)))

    def __gt__(self, other: Term[V] | float) -> Term[V]:
        return self._new(self.ar.less(self._of(other), self.value))

    def __and__(self, other: Term[V] | int) -> Term[V]:
        return self._new(self.ar.both(self.value, self._of(other)))

    def __or__(self, other: Term[V] | int) -> Term[V]:
        return self._new(self.ar.either(self.value, self._of(other)))

    def __lshift__(self, count: Term[V] | int) -> Term[V]:
        if isinstance(count, Term):
            return self._new(self.ar.shift_left_by(self.value, count.value))
        return self._new(self.ar.shift_left(self.value, count))

    def __rshift__(self, count: Term[V] | int) -> Term[V]:
        if isinstance(count, Term):
            return self._new(self.ar.shift_right_by(self.value, count.value))
        return self._new(self.ar.shift_right(self.value, count))

    def equals(self, other: Term[V] | float) -> Term[V]:
        """The condition self == other."""
        return self._new(self.ar.equal(self.value, self._of(other)))

    def where(self, yes: Term[V] | float, no: Term[V] | float) -> Term[V]:
        """`yes` where this condition holds, else `no`; one of them is a Term."""
        like = no if isinstance(no, Term) else yes
        assert isinstance(like, Term)
        return self._new(self.ar.select(self.value, like._of(yes), like._of(no)))

    def number(self, value: float) -> Term[V]:
        """A constant of this type."""
        return self._new(self._of(value))

    def sqrt(self) -> Term[V]:
        """Square root."""
        return self._new(self.ar.sqrt(self.value))

    def round(self) -> Term[V]:
        """The nearest whole number, halves to even."""
        return self._new(self.ar.round(self.value))

    def bits(self) -> Term[V]:
        """The bits, as integers."""
        return self._new(self.ar.bits(self.value))

    def real(self) -> Term[V]:
        """The reals of these bits."""
        return self._new(self.ar.real(self.value))

    def widen(self) -> Term[V]:
        """As f64."""
        return self._new(self.ar.widen(self.value))

    def narrow(self, like: Term[V]) -> Term[V]:
        """Rounded to the type of `like`."""
        return self._new(self.ar.narrow(self.value, like.value))

    def single(self) -> Term[V]:
        """Rounded to f32."""
        return self._new(self.ar.single(self.value))


_BITS = {np.dtype(np.float32): np.dtype(np.uint32), np.dtype(np.float64): np.dtype(np.uint64)}
_REALS = {bits: real for real, bits in _BITS.items()}


def _quiet(operation: Callable[..., Any]) -> Callable[..., Array]:
    """Return a method without warnings: overflow and invalid operations give their IEEE results."""

    def run(_: NumpyArithmetic, *args: Any) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(operation(*args))

    return run


def _quotient(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    is_zero, least = b == 0, np.iinfo(a.dtype).min
    # The least number over -1 wraps to itself, which is the quotient by 1.
    divisor = np.where(is_zero | ((a == least) & (b == -1)), a.dtype.type(1), b)
    below = a // divisor
    is_inexact = (below * divisor != a) & ((a < 0) != (divisor < 0))
    return np.asarray(np.where(is_zero, a.dtype.type(0), below + is_inexact.astype(a.dtype)))


def _moved(up: bool) -> Callable[[Array, Array], Array]:
    shift = np.left_shift if up else np.right_shift

    def run(a: Array, counts: Array) -> Array:
        bits, whole = a.dtype.itemsize * 8, np.dtype(f"u{a.dtype.itemsize}").type
        by = np.asarray(counts).astype(whole)
        moved = shift(a.view(whole), np.where(by < bits, by, whole(0)))
        return np.asarray(np.where(by < bits, moved, whole(0)).astype(whole).view(a.dtype))

    return run


class NumpyArithmetic:
    """Arrays of broadcastable shapes: the definition of every operation of `Arithmetic`."""

    constant = _quiet(lambda number, like: like.dtype.type(number))

    def is_wide(self, a: Array) -> bool:
        """True for f64."""
        return bool(a.dtype == np.float64)

    add, sub, mul = map(_quiet, (np.add, np.subtract, np.multiply))
    div = _quiet(_quotient)
    sqrt, round = _quiet(np.sqrt), _quiet(np.rint)
    less, equal, select = _quiet(np.less), _quiet(np.equal), _quiet(np.where)
    both, either = _quiet(np.bitwise_and), _quiet(np.bitwise_or)
    shift_left = _quiet(lambda a, count: np.left_shift(a, a.dtype.type(count)))
    shift_right = _quiet(lambda a, count: np.right_shift(a, a.dtype.type(count)))
    shift_left_by, shift_right_by = _quiet(_moved(up=True)), _quiet(_moved(up=False))
    bits = _quiet(lambda a: a.view(_BITS[a.dtype]))
    real = _quiet(lambda a: a.view(_REALS[a.dtype]))
    widen = _quiet(lambda a: a.astype(np.float64))
    narrow = _quiet(lambda a, like: a.astype(like.dtype))
    single = _quiet(lambda a: a.astype(np.float32).astype(a.dtype))


def with_sign(size: Term[V], like: Term[V]) -> Term[V]:
    """Return a number with the sign of another, including zeros."""
    sign = 1 << (63 if size.ar.is_wide(size.value) else 31)
    return ((size.bits() & (sign - 1)) | (like.bits() & sign)).real()


def polynomial(coefficients: Sequence[float], x: Term[V]) -> Term[V]:
    """Evaluate even and odd powers separately: two chains take half the time of one."""
    square = x * x
    return horner(coefficients[::2], square) + x * horner(coefficients[1::2], square)


def horner(coefficients: Sequence[float], x: Term[V]) -> Term[V]:
    """Return the polynomial with these coefficients, the constant one first; two or more."""
    result = x * coefficients[-1] + coefficients[-2]
    for coefficient in coefficients[-3::-1]:
        result = result * x + coefficient
    return result
