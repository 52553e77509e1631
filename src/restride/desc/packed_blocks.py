"""Blocks whose numbers are bit fields, such as ggml's K quants: the location of each number's bits.

A number of few bits can be in two places of a block: the low bits of all elements in one, the high bits in
another. Each is a `BitField`, which locates a number's bits as a descriptor does: at a sum of the digits of
its index, each multiplied by a stride.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..dtypes import DataType

WORD_BITS = 16
"""The size in bits of a word in which sub-byte neighbors are read."""


@dataclass(frozen=True, slots=True)
class BitField:
    """Some bits of each of several numbers in a block, the lowest bit of a byte first.

    Those of number i are at `start` plus the sum of its digits times their strides: `digits` has the extent
    and the stride in bits of each, the outermost first; the innermost stride is at most 8.
    """

    start: int
    bits: int
    digits: tuple[tuple[int, int], ...]

    @property
    def count(self) -> int:
        """The number of numbers."""
        return prod(extent for extent, _ in self.digits)

    def bit(self, index: int) -> int:
        """Return the position of a number's bits."""
        place = self.start
        for extent, stride in reversed(self.digits):
            place += index % extent * stride
            index //= extent
        return place

    @property
    def is_dense(self) -> bool:
        """True if neighbors share a byte."""
        return self.digits[-1][1] < 8

    @property
    def run(self) -> int:
        """The number of neighbors read together: in a word, or in consecutive bytes."""
        extent, stride = self.digits[-1]
        return min(extent, WORD_BITS // stride) if self.is_dense else extent


@dataclass(frozen=True, slots=True)
class BitNumbers:
    """Integers of a block: the bits of `fields`, from the lowest up, minus `zero_point`; with a `table`, the
    number at that position in it.
    """

    fields: tuple[BitField, ...]
    zero_point: int = 0
    table: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """The number of integers."""
        return self.fields[0].count

    @property
    def ends(self) -> tuple[int, int]:
        """The smallest and the largest of these integers."""
        if self.table:
            return min(self.table), max(self.table)
        bits = sum(field.bits for field in self.fields)
        least = -(1 << bits - 1) if bits == 8 else -self.zero_point
        return least, least + (1 << bits) - 1


@dataclass(frozen=True, slots=True)
class PackedBlocks:
    """Blocks of a fixed number of bytes: an element is `d * scale * value - d_minimum * minimum`.

    name        ggml's name, in lower case
    scale_type  the type of d, which begins at byte `scale_at`
    scales      integers of the groups of a block; None if d applies to all
    minimum_at  the byte where d_minimum begins, an f16; None if nothing is subtracted
    minima      integers of the groups; None if d_minimum itself is added to all
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
        """The number of elements of a block."""
        return self.values.count

    @property
    def group(self) -> int:
        """The number of elements that share a scale."""
        return self.elements // (self.scales.count if self.scales else 1)

    @property
    def value_type(self) -> DataType:
        """The type that represents the integers of the elements."""
        is_signed = self.values.zero_point or self.values.table or self.values.fields[0].bits == 8
        return DataType.s8 if is_signed else DataType.u8
