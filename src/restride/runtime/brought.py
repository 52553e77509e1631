"""Bytes of the host as memories of any engine: in place on the host, copied to a device."""

from __future__ import annotations

from typing import Any

from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments
from .alloc import extent
from .device_memory import device_of, host_copy, settle
from .engine import Engine
from .memory import Memory

_CPU = Engine("cpu")


def brought(md: MemoryDesc, engine: Engine, data: Any) -> Memory:
    """A memory of an engine with the bytes of `data`, which is lent by the host: over them, or in a copy."""
    if not engine.is_sycl:
        return Memory(md, engine, data)
    held, made = Memory(md, _CPU, data), Memory(md, engine)
    if held._buffer is not None and made._buffer is not None:
        device_of(engine).upload(held._buffer, made._buffer, extent(md).high)
    return made


def near(memory: Memory) -> Memory:
    """The memory itself on the host; of a device a copy there, once nothing works on it."""
    if not memory.engine.is_sycl or memory._buffer is None:
        return memory
    return Memory(memory.desc, _CPU, host_copy(memory._buffer, memory.engine))


def reached(memory: Memory, engine: Engine) -> Memory:
    """The same elements on an engine that runs a call: as they are where one of the two is a device."""
    if memory.engine is engine or memory._mapped or engine.is_sycl or memory.engine.is_sycl:
        return memory
    return Memory(memory.desc, engine, memory)


def settled(*memories: Memory) -> None:
    """Block until nothing submitted works on these memories."""
    for memory in memories:
        settle(memory._buffer, memory.engine)


def refuse_host_out(what: str, out: object, engine: Engine) -> None:
    """Raise InvalidArguments for an `out` of the host in a call that a device runs."""
    if engine.is_sycl and not isinstance(out, Memory):
        raise InvalidArguments(
            what,
            code="RS-P08",
            where=f"out {type(out).__name__}",
            why=f"it is memory of the host, and {engine} runs the call",
            hint="leave out out, and take result.to_numpy(); or pass a rs.Memory of that engine",
        )
