"""Engines, streams and memories of SYCL objects, and back (`dnnl::sycl_interop`; P07 to P09).

SYCL's objects are those of dpctl: `SyclDevice`, `SyclContext`, `SyclQueue`, `SyclEvent`, and USM memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .desc.memory_desc import MemoryDesc
from .errors import InvalidArguments
from .primitives.primitive import Primitive
from .runtime.alloc import extent
from .runtime.engine import Engine
from .runtime.memory import Memory
from .runtime.stream import Stream
from .runtime.sycl import USM_KINDS, SyclDevice, device_in, why_none
from .runtime.sycl_sdk import Sdk, find_sdk

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
    for a device that is not in the context (P08), or without dpctl.
    """
    sdk = _sdk("make_engine")
    _check_is("make_engine", "device", device, sdk.dpctl.SyclDevice)
    _check_is("make_engine", "context", context, sdk.dpctl.SyclContext)
    if device not in context.get_devices():
        raise InvalidArguments(
            "sycl_interop.make_engine: the device is not in the context",
            code="RS-P08",
            where=f"device {device.name}",
            why=f"the context holds {[held.name for held in context.get_devices()]} (P08)",
            hint="pass dpctl.SyclContext(device)",
        )
    return Engine.of_device(device_in(sdk, device, context))


def get_device(engine: Engine) -> Any:
    """The `dpctl.SyclDevice` of an engine. Raises InvalidArguments for an engine of the host."""
    return _device("get_device", engine).device


def get_context(engine: Engine) -> Any:
    """The `dpctl.SyclContext` of an engine. Raises InvalidArguments for an engine of the host."""
    return _device("get_context", engine).context


def make_stream(engine: Engine, queue: Any) -> Stream:
    """The stream of a `dpctl.SyclQueue`; in-order or out-of-order as the queue is (P08).

    Raises InvalidArguments for a queue whose device or context is not the engine's.
    """
    device = _device("make_stream", engine)
    _check_is("make_stream", "queue", queue, device.sdk.dpctl.SyclQueue)
    same = (queue.sycl_device == device.device, queue.sycl_context == device.context)
    if all(same):
        return Stream.of_queue(engine, queue)
    raise InvalidArguments(
        "sycl_interop.make_stream: the queue is not the engine's",
        code="RS-P08",
        where=f"engine {engine}",
        why=f"its {'context' if same[0] else 'device'} is another (P08)",
        hint="pass a queue of get_context(engine) and get_device(engine), or make the engine of the queue's",
    )


def get_queue(stream: Stream) -> Any:
    """The `dpctl.SyclQueue` of a stream. Raises InvalidArguments for a stream of the host."""
    if isinstance(stream, Stream):
        _device("get_queue", stream.engine)
        return stream._queue
    raise _wrong("get_queue", f"{type(stream).__name__} is no rs.Stream")


def make_memory(md: MemoryDesc, engine: Engine, usm: Any = "device") -> Memory:
    """A memory on a SYCL engine. `usm`: USM of dpctl, wrapped without a copy; or a kind to allocate.

    Kinds are "device", "shared" and "host". Wrapped is what dpctl knows as USM: its memory objects, and
    arrays that export `__sycl_usm_array_interface__`; `rs.NO_DATA` leaves it to `set_data_handle`. Raises
    InvalidArguments for memory of the host or of another context, and for USM that is too short (P08).
    """
    device = _device("make_memory", engine)
    if not isinstance(usm, str):
        return Memory(md, engine, usm)
    if usm not in USM_KINDS:
        raise _wrong("make_memory", f"{usm[:40]!r} is no kind of USM: device, shared or host")
    made = device.allocate(extent(md).needed, zero_last=md.data_type.bits < 8, kind=usm)
    return Memory(md, engine, made)


def get_memory_kind(memory: Memory) -> str:
    """ "usm", the one kind of memory that there is. Raises InvalidArguments for a memory of the host."""
    if not isinstance(memory, Memory):
        raise _wrong("get_memory_kind", f"{type(memory).__name__} is no rs.Memory")
    _device("get_memory_kind", memory.engine)
    return "usm"


def execute(prim: Any, stream: Stream, args: Mapping[int, Memory], deps: Iterable[Any] = ()) -> Any:
    """Execute a primitive with arguments by number, after the events `deps`; its `dpctl.SyclEvent` (P09).

    Raises InvalidArguments as `execute_sycl` of the primitive does.
    """
    if isinstance(prim, Primitive):
        return prim.execute_sycl(stream, args, deps=deps)
    raise _wrong("execute", f"{type(prim).__name__} is no primitive")


def _sdk(what: str) -> Sdk:
    sdk = find_sdk()
    if sdk is not None:
        return sdk
    why, hint = why_none()
    raise InvalidArguments(f"sycl_interop.{what}: there is no SYCL", code="RS-P08", why=why, hint=hint)


def _device(what: str, engine: object) -> SyclDevice:
    if isinstance(engine, Engine) and isinstance(engine.device, SyclDevice):
        return engine.device
    why = f"{engine} runs on the host" if isinstance(engine, Engine) else f"{type(engine).__name__} is none"
    hint = 'use rs.Engine("gpu"), rs.Engine("sycl") or make_engine(device, context)'
    raise InvalidArguments(
        f"sycl_interop.{what}: the engine is no SYCL device", code="RS-P08", why=f"{why} (P08)", hint=hint
    )


def _check_is(what: str, name: str, given: object, kind: type) -> None:
    if not isinstance(given, kind):
        raise _wrong(what, f"{name} is {type(given).__name__}, no dpctl.{kind.__name__}")


def _wrong(what: str, why: str) -> InvalidArguments:
    hint = "see the table of SYCL objects in docs/sycl.md"
    return InvalidArguments(f"sycl_interop.{what}: wrong argument", code="RS-P08", why=why, hint=hint)
