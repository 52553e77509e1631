"""The SPIR-V target: compiles a plan to SPIR-V for any SYCL or OpenCL device. Needs no device."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

from ..emit.builder import Builder, Value
from ..emit.work_items import Dialect
from ..emit.work_trees import emit_plan
from ..errors import refuse
from ..schedule.work_trees import DevicePlan
from .isa import Isa
from .llvm import LLVM_LOCK, binding_with_targets, inline_module
from .lowered import Lowered

__all__ = ["SPIRV", "lower_plan", "spirv_code"]

SPIRV = Isa("spirv", 0, "spirv64-unknown-unknown", "", "")
"""Any device: its driver compiles for what it has."""

_TRIES = 64
# The SPIR-V format: words before the first instruction; instructions by number.
_HEADER_WORDS, _BOUND = 5, 3
_NAME, _PHI, _LABEL = 5, 245, 248
# Blocks, branches and switches: which of their words refer to blocks.
_LABEL_PLACES = {_LABEL: (1,), 249: (1,), 250: (2, 3)}
_TYPES = range(19, 40)
# Constants, functions, parameters, variables: the result's number follows that of its type.
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


def lower_plan(plan: DevicePlan) -> Lowered:
    """Return a nest or loop tree, planned for a device, as work to compile."""
    return Lowered(plan, _write, SPIRV, plan.kind, plan.why, plan.groups * plan.device.group)


def _write(plan: DevicePlan, isa: Isa) -> str:
    return f'target triple = "{isa.triple}"\n' + emit_plan(plan, _DIALECT)


def spirv_code(lowered: Lowered) -> bytes:
    """Return the SPIR-V of lowered work. Raises RuntimeFailure if LLVM rejects the text.

    LLVM 22 can give two blocks one number, depending on the addresses of its objects; then it runs again,
    with the earlier objects kept alive, so that the new ones are elsewhere.
    """
    text, keep_alive = lowered.ir(), list[object]()
    with LLVM_LOCK:
        for _ in range(_TRIES):
            code = renumber(_compile(text, keep_alive))
            if has_unique_numbers(code):
                return code
    raise refuse("RS-D03:numbers-clash")


def renumber(code: bytes) -> bytes:
    """Return a module whose blocks have unique numbers, without debug names.

    LLVM 22 can give a block the number of a type, depending on the addresses of its objects, and drivers
    crash on such code. References to blocks are recognized by their place in an instruction.
    """
    words = list(struct.unpack(f"<{len(code) // 4}I", code))
    fresh: dict[int, int] = {}
    result = words[:_HEADER_WORDS]
    for instruction in _instructions(words):
        op = instruction[0] & 0xFFFF
        for place in _label_places(op, len(instruction)):
            number = instruction[place]
            instruction[place] = fresh.setdefault(number, words[_BOUND] + len(fresh))
        if op != _NAME:
            result += instruction
    result[_BOUND] += len(fresh)
    return struct.pack(f"<{len(result)}I", *result)


def _instructions(words: list[int]) -> Iterator[list[int]]:
    at = _HEADER_WORDS
    while at < len(words):
        size = max(words[at] >> 16, 1)
        yield words[at : at + size]
        at += size


def _label_places(op: int, size: int) -> Sequence[int]:
    """Return the words of an instruction that refer to blocks."""
    if op == _PHI:
        return range(4, size, 2)
    return _LABEL_PLACES.get(op, ())


def _compile(text: str, keep_alive: list[object]) -> bytes:
    """Return SPIR-V from LLVM; the objects it was made from go to `keep_alive`."""
    binding = binding_with_targets()
    try:
        # LLVM's back end for SPIR-V remembers types of the last module: each gets its own machine. It does
        # not optimize: LLVM 22 turns 4 * x into 4 * (x / 8 * 8 + x % 8) plus 32 * (x / 8), and a device's
        # compiler optimizes anyway.
        machine = binding.Target.from_triple(SPIRV.triple).create_target_machine(opt=0)
        module = inline_module(text, machine)
        keep_alive += [module, machine]
        return bytes(machine.emit_object(module))
    except RuntimeError as error:
        raise refuse("RS-D03:llvm-failed-make", reason=error) from error


def has_unique_numbers(code: bytes) -> bool:
    """Return whether no block of a SPIR-V module has the number of a type, constant, variable or function."""
    words = list(struct.unpack(f"<{len(code) // 4}I", code))
    numbers: set[int] = set()
    labels: list[int] = []
    for instruction in _instructions(words):
        op = instruction[0] & 0xFFFF
        if op == _LABEL:
            labels.append(instruction[1])
        elif op in _TYPES:
            numbers.add(instruction[1])
        elif op in _VALUES:
            numbers.add(instruction[2])
    return len(set(labels)) == len(labels) and numbers.isdisjoint(labels)
