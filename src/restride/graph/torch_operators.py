"""ATen's operators as operations of the graph, by way of the ONNX operators that do the same.

A node has the arguments of the call in order as its attribute "args", tensors as `TensorArgument`s, and those
that are named by their names. Shapes are numbers: a program of torch is exported for inputs of known dims.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, prod
from typing import Any

import numpy as np

from .onnx_context import OnnxContext, Value
from .onnx_known import axis_of
from .onnx_operators import Made, Translator, made_of_onnx

__all__ = ["TORCH_OPERATORS", "TensorArgument", "made_of_torch"]

_OPSET = 18
_F32 = np.float32


@dataclass(frozen=True, slots=True)
class TensorArgument:
    """An argument that is a tensor: the place of it among the inputs of the node."""

    place: int


def made_of_torch(context: OnnxContext) -> Made:
    """What a call becomes."""
    return _TRANSLATORS[context.node.operator](context)


# --- arguments ----------------------------------------------------------------------------------------------


def _argument(context: OnnxContext, at: int, name: str = "", default: Any = None) -> Any:
    """The argument at a place or of a name, None and `default` where it is left out."""
    args = context.attribute("args")
    found = args[at] if at < len(args) else context.attribute(name, default)
    return context.value(found.place) if isinstance(found, TensorArgument) else found


def _value(context: OnnxContext, at: int) -> Value | None:
    """An argument as a value: a number is a tensor without dims."""
    found = _argument(context, at)
    return np.array(found, _F32) if isinstance(found, int | float) else found


def _by(context: OnnxContext, operator: str, *values: Value | None, **attributes: Any) -> Value:
    """The first result of an ONNX operator on these values."""
    node = replace(context.node, operator=operator, attributes=attributes, outputs=context.node.outputs[:1])
    made = made_of_onnx(replace(context, node=node, values=values, opset=_OPSET))
    return made[0] if isinstance(made, tuple) else made


def _dims(context: OnnxContext, value: Value) -> tuple[int, ...]:
    return context.builder.type(value).dims if isinstance(value, str) else value.shape


def _ints(*numbers: int) -> Value:
    return np.array(numbers, np.int64)


def _several(values: Sequence[int] | int, rank: int) -> tuple[int, ...]:
    found = (values,) if isinstance(values, int) else tuple(values)
    return found * rank if len(found) == 1 else found


# --- functions ----------------------------------------------------------------------------------------------


def _function(operator: str, **attributes: Any) -> Translator:
    """A function of the first argument; `name=(place, default)` for numbers that follow."""

    def run(context: OnnxContext) -> Made:
        found = {}
        for name, (at, default) in attributes.items():
            number = _argument(context, at)
            found[name] = float(default if number is None else number)
        return _by(context, operator, _value(context, 0), **found)

    return run


def _binary(operator: str) -> Translator:
    def run(context: OnnxContext) -> Made:
        right, alpha = _value(context, 1), context.attribute("alpha", 1)
        if alpha != 1:
            right = _by(context, "Mul", right, np.array(alpha, _F32))
        return _by(context, operator, _value(context, 0), right)

    return run


def _clamp(low: float | None = None, high: float | None = None) -> Translator:
    def run(context: OnnxContext) -> Made:
        least, most = (
            _argument(context, at, name, own) for at, name, own in ((1, "min", low), (2, "max", high))
        )
        ends = [-inf if least is None else float(least), inf if most is None else float(most)]
        if ends == [0.0, inf]:
            return _by(context, "Relu", _value(context, 0))
        limits = [np.array(each, _F32) if isfinite(each) else None for each in ends]
        return _by(context, "Clip", _value(context, 0), *limits)

    return run


def _silu(context: OnnxContext) -> Made:
    return _by(context, "Mul", _value(context, 0), _by(context, "Sigmoid", _value(context, 0)))


def _gelu(context: OnnxContext) -> Made:
    word = _argument(context, 1, "approximate", "none")
    return _by(context, "Gelu", _value(context, 0), approximate=word)


def _softplus(context: OnnxContext) -> Made:
    if float(_argument(context, 1, "beta", 1)) != 1:
        raise context.unimplemented("its beta is not 1")
    return _by(context, "Softplus", _value(context, 0))


def _elu(context: OnnxContext) -> Made:
    if any(_argument(context, at, "", 1) != 1 for at in (2, 3)):
        raise context.unimplemented("it scales input or result")
    return _by(context, "Elu", _value(context, 0), alpha=float(_argument(context, 1, "alpha", 1.0)))


def _rsqrt(context: OnnxContext) -> Made:
    return _by(context, "Reciprocal", _by(context, "Sqrt", _value(context, 0)))


def _prelu(context: OnnxContext) -> Made:
    source, slopes = _value(context, 0), _value(context, 1)
    assert source is not None
    assert slopes is not None
    rank = len(_dims(context, source))
    shape = (1, -1, *(1,) * (rank - 2)) if rank > 1 else (-1,)
    return _by(context, "PRelu", source, _by(context, "Reshape", slopes, _ints(*shape)))


def _softmax(operator: str) -> Translator:
    return lambda context: _by(context, operator, _value(context, 0), axis=int(_argument(context, 1)))


def _same(context: OnnxContext) -> Made:
    return _value(context, 0) or ""


# --- windows ------------------------------------------------------------------------------------------------


def _convolution(context: OnnxContext) -> Made:
    strides, padding, dilations, is_transposed, more, groups = (_argument(context, at) for at in range(3, 9))
    values = [_value(context, at) for at in range(3 if _argument(context, 2) is not None else 2)]
    assert values[1] is not None
    rank = len(_dims(context, values[1])) - 2
    named: dict[str, Any] = {
        "strides": _several(strides, rank),
        "dilations": _several(dilations, rank),
        "pads": _several(padding, rank) * 2,
        "group": groups,
    }
    if is_transposed:
        return _by(context, "ConvTranspose", *values, output_padding=_several(more, rank), **named)
    return _by(context, "Conv", *values, **named)


def _pooling(operator: str, rank: int) -> Translator:
    def run(context: OnnxContext) -> Made:
        kernel = _several(_argument(context, 1), rank)
        named: dict[str, Any] = {
            "kernel_shape": kernel,
            "strides": _several(_argument(context, 2) or kernel, rank),
            "pads": _several(_argument(context, 3) or 0, rank) * 2,
        }
        if operator == "MaxPool":
            named["dilations"] = _several(_argument(context, 4) or 1, rank)
            return _by(
                context, operator, _value(context, 0), ceil_mode=int(bool(_argument(context, 5))), **named
            )
        if _argument(context, 6, "divisor_override") is not None:
            raise context.unimplemented("it divides by another number than there are elements")
        named["ceil_mode"] = int(bool(_argument(context, 4, "ceil_mode", False)))
        named["count_include_pad"] = int(bool(_argument(context, 5, "count_include_pad", True)))
        return _by(context, operator, _value(context, 0), **named)

    return run


def _adaptive_average(context: OnnxContext) -> Made:
    source, sizes = _value(context, 0), _argument(context, 1)
    assert source is not None
    spatial = _dims(context, source)[-len(sizes) :]
    if any(not size or n % size for n, size in zip(spatial, sizes, strict=True)):
        raise context.unimplemented("its windows are of several sizes", "use sizes that divide the input's")
    kernel = [n // size for n, size in zip(spatial, sizes, strict=True)]
    return _by(context, "AveragePool", source, kernel_shape=kernel, strides=kernel)


def _resize(mode: str, flags: int) -> Translator:
    """Upsampling to sizes or by scales; `flags` is the place of the sizes' last neighbour, the scales."""

    def run(context: OnnxContext) -> Made:
        source, sizes = _value(context, 0), _argument(context, 1)
        assert source is not None
        dims, scales = _dims(context, source), _argument(context, flags)
        spatial = sizes or [int(n * scale) for n, scale in zip(dims[2:], scales, strict=True)]
        is_aligned = flags > 2 and bool(_argument(context, 2))
        word = "align_corners" if is_aligned else "half_pixel" if mode == "linear" else "asymmetric"
        return _by(
            context,
            "Resize",
            *(source, None, None, _ints(*dims[:2], *spatial)),
            mode=mode,
            coordinate_transformation_mode=word,
            nearest_mode="floor",
        )

    return run


