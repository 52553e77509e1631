"""OpenVINO's operators as operations of the graph: most by way of the ONNX operator that does the same.

Attributes are texts, as the file has them; lists are numbers with commas between.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from ....runtime.alloc import Array
from ...nodes.layers import LayerNormalizationOperation, SoftmaxOperation
from ...nodes.moves import ShuffleOperation
from ...nodes.products import MatmulOperation
from ..onnx.context import Made, OnnxContext, Translator, Value
from ..onnx.known import axis_of
from ..onnx.operators import translate_node
from .recurrent import sequence

_OPSET = 17
_AUTO_PAD = {"explicit": "NOTSET", "valid": "VALID", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER"}
NUMBERS = {
    "f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "boolean": 9, "f16": 10, "f64": 11,
    "u32": 12, "u64": 13, "bf16": 16,
}  # fmt: skip
"""The numbers that ONNX has for element types, by OpenVINO's words."""


def made_of_openvino(context: OnnxContext) -> Made:
    """What a layer becomes."""
    return OPENVINO_TRANSLATORS[context.node.operator](context)


def _by(
    context: OnnxContext, operator: str, values: Sequence[Value | None] | None = None, **attributes: Any
) -> Made:
    """What an ONNX operator makes of the same inputs, or of these."""
    node = replace(context.node, operator=operator, attributes=attributes)
    values = context.values if values is None else values
    return translate_node(replace(context, node=node, values=values, opset=_OPSET))


def _integers(context: OnnxContext, name: str) -> list[int]:
    return [int(part) for part in str(context.attribute(name, "")).split(",") if part.strip()]


def _is(context: OnnxContext, name: str, default: str = "false") -> bool:
    return str(context.attribute(name, default)).strip().lower() in ("true", "1")


def _number(context: OnnxContext, at: int, what: str) -> float:
    return float(context.needed(at, what).reshape(()))


def _integer(context: OnnxContext, at: int, what: str) -> int:
    return int(context.needed(at, what).reshape(-1)[0])


def _same(operator: str, names: Mapping[str, str] | None = None) -> Translator:
    """The operator of ONNX, with numbers from attributes: `{ONNX's name: OpenVINO's}`."""

    def run(context: OnnxContext) -> Made:
        if context.attribute("auto_broadcast", "numpy") not in ("numpy", "none"):
            raise context.unimplemented("it aligns the dims of its inputs at an axis")
        given = {own: context.attribute(theirs) for own, theirs in (names or {}).items()}
        found = {own: float(text) for own, text in given.items() if text is not None}
        return _by(context, operator, None, **found)

    return run


# --- windows ------------------------------------------------------------------------------------------------


def _window(context: OnnxContext, *more: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "strides": _integers(context, "strides"),
        "dilations": _integers(context, "dilations"),
        "pads": [*_integers(context, "pads_begin"), *_integers(context, "pads_end")],
        "auto_pad": _AUTO_PAD.get(str(context.attribute("auto_pad", "explicit")), "NOTSET"),
    }
    return found | {name: _integers(context, name) for name in more}


def _convolution(operator: str, has_groups: bool) -> Translator:
    def run(context: OnnxContext) -> Made:
        if len(context.values) > 2:
            raise context.unimplemented("its result has a shape that is an input")
        weights, groups = context.value(1), 1
        if has_groups:
            groups, dims = context.dims(1)[0], context.dims(1)
            flat = (dims[0] * dims[1], *dims[2:])
            weights = context.reshaped(weights, flat) if isinstance(weights, str) else weights.reshape(flat)
        named = _window(context, "output_padding") | {"group": groups}
        return _by(context, operator, [context.value(0), weights], **named)

    return run


def _pooling(operator: str) -> Translator:
    def run(context: OnnxContext) -> Made:
        rounding = str(context.attribute("rounding_type", "floor"))
        named = _window(context) | {
            "kernel_shape": _integers(context, "kernel"),
            "ceil_mode": int(rounding != "floor"),
            "count_include_pad": int(not _is(context, "exclude-pad", "true")),
        }
        if rounding == "ceil" and _begins_behind(context.dims(0), named):
            raise context.unimplemented("its last windows begin behind the source", "save it with ceil_torch")
        one = replace(context, node=replace(context.node, outputs=context.node.outputs[:1]))
        return _by(one, operator, **named)

    return run


