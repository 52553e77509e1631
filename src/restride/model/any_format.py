"""The format that replaces "any" if a primitive follows another tensor."""

from __future__ import annotations

from math import prod

from ..desc.memory_desc import MemoryDesc
from ..desc.tags import Tag


def resolved(md: MemoryDesc, like: MemoryDesc) -> MemoryDesc:
    """Return a descriptor with "any" replaced by the format of another, dense if that broadcasts elements,
    row-major if the ranks differ.
    """
    if md.format_kind != "any":
        return md
    if (md.dims, md.data_type) == (like.dims, like.data_type) and like.is_injective():
        return like
    if md.ndims != like.ndims:
        return MemoryDesc(md.dims, md.data_type)
    return MemoryDesc(md.dims, md.data_type, Tag(like.outer_order, *like.layout.inner))


def resolved_operand(md: MemoryDesc, like: MemoryDesc) -> MemoryDesc:
    """Do the same for a tensor that is broadcast along its dims of 1: these have no blocks."""
    if md.format_kind != "any" or md.dims == like.dims:
        return resolved(md, like)
    blocks = [block for block in zip(*like.layout.inner, strict=True) if md.dims[block[1]] != 1]
    tag = Tag(like.outer_order, *(tuple(part) for part in zip(*blocks, strict=True)))
    result = MemoryDesc(md.dims, md.data_type, tag)
    # Blocks that would be mostly padding are not worthwhile.
    return result if prod(result.padded_dims) == result.nelems else MemoryDesc(md.dims, md.data_type)
