"""Reductions for the CPU target: a reduction in, object code out, for any instruction set on any machine."""

from __future__ import annotations

from dataclasses import dataclass

from ..emit.reduction import emit_reduction
from ..plan.reduction import Reduction
from ..plan.reduction_schedule import ReductionPlan, schedule_reduction
from .cpu import machine_of
from .cpu_ir import style_of
from .isa import CacheSizes, Isa


@dataclass(frozen=True, slots=True)
class LoweredReduction:
    """A scheduled reduction for one instruction set."""

    reduction: Reduction
    isa: Isa
    plans: tuple[ReductionPlan, ...]

    @property
    def planes(self) -> int:
        """How many planes of outputs the kernel folds into."""
        return sum(plan.planes for plan in self.plans)

    @property
    def steps(self) -> int:
        """The most steps that threads can share."""
        return max((plan.steps for plan in self.plans), default=1)

    @property
    def key(self) -> tuple[object, ...]:
        """What the code depends on besides the compiler."""
        return (self.reduction.data_type, self.reduction.op, self.reduction.outputs, self.plans, self.isa)

    @property
    def is_swept(self) -> bool:
        """False: no test sweeps them."""
        return False

    def ir(self) -> str:
        """The kernel as LLVM IR text."""
        return emit_reduction(self.reduction, self.plans, masks=style_of(self.isa).can.masks)

    def __str__(self) -> str:
        return "\n".join(map(str, self.plans))


def lower_reduction(reduction: Reduction, isa: Isa, caches: CacheSizes) -> LoweredReduction:
    """Schedule a reduction of at least one element."""
    return LoweredReduction(reduction, isa, schedule_reduction(reduction, machine_of(isa, caches)))
