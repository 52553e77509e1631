"""A nest and the sums of what it writes, for an instruction set: in blocks, and as IR."""

from __future__ import annotations

from dataclasses import dataclass

from ..emit.summed import emit_summed
from ..plan.nest import LoopNest
from ..plan.reduction import Reduction
from ..plan.summed import Summed, fuse_sums
from .cpu import machine_of
from .cpu_ir import style_of
from .isa import CacheSizes, Isa


@dataclass(frozen=True, slots=True)
class LoweredSums:
    """Blocks that are written and summed, for one instruction set: what would be compiled."""

    summed: Summed
    isa: Isa

    @property
    def kind(self) -> str:
        """The name of such kernels."""
        return "summed"

    @property
    def steps(self) -> int:
        """Blocks that threads can share."""
        return self.summed.blocks.count

    @property
    def key(self) -> tuple[object, ...]:
        """What the code depends on besides the compiler."""
        return (self.summed, self.isa)

    @property
    def is_swept(self) -> bool:
        """False: no test sweeps them."""
        return False

    def ir(self) -> str:
        """The kernel as LLVM IR text."""
        return emit_summed(self.summed, style_of(self.isa))


def lower_sums(nest: LoopNest, reduction: Reduction, isa: Isa, caches: CacheSizes) -> LoweredSums | None:
    """A nest and the sums of its destination in one pass; None where it does not fall into such blocks."""
    if nest.has_nibbles:
        return None
    summed = fuse_sums(nest, reduction, machine_of(isa, caches))
    return None if summed is None else LoweredSums(summed, isa)