def _begins_behind(dims: Sequence[int], window: Mapping[str, Any]) -> bool:
    """True where a window that is rounded up would read nothing but the padding behind."""
    kernel, pads, rank = window["kernel_shape"], window["pads"], len(dims) - 2
    if window["auto_pad"] != "NOTSET" or len(pads) != 2 * rank or len(kernel) != rank:
        return False
    extents = zip(dims[2:], kernel, window["strides"], window["dilations"] or [1] * rank, strict=True)
    for (n, k, stride, dilation), low, high in zip(extents, pads[:rank], pads[rank:], strict=True):
        steps = -(-(n + low + high - (k - 1) * dilation - 1) // stride)
        if steps * stride >= n + low:
            return True
    return False


def _interpolate(context: OnnxContext) -> Made:
    if any((*_integers(context, "pads_begin"), *_integers(context, "pads_end"))):
        raise context.unimplemented("it pads its source")
    by_scale = context.attribute("shape_calculation_mode", "sizes") == "scales"
    # The first form has sizes and scales, and then axes; the later one has the one that counts.
    is_first = context.has(2) and context.needed(2, "the scale").dtype.kind == "f"
    wanted = context.needed(2 if is_first and by_scale else 1, "the new size")
    dims, axes = context.dims(0), context.known(3 if is_first else 2)
    found = np.arange(len(dims)) if axes is None else axes
    full: Array = np.ones(len(dims), np.float32) if by_scale else np.array(dims, np.int64)
    full[found.astype(np.int64)] = wanted
    mode = {"linear_onnx": "linear"}.get(str(context.attribute("mode")), context.attribute("mode"))
    values: list[Value | None] = [context.value(0), None, full if by_scale else None]
    return _by(
        context,
        "Resize",
        values if by_scale else [*values, full],
        mode=mode,
        antialias=int(_is(context, "antialias")),
        coordinate_transformation_mode=context.attribute("coordinate_transformation_mode", "half_pixel"),
        nearest_mode=context.attribute("nearest_mode", "round_prefer_floor"),
    )


# --- normalizations and products ----------------------------------------------------------------------------


def _mean_and_variance(context: OnnxContext) -> Made:
    dims = context.dims(0)
    axes = [axis_of(axis, len(dims)) for axis in context.needed(1, "the list of axes").reshape(-1)]
    if axes != [len(dims) - 1] or not _is(context, "normalize_variance", "true"):
        raise context.unimplemented("it normalizes over other dims than the last")
    if str(context.attribute("eps_mode", "inside_sqrt")).lower() != "inside_sqrt":
        raise context.unimplemented("it adds eps outside of the square root")
    scale, shift = (context.placed(make(dims[-1], np.float32)) for make in (np.ones, np.zeros))
    epsilon = float(context.attribute("eps", 1e-5))
    return context.add(LayerNormalizationOperation(epsilon), context.tensor(0), scale, shift)


def _matmul(context: OnnxContext) -> Made:
    values: list[Value | None] = []
    for at, name in enumerate(("transpose_a", "transpose_b")):
        value, rank = context.value(at), len(context.dims(at))
        if _is(context, name) and rank > 1:
            order = [*range(rank - 2), rank - 1, rank - 2]
            value = context.transposed(value, order) if isinstance(value, str) else value.transpose(order)
        values.append(value)
    is_product = len(context.dims(0)) == 2 and isinstance(values[1], np.ndarray) and values[1].ndim == 2
    return _by(context, "Gemm" if is_product else "MatMul", values)


def _attention(context: OnnxContext) -> Made:
    mask = context.needed(3, "the mask") if context.has(3) else np.zeros(1)
    if mask.any() or _is(context, "causal"):
        raise context.unimplemented("its attention has a mask")
    query, key, value = (context.tensor(at) for at in range(3))
    rank, depth = len(context.dims(1)), context.dims(1)[-1]
    turned = context.transposed(key, [*range(rank - 2), rank - 1, rank - 2])
    scores = context.builder.add(MatmulOperation(), query, turned)
    scale = _number(context, 4, "its scale") if context.has(4) else depth**-0.5
    factor = np.array(scale, context.builder.type(scores).data_type.numpy)
    scaled = replace(context, node=replace(context.node, outputs=())).binary("mul", scores, factor)
    weights = context.builder.add(SoftmaxOperation("softmax_accurate", rank - 1), scaled)
    return context.add(MatmulOperation(), weights, value)


def _lrn(context: OnnxContext) -> Made:
    if [int(axis) for axis in context.needed(1, "the list of axes").reshape(-1)] != [1]:
        raise context.unimplemented("it sums over other dims than the channels")
    named = {name: float(context.attribute(name)) for name in ("alpha", "beta", "bias")}
    return _by(context, "LRN", [context.value(0)], size=int(context.attribute("size")), **named)


def _swish(context: OnnxContext) -> Made:
    beta = _number(context, 1, "its beta") if context.has(1) else 1.0
    return context.function("swish", beta)


def _prelu(context: OnnxContext) -> Made:
    """Slopes of one dim are those of the channels."""
    slopes, rank = context.value(1), len(context.dims(0))
    if len(context.dims(1)) == 1 and rank > 1:
        dims = (1, *context.dims(1), *(1,) * (rank - 2))
        slopes = context.reshaped(slopes, dims) if isinstance(slopes, str) else slopes.reshape(dims)
    return _by(context, "PRelu", [context.value(0), slopes])


def _divide(context: OnnxContext) -> Made:
    """Integers are rounded down, where nothing else is said."""
    left, right = context.known(0), context.known(1)
    if left is None or right is None or left.dtype.kind not in "iu":
        return _same("Div")(context)
    return np.floor_divide(left, right) if _is(context, "m_pythondiv", "true") else _same("Div")(context)


def _hard_sigmoid(context: OnnxContext) -> Made:
    alpha, beta = (_number(context, at, "its slope") for at in (1, 2))
    return _by(context, "HardSigmoid", [context.value(0)], alpha=alpha, beta=beta)


def _gelu(context: OnnxContext) -> Made:
    word = str(context.attribute("approximation_mode", "ERF")).lower()
    return _by(context, "Gelu", approximate="tanh" if word == "tanh" else "none")


# --- moves --------------------------------------------------------------------------------------------------


def _shuffle(context: OnnxContext) -> Made:
    axis = axis_of(context.attribute("axis", 1), len(context.dims(0)))
    return context.add(ShuffleOperation(axis, int(context.attribute("group", 1))), context.tensor(0))


def _softmax(operator: str) -> Translator:
    return lambda context: _by(context, operator, axis=int(context.attribute("axis", 1)))


def _reduction(operator: str) -> Translator:
    return lambda context: _by(
        context, operator, keepdims=int(_is(context, "keep_dims")), noop_with_empty_axes=1
    )


def _reshape(context: OnnxContext) -> Made:
    return _by(context, "Reshape", allowzero=int(not _is(context, "special_zero")))


def _transpose(context: OnnxContext) -> Made:
    order = [int(axis) for axis in context.needed(1, "the order").reshape(-1)]
    return _by(context, "Transpose", [context.value(0)], perm=order or None)


def _gather(context: OnnxContext) -> Made:
    if int(context.attribute("batch_dims", 0)):
        raise context.unimplemented("its indices are others for each element of a batch")
    axis = _integer(context, 2, "the axis")
    return _by(context, "Gather", [context.value(0), context.value(1)], axis=axis)


def _slice(context: OnnxContext) -> Made:
    data, start, stop, step, *axes = context.values
    return _by(context, "Slice", [data, start, stop, *(axes or [None]), step])


def _split(context: OnnxContext) -> Made:
    axis = _integer(context, 1, "the axis")
    if not context.has(2):
        return _by(context, "Split", [context.value(0)], axis=axis)
    sizes = context.needed(2, "the list of sizes")
    dims = context.dims(0)
    rest = dims[axis_of(axis, len(dims))] - int(sizes[sizes >= 0].sum())
    return _by(context, "Split", [context.value(0), np.where(sizes == -1, rest, sizes)], axis=axis)


def _convert(context: OnnxContext) -> Made:
    return _by(context, "Cast", to=NUMBERS[str(context.attribute("destination_type"))])


def _concat(context: OnnxContext) -> Made:
    return _by(context, "Concat", axis=int(context.attribute("axis")))


def _pad(context: OnnxContext) -> Made:
    mode = str(context.attribute("pad_mode", "constant"))
    pads = np.concatenate([context.needed(at, "the padding").reshape(-1) for at in (1, 2)])
    return _by(context, "Pad", [context.value(0), pads, context.known(3)], mode=mode)


def _normalization(context: OnnxContext) -> Made:
    # The first version had the source third.
    is_old = len(context.dims(0)) == 1 < len(context.dims(2))
    order = (2, 0, 1, 3, 4) if is_old else range(5)
    values = [context.value(at) for at in order]
    epsilon = float(context.attribute("epsilon", context.attribute("eps", 1e-5)))
    return _by(context, "BatchNormalization", values, epsilon=epsilon)


def _broadcast(context: OnnxContext) -> Made:
    if (
        context.known(0) is None
        or context.known(1) is None
        or context.attribute("mode", "numpy") == "explicit"
    ):
        raise context.unimplemented("it repeats what is known only in a run, or along axes of its own")
    return _by(context, "Expand", context.values[:2])


def _shape(context: OnnxContext) -> Made:
    return np.array(context.dims(0), np.int64)


def _squeeze(context: OnnxContext) -> Made:
    if prod(context.dims(0)) == 0 and not context.has(1):
        raise context.unimplemented("it squeezes a tensor without elements")
    return _by(context, "Squeeze")


_ALIKE = {
    "Abs": "Abs", "Add": "Add", "Equal": "Equal", "Exp": "Exp", "Floor": "Floor",
    "HSwish": "HardSwish", "Log": "Log", "Maximum": "Max", "Minimum": "Min", "Mish": "Mish",
    "Multiply": "Mul", "Negative": "Neg", "Power": "Pow", "Range": "Range",
    "ReLU": "Relu", "Select": "Where", "Sigmoid": "Sigmoid", "SoftPlus": "Softplus", "Sqrt": "Sqrt",
    "Subtract": "Sub", "Tanh": "Tanh", "Unsqueeze": "Unsqueeze",
}  # fmt: skip

OPENVINO_TRANSLATORS: dict[str, Callable[[OnnxContext], Made]] = {
    **{name: _same(operator) for name, operator in _ALIKE.items()},
    "AvgPool": _pooling("AveragePool"),
    "BatchNormInference": _normalization,
    "Broadcast": _broadcast,
    "Clamp": _same("Clip", {"min": "min", "max": "max"}),
    "Concat": _concat,
    "Convert": _convert,
    "Convolution": _convolution("Conv", has_groups=False),
    "ConvolutionBackpropData": _convolution("ConvTranspose", has_groups=False),
    "Divide": _divide,
    "Elu": _same("Elu", {"alpha": "alpha"}),
    "GRUSequence": sequence("GRU"),
    "Gather": _gather,
    "Gelu": _gelu,
    "GroupConvolution": _convolution("Conv", has_groups=True),
    "GroupConvolutionBackpropData": _convolution("ConvTranspose", has_groups=True),
    "HardSigmoid": _hard_sigmoid,
    "Interpolate": _interpolate,
    "LRN": _lrn,
    "LSTMSequence": sequence("LSTM"),
    "LogSoftmax": _softmax("LogSoftmax"),
    "MVN": _mean_and_variance,
    "MatMul": _matmul,
    "MaxPool": _pooling("MaxPool"),
    "PReLU": _prelu,
    "Pad": _pad,
    "RNNSequence": sequence("RNN"),
    "ReduceL1": _reduction("ReduceL1"),
    "ReduceL2": _reduction("ReduceL2"),
    "ReduceMax": _reduction("ReduceMax"),
    "ReduceMean": _reduction("ReduceMean"),
    "ReduceMin": _reduction("ReduceMin"),
    "ReduceProd": _reduction("ReduceProd"),
    "ReduceSum": _reduction("ReduceSum"),
    "Reshape": _reshape,
    "ScaledDotProductAttention": _attention,
    "ShapeOf": _shape,
    "ShuffleChannels": _shuffle,
    "Slice": _slice,
    "SoftMax": _softmax("Softmax"),
    "Split": _split,
    "Squeeze": _squeeze,
    "Swish": _swish,
    "Transpose": _transpose,
    "VariadicSplit": _split,
}
"""What each layer becomes, by its type."""
