"""ONNX's QuantizeLinear and DequantizeLinear, as models of integers have them around their operators.

    quantised    = saturated(round(x / scale) + zero_point)        to the nearest, halves to even
    dequantised  = (q - zero_point) * scale

Scales and zero points are one of each, or one for each place of an axis. Where they are known
`rewrites/integers.py` makes what is between the two a computation of integers, if it can; the rest is
arithmetic of f32.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Annotated

import numpy as np

from ....dtypes import DataType
from ....runtime.alloc import Array
from ...nodes.moves import ReorderOperation
from ...nodes.operations import DequantizeOperation, QuantizeOperation
from ..operator_call import ONNX, OperatorCall, Usual, Value
from .known import axis_of
from .tensors import ELEMENTS

_F32 = np.float32
_INTEGERS = ("u1", "i1", "i4")
_F32_NUMBER = 1


@dataclass(frozen=True, slots=True)
class _QuantizationForm:
    """The attributes of both operators; `precision` and `saturate` are of types that there are not."""

    axis: int = 1
    block_size: Annotated[int, Usual("it has a scale for each block")] = 0
    output_dtype: int = 0
    precision: int = 0
    saturate: int = 1


@ONNX("QuantizeLinear")
def _quantize(
    call: OperatorCall, x: Value, scale: Value, zero: Value | None = None, *, form: _QuantizationForm
) -> Value:
    number = form.output_dtype
    twin = ELEMENTS.get(number or 2) if number or zero is None else call.numpy_type(zero)
    if twin is None or twin.str[1:] not in _INTEGERS[:2]:
        raise call.unimplemented(f"it quantises to {twin or number}", "u8 and s8 are there")
    if isinstance(scale, str) or isinstance(zero, str):
        apart = call.with_outputs(0)
        rounded = apart.onnx("Round", apart.onnx("Div", x, _spread(call, x, scale, form)))
        if zero is not None:
            offset = apart.onnx("Cast", _spread(call, x, zero, form), to=_F32_NUMBER)
            rounded = apart.onnx("Add", rounded, offset)
        return call.add(ReorderOperation(DataType.parse(twin)), rounded)
    scale, offset = _numbers(call, x, scale, zero, form)
    if not isinstance(x, str):
        limits = np.iinfo(twin)
        return np.asarray(np.clip(np.rint(x / scale) + offset, limits.min, limits.max), twin)
    kind = call.type_of(x)
    if kind is not DataType.f32:
        raise call.unimplemented(f"it quantises {kind}", "cast it to f32 before")
    rank = len(call.dims(x))
    return call.add(
        QuantizeOperation(DataType.parse(twin)), x, *(call.of_rank(n, rank) for n in (scale, offset))
    )


@ONNX("DequantizeLinear")
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
        return call.onnx("CastLike", apart.onnx("Mul", reals, apart.onnx("Cast", factor, to=_F32_NUMBER)), scale)
    scale, offset = _numbers(call, x, scale, zero, form)
    if form.output_dtype not in (0, 1):
        raise call.unimplemented("its result is of another type than f32", "leave output_dtype out, and cast")
    if not isinstance(x, str) and (x.size == 1 or x.dtype.str[1:] not in _INTEGERS):
        return ((x.astype(_F32) - offset) * scale).astype(_F32)
    rank, x = len(call.dims(x)), call.placed(x)
    return call.add(DequantizeOperation(), x, *(call.of_rank(n, rank) for n in (scale, offset)))


def _spread(call: OperatorCall, x: Value, numbers: Value, form: _QuantizationForm) -> Value:
    """Scales or zero points in a shape that is repeated along the axes of the tensor."""
    dims, own = call.dims(x), call.dims(numbers)
    if prod(own) == 1:
        return call.reshaped(numbers, ())
    axis = axis_of(form.axis, len(dims))
    if own != dims[axis : axis + 1]:
        raise ValueError(f"{own} scales for {dims[axis]} places of axis {axis}")
    return call.reshaped(numbers, (*own, *(1,) * (len(dims) - axis - 1)))


def _numbers(
    call: OperatorCall, x: Value, scale: Array, zero: Array | None, form: _QuantizationForm
) -> tuple[Array, Array]:
    """Scale and zero point as f32, in a shape that is repeated along the axes of the tensor."""
    if scale.dtype != _F32:
        raise call.unimplemented(f"its scale is {scale.dtype}", "make it f32")
    zero = np.zeros(scale.shape, np.uint8) if zero is None else zero
    if scale.shape != zero.shape and scale.size != zero.size:
        raise ValueError(f"{scale.size} scales and {zero.size} zero points")
    if not np.all(scale > 0):
        raise ValueError("a scale is not above 0")
    dims = call.dims(x)
    if scale.size == 1:
        return scale.reshape(()), zero.astype(_F32).reshape(())
    axis = axis_of(form.axis, len(dims))
    if scale.size != dims[axis]:
        raise ValueError(f"{scale.size} scales for {dims[axis]} places of axis {axis}")
    shape = (-1, *(1,) * (len(dims) - axis - 1))
    return scale.reshape(shape), zero.astype(_F32).reshape(shape)
