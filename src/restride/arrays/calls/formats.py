"""Converts `dst`, `dtype` and `out` of a call on arrays to descriptors."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...desc.parse import parse_ints, short_repr
from ...desc.tag_names import suggest_format
from ...desc.tags import MAX_NDIMS, FormatTag, GenericTag, Tag, to_tag
from ...dtypes import DataType
from ...errors import InvalidArguments, refuse
from ...foreign import plain_text
from ...runtime.describe import Described

_FORMATS = (MemoryDesc, FormatTag, Tag, GenericTag)
# Words for the format of the source.
_OWN = ("any", "preserve_format")


def format_key(dst: object) -> Hashable:
    """Return `dst` as a hashable value; strides as a tuple of Python integers.

    Raises InvalidArguments for anything but a layout, hashable or not.
    """
    if dst is None or dst is FormatTag.any:
        return None
    if isinstance(dst, _FORMATS):
        return dst
    dst = plain_text(dst)
    if isinstance(dst, str):
        return None if dst in _OWN else dst
    if type(dst) is tuple and all(type(stride) is int for stride in dst):
        return dst
    is_sequence = isinstance(dst, Sequence) and not isinstance(dst, bytes | bytearray | memoryview)
    if is_sequence or (isinstance(dst, np.ndarray) and dst.ndim == 1):
        return parse_ints(dst, "reorder: dst")
    try:
        kind = DataType.parse(dst)
    except InvalidArguments:
        raise refuse("RS-A05:no-layout", dst=short_repr(dst), type=type(dst).__name__) from None
    # The data type was passed in place of a format.
    raise refuse("RS-A05:data-type", dst=short_repr(dst), kind=kind, name=str(kind))


def tag_text(dst: object) -> str:
    """Return `dst` as the text of a tag. Raises InvalidArguments for anything else, hashable or not."""
    return dst if type(dst) is str else str(FormatTag.parse(dst))  # type: ignore[arg-type]


@lru_cache(maxsize=256)
def plain_order(call: str, dst: str, ndims: int) -> tuple[int, ...]:
    """Return the axes of a plain format, outermost first.

    Raises InvalidArguments for formats of another rank, and for blocked ones, which strides cannot describe.
    """
    tag = to_tag(dst, ndims)
    order = getattr(tag, "order", ())
    if len(order) == ndims and not getattr(tag, "inner_blks", ()):
        return tuple(order)
    raise refuse("RS-A17:no-plain-format", call=call, dst=dst, ndims=ndims)


def type_key(dtype: object) -> Hashable:
    """Return `dtype` as a hashable value. Raises InvalidArguments for anything but a type."""
    is_key = dtype is None or type(dtype) in (str, DataType, type) or isinstance(dtype, np.dtype)
    return dtype if is_key else parse_type(dtype)


def parse_type(dtype: object) -> DataType:
    """Return the data type that `dtype` names; also for objects that make NumPy raise, which name none."""
    try:
        return DataType.parse(dtype)
    except InvalidArguments as error:
        raise suggest_format(error, dtype, "dst") from None
    except Exception:
        pass
    raise refuse("RS-P15:dtype-no-data", dtype=short_repr(dtype), type=type(dtype).__name__)


def target_desc(src: MemoryDesc, dst: Any, dtype: Any) -> MemoryDesc:
    """Return the destination's descriptor: format `dst`, type `dtype`; None means as in `src`."""
    return _target(src, format_key(dst), None if dtype is None else parse_type(dtype))


@lru_cache(maxsize=1024)
def _target(src: MemoryDesc, dst: Any, data_type: DataType | None) -> MemoryDesc:
    if isinstance(dst, MemoryDesc):
        if data_type not in (None, dst.data_type):
            raise refuse("RS-A06:dtype-dst-disagree", dst=dst, data_type=data_type)
        is_open = dst.format_kind == "any" and dst.ndims == src.ndims
        return MemoryDesc(dst.dims, dst.data_type, _own_format(src)) if is_open else dst
    if dst is None and src.format_kind != "blocked":
        return src
    # By default the same order of axes and blocks, dense.
    return MemoryDesc(src.dims, data_type or src.data_type, _own_format(src) if dst is None else dst)


