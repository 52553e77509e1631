"""`dequantize`: elements times their scales, as real numbers (N1, N4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...desc.parse import is_scalar, parse_int, short_repr
from ...dtypes import DataType
from ...errors import Error, raises_at_the_call, refuse
from ...foreign import attribute_of
from ...runtime.describe import Subject, describe
from ...runtime.memory import Memory
from ..calls.formats import check_out, parse_type, wanted_of_out
from ..calls.memories import memory_of, wrapped
from ..calls.tensors import as_target, back_to, is_foreign, written
from ..reorders import reorder
from .quantized_tensor import QuantizedTensor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from ...typing import (
        ArrayLike,
        BlockedTag,
        Factor,
        FormatLike,
        OtherArray,
        Owned,
        PlainFormat,
        PlainTag,
        Tensor,
        TypeLike,
        WholeType,
    )

__all__ = ["dequantize"]


@overload
def dequantize(
    q: QuantizedTensor | OtherArray | ArrayLike,
    scale: Factor = None,
    zero_point: Factor = None,
    *,
    axis: int | None = None,
    dtype: TypeLike | None = None,
    dst: FormatLike = None,
    out: Owned,
) -> Owned: ...
@overload
def dequantize(
    q: QuantizedTensor | OtherArray | ArrayLike,
    scale: Factor = None,
    zero_point: Factor = None,
    *,
    axis: int | None = None,
    dtype: TypeLike | None = None,
    dst: BlockedTag,
) -> Memory: ...
@overload
def dequantize(
    q: Memory,
    scale: Factor = None,
    zero_point: Factor = None,
    *,
    axis: int | None = None,
    dtype: WholeType = None,
    dst: PlainTag | Sequence[int],
) -> NDArray[Any]: ...
@overload
def dequantize(
    q: Tensor,
    scale: Factor = None,
    zero_point: Factor = None,
    *,
    axis: int | None = None,
    dtype: WholeType = None,
    dst: PlainFormat = None,
) -> Tensor: ...
@overload
def dequantize(
    q: NDArray[Any] | ArrayLike,
    scale: Factor = None,
    zero_point: Factor = None,
    *,
    axis: int | None = None,
    dtype: WholeType = None,
    dst: PlainFormat = None,
) -> NDArray[Any]: ...
@overload
def dequantize(
    q: QuantizedTensor | OtherArray | ArrayLike,
    scale: Factor = None,
    zero_point: Factor = None,
    *,
    axis: int | None = None,
    dtype: TypeLike | None = None,
    dst: FormatLike = None,
) -> Any: ...
@raises_at_the_call
def dequantize(
    q: Any,
    scale: Any = None,
    zero_point: Any = None,
    *,
    axis: int | None = None,
    dtype: Any = None,
    dst: Any = None,
    out: Any = None,
) -> Any:
    """`scale * (q - zero_point)` as floats: the inverse of `quantize`, up to rounding.

    `q`: an array or a `Memory`, or a `QuantizedTensor`, which has its scales. Scales and zero points of as
    many dims as `q`, at least two, are of groups: arrays or memories of any layout, and the zero point may be
    one number. Otherwise `scale` and
    `zero_point` are one number, or with `axis` one for each index of that axis. `dst` and `out` as in
    `reorder`. `dtype`: that of `out`, or of a `MemoryDesc` in `dst`, unless given; else f32. Raises
    InvalidArguments for a result that is not of floats.

    >>> import numpy as np, restride as rs
    >>> rs.dequantize(np.int8([-2, 0, 3]), 0.5, 1).tolist()
    [-1.5, -0.5, 1.0]
    """
    if isinstance(q, QuantizedTensor):
        _check_unused("a QuantizedTensor has its own", scale=scale, zero_point=zero_point, axis=axis)
        return _real_numbers(q, dtype, dst, out)
    if _are_of_groups(q, scale):
        _check_unused("the dims of scales say the groups along all axes", axis=axis)
        zero = None if zero_point is None else _zeros_of(zero_point, _rank(scale))
        held = QuantizedTensor(memory_of(q, "dequantize: q"), memory_of(scale, "dequantize: scale"), zero)
        made = _real_numbers(held, dtype, dst, out)
        return back_to(q, made) if is_foreign(q) and out is None else made
    if scale is None:
        raise refuse("RS-A15:scale-none")
    kind = _type_of(out, dst) if dtype is None else parse_type(dtype)
    _check_real(kind, out, dst)
    try:
        return reorder(q, dst, dtype=kind, scale=scale, zero_point=zero_point, axis=axis, out=out)
    except Error as error:
        raise _as_ours(error) from None


def _check_unused(why: str, **parameters: Any) -> None:
    for name, value in parameters.items():
        if value is not None:
            raise refuse("RS-A15:dequantize", name=name, value=short_repr(value), why=why)


def _zeros_of(zero_point: Any, ndims: int) -> Memory:
    """Zero points as a memory, one number too."""
    if not is_scalar(zero_point):
        return memory_of(zero_point, "dequantize: zero_point")
    number = parse_int(zero_point, "dequantize: zero_point")
    if not -(1 << 31) <= number < 1 << 31:
        raise refuse("RS-A15:zero-point", number=short_repr(number))
    return Memory.from_numpy(np.full((1,) * ndims, number, np.int32))


def _check_real(kind: DataType, out: Any, dst: Any) -> None:
    if kind.kind != "float":
        raise refuse(
            "RS-A15:result-real-numbers"
            if out is None and dst is None
            else "RS-A15:result-real-numbers-of-out",
            kind=kind,
        )


def _are_of_groups(q: Any, scale: Any) -> bool:
    """True for scales of as many dims as the tensor, which has several."""
    return _rank(scale) > 1 and _rank(scale) == _rank(q)


def _rank(x: Any) -> int:
    """The number of axes of an array of any library; 0 for what is none."""
    found = attribute_of(x, "ndim")
    return found if type(found) is int else 0


def _real_numbers(held: QuantizedTensor, dtype: Any, dst: Any, out: Any) -> Any:
    kind = _type_of(out, dst) if dtype is None else parse_type(dtype)
    _check_real(kind, out, dst)
    try:
        if out is not None:
            return _write(held, dtype, dst, out)
        made = held.dequantize(kind, dst)
    except Error as error:
        raise _as_ours(error) from None
    return made if made.desc.inner_blks or kind.bits < 8 else np.asarray(made)


def _write(held: QuantizedTensor, dtype: Any, dst: Any, out: Any) -> Any:
    array = as_target(out, "dequantize: out")
    target = array if isinstance(array, Memory) else wrapped(array, Subject.target("dequantize"))
    check_out(target.desc, wanted_of_out(held.values.desc, target.desc, dst, dtype))
    held.dequantize(out=target)
    return written(out)


def _as_ours(error: Error) -> Error:
    """An error of `reorder`, which does the work, under the name of the call."""
    what = error.what.replace("reorder: x cannot", "reorder: q cannot", 1)
    return error.with_context(what.replace("reorder: ", "dequantize: ", 1))


def _type_of(out: Any, dst: Any) -> DataType:
    """The type of what is written, where it is there already; else f32."""
    if out is None:
        return dst.data_type if isinstance(dst, MemoryDesc) else DataType.f32
    if isinstance(out, Memory):
        return out.desc.data_type
    return describe(as_target(out, "dequantize: out"), None, Subject.target("dequantize")).desc.data_type
