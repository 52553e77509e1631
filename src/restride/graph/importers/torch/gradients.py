"""ATen's gradients, and the forward operators that save statistics for them, as training graphs call them.

Each is a backward primitive if there is one, so that propagation chooses its formats; others are a few
elementwise nodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from ....model.result_dims import from_end
from ....runtime.alloc import Array
from ...nodes.operations import SumOperation
from ...nodes.products import ConvolutionOperation
from ..onnx.attention import AttentionForm, attention_parameters
from ..onnx.gradients import times
from ..onnx.rows import enter_rows
from ..onnx.windows import OnnxWindow, average_shares, ceiled_places
from ..operator_call import ATEN, Function, Made, OperatorCall, Value
from .call import CALL, axes_of, cast_to, numpy_of, promoted, reads_more
from .layers import (
    PoolArguments,
    adaptive_shares,
    attention,
    batch_statistics,
    group_normalization,
    layer_normalization,
    nearest_places,
    of_axes,
)
from .moves import slice_scatter

_MEAN = 1
# Above this, softplus is its argument in f32.
_STRAIGHT = 17
_MOST_IN_BYTES = 256
_FEW_CHANNELS = 8
"""Fewer channels do not fill the vectors that gradients of weights use."""


def _made(call: OperatorCall, primitive: str, *inputs: Any, **parameters: Any) -> tuple[Value, ...]:
    made = call.with_outputs(0).primitive(primitive, *inputs, **parameters)
    return made if isinstance(made, tuple) else (made,)


def _fitted(call: OperatorCall, *values: Any) -> Made:
    """Convert results to torch's dims and types; None for omitted ones."""
    fitted: list[Any] = []
    for value, (dims, word) in zip(values, call.node.attributes[CALL].results, strict=False):
        if not word:
            fitted.append(None)
            continue
        fitted.append(call.reshaped(cast_to(call, value, numpy_of(word)), dims))
    return tuple(fitted)


# --- convolutions -------------------------------------------------------------------------------------------


