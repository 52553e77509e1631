"""ONNX's QuantizeLinear and DequantizeLinear, which quantized models have around their operators.

    quantized    = saturated(round(x / scale) + zero_point)        to nearest, ties to even
    dequantized  = (q - zero_point) * scale

Scales and zero points are scalars, or one per index of an axis, or one per block of such indices. If they are
known, `rewrites/integers.py` turns what is between the two into an integer computation where it can; the rest
is f32 arithmetic.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, prod

import numpy as np

from ....dtypes import DataType
from ....model.result_dims import Misfit
from ....runtime.alloc import Array
from ...dims import Dims
from ...nodes.moves import ReorderOperation
from ...nodes.operations import AS_F32, DequantizeOperation, QuantizeOperation, in_groups
from ..operator_call import ONNX, OperatorCall, Value
from .known import axis_of
from .tensors import ELEMENTS

_F32 = np.float32
_BYTES = DataType.u8, DataType.s8
_SHORT = DataType.u16, DataType.s16, DataType.u4, DataType.s4
_FLOATS = DataType.f8_e4m3, DataType.f8_e5m2, DataType.f4_e2m1
_F32_NUMBER = 1
WEIGHTS = (*_BYTES, DataType.u4, DataType.s4, *_FLOATS)
"""Operators whose constants stay as stored, up to their reader."""
_STORED = {np.dtype(np.int32)} | {kind.numpy for kind in WEIGHTS}
_NUMBERS = {dtype: number for number, dtype in ELEMENTS.items()}


@dataclass(frozen=True, slots=True)
class _QuantizationForm:
    """Attributes of both operators; `precision` and `saturate` only matter for unsupported types."""

    axis: int = 1
    block_size: int = 0
    output_dtype: int = 0
    precision: int = 0
    saturate: int = 1


@ONNX("QuantizeLinear", "com.microsoft.QuantizeLinear")
def _quantize(
    call: OperatorCall, x: Value, scale: Value, zero: Value | None = None, *, form: _QuantizationForm
) -> Value:
    number = form.output_dtype
    twin = ELEMENTS.get(number or 2) if number or zero is None else call.numpy_type(zero)
    kind = None if twin is None else DataType.parse(twin)
    if twin is None or kind not in (*_BYTES, *_SHORT, *_FLOATS):
        raise call.unimplemented(
            f"it quantizes to {twin or number}",
            "supported are integers of 4, 8 and 16 bits, and floats of 4 and 8",
        )
    is_short, is_float = kind in _SHORT, kind in _FLOATS
    if is_short or is_float or isinstance(scale, str) or isinstance(zero, str):
        apart = call.with_outputs(0)
        quotient = apart.onnx("Div", x, _spread(call, x, scale, form))
        if is_float:
            if isinstance(zero, np.ndarray) and zero.astype(_F32).any():
                raise Misfit("its result is floating-point, and its zero point is not 0")
            return call.onnx("Cast", quotient, to=_NUMBERS[twin], saturate=form.saturate)
        rounded = apart.onnx("Round", quotient)
        if zero is not None:
            offset = apart.onnx("Cast", _spread(call, x, zero, form), to=_F32_NUMBER)
            rounded = apart.onnx("Add", rounded, offset)
        return call.add(ReorderOperation(DataType.parse(twin)), rounded)
    if scale.dtype != _F32:
        raise call.unimplemented(f"its scale is {scale.dtype}", "make it f32")
    scale, offset = (in_groups(n, call.dims(x)).astype(_F32) for n in _numbers(call, x, scale, zero, form))
    if not isinstance(x, str):
        limits = np.iinfo(twin)
        return np.asarray(np.clip(np.rint(x / scale) + offset, limits.min, limits.max), twin)
    if call.type_of(x) is not DataType.f32:
        raise call.unimplemented(f"it quantizes {call.type_of(x)}", "cast it to f32 first")
    rank = len(call.dims(x))
    return call.add(
        QuantizeOperation(DataType.parse(twin)), x, *(call.of_rank(n, rank) for n in (scale, offset))
    )


@ONNX("DequantizeLinear", "com.microsoft.DequantizeLinear")
def _dequantize(
    call: OperatorCall, x: Value, scale: Value, zero: Value | None = None, *, form: _QuantizationForm
) -> Value:
    if isinstance(scale, str) or isinstance(zero, str):
        apart = call.with_outputs(0)
        reals = apart.onnx("Cast", x, to=_F32_NUMBER)
        if zero is not None:
            offset = apart.onnx("Cast", _spread(call, x, zero, form), to=_F32_NUMBER)
            reals = apart.onnx("Sub", reals, offset)
        factor = _spread(call, x, scale, form)
        return call.onnx(
            "CastLike", apart.onnx("Mul", reals, apart.onnx("Cast", factor, to=_F32_NUMBER)), scale
        )
    kind = ELEMENTS.get(form.output_dtype, scale.dtype)
    if call.type_of(np.empty(0, kind)) not in AS_F32 or call.type_of(scale) not in AS_F32:
        raise call.unimplemented(f"its scale is {scale.dtype}, and its result {kind}", "make both f32")
    scale, offset = _numbers(call, x, scale, zero, form)
    if not isinstance(x, str) and (x.size == 1 or x.dtype not in _STORED):
        scale, offset = (in_groups(n, x.shape).astype(_F32) for n in (scale, offset))
        return np.asarray((x.astype(_F32) - offset) * scale, kind)
    return dequantized(call, call.placed(x), scale, offset, DataType.parse(kind))


def dequantized(call: OperatorCall, x: str, scale: Array, zero: Array, data_type: DataType) -> str:
    """Return `(x - zero) * scale` of a tensor, with scales and zero points of groups of its elements."""
    rank, name = len(call.dims(x)), next(iter(call.node.outputs), "")
    numbers = (call.of_rank(n, rank) for n in (scale, zero))
    name = name if call.builder.is_free(name) else ""
    return call.builder.add(DequantizeOperation(), x, *numbers, name=name, data_type=data_type)


def check_blocks(dims: Dims, own: Dims, axis: int, size: int) -> None:
    """Raise Misfit unless there is one scale for each block of `size` elements of an axis."""
    wanted = (*dims[:axis], -(-dims[axis] // max(size, 1)), *dims[axis + 1 :])
    if size < 1 or own != wanted:
        raise Misfit(f"scales of {own} do not fit blocks of {size} along axis {axis} of {dims}")


def _spread(call: OperatorCall, x: Value, numbers: Value, form: _QuantizationForm) -> Value:
    """Reshape scales or zero points so that they broadcast along the axes of the tensor."""
    dims, own = call.dims(x), call.dims(numbers)
    if prod(own) == 1 and not form.block_size:
        return call.reshaped(numbers, ())
    axis = axis_of(form.axis, len(dims))
    if form.block_size:
        check_blocks(dims, own, axis, form.block_size)
        apart = call.with_outputs(0)
        parts = call.reshaped(numbers, (*own[: axis + 1], 1, *own[axis + 1 :]))
        blocks = (*own[: axis + 1], form.block_size, *own[axis + 1 :])
        repeated = apart.onnx("Expand", parts, blocks)
        whole = (*own[:axis], own[axis] * form.block_size, *own[axis + 1 :])
        return apart.onnx("Slice", apart.reshaped(repeated, whole), (0,), (dims[axis],), (axis,))
    if own != dims[axis : axis + 1]:
        raise Misfit(f"scales of {own} do not fit the extent {dims[axis]} of axis {axis}")
    return call.reshaped(numbers, (*own, *(1,) * (len(dims) - axis - 1)))


def _numbers(
    call: OperatorCall, x: Value, scale: Array, zero: Array | None, form: _QuantizationForm
) -> tuple[Array, Array]:
    """Return scales and zero points of groups of elements, in dims that divide those of the tensor."""
    zero = np.zeros(scale.shape, np.uint8) if zero is None else zero
    if scale.shape != zero.shape and scale.size != zero.size:
        raise Misfit(f"there are {scale.size} scales but {zero.size} zero points")
    is_weight = not isinstance(x, str) or call.builder.known(x) is not None
    if not is_weight and not np.all(scale > 0):
        raise Misfit("a scale is not positive")
    dims = call.dims(x)
    if scale.size == 1 and not form.block_size:
        return scale.reshape(()), zero.reshape(())
    axis = axis_of(form.axis, len(dims))
    if form.block_size:
        check_blocks(dims, scale.shape, axis, form.block_size)
        size = gcd(dims[axis], form.block_size)
        parts, count = form.block_size // size, dims[axis] // size
        return whole_groups(scale, axis, parts, count), whole_groups(zero, axis, parts, count)
    if scale.size != dims[axis]:
        raise Misfit(f"{scale.size} scales do not fit the extent {dims[axis]} of axis {axis}")
    shape = (-1, *(1,) * (len(dims) - axis - 1))
    return scale.reshape(shape), zero.reshape(shape)


def whole_groups(values: Array, axis: int, parts: int, count: int) -> Array:
    """Expand scales of blocks, the last of which may be incomplete, to `parts` parts of each."""
    return values.repeat(parts, axis)[(*(slice(None),) * axis, slice(count))]
