"""The facts about a machine that a schedule depends on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """Vector registers, how wide and how many, and the data caches, in bytes."""

    vector_bytes: int = 16
    registers: int = 16
    l2: int = 1 << 20
    l3: int = 16 << 20
    line: int = 64
