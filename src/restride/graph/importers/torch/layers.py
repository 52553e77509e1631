"""ATen's normalizations, products, attention, and sliding windows, translated through ONNX's operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ....dtypes import DataType
from ....runtime.alloc import Array
from ..onnx.attention import AttentionForm, attended_of_any_rank
from ..onnx.rows import enter_rows
from ..onnx.windows import OnnxWindow, maxima_in_images
from ..operator_call import ATEN, Function, Ints, Made, OperatorCall, Value
from .call import axes_of, cast_to, promoted, reads_more, result_of

_F32 = np.float32

# --- normalizations -----------------------------------------------------------------------------------------


@ATEN("_native_batch_norm_legit_no_training")
def _batch_normalization(
    call: OperatorCall, x: Any, weight: Any, bias: Any, mean: Any, variance: Any, *, eps: float
) -> Made:
    scale, shift = (
        make(call.dims(mean), call.numpy_type(mean)) if tensor is None else tensor
        for make, tensor in ((np.ones, weight), (np.zeros, bias))
    )
    return call.onnx("BatchNormalization", x, scale, shift, mean, variance, epsilon=eps)


def _wide_type(call: OperatorCall, x: Any) -> np.dtype[Any]:
    """Return the type of parameters of a tensor: f32, or wider if the tensor is."""
    return np.dtype(np.float64 if call.type_of(x) is DataType.f64 else _F32)


@ATEN("native_layer_norm")
def layer_normalization(
    call: OperatorCall, x: Any, shape: Any, weight: Any, bias: Any, *, eps: float
) -> Made:
    """Normalize over several dims as over one dim with all their elements."""
    dims, size = call.dims(x), prod(shape)
    flat = call.onnx("Reshape", x, (*dims[: len(dims) - len(shape)], size))
    scale, shift = (
        tensor if tensor is None else call.onnx("Reshape", tensor, (size,)) for tensor in (weight, bias)
    )
    scale = np.ones(size, _wide_type(call, x)) if scale is None else scale
    result = call.onnx("LayerNormalization", flat, scale, shift, axis=-1, epsilon=eps)
    return call.onnx("Reshape", result, dims)


def _normalized_rows(
    call: OperatorCall, x: Any, affine: Sequence[Any], eps: float, groups: int, order: Sequence[int]
) -> Made:
    """Normalize rows to zero mean and unit variance, then apply a factor and a summand per channel.

    `groups`: the number of rows into which the channels of an image are split; rows extend over all images if
    their axis is not the first of `order`.
    """
    dims = call.dims(x)
    shape, back = [dims[axis] for axis in order], [order.index(axis) for axis in range(len(dims))]
    rows = groups * (dims[0] if order[0] == 0 else 1)
    result = call.onnx("Reshape", call.onnx("Transpose", x, perm=order), (rows, prod(dims) // rows))
    result = call.onnx(
        "LayerNormalization", result, np.ones(prod(dims) // rows, _wide_type(call, x)), axis=-1, epsilon=eps
    )
    result = call.onnx("Transpose", call.onnx("Reshape", result, shape), perm=back)
    for operator, values in zip(("Mul", "Add"), affine, strict=True):
        if values is not None:
            channels = call.onnx("Reshape", values, (1, -1, *(1,) * (len(dims) - 2)))
            result = call.onnx(operator, result, channels)
    return result


@ATEN("native_group_norm")
def group_normalization(call: OperatorCall, x: Any, weight: Any, bias: Any, *numbers: Any) -> Made:
    """Normalize groups of channels."""
    *_, groups, eps = numbers  # preceded by the dims of the source
    return _normalized_rows(call, x, (weight, bias), eps, groups, range(len(call.dims(x))))


@ATEN("_native_batch_norm_legit")
def batch_statistics(call: OperatorCall, x: Any, weight: Any, bias: Any, *numbers: Any) -> Made:
    """Normalize by the mean and variance of the input itself; instances are a batch of one."""
    *running, training, _, eps = numbers
    if running or not training:
        raise call.unimplemented("it changes its running statistics")
    dims = call.dims(x)
    return _normalized_rows(call, x, (weight, bias), eps, dims[1], (1, 0, *range(2, len(dims))))


# --- products -----------------------------------------------------------------------------------------------

_MOST_TERMS = 1 << 24


def _product(call: OperatorCall, x: Any, y: Any) -> Made:
    """Integer products wrap: those of 8 bits use sums of 32 bits, others sum up all terms."""
    if not all(call.type_of(each).is_integral for each in (x, y)):
        return call.onnx("MatMul", x, y)
    if all(call.type_of(each) in (DataType.s8, DataType.u8) for each in (x, y)):
        return cast_to(call, call.onnx("MatMulInteger", x, y), result_of(call)[1])
    if prod(call.dims(x)) * call.dims(y)[-1] > _MOST_TERMS:
        raise call.unimplemented(
            f"its product of {call.type_of(x)} has too many terms", "use integers of 8 bits"
        )
    terms = call.elements("mul", call.onnx("Unsqueeze", x, (-1,)), call.onnx("Unsqueeze", y, (-3,)))
    return call.onnx("ReduceSum", terms, (-2,), keepdims=False)


@ATEN("addbmm", "addmv")
def _added_product(
    call: OperatorCall, added: Any, x: Any, y: Any, *, beta: float = 1, alpha: float = 1
) -> Made:
    made = _product(call, x, y)
    if call.node.operator == "aten.addbmm":
        made = call.onnx("ReduceSum", made, (0,), keepdims=False)
    made = made if alpha == 1 else call.onnx("Mul", *promoted(call, made, alpha))
    added = added if beta == 1 else call.onnx("Mul", *promoted(call, added, beta))
    return call.onnx("Add", added, made) if beta else made


@ATEN("_trilinear")
def _trilinear(call: OperatorCall, *arguments: Any) -> Made:
    """Sum the products of three tensors; missing dims are 1."""
    xs, expanded, summed = arguments[:3], arguments[3:6], arguments[6]
    rank = len(call.dims(xs[0])) + len(expanded[0])
    letters = "abcdefghijklmnopqrstuvwxyz"[:rank]
    words = ["".join(letters[i] for i in range(rank) if i not in own) for own in expanded]
    result = "".join(letters[i] for i in range(rank) if i not in summed)
    return call.onnx("Einsum", *xs, equation=f"{','.join(words)}->{result}")


@ATEN("linear")
def _linear(call: OperatorCall, x: Any, weights: Any, bias: Any = None) -> Made:
    dims, outputs = call.dims(x), call.dims(weights)[0]
    rows = call.onnx("Reshape", x, (prod(dims[:-1]), dims[-1]))
    return call.onnx("Reshape", call.onnx("Gemm", rows, weights, bias, transB=1), (*dims[:-1], outputs))


@ATEN("scaled_dot_product_attention", "_scaled_dot_product_attention_math")
def attention(
    call: OperatorCall,
    query: Any,
    key: Any,
    value: Any,
    mask: Any = None,
    *,
    is_causal: bool = False,
    enable_gqa: bool = False,
    scale: float | None = None,
) -> Made:
    """Any number of leading dims, the last of which is heads; a boolean mask marks what is visible."""
    form = AttentionForm(scale, "top_left" if is_causal else "none")
    return attended_of_any_rank(call, (query, key, value), form, mask, is_grouped=enable_gqa)


# --- windows ------------------------------------------------------------------------------------------------


@ATEN("convolution")
def _convolution(call: OperatorCall, x: Any, weights: Any, bias: Any, *numbers: Any) -> Made:
    strides, padding, dilations, is_transposed, more, group = numbers
    rank = len(call.dims(weights)) - 2
    names = "strides", "dilations", "pads", "output_padding"
    options = {
        name: axes_of(value, rank)
        for name, value in zip(names, (strides, dilations, padding, more), strict=True)
        if is_transposed or name != "output_padding"
    }
    options["pads"] *= 2
    return call.onnx("ConvTranspose" if is_transposed else "Conv", x, weights, bias, group=group, **options)


@dataclass(frozen=True, slots=True)
class PoolArguments:
    """The arguments of poolings after the kernel."""

    stride: Any = None
    padding: Any = 0
    ceil_mode: bool = False

    def onnx(self, kernel_size: Any, rank: int) -> dict[str, Any]:
        """Return the attributes of ONNX."""
        kernel = axes_of(kernel_size, rank)
        strides, pads = axes_of(self.stride or kernel, rank), axes_of(self.padding, rank) * 2
        return {"kernel_shape": kernel, "strides": strides, "pads": pads, "ceil_mode": self.ceil_mode}


@ATEN("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _average_pooling(
    call: OperatorCall,
    x: Any,
    kernel_size: Any,
    *,
    pool: PoolArguments,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Made:
    attributes = pool.onnx(kernel_size, int(call.node.operator[-2]))
    if divisor_override is None:
        return _of_images(call, x, "AveragePool", count_include_pad=count_include_pad, **attributes)
    if pool.ceil_mode:
        raise call.unimplemented("it has a divisor, and windows extend beyond the end")
    averages = _of_images(call, x, "AveragePool", count_include_pad=True, **attributes)
    return call.onnx("Mul", averages, prod(attributes["kernel_shape"]) / divisor_override)


@ATEN("max_pool2d_with_indices", "max_pool3d_with_indices")
def _max_pooling(
    call: OperatorCall, x: Any, kernel_size: Any, *, pool: PoolArguments, dilation: Any = 1
) -> Made:
    rank = int(call.node.operator[len("aten.max_pool")])
    return _maxima(call, x, dilations=axes_of(dilation, rank), **pool.onnx(kernel_size, rank))


def _maxima(call: OperatorCall, x: Any, ceil_mode: bool = False, **window: Any) -> Made:
    """Return the maxima of windows, and their indices if they are read."""
    if not reads_more(call):
        return _of_images(call, x, "MaxPool", ceil_mode=ceil_mode, **window)
    dims, rank, apart = call.dims(x), len(window["kernel_shape"]), call.with_outputs(0)
    batch = apart.placed(apart.reshaped(x, (*(1,) * (rank + 2 - len(dims)), *dims)))
    found = maxima_in_images(apart, batch, OnnxWindow(**window), ceil_mode)
    return tuple(call.reshaped(each, (*dims[:-rank], *call.dims(each)[2:])) for each in found)


def _of_images(call: OperatorCall, x: Any, operator: str, **attributes: Any) -> Value:
    """Apply a pooling; a single image becomes a batch."""
    if len(call.dims(x)) == len(attributes["kernel_shape"]) + 2:
        return call.onnx(operator, x, **attributes)
    return call.onnx("Squeeze", call.onnx(operator, call.onnx("Unsqueeze", x, (0,)), **attributes), (0,))


@ATEN("adaptive_avg_pool1d", "_adaptive_avg_pool2d", "_adaptive_avg_pool3d")
def _adaptive_average(call: OperatorCall, x: Any, sizes: Any) -> Made:
    """Use windows of equal size, or for each axis a product with the elements' shares in each window."""
    dims, rank = call.dims(x), len(sizes)
    spatial = dims[-rank:]
    if all(size and n % size == 0 for n, size in zip(spatial, sizes, strict=True)):
        kernel = [n // size for n, size in zip(spatial, sizes, strict=True)]
        return _of_images(call, x, "AveragePool", kernel_shape=kernel, strides=kernel)
    return of_axes(call, x, [adaptive_shares(*pair) for pair in zip(spatial, sizes, strict=True)])


def adaptive_shares(n: int, size: int) -> Array:
    """Return the share of each element of an axis in each window."""
    places, at = np.arange(n), np.arange(size)[:, None]
    is_inside = (places >= at * n // size) & (places < -(-(at + 1) * n // size))
    shares: Array = is_inside / is_inside.sum(1, keepdims=True)
    return shares


def of_axes(call: OperatorCall, x: Any, matrices: Sequence[Array]) -> Value:
    """Multiply by a matrix along each of the last axes; its rows are summed over."""
    dims, kind = call.dims(x), call.numpy_type(x)
    result: Value = x
    for axis, matrix in enumerate(matrices, len(dims) - len(matrices)):
        order = [*(i for i in range(len(dims)) if i != axis), axis]
        product = call.onnx("MatMul", call.onnx("Transpose", result, perm=order), matrix.T.astype(kind))
        result = call.onnx("Transpose", product, perm=[order.index(i) for i in range(len(dims))])
    return result


@ATEN("adaptive_max_pool2d", "adaptive_max_pool3d")
def _adaptive_maximum(call: OperatorCall, x: Any, sizes: Any) -> Made:
    """Use a pooling if windows are equal; otherwise gather each window, repeating its last element."""
    dims, rank, apart = call.dims(x), len(sizes), call.with_outputs(0)
    spatial = dims[-rank:]
    if not any(not size or n % size for n, size in zip(spatial, sizes, strict=True)):
        kernel = tuple(n // size for n, size in zip(spatial, sizes, strict=True))
        return _maxima(call, x, kernel_shape=kernel, strides=kernel)
    parts = []
    for n, size in zip(spatial, sizes, strict=True):
        starts = np.arange(size)[:, None] * n // max(size, 1)
        ends = -(-(np.arange(size)[:, None] + 1) * n // max(size, 1))
        parts.append(np.minimum(starts + np.arange(max((ends - starts).max(initial=0), 1)), ends - 1))
    places: Array = np.zeros((1,) * (2 * rank), np.int64)
    for axis, (n, part) in enumerate(zip(spatial, parts, strict=True)):
        own = np.ones(2 * rank, np.int64)
        own[axis], own[rank + axis] = part.shape
        places = places * n + part.reshape(own)
    places = places.reshape(prod(sizes), -1)
    image = apart.reshaped(x, (*dims[:-rank], prod(spatial)))
    windows = apart.onnx("Gather", image, places, axis=-1)
    result = (*dims[:-rank], *sizes)
    if not reads_more(call):
        return call.reshaped(apart.onnx("ReduceMax", windows, (-1,), keepdims=False), result)
    at = apart.onnx("ArgMax", windows, axis=-1, keepdims=1)
    first = np.arange(0, places.size, max(places.shape[-1], 1))[:, None]
    found = apart.onnx("Gather", places.reshape(-1), apart.elements("add", at, first), axis=0)
    values = apart.onnx("GatherElements", windows, at, axis=-1)
    return tuple(call.reshaped(each, result) for each in (values, found))


# --- resizing -----------------------------------------------------------------------------------------------

RESIZES = (
    *("upsample_linear1d", "upsample_bilinear2d", "upsample_trilinear3d", "upsample_bicubic2d"),
    *(f"{word}{rank}d" for word in ("upsample_nearest", "_upsample_nearest_exact") for rank in (1, 2, 3)),
    *("_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"),
)
"""The operators that resize, by sizes or by factors."""


@ATEN(*RESIZES)
def _resize(
    call: OperatorCall,
    x: Any,
    output_size: Any = None,
    *,
    align_corners: bool = False,
    scale_factors: Any = None,
    scales: Any = None,
    scales_d: Any = None,
    scales_h: Any = None,
    scales_w: Any = None,
) -> Made:
    """Torch samples by the factors if given; without them, or with aligned corners, by the sizes."""
    word, dims = call.node.operator.removeprefix("aten."), call.dims(x)
    own = [scale for scale in (scales, scales_d, scales_h, scales_w) if scale is not None]
    factors = tuple(scale_factors or (own if len(own) == len(dims) - 2 else ()))
    sizes = output_size or [int(n * factor) for n, factor in zip(dims[2:], factors, strict=True)]
    if "nearest" in word:
        return _nearest(call, x, tuple(sizes), factors, 0.5 if "exact" in word else 0.0)
    attributes: dict[str, Any] = {
        "mode": "cubic" if "cubic" in word else "linear",
        "coordinate_transformation_mode": "half_pixel",
    }
    if align_corners and word.endswith("_aa"):
        raise call.unimplemented("torch samples differently for antialias with align_corners")
    if align_corners:
        attributes["coordinate_transformation_mode"] = "align_corners"
    if word.endswith("_aa"):
        attributes |= {"antialias": 1, "exclude_outside": 1, "cubic_coeff_a": -0.5}
    elif "cubic" in word:
        attributes["cubic_coeff_a"] = -0.75
    if not factors or align_corners:
        return call.onnx("Resize", x, None, None, (*dims[:2], *sizes), **attributes)
    return call.onnx("Resize", x, None, np.array((1, 1, *factors), _F32), **attributes)


def _nearest(call: OperatorCall, x: Any, sizes: Ints, factors: tuple[float, ...], center: float) -> Made:
    """Return the nearest elements, with a Resize if it picks the same: torch rounds positions to f32."""
    places, is_same = nearest_places(call.dims(x)[2:], sizes, factors, center)
    if is_same:
        mode, rounding = ("half_pixel", "round_prefer_ceil") if center else ("asymmetric", "floor")
        options = {"coordinate_transformation_mode": mode, "nearest_mode": rounding}
        return call.onnx("Resize", x, None, None, (*call.dims(x)[:2], *sizes), mode="nearest", **options)
    apart, made = call.with_outputs(0), call.placed(x)
    for axis, at in enumerate(places, 2):
        made = str(apart.onnx("Gather", made, at, axis=axis))
    return made


def nearest_places(
    dims: Ints, sizes: Ints, factors: Sequence[float], center: float
) -> tuple[list[Array], bool]:
    """Return the source index of each result along each axis, and whether a Resize picks the same."""
    is_same = True
    places: list[Any] = []
    for axis, (n, size) in enumerate(zip(dims, sizes, strict=True)):
        step = np.float32(1 / factors[axis]) if factors else np.float32(n) / np.float32(size)
        at: Any = np.arange(size, dtype=np.float32) + np.float32(center)
        exact = ((2 * np.arange(size, dtype=np.int64) + int(2 * center)) * n) // (2 * size)
        # For images of the same or twice the size, torch ignores the factor.
        is_plain = len(dims) == 2 and not center and size in (n, 2 * n)
        places.append(exact if is_plain else np.minimum(np.floor(at * step), n - 1).astype(np.int64))
        is_same = is_same and np.array_equal(places[-1], exact)
    return places, is_same


@ATEN("grid_sampler_2d", "grid_sampler_3d")
def _grid_sample(call: OperatorCall, x: Any, grid: Any, mode: int, padding: int, align_corners: bool) -> Made:
    return call.onnx(
        "GridSample",
        *(x, grid),
        mode=("linear", "nearest", "cubic")[mode],
        padding_mode=("zeros", "border", "reflection")[padding],
        align_corners=int(align_corners),
    )


_ROWS: Mapping[str, Function | str] = {
    **dict.fromkeys(("bmm", "matmul", "mm"), _product),
    "_int_mm": "MatMulInteger",
    "_log_softmax": lambda call, x, dim: call.onnx("LogSoftmax", x, axis=dim),
    "_softmax": lambda call, x, dim: call.onnx("Softmax", x, axis=dim),
    "addmm": lambda call, added, left, right, *, beta=1.0, alpha=1.0: call.onnx(
        "Gemm", left, right, added, beta=float(beta), alpha=float(alpha)
    ),
}
enter_rows(ATEN, _ROWS)
