"""What a memory can be made of, and what it refuses."""

from __future__ import annotations

from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments, OutOfMemory
from .alloc import NO_DATA, Buffer, extent
from .device import Device
from .engine import Engine

PAIRS = "pair each map_data() with one unmap_data()"


def checked_desc(md: object) -> MemoryDesc:
    """A descriptor that says where every element lies."""
    if not isinstance(md, MemoryDesc):
        hint = "pass a rs.MemoryDesc; rs.Memory.from_numpy(x) wraps an array"
        raise refused("RS-V08", "Memory", f"{type(md).__name__} is no descriptor", hint)
    if md.is_zero():
        raise refused(
            "RS-M03", "Memory", "a zero descriptor describes no memory", "give it dims, a type and a format"
        )
    if md.format_kind == "any":
        hint = "take the format that a primitive descriptor chose, or name one"
        raise refused("RS-M30", "Memory", "format 'any' is a placeholder without a layout", hint, md)
    if md.layout.has_runtime:
        raise refused("RS-M41", "Memory", "a dim or stride is not known yet", "describe the actual dims", md)
    return md


def checked_engine(engine: object, data: object, *, empty: bool) -> Engine | None:
    """The engine of a memory; None for that of an empty one, which may have no data either."""
    if empty and engine is None and data is None:
        return None
    if empty:
        raise refused("RS-V07", "Memory", "there is no descriptor", "pass a rs.MemoryDesc first")
    if isinstance(engine, Engine):
        return engine
    raise refused("RS-V08", "Memory", f"{type(engine).__name__} is no engine", 'pass rs.Engine("cpu")')


def acquire(device: Device, md: MemoryDesc, data: object) -> Buffer | None:
    """The buffer that `data` stands for: None allocates, `NO_DATA` is none, the rest is wrapped.

    The half byte behind an odd number of 4-bit elements is zero in new memory. Raises InvalidArguments for
    what the device cannot reach and for a buffer that is too short, OutOfMemory as `allocate` of the device.
    """
    if data is NO_DATA:
        return None
    if data is not None:
        return checked_length(md, device.wrap(data, md.data_type))
    try:
        return device.allocate(extent(md).needed, zero_last=md.data_type.bits < 8)
    except OutOfMemory as error:
        raise error.retold(where=error.where or str(md)) from None


def checked_length(md: MemoryDesc, buffer: Buffer) -> Buffer:
    """The buffer. Raises InvalidArguments where it ends before the highest byte of `md`."""
    if buffer.nbytes >= extent(md).high:
        return buffer
    needed = f"the descriptor needs {extent(md).high} bytes, padding and offset0 included"
    raise InvalidArguments(
        "Memory: the data is too short",
        code="RS-M16",
        where=str(md),
        why=f"{needed}; the data has {buffer.nbytes}",
        hint="pass a longer buffer, or leave data out to allocate",
    )


def lend(buffer: Buffer, owner: Engine, taker: Engine) -> Buffer:
    """A memory's buffer for a memory of another engine. Raises InvalidArguments for what it cannot reach."""
    if owner is taker or owner.device.is_host:
        return buffer
    view = owner.device.host_view(buffer) if taker.device.is_host else None
    if view is not None:
        return view
    raise InvalidArguments(
        "Memory: the data is on another device",
        code="RS-P08",
        where=f"data on {owner}, memory on {taker}",
        why="its bytes cannot be reached from there",
        hint="allocate a memory on this engine, and reorder from the other",
    )


def out_of_sight(what: str, memory: object) -> InvalidArguments:
    """The error for a look at bytes that Python cannot see in place."""
    return InvalidArguments(
        f"Memory.{what} is not possible",
        code="RS-P08",
        where=str(memory),
        why="the bytes lie on the device, or have been freed",
        hint="use to_numpy() or map_data(), which copy; or shared memory of rs.sycl_interop.make_memory",
    )


def takes_none(memory: object, *, is_mapped: bool) -> InvalidArguments:
    """The error for a memory that takes no other buffer: it is mapped or empty, or None was given for one."""
    what = "Memory.set_data_handle"
    if is_mapped:
        return refused("RS-M38", what, "the memory is mapped", "call unmap_data() first", memory)
    if not memory:
        hint = "make it with a descriptor and an engine"
        return refused("RS-M36", what, "an empty memory has no descriptor", hint)
    hint = "pass a buffer, or rs.NO_DATA"
    return refused("RS-M37", what, "None does not say whether to allocate", hint, memory)


def refused(code: str, what: str, why: str, hint: str, where: object = "") -> InvalidArguments:
    """The error for what a memory cannot do."""
    return InvalidArguments(f"{what} is not possible", code=code, where=str(where), why=why, hint=hint)
