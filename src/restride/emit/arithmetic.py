"""The arithmetic of `plan/arithmetic.py` as LLVM IR, on vectors of any number of lanes (N1)."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from .builder import Builder, Value, element_of, lanes_of

_BITS = {"float": "i32", "double": "i64"}
_REALS = {bits: real for real, bits in _BITS.items()}
# Magnitudes from which on every value is whole: 2**23 and 2**52.
_WHOLE_FROM = {"float": 2.0**23, "double": 2.0**52}

_Two = Callable[["VectorArithmetic", Value, Value], Value]
_Shift = Callable[["VectorArithmetic", Value, int], Value]


def _op(name: str) -> _Two:
    """A method that writes a binary operation: of reals, the one with an f before its name."""

    def write(self: VectorArithmetic, a: Value, b: Value) -> Value:
        return self.b.op(f"f{name}" if element_of(a) in _BITS else name, a, b)

    return write


def _comparison(name: str) -> _Two:
    def write(self: VectorArithmetic, a: Value, b: Value) -> Value:
        return self.b.compare(name, a, b)

    return write


def _shift(name: str) -> _Shift:
    def write(self: VectorArithmetic, a: Value, count: int) -> Value:
        return self.b.op(name, a, self.constant(count, a))

    return write


@dataclass(frozen=True, slots=True)
class VectorArithmetic:
    """Writes each operation of `Arithmetic` into `b`; operands have equal numbers of lanes.

    `round_even`: the instruction set rounds half to even by itself (`Abilities`).
    """

    b: Builder
    round_even: bool = False

    def constant(self, number: float, like: Value) -> Value:
        """`number` in every lane, in the type of `like`."""
        element = element_of(like)
        text = str(number) if element in _REALS else _text(number, element)
        return self.b.splat(element, lanes_of(like), text)

    def sqrt(self, a: Value) -> Value:
        """Square root: one instruction everywhere, rounded correctly."""
        return self.b.intrinsic("sqrt", a)

    def round(self, a: Value) -> Value:
        """Half to even. Where no instruction does it, adding 2**23 or 2**52 leaves no room for a fraction."""
        if self.round_even:
            return self.b.intrinsic("roundeven", a)
        limit, size = self.constant(_WHOLE_FROM[element_of(a)], a), self.b.intrinsic("fabs", a)
        whole = self.sub(self.add(size, limit), limit)
        return self.select(self.less(size, limit), self.b.intrinsic("copysign", whole, a), a)

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        """Lanes of `a` where the condition holds, else of `b`."""
        return self.b.select(condition, a, b)

    def bits(self, a: Value) -> Value:
        """The bits of reals."""
        return self.b.bitcast(a, _BITS[element_of(a)])

    def real(self, a: Value) -> Value:
        """The reals of bits."""
        return self.b.bitcast(a, _REALS[element_of(a)])

    def widen(self, a: Value) -> Value:
        """Reals as doubles."""
        return a if element_of(a) == "double" else self.b.cast("fpext", a, "double")

    def narrow(self, a: Value, like: Value) -> Value:
        """Doubles rounded to the type of `like`."""
        return a if element_of(like) == "double" else self.b.cast("fptrunc", a, "float")

    add, sub, mul, div = _op("add"), _op("sub"), _op("mul"), _op("div")
    less, equal = _comparison("fcmp olt"), _comparison("fcmp oeq")
    both, either = _op("and"), _op("or")
    shift_left, shift_right = _shift("shl"), _shift("lshr")


def _text(number: float, element: str) -> str:
    """A real, rounded to `element`, as LLVM writes both kinds: the bits of the double."""
    held = number if element == "double" else struct.unpack("<f", struct.pack("<f", number))[0]
    return f"0x{struct.unpack('<Q', struct.pack('<d', held))[0]:016X}"
