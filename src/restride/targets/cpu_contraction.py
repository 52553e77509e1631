"""Contractions for the CPU target: a loop tree that sums products becomes tiles of registers."""

from __future__ import annotations

from dataclasses import dataclass

from ..emit.contraction import emit_contraction
from ..ir.tree import LoopTree
from ..schedule.contraction.kernel import ContractionKernel
from ..schedule.contraction.numbers import kernel_of_plan
from ..schedule.contraction.schedule import ContractionPlan, schedule_contraction
from ..schedule.contraction.strides import find_contraction
from .compilable import WrittenInOrder
from .cpu import machine_of
from .cpu_ir import style_of
from .isa import CacheSizes, Isa


@dataclass(frozen=True, slots=True)
class LoweredContraction(WrittenInOrder):
    """A scheduled contraction for one instruction set; `numbers` are what a launch brings."""

    plan: ContractionPlan
    kernel: ContractionKernel
    numbers: tuple[int, ...]
    isa: Isa

    kind = "contraction"

    @property
    def why(self) -> str:
        """The values that are held in registers."""
        return str(self.plan)

    @property
    def steps(self) -> int:
        """Tiles that threads can share."""
        return self.plan.steps

    @property
    def key(self) -> tuple[object, ...]:
        """The values that the code depends on besides the compiler."""
        return (self.kernel, self.isa)

    def ir(self) -> str:
        """The kernel as LLVM IR text."""
        is_fused = self.isa.name in ("avx512", "avx2", "neon")
        return emit_contraction(self.kernel, style_of(self.isa), fused=is_fused)


def lower_contraction(tree: LoopTree, isa: Isa, caches: CacheSizes) -> LoweredContraction | None:
    """Schedule a tree as a contraction; None where it is none, or its layouts have no vectors."""
    contraction = find_contraction(tree)
    plan = None if contraction is None else schedule_contraction(contraction, machine_of(isa, caches))
    return None if plan is None else lower_plan(plan, isa)


def lower_plan(plan: ContractionPlan, isa: Isa) -> LoweredContraction:
    """A contraction as it is scheduled."""
    return LoweredContraction(plan, *kernel_of_plan(plan), isa)
