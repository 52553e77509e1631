"""Descriptors as text: the best matching tag, the readable line, and oneDNN's verbose field (spec 1.6)."""

from __future__ import annotations

from math import prod

from ..dtypes import DataType
from .layout import RUNTIME_DIM, Layout, layout_of_tag, storage_elements
from .tags import FormatTag, Tag, parse_tag

_NAMED = tuple(parse_tag(member.value) for member in FormatTag if member.value not in ("any", "undef"))


def order_tag(layout: Layout) -> Tag:
    """The axes outermost to innermost, with the inner blocks, whatever the gaps."""
    return Tag(layout.outer_order, layout.inner_blks, layout.inner_idxs)


def matching_tag(layout: Layout) -> Tag | None:
    """The tag that builds `layout` from its dims; an exact match of strides first, then a tag of the seed."""
    if layout.has_runtime or layout.offset0:
        return None
    first = order_tag(layout)
    built = layout_of_tag(layout.dims, first)
    if built == layout:
        return first
    named = (tag for tag in _NAMED if isinstance(tag, Tag) and tag.ndims == len(layout.dims))
    candidates = (first,) if layout.inner_blks else (*named, first)
    return next((tag for tag in candidates if _same_memory(layout, layout_of_tag(layout.dims, tag))), None)


def _same_memory(one: Layout, two: Layout) -> bool:
    """Equal but for the strides of axes of one element (M19)."""
    strides = zip(one.padded_dims, one.strides, two.strides, strict=True)
    return one.padded_dims == two.padded_dims and all(n == 1 or a == b for n, a, b in strides)


def _by(values: tuple[int, ...]) -> str:
    return "x".join("*" if n == RUNTIME_DIM else str(n) for n in values)


def _is_dense(layout: Layout) -> bool:
    """True where elements and padding fill the storage."""
    return prod(layout.padded_dims) == storage_elements(layout)


def describe(kind: str, dtype: DataType, layout: Layout) -> str:
    """`f32 2x17x7x7 aBcd16b`, with `strides 6x1` where no tag says all, and `offset0 35` unless zero."""
    if kind == "undef":
        return "zero descriptor"
    if kind == "any":
        return f"{dtype} {_by(layout.dims)} any"
    parts = [str(dtype), _by(layout.dims)]
    tag = _tag_without_offset(layout)
    parts += [str(tag)] if tag else [str(order_tag(layout)), "strides", _by(layout.strides)]
    parts += ["offset0", str(layout.offset0)] if layout.offset0 else []
    return " ".join(parts)


def _tag_without_offset(layout: Layout) -> Tag | None:
    moved = Layout(layout.dims, layout.padded_dims, layout.strides, layout.inner_blks, layout.inner_idxs)
    return matching_tag(moved)


def verbose(name: str, kind: str, dtype: DataType, layout: Layout) -> str:
    """`name:dtype:props:kind:tag:strides:f0`; props p (padded), 0 (offset0); strides only where not dense."""
    if kind == "undef":
        return f"{name}:undef::undef:::"
    if kind == "any":
        return f"{name}:{dtype}::any:::f0"
    props = ("p" if layout.padded_dims != layout.dims else "") + ("0" if layout.offset0 else "")
    if layout.has_runtime:
        return f"{name}:{dtype}:{props}:blocked:*::f0"
    strides = "" if _is_dense(layout) else _by(layout.strides)
    return f"{name}:{dtype}:{props}:blocked:{order_tag(layout)}:{strides}:f0"
