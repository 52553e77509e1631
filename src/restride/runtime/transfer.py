"""Transfers of memories between the host and devices: in place if bytes can be reached, else by copying."""

from __future__ import annotations

from ..desc.memory_desc import MemoryDesc
from ..errors import refuse
from .alloc import extent
from .engine import Engine
from .memory import Memory

_CPU = Engine("cpu")


def from_host(md: MemoryDesc, engine: Engine, data: object) -> Memory:
    """Return a memory of an engine with the bytes of `data` on the host: over them, or over a copy."""
    if engine.device.is_host:
        return Memory(md, engine, data)
    return to_engine(Memory(md, _CPU, data), engine)


def to_host(memory: Memory) -> Memory:
    """Return the memory itself if on the host; for a device, a copy there, once no work uses it."""
    device = memory.engine.device
    if device.is_host or memory._buffer is None:
        return memory
    return Memory(memory.desc, _CPU, device.download(memory._buffer))


def to_engine(memory: Memory, engine: Engine) -> Memory:
    """Return the memory itself if the engine's device reaches it; else a copy there, once no work uses it."""
    device = engine.device
    if memory.engine.device is device or (device.is_host and memory.engine.device.is_host):
        return memory
    read, copy = to_host(memory), Memory(memory.desc, engine)
    if read._buffer is not None and copy._buffer is not None:
        device.upload(read._buffer, copy._buffer, extent(memory.desc).high)
    return copy


def share_with(memory: Memory, engine: Engine) -> Memory:
    """Return the same bytes as a memory of another host engine; memories involving a device unchanged."""
    is_same = memory.engine is engine or memory._mapped
    if is_same or not (engine.device.is_host and memory.engine.device.is_host):
        return memory
    return Memory(memory.desc, engine, memory)


def synchronize(*memories: Memory) -> None:
    """Block until no submitted work uses these memories."""
    for memory in memories:
        if memory._buffer is not None:
            memory.engine.device.synchronize(memory._buffer)


def refuse_host_out(what: str, out: object, engine: Engine) -> None:
    """Raise InvalidArguments for an `out` of the host in a call that a device runs."""
    if isinstance(out, Memory) or engine.device.is_host:
        return
    raise refuse("RS-P08:memory-host-runs", what=what, type=type(out).__name__, engine=engine)
