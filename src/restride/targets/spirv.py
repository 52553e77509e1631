"""The SPIR-V target: a nest in, SPIR-V for any SYCL or OpenCL device out. Needs no device."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from ..emit.builder import Builder, Value
from ..emit.work_items import ENTRY, Dialect, emit_items
from ..errors import RuntimeFailure
from ..plan.nest import LoopNest
from ..plan.work_items import Device, ItemPlan, plan_items
from .llvm import LLVM_LOCK, initialised, inlined_module

__all__ = ["ENTRY", "Spirv", "lower", "spirv_code"]

_TRIPLE = "spirv64-unknown-unknown"
_TRIES = 64
# Of the SPIR-V format: words before the first instruction; instructions by their numbers.
_HEADER_WORDS, _LABEL = 5, 248
_TYPES = range(19, 40)
# Constants, functions, parameters, variables: the result's number stands behind that of its type.
_VALUES = frozenset((41, 42, 43, 44, 46, 54, 55, 59))


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
    """SPIR-V of what was lowered. Raises RuntimeFailure where LLVM does not accept the text.

    Now and then LLVM 22 gives a type and a block one number, by the addresses of its own objects. Drivers
    crash on such code: it is recognised here, and made again.
    """
    text = lowered.ir()
    with LLVM_LOCK:
        for _ in range(_TRIES):
            code = _compiled(text)
            if has_unique_numbers(code):
                return code
    raise RuntimeFailure(
        "LLVM failed to make SPIR-V",
        why="its numbers clash",
        hint="use another version of llvmlite, or rs.Engine('cpu')",
    )


def _compiled(text: str) -> bytes:
    binding = initialised()
    try:
        # LLVM's back end for SPIR-V remembers types of the last module: each gets a machine of its own.
        machine = binding.Target.from_triple(_TRIPLE).create_target_machine(opt=1)
        return bytes(machine.emit_object(inlined_module(text, machine)))
    except RuntimeError as error:
        raise RuntimeFailure("LLVM failed to make SPIR-V", why=str(error)) from error


def has_unique_numbers(code: bytes) -> bool:
    """True where no block of a SPIR-V module has the number of a type, constant, variable or function."""
    words = struct.unpack(f"<{len(code) // 4}I", code)
    seen: set[int] = set()
    labels: list[int] = []
    at = _HEADER_WORDS
    while at < len(words):
        op, size = words[at] & 0xFFFF, words[at] >> 16
        if op == _LABEL:
            labels.append(words[at + 1])
        elif op in _TYPES:
            seen.add(words[at + 1])
        elif op in _VALUES:
            seen.add(words[at + 2])
        at += max(size, 1)
    return len(set(labels)) == len(labels) and seen.isdisjoint(labels)
