"""ONNX operators whose windows slide: convolutions, poolings, resizing."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor

import numpy as np

from ....runtime.alloc import Array
from ...dims import Dims
from ...nodes.layers import PoolingOperation, ResamplingOperation
from ...nodes.products import ConvolutionOperation, DeconvolutionOperation
from .context import OnnxContext

_Pads = tuple[Dims, Dims]
# What a Resize may ask for beside: as it is where nothing is said.
_USUAL = {"antialias": 0, "axes": (), "exclude_outside": 0, "keep_aspect_ratio_policy": "stretch"}


def _spatial(context: OnnxContext, name: str, rank: int, default: int) -> Dims:
    found = tuple(context.attribute(name, ()) or (default,) * rank)
    if len(found) != rank:
        raise ValueError(f"{name} has {len(found)} numbers for {rank} spatial dims")
    return found


def _pads(context: OnnxContext, dims: Dims, kernel: Dims, strides: Dims, dilations: Dims) -> _Pads:
    """Padding in front of and behind each spatial dim."""
    rank, mode = len(kernel), context.attribute("auto_pad", "NOTSET")
    if mode == "VALID":
        return (0,) * rank, (0,) * rank
    if mode in ("SAME_UPPER", "SAME_LOWER"):
        windows = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
        total = [
            max((-(-n // s) - 1) * s + w - n, 0) for n, s, w in zip(dims[2:], strides, windows, strict=True)
        ]
        small = tuple(n // 2 for n in total)
        large = tuple(n - n // 2 for n in total)
        return (small, large) if mode == "SAME_UPPER" else (large, small)
    if mode != "NOTSET":
        raise ValueError(f"auto_pad is {mode!r}")
    pads = tuple(context.attribute("pads", ()) or (0,) * (2 * rank))
    if len(pads) != 2 * rank:
        raise ValueError(f"pads has {len(pads)} numbers for {rank} spatial dims")
    if min(pads, default=0) < 0:
        raise ValueError(f"pads are {pads}, and none is below 0")
    return pads[:rank], pads[rank:]


def _grouped_weights(context: OnnxContext, groups: int, *, is_transposed: bool) -> str:
    """The weights with their groups as a dim, and outputs before inputs."""
    dims, value = context.dims(1), context.value(1)
    if groups > 1:
        dims = (groups, dims[0] // groups, *dims[1:])
    order = list(range(len(dims)))
    if is_transposed:
        first = int(groups > 1)
        order[first], order[first + 1] = order[first + 1], order[first]
    if isinstance(value, str):
        return context.transposed(context.reshaped(value, dims), order)
    return context.placed(value.reshape(dims).transpose(order))


def convolution(context: OnnxContext) -> str:
    """Conv."""
    dims, weights = context.dims(0), context.dims(1)
    rank = len(dims) - 2
    kernel = _spatial(context, "kernel_shape", rank, 0) if context.attribute("kernel_shape") else weights[2:]
    if kernel != weights[2:]:
        raise ValueError(f"kernel_shape is {kernel}, the weights have {weights[2:]}")
    strides, dilations = (_spatial(context, name, rank, 1) for name in ("strides", "dilations"))
    low, high = _pads(context, dims, kernel, strides, dilations)
    groups = int(context.attribute("group", 1))
    if groups < 1 or weights[0] % groups:
        raise ValueError(f"{groups} groups do not divide {weights[0]} outputs")
    operation = ConvolutionOperation(strides, tuple(d - 1 for d in dilations), low, high, groups)
    bias = [context.tensor(2)] if context.has(2) else []
    return context.add(
        operation, context.tensor(0), _grouped_weights(context, groups, is_transposed=False), *bias
    )


def deconvolution(context: OnnxContext) -> str:
    """ConvTranspose."""
    dims, weights = context.dims(0), context.dims(1)
    rank = len(dims) - 2
    strides, dilations = (_spatial(context, name, rank, 1) for name in ("strides", "dilations"))
    if context.attribute("output_shape") or context.attribute("auto_pad", "NOTSET") not in (
        "NOTSET",
        "VALID",
    ):
        raise context.unimplemented("its padding follows from the result", "give it pads")
    low, high = _pads(context, dims, weights[2:], strides, dilations)
    more = _spatial(context, "output_padding", rank, 0)
    groups = int(context.attribute("group", 1))
    if groups < 1 or weights[0] % groups:
        raise ValueError(f"{groups} groups do not divide {weights[0]} channels")
    high = tuple(n - extra for n, extra in zip(high, more, strict=True))
    operation = DeconvolutionOperation(strides, tuple(d - 1 for d in dilations), low, high, groups)
    bias = [context.tensor(2)] if context.has(2) else []
    return context.add(
        operation, context.tensor(0), _grouped_weights(context, groups, is_transposed=True), *bias
    )


# --- poolings -----------------------------------------------------------------------------------------------


def max_pooling(context: OnnxContext) -> str:
    """MaxPool, without its indices."""
    if len([name for name in context.node.outputs if name]) > 1:
        raise context.unimplemented("it gives the places of the maxima", "leave the second output out")
    return _pooling(context, "pooling_max")


def average_pooling(context: OnnxContext) -> str:
    """AveragePool."""
    counts = bool(context.attribute("count_include_pad", 0))
    return _pooling(context, f"pooling_avg_{'include' if counts else 'exclude'}_padding")


def _pooling(context: OnnxContext, algorithm: str) -> str:
    dims = context.dims(0)
    rank = len(dims) - 2
    kernel = _spatial(context, "kernel_shape", rank, 0)
    strides, dilations = (_spatial(context, name, rank, 1) for name in ("strides", "dilations"))
    low, high = _pads(context, dims, kernel, strides, dilations)
    if any(pad >= size for pad, size in zip((*low, *high), (*kernel, *kernel), strict=True) if size > 0):
        raise ValueError(f"pads of {low} and {high} are as long as windows of {kernel}")
    if context.attribute("ceil_mode", 0):
        ceiled = tuple(map(_ceiled, dims[2:], kernel, strides, dilations, low, high))
        if ceiled != high and algorithm.endswith("include_padding"):
            raise context.unimplemented("its last windows leave the padding, which it counts")
        high = ceiled
    dilates = tuple(d - 1 for d in dilations)
    return context.add(PoolingOperation(algorithm, kernel, strides, dilates, low, high), context.tensor(0))


def _ceiled(n: int, kernel: int, stride: int, dilation: int, low: int, high: int) -> int:
    """The padding behind with which the last window, begun in the source or the padding before, is whole."""
    window = (kernel - 1) * dilation + 1
    points = -(-(n + low + high - window) // stride) + 1
    if (points - 1) * stride >= n + low:
        points -= 1
    return max((points - 1) * stride + window - n - low, high)


def global_average_pooling(context: OnnxContext) -> str:
    """GlobalAveragePool."""
    return _global(context, "pooling_avg_include_padding")


def global_max_pooling(context: OnnxContext) -> str:
    """GlobalMaxPool."""
    return _global(context, "pooling_max")


def _global(context: OnnxContext, algorithm: str) -> str:
    kernel = context.dims(0)[2:]
    zeros, ones = (0,) * len(kernel), (1,) * len(kernel)
    return context.add(PoolingOperation(algorithm, kernel, ones, zeros, zeros, zeros), context.tensor(0))


# --- resizing -----------------------------------------------------------------------------------------------


def resize(context: OnnxContext) -> str:
    """Resize and Upsample, where they sample as oneDNN's resampling does."""
    dims = context.dims(0)
    for name, usual in _USUAL.items():
        if context.attribute(name, usual) != usual:
            raise context.unimplemented(f"its {name} is {context.attribute(name)!r}")
    sizes, scales = _sizes(context, dims)
    if sizes[:2] != dims[:2]:
        raise context.unimplemented("it resizes batch or channels")
    mode = context.attribute("mode", "nearest")
    if mode not in ("nearest", "linear"):
        raise context.unimplemented(f"its mode is {mode!r}", "nearest and linear are there")
    for n, size, scale in zip(dims[2:], sizes[2:], scales[2:], strict=True):
        if not _samples_alike(context, mode, n, size, scale):
            raise context.unimplemented(
                f"it samples {n} elements to {size} in a way that resampling does not"
            )
    return context.add(ResamplingOperation(f"resampling_{mode}", sizes[2:]), context.tensor(0))


