"""Functions on several arrays: joined along an axis, or added."""

from __future__ import annotations

import struct
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int, renamed
from ..dtypes import DataType
from ..errors import Error, refuse
from ..model.base import DEFAULT_ATTR
from ..model.checks import Names
from ..ops.concat import ConcatProblem, concat_problem
from ..ops.sum import parse_scales, sum_problem
from ..runtime.memory import Memory
from .calls.array_kinds import read_from, write_to
from .calls.binder import find_call
from .calls.several import Descs, SeveralArrays, SignedArrays, common_target

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from ..typing import (
        ArrayLike,
        BlockedTag,
        FormatLike,
        OtherArray,
        Owned,
        PlainFormat,
        TypeLike,
        WholeType,
    )

__all__ = ["add_n", "concat"]


@overload
def concat(
    arrays: Iterable[OtherArray | ArrayLike],
    axis: int = 0,
    dst: FormatLike = None,
    dtype: TypeLike | None = None,
    *,
    out: Owned,
    layout: FormatLike = None,
) -> Owned: ...
@overload
def concat(
    arrays: Iterable[OtherArray | ArrayLike],
    axis: int,
    dst: BlockedTag,
    dtype: TypeLike | None = None,
) -> Memory: ...
@overload
def concat(
    arrays: Iterable[OtherArray | ArrayLike],
    axis: int = 0,
    *,
    dst: BlockedTag,
    dtype: TypeLike | None = None,
) -> Memory: ...
@overload
def concat(
    arrays: Iterable[Owned],
    axis: int = 0,
    dst: PlainFormat = None,
    dtype: WholeType = None,
    *,
    layout: PlainFormat = None,
) -> Owned: ...
@overload
def concat(
    arrays: Iterable[ArrayLike], axis: int = 0, dst: PlainFormat = None, dtype: WholeType = None
) -> NDArray[Any]: ...
@overload
def concat(
    arrays: Iterable[OtherArray | ArrayLike],
    axis: int = 0,
    dst: FormatLike = None,
    dtype: TypeLike | None = None,
    out: OtherArray | None = None,
    *,
    layout: FormatLike = None,
) -> Any: ...
def concat(
    arrays: Any,
    axis: int = 0,
    dst: Any = None,
    dtype: Any = None,
    out: Any = None,
    *,
    layout: Any = None,
) -> Any:
    """Join arrays along an axis: each may have a layout and a type of its own.

    arrays  1 to 1024 NumPy arrays, tensors of torch, `Memory` objects, or what has `__dlpack__`, equal in all
            dims but that of `axis`; where nothing is converted, of any one type of 1, 2, 4, 8 or 16 bytes
    axis    the axis along which they follow each other; negative ones count from the end
    dst     the format of the result: a tag ("nhwc", "nChw16c"), strides in elements or a `MemoryDesc`; None:
            that of the first array with blocks, else of the first, as `Concat.PrimitiveDesc` chooses it
    dtype   the type of the result; may be left out where `dst` or `out` says it, or all arrays share it
    out     where to write: an array or `Memory` of the dims of the result; it is returned. An array that lies
            in it already, in its own place, is not copied

    The result is of the kind of the first array; a blocked one, or one of 4-bit elements, is a `Memory`.
    `layout` is the older name of `dst`.

    Raises InvalidArguments, before anything is written, for shapes, types and formats that do not fit, and
    for an `out` that is read-only or overlaps an array anywhere else.

    >>> import numpy as np, restride as rs
    >>> rs.concat([np.zeros((1, 2), np.int8), np.ones((1, 2), np.int8)])
    array([[0, 0],
           [1, 1]], dtype=int8)
    """
    dst = renamed("concat: dst", dst, layout=layout) if layout is not None else dst
    signed = _signed(("concat", axis), arrays, dst, dtype, out) if type(axis) is int else None
    is_done, made = _remembered(signed, out)
    if is_done:
        return made
    try:
        call = SeveralArrays("concat", arrays, dst, dtype, out)
        number = call.axis_of(parse_int(axis, "concat: axis"))
        problem = _concat_problem(call.descs, number, call.dst, call.dtype, call.names)
        return call.run(problem, signed)
    except Error as error:
        error.drop_frames()
        raise


