"""What a memory can be made of, and what it refuses (M30, M36 to M41)."""

from __future__ import annotations

from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments
from .engine import Engine

PAIRS = "pair each map_data() with one unmap_data()"


def checked_desc(md: object) -> MemoryDesc:
    """A descriptor that says where every element lies (M30, M41)."""
    if not isinstance(md, MemoryDesc):
        raise refused("RS-V08", "Memory", f"{type(md).__name__} is no descriptor", "pass a rs.MemoryDesc")
    if md.is_zero():
        raise refused(
            "RS-M03", "Memory", "a zero descriptor describes no memory", "give it dims, a type and a format"
        )
    if md.format_kind == "any":
        hint = "take the format that a primitive descriptor chose, or name one"
        raise refused("RS-M30", "Memory", "format 'any' is a placeholder without a layout (M30)", hint, md)
    if md.layout.has_runtime:
        raise refused(
            "RS-M41", "Memory", "a dim or stride is not known yet (M41)", "describe the actual dims", md
        )
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
