"""Checks common arguments of primitive descriptors: an engine, attributes, tensor descriptors."""

from __future__ import annotations

from ..desc.attr import Attr, PrimitiveAttr
from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments, refuse
from ..runtime.engine import Engine
from .base import DEFAULT_ATTR


class WrongHint(InvalidArguments, TypeError):
    """A hint of the wrong kind."""


def parse_engine(what: str, engine: object) -> Engine:
    """Return the engine, if it is one."""
    if isinstance(engine, Engine):
        return engine
    raise refuse("RS-V08:no-engine-pass", what=what, type=type(engine).__name__)


def parse_attr(what: str, attr: object) -> Attr:
    """Return the attributes as a value."""
    if attr is None:
        return DEFAULT_ATTR
    if isinstance(attr, PrimitiveAttr):
        return attr.freeze()
    why, hint = f"it is {type(attr).__name__}", "pass rs.onednn.PrimitiveAttr(), or omit attr"
    raise refuse("RS-V08:attr-none", what=what, why=why, hint=hint)


def check_described(what: str, name: str, md: object, *, is_known: bool = True) -> MemoryDesc:
    """Return the descriptor of a tensor; InvalidArguments if there is none, Unimplemented for runtime dims
    unless they are allowed.
    """
    if not isinstance(md, MemoryDesc):
        raise refuse("RS-V08:no-memory-desc", what=what, name=name, type=type(md).__name__)
    if md.is_zero():
        raise refuse("RS-M03:no-descriptor-tensor", what=what, name=name)
    if is_known and md.layout.has_runtime:
        raise refuse("RS-S17:runtime-dims", what=what, name=name, md=md)
    if md.format_kind == "opaque" and name != "weights":
        raise refuse("RS-M15:opaque-tensor", what=what, name=name, md=md)
    return md


def check_written(what: str, name: str, md: MemoryDesc) -> None:
    """Raise InvalidArguments for an output tensor in which elements share memory (N8)."""
    if not md.is_injective():
        raise refuse("RS-N08:elements-share-memory", what=what, name=name, md=md)
