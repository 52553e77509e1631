"""ONNX's Resize and Upsample, by a table of weights for each axis.

Along one axis every mode is a weighted sum of some elements of the source: the nearest one, both neighbors,
four or, for smooth downsampling, more. Tables are known before a run. If oneDNN's resampling reads the same
positions it is used, otherwise `Interpolation` for each axis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, prod
from typing import Annotated, NamedTuple

import numpy as np

from ....model.result_dims import Misfit
from ....runtime.alloc import Array
from ....runtime.free_memory import check_room
from ...dims import Dims
from ...nodes.layers import ResamplingOperation
from ..operator_call import ONNX, Ints, Moved, OperatorCall, Value
from .known import axis_of, check_countable

_Scales = Annotated[Array, "the scale"]
_Sizes = Annotated[Ints, "the new size"]


@dataclass(frozen=True, slots=True)
class _Sampling:
    """Attributes of a Resize that determine its sampling."""

    mode: str = "nearest"
    coordinate_transformation_mode: str = "half_pixel"
    nearest_mode: str = "round_prefer_floor"
    cubic_coeff_a: float = -0.75
    extrapolation_value: float = 0.0
    antialias: bool = False
    exclude_outside: bool = False


@dataclass(frozen=True, slots=True)
class _Extents:
    """The axes of a Resize, if not all, and the policy that equalizes their scales."""

    axes: Ints = ()
    keep_aspect_ratio_policy: str = "stretch"


class _ResizedAxis(NamedTuple):
    """One axis of a resize: extents before and after, the scale, and the sampled fraction of the source."""

    source: int
    result: int
    scale: float
    start: float = 0.0
    end: float = 1.0

    @property
    def is_idle(self) -> bool:
        return self.source == self.result and self.scale == 1 and (self.start, self.end) == (0, 1)


@ONNX("Resize", since=11)
def _resize(
    call: OperatorCall,
    x: Moved,
    roi: Value | None = None,
    scales: _Scales | None = None,
    sizes: _Sizes = (),
    *,
    sampling: _Sampling,
    extents: _Extents,
) -> Value:
    dims = call.dims(x)
    axes = tuple(axis_of(axis, len(dims)) for axis in extents.axes) or tuple(range(len(dims)))
    factors = () if scales is None else tuple(map(float, scales.reshape(-1)))
    if not sizes and not factors:
        raise Misfit("its scales and sizes are missing")
    if len(sizes or factors) != len(axes) or len(set(axes)) < len(axes):
        raise Misfit(f"there are {len(sizes or factors)} numbers for {len(axes)} axes")
    _check_scales(factors)
    if sizes:
        sizes, factors = _with_aspect([dims[axis] for axis in axes], sizes, extents.keep_aspect_ratio_policy)
    else:
        sizes = tuple(floor(dims[axis] * factor) for axis, factor in zip(axes, factors, strict=True))
    lines = [_ResizedAxis(n, n, 1.0) for n in dims]
    for at, axis in enumerate(axes):
        lines[axis] = _ResizedAxis(dims[axis], sizes[at], factors[at])
        if sampling.coordinate_transformation_mode == "tf_crop_and_resize":
            if isinstance(roi, str):
                raise call.known_in_run("its region")
            region = np.zeros(0) if roi is None else roi.reshape(-1)
            if region.size != 2 * len(axes):
                raise Misfit(f"its roi has {region.size} numbers for {len(axes)} axes")
            ends = float(region[at]), float(region[at + len(axes)])
            lines[axis] = _ResizedAxis(dims[axis], sizes[at], factors[at], *ends)
    return _resampled(call, x, lines, sampling)


def _check_scales(factors: Sequence[float]) -> None:
    wrong = [factor for factor in factors if not 0 < factor < inf]
    if wrong:
        raise Misfit(f"its scale is {wrong[0]:g}, which is not positive")


def _with_aspect(dims: Sequence[int], sizes: Dims, policy: str) -> tuple[Dims, tuple[float, ...]]:
    """Return sizes and their scales by a policy: of one scale, the largest or smallest that fits."""
    factors = tuple(size / n if n else 1.0 for size, n in zip(sizes, dims, strict=True))
    if policy == "stretch":
        return sizes, factors
    if policy not in ("not_larger", "not_smaller"):
        raise Misfit(f"its keep_aspect_ratio_policy is {policy!r}")
    factor = min(factors) if policy == "not_larger" else max(factors)
    return tuple(floor(n * factor + 0.5) for n in dims), (factor,) * len(dims)


@ONNX("Resize", "Upsample")
def _upsample(call: OperatorCall, x: Moved, scales: _Scales, *, mode: str = "nearest") -> Value:
    """The first versions sample at `place / scale`."""
    mode = {"bilinear": "linear"}.get(mode, mode)
    dims, factors = call.dims(x), [float(scale) for scale in scales.reshape(-1)]
    if len(dims) != len(factors):
        raise Misfit(f"there are {len(factors)} scales for {len(dims)} dims")
    _check_scales(factors)
    pairs = zip(dims, factors, strict=True)
    return _resampled(
        call, x, [_ResizedAxis(n, floor(n * f), f) for n, f in pairs], _Sampling(mode, "asymmetric", "floor")
    )


def _resampled(call: OperatorCall, x: str, lines: Sequence[_ResizedAxis], sampling: _Sampling) -> Value:
    mode = sampling.mode
    if mode not in ("nearest", *_KERNELS):
        raise Misfit(f"its mode is {mode!r}")
    if any(line.result < 0 or (line.result and not line.source) for line in lines):
        raise Misfit(f"it resizes {list(call.dims(x))} to {[line.result for line in lines]}")
    check_countable(tuple(line.result for line in lines), call.type_of(x))
    moved = [axis for axis, line in enumerate(lines) if not line.is_idle]
    is_primitive = 3 <= len(lines) <= 5 and min(moved, default=0) > 1 and mode in ("nearest", "linear")
    is_float = call.type_of(x).kind == "float"
    if (
        is_primitive
        and (is_float or mode != "nearest")
        and all(_is_resampling(sampling, lines[axis]) for axis in moved)
    ):
        call.check_types(x)
        sizes = tuple(line.result for line in lines[2:])
        return call.add(ResamplingOperation(f"resampling_{mode}", sizes), x)
    apart = call.with_outputs(0)
    if mode != "nearest":
        call.check_types(x)
    # Fail early, before computing tables, if the result does not fit in memory.
    check_room(call.type_of(x).nbytes(prod(line.result for line in lines)))
    # Most shrinking axes first, which leaves less work for the others.
    for axis in sorted(moved, key=lambda axis: lines[axis].result / max(lines[axis].source, 1)):
        indices, weights = _table(sampling, lines[axis])
        if mode == "nearest":
            x = str(apart.onnx("Gather", x, indices[:, 0], axis=axis))
        else:
            x = str(apart.primitive("Interpolation", x, indices, weights, axis=axis))
    return _extrapolated(apart, x, lines, sampling)


def _extrapolated(call: OperatorCall, x: str, lines: Sequence[_ResizedAxis], sampling: _Sampling) -> str:
    """Resample with a constant where a region extends beyond the source."""
    if sampling.coordinate_transformation_mode != "tf_crop_and_resize":
        return x
    for axis, line in enumerate(lines):
        blocks = [_places(sampling, line, at) for at in _blocks(line)]
        is_inside = np.concatenate([(at >= 0) & (at <= line.source - 1) for at in blocks])
        if not line.is_idle and not is_inside.all():
            mask = is_inside.reshape(-1, *(1,) * (len(lines) - axis - 1))
            outside = np.array(sampling.extrapolation_value, call.type_of(x).numpy)
            x = str(call.onnx("Where", mask, x, outside))
    return x


# --- tables -------------------------------------------------------------------------------------------------


def _length(line: _ResizedAxis) -> float:
    """Return the extent of the result before it was truncated to an integer."""
    exact = line.source * line.scale
    return round(exact) if abs(exact - round(exact)) < 1e-9 * max(exact, 1) else exact


def _symmetric(at: Array, line: _ResizedAxis) -> Array:
    """Return half-pixel coordinates around the same center, despite the truncated extent of the result."""
    offset = line.source / 2 * (1 - line.result / _length(line))
    return offset + (at + 0.5) / line.scale - 0.5


def _region(at: Array, line: _ResizedAxis) -> Array:
    first, width = line.start * (line.source - 1), (line.end - line.start) * (line.source - 1)
    length = _length(line)
    return first + (np.full_like(at, width / 2) if length == 1 else at * width / (length - 1))


_POSITIONS: Mapping[str, Callable[[Array, _ResizedAxis], Array]] = {
    "half_pixel": lambda at, line: (at + 0.5) / line.scale - 0.5,
    "half_pixel_symmetric": _symmetric,
    "pytorch_half_pixel": lambda at, line: (at + 0.5) / line.scale - 0.5 if line.result > 1 else at * 0,
    "asymmetric": lambda at, line: at / line.scale,
    "align_corners": lambda at, line: (
        at * (line.source - 1) / (_length(line) - 1) if _length(line) != 1 else at * 0
    ),
    "tf_crop_and_resize": _region,
}
_ROUNDINGS: Mapping[str, Callable[[Array], Array]] = {
    "round_prefer_floor": lambda at: np.ceil(at - 0.5),
    "round_prefer_ceil": lambda at: np.floor(at + 0.5),
    "floor": lambda at: np.floor(at + 1e-7),
    "ceil": lambda at: np.ceil(at - 1e-7),
}


def _cubic(t: Array, a: float) -> Array:
    """Evaluate Keys' kernel at distances up to 2."""
    near, far = ((a + 2) * t - (a + 3)) * t * t + 1, ((t - 5) * t + 8) * t - 4
    return np.where(t <= 1, near, np.where(t < 2, a * far, 0.0))


