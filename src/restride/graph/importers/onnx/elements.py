"""ONNX operators on elements: functions, sums, products, types.

Most are rows of an operation in `ops/`; see `rows.py`.
"""

from __future__ import annotations

import numpy as np

from ....dtypes import DataType
from ....ir.conversion import INTEGER_LIMITS
from ....model.result_dims import Misfit
from ...nodes.moves import ReorderOperation
from ...nodes.operations import AS_F32, BinaryOperation, PReluOperation, SumOperation
from ..operator_call import ONNX, Operand, OperatorCall, Tensor, Value
from .known import cast
from .tensors import ELEMENTS, NUMBERS

_INFINITY = float("inf")


@ONNX("Cast")
def _cast(call: OperatorCall, x: Value, *, to: int, saturate: bool = True, round_mode: str = "up") -> Value:
    if to not in ELEMENTS:
        raise call.unimplemented(f"it casts to element type {to}", "cast to another type")
    if not isinstance(x, str):
        return cast(x, to)
    return _converted(call, x, DataType.parse(ELEMENTS[to]), saturate, round_mode)


@ONNX("CastLike")
def _cast_like(
    call: OperatorCall, x: Value, like: Value, *, saturate: bool = True, round_mode: str = "up"
) -> Value:
    after = call.type_of(like)
    return _converted(call, x, after, saturate, round_mode) if isinstance(x, str) else x.astype(after.numpy)


def _converted(call: OperatorCall, x: str, after: DataType, saturate: bool, round_mode: str) -> Value:
    """Convert as C does: truncate fractions, keep the low bits of integers, and map nonzero to true."""
    before = call.type_of(x)
    if after is before:
        return x
    if after.is_integral and after.bits < 8:
        return _low_bits(call, x, after)
    if after.is_integral and not (before.is_integral or before is DataType.boolean):
        return call.elements("truncate", x, data_type=after)
    if after.is_integral and before.is_integral and not _holds(after, before):
        return call.elements("wrap", x, data_type=after)
    if after is DataType.e8m0 and round_mode != "nearest":
        x = x if before is DataType.f32 else call.builder.add(ReorderOperation(DataType.f32), x)
        word = "power_above" if round_mode == "up" else "power_below"
        return call.elements(word, x, data_type=after, alpha=int(saturate))
    if saturate and after in (DataType.f8_e4m3, DataType.f8_e5m2):
        return call.elements("within", x, data_type=after)
    return call.add(ReorderOperation(after), x)


def _low_bits(call: OperatorCall, x: str, after: DataType) -> Value:
    """Convert to integers of 4 bits: the low bits of wider integers, computed by kernels."""
    apart, sign, mask = call.with_outputs(0), np.array(8, np.int32), np.array(15, np.int32)
    low = apart.onnx("BitwiseAnd", apart.onnx("Cast", x, to=NUMBERS[mask.dtype]), mask)
    if after is DataType.s4:
        low = apart.onnx("Sub", apart.onnx("BitwiseXor", low, sign), sign)
    return call.add(ReorderOperation(after), low)


def _holds(after: DataType, before: DataType) -> bool:
    """True if a type of integers has all values of another."""
    (least, most), (low, high) = INTEGER_LIMITS[after], INTEGER_LIMITS[before]
    return least <= low and high <= most


