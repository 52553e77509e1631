"""`dequantize`: elements multiplied by their scales, as real numbers (N1, N4)."""

from __future__ import annotations

from typing import Any

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

__all__ = ["dequantize"]


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
    """Return `scale * (q - zero_point)` as floats: the inverse of `quantize`, up to rounding.

    `q`: an array or a `Memory`, or a `QuantizedTensor`, which has its own scales. Scales and zero points with
    as many dims as `q`, at least two, are for groups: arrays or memory objects of any layout; the zero point
    can also be one number. Otherwise `scale` and `zero_point` are one number, or with `axis` one for each
    index of that axis. `dst` and `out` as in `reorder`. `dtype`: by default that of `out`, or of a
    `MemoryDesc` in `dst`, else f32. Raises InvalidArguments unless the result has floats.

    >>> import numpy as np, restride as rs
    >>> rs.dequantize(np.int8([-2, 0, 3]), 0.5, 1).tolist()
    [-1.5, -0.5, 1.0]
    """
    if isinstance(q, QuantizedTensor):
        _check_unused("a QuantizedTensor has its own", scale=scale, zero_point=zero_point, axis=axis)
        return _real_numbers(q, dtype, dst, out)
    rank = _rank(scale)
    if rank > 1 and rank == _rank(q):  # scales of groups
        _check_unused("the dims of the scales determine the groups along all axes", axis=axis)
        zero = None
        if zero_point is not None and is_scalar(zero_point):  # one for the whole tensor
            number = parse_int(zero_point, "dequantize: zero_point")
            if not -(1 << 31) <= number < 1 << 31:
                raise refuse("RS-A15:zero-point", number=short_repr(number))
            zero = Memory.from_numpy(np.full((1,) * rank, number, np.int32))
        elif zero_point is not None:
            zero = memory_of(zero_point, "dequantize: zero_point")
        tensor = QuantizedTensor(memory_of(q, "dequantize: q"), memory_of(scale, "dequantize: scale"), zero)
        result = _real_numbers(tensor, dtype, dst, out)
        return back_to(q, result) if is_foreign(q) and out is None else result
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


def _check_real(kind: DataType, out: Any, dst: Any) -> None:
    if kind.kind != "float":
        raise refuse(
            "RS-A15:result-real-numbers"
            if out is None and dst is None
            else "RS-A15:result-real-numbers-of-out",
            kind=kind,
        )


def _rank(x: Any) -> int:
    """Return the number of axes of an array of any library; 0 for anything else."""
    rank = attribute_of(x, "ndim")
    return rank if type(rank) is int else 0


def _real_numbers(tensor: QuantizedTensor, dtype: Any, dst: Any, out: Any) -> Any:
    kind = _type_of(out, dst) if dtype is None else parse_type(dtype)
    _check_real(kind, out, dst)
    try:
        if out is not None:
            array = as_target(out, "dequantize: out")
            target = array if isinstance(array, Memory) else wrapped(array, Subject.target("dequantize"))
            check_out(target.desc, wanted_of_out(tensor.desc, target.desc, dst, dtype))
            tensor.dequantize(out=target)
            return written(out)
        result = tensor.dequantize(kind, dst)
    except Error as error:
        raise _as_ours(error) from None
    return result if result.desc.inner_blks or kind.bits < 8 else np.asarray(result)


def _as_ours(error: Error) -> Error:
    """Rephrase an error of `reorder`, which does the work, for this function."""
    what = error.what.replace("reorder: x cannot", "reorder: q cannot", 1)
    return error.with_context(what.replace("reorder: ", "dequantize: ", 1))


def _type_of(out: Any, dst: Any) -> DataType:
    """Return the type of the destination if it exists already, else f32."""
    if out is None:
        return dst.data_type if isinstance(dst, MemoryDesc) else DataType.f32
    if isinstance(out, Memory):
        return out.desc.data_type
    return describe(as_target(out, "dequantize: out"), None, Subject.target("dequantize")).desc.data_type