@ATEN("convolution_backward")
def _of_convolution(call: OperatorCall, g: Any, x: Any, weights: Any, bias_sizes: Any, *numbers: Any) -> Made:
    strides, padding, dilations, is_transposed, more, groups, is_read = numbers
    dims, apart = call.dims(weights), call.with_outputs(0)
    rank = len(dims) - 2
    padding, behind = axes_of(padding, rank), axes_of(more, rank)
    window = {
        "strides": axes_of(strides, rank),
        "dilates": tuple(n - 1 for n in axes_of(dilations, rank)),
        "padding_l": padding,
        "padding_r": tuple(n - m * is_transposed for n, m in zip(padding, behind, strict=True)),
    }
    word = "Deconvolution" if is_transposed else "Convolution"
    grouped = (groups, dims[0] // groups, *dims[1:]) if groups > 1 else dims
    order = [*range(len(grouped))]
    if is_transposed:  # outputs precede inputs in each group
        order[groups > 1 : 2 + (groups > 1)] = 1 + (groups > 1), int(groups > 1)
    results: list[Any] = [None] * 3
    if is_read[0]:
        own = apart.transposed(apart.reshaped(weights, grouped), order)
        results[:1] = _made(call, f"{word}BackwardData", g, own, dims=call.dims(x), **window)
    has_few = groups == 1 and dims[1] < _FEW_CHANNELS and not is_transposed
    if is_read[1] and has_few and max(window["strides"]) < min(dims[2:]):
        results[1] = _by_windows(apart, g, x, dims, window)
    elif is_read[1]:
        shape = tuple(grouped[axis] for axis in order)
        found = _made(call, f"{word}BackwardWeights", x, g, dims=shape, has_bias=int(is_read[2]), **window)
        results[1:] = apart.transposed(found[0], order), *found[1:]
    if is_read[2] and results[2] is None:
        results[2] = apart.onnx("ReduceSum", g, (0, *range(2, rank + 2)), keepdims=False)
    return _fitted(call, *results)


def _by_windows(
    call: OperatorCall, g: Value, x: Value, dims: Sequence[int], window: Mapping[str, Sequence[int]]
) -> Value:
    """Return the gradient of weights of few channels: they become the batch of a convolution with weights
    `g`.

    Its dilations are the strides of the forward one. Surplus windows are cropped.
    """
    behind = []
    numbers = zip(*window.values(), dims[2:], call.dims(x)[2:], call.dims(g)[2:], strict=True)
    for step, dilate, low, _, kernel, size, count in numbers:
        reach = (kernel - 1) * (dilate + 1) + (count - 1) * step + 1
        behind.append(max(reach - size - low, 0))
    operation = ConvolutionOperation(
        tuple(n + 1 for n in window["dilates"]),
        tuple(n - 1 for n in window["strides"]),
        tuple(window["padding_l"]),
        tuple(behind),
    )
    order = [1, 0, *range(2, len(dims))]
    made = call.add(operation, *(call.placed(call.transposed(each, order)) for each in (x, g)))
    axes = tuple(range(2, len(dims)))
    part = call.onnx("Slice", made, (0,) * len(axes), dims[2:], axes, (1,) * len(axes))
    return call.transposed(part, order)


# --- normalizations -----------------------------------------------------------------------------------------


def _affine(call: OperatorCall, count: int, *tensors: Any) -> list[str]:
    """Return scale and shift as f32: ones and zeros if omitted."""
    defaults = np.ones(count, np.float32), np.zeros(count, np.float32)
    pairs = zip(tensors, defaults, strict=False)
    return [call.parameter(other if x is None else call.reshaped(x, (count,))) for x, other in pairs]


def _inverse(call: OperatorCall, variance: Value, eps: float) -> Value:
    """Return the inverse of a standard deviation."""
    apart = call.with_outputs(0)
    root = apart.function(apart.function(variance, "linear", 1.0, eps), "sqrt")
    return apart.function(root, "pow", 1.0, -1.0)


def _variance(call: OperatorCall, inverse: Value) -> Value:
    """Return the variance of an inverse standard deviation without epsilon."""
    return call.with_outputs(0).function(call.parameter(inverse), "pow", 1.0, -2.0)


@ATEN("_native_batch_norm_legit_functional")
def _batch_normalization(
    call: OperatorCall, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, *numbers: Any
) -> Made:
    """Return the result, mean and inverse deviation of the batch, and new running statistics, if any."""
    training, momentum, eps = numbers
    affine, nothing = _affine(call, call.dims(x)[1], weight, bias), np.zeros(0, np.float32)
    if not training:
        made = call.onnx("BatchNormalization", x, *affine, mean, variance, epsilon=eps)
        return _fitted(call, made, nothing, nothing, mean, variance)
    parameters = {"epsilon": eps, "prop_kind": "forward_training"}
    y, own, spread = _made(call, "BatchNormalizationForward", x, *affine, **parameters)
    results = [y, own, _inverse(call, spread, eps)]
    count = prod(call.dims(x)) // max(call.dims(x)[1], 1)
    shares = momentum, momentum * count / max(count - 1, 1)
    for old, new, share in zip((mean, variance), (own, spread), shares, strict=True):
        if old is not None:
            operation = SumOperation((1.0 - momentum, share))
            results.append(call.with_outputs(0).add(operation, call.parameter(old), new))
    return _fitted(call, *results)


@ATEN("_batch_norm_with_update_functional")
def _updated(call: OperatorCall, *arguments: Any) -> Made:
    """The same, with the reserve tensor that torch passes to the gradient, used only by other libraries."""
    *tensors, momentum, eps = arguments
    made = _batch_normalization(call, *tensors, True, momentum, eps)
    return *made[:3], np.zeros(0, np.uint8), *made[3:]


@ATEN("native_batch_norm_backward", "batch_norm_backward")
def _of_batch_normalization(call: OperatorCall, g: Any, x: Any, weight: Any, *arguments: Any) -> Made:
    mean, variance, own_mean, inverse, training, eps, *_ = arguments
    parameters: dict[str, Any] = {"epsilon": 0.0}
    if training:
        mean, variance = own_mean, _variance(call, inverse)
    else:
        parameters = {"epsilon": eps, "flags": "use_global_stats|use_scale|use_shift"}
    statistics = call.parameter(mean), call.parameter(variance)
    operands = *statistics, *_affine(call, call.dims(x)[1], weight)
    return _fitted(call, *_made(call, "BatchNormalizationBackward", g, x, *operands, **parameters))


@ATEN("native_batch_norm", "_native_batch_norm_legit")
def _of_batch(call: OperatorCall, x: Any, weight: Any, bias: Any, *arguments: Any) -> Made:
    """The same without new running statistics, in the variant of torch that never writes them."""
    *running, training, momentum, eps = arguments
    if not training:
        return _batch_normalization(call, x, weight, bias, *running, training, momentum, eps)
    if any(tensor is not None for tensor in running):
        raise call.unimplemented("it changes its running statistics")
    if not reads_more(call):
        return batch_statistics(call, x, weight, bias, training, momentum, eps)
    return _batch_normalization(call, x, weight, bias, None, None, training, momentum, eps)


@ATEN("native_layer_norm")
def _rows(call: OperatorCall, x: Any, shape: Any, weight: Any, bias: Any, *, eps: float) -> Made:
    """Return the result, and means and inverse deviations of rows if they are read."""
    if not reads_more(call):
        return layer_normalization(call, x, shape, weight, bias, eps=eps)
    size = prod(shape)
    rows = call.reshaped(x, (prod(call.dims(x)) // max(size, 1), size))
    parameters = {"epsilon": eps, "prop_kind": "forward_training"}
    y, mean, spread = _made(
        call, "LayerNormalizationForward", rows, *_affine(call, size, weight, bias), **parameters
    )
    return _fitted(call, y, mean, _inverse(call, spread, eps))


@ATEN("native_layer_norm_backward")
def _of_layer_normalization(
    call: OperatorCall, g: Any, x: Any, shape: Any, mean: Any, inverse: Any, weight: Any, *_: Any
) -> Made:
    size = prod(shape)
    count = prod(call.dims(x)) // max(size, 1)
    rows = [call.reshaped(each, (count, size)) for each in (g, x)]
    stats = [call.reshaped(each, (count,)) for each in (call.parameter(mean), _variance(call, inverse))]
    scale = _affine(call, size, weight)
    return _fitted(call, *_made(call, "LayerNormalizationBackward", *rows, *stats, *scale, epsilon=0.0))


@ATEN("native_group_norm")
def _groups(call: OperatorCall, x: Any, weight: Any, bias: Any, *numbers: Any) -> Made:
    """Return the result, and means and inverse deviations of groups if they are read."""
    *_, groups, eps = numbers
    if not reads_more(call):
        return group_normalization(call, x, weight, bias, *numbers)
    parameters = {"groups": groups, "epsilon": eps, "prop_kind": "forward_training"}
    affine = _affine(call, call.dims(x)[1], weight, bias)
    y, mean, spread = _made(call, "GroupNormalizationForward", x, *affine, **parameters)
    return _fitted(call, y, mean, _inverse(call, spread, eps))


@ATEN("native_group_norm_backward")
def _of_group_normalization(
    call: OperatorCall, g: Any, x: Any, mean: Any, inverse: Any, weight: Any, *numbers: Any
) -> Made:
    *_, groups, _ = numbers
    operands = call.parameter(mean), _variance(call, inverse), *_affine(call, call.dims(x)[1], weight)
    parameters = {"groups": groups, "epsilon": 0.0}
    return _fitted(call, *_made(call, "GroupNormalizationBackward", g, x, *operands, **parameters))


# --- windows ------------------------------------------------------------------------------------------------


def _of_windows(call: OperatorCall, g: Any, x: Any, algorithm: str, places: Any, *workspace: Any) -> Value:
    """Return the gradient of a pooling of images; a single image becomes a batch."""
    dims, rank = call.dims(x), len(places.kernel)
    batched = (*(1,) * (rank + 2 - len(dims)), *dims)
    read = [call.reshaped(each, (*batched[:2], *call.dims(each)[-rank:])) for each in (g, *workspace)]
    names = "kernel", "strides", "dilates", "padding_l", "padding_r"
    numbers = dict(zip(names, places, strict=True))
    (made,) = _made(call, "PoolingBackward", *read, algorithm=algorithm, dims=batched, **numbers)
    return call.reshaped(made, dims)


@ATEN("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def _of_maxima(call: OperatorCall, g: Any, x: Any, kernel_size: Any, *numbers: Any) -> Made:
    """Convert indices in an image to positions in windows: the offset from the start of each window."""
    stride, padding, dilation, ceil_mode, indices = numbers
    rank = int(call.node.operator[len("aten.max_pool")])
    sizes = call.dims(x)[-rank:]
    window = OnnxWindow(dilations=axes_of(dilation, rank), **_window(stride, padding, kernel_size, rank))
    places = window.places((1, 1, *sizes))
    places = ceiled_places(places, (1, 1, *sizes)) if ceil_mode else places
    first: Array = np.zeros((), np.int64)
    behind: Array = np.zeros((), np.int64)
    position: Array = np.zeros((), np.int64)
    for n, count, (kernel, step, dilate, low, _) in zip(
        sizes, call.dims(g)[-rank:], zip(*places, strict=True), strict=True
    ):
        first = first[..., None] * n + np.arange(count) * step - low
        behind = behind[..., None] * n + np.arange(kernel) * (dilate + 1)
        position = position[..., None] * kernel + np.arange(kernel)
    table = np.zeros(int(behind.max(initial=0)) + 1, np.uint8 if position.size < _MOST_IN_BYTES else np.int32)
    if len(np.unique(behind)) < behind.size:
        raise call.unimplemented("its windows are wider than its image")
    table[behind] = position
    distance = call.elements("sub", indices, first)
    workspace = call.with_outputs(0).onnx("Gather", table, distance, axis=0)
    return _of_windows(call, g, x, "pooling_max", places, workspace)


def _window(stride: Any, padding: Any, kernel_size: Any, rank: int) -> dict[str, Any]:
    attributes = PoolArguments(stride, padding).onnx(kernel_size, rank)
    del attributes["ceil_mode"]
    return attributes


@ATEN("avg_pool2d_backward", "avg_pool3d_backward")
def _of_averages(call: OperatorCall, g: Any, x: Any, kernel_size: Any, *numbers: Any) -> Made:
    stride, padding, ceil_mode, has_padding, divisor = numbers
    rank = int(call.node.operator[len("aten.avg_pool")])
    dims = (1, 1, *call.dims(x)[-rank:])
    places = OnnxWindow(**_window(stride, padding, kernel_size, rank)).places(dims)
    own = ceiled_places(places, dims) if ceil_mode else places
    word, apart = "include" if has_padding or divisor else "exclude", call.with_outputs(0)
    if divisor:
        g = times(apart, g, prod(places.kernel) / divisor)
    elif has_padding and own != places:
        g = apart.onnx("Mul", g, average_shares(places, dims[2:], call.dims(g)[-rank:]))
    return _of_windows(call, g, x, f"pooling_avg_{word}_padding", own)


@ATEN("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def _of_adaptive_averages(call: OperatorCall, g: Any, x: Any) -> Made:
    rank = int(call.node.operator[len("aten._adaptive_avg_pool")])
    pairs = list(zip(call.dims(x)[-rank:], call.dims(g)[-rank:], strict=True))
    if all(size and n % size == 0 for n, size in pairs):
        kernel = tuple(n // size for n, size in pairs)
        window = OnnxWindow(kernel_shape=kernel, strides=kernel)
        places = window.places((1, 1, *call.dims(x)[-rank:]))
        return _of_windows(call, g, x, "pooling_avg_include_padding", places)
    return of_axes(call, g, [adaptive_shares(*pair).T for pair in pairs])


@ATEN(
    *(
        f"{word}{rank}d_backward"
        for word in ("upsample_nearest", "_upsample_nearest_exact")
        for rank in (1, 2, 3)
    )
)
def _of_nearest(call: OperatorCall, g: Any, sizes: Any, dims: Any, *factors: Any) -> Made:
    """Integer factors are a resampling; others a product with a matrix for each axis."""
    if all(m % n == 0 for n, m in zip(dims[2:], sizes, strict=True)):
        (made,) = _made(call, "ResamplingBackward", g, algorithm="resampling_nearest", dims=tuple(dims))
        return made
    center = 0.5 if "exact" in call.node.operator else 0.0
    own = () if None in factors or len(factors) < len(sizes) else factors
    places, _ = nearest_places(tuple(dims[2:]), tuple(sizes), own, center)
    return of_axes(
        call, g, [np.equal.outer(np.arange(n), at) for n, at in zip(dims[2:], places, strict=True)]
    )


@ATEN("upsample_linear1d_backward", "upsample_bilinear2d_backward", "upsample_trilinear3d_backward")
def _of_linear(call: OperatorCall, g: Any, sizes: Any, dims: Any, corners: bool, *factors: Any) -> Made:
    own = [None, *factors][-len(sizes) :] if factors else [None] * len(sizes)
    triples = list(zip(dims[2:], sizes, own, strict=True))
    if not corners and all(f is None or n * f == m for n, m, f in triples):
        (made,) = _made(call, "ResamplingBackward", g, algorithm="resampling_linear", dims=tuple(dims))
        return made
    return of_axes(call, g, [_weights(*triple, corners).T for triple in triples])


def _weights(n: int, size: int, factor: float | None, corners: bool) -> Array:
    """Return the interpolation weights of the elements of an axis in each result."""
    at = np.arange(size, dtype=np.float64)
    if corners:
        at = at * (n - 1) / max(size - 1, 1)
    else:
        at = np.maximum((at + 0.5) * (1 / factor if factor else n / size) - 0.5, 0)
    low = np.minimum(np.floor(at).astype(np.int64), n - 1)
    weights = np.zeros((size, n))
    np.add.at(weights, (np.arange(size), low), 1 - (at - low))
    np.add.at(weights, (np.arange(size), np.minimum(low + 1, n - 1)), at - low)
    return weights


# --- losses -------------------------------------------------------------------------------------------------


@ATEN("nll_loss_forward", "nll_loss2d_forward")
def _likelihoods(call: OperatorCall, x: Any, target: Any, weight: Any, reduction: int, ignored: int) -> Made:
    """Return the loss, and the divisor of a mean."""
    apart, dims, kind = call.with_outputs(0), call.dims(x), call.numpy_type(x)
    axis, zero = int(len(dims) > 1), np.zeros((), kind)
    is_there = apart.elements("ne", *promoted(apart, target, ignored))
    at = apart.onnx("Where", is_there, target, np.zeros((), np.int64))
    places = apart.reshaped(at, (*dims[:axis], 1, *dims[axis + 1 :]))
    own = apart.reshaped(apart.onnx("GatherElements", x, places, axis=axis), call.dims(target))
    share = np.ones((), kind) if weight is None else apart.onnx("Gather", weight, at, axis=0)
    share = apart.onnx("Where", is_there, share, zero)
    terms = apart.onnx("Where", is_there, apart.onnx("Neg", apart.onnx("Mul", own, share)), zero)
    if reduction == 0:
        return _fitted(call, terms, zero)
    every = tuple(range(len(call.dims(target))))
    loss, total = (apart.onnx("ReduceSum", each, every, keepdims=False) for each in (terms, share))
    return _fitted(call, apart.onnx("Div", loss, total) if reduction == _MEAN else loss, total)


@ATEN("nll_loss_backward", "nll_loss2d_backward")
def _of_likelihoods(call: OperatorCall, g: Any, x: Any, target: Any, *arguments: Any) -> Made:
    """The gradient at targets that are not ignored; these are never negative."""
    weight, reduction, ignored, total = arguments
    dims, apart = call.dims(x), call.with_outputs(0)
    axis, points = int(len(dims) > 1), (1,) * len(dims)
    of_classes = tuple(n if i == axis else 1 for i, n in enumerate(dims))
    one_class = (*dims[:axis], 1, *dims[axis + 1 :])
    classes = np.arange(dims[axis])
    classes = np.where(classes == ignored, min(ignored, 0) - 1, classes).reshape(of_classes)
    is_own = apart.elements("eq", *promoted(apart, apart.reshaped(target, one_class), classes))
    g = apart.onnx("Neg", apart.reshaped(g, points if reduction else one_class))
    g = apart.onnx("Div", g, apart.reshaped(total, points)) if reduction == _MEAN else g
    change = g if weight is None else apart.onnx("Mul", g, apart.reshaped(weight, of_classes))
    return _fitted(call, apart.onnx("Where", is_own, change, np.zeros((), call.numpy_type(x))))


@ATEN("mse_loss_backward")
def _of_squares(call: OperatorCall, g: Any, x: Any, target: Any, reduction: int) -> Made:
    apart, count = call.with_outputs(0), prod(call.dims(x)) if reduction == _MEAN else 1
    distance = times(apart, apart.onnx("Sub", x, target), 2.0 / max(count, 1))
    return apart.onnx("Mul", distance, g)


# --- functions ----------------------------------------------------------------------------------------------


def _function(call: OperatorCall, g: Any, x: Any, word: str, *numbers: float) -> Value:
    """Return the gradient of an elementwise function: `numbers` are its alpha and beta."""
    alpha, beta = (*map(float, numbers), 0.0, 0.0)[:2]
    (made,) = _made(call, "EltwiseBackward", g, x, algorithm=f"eltwise_{word}", alpha=alpha, beta=beta)
    return made


@ATEN("threshold_backward")
def _of_threshold(call: OperatorCall, g: Any, x: Any, threshold: float) -> Made:
    if threshold == 0:
        return _function(call, g, x, "relu")
    is_above = call.elements("gt", *promoted(call, x, threshold))
    return call.onnx("Where", is_above, g, np.zeros((), call.numpy_type(g)))


@ATEN("gelu_backward")
def _of_gelu(call: OperatorCall, g: Any, x: Any, *, approximate: str = "none") -> Made:
    return _function(call, g, x, "gelu_tanh" if approximate == "tanh" else "gelu_erf")


@ATEN("elu_backward")
def _of_elu(call: OperatorCall, g: Any, *arguments: Any) -> Made:
    """Below 0, the slope follows from the result, or from the exponential of the source."""
    alpha, scale, factor, is_result, x = arguments
    if (scale, factor, is_result) == (1, 1, False):
        return _function(call, g, x, "elu", alpha)
    apart, kind = call.with_outputs(0), call.numpy_type(x)
    slope = (
        apart.onnx("Add", x, np.asarray(alpha * scale, kind))
        if is_result
        else times(apart, apart.onnx("Exp", times(apart, x, factor)), alpha * scale)
    )
    slope = times(apart, slope, factor) if factor != 1 else slope
    is_above = apart.elements("gt", *promoted(apart, x, 0.0))
    return call.onnx("Mul", g, apart.onnx("Where", is_above, np.asarray(scale, kind), slope))


@ATEN("sigmoid_backward")
def _of_sigmoid(call: OperatorCall, g: Any, y: Any) -> Made:
    apart = call.with_outputs(0)
    return call.onnx("Mul", apart.onnx("Mul", apart.function(y, "linear", -1.0, 1.0), y), g)


@ATEN("tanh_backward")
def _of_tanh(call: OperatorCall, g: Any, y: Any) -> Made:
    apart = call.with_outputs(0)
    return call.onnx("Mul", apart.function(apart.function(y, "square"), "linear", -1.0, 1.0), g)


@ATEN("log_sigmoid_backward")
def _of_log_sigmoid(call: OperatorCall, g: Any, x: Any, *_: Any) -> Made:
    apart = call.with_outputs(0)
    return call.onnx("Mul", apart.function(apart.function(x, "linear", -1.0), "logistic"), g)


@ATEN("native_dropout_backward")
def _of_dropout(call: OperatorCall, g: Any, mask: Any, scale: float) -> Made:
    left = call.with_outputs(0).onnx("Where", mask, g, np.zeros((), call.numpy_type(g)))
    return times(call, left, scale)


@ATEN("_softmax_backward_data", "_log_softmax_backward_data")
def _of_softmax(call: OperatorCall, g: Any, y: Any, dim: int, *_: Any) -> Made:
    word = "log" if "log" in call.node.operator else "accurate"
    axis = from_end(dim, len(call.dims(y)))
    return _fitted(call, *_made(call, "SoftmaxBackward", g, y, algorithm=f"softmax_{word}", axis=axis))


@ATEN("_safe_softmax")
def _safe_softmax(call: OperatorCall, x: Any, dim: int, *_: Any) -> Made:
    """A softmax in which fully masked rows are 0."""
    apart = call.with_outputs(0)
    most = apart.onnx("ReduceMax", x, (dim,))
    is_hidden = apart.elements("eq", most, np.asarray(-np.inf, call.numpy_type(x)))
    made = apart.onnx("Softmax", x, axis=dim)
    return _fitted(call, apart.onnx("Where", is_hidden, np.zeros((), call.numpy_type(x)), made))


# --- parts --------------------------------------------------------------------------------------------------


@ATEN("embedding_dense_backward")
def _of_embedding(
    call: OperatorCall, g: Any, indices: Any, count: int, ignored: int, is_scaled: bool
) -> Made:
    """Accumulate rows; those of an ignored index go to an extra row, which is dropped."""
    if is_scaled:
        raise call.unimplemented("it divides by the number of occurrences of an index")
    apart, width = call.with_outputs(0), call.dims(g)[-1]
    rows = prod(call.dims(indices))
    at = apart.reshaped(indices, (rows,))
    has_more = 0 <= ignored < count
    if has_more:
        at = apart.onnx("Where", apart.elements("eq", *promoted(apart, at, ignored)), np.array(count), at)
    numbers = {"algorithm": "gather_axis", "axis": 0, "batch_dims": 0, "dims": (count + has_more, width)}
    (made,) = _made(call, "GatherBackward", apart.reshaped(g, (rows, width)), at, **numbers)
    return apart.onnx("Slice", made, (0,), (count,), (0,), (1,)) if has_more else made


@ATEN("select_backward")
def _of_select(call: OperatorCall, g: Any, dims: Any, dim: int, index: int) -> Made:
    axis = from_end(dim, len(dims))
    at = from_end(index, dims[axis])
    whole = call.reshaped(g, (*dims[:axis], 1, *dims[axis + 1 :]))
    return _padded(call, whole, axis, at, dims[axis] - at - 1)


@ATEN("slice_backward")
def _of_slice(call: OperatorCall, g: Any, dims: Any, dim: int, *places: int) -> Made:
    axis = from_end(dim, len(dims))
    start, _, step = slice(*places).indices(dims[axis])
    count = call.dims(g)[axis]
    if step == 1:
        return _padded(call, g, axis, start, dims[axis] - start - count)
    return slice_scatter(call, np.zeros(dims, call.numpy_type(g)), g, axis, *places)


def _padded(call: OperatorCall, x: Value, axis: int, before: int, behind: int) -> Value:
    rank = len(call.dims(x))
    low, high = [0] * rank, [0] * rank
    low[axis], high[axis] = before, behind
    return call.onnx("Pad", x, (*low, *high)) if before or behind else x


# --- attention ----------------------------------------------------------------------------------------------


@ATEN("_scaled_dot_product_flash_attention_for_cpu")
def _attention(
    call: OperatorCall,
    query: Any,
    key: Any,
    value: Any,
    dropout: float = 0.0,
    *,
    is_causal: bool = False,
    attn_mask: Any = None,
    scale: float | None = None,
) -> Made:
    """Return the result, and the logsumexp if it is read."""
    if dropout:
        raise call.unimplemented("it drops elements at random")
    if not reads_more(call):
        return attention(call, query, key, value, attn_mask, is_causal=is_causal, scale=scale)
    if not (attn_mask is None or _sees_keys(attn_mask)):
        raise call.unimplemented(
            "a mask can hide all keys of a row, for which torch saves a different logsumexp"
        )
    parameters = attention_parameters(AttentionForm(scale, "top_left" if is_causal else "none"))
    tensors = query, key, value, _mask(call, attn_mask)
    return _fitted(call, *_made(call, "ScaledDotProductAttention", *tensors, has_stats=1, **parameters))


def _sees_keys(mask: Any) -> bool:
    """True if a mask is known, and each of its rows sees a key."""
    if not isinstance(mask, np.ndarray):
        return False
    is_seen = mask if mask.dtype == np.bool_ else mask > -np.inf
    return bool(is_seen.any(-1).all())


def _mask(call: OperatorCall, mask: Any) -> Any:
    return (
        mask if mask is None else call.reshaped(mask, (*(1,) * (4 - len(call.dims(mask))), *call.dims(mask)))
    )


@ATEN("_scaled_dot_product_flash_attention_for_cpu_backward")
def _of_attention(
    call: OperatorCall,
    g: Any,
    query: Any,
    key: Any,
    value: Any,
    y: Any,
    sums: Any,
    dropout: float,
    is_causal: bool,
    *,
    attn_mask: Any = None,
    scale: float | None = None,
) -> Made:
    if dropout:
        raise call.unimplemented("it drops elements at random")
    parameters = attention_parameters(AttentionForm(scale, "top_left" if is_causal else "none"))
    tensors = query, key, value, y, sums, g, _mask(call, attn_mask)
    return _fitted(call, *_made(call, "ScaledDotProductAttentionBackward", *tensors, **parameters))


@ATEN("softplus_backward")
def _of_softplus(call: OperatorCall, g: Any, x: Any, beta: float, threshold: float) -> Made:
    if threshold < _STRAIGHT:
        raise call.unimplemented("it is linear above its threshold, where it is curved here")
    return _function(call, g, x, "soft_relu", beta)


_ROWS: Mapping[str, Function | str] = {
    "hardsigmoid_backward": lambda call, g, x: _function(call, g, x, "hardsigmoid", 1 / 6, 0.5),
    "hardswish_backward": lambda call, g, x: _function(call, g, x, "hardswish", 1 / 6, 0.5),
    "hardtanh_backward": lambda call, g, x, low, high: _function(call, g, x, "clip_v2", low, high),
    "leaky_relu_backward": lambda call, g, x, slope, is_result: _function(call, g, x, "relu", slope),
    "mish_backward": lambda call, g, x: _function(call, g, x, "mish"),
    "silu_backward": lambda call, g, x: _function(call, g, x, "swish", 1.0),
    "t": lambda call, x: call.transposed(x, range(len(call.dims(x)))[::-1]),
}
enter_rows(ATEN, _ROWS)