# --- normalizations, reductions, products -------------------------------------------------------------------


def _batch_normalization(context: OnnxContext) -> Made:
    source, scale, shift, mean, variance = (_value(context, at) for at in range(5))
    assert mean is not None
    count = _dims(context, mean)
    scale = np.ones(count, _F32) if scale is None else scale
    shift = np.zeros(count, _F32) if shift is None else shift
    epsilon = float(_argument(context, 6))
    return _by(context, "BatchNormalization", source, scale, shift, mean, variance, epsilon=epsilon)


def _layer_normalization(context: OnnxContext) -> Made:
    shape, scale, shift = _argument(context, 1), _value(context, 2), _value(context, 3)
    scale = np.ones(shape, _F32) if scale is None else scale
    values = [_value(context, 0), scale, *([] if shift is None else [shift])]
    return _by(context, "LayerNormalization", *values, axis=-len(shape), epsilon=float(_argument(context, 4)))


def _reduction(operator: str) -> Translator:
    def run(context: OnnxContext) -> Made:
        axes, keeps = _argument(context, 1), int(bool(_argument(context, 2, "keepdim", False)))
        axes = [axes] if isinstance(axes, int) else axes
        values = [_value(context, 0), *([_ints(*axes)] if axes else [])]
        return _by(context, operator, *values, keepdims=keeps)

    return run


