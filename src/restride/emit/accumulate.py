"""What a reduction does to a vector: bits to what accumulates, and how that accumulates.

Sums accumulate as 32-bit integers. Ranges accumulate without leaving the bits of their data type: as integers
in the order of the values (**keys**), with a bias that lets values that are not finite wrap around to below
all others. So one `max` of integers is all that a range needs, and every instruction set finds the same bits.
`plan/reduction_planes.py` says what keys mean.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dtypes import DataType
from ..plan.reduction import Op
from ..plan.reduction_planes import bias_of
from .builder import Builder, Value, lanes_of, vector


@dataclass(frozen=True, slots=True)
class Accumulation:
    """The operation of one reduction, on vectors of any number of lanes."""

    op: Op
    data_type: DataType

    @property
    def element(self) -> str:
        """IR type of one accumulated number."""
        return "i32" if self.op is Op.total else f"i{self.data_type.bits}"

    @property
    def bits(self) -> int:
        """Width of one accumulated number."""
        return 32 if self.op is Op.total else self.data_type.bits

    def empty(self, lanes: int) -> Value:
        """Accumulators in which nothing is yet."""
        if self.op is Op.total:
            return Value(vector(self.element, lanes), "zeroinitializer")
        return Value(vector(self.element, lanes), f"splat ({self.element} {-1 << self.bits - 1})")

    def prepare(self, b: Builder, bits: Value) -> tuple[Value, ...]:
        """What to fold for elements with these bits: one vector for each result."""
        if self.op is Op.total:
            return (self._integers(b, bits),)
        if self.op is Op.amax:
            return (b.op("add", b.op("and", bits, self._constant(bits, self._most)), self._bias(bits)),)
        key = self._key(b, bits)
        return b.op("sub", self._bias(bits, -1), key), b.op("add", key, self._bias(bits))

    def fold(self, b: Builder, one: Value, other: Value) -> Value:
        """Both together."""
        return b.op("add", one, other) if self.op is Op.total else b.intrinsic("smax", one, other)

    @property
    def _most(self) -> int:
        return (1 << self.data_type.bits - 1) - 1

    def _constant(self, like: Value, number: int) -> Value:
        return Value(like.type, f"splat (i{self.data_type.bits} {number})")

    def _bias(self, like: Value, more: int = 0) -> Value:
        return self._constant(like, bias_of(self.data_type) + more)

    def _integers(self, b: Builder, bits: Value) -> Value:
        if self.data_type.bits == 32:
            return bits
        if self.data_type is DataType.boolean:
            bits = b.compare("icmp ne", bits, Value(bits.type, "zeroinitializer"))
        return b.cast("sext" if self.data_type.kind == "int" else "zext", bits, "i32")

    def _key(self, b: Builder, bits: Value) -> Value:
        """Integers in the order of the floats: those of negative ones count down."""
        is_negative = b.compare("icmp slt", bits, Value(bits.type, "zeroinitializer"))
        return b.select(is_negative, b.op("xor", bits, self._constant(bits, self._most)), bits)


def only(b: Builder, value: Value, count: int, empty: Value) -> Value:
    """The first `count` lanes of a value, and `empty` in the others."""
    lanes = lanes_of(value)
    flags = ", ".join(f"i1 {'true' if i < count else 'false'}" for i in range(lanes))
    return b.select(Value(vector("i1", lanes), f"<{flags}>"), value, empty)