@ONNX("Clip")
def _clip(call: OperatorCall, x: Value, min: Value | None = None, max: Value | None = None) -> Value:
    """The maximum with the lower limit, then the minimum with the upper one, which takes precedence."""
    kind, ends = call.type_of(x), [each for each in (min, max) if each is not None]
    if not isinstance(x, str) and not any(isinstance(each, str) for each in ends):
        x = x if min is None else np.maximum(x, np.asarray(min, x.dtype))
        return x if max is None else np.minimum(x, np.asarray(max, x.dtype))
    is_small = kind in (DataType.s8, DataType.u8)
    if any(isinstance(each, str) for each in ends) or not (kind in (*AS_F32, DataType.f64) or is_small):
        # Known limits are converted to the type of x.
        ends = [each if isinstance(each, str) else each.astype(call.numpy_type(x)) for each in ends]
        names = [name for name, end in (("max", min), ("min", max)) if end is not None]
        if len(names) == 2:
            return call.elements("clip", x, *ends)
        return call.elements(names[0], x, ends[0]) if names else x
    low, high = (
        default if end is None else float(np.asarray(end).reshape(()))
        for end, default in ((min, -_INFINITY), (max, _INFINITY))
    )
    low = high if high < low else low
    if low == 0 and high == _INFINITY:
        return call.function(x, "relu")
    if kind is not DataType.f64:
        return call.function(x, "clip", low, high)
    return call.binary("min", call.binary("max", x, np.array(low)), np.array(high))


@ONNX("Pow")
def _pow(
    call: OperatorCall, x: Value, exponent: Value, *, axis: int | None = None, broadcast: int = 0
) -> Value:
    """Before version 7 an exponent is broadcast only if requested; a scalar always is."""
    if not isinstance(x, str) and not isinstance(exponent, str):
        return np.asarray(np.power(x, exponent).astype(x.dtype))
    is_one = not isinstance(exponent, str) and exponent.size == 1 and exponent.ndim <= len(call.dims(x))
    if not is_one or call.type_of(x) not in (*AS_F32, DataType.f64):
        return call.elements("pow", x, exponent)
    assert isinstance(exponent, np.ndarray)
    number = float(exponent.reshape(()))
    if number == 2:
        return call.function(x, "square")
    if float(np.float32(number)) != number:
        return call.elements("pow", x, exponent)
    return call.function(x, "pow", 1.0, number)


@ONNX("PRelu", since=7)
def _prelu(call: OperatorCall, x: Tensor, slope: Operand) -> Value:
    return call.add(PReluOperation(), x, call.of_rank(slope, len(call.dims(x))))


@ONNX("PRelu", since=1)
def _prelu_of_channels(call: OperatorCall, x: Tensor, slope: Operand) -> Value:
    """Before version 7 the slopes are one per channel."""
    rank, count = len(call.dims(x)), len(call.dims(slope))
    dims = (*call.dims(slope), *(1,) * (rank - 2)) if count == 1 and rank > 2 else call.dims(slope)
    return call.onnx("PRelu", x, call.reshaped(slope, dims))


@ONNX("Sum")
def _sum(call: OperatorCall, *xs: Operand) -> Value:
    if len(xs) > 2 and len({call.dims(x) for x in xs}) == 1:
        return call.add(SumOperation((1.0,) * len(xs)), *xs)
    total = xs[0]
    for x in xs[1:]:
        total = call.binary("add", total, x)
    return total


@ONNX("Mean")
def _mean(call: OperatorCall, *xs: Operand) -> Value:
    return call.onnx("Mul", call.with_outputs(0).onnx("Sum", *xs), 1 / len(xs))


@ONNX("Where")
def _where(call: OperatorCall, condition: Value, x: Value, y: Value) -> Value:
    if call.type_of(condition) is not DataType.boolean:
        raise Misfit(
            f"its condition is {call.type_of(condition)}", "compare it with a number, or cast it to bool"
        )
    values = [x, y, condition]
    arrays = [value for value in values if not isinstance(value, str)]
    if len(arrays) == 3:
        return np.where(arrays[2], *arrays[:2])
    if call.type_of(x) is not call.type_of(y):
        raise call.unimplemented(f"it mixes {call.type_of(x)} and {call.type_of(y)}", "cast both to one type")
    if call.type_of(x) not in AS_F32:
        return call.elements("where", condition, x, y)
    rank = max(len(call.dims(value)) for value in values)
    return call.add(BinaryOperation("binary_select"), *(call.of_rank(value, rank) for value in values))
