"""ONNX's QuantizeLinear and DequantizeLinear, as models of integers have them around their operators.

    quantised    = saturated(round(x / scale) + zero_point)        to the nearest, halves to even
    dequantised  = (q - zero_point) * scale

Scales and zero points are known, one of each, or one for each place of an axis. `rewrites/integers.py` makes
what is between the two a computation of integers, where it can; the rest becomes arithmetic of f32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ....dtypes import DataType
from ....runtime.alloc import Array
from ...nodes.operations import DequantizeOperation, QuantizeOperation
from .context import OnnxContext, Value
from .known import axis_of
from .tensors import ELEMENTS

__all__ = ["dequantize", "quantize"]

_F32 = np.float32
_INTEGERS = ("u1", "i1", "i4")


def quantize(context: OnnxContext) -> Value:
    """QuantizeLinear to u8 and s8."""
    scale, zero = _numbers(context)
    twin = _type(context)
    source = context.known(0)
    if source is not None:
        limits = np.iinfo(twin)
        return np.asarray(np.clip(np.rint(source / scale) + zero, limits.min, limits.max), twin)
    name = context.tensor(0)
    if context.builder.type(name).data_type is not DataType.f32:
        kind = context.builder.type(name).data_type
        raise context.unimplemented(f"it quantises {kind}", "cast it to f32 before")
    numbers = _placed(context, scale, zero)
    return context.add(QuantizeOperation(DataType.parse(twin)), name, *numbers)


def dequantize(context: OnnxContext) -> Value:
    """DequantizeLinear of u8, s8 and s32."""
    scale, zero = _numbers(context)
    if context.attribute("output_dtype", 0) not in (0, 1):
        raise context.unimplemented(
            "its result is of another type than f32", "leave output_dtype out, and cast"
        )
    source = context.known(0)
    if source is not None and (source.size == 1 or source.dtype.str[1:] not in _INTEGERS):
        return ((source.astype(_F32) - zero) * scale).astype(_F32)
    return context.add(DequantizeOperation(), context.tensor(0), *_placed(context, scale, zero))


def _placed(context: OnnxContext, *numbers: Array) -> list[str]:
    """Scales and zero points as tensors of the rank of what they are for."""
    rank = len(context.dims(0))
    return [context.of_rank(each, rank) for each in numbers]


def _numbers(context: OnnxContext) -> tuple[Array, Array]:
    """Scale and zero point as f32, in a shape that is repeated along the axes of the tensor."""
    if context.attribute("block_size", 0):
        raise context.unimplemented("it has a scale for each block")
    scale = context.needed(1, "the scale")
    if scale.dtype != _F32:
        raise context.unimplemented(f"its scale is {scale.dtype}", "make it f32")
    zero = context.needed(2, "the zero point") if context.has(2) else np.zeros(scale.shape, np.uint8)
    if scale.shape != zero.shape and scale.size != zero.size:
        raise ValueError(f"{scale.size} scales and {zero.size} zero points")
    if not np.all(scale > 0):
        raise ValueError("a scale is not above 0")
    dims = context.dims(0)
    if scale.size == 1:
        return scale.reshape(()), zero.astype(_F32).reshape(())
    axis = axis_of(context.attribute("axis", 1), len(dims))
    if scale.size != dims[axis]:
        raise ValueError(f"{scale.size} scales for {dims[axis]} places of axis {axis}")
    shape = (-1, *(1,) * (len(dims) - axis - 1))
    return scale.reshape(shape), zero.astype(_F32).reshape(shape)


def _type(context: OnnxContext) -> np.dtype[Any]:
    number = int(context.attribute("output_dtype", 0))
    found = ELEMENTS.get(number or 2) if number or not context.has(2) else context.needed(2, "it").dtype
    if found is None or found.str[1:] not in _INTEGERS[:2]:
        raise context.unimplemented(f"it quantises to {found or number}", "u8 and s8 are there")
    return found
