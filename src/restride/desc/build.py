"""From the constructor's arguments to a checked layout."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from ..dtypes import DataType
from ..errors import Error, InvalidArguments, refuse
from ..foreign import plain_text
from .inner_blocks import Blocks
from .layout import NO_LAYOUT, RUNTIME_DIM, BlockedLayout, extent_range, layout_of_tag, storage_elements
from .parse import parse_dims, parse_ints, parse_strides, parse_type, short_repr
from .tag_names import LETTERS, tag_hint
from .tags import FormatTag, GenericTag, Tag, to_tag

# --- strides -----------------------------------------------------------------
# The rules that dims and strides obey together: nesting, range, size.

_LIMIT = 2**63
_SHOWN = 200


def check_range(layout: BlockedLayout, dtype: DataType) -> None:
    """All bytes, offset0 included, lie in 0 .. 2**63 - 1: checked in Python integers, before allocation."""
    low, high = (0, 0) if layout.has_runtime else extent_range(layout)
    low = min(low, layout.offset0)
    if low < 0:
        raise refuse("RS-M10:lowest-element-offset", low=low, layout=layout, offset0=layout.offset0 - low)
    size = 0 if layout.has_runtime else storage_elements(layout)
    reach = (abs(step) for step in layout.strides if step != RUNTIME_DIM)
    last = max(high, layout.offset0 + size, *reach)
    if dtype.nbytes(last) >= _LIMIT:
        raise refuse(
            "RS-L03",
            size_text=_size_text(dtype.nbytes(last)),
            shorten=_shorten(f"{dtype} dims {layout.dims} strides {layout.strides}"),
        )


def _shorten(text: str) -> str:
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "..."


def _size_text(nbytes: int) -> str:
    return str(nbytes) if nbytes < 1 << 100 else f"over 2**{nbytes.bit_length() - 1}"


def check_strides(layout: BlockedLayout, strict: bool) -> None:
    """The strides of a plain layout nest without overlap: the relaxed rule, or the literal one.

    Raises InvalidArguments naming the two axes that clash. An empty tensor has no elements to lie anywhere:
    by the relaxed rule any strides will do.
    """
    if 0 in layout.dims and not strict:
        return
    steps = [step for step in layout.strides if step != RUNTIME_DIM]
    if any(step < 0 for step in steps):
        axis = next(i for i, step in enumerate(layout.strides) if step < 0 and step != RUNTIME_DIM)
        raise refuse("RS-M08:strides", axis=axis, strides=layout.strides[axis])
    if layout.has_runtime:
        return
    clash = _literal_clash(layout) if strict else _relaxed_clash(layout)
    if clash is not None:
        raise _clash_error(layout, *clash)


def _relaxed_clash(layout: BlockedLayout) -> tuple[int, int] | None:
    """Two axes (outer, inner) that overlap; stride 0 and size-1 dims are free."""
    dims, strides = layout.dims, layout.strides
    order = sorted(
        (d for d in range(len(dims)) if strides[d] and dims[d] > 1), key=lambda d: (strides[d], dims[d])
    )
    pairs = pairwise(order)
    return next(((j, i) for i, j in pairs if strides[j] < strides[i] * dims[i]), None)


def _literal_clash(layout: BlockedLayout) -> tuple[int, int] | None:
    """Two axes that break the seed's formula: strides[i] >= strides[j] * dims[j] for i sorted before j.

    Equal strides may sort either way; the larger dim first is the order that can satisfy the formula.
    """
    dims, strides = layout.dims, layout.strides
    order = sorted(range(len(dims)), key=lambda d: (-strides[d], -dims[d]))
    pairs = ((i, j) for n, i in enumerate(order) for j in order[n + 1 :])
    return next(((i, j) for i, j in pairs if strides[i] < strides[j] * dims[j]), None)


def _clash_error(layout: BlockedLayout, outer: int, inner: int) -> Error:
    need = layout.strides[inner] * layout.dims[inner]
    hint = f"use a stride of at least {need}; overlapping sources need MemoryDesc.from_strides"
    if sorted(layout.strides) == list(range(len(layout.dims))):
        tag = "".join(LETTERS[d] for d in layout.strides)
        hint = f"strides count elements; an order of axes is a tag, {layout.strides} is {tag!r}"
    return refuse(
        "RS-M08:axes-overlap",
        outer=outer,
        inner=inner,
        layout=layout,
        strides=layout.strides[outer],
        need=need,
        hint=hint,
    )


# --- build -------------------------------------------------------------------
# From the constructor's arguments to kind, data type and layout.

Format = str | FormatTag | Tag | GenericTag | Sequence[int] | Sequence[tuple[int, int, int]] | None
"""What may stand for a format: a tag, strides in elements, inner blocks (axis, size, step) under row-major
blocks, or None for row-major."""

RUNTIME_SIZE = 2**63
"""Size of a descriptor with runtime dims (`DNNL_RUNTIME_SIZE_VAL`)."""


def parse_arguments(
    dims: Sequence[int], data_type: Any, format: Format, strict: bool
) -> tuple[str, DataType, BlockedLayout]:
    """Kind, type and layout of the constructor's arguments."""
    shape, format = parse_dims(dims), plain_text(format)
    if not shape or format is FormatTag.undef or (isinstance(format, str) and format == "undef"):
        return "undef", DataType.undef, NO_LAYOUT
    dtype = parse_type(data_type)
    try:
        layout = _layout(shape, format, strict)
    except InvalidArguments as error:
        raise _with_dims(error, shape, format) from None
    if layout is None:
        return "any", dtype, BlockedLayout(shape, shape, ())
    check_range(layout, dtype)
    return "blocked", dtype, layout