# Weight of an element by its distance, and the distance from which on it is 0.
_KERNELS: Mapping[str, tuple[Callable[[Array, float], Array], int]] = {
    "linear": (lambda t, a: np.maximum(1 - t, 0.0), 1),
    "cubic": (_cubic, 2),
}


# Tables are computed in blocks of this many numbers, whose 64-bit temporaries exceed the result.
_BLOCK = 1 << 16
# Up to this many elements, each one is checked.
_LONGEST_LOOK = 1 << 20


def _blocks(line: _ResizedAxis, width: int = 1) -> Iterator[Array]:
    """Yield the elements of a result in blocks, for `width` numbers per element; at least one block."""
    rows = max(_BLOCK // width, 1)
    for first in range(0, max(line.result, 1), rows):
        yield np.arange(first, min(first + rows, line.result), dtype=np.float64)


def _places(sampling: _Sampling, line: _ResizedAxis, at: Array) -> Array:
    """Return the source coordinates of some elements of a result."""
    word = sampling.coordinate_transformation_mode
    if word not in _POSITIONS:
        raise Misfit(f"its coordinate_transformation_mode is {word!r}")
    return _POSITIONS[word](at, line)


def _table(sampling: _Sampling, line: _ResizedAxis) -> tuple[Array, Array]:
    """Return for each element of a result the source elements that it depends on, and their weights."""
    reach = 1
    if sampling.mode != "nearest":
        # Antialiasing: each element of a smaller result averages the source elements that it covers.
        scale = min(line.scale, 1.0) if sampling.antialias and line.result else 1.0
        reach = ceil(_KERNELS[sampling.mode][1] / scale)
    check_room(8 * line.result * 2 * reach)
    parts = [_rows(sampling, line, at, reach) for at in _blocks(line, 2 * reach)]
    used = np.any([np.any(weights != 0, axis=0) for _, weights in parts], axis=0)
    indices, weights = (np.concatenate([part[i][:, used] for part in parts]) for i in (0, 1))
    return indices, weights


def _rows(sampling: _Sampling, line: _ResizedAxis, at: Array, reach: int) -> tuple[Array, Array]:
    """Return the rows of a table for some elements of a result."""
    at, last = _places(sampling, line, at), line.source - 1
    if sampling.mode == "nearest":
        if sampling.nearest_mode not in _ROUNDINGS:
            raise Misfit(f"its nearest_mode is {sampling.nearest_mode!r}")
        rounded = _ROUNDINGS[sampling.nearest_mode](at)[:, None]
        return np.clip(rounded, 0, last).astype(np.int32), np.ones(rounded.shape, np.float32)
    kernel, _ = _KERNELS[sampling.mode]
    scale = min(line.scale, 1.0) if sampling.antialias else 1.0
    indices = np.floor(at)[:, None] + np.arange(1 - reach, reach + 1)
    weights = kernel(np.abs(indices - at[:, None]) * scale, sampling.cubic_coeff_a)
    if sampling.exclude_outside:
        weights = np.where((indices >= 0) & (indices <= last), weights, 0.0)
    if sampling.exclude_outside or scale < 1:
        weights = weights / weights.sum(1, keepdims=True)
    return np.clip(indices, 0, last).astype(np.int32), weights.astype(np.float32)


def _is_resampling(sampling: _Sampling, line: _ResizedAxis) -> bool:
    """True if oneDNN's resampling computes the same along an axis."""
    if not line.source or not line.result or (sampling.antialias and line.scale < 1):
        return False
    if line.result > _LONGEST_LOOK:
        # Coordinates are linear, so checking both ends suffices; after rounding it does not.
        ends = np.array([0, line.result - 1], np.float64)
        return sampling.mode == "linear" and _is_resampled(sampling, line, ends)
    return all(_is_resampled(sampling, line, at) for at in _blocks(line))


def _is_resampled(sampling: _Sampling, line: _ResizedAxis, at: Array) -> bool:
    """True if oneDNN's resampling computes the same for some elements of a result."""
    ours = (at + 0.5) * line.source / line.result - 0.5
    theirs, last = _places(sampling, line, at), line.source - 1
    if sampling.mode == "linear":
        is_inside = not sampling.exclude_outside or (theirs.min() >= 0 and theirs.max() <= last)
        return is_inside and np.allclose(np.clip(ours, 0, last), np.clip(theirs, 0, last), atol=1e-5)
    nearest, _ = _rows(sampling, line, at, 1)
    return bool(np.array_equal(nearest[:, 0], np.clip(np.floor(ours + 0.5), 0, last)))
