"""From the constructor's arguments to kind, data type and layout (M02–M09)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..dtypes import DataType
from ..errors import InvalidArguments
from ..foreign import plain_text
from .layout import NO_LAYOUT, Layout, layout_of_tag, storage_elements
from .parse import parse_dims, parse_strides, parse_type
from .strides import check_range, check_strides
from .tags import FormatTag, GenericTag, Tag, to_tag

Format = str | FormatTag | Tag | GenericTag | Sequence[int] | None
"""What may stand for a format: a tag, strides in elements, or None for row-major."""

RUNTIME_SIZE = 2**63
"""Size of a descriptor with runtime dims (`DNNL_RUNTIME_SIZE_VAL`, M17)."""


def parse_arguments(
    dims: Sequence[int], data_type: Any, format: Format, strict: bool
) -> tuple[str, DataType, Layout]:
    """Kind, type and layout of the constructor's arguments."""
    shape, format = parse_dims(dims), plain_text(format)
    if not shape or format is FormatTag.undef or (isinstance(format, str) and format == "undef"):
        return "undef", DataType.undef, NO_LAYOUT
    dtype = parse_type(data_type)
    try:
        layout = _layout(shape, format, strict)
    except InvalidArguments as error:
        raise _with_dims(error, shape) from None
    if layout is None:
        return "any", dtype, Layout(shape, shape, ())
    check_range(layout, dtype)
    return "blocked", dtype, layout


def _with_dims(error: InvalidArguments, shape: tuple[int, ...]) -> InvalidArguments:
    """The error beside the dims, where a tag or strides do not fit their number."""
    if error.code not in ("RS-M06", "RS-M07"):
        return error
    return error.retold(where="; ".join(filter(None, (f"dims {shape}", error.where))))


def _layout(shape: tuple[int, ...], format: Format, strict: bool) -> Layout | None:
    """The layout that `format` gives `shape`, or None for `any`."""
    if format is None:
        return layout_of_tag(shape, Tag(tuple(range(len(shape)))))
    if isinstance(format, str | FormatTag | Tag | GenericTag):
        tag = to_tag(format, len(shape))
        return None if isinstance(tag, FormatTag) else layout_of_tag(shape, tag)
    layout = Layout(shape, shape, parse_strides(format, len(shape)))
    check_strides(layout, strict)
    return layout


def size_in_bytes(kind: str, dtype: DataType, layout: Layout) -> int:
    """Bytes of storage (M16–M18)."""
    if kind != "blocked":
        return 0
    return RUNTIME_SIZE if layout.has_runtime else dtype.nbytes(storage_elements(layout))


def equality_key(kind: str, dtype: DataType, layout: Layout) -> tuple[object, ...]:
    """What equality compares: everything but the strides of axes of one element (M19)."""
    sizes = zip(layout.strides, layout.padded_dims, strict=False)
    strides = tuple(0 if padded == 1 else stride for stride, padded in sizes)
    blocks = (layout.inner_blks, layout.inner_idxs, layout.offset0)
    return (kind, dtype.value, layout.dims, layout.padded_dims, strides, *blocks)
