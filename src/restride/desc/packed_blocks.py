"""Blocks whose numbers are fields of bits, as ggml's K quants: which bits are whose.

A number of few bits may lie in two places of a block: the low bits of all elements in one, the high bits in
another. Each is a `BitField`, which says as a descriptor does where a number's bits are: at a sum of the
digits of its index, each times a stride.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..dtypes import DataType

WORD_BITS = 16
"""The bits of a word in which neighbors of less than a byte are read."""


@dataclass(frozen=True, slots=True)
class BitField:
    """Some bits of each of several numbers in a block, the lowest bit of a byte first.

    Those of number i begin at `start`, and so many bits behind it as the digits of i say: `digits` has the
    extent and the stride in bits of each, the outermost first; the innermost stride is 8 at most.
    """

    start: int
    bits: int
    digits: tuple[tuple[int, int], ...]

    @property
    def count(self) -> int:
        """The number of numbers."""
        return prod(extent for extent, _ in self.digits)

    def bit(self, index: int) -> int:
        """Where the bits of a number begin."""
        place = self.start
        for extent, stride in reversed(self.digits):
            place += index % extent * stride
            index //= extent
        return place

    @property
    def is_dense(self) -> bool:
        """True where neighbors share a byte."""
        return self.digits[-1][1] < 8

    @property
    def run(self) -> int:
        """The neighbors that are read together: those in a word, or in bytes that follow each other."""
        extent, stride = self.digits[-1]
        return min(extent, WORD_BITS // stride) if self.is_dense else extent


@dataclass(frozen=True, slots=True)
class BitNumbers:
    """Integers of a block: the bits of `fields`, of which each one stands above those before it, less
    `zero_point`; where there is a `table`, the number that it has there.
    """

    fields: tuple[BitField, ...]
    zero_point: int = 0
    table: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """How many there are."""
        return self.fields[0].count

    @property
    def ends(self) -> tuple[int, int]:
        """The least and the largest of these integers."""
        if self.table:
            return min(self.table), max(self.table)
        bits = sum(field.bits for field in self.fields)
        least = -(1 << bits - 1) if bits == 8 else -self.zero_point
        return least, least + (1 << bits) - 1


@dataclass(frozen=True, slots=True)
class PackedBlocks:
    """Blocks of so many bytes: an element is `d * scale * value - d_minimum * minimum`.

    name        as ggml has it, in small letters
    scale_type  the type of d, which begins at byte `scale_at`
    scales      integers of the groups of a block; None where all have d
    minimum_at  the byte where d_minimum begins, an f16; None where nothing is subtracted
    minima      integers of the groups; None where d_minimum itself is added to all
    sums_at     the byte where sums of 16 values begin, in s16, which only products read; None without them
    """

    name: str
    nbytes: int
    values: BitNumbers
    scale_at: int = 0
    scale_type: DataType = DataType.f16
    scales: BitNumbers | None = None
    minimum_at: int | None = None
    minima: BitNumbers | None = None
    sums_at: int | None = None

    @property
    def elements(self) -> int:
        """The elements of a block."""
        return self.values.count

    @property
    def group(self) -> int:
        """How many elements share a scale."""
        return self.elements // (self.scales.count if self.scales else 1)

    @property
    def value_type(self) -> DataType:
        """The type that holds the integers of the elements."""
        is_signed = self.values.zero_point or self.values.table or self.values.fields[0].bits == 8
        return DataType.s8 if is_signed else DataType.u8
