"""ONNX operators on elements, each at its index: functions, sums, products, types.

Most are rows of an operation in `ops/`, as `rows.py` says.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np

from ....dtypes import DataType
from ....ir.conversion import INTEGER_LIMITS
from ...nodes.moves import ReorderOperation
from ...nodes.operations import BinaryOperation, PReluOperation, SumOperation
from ..operator_call import ONNX, Chosen, Operand, OperatorCall, Tensor, Value
from .known import cast
from .tensors import ELEMENTS

_INFINITY = float("inf")


@ONNX("Cast")
def _cast(call: OperatorCall, x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    if not isinstance(x, str):
        return cast(x, to)
    after, before = DataType.parse(ELEMENTS[to]), call.type_of(x)
    if after is before:
        return x
    if after.is_integral and not before.is_integral:
        raise call.unimplemented("it cuts off fractions, where restride rounds", "compute with floats there")
    if after.is_integral and not _holds(after, before):
        raise call.unimplemented(
            f"it keeps the low bits of {before}, where restride saturates", "QuantizeLinear saturates too"
        )
    return call.add(ReorderOperation(after), x)


def _holds(after: DataType, before: DataType) -> bool:
    """True where a type of integers has all values of another."""
    (least, most), (low, high) = INTEGER_LIMITS[after], INTEGER_LIMITS[before]
    return least <= low and high <= most


@ONNX("Clip")
def _clip(
    call: OperatorCall,
    x: Chosen,
    min: Annotated[float, "min"] = -_INFINITY,
    max: Annotated[float, "max"] = _INFINITY,
) -> Value:
    """The largest of the lower limit, and the least of that and the upper one, which has the last word."""
    low = max if max < min else min
    if low == 0 and max == _INFINITY:
        return call.function(x, "relu")
    if call.type_of(x) is not DataType.f64:
        return call.function(x, "clip", low, max)
    return call.binary("min", call.binary("max", x, np.array(low)), np.array(max))


@ONNX("Pow")
def _pow(
    call: OperatorCall, x: Value, exponent: Value, *, axis: int | None = None, broadcast: int = 0
) -> Value:
    """Before version 7 an exponent is broadcast where that is said; one number is so everywhere."""
    if not isinstance(x, str) and not isinstance(exponent, str):
        return np.asarray(np.power(x, exponent).astype(x.dtype))
    call.check_types(x)
    if isinstance(exponent, str) or exponent.size != 1 or exponent.ndim > len(call.dims(x)):
        raise call.unimplemented("its exponent is no single known number", "use Exp and Log")
    number = float(exponent.reshape(()))
    if number == 2:
        return call.function(x, "square")
    if float(np.float32(number)) != number:
        raise call.unimplemented(f"its exponent {number} is no f32", "use Exp and Log")
    return call.function(x, "pow", 1.0, number)


@ONNX("PRelu")
def _prelu(call: OperatorCall, x: Tensor, slope: Operand) -> Value:
    return call.add(PReluOperation(), x, call.of_rank(slope, len(call.dims(x))))


@ONNX("Sum")
def _sum(call: OperatorCall, *xs: Operand) -> Value:
    if len(xs) > 2 and len({call.dims(x) for x in xs}) == 1:
        return call.add(SumOperation((1.0,) * len(xs)), *xs)
    total = xs[0]
    for x in xs[1:]:
        total = call.binary("add", total, x)
    return total


@ONNX("Where")
def _where(call: OperatorCall, condition: Chosen, x: Chosen, y: Chosen) -> Value:
    values = [x, y, condition]
    arrays = [value for value in values if not isinstance(value, str)]
    if len(arrays) == 3:
        return np.where(arrays[2], *arrays[:2])
    rank = max(len(call.dims(value)) for value in values)
    return call.add(BinaryOperation("binary_select"), *(call.of_rank(value, rank) for value in values))