def _own_format(src: MemoryDesc) -> Tag | None:
    if src.format_kind != "blocked":
        return None
    order = sorted(range(src.ndims), key=lambda d: (-abs(src.strides[d]), d))
    return Tag(tuple(order), *src.layout.inner)


def out_desc(src: MemoryDesc, out: Described, dst: Any, dtype: Any) -> Described:
    """Return the descriptor of an array `out`: as `dst` and `dtype` say, or as it is where those are None.

    A blocked `dst` makes `out` its physical array. Raises InvalidArguments if `out` differs.
    """
    expected = wanted_of_out(src, out.desc, dst, dtype)
    if expected is not None and expected.inner_blks and not expected.offset0:
        physical = expected.physical_shape, expected.data_type, expected.physical_strides
        if len(physical[0]) <= MAX_NDIMS and MemoryDesc.from_strides(*physical) == out.desc:
            return Described(expected, 0)
    check_out(out.desc, expected)
    if expected is None and out.desc.dims != src.dims and (hint := _transposed(out.desc.dims, src)):
        raise refuse("RS-A07:shape-not", src=src, desc=out.desc, dims=out.desc.dims, hint=hint)
    return out


def wanted_of_out(src: MemoryDesc, out: MemoryDesc, dst: Any, dtype: Any) -> MemoryDesc | None:
    """Return the descriptor that `dst` and `dtype` require of `out`; None if they leave it open."""
    data_type = None if dtype is None else parse_type(dtype)
    if dst is not None:
        return target_desc(src, dst, data_type if isinstance(dst, MemoryDesc) else data_type or out.data_type)
    if data_type is None or data_type is out.data_type:
        return None
    raise refuse("RS-A07:elements-not", out=out, data_type=data_type)


def check_out(out: MemoryDesc, dst: MemoryDesc | None) -> None:
    """Raise InvalidArguments unless `out` has the required layout; an empty tensor can have any."""
    if dst is None or dst == out:
        return
    is_alike = dst.dims == out.dims and dst.data_type is out.data_type
    if is_alike and dst.format_kind == "blocked" and not dst.nelems:
        return
    hint = _transposed(out.dims, dst) or _AS_OUT
    raise refuse("RS-A07:out-not-lie", out=out, wanted=dst, difference=_difference(out, dst), hint=hint)


def _transposed(shape: tuple[int, ...], dst: MemoryDesc) -> str:
    """Return a hint for an `out` whose axes are in memory order, such as (N, H, W, C) for `nhwc`, or "".

    If the format has the order of the dims themselves, the shape may be that of channels last.
    """
    if dst.format_kind != "blocked" or dst.inner_blks or sorted(shape) != sorted(dst.dims):
        return ""
    rank = dst.ndims
    for order in (dst.outer_order, (0, *range(2, rank), 1)):
        if shape == tuple(dst.dims[d] for d in order if d < rank) and order != tuple(range(rank)):
            axes = ", ".join(str(order.index(d)) for d in range(rank))
            return f"dims are logical in every format: pass out.transpose({axes})"
    return ""


def _difference(out: MemoryDesc, dst: MemoryDesc) -> str:
    if out.data_type is not dst.data_type:
        return f"its elements are {out.data_type}, not {dst.data_type}"
    if dst.inner_blks and not out.inner_blks:
        return f"a blocked dst requires its physical array, dense and of shape {dst.physical_shape}"
    if out.dims != dst.dims:
        return f"its shape is {out.dims}, not {dst.dims}"
    return f"its strides are {out.strides} elements, not {dst.strides}"


_AS_OUT = "pass dst=None to use the layout of out, or let reorder create the result"
