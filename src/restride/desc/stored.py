"""Descriptors as plain dicts for files, and back with every value checked."""

from __future__ import annotations

from typing import Any

from ..dtypes import DataType
from .layout import NO_LAYOUT, RUNTIME_DIM, Layout, layout_of_tag
from .parse import fail, parse_dims, parse_int, parse_ints, parse_strides, parse_type, short_repr
from .strides import check_range
from .tags import Tag

_FIELDS = ("kind", "data_type", "dims", "padded_dims", "strides", "inner_blks", "inner_idxs", "offset0")
_MAX_NAME = 80


def write_json(kind: str, dtype: DataType, layout: Layout) -> dict[str, Any]:
    """A dict of strings, integers and lists."""
    lists = {name: list(getattr(layout, name)) for name in _FIELDS[2:-1]}
    return {"kind": kind, "data_type": dtype.name, **lists, "offset0": layout.offset0}


def read_json(data: object) -> tuple[str, DataType, Layout]:
    """Kind, type and layout of a stored descriptor, each value checked as if a stranger wrote it."""
    if not isinstance(data, dict):
        raise fail("a stored descriptor must be a dict", f"this is {type(data).__name__}")
    missing = [name for name in _FIELDS if name not in data]
    if missing:
        raise fail(f"a stored descriptor lacks {missing}", "every field of to_json is needed")
    if data["kind"] == "undef":
        return "undef", DataType.undef, NO_LAYOUT
    dtype, dims = parse_type(str(data["data_type"])[:_MAX_NAME]), parse_dims(data["dims"])
    if data["kind"] == "any" and dims:
        return "any", dtype, Layout(dims, dims, ())
    if data["kind"] != "blocked" or not dims:
        found = f"kind is {short_repr(data['kind'])} with {len(dims)} dims"
        raise fail(found, "it must be undef, any or blocked, with dims")
    layout = _read_layout(data, dims)
    check_range(layout, dtype)
    return "blocked", dtype, layout


def _read_layout(data: dict[str, Any], dims: tuple[int, ...]) -> Layout:
    padded = parse_dims(data["padded_dims"], "padded_dims")
    strides = parse_strides(data["strides"], len(dims))
    blks, idxs = parse_ints(data["inner_blks"], "inner_blks"), parse_ints(data["inner_idxs"], "inner_idxs")
    tag = Tag(tuple(range(len(dims))), blks, idxs)
    whole = layout_of_tag(dims, tag).padded_dims
    if len(padded) != len(dims) or any(
        p not in pair for p, pair in zip(padded, zip(dims, whole, strict=True), strict=True)
    ):
        why = f"an axis is padded up to whole blocks, {whole}, or not at all"
        raise fail(f"padded_dims are {padded} for dims {dims}", why)
    if blks and any(step < 0 for step in strides if step != RUNTIME_DIM):
        raise fail(f"strides are {strides} for a blocked layout", "only plain layouts may run backwards")
    offset0 = parse_int(data["offset0"], "offset0")
    return Layout(dims, padded, strides, tag.inner_blks, tag.inner_idxs, offset0)