def _sizes(context: OnnxContext, dims: Dims) -> tuple[Dims, Sequence[float]]:
    # In opset 10, and in Upsample, the scales come second; later a region does.
    at = 1 if context.opset < 11 or context.node.operator == "Upsample" else 2
    if context.has(3) and at == 2 and context.needed(3, "the new size").size:
        sizes = tuple(int(n) for n in context.needed(3, "the new size"))
        _check_rank(sizes, dims)
        return sizes, [size / n for size, n in zip(sizes, dims, strict=True)]
    found = context.needed(at, "the scale") if context.has(at) else np.array(context.attribute("scales"))
    scales = [float(each) for each in found]
    _check_rank(scales, dims)
    return tuple(floor(n * scale) for n, scale in zip(dims, scales, strict=True)), scales


def _check_rank(found: Sequence[float], dims: Dims) -> None:
    if len(found) != len(dims) or len(dims) < 3:
        raise ValueError(f"{len(found)} sizes for {len(dims)} dims")


def _samples_alike(context: OnnxContext, mode: str, n: int, size: int, scale: float) -> bool:
    """True where the positions of the node in one dim are those of resampling."""
    if n == size and scale == 1:
        return True
    if not n or not size:
        return False
    at = np.arange(size)
    ours = (at + 0.5) * n / size - 0.5
    theirs = _positions(
        context.attribute("coordinate_transformation_mode", _default_mode(context)), at, n, size, scale
    )
    if theirs is None:
        return False
    if mode == "linear":
        return bool(np.allclose(np.clip(ours, 0, n - 1), np.clip(theirs, 0, n - 1), atol=1e-5))
    rounding = context.attribute("nearest_mode", "round_prefer_floor" if context.opset > 10 else "floor")
    rounded = {
        "round_prefer_floor": np.ceil(theirs - 0.5),
        "round_prefer_ceil": np.floor(theirs + 0.5),
        "floor": np.floor(theirs + 1e-7),
        "ceil": np.ceil(theirs - 1e-7),
    }.get(rounding)
    nearest = np.clip(np.floor(ours + 0.5), 0, n - 1)
    return rounded is not None and bool(np.array_equal(np.clip(rounded, 0, n - 1), nearest))


def _default_mode(context: OnnxContext) -> str:
    return "half_pixel" if context.opset > 10 and context.node.operator == "Resize" else "asymmetric"


def _positions(word: str, at: Array, n: int, size: int, scale: float) -> Array | None:
    if word == "half_pixel" or (word == "pytorch_half_pixel" and size > 1):
        return np.asarray((at + 0.5) / scale - 0.5)
    if word == "asymmetric":
        return np.asarray(at / scale)
    if word == "align_corners" and size > 1:
        return np.asarray(at * (n - 1) / (size - 1))
    return None
