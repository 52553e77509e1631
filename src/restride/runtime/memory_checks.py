"""Checks of the arguments from which memories are made, and their errors."""

from __future__ import annotations

from ..desc.memory_desc import MemoryDesc
from ..errors import Error, InvalidArguments, OutOfMemory, refuse
from .alloc import NO_DATA, Buffer, extent
from .device import Device
from .engine import Engine

PAIRS = "pair each map_data() with one unmap_data()"


def checked_desc(md: object) -> MemoryDesc:
    """Check a descriptor, which must have a known layout."""
    if not isinstance(md, MemoryDesc):
        hint = "pass a rs.MemoryDesc; rs.Memory.from_numpy(x) wraps an array"
        raise refuse("RS-V08:no-descriptor", where="", type=type(md).__name__, hint=hint)
    if md.is_zero():
        raise refuse("RS-M03:memory", where="")
    if md.format_kind == "any":
        hint = "use the format that a primitive descriptor chose, or name one"
        raise refuse("RS-M30:memory", md=md, hint=hint)
    if md.layout.has_runtime:
        raise refuse("RS-M41", md=md)
    return md


def checked_engine(engine: object, data: object, *, empty: bool) -> Engine | None:
    """Check the engine of a memory; None for an empty one, which cannot have data either."""
    if empty and engine is None and data is None:
        return None
    if empty:
        raise refuse("RS-V07:memory", where="")
    if isinstance(engine, Engine):
        return engine
    raise refuse("RS-V08:no-engine", where="", type=type(engine).__name__)


def acquire(device: Device, md: MemoryDesc, data: object) -> Buffer | None:
    """Return the buffer that `data` stands for: None allocates, `NO_DATA` is none, anything else is wrapped.

    The half byte after an odd number of 4-bit elements is zero in new memory. Raises InvalidArguments for
    memory that the device cannot reach and for a buffer that is too short, OutOfMemory as the device's
    `allocate` does.
    """
    if data is NO_DATA:
        return None
    if data is not None:
        return checked_length(md, device.wrap(data, md.data_type))
    try:
        return device.allocate(extent(md).needed, zero_last=md.data_type.bits < 8)
    except OutOfMemory as error:
        raise error.with_context(where=error.where or str(md)) from None


def checked_length(md: MemoryDesc, buffer: Buffer) -> Buffer:
    """Return the buffer. Raises InvalidArguments if it ends before the highest byte of `md`."""
    if buffer.nbytes >= extent(md).high:
        return buffer
    raise refuse("RS-M16", md=md, high=extent(md).high, nbytes=buffer.nbytes)


def buffer_for_engine(buffer: Buffer, owner: Engine, taker: Engine) -> Buffer:
    """Return a memory's buffer for another engine. Raises InvalidArguments if that cannot reach it."""
    if owner is taker or owner.device.is_host:
        return buffer
    view = owner.device.host_view(buffer) if taker.device.is_host else None
    if view is not None:
        return view
    raise refuse("RS-P08:data-another-device", owner=owner, taker=taker)


def cannot_replace_buffer(memory: object, *, is_mapped: bool) -> Error:
    """Return the error for a memory whose buffer cannot be replaced: mapped, empty, or given None."""
    if is_mapped:
        return refuse("RS-M38:memory-set-data", memory=memory)
    if not memory:
        hint = "make it with a descriptor and an engine"
        return refuse("RS-M36:memory-set-data", where="", hint=hint)
    hint = "pass a buffer, or rs.onednn.NO_DATA"
    return refuse("RS-M37:memory-set-data", memory=memory, hint=hint)


def refused(code: str, what: str, why: str, hint: str, where: object = "") -> InvalidArguments:
    """Return the error of an operation that a memory does not support."""
    return InvalidArguments(f"{what} is not possible", code=code, where=str(where), why=why, hint=hint)
