"""What callers give to primitive descriptors: an engine, attributes, descriptors of tensors."""

from __future__ import annotations

from ..desc.attr import Attr, PrimitiveAttr
from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments, Unimplemented
from ..runtime.engine import Engine
from .base import DEFAULT_ATTR


class WrongHint(InvalidArguments, TypeError):
    """A hint of another kind."""


def parse_engine(what: str, engine: object) -> Engine:
    """The engine, if it is one."""
    if isinstance(engine, Engine):
        return engine
    why = f"it is {type(engine).__name__}"
    raise InvalidArguments(f"{what}: no engine", code="RS-V08", why=why, hint='pass rs.Engine("cpu")')


def parse_attr(what: str, attr: object) -> Attr:
    """The attributes as a value."""
    if attr is None:
        return DEFAULT_ATTR
    if isinstance(attr, PrimitiveAttr):
        return attr.freeze()
    why, hint = f"it is {type(attr).__name__}", "pass rs.PrimitiveAttr(), or leave attr out"
    raise InvalidArguments(f"{what}: attr is none", code="RS-V08", why=why, hint=hint)


def check_described(what: str, name: str, md: object, *, is_known: bool = True) -> MemoryDesc:
    """The descriptor of a tensor; InvalidArguments for none, Unimplemented for dims known later, unless
    these need not be known.
    """
    if not isinstance(md, MemoryDesc):
        why = f"{type(md).__name__} is no rs.MemoryDesc"
        raise InvalidArguments(
            f"{what}: {name} is no descriptor", code="RS-V08", why=why, hint="pass a rs.MemoryDesc"
        )
    if md.is_zero():
        hint = "give it dims, a type and a format"
        raise InvalidArguments(
            f"{what}: {name} is no descriptor of a tensor", code="RS-M03", why="it is empty", hint=hint
        )
    if is_known and md.layout.has_runtime:
        raise Unimplemented(
            f"{what}: {name} has dims known only at execution",
            code="RS-S17",
            where=str(md),
            why="such dims are for reorders and matmuls alone",
            hint="make a primitive for each concrete shape",
        )
    return md


def check_written(what: str, name: str, md: MemoryDesc) -> None:
    """Raise InvalidArguments for a tensor to be written in which elements share memory (N8)."""
    if not md.is_injective():
        raise shared_elements(what, name, str(md))


def shared_elements(what: str, name: str, where: str) -> InvalidArguments:
    """The error for a tensor to be written in which elements share memory."""
    return InvalidArguments(
        f"{what}: elements of {name} share memory",
        code="RS-N08",
        where=where,
        why="a stride of 0, or strides whose windows overlap, write one place twice (N8)",
        hint="give it dense strides or a tag; only what is read may overlap itself",
    )
