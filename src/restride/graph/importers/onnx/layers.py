"""ONNX's softmax, log-sum-exp, and matrix products."""

from __future__ import annotations

from math import prod
from typing import Annotated

import ml_dtypes
import numpy as np

from ....dtypes import DataType
from ...nodes.layers import SoftmaxOperation
from ...nodes.operations import EltwiseOperation
from ...nodes.products import InnerProductOperation, MatmulOperation
from ..operator_call import ONNX, Ints, Operand, OperatorCall, Tensor, Value
from .known import axis_of

_SOFTMAXES = {"Softmax": "softmax_accurate", "LogSoftmax": "softmax_log"}


@ONNX("Softmax", "LogSoftmax", since=13)
def _softmax(call: OperatorCall, x: Tensor, *, axis: int = -1) -> Value:
    operation = SoftmaxOperation(_SOFTMAXES[call.node.operator], axis_of(axis, len(call.dims(x))))
    return call.add(operation, x)


@ONNX("Hardmax", since=13)
def _hardmax(call: OperatorCall, x: Tensor, *, axis: int = -1) -> Value:
    """1 at the first of the largest elements, else 0."""
    dims, values = call.dims(x), np.array([0, 1], call.type_of(x).numpy)
    first = call.with_outputs(0).onnx("ArgMax", x, axis=axis, keepdims=0)
    return call.onnx("OneHot", first, np.array(dims[axis_of(axis, len(dims))]), values, axis=axis)


@ONNX("Softmax", "LogSoftmax", "Hardmax")
def _of_all_behind(call: OperatorCall, x: Tensor, *, axis: int = 1) -> Value:
    """Before version 13: over all dims from the axis on."""
    dims, operator = call.dims(x), call.node.operator
    axis = axis_of(axis, len(dims))
    if prod(dims[axis + 1 :]) == 1:
        return call.onnx(operator, x, axis=axis)
    flat = call.reshaped(x, (prod(dims[:axis]), prod(dims[axis:])))
    return call.reshaped(call.with_outputs(0).onnx(operator, flat, axis=1), dims)


# --- logarithms of sums -------------------------------------------------------------------------------------

_Axes = Annotated[Ints, "the list of axes"]


@ONNX("ReduceLogSum")
def _logarithm_of_sum(
    call: OperatorCall,
    x: Tensor,
    axes: _Axes | None = None,
    *,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> Value:
    attributes = {"keepdims": keepdims, "noop_with_empty_axes": noop_with_empty_axes}
    return call.onnx("Log", call.with_outputs(0).onnx("ReduceSum", x, axes, **attributes))


@ONNX("ReduceLogSumExp")
def _logarithm_of_powers(
    call: OperatorCall,
    x: Tensor,
    axes: _Axes | None = None,
    *,
    keepdims: int = 1,
    noop_with_empty_axes: int = 0,
) -> Value:
    """Divide each power by the largest, so that none overflows."""
    apart, limit = call.with_outputs(0), np.asarray(ml_dtypes.finfo(call.type_of(x).numpy).max)
    noop = {"noop_with_empty_axes": noop_with_empty_axes}
    most = apart.onnx("Clip", apart.onnx("ReduceMax", x, axes, **noop), np.asarray(-limit), limit)
    powers = apart.onnx("Exp", apart.onnx("Sub", x, most))
    total = apart.onnx("Log", apart.onnx("ReduceSum", powers, axes, keepdims=keepdims, **noop))
    return call.onnx("Add", total, apart.reshaped(most, apart.dims(total)))


# --- products -----------------------------------------------------------------------------------------------


@ONNX("Gemm")
def _gemm(
    call: OperatorCall,
    left: Tensor,
    right: Operand,
    added: Operand | None = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: bool = False,  # noqa: N803
    transB: bool = False,  # noqa: N803
    broadcast: int = 0,
) -> Value:
    """An inner product if the right side is known, else a matmul."""
    if transA:
        left = call.transposed(left, (1, 0))
    if not isinstance(right, str) and right.ndim == 2 and not isinstance(added, str):
        weights = right if transB else right.T
        outputs = weights.shape[0]
        operands = [left, call.placed(weights * np.float32(alpha) if alpha != 1 else weights)]
        if added is None or not beta:
            return call.add(InnerProductOperation(), *operands)
        if added.size in (1, outputs) and (added.ndim != 2 or added.shape[0] == 1):
            bias = np.broadcast_to(added.reshape(-1) * np.float32(beta), outputs)
            return call.add(InnerProductOperation(), *operands, bias)
    right = call.placed(right)
    product = call.builder.add(MatmulOperation(), left, call.transposed(right, (1, 0)) if transB else right)
    if alpha != 1:
        product = call.builder.add(EltwiseOperation("eltwise_linear", alpha), product)
    if added is None or not beta:
        return product
    added = call.placed(added)
    if beta != 1:
        added = call.builder.add(EltwiseOperation("eltwise_linear", beta), added)
    return call.binary("add", product, added)


@ONNX("MatMul")
def _matmul(call: OperatorCall, left: Tensor, right: Tensor) -> Value:
    return matrix_product(call, left, right)


def matrix_product(
    call: OperatorCall,
    left: str,
    right: str,
    data_type: DataType | None = None,
    fpmath_mode: str = "strict",
) -> str:
    """Return a product by NumPy's rules: vectors are rows on the left, columns on the right. `data_type`:
    that of the result, if not that of the left side.
    """
    operation = MatmulOperation(fpmath_mode=fpmath_mode)
    ranks = len(call.dims(left)), len(call.dims(right))
    if ranks[0] == 1:
        left = call.reshaped(left, (1, *call.dims(left)))
    if ranks[1] == 1:
        right = call.reshaped(right, (*call.dims(right), 1))
    dims = call.dims(left), call.dims(right)
    if len(dims[1]) == 2 < len(dims[0]):
        # Rows of all matrices times one matrix: a single product.
        flat = call.reshaped(left, (prod(dims[0][:-1]), dims[0][-1]))
        product = call.builder.add(operation, flat, right, data_type=data_type)
        full: tuple[int, ...] = (*dims[0][:-1], dims[1][-1])
    else:
        rank = max(map(len, dims))
        both = (call.of_rank(x, rank) for x in (left, right))
        product = call.builder.add(operation, *both, data_type=data_type)
        full = call.dims(product)
    if ranks[0] == 1:
        full = (*full[:-2], full[-1])
    return call.reshaped(product, full[:-1] if ranks[1] == 1 else full)
