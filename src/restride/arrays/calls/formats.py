"""What `dst`, `dtype` and `out` of a call on arrays mean: from what people write to descriptors."""

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
    """`dst` as a value that may stand in a cache's key; strides as a tuple of Python integers.

    Raises InvalidArguments for what names no layout, whether it has a hash or not.
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
    kind = _type_named(dst)
    if kind is not None:
        raise refuse("RS-A05:data-type", dst=short_repr(dst), kind=kind, name=str(kind))
    raise refuse("RS-A05:no-layout", dst=short_repr(dst), type=type(dst).__name__)


def _type_named(value: object) -> DataType | None:
    """The data type that was passed where a format belongs."""
    try:
        return DataType.parse(value)
    except InvalidArguments:
        return None


def tag_text(dst: object) -> str:
    """`dst` as the text of a tag. Raises InvalidArguments for what is none, whether it has a hash or not."""
    return dst if type(dst) is str else str(FormatTag.parse(dst))  # type: ignore[arg-type]


@lru_cache(maxsize=256)
def plain_order(call: str, dst: str, ndims: int) -> tuple[int, ...]:
    """The axes of a plain format, outermost first.

    Raises InvalidArguments for formats of another rank, and for blocked ones, which no strides describe.
    """
    tag = to_tag(dst, ndims)
    order = getattr(tag, "order", ())
    if len(order) == ndims and not getattr(tag, "inner_blks", ()):
        return tuple(order)
    raise refuse("RS-A17:no-plain-format", call=call, dst=dst, ndims=ndims)


def type_key(dtype: object) -> Hashable:
    """`dtype` as a value that may stand in a cache's key. Raises InvalidArguments for what names no type."""
    is_key = dtype is None or type(dtype) in (str, DataType, type) or isinstance(dtype, np.dtype)
    return dtype if is_key else parse_type(dtype)


def parse_type(dtype: object) -> DataType:
    """The data type that `dtype` names; objects that NumPy chokes on name none."""
    try:
        return DataType.parse(dtype)
    except InvalidArguments as error:
        raise suggest_format(error, dtype, "dst") from None
    except Exception:
        pass
    raise refuse("RS-P15:dtype-no-data", dtype=short_repr(dtype), type=type(dtype).__name__)


def target_desc(src: MemoryDesc, dst: Any, dtype: Any) -> MemoryDesc:
    """The destination's descriptor: `dst` says the format, `dtype` the type; None stays as in `src`."""
    return _target(src, format_key(dst), None if dtype is None else parse_type(dtype))


@lru_cache(maxsize=1024)
def _target(src: MemoryDesc, dst: Any, data_type: DataType | None) -> MemoryDesc:
    if isinstance(dst, MemoryDesc):
        found = _target_of_desc(dst, data_type)
        is_open = found.format_kind == "any" and found.ndims == src.ndims
        return MemoryDesc(found.dims, found.data_type, _own_format(src)) if is_open else found
    if dst is None:
        return _same_format(src, data_type or src.data_type)
    return MemoryDesc(src.dims, data_type or src.data_type, dst)


def _target_of_desc(dst: MemoryDesc, data_type: DataType | None) -> MemoryDesc:
    if data_type is None or data_type is dst.data_type:
        return dst
    raise refuse("RS-A06:dtype-dst-disagree", dst=dst, data_type=data_type)


def _same_format(src: MemoryDesc, data_type: DataType) -> MemoryDesc:
    """The same order of axes and blocks, dense."""
    if src.format_kind != "blocked":
        return src
    return MemoryDesc(src.dims, data_type, _own_format(src))


def _own_format(src: MemoryDesc) -> Tag | None:
    if src.format_kind != "blocked":
        return None
    order = sorted(range(src.ndims), key=lambda d: (-abs(src.strides[d]), d))
    return Tag(tuple(order), *src.layout.inner)


def out_desc(src: MemoryDesc, out: Described, dst: Any, dtype: Any) -> Described:
    """The descriptor of an array `out`: as `dst` and `dtype` say; where those are None, as it lies.

    A blocked `dst` makes `out` its physical array. Raises InvalidArguments where `out` differs.
    """
    wanted = wanted_of_out(src, out.desc, dst, dtype)
    if wanted is not None and wanted.inner_blks and _physical_of(wanted) == out.desc:
        return Described(wanted, 0)
    check_out(out.desc, wanted)
    if wanted is None and out.desc.dims != src.dims and (hint := _transposed(out.desc.dims, src)):
        raise refuse("RS-A07:shape-not", src=src, desc=out.desc, dims=out.desc.dims, hint=hint)
    return out


def wanted_of_out(src: MemoryDesc, out: MemoryDesc, dst: Any, dtype: Any) -> MemoryDesc | None:
    """The descriptor that `dst` and `dtype` ask `out` to have; None where they leave it free."""
    data_type = None if dtype is None else parse_type(dtype)
    if dst is not None:
        return target_desc(src, dst, data_type if isinstance(dst, MemoryDesc) else data_type or out.data_type)
    if data_type is None or data_type is out.data_type:
        return None
    raise refuse("RS-A07:elements-not", out=out, data_type=data_type)


def check_out(out: MemoryDesc, wanted: MemoryDesc | None) -> None:
    """Raise InvalidArguments unless `out` lies as wanted; how an empty tensor lies does not matter."""
    if wanted is None or wanted == out:
        return
    is_alike = wanted.dims == out.dims and wanted.data_type is out.data_type
    if is_alike and wanted.format_kind == "blocked" and not wanted.nelems:
        return
    hint = _transposed(out.dims, wanted) or _AS_OUT
    raise refuse("RS-A07:out-not-lie", out=out, wanted=wanted, difference=_difference(out, wanted), hint=hint)


def _transposed(shape: tuple[int, ...], wanted: MemoryDesc) -> str:
    """The hint for an `out` whose axes stand in the order of memory, (N, H, W, C) for `nhwc`; "" for others.

    Where the format is that of the dims themselves, the shape may be that of channels last.
    """
    if wanted.format_kind != "blocked" or wanted.inner_blks or sorted(shape) != sorted(wanted.dims):
        return ""
    rank = wanted.ndims
    for order in (wanted.outer_order, (0, *range(2, rank), 1)):
        if shape == tuple(wanted.dims[d] for d in order if d < rank) and order != tuple(range(rank)):
            axes = ", ".join(str(order.index(d)) for d in range(rank))
            return f"dims are logical, in every format: pass out.transpose({axes})"
    return ""


def _physical_of(wanted: MemoryDesc) -> MemoryDesc | None:
    """The plain descriptor of a physical array of a blocked descriptor; None where there is none."""
    if wanted.offset0 or len(wanted.physical_shape) > MAX_NDIMS:
        return None
    return MemoryDesc.from_strides(wanted.physical_shape, wanted.data_type, wanted.physical_strides)


def _difference(out: MemoryDesc, wanted: MemoryDesc) -> str:
    if out.data_type is not wanted.data_type:
        return f"its elements are {out.data_type}, not {wanted.data_type}"
    if wanted.inner_blks and not out.inner_blks:
        return f"a blocked dst wants its physical array, dense and of shape {wanted.physical_shape}"
    if out.dims != wanted.dims:
        return f"its shape is {out.dims}, not {wanted.dims}"
    return f"its strides are {out.strides} elements, not {wanted.strides}"


_AS_OUT = "pass dst=None to take the layout of out, or let reorder make the result"
