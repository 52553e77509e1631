"""The buffers of SYCL engines as memories use them: acquired, seen from Python, copied there and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments
from . import exports
from .alloc import NO_DATA, Buffer, acquire, extent
from .engine import Engine
from .pending import pending

if TYPE_CHECKING:
    from .sycl import SyclDevice


def device_of(engine: Engine | None) -> SyclDevice:
    """The device of a SYCL engine."""
    assert engine is not None
    assert engine._device is not None
    return engine._device


def acquire_on(engine: Engine, md: MemoryDesc, data: Any) -> Buffer | None:
    """The USM that `data` stands for: None allocates, `NO_DATA` is none, the rest is wrapped.

    Raises InvalidArguments for memory of the host or of another context, and where the USM is too short.
    """
    if data is NO_DATA:
        return None
    device = device_of(engine)
    if data is None:
        return _zero_half(device, md, device.allocate(extent(md).needed))
    if isinstance(data, Buffer):
        data = data.owner
    return acquire(md, device.wrap(data))


def allocate_on(engine: Engine, md: MemoryDesc, kind: str) -> Buffer:
    """USM of a kind, "device", "shared" or "host", for a tensor."""
    device = device_of(engine)
    return _zero_half(device, md, device.allocate(extent(md).needed, kind))


def _zero_half(device: SyclDevice, md: MemoryDesc, buffer: Buffer) -> Buffer:
    """The half byte behind an odd number of 4-bit elements is zero."""
    if md.data_type.bits < 8 and buffer.nbytes:
        buffer.owner.memset(0)  # type: ignore[attr-defined]
    return buffer


def lent_to(engine: Engine | None, buffer: Buffer, owner: Engine | None) -> Buffer:
    """A memory's buffer for a memory of another engine. Raises InvalidArguments for what it cannot reach."""
    if owner is None or not owner.is_sycl or owner is engine:
        return buffer
    is_host = engine is not None and not engine.is_sycl
    if is_host and device_of(owner).is_on_host(buffer):
        return buffer
    raise InvalidArguments(
        "Memory: the data is on another device",
        code="RS-P08",
        where=f"data on {owner}, memory on {engine}",
        why="its bytes cannot be reached from there",
        hint="allocate a memory on this engine, and reorder from the other",
    )


def host_view(memory: Any, buffer: Buffer, what: str) -> Buffer:
    """The bytes themselves, once nothing works on them. Raises InvalidArguments for device memory."""
    device = device_of(memory.engine)
    if device.is_on_host(buffer):
        pending.wait_for(buffer.owner)
        return buffer
    raise InvalidArguments(
        f"Memory.{what} is not possible",
        code="RS-P08",
        where=str(memory),
        why="the bytes lie on the device, or have been freed",
        hint="use to_numpy() or map_data(), which copy; or shared memory of rs.sycl_interop.make_memory",
    )


def host_copy(buffer: Buffer, engine: Engine) -> Buffer:
    """A copy of the bytes on the host, once nothing works on them."""
    check_alive(buffer, engine)
    return device_of(engine).download(buffer)


def host_image(buffer: Buffer, engine: Engine | None) -> Buffer | None:
    """What stands for device memory while it is mapped; None where Python sees the bytes themselves."""
    if engine is None or not engine.is_sycl or device_of(engine).is_on_host(buffer):
        return None
    return host_copy(buffer, engine)


def settled(buffer: Buffer | None, engine: Engine | None, image: Buffer) -> None:
    """Write an image back into device memory."""
    if buffer is not None and engine is not None:
        check_alive(buffer, engine)
        device_of(engine).upload(image, buffer, buffer.nbytes)


def usm_interface(md: MemoryDesc, buffer: Buffer, engine: Engine) -> dict[str, Any]:
    """What dpctl takes a memory by, once nothing works on it."""
    pending.wait_for(buffer.owner)
    return exports.usm_interface(md, buffer, device_of(engine).queue)


def settle(buffer: Buffer | None, engine: Engine) -> None:
    """Block until nothing submitted works on a buffer."""
    if buffer is not None and engine.is_sycl:
        pending.wait_for(buffer.owner)


def check_alive(buffer: Buffer, engine: Engine) -> None:
    """Raise InvalidArguments for USM that the engine's context does not know, or any more."""
    if buffer.owner is not None and device_of(engine).usm_type(buffer.owner) != "unknown":
        return
    raise InvalidArguments(
        "Memory: its USM is gone",
        code="RS-P08",
        where=f"{buffer.nbytes} bytes on {engine}",
        why="the pointer is no USM of the engine's context: it has been freed",
        hint="keep the allocation alive as long as the memory that wraps it",
    )
