"""ATen's operators as operations of the graph, by way of the ONNX operators that do the same.

A node has the arguments of the call in order as its attribute "args", tensors as `TensorArgument`s, and those
that are named by their names. Shapes are numbers: a program of torch is exported for inputs of known dims.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf, isfinite, prod
from typing import Any

import numpy as np

from .onnx_context import Made, OnnxContext, Translator
from .torch_arguments import (
    F32,
    argument_at,
    by_onnx,
    dims_of,
    integers,
    value_at,
)
from .torch_moves import MOVE_TRANSLATORS
from .torch_windows import WINDOW_TRANSLATORS

__all__ = ["TORCH_OPERATORS", "made_of_torch"]


def made_of_torch(context: OnnxContext) -> Made:
    """What a call becomes."""
    return _TRANSLATORS[context.node.operator](context)


# --- functions ----------------------------------------------------------------------------------------------


def _function(operator: str, **attributes: Any) -> Translator:
    """A function of the first argument; `name=(place, default)` for numbers that follow."""

    def run(context: OnnxContext) -> Made:
        found = {}
        for name, (at, default) in attributes.items():
            number = argument_at(context, at)
            found[name] = float(default if number is None else number)
        return by_onnx(context, operator, value_at(context, 0), **found)

    return run


def _binary(operator: str) -> Translator:
    def run(context: OnnxContext) -> Made:
        right, alpha = value_at(context, 1), context.attribute("alpha", 1)
        if alpha != 1:
            right = by_onnx(context, "Mul", right, np.array(alpha, F32))
        return by_onnx(context, operator, value_at(context, 0), right)

    return run


def _clamp(low: float | None = None, high: float | None = None) -> Translator:
    def run(context: OnnxContext) -> Made:
        least, most = (
            argument_at(context, at, name, own) for at, name, own in ((1, "min", low), (2, "max", high))
        )
        ends = [-inf if least is None else float(least), inf if most is None else float(most)]
        if ends == [0.0, inf]:
            return by_onnx(context, "Relu", value_at(context, 0))
        limits = [np.array(each, F32) if isfinite(each) else None for each in ends]
        return by_onnx(context, "Clip", value_at(context, 0), *limits)

    return run


def _silu(context: OnnxContext) -> Made:
    return by_onnx(context, "Mul", value_at(context, 0), by_onnx(context, "Sigmoid", value_at(context, 0)))


def _gelu(context: OnnxContext) -> Made:
    word = argument_at(context, 1, "approximate", "none")
    return by_onnx(context, "Gelu", value_at(context, 0), approximate=word)


def _softplus(context: OnnxContext) -> Made:
    if float(argument_at(context, 1, "beta", 1)) != 1:
        raise context.unimplemented("its beta is not 1")
    return by_onnx(context, "Softplus", value_at(context, 0))


def _elu(context: OnnxContext) -> Made:
    if any(argument_at(context, at, "", 1) != 1 for at in (2, 3)):
        raise context.unimplemented("it scales input or result")
    return by_onnx(context, "Elu", value_at(context, 0), alpha=float(argument_at(context, 1, "alpha", 1.0)))


def _rsqrt(context: OnnxContext) -> Made:
    return by_onnx(context, "Reciprocal", by_onnx(context, "Sqrt", value_at(context, 0)))


def _prelu(context: OnnxContext) -> Made:
    source, slopes = value_at(context, 0), value_at(context, 1)
    assert source is not None
    assert slopes is not None
    rank = len(dims_of(context, source))
    shape = (1, -1, *(1,) * (rank - 2)) if rank > 1 else (-1,)
    return by_onnx(context, "PRelu", source, by_onnx(context, "Reshape", slopes, integers(*shape)))


def _softmax(operator: str) -> Translator:
    return lambda context: by_onnx(context, operator, value_at(context, 0), axis=int(argument_at(context, 1)))


def _same(context: OnnxContext) -> Made:
    return value_at(context, 0) or ""


# --- normalizations, reductions, products -------------------------------------------------------------------


def _batch_normalization(context: OnnxContext) -> Made:
    source, scale, shift, mean, variance = (value_at(context, at) for at in range(5))
    assert mean is not None
    count = dims_of(context, mean)
    scale = np.ones(count, F32) if scale is None else scale
    shift = np.zeros(count, F32) if shift is None else shift
    epsilon = float(argument_at(context, 6))
    return by_onnx(context, "BatchNormalization", source, scale, shift, mean, variance, epsilon=epsilon)


def _layer_normalization(context: OnnxContext) -> Made:
    shape, scale, shift = argument_at(context, 1), value_at(context, 2), value_at(context, 3)
    scale = np.ones(shape, F32) if scale is None else scale
    values = [value_at(context, 0), scale, *([] if shift is None else [shift])]
    return by_onnx(
        context, "LayerNormalization", *values, axis=-len(shape), epsilon=float(argument_at(context, 4))
    )


def _reduction(operator: str) -> Translator:
    def run(context: OnnxContext) -> Made:
        axes, keeps = argument_at(context, 1), int(bool(argument_at(context, 2, "keepdim", False)))
        axes = [axes] if isinstance(axes, int) else axes
        values = [value_at(context, 0), *([integers(*axes)] if axes else [])]
        return by_onnx(context, operator, *values, keepdims=keeps)

    return run


def _variance(context: OnnxContext) -> Made:
    source, axes = value_at(context, 0), argument_at(context, 1)
    assert source is not None
    dims = dims_of(context, source)
    axes = list(range(len(dims))) if axes is None else list(axes)
    count = prod(dims[axis] for axis in axes)
    correction = context.attribute("correction", 1)
    keeps = int(bool(argument_at(context, 2, "keepdim", False)))
    distance = by_onnx(
        context, "Sub", source, by_onnx(context, "ReduceMean", source, integers(*axes), keepdims=1)
    )
    mean = by_onnx(
        context, "ReduceMean", by_onnx(context, "Mul", distance, distance), integers(*axes), keepdims=keeps
    )
    factor = count / (count - (1 if correction is None else correction))
    return by_onnx(context, "Mul", mean, np.array(factor, F32))


def _linear(context: OnnxContext) -> Made:
    source, weights = value_at(context, 0), value_at(context, 1)
    assert source is not None
    assert weights is not None
    dims, outputs = dims_of(context, source), dims_of(context, weights)[0]
    bias = [] if argument_at(context, 2, "bias") is None else [argument_at(context, 2, "bias")]
    rows = by_onnx(context, "Reshape", source, integers(prod(dims[:-1]), dims[-1]))
    made = by_onnx(context, "Gemm", rows, weights, *bias, transB=1)
    return by_onnx(context, "Reshape", made, integers(*dims[:-1], outputs))


def _added_product(context: OnnxContext) -> Made:
    if context.attribute("beta", 1) != 1 or context.attribute("alpha", 1) != 1:
        raise context.unimplemented("it scales its summands")
    return by_onnx(context, "Gemm", value_at(context, 1), value_at(context, 2), value_at(context, 0))


def _attention(context: OnnxContext) -> Made:
    """Scaled dot products, a softmax, and a weighted sum."""
    query, key, value = (value_at(context, at) for at in range(3))
    if bool(argument_at(context, 5, "is_causal", False)) or context.attribute("enable_gqa", False):
        raise context.unimplemented("it is causal, or of grouped queries", "bring the mask as a tensor")
    assert query is not None
    assert key is not None
    dims, scale = dims_of(context, query), argument_at(context, 6, "scale")
    order = [*range(len(dims) - 2), len(dims) - 1, len(dims) - 2]
    factor = np.array(dims[-1] ** -0.5 if scale is None else scale, F32)
    scores = by_onnx(context, "MatMul", query, by_onnx(context, "Transpose", key, perm=order))
    scores = by_onnx(context, "Mul", scores, factor)
    mask = argument_at(context, 3, "attn_mask")
    scores = scores if mask is None else by_onnx(context, "Add", scores, mask)
    return by_onnx(context, "MatMul", by_onnx(context, "Softmax", scores, axis=-1), value)


def _sum_of_products(operator: str) -> Translator:
    return lambda context: by_onnx(context, operator, value_at(context, 0), value_at(context, 1))


_TRANSLATORS: Mapping[str, Translator] = {
    **MOVE_TRANSLATORS,
    **WINDOW_TRANSLATORS,
    **{f"aten.{word}": _function(operator) for word, operator in {
        "abs": "Abs", "exp": "Exp", "hardswish": "HardSwish", "log": "Log", "mish": "Mish", "neg": "Neg",
        "reciprocal": "Reciprocal", "relu": "Relu", "round": "Round", "sigmoid": "Sigmoid", "sqrt": "Sqrt",
        "tanh": "Tanh",
    }.items()},
    **{f"aten.{word}": _same for word in ("alias", "clone", "detach", "lift_fresh_copy")},
    **{f"aten.{word}": _binary(operator) for word, operator in {
        "add": "Add", "div": "Div", "maximum": "Max", "minimum": "Min", "mul": "Mul", "pow": "Pow",
        "sub": "Sub",
    }.items()},
    "aten._log_softmax": _softmax("LogSoftmax"),
    "aten._native_batch_norm_legit_no_training": _batch_normalization,
    "aten._softmax": _softmax("Softmax"),
    "aten.addmm": _added_product,
    "aten.amax": _reduction("ReduceMax"),
    "aten.amin": _reduction("ReduceMin"),
    "aten.bmm": _sum_of_products("MatMul"),
    "aten.clamp": _clamp(),
    "aten.clamp_min": _clamp(),
    "aten.elu": _elu,
    "aten.gelu": _gelu,
    "aten.hardsigmoid": _function("HardSigmoid", alpha=(9, 1 / 6), beta=(9, 0.5)),
    "aten.hardtanh": _clamp(-1.0, 1.0),
    "aten.leaky_relu": _function("LeakyRelu", alpha=(1, 0.01)),
    "aten.linear": _linear,
    "aten.matmul": _sum_of_products("MatMul"),
    "aten.mean": _reduction("ReduceMean"),
    "aten.mm": _sum_of_products("MatMul"),
    "aten.native_layer_norm": _layer_normalization,
    "aten.prelu": _prelu,
    "aten.relu6": _clamp(0.0, 6.0),
    "aten.rsqrt": _rsqrt,
    "aten.scaled_dot_product_attention": _attention,
    "aten.silu": _silu,
    "aten.softplus": _softplus,
    "aten.sum": _reduction("ReduceSum"),
    "aten.var": _variance,
}  # fmt: skip

TORCH_OPERATORS = frozenset(_TRANSLATORS)
"""The operators that an exported program may have, by their names without overloads."""
