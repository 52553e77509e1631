"""The SPIR-V target: a nest in, SPIR-V for any SYCL or OpenCL device out. Needs no device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..emit.builder import Builder, Value
from ..emit.work_items import ENTRY, Dialect, emit_items
from ..errors import RuntimeFailure
from ..plan.nest import LoopNest
from ..plan.work_items import Device, ItemPlan, plan_items
from .llvm import LLVM_LOCK, initialised

__all__ = ["ENTRY", "Spirv", "lower", "spirv_code"]

_TRIPLE = "spirv64-unknown-unknown"


def _id(name: str) -> Any:
    def write(b: Builder) -> Value:
        b.declared[name] = f"declare spir_func i64 @{name}(i32)"
        return b.value("i64", f"call spir_func i64 @{name}(i32 0)")

    return write


def _barrier(b: Builder) -> None:
    # 1 is the fence of local memory.
    b.declared["_Z7barrierj"] = "declare spir_func void @_Z7barrierj(i32) convergent"
    b.line("call spir_func void @_Z7barrierj(i32 1) convergent")


_DIALECT = Dialect(
    kernel="spir_kernel",
    pointer="ptr addrspace(1)",
    table_pointer="ptr addrspace(2)",
    group_id=_id("_Z12get_group_idj"),
    local_id=_id("_Z12get_local_idj"),
    barrier=_barrier,
)


@dataclass(frozen=True, slots=True)
class Spirv:
    """A nest planned for a SYCL device: what would be compiled, and why it looks as it does."""

    plan: ItemPlan

    def ir(self) -> str:
        """The kernel as LLVM IR text."""
        return f'target triple = "{_TRIPLE}"\n' + emit_items(self.plan, _DIALECT)


def lower(nest: LoopNest, device: Device) -> Spirv:
    """Plan a nest that is not empty for a device with these facts."""
    return Spirv(plan_items(nest, device))


def spirv_code(lowered: Spirv) -> bytes:
    """SPIR-V of what was lowered. Raises RuntimeFailure where LLVM does not accept the text."""
    with LLVM_LOCK:
        binding = initialised()
        try:
            module = binding.parse_assembly(lowered.ir(), binding.create_context())
            module.verify()
            # LLVM's back end for SPIR-V remembers types of the last module: each gets a machine of its own.
            machine = binding.Target.from_triple(_TRIPLE).create_target_machine(opt=1)
            return bytes(machine.emit_object(module))
        except RuntimeError as error:
            raise RuntimeFailure("LLVM failed to make SPIR-V", why=str(error)) from error
