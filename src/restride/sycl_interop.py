"""Conversion between SYCL objects and engines, streams and memory objects (`dnnl::sycl_interop`).

SYCL objects are those of dpctl: `SyclDevice`, `SyclContext`, `SyclQueue`, `SyclEvent`, and USM memory.
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
    """Return the engine of a SYCL device in a context; one object for each pair.

    `device`: a `dpctl.SyclDevice`; `context`: a `dpctl.SyclContext` that contains it. Raises InvalidArguments
    for a device that is not in the context, and if dpctl is not installed.
    """
    return Engine.of_device(checked_device("sycl_interop.make_engine", device, context))


def get_device(engine: Engine) -> Any:
    """Return the `dpctl.SyclDevice` of an engine. Raises InvalidArguments for a host engine."""
    return _device("get_device", engine).device


def get_context(engine: Engine) -> Any:
    """Return the `dpctl.SyclContext` of an engine. Raises InvalidArguments for a host engine."""
    return _device("get_context", engine).context


def make_stream(engine: Engine, queue: Any) -> Stream:
    """Return the stream of a `dpctl.SyclQueue`; in-order or out-of-order, as the queue is.

    Raises InvalidArguments for a queue whose device or context is not the engine's.
    """
    device = _device("make_stream", engine)
    return Stream.of_queue(engine, checked_queue("sycl_interop.make_stream", device, queue))


def get_queue(stream: Stream) -> Any:
    """Return the `dpctl.SyclQueue` of a stream. Raises InvalidArguments for a host stream."""
    if isinstance(stream, Stream):
        _device("get_queue", stream.engine)
        return stream._queue
    raise _wrong("get_queue", f"expected an rs.onednn.Stream, got {type(stream).__name__}")


def make_memory(md: MemoryDesc, engine: Engine, usm: Any = "device") -> Memory:
    """Create a memory object on a SYCL engine. `usm`: dpctl USM, wrapped without a copy, or a kind to
    allocate.

    Kinds are "device", "shared" and "host". Wrapped USM is a dpctl memory object or an array that exports
    `__sycl_usm_array_interface__`; `NO_DATA` leaves it to `set_data_handle`. Raises InvalidArguments for
    memory of the host or of another context, and for USM that is too short.
    """
    device = _device("make_memory", engine)
    if not isinstance(usm, str):
        return Memory(md, engine, usm)
    if usm not in USM_KINDS:
        raise _wrong("make_memory", f"{usm[:40]!r} is not a kind of USM: expected device, shared or host")
    buffer = device.allocate(extent(md).needed, zero_last=md.data_type.bits < 8, kind=usm)
    return Memory(md, engine, buffer)


def get_memory_kind(memory: Memory) -> str:
    """Return "usm", the only kind of memory. Raises InvalidArguments for a host memory object."""
    if not isinstance(memory, Memory):
        raise _wrong("get_memory_kind", f"expected an rs.Memory, got {type(memory).__name__}")
    _device("get_memory_kind", memory.engine)
    return "usm"


def execute(prim: Any, stream: Stream, args: Mapping[int, Memory], deps: Iterable[Any] = ()) -> Any:
    """Execute a primitive with arguments by number after the events `deps`; return its `dpctl.SyclEvent`.

    Raises InvalidArguments as the primitive's `execute_sycl` does.
    """
    if isinstance(prim, Primitive):
        return prim.execute_sycl(stream, args, deps=deps)
    raise _wrong("execute", f"expected a primitive, got {type(prim).__name__}")


def _device(what: str, engine: object) -> SyclDevice:
    if isinstance(engine, Engine):
        return sycl_device(f"sycl_interop.{what}", engine.device)
    raise no_sycl_device(f"sycl_interop.{what}", f"{type(engine).__name__} is none")


def _wrong(what: str, why: str) -> Error:
    return refuse("RS-P08:wrong-argument-see", what=what, why=why)
