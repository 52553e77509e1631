"""Contractions for the CPU target: a loop tree that sums products becomes tiles of registers."""

from __future__ import annotations

from dataclasses import dataclass

from ..emit.contraction import emit_contraction
from ..plan.contraction import find_contraction
from ..plan.contraction_schedule import ContractionPlan, schedule_contraction
from ..plan.nest import LoopNest
from ..plan.tree import LoopTree
from .cpu import machine_of
from .cpu_ir import style_of
from .isa import CacheSizes, Isa


@dataclass(frozen=True, slots=True)
class LoweredContraction:
    """A scheduled contraction for one instruction set."""

    plan: ContractionPlan
    isa: Isa

    kind = "contraction"
    is_swept = False

    @property
    def why(self) -> str:
        """What is held in registers."""
        return str(self.plan)

    @property
    def steps(self) -> int:
        """Tiles that threads can share."""
        return self.plan.steps

    @property
    def nests(self) -> tuple[LoopNest, ...]:
        """None: the destination is written tile by tile."""
        return ()

    @property
    def key(self) -> tuple[object, ...]:
        """What the code depends on besides the compiler."""
        return (self.plan, self.isa)

    def ir(self) -> str:
        """The kernel as LLVM IR text."""
        is_fused = self.isa.name in ("avx512", "avx2", "neon")
        return emit_contraction(self.plan, style_of(self.isa), fused=is_fused)


def lower_contraction(tree: LoopTree, isa: Isa, caches: CacheSizes) -> LoweredContraction | None:
    """Schedule a tree as a contraction; None where it is none, or its layouts have no vectors."""
    found = find_contraction(tree)
    plan = None if found is None else schedule_contraction(found, machine_of(isa, caches))
    return None if plan is None else LoweredContraction(plan, isa)
