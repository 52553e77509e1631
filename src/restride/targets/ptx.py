"""The PTX target: the plan of a SYCL device, emitted for NVIDIA's GPUs. There is no runtime for it yet."""

from __future__ import annotations

from dataclasses import dataclass

from ..emit.builder import Builder, Value
from ..emit.work_items import Dialect
from ..emit.work_trees import emit_plan
from ..errors import RuntimeFailure
from ..plan.machine import DeviceFacts
from ..plan.nest import LoopNest
from ..plan.reduction import ReductionNest
from ..plan.work_items import plan_items, plan_sums
from ..plan.work_trees import DevicePlan
from .llvm import LLVM_LOCK, binding_with_targets, inline_module

__all__ = ["LoweredPtx", "lower", "ptx_text"]

_TRIPLE = "nvptx64-nvidia-cuda"
_REGISTER = "llvm.nvvm.read.ptx.sreg"
_BARRIER = "llvm.nvvm.barrier.cta.sync.aligned.all"


def _register(b: Builder, name: str) -> Value:
    narrow = b.call("i32", f"{_REGISTER}.{name}.x", "", "")
    return b.value("i64", f"zext {narrow} to i64")


def _barrier(b: Builder) -> None:
    b.call_void(_BARRIER, "i32 0", "i32")


# Constant arrays lie in global memory: items of a warp look at different places of a table.
_DIALECT = Dialect(
    kernel="ptx_kernel",
    pointer="ptr addrspace(1)",
    table_pointer="ptr addrspace(1)",
    group_id=lambda b: _register(b, "ctaid"),
    local_id=lambda b: _register(b, "tid"),
    barrier=_barrier,
    group_size="",
)


@dataclass(frozen=True, slots=True)
class LoweredPtx:
    """A nest, sums or a loop tree, planned for a GPU: what would be compiled, and why it looks as it does."""

    plan: DevicePlan

    def ir(self) -> str:
        """The kernel as LLVM IR text."""
        return f'target triple = "{_TRIPLE}"\n' + emit_plan(self.plan, _DIALECT)


def lower(work: LoopNest | ReductionNest, device: DeviceFacts) -> LoweredPtx:
    """Plan a nest, or sums, of at least one element for a device with these facts."""
    return LoweredPtx(
        plan_sums(work, device) if isinstance(work, ReductionNest) else plan_items(work, device)
    )


def ptx_text(lowered: LoweredPtx, processor: str = "sm_90") -> str:
    """PTX of what was lowered, for `ptxas`. Raises RuntimeFailure where LLVM does not accept the text."""
    with LLVM_LOCK:
        try:
            target = binding_with_targets().Target.from_triple(_TRIPLE)
            machine = target.create_target_machine(cpu=processor, opt=2)
            return str(machine.emit_assembly(inline_module(lowered.ir(), machine)))
        except RuntimeError as error:
            raise RuntimeFailure(
                "LLVM failed to make PTX",
                code="RS-D03",
                where=processor,
                why=str(error),
                hint="update llvmlite",
            ) from error
