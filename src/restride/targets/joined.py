"""Nests in step for an instruction set: scheduled, and as IR."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..emit.joined import emit_joined
from ..plan.joined import Joined, join
from ..plan.nest import LoopNest
from .cpu import machine_of
from .cpu_ir import style_of
from .isa import CacheSizes, Isa


@dataclass(frozen=True, slots=True)
class LoweredJoin:
    """Scheduled nests in step for one instruction set: what would be compiled."""

    joined: Joined
    isa: Isa

    @property
    def kind(self) -> str:
        """The name of such kernels."""
        return "joined"

    @property
    def steps(self) -> int:
        """Blocks that threads can share."""
        return self.joined.steps

    @property
    def key(self) -> tuple[object, ...]:
        """What the code depends on besides the compiler."""
        return (self.joined, self.isa)

    @property
    def is_swept(self) -> bool:
        """True: `tests/test_tile.py` sweeps them."""
        return True

    def ir(self) -> str:
        """The kernel as LLVM IR text."""
        return emit_joined(self.joined, style_of(self.isa))


def lower_joined(nests: Sequence[LoopNest], isa: Isa, caches: CacheSizes) -> LoweredJoin | None:
    """Schedule nests that write one destination in step; None where they would not gain by it."""
    joined = join(nests, machine_of(isa, caches))
    return None if joined is None else LoweredJoin(joined, isa)
