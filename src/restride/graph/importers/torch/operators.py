"""ATen's operators as operations of the graph, by way of the ONNX operators that do the same.

A node has the arguments of the call as an attribute, tensors among them as `TensorArgument`s, and what torch
says of its results. Shapes are numbers: a program of torch is exported for inputs of known dims.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite, isnan, prod
from typing import Any

import numpy as np

from ....errors import Unimplemented
from ...dims import by
from ..onnx.context import Made, OnnxContext, Translator
from .arguments import (
    ARGUMENTS,
    F32,
    RESULTS,
    argument_at,
    by_onnx,
    dims_of,
    integers,
    value_at,
)
from .moves import MOVE_TRANSLATORS
from .windows import WINDOW_TRANSLATORS

__all__ = ["TORCH_OPERATORS", "made_of_torch"]


def made_of_torch(context: OnnxContext) -> Made:
    """What a call becomes. Raises Unimplemented, which names it, for arguments that its translator ignores,
    and where the result is not what torch says.
    """
    arguments, wanted = context.attribute(ARGUMENTS), context.attribute(RESULTS)
    try:
        made = _TRANSLATORS[context.node.operator](context)
    except Unimplemented as error:
        raise error.with_context(f"node {context.node}") from None
    if arguments.unread:
        told = ", ".join(f"{name}={arguments.at(name)!r}" for name in sorted(arguments.unread))
        raise context.unimplemented(f"it has {told}")
    for value, (dims, data_type) in zip(made if isinstance(made, tuple) else (made,), wanted, strict=False):
        kind = context.builder.type(value) if isinstance(value, str) else None
        if dims_of(context, value) != dims or (kind and str(kind.data_type.numpy) != data_type):
            raise context.unimplemented(
                f"its result would be {kind or dims_of(context, value)}, torch makes {data_type} {by(dims)}"
            )
    return made


# --- functions ----------------------------------------------------------------------------------------------


def _function(operator: str, **attributes: Any) -> Translator:
    """A function of the first argument; `name=(place, default)` for numbers that follow."""

    def run(context: OnnxContext) -> Made:
        found = {}
        for name, (at, default) in attributes.items():
            found[name] = float(argument_at(context, at, default))
        return by_onnx(context, operator, value_at(context, 0), **found)

    return run


def _binary(operator: str) -> Translator:
    def run(context: OnnxContext) -> Made:
        right, alpha = value_at(context, 1), argument_at(context, "alpha", 1)
        if alpha != 1:
            right = by_onnx(context, "Mul", right, np.array(alpha, F32))
        return by_onnx(context, operator, value_at(context, 0), right)

    return run


def _clamp(low: float = -inf, high: float = inf) -> Translator:
    def run(context: OnnxContext) -> Made:
        ends = [float(argument_at(context, at, own)) for at, own in ((1, low), (2, high))]
        if any(map(isnan, ends)):
            raise context.unimplemented("a limit is no number")
        if ends == [0.0, inf]:
            return by_onnx(context, "Relu", value_at(context, 0))
        limits = [np.array(each, F32) if isfinite(each) else None for each in ends]
        return by_onnx(context, "Clip", value_at(context, 0), *limits)

    return run


def _silu(context: OnnxContext) -> Made:
    return by_onnx(context, "Mul", value_at(context, 0), by_onnx(context, "Sigmoid", value_at(context, 0)))


def _gelu(context: OnnxContext) -> Made:
    word = argument_at(context, "approximate", "none")
    return by_onnx(context, "Gelu", value_at(context, 0), approximate=word)


def _softplus(context: OnnxContext) -> Made:
    if float(argument_at(context, "beta", 1)) != 1:
        raise context.unimplemented("its beta is not 1")
    return by_onnx(context, "Softplus", value_at(context, 0))


def _elu(context: OnnxContext) -> Made:
    if any(argument_at(context, name, 1) != 1 for name in ("scale", "input_scale")):
        raise context.unimplemented("it scales input or result")
    return by_onnx(context, "Elu", value_at(context, 0), alpha=float(argument_at(context, "alpha", 1.0)))


def _rsqrt(context: OnnxContext) -> Made:
    return by_onnx(context, "Reciprocal", by_onnx(context, "Sqrt", value_at(context, 0)))


def _prelu(context: OnnxContext) -> Made:
    source, slopes = value_at(context, 0), value_at(context, 1)
    rank = len(dims_of(context, source))
    shape = (1, -1, *(1,) * (rank - 2)) if rank > 1 else (-1,)
    return by_onnx(context, "PRelu", source, by_onnx(context, "Reshape", slopes, integers(*shape)))


def _softmax(operator: str) -> Translator:
    return lambda context: by_onnx(context, operator, value_at(context, 0), axis=int(argument_at(context, 1)))


def _same(context: OnnxContext) -> Made:
    return value_at(context, 0)


# --- normalizations, reductions, products -------------------------------------------------------------------


def _batch_normalization(context: OnnxContext) -> Made:
    source, mean, variance = (value_at(context, at) for at in (0, "running_mean", "running_var"))
    count = dims_of(context, mean)
    scale = argument_at(context, "weight", np.ones(count, F32))
    shift = argument_at(context, "bias", np.zeros(count, F32))
    epsilon = float(argument_at(context, "eps"))
    return by_onnx(context, "BatchNormalization", source, scale, shift, mean, variance, epsilon=epsilon)


def _layer_normalization(context: OnnxContext) -> Made:
    shape = argument_at(context, "normalized_shape")
    scale, shift = argument_at(context, "weight", np.ones(shape, F32)), argument_at(context, "bias")
    values = [value_at(context, 0), scale, *([] if shift is None else [shift])]
    epsilon = float(argument_at(context, "eps"))
    return by_onnx(context, "LayerNormalization", *values, axis=-len(shape), epsilon=epsilon)


def _rows_normalization(context: OnnxContext, groups: int, order: Sequence[int] = ()) -> Made:
    """Rows of zero mean and a variance of 1, then a factor and a summand of each channel.

    `groups` rows of an image are its channels in so many parts; those of all images where their axis is not
    the first of `order`.
    """
    source, epsilon = value_at(context, 0), float(argument_at(context, "eps"))
    dims = dims_of(context, source)
    order = tuple(order) or tuple(range(len(dims)))
    moved, back = [dims[axis] for axis in order], [order.index(axis) for axis in range(len(dims))]
    rows = groups * (dims[0] if order[0] == 0 else 1)
    made = by_onnx(context, "Transpose", source, perm=order)
    made = by_onnx(context, "Reshape", made, integers(rows, prod(dims) // rows))
    ones = np.ones(prod(dims) // rows, F32)
    made = by_onnx(context, "LayerNormalization", made, ones, axis=-1, epsilon=epsilon)
    made = by_onnx(context, "Transpose", by_onnx(context, "Reshape", made, integers(*moved)), perm=back)
    for operator, name in (("Mul", "weight"), ("Add", "bias")):
        if (found := argument_at(context, name)) is not None:
            channels = integers(1, -1, *(1,) * (len(dims) - 2))
            made = by_onnx(context, operator, made, by_onnx(context, "Reshape", found, channels))
    return made


def _group_normalization(context: OnnxContext) -> Made:
    for name in ("N", "C", "HxW"):  # the dims say the same
        argument_at(context, name)
    return _rows_normalization(context, int(argument_at(context, "group")))


def _batch_statistics(context: OnnxContext) -> Made:
    """A batch normalization by the mean and the variance of what comes: instances are a batch of one."""
    if "running_mean" in context.attribute(ARGUMENTS) or not argument_at(context, "training"):
        raise context.unimplemented("it changes its running statistics")
    dims = dims_of(context, value_at(context, 0))
    return _rows_normalization(context, dims[1], (1, 0, *range(2, len(dims))))


def _reduction(operator: str) -> Translator:
    def run(context: OnnxContext) -> Made:
        axes, keeps = argument_at(context, 1), int(bool(argument_at(context, "keepdim", False)))
        axes = [axes] if isinstance(axes, int) else axes
        values = [value_at(context, 0), *([integers(*axes)] if axes else [])]
        return by_onnx(context, operator, *values, keepdims=keeps)

    return run


def _variance(context: OnnxContext) -> Made:
    source, axes = value_at(context, 0), argument_at(context, 1)
    dims = dims_of(context, source)
    axes = list(range(len(dims))) if axes is None else list(axes)
    count = prod(dims[axis] for axis in axes)
    keeps = int(bool(argument_at(context, "keepdim", False)))
    distance = by_onnx(
        context, "Sub", source, by_onnx(context, "ReduceMean", source, integers(*axes), keepdims=1)
    )
    mean = by_onnx(
        context, "ReduceMean", by_onnx(context, "Mul", distance, distance), integers(*axes), keepdims=keeps
    )
    rest = count - argument_at(context, "correction", int(argument_at(context, "unbiased", True)))
    factor = count / rest if rest > 0 else inf
    return by_onnx(context, "Mul", mean, np.array(factor, F32))


def _linear(context: OnnxContext) -> Made:
    source, weights = value_at(context, 0), value_at(context, 1)
    dims, outputs = dims_of(context, source), dims_of(context, weights)[0]
    bias = [] if argument_at(context, "bias") is None else [value_at(context, "bias")]
    rows = by_onnx(context, "Reshape", source, integers(prod(dims[:-1]), dims[-1]))
    made = by_onnx(context, "Gemm", rows, weights, *bias, transB=1)
    return by_onnx(context, "Reshape", made, integers(*dims[:-1], outputs))


def _added_product(context: OnnxContext) -> Made:
    if any(argument_at(context, name, 1) != 1 for name in ("beta", "alpha")):
        raise context.unimplemented("it scales its summands")
    return by_onnx(context, "Gemm", value_at(context, 1), value_at(context, 2), value_at(context, 0))


def _attention(context: OnnxContext) -> Made:
    """Scaled dot products, a softmax, and a weighted sum."""
    query, key, value = (value_at(context, at) for at in range(3))
    if any(argument_at(context, name, False) for name in ("is_causal", "enable_gqa")):
        raise context.unimplemented("it is causal, or of grouped queries", "bring the mask as a tensor")
    dims, scale = dims_of(context, query), argument_at(context, "scale")
    order = [*range(len(dims) - 2), len(dims) - 1, len(dims) - 2]
    factor = np.array(dims[-1] ** -0.5 if scale is None else scale, F32)
    scores = by_onnx(context, "MatMul", query, by_onnx(context, "Transpose", key, perm=order))
    scores = by_onnx(context, "Mul", scores, factor)
    mask = argument_at(context, "attn_mask")
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
    "aten._native_batch_norm_legit": _batch_statistics,
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
    "aten.native_group_norm": _group_normalization,
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