def _variance(context: OnnxContext) -> Made:
    source, axes = _value(context, 0), _argument(context, 1)
    assert source is not None
    dims = _dims(context, source)
    axes = list(range(len(dims))) if axes is None else list(axes)
    count = prod(dims[axis] for axis in axes)
    correction = context.attribute("correction", 1)
    keeps = int(bool(_argument(context, 2, "keepdim", False)))
    distance = _by(context, "Sub", source, _by(context, "ReduceMean", source, _ints(*axes), keepdims=1))
    mean = _by(context, "ReduceMean", _by(context, "Mul", distance, distance), _ints(*axes), keepdims=keeps)
    factor = count / (count - (1 if correction is None else correction))
    return _by(context, "Mul", mean, np.array(factor, _F32))


def _linear(context: OnnxContext) -> Made:
    source, weights = _value(context, 0), _value(context, 1)
    assert source is not None
    assert weights is not None
    dims, outputs = _dims(context, source), _dims(context, weights)[0]
    bias = [] if _argument(context, 2, "bias") is None else [_argument(context, 2, "bias")]
    rows = _by(context, "Reshape", source, _ints(prod(dims[:-1]), dims[-1]))
    made = _by(context, "Gemm", rows, weights, *bias, transB=1)
    return _by(context, "Reshape", made, _ints(*dims[:-1], outputs))


def _added_product(context: OnnxContext) -> Made:
    if context.attribute("beta", 1) != 1 or context.attribute("alpha", 1) != 1:
        raise context.unimplemented("it scales its summands")
    return _by(context, "Gemm", _value(context, 1), _value(context, 2), _value(context, 0))


