"""ONNX operators on quantized integers: sums of their products, and functions of the values they represent.

    integers    sum((x - zero) * (w - its zero))     sums are of 32 bits, and wrap
    others      quantized(f(dequantized x, ...))

If scales, zero points and weights are known, products take the second form too: the pass
`rewrites/integers.py` finds the integer sums in it, and fuses what follows. Otherwise, sums are computed from
those without zero points:

    sum(x * w) - zero * sum(w) - its zero * sum(x) + zero * its zero * sum(1)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ....dtypes import DataType
from ....runtime.alloc import Array
from ..operator_call import ONNX, Made, OperatorCall, Tensor, Value
from .layers import matrix_product
from .windows import OnnxWindow, convolution_of

_F32, _S32 = 1, 6
_MICROSOFT = "com.microsoft"
_Product = Callable[[Value, Value], Value]

# --- sums of products ---------------------------------------------------------------------------------------


def _is_zero(number: Value | None) -> bool:
    return number is None or (isinstance(number, np.ndarray) and not number.any())


def _without_zero_points(
    call: OperatorCall,
    product: _Product,
    factors: Sequence[Value],
    ones: Sequence[Array],
    zeros: Sequence[Value | None],
) -> Value:
    """Sum the products of integers less their zero points. `ones`: a tensor of ones in place of a factor;
    `zeros`: zero points in dims that broadcast to the result.
    """
    (x, w), (of_x, of_w) = factors, ones
    first, second = (None if _is_zero(n) else call.onnx("Cast", n, to=_S32) for n in zeros)
    total = product(x, w)
    if first is not None:
        total = call.onnx("Sub", total, call.onnx("Mul", first, product(of_x, w)))
    if second is not None:
        total = call.onnx("Sub", total, call.onnx("Mul", second, product(x, of_w)))
    if first is not None and second is not None:
        both = call.onnx("Mul", call.onnx("Mul", first, second), product(of_x, of_w))
        total = call.onnx("Add", total, both)
    return total


def _matrices(
    call: OperatorCall, left: Value, right: Value, left_zero: Value | None, right_zero: Value | None
) -> Value:
    """Multiply matrices of integers; zero points are scalars, or per row (left) and column (right)."""
    apart = call.with_outputs(0)
    ranks = [len(call.dims(x)) for x in (left, right)]
    left = call.reshaped(left, (1, *call.dims(left))) if ranks[0] == 1 else left
    right = call.reshaped(right, (*call.dims(right), 1)) if ranks[1] == 1 else right
    terms = call.dims(left)[-1]
    ones = np.ones((1, terms), np.uint8), np.ones((terms, 1), np.int8)

    def product(a: Value, b: Value) -> Value:
        return matrix_product(apart, call.placed(a), call.placed(b), DataType.s32)

    zeros = _of_rows(call, left_zero), right_zero
    total = _without_zero_points(apart, product, (left, right), ones, zeros)
    dims = call.dims(total)
    dims = (*dims[:-2], dims[-1]) if ranks[0] == 1 else dims
    return call.reshaped(total, dims[:-1] if ranks[1] == 1 else dims)


def _of_rows(call: OperatorCall, numbers: Value | None) -> Value | None:
    """Return the numbers of the rows of a matrix as a column."""
    if numbers is None or len(call.dims(numbers)) != 1:
        return numbers
    return call.reshaped(numbers, (*call.dims(numbers), 1) if prod(call.dims(numbers)) > 1 else ())


@ONNX("MatMulInteger")
def _matmul_integer(
    call: OperatorCall,
    left: Value,
    right: Value,
    left_zero: Value | None = None,
    right_zero: Value | None = None,
) -> Value:
    return _matrices(call, left, right, left_zero, right_zero)


def _windows(
    call: OperatorCall,
    factors: Sequence[Value],
    zeros: Sequence[Value | None],
    window: OnnxWindow,
    group: int,
) -> Value:
    """Convolve integers, padding the source with its zero point."""
    apart, (x, weights) = call.with_outputs(0), factors
    ones = (
        np.ones((1, *call.dims(x)[1:]), np.uint8),
        np.ones((1, *call.dims(weights)[1:]) if group == 1 else call.dims(weights), np.int8),
    )

    def product(a: Value, b: Value) -> Value:
        operation, grouped = convolution_of(apart, a, b, window, group)
        return apart.builder.add(operation, apart.placed(a), apart.placed(grouped), data_type=DataType.s32)

    of_outputs = _of_outputs(call, zeros[1], len(call.dims(x)))
    return _without_zero_points(apart, product, factors, ones, (zeros[0], of_outputs))


def _of_outputs(call: OperatorCall, numbers: Value | None, rank: int) -> Value | None:
    """Reshape one number per output channel to the dims of the result."""
    if numbers is None:
        return None
    count = prod(call.dims(numbers))
    return call.reshaped(numbers, (count, *(1,) * (rank - 2)) if count > 1 else ())


@ONNX("ConvInteger")
def _conv_integer(
    call: OperatorCall,
    x: Value,
    weights: Value,
    x_zero: Value | None = None,
    weights_zero: Value | None = None,
    *,
    window: OnnxWindow,
    group: int = 1,
) -> Value:
    return _windows(call, (x, weights), (x_zero, weights_zero), window, group)


# --- sums that are quantized --------------------------------------------------------------------------------


def _are_known(*values: Value | None) -> bool:
    return not any(isinstance(value, str) for value in values)


def _real(call: OperatorCall, total: Value, *scales: Value) -> Value:
    """Scale sums of integers."""
    factor = scales[0] if len(scales) == 1 else call.onnx("Mul", *scales)
    return call.onnx("Mul", call.onnx("Cast", total, to=_F32), factor)


@ONNX("QLinearMatMul", f"{_MICROSOFT}.QLinearMatMul")
def _quantized_matmul(
    call: OperatorCall,
    left: Value,
    left_scale: Value,
    left_zero: Value,
    right: Value,
    right_scale: Value,
    right_zero: Value,
    scale: Value,
    zero: Value,
) -> Value:
    apart = call.with_outputs(0)
    known = _are_known(left_scale, left_zero, right, right_scale, right_zero, scale, zero)
    if known and prod(call.dims(left_scale)) == 1:
        first = apart.onnx("DequantizeLinear", left, left_scale, left_zero)
        second = apart.onnx("DequantizeLinear", right, right_scale, right_zero, axis=-1)
        real = apart.onnx("MatMul", first, second)
    else:
        total = _matrices(apart, left, right, left_zero, right_zero)
        of_rows = _of_rows(call, left_scale)
        assert of_rows is not None
        real = _real(apart, total, of_rows, right_scale)
    return call.onnx("QuantizeLinear", real, scale, zero)


@ONNX("QLinearConv", f"{_MICROSOFT}.QLinearConv")
def _quantized_conv(
    call: OperatorCall,
    x: Value,
    x_scale: Value,
    x_zero: Value,
    weights: Value,
    weights_scale: Value,
    weights_zero: Value,
    scale: Value,
    zero: Value,
    bias: Value | None = None,
    *,
    window: OnnxWindow,
    group: int = 1,
) -> Value:
    apart, rank = call.with_outputs(0), len(call.dims(x))
    of_outputs = _of_outputs(call, weights_scale, rank)
    assert of_outputs is not None
    if _are_known(x_scale, x_zero, weights, weights_scale, weights_zero, scale, zero, bias):
        first = apart.onnx("DequantizeLinear", x, x_scale, x_zero)
        second = apart.onnx("DequantizeLinear", weights, weights_scale, weights_zero, axis=0)
        reals = [first, second]
        if bias is not None:
            factor = np.asarray(x_scale).reshape(-1) * np.asarray(weights_scale).reshape(-1)
            reals.append(np.asarray(bias).astype(np.float32) * factor)
        convolution, grouped = convolution_of(apart, first, second, window, group)
        real: Value = apart.builder.add(convolution, *map(apart.placed, (first, grouped, *reals[2:])))
    else:
        total = _windows(apart, (x, weights), (x_zero, weights_zero), window, group)
        if bias is not None:
            total = apart.onnx("Add", total, call.reshaped(bias, (*call.dims(bias), *(1,) * (rank - 2))))
        real = _real(apart, total, apart.reshaped(x_scale, ()), of_outputs)
    return call.onnx("QuantizeLinear", real, scale, zero)


# --- quantized in a run -------------------------------------------------------------------------------------


@ONNX("DynamicQuantizeLinear")
def _quantized_in_run(call: OperatorCall, x: Tensor) -> Made:
    return _quantized_by_extremes(call, x)


def _quantized_by_extremes(call: OperatorCall, x: Value) -> tuple[Value, Value, Value]:
    """Quantize to u8, mapping the minimum, the maximum, and 0 to the range."""
    apart = call.with_outputs(0)
    axes = tuple(range(len(call.dims(x))))
    least, most = (
        apart.onnx(word, apart.onnx(f"Reduce{word}", x, axes, keepdims=0), 0.0) for word in ("Min", "Max")
    )
    scale = apart.onnx("Div", apart.onnx("Sub", most, least), 255.0)
    # All zeros can have any scale; take 1, the divisor.
    scale_or_one = apart.onnx("Where", apart.onnx("Equal", scale, 0.0), 1.0, scale)
    start = apart.onnx("Round", apart.onnx("Div", apart.onnx("Neg", least), scale_or_one))
    offset = apart.onnx("Cast", apart.onnx("Clip", start, 0.0, 255.0), to=2)
    return call.onnx("QuantizeLinear", x, scale_or_one, offset), scale_or_one, offset


@ONNX(f"{_MICROSOFT}.DynamicQuantizeMatMul")
def _matmul_by_extremes(
    call: OperatorCall,
    x: Tensor,
    weights: Value,
    scale: Value,
    zero: Value | None = None,
    bias: Value | None = None,
) -> Value:
    integers, own_scale, own_zero = _quantized_by_extremes(call.with_outputs(0), x)
    real = _real_product(call, (integers, own_scale, own_zero), (weights, scale, zero))
    return real if bias is None else call.onnx("Add", real, bias)


def _real_product(
    call: OperatorCall,
    left: tuple[Value, Value, Value | None],
    right: tuple[Value, Value, Value | None],
) -> Value:
    """Multiply the values of two integer matrices, each with a scale and a zero point."""
    apart = call.with_outputs(0)
    total = _matrices(apart, left[0], right[0], left[2], right[2])
    return _real(apart, total, apart.reshaped(left[1], ()), right[1])


@ONNX(f"{_MICROSOFT}.MatMulIntegerToFloat")
def _matmul_to_real(
    call: OperatorCall,
    left: Value,
    right: Value,
    left_scale: Value,
    right_scale: Value,
    left_zero: Value | None = None,
    right_zero: Value | None = None,
    bias: Value | None = None,
) -> Value:
    real = _real_product(call, (left, left_scale, left_zero), (right, right_scale, right_zero))
    return real if bias is None else call.onnx("Add", real, bias)


# --- functions of the values of integers --------------------------------------------------------------------


def _real_sources(call: OperatorCall, operands: Sequence[Value | None]) -> list[Value]:
    """Dequantize tensors that are each passed with a scale and a zero point."""
    triples = [operands[at : at + 3] for at in range(0, len(operands), 3)]
    return [call.onnx("DequantizeLinear", *triple) for triple in triples]


def _quantized_function(operator: str, sources: int) -> Callable[..., Value]:
    def run(call: OperatorCall, *operands: Value | None, **attributes: Any) -> Value:
        apart, count = call.with_outputs(0), 3 * sources
        if attributes.pop("channels_last", 0):
            raise call.unimplemented("its channels are last", "convert the model to channels first")
        attributes.pop("opset", None)
        reals = _real_sources(apart, operands[:count])
        result = apart.onnx(operator, *reals, **attributes)
        return call.onnx("QuantizeLinear", result, *operands[count : count + 2])

    return run


_FUNCTIONS: Mapping[str, tuple[str, int]] = {
    "QLinearAdd": ("Add", 2),
    "QLinearMul": ("Mul", 2),
    **{
        f"QLinear{name}": (name, 1)
        for name in ("AveragePool", "GlobalAveragePool", "LeakyRelu", "Sigmoid", "Softmax")
    },
}
for _name, _row in _FUNCTIONS.items():
    ONNX(f"{_MICROSOFT}.{_name}")(_quantized_function(*_row))


@ONNX(f"{_MICROSOFT}.QLinearConcat")
def _quantized_concat(
    call: OperatorCall, scale: Value, zero: Value, *operands: Value | None, axis: int
) -> Value:
    apart = call.with_outputs(0)
    return call.onnx(
        "QuantizeLinear", apart.onnx("Concat", *_real_sources(apart, operands), axis=axis), scale, zero
    )