@overload
def add_n(
    arrays: Iterable[OtherArray | ArrayLike],
    scales: Iterable[float] | None = None,
    dtype: TypeLike | None = None,
    *,
    out: Owned,
) -> Owned: ...
@overload
def add_n(
    arrays: Iterable[Owned], scales: Iterable[float] | None = None, dtype: WholeType = None
) -> Owned: ...
@overload
def add_n(
    arrays: Iterable[OtherArray | ArrayLike],
    scales: Iterable[float] | None = None,
    dtype: TypeLike | None = None,
    out: OtherArray | None = None,
) -> Any: ...
def add_n(arrays: Any, scales: Any = None, dtype: Any = None, out: Any = None) -> Any:
    """Add arrays of the same dims in one pass: `scales[0] * arrays[0] + scales[1] * arrays[1] + ...`.

    arrays  1 to 1024 NumPy arrays, tensors of torch, `Memory` objects, or what has `__dlpack__`, of any
            layouts and types
    scales  one number for each, rounded to f32; None: all are 1
    dtype   the type of the result; may be left out where `out` says it, or all arrays share it
    out     where to write: an array or `Memory` of the same dims; it is returned, and may be one of `arrays`

    Arrays are added in their order, as f32; as f64 where one is f64, or where integers, s32 among them, are
    added with scales of 1. The result is rounded and saturated once (N1). It is of the kind of the first
    array, in the format of the first one with blocks, else of the first.

    Raises InvalidArguments, before anything is written, for shapes and types that do not fit, and for an
    `out` that is read-only or overlaps an array that is laid out otherwise.

    >>> import numpy as np, restride as rs
    >>> rs.add_n([np.full(3, 100, np.uint8), np.full(3, 100, np.uint8), np.full(3, 100, np.uint8)])
    array([255, 255, 255], dtype=uint8)
    """
    scales_key = _scales_key(scales)
    signed = None if scales_key is None else _signed(("add_n", scales_key), arrays, None, dtype, out)
    is_done, made = _remembered(signed, out)
    if is_done:
        return made
    try:
        call = SeveralArrays("add_n", arrays, None, dtype, out)
        factors = parse_scales("add_n", scales, len(call.descs))
        target = common_target(call.names, call.descs, call.descs[0].dims, call.dst, call.dtype)
        problem = sum_problem(factors, call.descs, target, DEFAULT_ATTR, call.names)
        return call.run(problem, signed)
    except Error as error:
        error.drop_frames()
        raise


# --- calls whose signature is known -------------------------------------------------------------------------

_LAYOUTS = (type(None), str, MemoryDesc)
_TYPES = (type(None), str, DataType)
_NUMPY_TYPES = (type, np.dtype)
# Integers that f32 holds, and so does the double that stands for them in a key.
_WHOLE = 1 << 24


def _signed(how: Hashable, arrays: Any, dst: Any, dtype: Any, out: Any) -> SignedArrays | None:
    """What a call is remembered by; None where its arguments are not plain. `how`: call and number."""
    if type(arrays) not in (list, tuple):
        return None
    if type(dst) not in _LAYOUTS or not (type(dtype) in _TYPES or isinstance(dtype, _NUMPY_TYPES)):
        return None
    target = None if out is None else write_to(out)
    sources = [source for x in arrays if (source := read_from(x)) is not None]
    if len(sources) < len(arrays) or (target is None and out is not None):
        return None
    kinds = tuple([source[0] for source in sources])
    return (how, kinds, dst, type(dtype), dtype, target and target[0]), sources, target


def _scales_key(scales: Any) -> Hashable | None:
    """Scales as a key that tells 0.0 from -0.0; None for what is no plain number."""
    if scales is None:
        return ()
    if type(scales) not in (list, tuple) or not all(map(_is_plain_number, scales)):
        return None
    return struct.pack(f"{len(scales)}d", *scales)


def _is_plain_number(value: object) -> bool:
    return type(value) is float or (type(value) is int and -_WHOLE <= value <= _WHOLE)


def _remembered(signed: SignedArrays | None, out: Any) -> tuple[bool, Any]:
    """Whether a call of this signature was known and has been done, and its result."""
    if signed is None:
        return False, None
    signature, sources, target = signed
    call = find_call(signature)
    if call is None:
        return False, None
    is_done, made = call.join(sources, target)
    return is_done, made if out is None else out


# --- problems -----------------------------------------------------------------------------------------------


def _concat_problem(descs: Descs, axis: int, dst: Any, dtype: DataType | None, names: Names) -> ConcatProblem:
    number = axis + descs[0].ndims if axis < 0 else axis
    inside = range(descs[0].ndims)
    if number not in inside:
        raise refuse("RS-A10:bad-axis", axis=axis, descs=descs[0], count=len(inside), last=len(inside) - 1)
    whole = sum(md.dims[number] for md in descs if number < md.ndims)
    dims = (*descs[0].dims[:number], whole, *descs[0].dims[number + 1 :])
    target = common_target(names, descs, dims, dst, dtype)
    return concat_problem(number, descs, target, DEFAULT_ATTR, names)
