"""Engines, streams and memories of SYCL objects, and back (`dnnl::sycl_interop`).

SYCL's objects are those of dpctl: `SyclDevice`, `SyclContext`, `SyclQueue`, `SyclEvent`, and USM memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .desc.memory_desc import MemoryDesc
from .errors import Error, refuse
from .model.primitive import Primitive
from .runtime.alloc import extent
from .runtime.engine import Engine
from .runtime.memory import Memory
from .runtime.stream import Stream
from .runtime.sycl.device import (
    USM_KINDS,
    SyclDevice,
    checked_device,
    checked_queue,
    no_sycl_device,
    sycl_device,
)

__all__ = [
    "execute",
    "get_context",
    "get_device",
    "get_memory_kind",
    "get_queue",
    "make_engine",
    "make_memory",
    "make_stream",
]


def make_engine(device: Any, context: Any) -> Engine:
    """The engine of a SYCL device in a context; one object for each pair.

    `device`: a `dpctl.SyclDevice`; `context`: a `dpctl.SyclContext` that holds it. Raises InvalidArguments
    for a device that is not in the context, or without dpctl.
    """
    return Engine.of_device(checked_device("sycl_interop.make_engine", device, context))


def get_device(engine: Engine) -> Any:
    """The `dpctl.SyclDevice` of an engine. Raises InvalidArguments for an engine of the host."""
    return _device("get_device", engine).device


def get_context(engine: Engine) -> Any:
    """The `dpctl.SyclContext` of an engine. Raises InvalidArguments for an engine of the host."""
    return _device("get_context", engine).context


def make_stream(engine: Engine, queue: Any) -> Stream:
    """The stream of a `dpctl.SyclQueue`; in-order or out-of-order as the queue is.

    Raises InvalidArguments for a queue whose device or context is not the engine's.
    """
    device = _device("make_stream", engine)
    return Stream.of_queue(engine, checked_queue("sycl_interop.make_stream", device, queue))


def get_queue(stream: Stream) -> Any:
    """The `dpctl.SyclQueue` of a stream. Raises InvalidArguments for a stream of the host."""
    if isinstance(stream, Stream):
        _device("get_queue", stream.engine)
        return stream._queue
    raise _wrong("get_queue", f"{type(stream).__name__} is no rs.onednn.Stream")


def make_memory(md: MemoryDesc, engine: Engine, usm: Any = "device") -> Memory:
    """A memory on a SYCL engine. `usm`: USM of dpctl, wrapped without a copy; or a kind to allocate.

    Kinds are "device", "shared" and "host". Wrapped is what dpctl knows as USM: its memory objects, and
    arrays that export `__sycl_usm_array_interface__`; `NO_DATA` leaves it to `set_data_handle`. Raises
    InvalidArguments for memory of the host or of another context, and for USM that is too short.
    """
    device = _device("make_memory", engine)
    if not isinstance(usm, str):
        return Memory(md, engine, usm)
    if usm not in USM_KINDS:
        raise _wrong("make_memory", f"{usm[:40]!r} is no kind of USM: device, shared or host")
    buffer = device.allocate(extent(md).needed, zero_last=md.data_type.bits < 8, kind=usm)
    return Memory(md, engine, buffer)


def get_memory_kind(memory: Memory) -> str:
    """ "usm", the one kind of memory that there is. Raises InvalidArguments for a memory of the host."""
    if not isinstance(memory, Memory):
        raise _wrong("get_memory_kind", f"{type(memory).__name__} is no rs.Memory")
    _device("get_memory_kind", memory.engine)
    return "usm"


def execute(prim: Any, stream: Stream, args: Mapping[int, Memory], deps: Iterable[Any] = ()) -> Any:
    """Execute a primitive with arguments by number, after the events `deps`; its `dpctl.SyclEvent`.

    Raises InvalidArguments as `execute_sycl` of the primitive does.
    """
    if isinstance(prim, Primitive):
        return prim.execute_sycl(stream, args, deps=deps)
    raise _wrong("execute", f"{type(prim).__name__} is no primitive")


def _device(what: str, engine: object) -> SyclDevice:
    if isinstance(engine, Engine):
        return sycl_device(f"sycl_interop.{what}", engine.device)
    raise no_sycl_device(f"sycl_interop.{what}", f"{type(engine).__name__} is none")


def _wrong(what: str, why: str) -> Error:
    return refuse("RS-P08:wrong-argument-see", what=what, why=why)
