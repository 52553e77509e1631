"""OpenVINO's operators as operations of the graph, mostly through the equivalent ONNX operator.

Attributes are texts, as the file has them, with `_` for `-` in names; lists are comma-separated numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Annotated, Any

import numpy as np

from ....dtypes import DataType
from ....ops.reduction import ReductionProblem
from ....runtime.alloc import Array
from ...nodes.layers import LayerNormalizationOperation
from ...nodes.moves import ShuffleOperation
from ...nodes.operations import AS_F32
from ..onnx import operators
from ..onnx.attention import AttentionForm, attended_of_any_rank
from ..onnx.known import axis_of
from ..onnx.quantized import WEIGHTS, dequantized
from ..onnx.rows import enter_rows, specifications
from ..onnx.tensors import ELEMENTS
from ..operator_call import OPENVINO, Function, Ints, Made, Moved, OperatorCall, Value
from . import recurrent

__all__ = ["NUMBERS", "OPENVINO_TRANSLATORS", "operators", "recurrent", "translate_layer"]

_AUTO_PAD = {"explicit": "NOTSET", "valid": "VALID", "same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER"}
_Axes = Annotated[Ints, "the list of axes"]
_Axis = Annotated[int, "the axis"]
_Slope = Annotated[float, "its slope"]
NUMBERS = {
    "f32": 1, "u8": 2, "i8": 3, "u16": 4, "i16": 5, "i32": 6, "i64": 7, "boolean": 9, "f16": 10, "f64": 11,
    "u32": 12, "u64": 13, "bf16": 16, "f8e4m3": 17, "f8e5m2": 19, "u4": 21, "i4": 22, "f4e2m1": 23,
}  # fmt: skip
"""ONNX's numbers of element types, by OpenVINO's words."""


def translate_layer(call: OperatorCall) -> Made:
    """Return the values and tensors that stand for a layer."""
    attributes = {name.replace("-", "_"): value for name, value in call.node.attributes.items()}
    if attributes.get("auto_broadcast", "numpy") not in ("numpy", "none"):
        raise call.unimplemented("it aligns the dims of its inputs at an axis")
    return OPENVINO.run(call, call.values, attributes)


for _specification in specifications():
    enter_rows(OPENVINO, _specification.openvino)


# --- windows ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _LayerWindow:
    strides: Ints = ()
    dilations: Ints = ()
    pads_begin: Ints = ()
    pads_end: Ints = ()
    auto_pad: str = "explicit"
    output_padding: Ints = ()

    def onnx(self) -> dict[str, Any]:
        """Return the corresponding attributes of ONNX."""
        pads, word = (*self.pads_begin, *self.pads_end), _AUTO_PAD.get(self.auto_pad, "NOTSET")
        return {"strides": self.strides, "dilations": self.dilations, "pads": pads, "auto_pad": word}


@OPENVINO("Convolution", "ConvolutionBackpropData", "GroupConvolution", "GroupConvolutionBackpropData")
def _convolution(
    call: OperatorCall, x: Value, weights: Value, shape: Value | None = None, *, window: _LayerWindow
) -> Made:
    if len(call.values) > 2:
        raise call.unimplemented("the shape of its result is an input")
    group, dims, kind = 1, call.dims(weights), call.node.operator
    if kind.startswith("Group"):
        group, weights = dims[0], call.reshaped(weights, (dims[0] * dims[1], *dims[2:]))
    if not kind.endswith("BackpropData"):
        return call.onnx("Conv", x, weights, group=group, **window.onnx())
    more = window.output_padding
    return call.onnx("ConvTranspose", x, weights, group=group, output_padding=more, **window.onnx())


@OPENVINO("AvgPool", "MaxPool")
def _pooling(
    call: OperatorCall,
    x: Value,
    *,
    kernel: Ints,
    window: _LayerWindow,
    rounding_type: str = "floor",
    exclude_pad: bool = True,
) -> Made:
    if rounding_type == "ceil" and _begins_behind(call.dims(x), kernel, window):
        raise call.unimplemented("its last windows begin after the source", "save it with ceil_torch")
    attributes = window.onnx() | {"kernel_shape": kernel, "ceil_mode": rounding_type != "floor"}
    if call.node.operator == "MaxPool":
        return call.with_outputs(1).onnx("MaxPool", x, **attributes)
    return call.onnx("AveragePool", x, count_include_pad=not exclude_pad, **attributes)


def _begins_behind(dims: Sequence[int], kernel: Ints, window: _LayerWindow) -> bool:
    """True if a window from rounding up would read only padding."""
    low, high, rank = window.pads_begin, window.pads_end, len(dims) - 2
    if (
        _AUTO_PAD.get(window.auto_pad, "NOTSET") != "NOTSET"
        or not len(low) == len(high) == len(kernel) == rank
    ):
        return False
    extents = zip(dims[2:], kernel, window.strides, window.dilations or [1] * rank, low, high, strict=True)
    return any(
        -(-(n + before + behind - (k - 1) * dilation - 1) // stride) * stride >= n + before
        for n, k, stride, dilation, before, behind in extents
    )


@OPENVINO("Interpolate")
def _interpolate(
    call: OperatorCall,
    x: Value,
    sizes: Annotated[Array, "the new size"],
    scales: Annotated[Array, "the scale"] | None = None,
    axes: Value | None = None,
    *,
    pads_begin: Ints = (),
    pads_end: Ints = (),
    shape_calculation_mode: str = "sizes",
    mode: str = "",
    antialias: bool = False,
    coordinate_transformation_mode: str = "half_pixel",
    nearest_mode: str = "round_prefer_floor",
) -> Made:
    if any((*pads_begin, *pads_end)):
        raise call.unimplemented("it pads its source")
    by_scale = shape_calculation_mode == "scales"
    # The first form has sizes, scales and axes; the later one has a single input of either.
    is_first = scales is not None and scales.dtype.kind == "f"
    dims = call.dims(x)
    places = axes if is_first else scales
    full: Array = np.ones(len(dims), np.float32) if by_scale else np.array(dims, np.int64)
    where = np.arange(len(dims)) if not isinstance(places, np.ndarray) else places.astype(np.int64)
    full[where] = scales if is_first and by_scale else sizes
    return call.onnx(
        "Resize",
        *(x, None, full if by_scale else None, None if by_scale else full),
        mode="linear" if mode == "linear_onnx" else mode,
        antialias=antialias,
        coordinate_transformation_mode=coordinate_transformation_mode,
        nearest_mode=nearest_mode,
    )


# --- normalizations and products ----------------------------------------------------------------------------


@OPENVINO("MVN")
def _mean_and_variance(
    call: OperatorCall,
    x: Moved,
    axes: _Axes,
    *,
    normalize_variance: bool = True,
    eps_mode: str = "inside_sqrt",
    eps: float = 1e-5,
) -> Made:
    dims = call.dims(x)
    if [axis_of(axis, len(dims)) for axis in axes] != [len(dims) - 1] or not normalize_variance:
        raise call.unimplemented("it normalizes over dims other than the last")
    if eps_mode.lower() != "inside_sqrt":
        raise call.unimplemented("it adds eps outside the square root")
    scale, shift = (make(dims[-1], np.float32) for make in (np.ones, np.zeros))
    return call.add(LayerNormalizationOperation(eps), x, scale, shift)


@OPENVINO("BatchNormInference")
def _batch_normalization(
    call: OperatorCall, *values: Value, epsilon: float | None = None, eps: float = 1e-5
) -> Made:
    # In the first version the source is the third input.
    is_old = len(call.dims(values[0])) == 1 < len(call.dims(values[2]))
    ordered = [values[at] for at in ((2, 0, 1, 3, 4) if is_old else range(5))]
    return call.onnx("BatchNormalization", *ordered, epsilon=eps if epsilon is None else epsilon)


@OPENVINO("LRN")
def _lrn(call: OperatorCall, x: Value, axes: _Axes, *, alpha: Any, beta: Any, bias: Any, size: Any) -> Made:
    if axes != (1,):
        raise call.unimplemented("it sums over dims other than the channels")
    return call.onnx("LRN", x, alpha=alpha, beta=beta, bias=bias, size=size)


@OPENVINO("MatMul")
def _matmul(
    call: OperatorCall, left: Value, right: Value, *, transpose_a: bool = False, transpose_b: bool = False
) -> Made:
    left, right = (
        call.matrices_transposed(matrix) if turns and len(call.dims(matrix)) > 1 else matrix
        for matrix, turns in ((left, transpose_a), (right, transpose_b))
    )
    is_product = len(call.dims(left)) == 2 and isinstance(right, np.ndarray) and right.ndim == 2
    return call.onnx("Gemm" if is_product else "MatMul", left, right)


@OPENVINO("ScaledDotProductAttention")
def _attention(
    call: OperatorCall,
    query: Moved,
    key: Moved,
    value: Moved,
    mask: Value | None = None,
    scale: Annotated[float, "its scale"] | None = None,
    *,
    causal: bool = False,
) -> Made:
    """Any number of leading dims; a causal one has no mask."""
    if mask is not None and not call.dims(mask):
        mask = call.reshaped(mask, (1,))
    form = AttentionForm(scale, "top_left" if causal else "none")
    return attended_of_any_rank(call, (query, key, value), form, None if causal else mask)


# --- elements -----------------------------------------------------------------------------------------------


@OPENVINO("Divide")
def _divide(call: OperatorCall, left: Value, right: Value, *, m_pythondiv: bool = True) -> Made:
    """Integer division rounds down by default."""
    if isinstance(left, str) or isinstance(right, str) or left.dtype.kind not in "iu" or not m_pythondiv:
        return call.onnx("Div", left, right)
    return np.asarray(np.floor_divide(left, right))


@OPENVINO("PReLU")
def _prelu(call: OperatorCall, x: Value, slopes: Value) -> Made:
    """One-dimensional slopes are per channel."""
    dims, rank = call.dims(slopes), len(call.dims(x))
    if len(dims) == 1 and rank > 1:
        slopes = call.reshaped(slopes, (1, *dims, *(1,) * (rank - 2)))
    return call.onnx("PRelu", x, slopes)


@OPENVINO("Swish")
def _swish(call: OperatorCall, x: Moved, beta: Annotated[float, "its beta"] = 1.0) -> Made:
    return call.function(x, "swish", beta)


@OPENVINO("HardSigmoid")
def _hard_sigmoid(call: OperatorCall, x: Value, alpha: _Slope, beta: _Slope) -> Made:
    return call.onnx("HardSigmoid", x, alpha=alpha, beta=beta)


@OPENVINO(*ReductionProblem.openvino)
def _reduction(call: OperatorCall, x: Value, axes: Value | None = None, *, keep_dims: bool = False) -> Made:
    return call.onnx(call.node.operator, x, axes, keepdims=keep_dims, noop_with_empty_axes=1)


# --- moves --------------------------------------------------------------------------------------------------


@OPENVINO("ShuffleChannels")
def _shuffle(call: OperatorCall, x: Moved, *, axis: int = 1, group: int = 1) -> Made:
    return call.add(ShuffleOperation(axis_of(axis, len(call.dims(x))), group), x)


@OPENVINO("Split", "VariadicSplit")
def _split(
    call: OperatorCall, x: Value, axis: _Axis, sizes: Annotated[Array, "the list of sizes"] | None = None
) -> Made:
    if sizes is None:
        return call.onnx("Split", x, axis=axis)
    dims = call.dims(x)
    rest = dims[axis_of(axis, len(dims))] - int(sizes[sizes >= 0].sum())
    return call.onnx("Split", x, np.where(sizes == -1, rest, sizes), axis=axis)


@OPENVINO("Pad")
def _pad(
    call: OperatorCall,
    x: Value,
    low: Annotated[Ints, "the padding"],
    high: Annotated[Ints, "the padding"],
    value: Annotated[Array, "the value"] | None = None,
    *,
    pad_mode: str = "constant",
) -> Made:
    return call.onnx("Pad", x, (*low, *high), value, mode=pad_mode)


@OPENVINO("Broadcast")
def _broadcast(call: OperatorCall, x: Value, shape: Value, *, mode: str = "numpy") -> Made:
    if isinstance(x, str) or isinstance(shape, str) or mode == "explicit":
        raise call.unimplemented("it broadcasts to a shape known only in a run, or along explicit axes")
    return call.onnx("Expand", x, shape)


@OPENVINO("Squeeze")
def _squeeze(call: OperatorCall, x: Value, axes: Value | None = None) -> Made:
    if prod(call.dims(x)) == 0 and axes is None:
        raise call.unimplemented("it squeezes an empty tensor")
    return call.onnx("Squeeze", x, axes)


@OPENVINO("Convert")
def _convert(call: OperatorCall, x: Value, *, destination_type: str) -> Made:
    """Known integers of few bits converted to floats are weights; later layers give their scales."""
    number = NUMBERS[destination_type]
    kind = DataType.parse(ELEMENTS[number])
    is_known = call.builder.known(x) is not None if isinstance(x, str) else x.ndim > 1
    if is_known and kind in AS_F32 and call.type_of(x) in WEIGHTS:
        one, zero = np.ones(1, np.float32), np.zeros(1, np.uint8)
        return dequantized(call, call.placed(x), one, zero, kind)
    return call.onnx("Cast", x, to=number)


@OPENVINO("Transpose")
def _transpose(call: OperatorCall, x: Value, order: Annotated[Ints, "the order"]) -> Made:
    return call.onnx("Transpose", x, perm=order)


_ROWS: Mapping[str, Function | str] = {
    "Clamp": lambda call, x, *, min, max: call.onnx(
        "Clip", x, *(np.array(float(end), call.numpy_type(x)) for end in (min, max))
    ),
    "Concat": lambda call, *xs, axis: call.onnx("Concat", *xs, axis=axis),
    "Equal": "Equal",
    "Floor": "Floor",
    "Gelu": lambda call, x, *, approximation_mode="ERF": call.onnx(
        "Gelu", x, approximate="tanh" if approximation_mode.lower() == "tanh" else "none"
    ),
    "LogSoftmax": lambda call, x, *, axis="1": call.onnx("LogSoftmax", x, axis=axis),
    "Range": "Range",
    "Reshape": lambda call, x, dims, *, special_zero=False: call.onnx(
        "Reshape", x, dims, allowzero=not special_zero
    ),
    "ShapeOf": "Shape",
    "Slice": lambda call, x, start, stop, step, axes=None: call.onnx("Slice", x, start, stop, axes, step),
    "SoftMax": lambda call, x, *, axis="1": call.onnx("Softmax", x, axis=axis),
    "Unsqueeze": "Unsqueeze",
}
enter_rows(OPENVINO, _ROWS)

OPENVINO_TRANSLATORS = frozenset(OPENVINO)
"""The supported types of layers."""
