"""The facts about a machine that a schedule depends on."""

from __future__ import annotations

from math import gcd

from ..dtypes import DataType
from ..frozen import dataclass

# What code takes for a cache line, in bytes, on every machine: streaming stores write so much at once, and
# need it aligned; memory that is allocated begins at such a line.
LINE = 64


@dataclass(frozen=True, slots=True)
class Cache:
    """A data cache of `size` bytes: lines a multiple of size / ways apart share a set, which holds `ways`."""

    size: int
    ways: int

    def overflows(self, rows: int, step: int) -> bool:
        """True where so many rows, `step` bytes apart, are more than the sets hold that they fall into.

        Rows of no distance are one.
        """
        return step > 0 and rows * gcd(step, self.size // self.ways) > self.size


@dataclass(frozen=True, slots=True)
class Machine:
    """Vector registers, how wide and how many; the data caches, a line of them and a page, in bytes.

    Systems seldom tell how many ways a cache has. Of the first what counts is the size of a way, which is a
    page nearly everywhere; most second ones have 8 to 20, and the rules that ask are rough anyway.

    `adds_pairs`: an instruction multiplies 16-bit integers and adds neighbours. `dots`: the types of factors
    of which another one multiplies what 32 bits hold, and adds it all to a sum of 32 bits.

    `permuted_bits`: elements of so many bits, or more, can be put in any order from two registers by one
    instruction; 128 where there is none of the kind. `permuted_lane`: registers are lanes of so many bytes,
    in all of which an instruction puts bytes in one and the same order; 0 where there is none.
    """

    vector_bytes: int = 16
    registers: int = 16
    l2: int = 1 << 20
    l3: int = 16 << 20
    line: int = LINE
    page: int = 4096
    l1: int = 32 << 10
    l1_ways: int = 8
    l2_ways: int = 16
    adds_pairs: bool = False
    dots: tuple[tuple[DataType, DataType], ...] = ()
    permuted_bits: int = 128
    permuted_lane: int = 0

    @property
    def first_cache(self) -> Cache:
        """The first data cache of a core."""
        return Cache(self.l1, self.l1_ways)

    @property
    def second_cache(self) -> Cache:
        """The second cache of a core."""
        return Cache(self.l2, self.l2_ways)


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device of work-items: items of a group, and of a sub-group, which run in step.

    `local_bytes` is the memory that a group has of its own; 0 where that is no faster than any other memory.
    `vector_bytes` are the registers that an item has to itself where items do not run in step, as on a CPU;
    else 0.
    """

    group: int = 256
    sub_group: int = 32
    local_bytes: int = 0
    vector_bytes: int = 0
