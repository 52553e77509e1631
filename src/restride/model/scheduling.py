"""Problems with other schedules than the model's: passed by the user, or the fastest found by measuring."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_word
from ..errors import refuse
from ..runtime.arguments import Executable
from ..runtime.cpu.executable import CpuExecutable
from ..runtime.cpu.schedule_search import search_schedules
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.timing import available_memory
from ..schedule.language import Schedule, parse_schedule
from .implementation import Implementation, forget

# Content of scratch memory: an ordinary number in every floating-point type, and not a page of zeros shared
# by all addresses. Integers may be indices: 0 is always valid.
_FILLED = 0x3F


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


def launching(
    impl: Implementation, executable: Executable, memories: Mapping[int, Memory]
) -> Callable[[], object]:
    """Return a function that runs an executable of a problem once, whatever its primitives would run."""
    arguments = Implementation(impl.problem, impl.engine, executable).arguments(memories)
    return partial(impl.engine.device.launch, executable, arguments, None)


def made_memories(impl: Implementation, mds: Mapping[int, MemoryDesc]) -> dict[int, Memory]:
    """Return new memory objects for an execution. Raises OutOfMemory if they cannot be allocated."""
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
