"""The facts about a machine that a schedule depends on."""

from __future__ import annotations

from dataclasses import dataclass

# What code takes for a cache line, in bytes, on every machine: streaming stores write so much at once, and
# need it aligned; memory that is allocated begins at such a line.
LINE = 64


@dataclass(frozen=True, slots=True)
class Machine:
    """Vector registers, how wide and how many, and the data caches, in bytes.

    Lines whose addresses differ by a multiple of `page` share a set of the first cache, which holds `ways` of
    them.
    """

    vector_bytes: int = 16
    registers: int = 16
    l2: int = 1 << 20
    l3: int = 16 << 20
    line: int = LINE
    page: int = 4096
    ways: int = 8


@dataclass(frozen=True, slots=True)
class Device:
    """A device of work-items: items of a group, and of a sub-group, which run in step.

    `local_bytes` is the memory that a group has of its own; 0 where that is no faster than any other memory.
    `vector_bytes` are the registers that an item has to itself where items do not run in step, as on a CPU;
    else 0.
    """

    group: int = 256
    sub_group: int = 32
    local_bytes: int = 0
    vector_bytes: int = 0