def _with_dims(error: InvalidArguments, shape: tuple[int, ...], format: Format) -> InvalidArguments:
    """The error beside the dims, where a tag or strides do not fit their number."""
    if isinstance(format, str) and error.code == "RS-M11":
        return error.with_context(hint=tag_hint(format, len(shape)))
    if error.code not in ("RS-M06", "RS-M07"):
        return error
    return error.with_context(where="; ".join(filter(None, (f"dims {shape}", error.where))))


def _layout(shape: tuple[int, ...], format: Format, strict: bool) -> BlockedLayout | None:
    """The layout that `format` gives `shape`, or None for `any`."""
    if format is None:
        return layout_of_tag(shape, Tag(tuple(range(len(shape)))))
    if isinstance(format, str | FormatTag | Tag | GenericTag):
        tag = to_tag(format, len(shape))
        return None if isinstance(tag, FormatTag) else layout_of_tag(shape, tag)
    if _are_blocks(format):
        return layout_of_tag(shape, _tag_of_blocks(format, len(shape)))
    layout = BlockedLayout(shape, shape, parse_strides(format, len(shape)))
    check_strides(layout, strict)
    return layout


def _are_blocks(format: object) -> bool:
    """True for a sequence of sequences, which strides are not."""
    if not isinstance(format, list | tuple) or type(format) not in (list, tuple):
        return False  # of a subclass __iter__ may raise anything
    return any(isinstance(block, list | tuple) for block in format)


def _tag_of_blocks(format: Sequence[Any], ndims: int) -> Tag:
    """The tag of inner blocks (axis, size, step), outer to inner."""
    blocks = [parse_ints(block, f"format[{i}]") for i, block in enumerate(format)]
    for i, block in enumerate(blocks):
        if len(block) != 3:
            raise refuse("RS-M11:format", i=i, block=block)
    idxs, blks, steps = zip(*blocks, strict=True)
    return Tag(tuple(range(ndims)), blks, idxs, steps)


def parse_blocks(blocks: Sequence[Any], dims: tuple[int, ...], strides: tuple[int, ...]) -> Blocks:
    """Sizes, axes and steps of blocks that divide the dims, beside forward strides."""
    if not _are_blocks(blocks):
        if not isinstance(blocks, list | tuple) or blocks:
            raise refuse("RS-M11:blocks", blocks=short_repr(blocks))
        return (), (), ()
    tag = _tag_of_blocks(blocks, len(dims))
    layout = BlockedLayout(dims, dims, strides, tag.inner_blks, tag.inner_idxs, tag.inner_steps)
    for d, (n, block) in enumerate(zip(dims, layout.blocks, strict=True)):
        if n == RUNTIME_DIM or n % block or (block > 1 and strides[d] < 0):
            raise refuse("RS-M11:axis-blocks", d=d, n=n, block=block)
    return layout.inner


def size_in_bytes(kind: str, dtype: DataType, layout: BlockedLayout) -> int:
    """Bytes of storage."""
    if kind not in ("blocked", "opaque"):
        return 0
    return RUNTIME_SIZE if layout.has_runtime else dtype.nbytes(storage_elements(layout))


def equality_key(kind: str, dtype: DataType, layout: BlockedLayout) -> tuple[object, ...]:
    """The key of equality: everything but the strides of axes of one element."""
    sizes = zip(layout.strides, layout.padded_dims, strict=False)
    strides = tuple(0 if padded == 1 else stride for stride, padded in sizes)
    return (kind, dtype.value, layout.dims, layout.padded_dims, strides, *layout.inner, layout.offset0)
