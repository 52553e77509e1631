"""The facts about a machine that a schedule depends on."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Machine:
    """Vector width, whether shuffles of two registers cost one instruction, and the data caches, in bytes."""

    vector_bytes: int = 16
    registers: int = 16
    has_wide_permute: bool = False
    has_byte_permute: bool = False
    l2: int = 1 << 20
    l3: int = 16 << 20
    line: int = 64

    def permutes(self, bits: int) -> bool:
        """True when any lane of two registers reaches any lane of a third in one instruction."""
        return self.has_byte_permute if bits == 8 else self.has_wide_permute