def _attention(context: OnnxContext) -> Made:
    """Scaled dot products, a softmax, and a weighted sum."""
    query, key, value = (_value(context, at) for at in range(3))
    if bool(_argument(context, 5, "is_causal", False)) or context.attribute("enable_gqa", False):
        raise context.unimplemented("it is causal, or of grouped queries", "bring the mask as a tensor")
    assert query is not None
    assert key is not None
    dims, scale = _dims(context, query), _argument(context, 6, "scale")
    order = [*range(len(dims) - 2), len(dims) - 1, len(dims) - 2]
    factor = np.array(dims[-1] ** -0.5 if scale is None else scale, _F32)
    scores = _by(context, "MatMul", query, _by(context, "Transpose", key, perm=order))
    scores = _by(context, "Mul", scores, factor)
    mask = _argument(context, 3, "attn_mask")
    scores = scores if mask is None else _by(context, "Add", scores, mask)
    return _by(context, "MatMul", _by(context, "Softmax", scores, axis=-1), value)


def _sum_of_products(operator: str) -> Translator:
    return lambda context: _by(context, operator, _value(context, 0), _value(context, 1))


# --- moves --------------------------------------------------------------------------------------------------


def _view(context: OnnxContext) -> Made:
    return _by(context, "Reshape", _value(context, 0), _ints(*_argument(context, 1)), allowzero=1)


def _permute(context: OnnxContext) -> Made:
    orders = [axis_of(axis, len(_argument(context, 1))) for axis in _argument(context, 1)]
    return _by(context, "Transpose", _value(context, 0), perm=orders)


def _squeeze(context: OnnxContext) -> Made:
    source, axes = _value(context, 0), _argument(context, 1)
    assert source is not None
    dims = _dims(context, source)
    axes = [axes] if isinstance(axes, int) else axes
    ones = [axis_of(axis, len(dims)) for axis in axes if dims[axis_of(axis, len(dims))] == 1]
    return _by(context, "Squeeze", source, _ints(*ones)) if ones else source


def _unsqueeze(context: OnnxContext) -> Made:
    return _by(context, "Unsqueeze", _value(context, 0), _ints(_argument(context, 1)))


def _expand(context: OnnxContext) -> Made:
    source, wanted = _value(context, 0), _argument(context, 1)
    assert source is not None
    dims = _dims(context, source)
    fits = zip((1,) * (len(wanted) - len(dims)) + dims, wanted, strict=True)
    if not all(size in (-1, n) for n, size in fits):
        raise context.unimplemented("it repeats elements", "operators repeat dims of 1 by themselves")
    return _by(context, "Reshape", source, _ints(*(1,) * (len(wanted) - len(dims)), *dims))


def _concat(context: OnnxContext) -> Made:
    values = [context.value(each.place) for each in context.attribute("args")[0]]
    return _by(context, "Concat", *values, axis=int(_argument(context, 1, "dim", 0)))


def _split(context: OnnxContext) -> Made:
    source, sizes = _value(context, 0), _argument(context, 1)
    assert source is not None
    axis = axis_of(int(_argument(context, 2, "dim", 0)), len(_dims(context, source)))
    parts, start = [], 0
    for size in sizes:
        parts.append(_part(context, source, axis, start, start + size))
        start += size
    return tuple(parts)


def _part(context: OnnxContext, source: Value, axis: int, start: int, end: int, step: int = 1) -> Value:
    # Each part is a node of its own, whose name the builder makes.
    apart = replace(context, node=replace(context.node, outputs=()))
    return _by(apart, "Slice", source, _ints(start), _ints(end), _ints(axis), _ints(step))


def _slice(context: OnnxContext) -> Made:
    source, axis = _value(context, 0), int(_argument(context, 1, "dim", 0))
    assert source is not None
    start, end, step = (_argument(context, at) for at in (2, 3, 4))
    size = _dims(context, source)[axis]
    return _by(
        context,
        "Slice",
        *(
            source,
            _ints(start or 0),
            _ints(size if end is None else min(end, size)),
            _ints(axis),
            _ints(step or 1),
        ),
    )


def _select(context: OnnxContext) -> Made:
    axis, index = int(_argument(context, 1)), int(_argument(context, 2))
    return _by(context, "Gather", _value(context, 0), np.array(index, np.int64), axis=axis)


