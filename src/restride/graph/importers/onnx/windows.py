"""ONNX operators whose windows slide: convolutions, poolings, resizing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from math import floor, prod
from typing import Annotated, NamedTuple

import numpy as np

from ....runtime.alloc import Array
from ...dims import Dims
from ...nodes.layers import PoolingOperation, ResamplingOperation
from ...nodes.products import ConvolutionOperation, DeconvolutionOperation
from ..operator_call import ONNX, Chosen, Ints, Made, Operand, OperatorCall, Tensor, Usual, Value


class _Places(NamedTuple):
    """The places of a window, for each spatial dim; a dilation of 0 is dense."""

    kernel: Dims
    strides: Dims
    dilates: Dims
    low: Dims
    high: Dims


@dataclass(frozen=True, slots=True)
class _OnnxWindow:
    """The attributes of a window."""

    kernel_shape: Ints = ()
    strides: Ints = ()
    dilations: Ints = ()
    pads: Ints = ()
    auto_pad: str = "NOTSET"

    def places(self, dims: Dims, weights: Dims = ()) -> _Places:
        """The window on a source of these dims; `weights`: those of weights."""
        rank = len(dims) - 2
        kernel = weights[2:] if weights and not self.kernel_shape else self._spatial("kernel_shape", rank, 0)
        if weights and weights[2:] != kernel:
            raise ValueError(f"kernel_shape is {kernel}, the weights have {weights[2:]}")
        strides, dilations = self._spatial("strides", rank, 1), self._spatial("dilations", rank, 1)
        total = (0,) * rank
        if self.auto_pad.startswith("SAME"):
            extents = zip(dims[2:], strides, kernel, dilations, strict=True)
            total = tuple(max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0) for n, s, k, d in extents)
        small, large = tuple(n // 2 for n in total), tuple(n - n // 2 for n in total)
        pads = self.pads if self.auto_pad == "NOTSET" and self.pads else (0,) * (2 * rank)
        if len(pads) != 2 * rank:
            raise ValueError(f"pads has {len(pads)} numbers for {rank} spatial dims")
        if min(pads, default=0) < 0:
            raise ValueError(f"pads are {pads}, and none is below 0")
        own = pads[:rank], pads[rank:]
        ends = {"NOTSET": own, "VALID": own, "SAME_UPPER": (small, large), "SAME_LOWER": (large, small)}
        if self.auto_pad not in ends:
            raise ValueError(f"auto_pad is {self.auto_pad!r}")
        return _Places(kernel, strides, tuple(n - 1 for n in dilations), *ends[self.auto_pad])

    def _spatial(self, name: str, rank: int, default: int) -> Dims:
        values: Dims = getattr(self, name) or (default,) * rank
        if len(values) != rank:
            raise ValueError(f"{name} has {len(values)} numbers for {rank} spatial dims")
        return values


# --- convolutions -------------------------------------------------------------------------------------------


def _grouped(call: OperatorCall, weights: Value, group: int, what: str) -> Value:
    """Weights with their groups as a dim."""
    dims = call.dims(weights)
    if group < 1 or dims[0] % group:
        raise ValueError(f"{group} groups do not divide {dims[0]} {what}")
    return call.reshaped(weights, (group, dims[0] // group, *dims[1:])) if group > 1 else weights


@ONNX("Conv")
def _convolution(
    call: OperatorCall,
    x: Tensor,
    weights: Operand,
    bias: Tensor | None = None,
    *,
    window: _OnnxWindow,
    group: int = 1,
) -> Value:
    places = window.places(call.dims(x), call.dims(weights))
    grouped = _grouped(call, weights, group, "outputs")
    operation = ConvolutionOperation(places.strides, places.dilates, places.low, places.high, group)
    return call.add(operation, x, grouped, bias)


@dataclass(frozen=True, slots=True)
class _Padding:
    """The padding of a ConvTranspose, but for the attributes that follow from its result."""

    output_padding: Ints = ()
    output_shape: Annotated[Ints, Usual("its padding follows from the result", "give it pads")] = ()


@ONNX("ConvTranspose")
def _deconvolution(
    call: OperatorCall,
    x: Tensor,
    weights: Operand,
    bias: Tensor | None = None,
    *,
    window: _OnnxWindow,
    padding: _Padding,
    group: int = 1,
) -> Value:
    if window.auto_pad not in ("NOTSET", "VALID"):
        raise call.unimplemented("its padding follows from the result", "give it pads")
    _, strides, dilates, low, high = replace(window, kernel_shape=()).places(call.dims(x), call.dims(weights))
    more = padding.output_padding or (0,) * len(high)
    if len(more) != len(high):
        raise ValueError(f"output_padding has {len(more)} numbers for {len(high)} spatial dims")
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
    call: OperatorCall, x: Chosen, *, window: _OnnxWindow, ceil_mode: bool = False, storage_order: int = 0
) -> Made:
    if call.count_of_outputs < 2:
        return _pooling(call, x, "pooling_max", window, ceil_mode)
    dims = call.dims(x)
    strides = [prod(dims[dim + 1 :]) for dim in range(len(dims))]
    if storage_order:  # of an image the first spatial dim is the nearest
        strides[2:] = [prod(dims[2:dim]) for dim in range(2, len(dims))]
    return _pooling(call, x, "pooling_max", window, ceil_mode, tuple(strides))


@ONNX("MaxUnpool")
def _max_unpooling(
    call: OperatorCall,
    x: Tensor,
    indices: Value,
    output_shape: Annotated[Ints, "the dims of the result"] | None = None,
    *,
    window: _OnnxWindow,
) -> Value:
    """Zeros, and each element at its index in the row-major result; one that is larger is zero behind it."""
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
    window: _OnnxWindow,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Made:
    algorithm = f"pooling_avg_{'include' if count_include_pad else 'exclude'}_padding"
    return _pooling(call, x, algorithm, window, ceil_mode)


def _pooling(
    call: OperatorCall,
    x: Value,
    algorithm: str,
    window: _OnnxWindow,
    ceil_mode: bool,
    index_strides: Dims = (),
) -> Made:
    """`index_strides`: those of the indices that a maximum gives as well; none where it does not."""
    dims = call.dims(x)
    kernel, strides, dilates, low, high = window.places(dims)
    if any(pad >= size for pad, size in zip((*low, *high), kernel * 2, strict=True) if size > 0):
        raise ValueError(f"pads of {low} and {high} are as long as windows of {kernel}")
    if ceil_mode:
        ceiled = tuple(map(_ceiled, dims[2:], kernel, strides, dilates, low, high))
        if ceiled != high and algorithm.endswith("include_padding"):
            raise call.unimplemented("its last windows leave the padding, which it counts")
        high = ceiled
    operation = PoolingOperation(algorithm, kernel, strides, dilates, low, high)
    if not index_strides:
        return call.add(operation, x)
    numbers = {each.name: getattr(operation, each.name) for each in fields(operation)[1:]}
    return call.primitive("MaxPooling", x, index_strides=index_strides, **numbers)


def _ceiled(n: int, kernel: int, stride: int, dilate: int, low: int, high: int) -> int:
    """The padding behind with which the last window, begun in the source or the padding before, is whole."""
    window = (kernel - 1) * (dilate + 1) + 1
    points = -(-(n + low + high - window) // stride) + 1
    if (points - 1) * stride >= n + low:
        points -= 1
    return max((points - 1) * stride + window - n - low, high)


@ONNX("GlobalAveragePool")
def _global_average_pooling(call: OperatorCall, x: Tensor) -> Made:
    return _pooling(call, x, "pooling_avg_include_padding", _OnnxWindow(call.dims(x)[2:]), False)


@ONNX("GlobalMaxPool")
def _global_max_pooling(call: OperatorCall, x: Chosen) -> Made:
    return _pooling(call, x, "pooling_max", _OnnxWindow(call.dims(x)[2:]), False)


# --- resizing -----------------------------------------------------------------------------------------------

_Scales = Annotated[Array, "the scale"]
_Sizes = Annotated[Ints, "the new size"]


@dataclass(frozen=True, slots=True)
class _Sampling:
    """The sampling of a Resize; `cubic_coeff_a` and `extrapolation_value` are of forms that there are not."""

    mode: str = "nearest"
    coordinate_transformation_mode: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    extrapolation_value: float = 0.0
    antialias: Annotated[int, Usual()] = 0
    axes: Annotated[Ints, Usual()] = ()
    exclude_outside: Annotated[int, Usual()] = 0
    keep_aspect_ratio_policy: Annotated[str, Usual()] = "stretch"


@ONNX("Resize", since=11)
def _resize(
    call: OperatorCall,
    x: Tensor,
    roi: Value | None = None,
    scales: _Scales | None = None,
    sizes: _Sizes = (),
    *,
    sampling: _Sampling,
) -> Value:
    dims = call.dims(x)
    if scales is None and not sizes:
        raise ValueError("its scales and sizes are missing")
    if sizes or scales is None:
        _check_rank(sizes, dims)
        return _resampled(call, x, sizes, [size / n for size, n in zip(sizes, dims, strict=True)], sampling)
    return _by_scales(call, x, scales, sampling)


@ONNX("Resize", "Upsample")
def _upsample(call: OperatorCall, x: Tensor, scales: _Scales, *, mode: str = "nearest") -> Value:
    return _by_scales(call, x, scales, _Sampling(mode, "asymmetric", "floor"))


def _by_scales(call: OperatorCall, x: str, scales: Array, sampling: _Sampling) -> Value:
    dims, factors = call.dims(x), [float(scale) for scale in scales]
    _check_rank(factors, dims)
    sizes = tuple(floor(n * factor) for n, factor in zip(dims, factors, strict=True))
    return _resampled(call, x, sizes, factors, sampling)


def _resampled(
    call: OperatorCall, x: str, sizes: Dims, scales: Sequence[float], sampling: _Sampling
) -> Value:
    """The resampling of oneDNN, where that samples at the same places."""
    dims, mode = call.dims(x), sampling.mode
    if sizes[:2] != dims[:2]:
        raise call.unimplemented("it resizes batch or channels")
    if mode not in ("nearest", "linear"):
        raise call.unimplemented(f"its mode is {mode!r}", "nearest and linear are there")
    for n, size, scale in zip(dims[2:], sizes[2:], scales[2:], strict=True):
        if not _samples_alike(sampling, n, size, scale):
            raise call.unimplemented(f"it samples {n} elements to {size} in a way that resampling does not")
    return call.add(ResamplingOperation(f"resampling_{mode}", sizes[2:]), x)


def _check_rank(sizes: Sequence[float], dims: Dims) -> None:
    if len(sizes) != len(dims) or len(dims) < 3:
        raise ValueError(f"{len(sizes)} sizes for {len(dims)} dims")


_POSITIONS: dict[str, Callable[[Array, int, int, float], Array]] = {
    "half_pixel": lambda at, n, size, scale: (at + 0.5) / scale - 0.5,
    "pytorch_half_pixel": lambda at, n, size, scale: (at + 0.5) / scale - 0.5,
    "asymmetric": lambda at, n, size, scale: at / scale,
    "align_corners": lambda at, n, size, scale: at * (n - 1) / (size - 1),
}
_ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda at: np.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: np.floor(at + 0.5),
    "floor": lambda at: np.floor(at + 1e-7),
    "ceil": lambda at: np.ceil(at - 1e-7),
}


def _samples_alike(sampling: _Sampling, n: int, size: int, scale: float) -> bool:
    """True where the positions of the node in one dim are those of resampling."""
    if n == size and scale == 1:
        return True
    word, at = sampling.coordinate_transformation_mode, np.arange(size)
    if not n or not size or word not in _POSITIONS:
        return False
    if size == 1 and word in ("pytorch_half_pixel", "align_corners"):
        return False
    ours, theirs = (at + 0.5) * n / size - 0.5, _POSITIONS[word](at, n, size, scale)
    if sampling.mode == "linear":
        return bool(np.allclose(np.clip(ours, 0, n - 1), np.clip(theirs, 0, n - 1), atol=1e-5))
    if sampling.nearest_mode not in _ROUNDINGS:
        return False
    rounded = _ROUNDINGS[sampling.nearest_mode](theirs)
    return bool(np.array_equal(np.clip(rounded, 0, n - 1), np.clip(np.floor(ours + 0.5), 0, n - 1)))
