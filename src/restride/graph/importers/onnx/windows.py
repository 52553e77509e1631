"""ONNX operators with sliding windows: convolutions, poolings, resizing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Annotated, NamedTuple

import numpy as np

from ....model.result_dims import Misfit
from ....runtime.alloc import Array
from ...dims import Dims
from ...nodes.layers import PoolingOperation, ReductionOperation
from ...nodes.products import ConvolutionOperation, DeconvolutionOperation
from ..operator_call import ONNX, Chosen, Ints, Made, Operand, OperatorCall, Tensor, Value


class _Places(NamedTuple):
    """The geometry of a window for each spatial dim; a dilation of 0 is dense."""

    kernel: Dims
    strides: Dims
    dilates: Dims
    low: Dims
    high: Dims


@dataclass(frozen=True, slots=True)
class OnnxWindow:
    """The attributes of a window."""

    kernel_shape: Ints = ()
    strides: Ints = ()
    dilations: Ints = ()
    pads: Ints = ()
    auto_pad: str = "NOTSET"

    def places(self, dims: Dims, weights: Dims = ()) -> _Places:
        """Return the geometry of the window on a source of these dims; `weights`: the dims of weights."""
        rank = len(dims) - 2
        kernel = weights[2:] if weights and not self.kernel_shape else self._spatial("kernel_shape", rank, 0)
        if weights and weights[2:] != kernel:
            raise Misfit(f"kernel_shape is {kernel}, but the weights have {weights[2:]}")
        strides, dilations = self._spatial("strides", rank, 1), self._spatial("dilations", rank, 1)
        total = (0,) * rank
        if self.auto_pad.startswith("SAME"):
            extents = zip(dims[2:], strides, kernel, dilations, strict=True)
            total = tuple(max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0) for n, s, k, d in extents)
        small, large = tuple(n // 2 for n in total), tuple(n - n // 2 for n in total)
        pads = self.pads if self.auto_pad == "NOTSET" and self.pads else (0,) * (2 * rank)
        if len(pads) != 2 * rank:
            raise Misfit(f"pads has {len(pads)} numbers for {rank} spatial dims")
        if min(pads, default=0) < 0:
            raise Misfit(f"pads are {pads}, but cannot be negative")
        own = pads[:rank], pads[rank:]
        ends = {"NOTSET": own, "VALID": own, "SAME_UPPER": (small, large), "SAME_LOWER": (large, small)}
        if self.auto_pad not in ends:
            raise Misfit(f"auto_pad is {self.auto_pad!r}")
        return _Places(kernel, strides, tuple(n - 1 for n in dilations), *ends[self.auto_pad])

    def _spatial(self, name: str, rank: int, default: int) -> Dims:
        values: Dims = getattr(self, name) or (default,) * rank
        if len(values) != rank:
            raise Misfit(f"{name} has {len(values)} numbers for {rank} spatial dims")
        return values


# --- convolutions -------------------------------------------------------------------------------------------


def _grouped(call: OperatorCall, weights: Value, group: int, what: str) -> Value:
    """Return weights with their groups as a dim."""
    dims = call.dims(weights)
    if group < 1 or dims[0] % group:
        raise Misfit(f"{group} groups do not divide {dims[0]} {what}")
    return call.reshaped(weights, (group, dims[0] // group, *dims[1:])) if group > 1 else weights


@ONNX("Conv")
def _convolution(
    call: OperatorCall,
    x: Tensor,
    weights: Operand,
    bias: Tensor | None = None,
    *,
    window: OnnxWindow,
    group: int = 1,
) -> Value:
    operation, grouped = convolution_of(call, x, weights, window, group)
    return call.add(operation, x, grouped, bias)


def convolution_of(
    call: OperatorCall, x: Value, weights: Value, window: OnnxWindow, group: int
) -> tuple[ConvolutionOperation, Value]:
    """Return a convolution, and its weights with their groups as a dim."""
    places = window.places(call.dims(x), call.dims(weights))
    operation = ConvolutionOperation(places.strides, places.dilates, places.low, places.high, group)
    return operation, _grouped(call, weights, group, "outputs")


@dataclass(frozen=True, slots=True)
class _Padding:
    """The padding of a ConvTranspose, or the spatial extents from which it follows."""

    output_padding: Ints = ()
    output_shape: Ints = ()


@ONNX("ConvTranspose")
def _deconvolution(
    call: OperatorCall,
    x: Tensor,
    weights: Operand,
    bias: Tensor | None = None,
    *,
    window: OnnxWindow,
    padding: _Padding,
    group: int = 1,
) -> Value:
    is_same, sizes = window.auto_pad.startswith("SAME"), call.dims(x)[2:]
    own = replace(window, kernel_shape=(), auto_pad="VALID" if is_same else window.auto_pad)
    places = own.places(call.dims(x), call.dims(weights))
    kernel, strides, dilates, low, high = places
    more = padding.output_padding or (0,) * len(high)
    shape = padding.output_shape or (
        tuple(n * s for n, s in zip(sizes, strides, strict=True)) if is_same else ()
    )
    if len(more) != len(high) or (shape and len(shape) != len(high)):
        raise Misfit(f"there are {len(more)} and {len(shape)} numbers for {len(high)} spatial dims")
    if shape:
        # The full result is cropped; an odd crop takes more at the front, but for SAME_UPPER at the end.
        full = zip(sizes, strides, kernel, dilates, more, shape, strict=True)
        cuts = [(n - 1) * s + (k - 1) * (d + 1) + 1 + m - wanted for n, s, k, d, m, wanted in full]
        is_upper = window.auto_pad == "SAME_UPPER"
        low = tuple(max(cut // 2 if is_upper else cut - cut // 2, 0) for cut in cuts)
        high = tuple(cut - before for cut, before in zip(cuts, low, strict=True))
    high = tuple(n - extra for n, extra in zip(high, more, strict=True))
    grouped = _grouped(call, weights, group, "channels")
    # Outputs before inputs, in each group.
    first, rank = int(group > 1), len(call.dims(grouped))
    order = [*range(first), first + 1, first, *range(first + 2, rank)]
    operation = DeconvolutionOperation(strides, dilates, low, high, group)
    return call.add(operation, x, call.transposed(grouped, order), bias)


# --- poolings -----------------------------------------------------------------------------------------------


@ONNX("MaxPool")
def _max_pooling(
    call: OperatorCall, x: Chosen, *, window: OnnxWindow, ceil_mode: bool = False, storage_order: int = 0
) -> Made:
    dims = call.dims(x)
    places = window.places(dims)
    places = ceiled_places(places, dims) if ceil_mode else places
    if call.count_of_outputs < 2:
        return _pooling(call, x, "pooling_max", places)
    strides = [prod(dims[dim + 1 :]) for dim in range(len(dims))]
    if storage_order:  # column-major indices: the first spatial dim varies fastest
        strides[2:] = [prod(dims[2:dim]) for dim in range(2, len(dims))]
    return _with_indices(call, x, places, strides)


def _with_indices(call: OperatorCall, x: Value, places: _Places, strides: Sequence[int]) -> Made:
    names = "kernel", "strides", "dilates", "padding_l", "padding_r"
    numbers = dict(zip(names, _checked(places), strict=True))
    return call.primitive("MaxPooling", x, index_strides=tuple(strides), **numbers)


def maxima_in_images(call: OperatorCall, x: Value, window: OnnxWindow, ceil_mode: bool) -> Made:
    """Return the maxima of windows, and their indices in the row-major image of their channel."""
    dims, places = call.dims(x), window.places(call.dims(x))
    strides = (0, 0, *(prod(dims[dim + 1 :]) for dim in range(2, len(dims))))
    return _with_indices(call, x, ceiled_places(places, dims) if ceil_mode else places, strides)


@ONNX("MaxUnpool")
def _max_unpooling(
    call: OperatorCall,
    x: Tensor,
    indices: Value,
    output_shape: Annotated[Ints, "the dims of the result"] | None = None,
    *,
    window: OnnxWindow,
) -> Value:
    """Scatter elements to their indices in a row-major result of zeros, padded at the end if larger."""
    dims = call.dims(x)
    kernel, strides, _, low, high = window.places(dims)
    sizes = zip(dims[2:], kernel, strides, low, high, strict=True)
    result = (*dims[:2], *((n - 1) * s + k - before - behind for n, k, s, before, behind in sizes))
    zeros = np.zeros(prod(result), call.type_of(x).numpy)
    rows = (call.reshaped(each, (prod(dims),)) for each in (indices, x))
    found = call.reshaped(call.onnx("ScatterElements", zeros, *rows), result)
    if output_shape is None or output_shape == result:
        return found
    more = (m - n for n, m in zip(result, output_shape, strict=True))
    return call.onnx("Pad", found, (*(0,) * len(result), *more))


@ONNX("AveragePool")
def _average_pooling(
    call: OperatorCall,
    x: Tensor,
    *,
    window: OnnxWindow,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Value:
    algorithm = f"pooling_avg_{'include' if count_include_pad else 'exclude'}_padding"
    places = window.places(call.dims(x))
    own = ceiled_places(places, call.dims(x)) if ceil_mode else places
    if not count_include_pad or own == places:
        return _pooling(call, x, algorithm, own)
    # Windows that extend beyond the padding count only what is in it.
    averages = _pooling(call.with_outputs(0), x, algorithm, own)
    return call.onnx("Mul", averages, average_shares(places, call.dims(x)[2:], call.dims(averages)[2:]))


def average_shares(places: _Places, sizes: Dims, counts: Dims) -> Array:
    """Return the correction for windows that extend beyond the padding; `counts`: the number of windows."""
    shares = np.ones((1, 1), np.float32)
    for axis, (n, count) in enumerate(zip(sizes, counts, strict=True)):
        kernel, stride, dilate, low, high = (part[axis] for part in places)
        starts = np.arange(count) * stride
        within = np.minimum((low + n + high - 1 - starts) // (dilate + 1) + 1, kernel)
        shares = shares[..., None] * (kernel / within).astype(np.float32)
    return shares


@ONNX("LpPool")
def _power_pooling(
    call: OperatorCall, x: Tensor, *, window: OnnxWindow, p: float = 2.0, ceil_mode: bool = False
) -> Value:
    """Return the root of the sum of powers: average times count, since zeros are padded."""
    places, apart = window.places(call.dims(x)), call.with_outputs(0)
    places = ceiled_places(places, call.dims(x)) if ceil_mode else places
    powers = apart.onnx("Abs", x) if p != 2 else apart.function(x, "square")
    powers = powers if p in (1, 2) else apart.function(powers, "pow", 1.0, p)
    averages = _pooling(apart, powers, "pooling_avg_include_padding", places)
    return call.function(averages, "pow", prod(places.kernel) ** (1 / p), 1 / p)


def _pooling(call: OperatorCall, x: Value, algorithm: str, places: _Places) -> str:
    return call.add(PoolingOperation(algorithm, *_checked(places)), x)


def _checked(places: _Places) -> _Places:
    """Return `places`. Raises Misfit if a window could be entirely in the padding."""
    kernel, _, _, low, high = places
    if any(pad >= size for pad, size in zip((*low, *high), kernel * 2, strict=True) if size > 0):
        raise Misfit(f"pads of {low} and {high} are not smaller than windows of {kernel}")
    return places


def ceiled_places(places: _Places, dims: Dims) -> _Places:
    """Return the window with enough end padding to complete the last one that begins before the end."""
    return places._replace(high=tuple(map(_ceiled, dims[2:], *places)))


def _ceiled(n: int, kernel: int, stride: int, dilate: int, low: int, high: int) -> int:
    """Return the end padding that completes the last window beginning in the source or the front padding."""
    window = (kernel - 1) * (dilate + 1) + 1
    points = -(-(n + low + high - window) // stride) + 1
    if (points - 1) * stride >= n + low:
        points -= 1
    return max((points - 1) * stride + window - n - low, high)


@ONNX("GlobalAveragePool")
def _global_average_pooling(call: OperatorCall, x: Tensor) -> Value:
    places = OnnxWindow(call.dims(x)[2:]).places(call.dims(x))
    return _pooling(call, x, "pooling_avg_include_padding", places)


@ONNX("GlobalMaxPool")
def _global_max_pooling(call: OperatorCall, x: Chosen) -> Value:
    return _pooling(call, x, "pooling_max", OnnxWindow(call.dims(x)[2:]).places(call.dims(x)))


@ONNX("GlobalLpPool")
def _global_power_pooling(call: OperatorCall, x: Tensor, *, p: float = 2.0) -> Value:
    axes = tuple(range(2, len(call.dims(x))))
    return call.add(ReductionOperation("reduction_norm_lp_sum", axes, p), x)
