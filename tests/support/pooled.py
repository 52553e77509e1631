"""Pooling and its gradient in plain loops over positions of windows.

`windows`: strides, kernel, dilation, padding before and after, a number of each for each spatial dim.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Dims = tuple[int, ...]
Windows = tuple[Dims, ...]


def pooled_dims(dims: Dims, windows: Windows) -> Dims:
    """The dims of the result."""
    parts = zip(dims[2:], *windows, strict=True)
    spatial = ((n + left + right - (k - 1) * (d + 1) - 1) // s + 1 for n, s, k, d, left, right in parts)
    return (*dims[:2], *spatial)


@functools.cache
def _taps(dims: Dims, windows: Windows) -> list[tuple[Dims, list[tuple[int, Dims]]]]:
    """Each output with its window: index, and (position, index in the source) of what is inside."""
    strides, kernel, dilation, padding, _ = windows
    made = []
    for out in itertools.product(*map(range, pooled_dims(dims, windows)[2:])):
        found = []
        for number, tap in enumerate(itertools.product(*map(range, kernel))):
            parts = zip(out, strides, padding, tap, dilation, strict=True)
            at = tuple(o * s - p + k * (d + 1) for o, s, p, k, d in parts)
            if all(0 <= i < n for i, n in zip(at, dims[2:], strict=True)):
                found.append((number, at))
        made.append((out, found))
    return made


def pooled(alg: str, x: Array, windows: Windows) -> tuple[Array, Array]:
    """The result, and the place that each maximum has in its window."""
    result = np.zeros(pooled_dims(x.shape, windows))
    places = np.full(result.shape, 255)
    for out, taps in _taps(x.shape, windows):
        values = np.stack([x[(..., *at)] for _, at in taps]).astype(np.float64)
        if alg == "max":
            result[(..., *out)] = values.max(0)
            places[(..., *out)] = np.array([number for number, _ in taps])[values.argmax(0)]
        else:
            count = np.prod(windows[1]) if alg == "avg_include_padding" else len(taps)
            result[(..., *out)] = values.sum(0) / count
    return result, places


def gradient_of(alg: str, gradient: Array, places: Array | None, dims: Dims, windows: Windows) -> Array:
    """The gradient of the source; `places` of maxima."""
    result = np.zeros(dims)
    chosen = places if places is not None else np.zeros(pooled_dims(dims, windows))
    for out, taps in _taps(dims, windows):
        d = gradient[(..., *out)].astype(np.float64)
        for number, at in taps:
            if alg == "max":
                result[(..., *at)] += np.where(chosen[(..., *out)] == number, d, 0)
            else:
                result[(..., *at)] += d / (np.prod(windows[1]) if alg == "avg_include_padding" else len(taps))
    return result
