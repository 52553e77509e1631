"""Converts constructor arguments to a checked layout."""

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
# Rules for dims and strides together: nesting, range, size.

_LIMIT = 2**63
_SHOWN = 200


def check_range(layout: BlockedLayout, dtype: DataType) -> None:
    """Check that all bytes, offset0 included, are in 0 .. 2**63 - 1, before allocation."""
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
    """Check that the strides of a plain layout nest without overlap, by the relaxed or the literal rule.

    Raises InvalidArguments naming the two axes that clash. An empty tensor has no elements: the relaxed rule
    accepts any strides.
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
    """Return two axes (outer, inner) that overlap; stride 0 and size-1 dims are exempt."""
    dims, strides = layout.dims, layout.strides
    order = sorted(
        (d for d in range(len(dims)) if strides[d] and dims[d] > 1), key=lambda d: (strides[d], dims[d])
    )
    pairs = pairwise(order)
    return next(((j, i) for i, j in pairs if strides[j] < strides[i] * dims[i]), None)


def _literal_clash(layout: BlockedLayout) -> tuple[int, int] | None:
    """Return two axes that violate oneDNN's formula: strides[i] >= strides[j] * dims[j] for i sorted before
    j.

    Equal strides can be sorted either way; only with the larger dim first can they satisfy the formula.
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

Format = str | FormatTag | Tag | GenericTag | Sequence[int] | Sequence[tuple[int, int, int]] | None
"""Formats: a tag, strides in elements, inner blocks (axis, size, step) inside row-major blocks, or None for
row-major."""

RUNTIME_SIZE = 2**63
"""Size of a descriptor with runtime dims (`DNNL_RUNTIME_SIZE_VAL`)."""


def parse_arguments(
    dims: Sequence[int], data_type: Any, format: Format, strict: bool
) -> tuple[str, DataType, BlockedLayout]:
    """Return kind, type and layout for the constructor's arguments."""
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
    """Add the dims to an error about a tag or strides of another rank."""
    if isinstance(format, str) and error.code == "RS-M11":
        return error.with_context(hint=tag_hint(format, len(shape)))
    if error.code not in ("RS-M06", "RS-M07"):
        return error
    return error.with_context(where="; ".join(filter(None, (f"dims {shape}", error.where))))


def _layout(shape: tuple[int, ...], format: Format, strict: bool) -> BlockedLayout | None:
    """Return the layout that `format` specifies for `shape`, or None for `any`."""
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
    """Return True for a sequence of sequences, in contrast to strides."""
    if not isinstance(format, list | tuple) or type(format) not in (list, tuple):
        return False  # __iter__ of a subclass can raise anything
    return any(isinstance(block, list | tuple) for block in format)


def _tag_of_blocks(format: Sequence[Any], ndims: int) -> Tag:
    """Return the tag of inner blocks (axis, size, step), outer to inner."""
    blocks = [parse_ints(block, f"format[{i}]") for i, block in enumerate(format)]
    for i, block in enumerate(blocks):
        if len(block) != 3:
            raise refuse("RS-M11:format", i=i, block=block)
    idxs, blks, steps = zip(*blocks, strict=True)
    return Tag(tuple(range(ndims)), blks, idxs, steps)


def parse_blocks(blocks: Sequence[Any], dims: tuple[int, ...], strides: tuple[int, ...]) -> Blocks:
    """Return sizes, axes and steps of blocks that divide the dims; strides must not be negative."""
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
    """Return the size of the storage in bytes."""
    if kind not in ("blocked", "opaque"):
        return 0
    return RUNTIME_SIZE if layout.has_runtime else dtype.nbytes(storage_elements(layout))


def equality_key(kind: str, dtype: DataType, layout: BlockedLayout) -> tuple[object, ...]:
    """Return the equality key: everything but the strides of axes of one element."""
    sizes = zip(layout.strides, layout.padded_dims, strict=False)
    strides = tuple(0 if padded == 1 else stride for stride, padded in sizes)
    return (kind, dtype.value, layout.dims, layout.padded_dims, strides, *layout.inner, layout.offset0)
