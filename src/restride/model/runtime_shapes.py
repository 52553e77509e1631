"""Primitives with dims or strides known only at execution: one is created for each concrete shape (2.4)."""

from __future__ import annotations

from ..desc.arguments import ARG_DST, ARG_SRC
from ..desc.layout import RUNTIME_DIM, BlockedLayout
from ..desc.memory_desc import MemoryDesc
from ..errors import refuse
from ..ir.program import Program, Slot
from ..runtime.arguments import NO_KERNELS
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from .implementation import Problem


class DeferredExecutable:
    """Placeholder for a program until its shapes are known; executables for shapes are in the cache."""

    why = "some dims or strides are known only at execution"
    scratch_bytes, threads = 0, 1
    call = lowered = None
    kernels = NO_KERNELS
    schedule = "# chosen at execution"

    def __init__(self, name: str, program: Program) -> None:
        self.name, self.program = name, program

    def prepare(self) -> None:
        """Do nothing: nothing can be compiled yet."""


def deferred(problem: Problem, engine: Engine) -> DeferredExecutable:
    """Return the executable of a problem whose shapes are not known yet."""
    outputs = (Slot(arg, is_written=True) for arg in problem.outputs())
    slots = (Slot(ARG_SRC), Slot(ARG_DST, is_written=True), *problem.computation().slots(), *outputs)
    return deferred_to_slots(slots, engine)


def deferred_to_slots(slots: tuple[Slot, ...], engine: Engine) -> DeferredExecutable:
    """Do the same for a problem with these arguments."""
    name = "ref:any" if engine.kind == "reference" else "jit:at_execution"
    return DeferredExecutable(name, Program(slots, ()))


def check_fits(call: str, name: str, memory: Memory, pattern: MemoryDesc) -> None:
    """Raise InvalidArguments unless a memory's descriptor matches the known parts of the primitive's."""
    why = _difference(memory.desc, pattern)
    if why:
        raise refuse("RS-R07:other-layout", call=call, name=name, desc=memory.desc, pattern=pattern, why=why)


def _difference(md: MemoryDesc, pattern: MemoryDesc) -> str:
    if md.data_type is not pattern.data_type:
        return f"its elements are {md.data_type}, not {pattern.data_type}"
    if md.ndims != pattern.ndims or md.format_kind != "blocked" or md.layout.has_runtime:
        return "it must be concrete and of the same rank"
    ours, theirs = md.layout, pattern.layout
    if ours.inner != theirs.inner:
        return "its inner blocks differ"
    if theirs.offset0 not in (RUNTIME_DIM, ours.offset0):
        return f"its offset0 is {ours.offset0}, not {theirs.offset0}"
    return _first_difference(ours, theirs)


def _first_difference(ours: BlockedLayout, theirs: BlockedLayout) -> str:
    for d, (dim, other) in enumerate(zip(ours.dims, theirs.dims, strict=True)):
        if other not in (RUNTIME_DIM, dim):
            return f"dim {d} is {dim}, not {other}"
        if dim > 1 and theirs.strides[d] not in (RUNTIME_DIM, ours.strides[d]):
            return f"the stride of dim {d} is {ours.strides[d]}, not {theirs.strides[d]}"
    return ""
