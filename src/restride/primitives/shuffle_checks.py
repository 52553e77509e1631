"""What both forms of a shuffle's primitive descriptor check (S11, S14, M30)."""

from __future__ import annotations

from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.tags import Tag
from ..errors import InvalidArguments, Unimplemented
from .parse import parse_attr


def resolved(md: MemoryDesc, like: MemoryDesc) -> MemoryDesc:
    """A descriptor whose "any" has become the format of another, row-major where the ranks differ (M30)."""
    if md.format_kind != "any":
        return md
    if (md.dims, md.data_type) == (like.dims, like.data_type):
        return like
    if md.ndims != like.ndims:
        return MemoryDesc(md.dims, md.data_type)
    return MemoryDesc(md.dims, md.data_type, Tag(like.outer_order, like.inner_blks, like.inner_idxs))


def check_formats(kind: str, src: MemoryDesc, dst: MemoryDesc) -> None:
    """Raise Unimplemented for one tensor in two formats; other dims and types are found later (S11)."""
    if src == dst or src.dims != dst.dims or src.data_type is not dst.data_type:
        return
    raise Unimplemented(
        f"{kind}: two formats",
        code="RS-S11",
        where=f"src {src}; dst {dst}",
        why="a shuffle keeps the format (S11)",
        hint="reorder before or after, or let rs.shuffle write into an array of the other format, its out",
    )


def checked_attr(kind: str, attr: object) -> Attr:
    """The attributes as a value; raise Unimplemented for any but the scratchpad mode (S14)."""
    frozen = parse_attr(f"{kind}.PrimitiveDesc", attr)
    if frozen.is_default:
        return frozen
    raise Unimplemented(
        f"{kind}: unsupported attribute",
        code="RS-S14",
        where=f"attr {frozen.verbose_str()}",
        why="a shuffle moves bits: there is nothing to scale, shift or add (S14)",
        hint="leave the attributes out, and let a reorder before or after have them",
    )


def no_desc(kind: str, desc: object) -> InvalidArguments:
    """The error for what is no descriptor of this kind of shuffle."""
    return InvalidArguments(
        f"{kind}.PrimitiveDesc: no descriptor",
        code="RS-V08",
        why=f"{type(desc).__name__} is no rs.{kind}.Desc",
        hint=f"pass rs.{kind}.Desc(...) and an engine, or an engine first, as version 3 of oneDNN has it",
    )
