"""Problems with other schedules than the model's: passed by the user, or the fastest found by measuring."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..desc.arguments import short_name
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int, parse_word, short_repr
from ..errors import refuse
from ..runtime.arguments import Executable
from ..runtime.cpu.executable import CpuExecutable
from ..runtime.cpu.schedule_search import search_schedules
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.timing import Measured, available_memory, quartiles, time_call
from ..schedule.language import Schedule, parse_schedule
from ..targets.compile_pool import assembly
from ..watching import products_of
from .implementation import Implementation, forget

# Content of scratch memory: an ordinary number in every floating-point type, and not a page of zeros shared
# by all addresses. Integers may be indices: 0 is always valid.
_FILLED = 0x3F
_MOST_ROUNDS = 1_000_000


def parse_wanted(what: str, schedule: object, effort: object) -> tuple[Schedule | None, bool]:
    """Return the transforms passed by the user, if any, and whether to search for the fastest.

    Raises InvalidArguments for an invalid schedule or effort, or if both are passed.
    """
    is_searched = parse_word(f"{what}: effort", effort, ("model", "measure")) == "measure"
    if schedule is None:
        return None, is_searched
    if not isinstance(schedule, str):
        raise refuse("RS-V09:no-schedule-text", what=what, type=type(schedule).__name__)
    if is_searched:
        raise refuse("RS-V09:no-text", what=what, why='effort="measure" searches for one')
    return parse_schedule(schedule), False


def why_fixed(executable: Executable, engine: Engine) -> str:
    """Return why no schedule text describes how an executable runs; empty if one does."""
    if isinstance(executable, CpuExecutable):
        return executable.why_fixed
    return executable.why if engine.kind == "cpu" else f"{engine} creates its own"


def by_schedule(what: str, impl: Implementation, transforms: Schedule) -> Implementation:
    """Return the same problem with the user's transforms. Raises InvalidArguments."""
    executable = impl.executable
    if why := why_fixed(executable, impl.engine):
        raise refuse("RS-V09:no-text", what=what, why=why)
    assert isinstance(executable, CpuExecutable)
    return Implementation(impl.problem, impl.engine, executable.scheduled_by(transforms))


def kernel_text(impl: Implementation, *, is_assembly: bool) -> str:
    """Return the LLVM IR or the assembly of a problem's kernels; if there are several, each with its name."""
    kernels, mark = impl.executable.kernels, "#" if is_assembly else ";"
    if is_assembly and not impl.engine.device.is_host:
        return ""
    texts = [assembly(each.ir(), each.isa) if is_assembly else each.ir() for each in kernels.values()]
    if len(texts) == 1:
        return texts[0]
    return "\n".join(f"{mark} {name}\n{text}" for name, text in zip(kernels, texts, strict=True))


def search_for(impl: Implementation, mds: Mapping[int, MemoryDesc]) -> None:
    """Search for the fastest schedules of a problem's kernels, unless done before, on temporary memory
    objects.

    Executables created from then on use them. `mds`: the descriptors of an execution, by argument. Raises
    OutOfMemory if the memory objects cannot be allocated.
    """
    executable = impl.executable
    if not isinstance(executable, CpuExecutable):
        return
    memories: dict[int, Memory] = {}

    def call_of(other: CpuExecutable) -> Callable[[], object]:
        if not memories:
            memories.update(made_memories(impl, mds))
        return launching(impl, other, memories)

    search_schedules(executable, call_of)
    forget(impl)


def measured(impl: Implementation, call: Callable[[], object], rounds: object) -> Measured:
    """Return how long `call`, an execution of a problem, takes. Raises InvalidArguments for other rounds."""
    count = parse_int(rounds, "measure: rounds")
    if not 1 <= count <= _MOST_ROUNDS:
        raise refuse("RS-V05:rounds", count=short_repr(count), most_rounds=_MOST_ROUNDS)
    low, median, high = quartiles(time_call(call, count))
    problem = impl.problem
    flops = 2 * products_of(problem)
    return Measured(median, low, high, count, impl.executable.threads, problem.moved_bytes, flops)


def launching(
    impl: Implementation, executable: Executable, memories: Mapping[int, Memory]
) -> Callable[[], object]:
    """Return a function that runs an executable of a problem once, whatever its primitives would run."""
    arguments = Implementation(impl.problem, impl.engine, executable).arguments(memories)
    return lambda: impl.engine.device.launch(executable, arguments, None).wait()


def made_memories(impl: Implementation, mds: Mapping[int, MemoryDesc]) -> dict[int, Memory]:
    """Return new memory objects for an execution.

    Raises OutOfMemory if they cannot be allocated, Unimplemented for dims known only at execution.
    """
    for arg, md in mds.items():
        if md.layout.has_runtime:
            raise refuse("RS-S17:dims-known-only", what="measure", name=short_name(arg), md=md)
    needed, available = sum(md.size for md in mds.values()), available_memory()
    if available is not None and needed > available:
        where = "; ".join(map(str, mds.values()))
        raise refuse("RS-D01:memories-take-bytes", needed=needed, where=where, available=available)
    return {arg: _filled(Memory(md, impl.engine)) for arg, md in mds.items()}


def _filled(memory: Memory) -> Memory:
    mapped = memory.map_data()
    if mapped is not None:
        mapped.view(np.uint8)[...] = 0 if memory.desc.data_type.is_integral else _FILLED
    memory.unmap_data(mapped)
    return memory