def _pad(context: OnnxContext) -> Made:
    source, pairs = _value(context, 0), _argument(context, 1)
    assert source is not None
    rank = len(_dims(context, source))
    low, high = [0] * rank, [0] * rank
    # Pairs of torch begin with the last dim.
    for place in range(len(pairs) // 2):
        low[rank - 1 - place], high[rank - 1 - place] = pairs[2 * place], pairs[2 * place + 1]
    if min((*low, *high)) < 0:
        raise context.unimplemented("it cuts", "use a slice")
    return _by(
        context, "Pad", source, _ints(*low, *high), np.array(_argument(context, 2, "value", 0.0), _F32)
    )


def _shuffle(context: OnnxContext) -> Made:
    source, groups = _value(context, 0), int(_argument(context, 1))
    assert source is not None
    batch, channels, *rest = _dims(context, source)
    digits = _by(context, "Reshape", source, _ints(batch, groups, channels // groups, *rest))
    mixed = _by(context, "Transpose", digits, perm=[0, 2, 1, *range(3, len(rest) + 3)])
    return _by(context, "Reshape", mixed, _ints(batch, channels, *rest))


_TRANSLATORS: Mapping[str, Callable[[OnnxContext], Made]] = {
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
    "aten._adaptive_avg_pool2d": _adaptive_average,
    "aten._adaptive_avg_pool3d": _adaptive_average,
    "aten._log_softmax": _softmax("LogSoftmax"),
    "aten._native_batch_norm_legit_no_training": _batch_normalization,
    "aten._softmax": _softmax("Softmax"),
    "aten._unsafe_view": _view,
    "aten.addmm": _added_product,
    "aten.amax": _reduction("ReduceMax"),
    "aten.amin": _reduction("ReduceMin"),
    "aten.avg_pool1d": _pooling("AveragePool", 1),
    "aten.avg_pool2d": _pooling("AveragePool", 2),
    "aten.avg_pool3d": _pooling("AveragePool", 3),
    "aten.bmm": _sum_of_products("MatMul"),
    "aten.cat": _concat,
    "aten.channel_shuffle": _shuffle,
    "aten.clamp": _clamp(),
    "aten.clamp_min": _clamp(),
    "aten.constant_pad_nd": _pad,
    "aten.convolution": _convolution,
    "aten.elu": _elu,
    "aten.expand": _expand,
    "aten.gelu": _gelu,
    "aten.hardsigmoid": _function("HardSigmoid", alpha=(9, 1 / 6), beta=(9, 0.5)),
    "aten.hardtanh": _clamp(-1.0, 1.0),
    "aten.leaky_relu": _function("LeakyRelu", alpha=(1, 0.01)),
    "aten.linear": _linear,
    "aten.matmul": _sum_of_products("MatMul"),
    "aten.max_pool2d_with_indices": _pooling("MaxPool", 2),
    "aten.max_pool3d_with_indices": _pooling("MaxPool", 3),
    "aten.mean": _reduction("ReduceMean"),
    "aten.mm": _sum_of_products("MatMul"),
    "aten.native_layer_norm": _layer_normalization,
    "aten.permute": _permute,
    "aten.prelu": _prelu,
    "aten.relu6": _clamp(0.0, 6.0),
    "aten.reshape": _view,
    "aten.rsqrt": _rsqrt,
    "aten.scaled_dot_product_attention": _attention,
    "aten.select": _select,
    "aten.silu": _silu,
    "aten.slice": _slice,
    "aten.softplus": _softplus,
    "aten.split_with_sizes": _split,
    "aten.squeeze": _squeeze,
    "aten.sum": _reduction("ReduceSum"),
    "aten.unsqueeze": _unsqueeze,
    "aten.upsample_bilinear2d": _resize("linear", 3),
    "aten.upsample_nearest2d": _resize("nearest", 2),
    "aten.var": _variance,
    "aten.view": _view,
}  # fmt: skip

TORCH_OPERATORS = frozenset(_TRANSLATORS)
"""The operators that an exported program may have, by their names without overloads."""
