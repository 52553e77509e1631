"""Ranges of vectors in groups: the bits of elements to keys, integers in the order of their values, with a
bias that lets values that are not finite wrap around to below all others (`ir/ranges.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dtypes import DataType
from ..ir.ranges import ends_of
from .builder import Builder, Value, vector


@dataclass(frozen=True, slots=True)
class RangeKeys:
    """The keys of elements of a type: of magnitudes, or of the negated values and the values."""

    data_type: DataType
    both_ends: bool

    @property
    def results(self) -> int:
        """The number of keys of an element."""
        return 2 if self.both_ends else 1

    def empty(self, lanes: int) -> Value:
        """Keys below all others."""
        element = f"i{self.data_type.bits}"
        return Value(vector(element, lanes), f"splat ({element} {-1 << self.data_type.bits - 1})")

    def of_bits(self, b: Builder, bits: Value) -> tuple[Value, ...]:
        """The keys of elements with these bits: a vector for each result."""
        most, bias = (self._constant(bits, number) for number in ends_of(self.data_type))
        if not self.both_ends:
            return (b.op("add", b.op("and", bits, most), bias),)
        is_negative = b.compare("icmp slt", bits, Value(bits.type, "zeroinitializer"))
        key = b.select(is_negative, b.op("xor", bits, most), bits)
        return b.op("sub", self._constant(bits, ends_of(self.data_type)[1] - 1), key), b.op("add", key, bias)

    def larger(self, b: Builder, one: Value, other: Value) -> Value:
        """The larger of both, lane by lane."""
        return b.intrinsic("smax", one, other)

    def _constant(self, like: Value, number: int) -> Value:
        return Value(like.type, f"splat (i{self.data_type.bits} {number})")
