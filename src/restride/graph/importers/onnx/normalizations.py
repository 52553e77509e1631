"""ONNX's normalizations: primitives for rows, channels and groups; otherwise means and powers."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Annotated

import numpy as np

from ....dtypes import DataType
from ....model.result_dims import Misfit
from ...dims import Dims
from ...nodes.layers import BatchNormalizationOperation, LayerNormalizationOperation, LrnOperation
from ...nodes.operations import Operation, PrimitiveOperation
from ..operator_call import (
    ONNX,
    TRAINS,
    Ints,
    Made,
    Operand,
    OperatorCall,
    Tensor,
    Usual,
    Value,
)
from .known import axis_of

_F32 = 1


@ONNX("BatchNormalization")
def _batch_normalization(
    call: OperatorCall,
    x: Tensor,
    scale: Operand,
    shift: Operand,
    mean: Operand,
    variance: Operand,
    *,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    training_mode: bool = False,
    spatial: Annotated[int, Usual()] = 1,
) -> Made:
    """Training uses the statistics of the batch; the running statistics are then results too."""
    operation = BatchNormalizationOperation(epsilon)
    if not training_mode:
        if call.count_of_outputs > 1:
            raise call.unimplemented(*TRAINS)
        if call.type_of(x) is DataType.f64:
            shape = -1, *(1,) * (len(call.dims(x)) - 2)
            channels = (call.with_outputs(0).onnx("Reshape", each, shape) for each in (mean, variance))
            return _with_channels(call, _by_elements(call, x, epsilon, *channels), scale, shift)
        return call.add(operation, x, *map(call.parameter, (scale, shift, mean, variance)))
    scale, shift = call.parameter(scale), call.parameter(shift)
    axes = tuple(axis for axis in range(len(call.dims(x))) if axis != 1)
    own = _statistics(call, x, axes, keepdims=False)
    result, apart = call.add(operation, x, scale, shift, *own), call.with_outputs(0)

    def running(before: Value, now: Value) -> Value:
        parts = apart.onnx("Mul", before, momentum), apart.onnx("Mul", now, 1 - momentum)
        return apart.onnx("Add", *parts)

    return result, running(mean, own[0]), running(variance, own[1])


def _statistics(call: OperatorCall, x: Value, axes: Dims, *, keepdims: bool = True) -> tuple[Value, Value]:
    """Return mean and variance along axes, as f32."""
    apart = call.with_outputs(0)
    wide = apart.onnx("Cast", x, to=_F32)
    mean = apart.onnx("ReduceMean", wide, axes)
    distance = apart.onnx("Sub", wide, mean)
    variance = apart.onnx("ReduceMean", apart.onnx("Mul", distance, distance), axes, keepdims=keepdims)
    own = apart.dims(variance)
    return apart.reshaped(mean, own), variance


def _by_elements(call: OperatorCall, x: Value, epsilon: float, mean: Value | None, variance: Value) -> Value:
    """Normalize in f64, which primitives do not support, by elementwise operations."""
    apart = call.with_outputs(0)
    deviation = apart.onnx("Sqrt", apart.onnx("Add", variance, np.array(epsilon)))
    return apart.onnx("Div", x if mean is None else apart.onnx("Sub", x, mean), deviation)


def _rows_by_elements(
    call: OperatorCall, x: Value, axes: Dims, epsilon: float, *, is_centered: bool = True
) -> Value:
    """Normalize by the statistics along axes, elementwise."""
    apart = call.with_outputs(0)
    mean = apart.onnx("ReduceMean", x, axes) if is_centered else None
    distance = x if mean is None else apart.onnx("Sub", x, mean)
    return _by_elements(
        call, distance, epsilon, None, apart.onnx("ReduceMean", apart.onnx("Mul", distance, distance), axes)
    )


def _with_channels(call: OperatorCall, x: Value, scale: Value, shift: Value) -> Value:
    apart, shape = call.with_outputs(0), (-1, *(1,) * (len(call.dims(x)) - 2))
    scale, shift = (apart.onnx("Reshape", each, shape) for each in (scale, shift))
    return call.onnx("Add", apart.onnx("Mul", x, scale), shift)


def _row(call: OperatorCall, value: Value, dims: Dims) -> Value:
    """Return a parameter broadcast to dims, as a vector with one number per element of them."""
    if prod(call.dims(value)) != prod(dims):
        value = call.with_outputs(0).onnx("Expand", value, dims)
    value = call.reshaped(value, (prod(dims),))
    return value if call.type_of(value) is DataType.f64 else call.parameter(value)


@ONNX("LayerNormalization")
def _layer_normalization(
    call: OperatorCall,
    x: Tensor,
    scale: Operand,
    shift: Operand | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Made:
    dims = call.dims(x)
    first = axis_of(axis, len(dims))
    own = dims[first:]
    if call.type_of(x) is DataType.f64:
        result = call.onnx("Mul", _rows_by_elements(call, x, tuple(range(first, len(dims))), epsilon), scale)
        result = result if shift is None else call.onnx("Add", result, shift)
    else:
        added = np.zeros(prod(own), np.float32) if shift is None else shift
        operands = _row(call, scale, own), _row(call, added, own)
        result = _by_rows(call, x, first, LayerNormalizationOperation(epsilon), operands)
    if call.count_of_outputs < 2:
        return result
    mean, variance = _statistics(call, x, tuple(range(first, len(dims))))
    apart = call.with_outputs(0)
    deviation = apart.onnx("Sqrt", apart.onnx("Add", variance, epsilon))
    return result, mean, apart.onnx("Reciprocal", deviation)


@ONNX("RMSNormalization")
def _rms_normalization(
    call: OperatorCall,
    x: Tensor,
    scale: Operand,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Value:
    first = axis_of(axis, len(call.dims(x)))
    own = call.dims(x)[first:]
    if call.type_of(x) is DataType.f64:
        axes = tuple(range(first, len(call.dims(x))))
        return call.onnx("Mul", _rows_by_elements(call, x, axes, epsilon, is_centered=False), scale)
    operands = _row(call, scale, own), call.placed(np.zeros(prod(own), np.float32))
    flags = "use_scale|use_shift|rms_norm"
    operation = PrimitiveOperation("LayerNormalizationForward", (("epsilon", epsilon), ("flags", flags)))
    return _by_rows(call, x, first, operation, operands)


def _by_rows(call: OperatorCall, x: str, first: int, operation: Operation, operands: Sequence[Value]) -> str:
    """Normalize over all dims from `first` on; no reshape if that is only the last one."""
    dims = call.dims(x)
    if first == len(dims) - 1 and first:
        return call.add(operation, x, *operands)
    rows = call.reshaped(x, (prod(dims[:first]), prod(dims[first:])))
    return call.reshaped(call.with_outputs(0).add(operation, rows, *operands), dims)


@ONNX("InstanceNormalization")
def _instance_normalization(
    call: OperatorCall, x: Tensor, scale: Operand, shift: Operand, *, epsilon: float = 1e-5
) -> Value:
    return _by_groups(call, x, (scale, shift), call.dims(x)[1], epsilon)


@ONNX("GroupNormalization", since=21)
def _group_normalization(
    call: OperatorCall,
    x: Tensor,
    scale: Operand,
    shift: Operand,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
    stash_type: int = 1,
) -> Value:
    return _by_groups(call, x, (scale, shift), num_groups, epsilon)


@ONNX("GroupNormalization")
def _group_normalization_of_groups(
    call: OperatorCall,
    x: Tensor,
    scale: Operand,
    shift: Operand,
    *,
    num_groups: int,
    epsilon: float = 1e-5,
) -> Value:
    """Scale and shift are one per group."""
    size = _group_size(call, x, num_groups)
    spread = [
        _row(call, call.reshaped(value, (num_groups, 1)), (num_groups, size)) for value in (scale, shift)
    ]
    return _by_groups(call, x, spread, num_groups, epsilon)


def _group_size(call: OperatorCall, x: str, groups: int) -> int:
    """Return the channels per group. Raises Misfit if the groups are impossible."""
    dims = call.dims(x)
    if len(dims) < 2:
        raise Misfit(f"{len(dims)} dims have no channels")
    if groups < 1 or dims[1] % groups:
        raise Misfit(
            f"its num_groups is {groups}, with {dims[1]} channels", "groups must divide the channels"
        )
    return dims[1] // groups


def _by_groups(call: OperatorCall, x: str, operands: Sequence[Value], groups: int, epsilon: float) -> Value:
    _group_size(call, x, groups)
    dims = call.dims(x)
    if len(dims) < 3:
        raise Misfit(f"a tensor of {len(dims)} dims has no spatial dim")
    if call.type_of(x) is DataType.f64:
        rows = call.reshaped(x, (dims[0], groups, prod(dims[1:]) // groups))
        made = call.reshaped(_rows_by_elements(call, rows, (2,), epsilon), dims)
        return _with_channels(call, made, *operands)
    flat = call.reshaped(x, dims if len(dims) < 6 else (*dims[:2], prod(dims[2:])))
    parameters = ("groups", groups), ("epsilon", epsilon)
    operation = PrimitiveOperation("GroupNormalizationForward", parameters)
    return call.reshaped(call.add(operation, flat, *map(call.parameter, operands)), dims)


@ONNX("LpNormalization")
def _lp_normalization(call: OperatorCall, x: Tensor, *, axis: int = -1, p: int = 2) -> Value:
    """Divide elements by the norm of their row, unless that is 0."""
    if p not in (1, 2):
        raise Misfit(f"p is {p}: supported are 1 and 2")
    apart = call.with_outputs(0)
    norm = apart.onnx(f"ReduceL{p}", x, (axis,))
    return call.onnx("Div", x, apart.onnx("Add", norm, apart.binary("eq", norm, np.zeros((), np.float32))))


@ONNX("MeanVarianceNormalization")
def _mean_variance_normalization(call: OperatorCall, x: Tensor, *, axes: Ints = (0, 2, 3)) -> Value:
    apart = call.with_outputs(0)
    distance = apart.onnx("Sub", x, apart.onnx("ReduceMean", x, axes))
    deviation = apart.onnx("Sqrt", apart.onnx("ReduceMean", apart.onnx("Mul", distance, distance), axes))
    return call.onnx("Div", distance, apart.onnx("Add", deviation, 1e-9))


@ONNX("LRN")
def _lrn(
    call: OperatorCall, x: Tensor, *, size: int, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0
) -> Value:
    return call.add(LrnOperation("lrn_across_channels", size, alpha, beta, bias), x)
