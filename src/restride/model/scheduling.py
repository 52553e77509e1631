"""Problems by other schedules than the chosen ones: what a person passes, or the fastest that are found."""

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

# What scratch memories hold: an ordinary number in every type of floats, and no page of zeros that all
# addresses share. Integers may be indices: 0 is one everywhere.
_FILLED = 0x3F


def parse_wanted(what: str, schedule: object, effort: object) -> tuple[Schedule | None, bool]:
    """The transforms that a person passes, if any, and whether the fastest are to be looked for.

    Raises InvalidArguments for what is no schedule, no effort, or both.
    """
    is_searched = parse_word(f"{what}: effort", effort, ("model", "measure")) == "measure"
    if schedule is None:
        return None, is_searched
    if not isinstance(schedule, str):
        raise refuse("RS-V09:no-schedule-text", what=what, type=type(schedule).__name__)
    if is_searched:
        raise refuse("RS-V09:no-text", what=what, why='effort="measure" looks for one')
    return parse_schedule(schedule), False


def why_fixed(executable: Executable, engine: Engine) -> str:
    """Why no text says how an executable runs; empty where one does."""
    if isinstance(executable, CpuExecutable):
        return executable.why_fixed
    return executable.why if engine.kind == "cpu" else f"{engine} makes its own"


def by_schedule(what: str, impl: Implementation, transforms: Schedule) -> Implementation:
    """The same problem by the transforms that a person passes. Raises InvalidArguments."""
    executable = impl.executable
    if why := why_fixed(executable, impl.engine):
        raise refuse("RS-V09:no-text", what=what, why=why)
    assert isinstance(executable, CpuExecutable)
    return Implementation(impl.problem, impl.engine, executable.scheduled_by(transforms))


def search_for(impl: Implementation, mds: Mapping[int, MemoryDesc]) -> None:
    """Look for the fastest schedules of a problem's kernels, unless that was done, on memories made for it.

    What is made of the problem from then on runs by them. `mds`: those of an execution, by argument. Raises
    OutOfMemory where there is no room for the memories.
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
    """What runs an executable of a problem once, whatever its primitives would run."""
    arguments = Implementation(impl.problem, impl.engine, executable).arguments(memories)
    return partial(impl.engine.device.launch, executable, arguments, None)


def made_memories(impl: Implementation, mds: Mapping[int, MemoryDesc]) -> dict[int, Memory]:
    """Memories made for an execution. Raises OutOfMemory where there is no room for them."""
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
