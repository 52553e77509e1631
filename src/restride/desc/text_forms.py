"""Descriptors as text: the best tag, the readable line, oneDNN's verbose field, and JSON.

    {"format_kind": "blocked", "data_type": "f32", "dims": [2, 17], "padded_dims": [2, 32],
     "strides": [32, 16], "inner_blks": [16], "inner_idxs": [1], "inner_steps": [1], "offset0": 0}

The keys are the properties of `MemoryDesc`. All are required, except default steps of blocks; unknown keys
are ignored, so that programs can add their own. A dim or stride known only at execution is the word
"runtime".
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, NoReturn, TypeVar

from ..dtypes import DataType
from ..errors import Error, InvalidArguments, refuse
from ..foreign import plain_text
from ..loading import load_whole
from .build import check_range
from .layout import NO_LAYOUT, RUNTIME_DIM, BlockedLayout, layout_of_tag, storage_elements
from .parse import fail, parse_dims, parse_int, parse_ints, parse_strides, parse_type, short_repr
from .tags import MAX_NDIMS, FormatTag, Tag, parse_tag
from .winograd import is_winograd, winograd_tile

# --- tags, the readable line, the verbose field ------------------------------

_NAMED = tuple(parse_tag(member.value) for member in FormatTag if member.value not in ("any", "undef"))


def order_tag(layout: BlockedLayout) -> Tag:
    """Return the axes outermost to innermost, with the inner blocks, ignoring gaps."""
    return Tag(layout.outer_order, *layout.inner)


@lru_cache(maxsize=1024)
def matching_tag(layout: BlockedLayout) -> Tag | None:
    """Return the tag that creates `layout` from its dims: with exact strides if possible, then named."""
    if layout.has_runtime or layout.offset0 or len(layout.dims) > MAX_NDIMS:
        return None
    first = order_tag(layout)
    layout_of_first = layout_of_tag(layout.dims, first)
    if layout_of_first == layout:
        return first
    tags = (tag for tag in _NAMED if isinstance(tag, Tag) and tag.ndims == len(layout.dims))
    candidates = (first,) if layout.inner_blks else (*tags, first)
    return next((tag for tag in candidates if _same_memory(layout, layout_of_tag(layout.dims, tag))), None)


def _order(layout: BlockedLayout) -> str:
    """Return the tag of `order_tag`; `...` for more axes than letters, which only array functions create."""
    return str(order_tag(layout)) if len(layout.dims) <= MAX_NDIMS else "..."


def _same_memory(one: BlockedLayout, two: BlockedLayout) -> bool:
    """Return True if equal except for the strides of axes of one element."""
    strides = zip(one.padded_dims, one.strides, two.strides, strict=True)
    return one.padded_dims == two.padded_dims and all(n == 1 or a == b for n, a, b in strides)


def _by(values: tuple[int, ...]) -> str:
    return "x".join("*" if n == RUNTIME_DIM else str(n) for n in values)


def _opaque_name(layout: BlockedLayout) -> str:
    """Return `winograd4x4`, with the size of a tile along each spatial dim."""
    return f"winograd{_by(winograd_tile(layout))}"


def _is_dense(layout: BlockedLayout) -> bool:
    """Return True if elements and padding fill the storage."""
    return prod(layout.padded_dims) == storage_elements(layout)


def describe(kind: str, dtype: DataType, layout: BlockedLayout) -> str:
    """Return `f32 2x17x7x7 aBcd16b`, plus `strides 6x1` if no tag is exact, and `offset0 35` unless zero."""
    if kind == "undef":
        return "zero descriptor"
    if kind == "any":
        return f"{dtype} {_by(layout.dims)} any"
    if kind == "opaque":
        return f"{dtype} {_by(layout.dims)} {_opaque_name(layout)}"
    parts = [str(dtype), _by(layout.dims)]
    tag = _tag_without_offset(layout)
    parts += [str(tag)] if tag else [_order(layout), "strides", _by(layout.strides)]
    parts += ["offset0", str(layout.offset0)] if layout.offset0 else []
    return " ".join(parts)


def _tag_without_offset(layout: BlockedLayout) -> Tag | None:
    without_offset = BlockedLayout(layout.dims, layout.padded_dims, layout.strides, *layout.inner)
    return matching_tag(without_offset)


def verbose(name: str, kind: str, dtype: DataType, layout: BlockedLayout) -> str:
    """Return `name:dtype:props:kind:tag:strides:f0`; props p (padded), 0 (offset0); no strides if dense."""
    if kind == "undef":
        return f"{name}:undef::undef:::"
    if kind == "any":
        return f"{name}:{dtype}::any:::f0"
    if kind == "opaque":
        return f"{name}:{dtype}::opaque:{_opaque_name(layout)}::f0"
    props = ("p" if layout.padded_dims != layout.dims else "") + ("0" if layout.offset0 else "")
    if layout.has_runtime:
        return f"{name}:{dtype}:{props}:blocked:*::f0"
    strides = "" if _is_dense(layout) else _by(layout.strides)
    return f"{name}:{dtype}:{props}:blocked:{_order(layout)}:{strides}:f0"


# --- JSON --------------------------------------------------------------------
# Descriptors as plain values for JSON, and back with every value checked.

_STEPS = "inner_steps"
_LISTS = ("dims", "padded_dims", "strides", "inner_blks", "inner_idxs", _STEPS)
_FIELDS = ("format_kind", "data_type", *_LISTS, "offset0")
_MAY_BE_OPEN = ("dims", "padded_dims", "strides")
_KINDS = ("undef", "any", "blocked", "opaque")
_RUNTIME = "runtime"
_MOST_TEXT = 64 << 10
_MOST_DIGITS = 40
_HINT = "write it with to_json()"
_DICT_HINT = "write it with to_dict() or to_json()"


Read = TypeVar("Read")


class DescriptorParts(NamedTuple):
    """The parts of a descriptor."""

    kind: str
    dtype: DataType
    layout: BlockedLayout


def bad_stored(what: str, why: str, hint: str = _DICT_HINT) -> InvalidArguments:
    """Return the error for an invalid stored descriptor."""
    return fail("RS-F05", what, why, hint)


# --- to plain values ------------------------------------------------------------------------------------


def to_values(kind: str, dtype: DataType, layout: BlockedLayout) -> dict[str, Any]:
    """Return a dict of strings, integers and lists."""
    lists = {name: list(map(_dim_value, getattr(layout, name))) for name in _LISTS}
    return {"format_kind": kind, "data_type": dtype.name, **lists, "offset0": layout.offset0}


def to_text(kind: str, dtype: DataType, layout: BlockedLayout) -> str:
    """Return the same as JSON in one line."""
    load_whole("json")
    import json

    return json.dumps(to_values(kind, dtype, layout))


def _dim_value(n: int) -> int | str:
    return _RUNTIME if n == RUNTIME_DIM else n


# --- from JSON ------------------------------------------------------------------------------------------


def from_text(text: object) -> DescriptorParts:
    """Return the parts of a descriptor written as JSON; an error names the invalid key."""
    return read_text("MemoryDesc", text, from_values)


def read_text(name: str, text: object, of_values: Callable[[object], Read]) -> Read:
    """Return the value that `of_values` returns for a JSON text; errors name `name.from_json`."""
    try:
        return of_values(_parse_text(text))
    except Error as error:
        what = f"{name}.from_json: {error.what.removeprefix(f'{name}: ')}"
        raise error.with_context(what, hint=_HINT if error.hint == _DICT_HINT else error.hint) from None


def _parse_text(value: object) -> object:
    text = plain_text(value)
    if not isinstance(text, str | bytes | bytearray):
        hint = "from_dict accepts the dict of to_dict()" if isinstance(text, dict) else _HINT
        raise refuse("RS-F05:text-no-text", type=type(text).__name__, hint=hint)
    if len(text) > _MOST_TEXT:
        raise refuse("RS-F05:text-too-long", most_text=_MOST_TEXT >> 10)
    load_whole("json")
    import json

    try:
        plain = text if isinstance(text, str) else bytes(text).decode()
        return json.loads(
            plain, object_pairs_hook=_unique_keys, parse_int=_parse_integer, parse_constant=_refuse_constant
        )
    except Error:
        raise
    except RecursionError:
        raise refuse("RS-F05:text-nested-too") from None
    except ValueError as error:
        raise refuse("RS-F05:text-no-json", reason=str(error)[:200]) from None


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise refuse("RS-F05:key-stands-twice", key=short_repr(key))
        values[key] = value
    return values


def _parse_integer(digits: str) -> int:
    """Parse an integer; one with very many digits is truncated to one that is still out of range."""
    return int(digits[:_MOST_DIGITS])


def _refuse_constant(name: str) -> NoReturn:
    raise refuse("RS-F05:no-json", name=name)


# --- from plain values ----------------------------------------------------------------------------------


def from_values(data: object) -> DescriptorParts:
    """Return the parts of a descriptor written as a dict; every value is checked as untrusted input."""
    if not isinstance(data, dict):
        raise refuse("RS-F05:stored-descriptor-dict", type=type(data).__name__)
    try:
        data = {_STEPS: [], **data}
    except Exception:  # a subclass can raise anything
        raise refuse("RS-F05:unreadable") from None
    missing = [name for name in _FIELDS if name not in data]
    if missing:
        raise refuse("RS-F05:stored-descriptor-lacks", missing=missing)
    kind = data["format_kind"]
    if not isinstance(kind, str) or kind not in _KINDS:
        raise refuse("RS-F05:format-kind", kind=short_repr(kind), kinds=", ".join(_KINDS))
    lists = {name: _without_words(data[name], name) for name in _LISTS}
    if kind == "opaque":
        return _opaque_layout(data, lists)
    return _no_layout(kind, data, lists) if kind != "blocked" else _blocked_layout(data, lists)


def _without_words(values: object, name: str) -> object:
    """Return a list with placeholders for unknown dims and strides in place of the word."""
    if not isinstance(values, list | tuple) or name not in _MAY_BE_OPEN:
        return values
    return [RUNTIME_DIM if n == _RUNTIME else n for n in values]


def _no_layout(kind: str, data: dict[str, Any], lists: dict[str, object]) -> DescriptorParts:
    """Return the parts of a descriptor without a layout, whose other fields must be empty."""
    dims = parse_dims(lists["dims"])
    layout = NO_LAYOUT if kind == "undef" else BlockedLayout(dims, dims, ())
    for name in _LISTS:
        if parse_ints(lists[name], name) != getattr(layout, name):
            raise refuse("RS-F05:descriptor-kind-no", name=name, data=short_repr(data[name]), kind=kind)
    if parse_int(data["offset0"], "offset0"):
        raise refuse("RS-F05:offset0", data=data["offset0"], kind=kind)
    if kind == "any":
        _check_axes(dims)
        return DescriptorParts(kind, _data_type(data["data_type"]), layout)
    if data["data_type"] != "undef":
        raise refuse("RS-F05:zero-descriptor-none", data=short_repr(data["data_type"]))
    return DescriptorParts(kind, DataType.undef, layout)


def _blocked_layout(data: dict[str, Any], lists: dict[str, object]) -> DescriptorParts:
    dtype, dims = _data_type(data["data_type"]), parse_dims(lists["dims"])
    _check_axes(dims)
    padded = parse_dims(lists["padded_dims"], "padded_dims")
    strides = parse_strides(lists["strides"], len(dims))
    tag = _blocks(len(dims), lists)
    _check_padding(dims, padded, tag)
    if tag.inner_blks and any(step < 0 for step in strides if step != RUNTIME_DIM):
        raise refuse("RS-F05:strides-blocked-layout", strides=strides)
    offset0 = parse_int(data["offset0"], "offset0")
    layout = BlockedLayout(dims, padded, strides, tag.inner_blks, tag.inner_idxs, tag.inner_steps, offset0)
    check_range(layout, dtype)
    return DescriptorParts("blocked", dtype, layout)


def _opaque_layout(data: dict[str, Any], lists: dict[str, object]) -> DescriptorParts:
    """Return the parts of a descriptor of weights in a Winograd format."""
    sizes = parse_dims(lists["dims"]), parse_dims(lists["padded_dims"], "padded_dims")
    strides = parse_strides(lists["strides"], len(sizes[0]))
    sizes_of, axes, steps = (parse_ints(lists[name], name) for name in _LISTS[3:])
    layout = BlockedLayout(*sizes, strides, sizes_of, axes, steps, parse_int(data["offset0"], "offset0"))
    if not is_winograd(layout) or data["data_type"] != "f32":
        raise refuse("RS-F05:opaque", layout=short_repr({name: data[name] for name in _FIELDS[1:]}))
    check_range(layout, DataType.f32)
    return DescriptorParts("opaque", DataType.f32, layout)


def _check_axes(dims: tuple[int, ...]) -> None:
    if not dims:
        raise refuse("RS-M04:dims")


def _data_type(name: object) -> DataType:
    if isinstance(name, str):
        return parse_type(name)
    raise refuse("RS-F05:name-such-f32", name=short_repr(name))


def _blocks(ndims: int, lists: dict[str, object]) -> Tag:
    """Return the inner blocks, as a tag of axes in any order."""
    blks, idxs, steps = (parse_ints(lists[name], name) for name in ("inner_blks", "inner_idxs", _STEPS))
    try:
        return Tag(tuple(range(ndims)), blks, idxs, steps)
    except InvalidArguments as error:
        why = f"{error.what}: {error.why}" if error.why else error.what
        raise bad_stored(
            f"inner_blks are {blks}, inner_idxs {idxs}, inner_steps {steps}"[:200], why, error.hint
        ) from None


def _check_padding(dims: tuple[int, ...], padded: tuple[int, ...], tag: Tag) -> None:
    whole = layout_of_tag(dims, tag).padded_dims
    fits = len(padded) == len(dims) and all(p in (n, w) for p, n, w in zip(padded, dims, whole, strict=True))
    if not fits:
        raise refuse("RS-F05:padded-dims-dims", padded=padded, dims=dims, whole=whole)
