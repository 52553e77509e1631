"""Resampling and its gradient in NumPy, by the matrix of each dim."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def _matrix(alg: str, src: int, dst: int) -> Array:
    """Return the weights of each source element in each destination element, along one dim."""
    found = np.zeros((dst, src))
    for out in range(dst):
        at = float(
            np.float32((np.float32(out) + np.float32(0.5)) * np.float32(src) / np.float32(dst))
            - np.float32(0.5)
        )
        if alg == "nearest":
            found[out, min(max(int(np.floor(at + 0.5)), 0), src - 1)] += 1
            continue
        low = int(np.floor(at))
        for place, weight in ((low, 1 - (at - low)), (low + 1, at - low)):
            found[out, min(max(place, 0), src - 1)] += weight
    return found


def resampled(alg: str, x: Array, sizes: Sequence[int]) -> Array:
    """A resampling to these spatial sizes."""
    for dim, size in enumerate(sizes, 2):
        x = np.moveaxis(np.tensordot(_matrix(alg, x.shape[dim], size), x, (1, dim)), 0, dim)
    return x


def gradient_of(alg: str, gradient: Array, sizes: Sequence[int]) -> Array:
    """The gradient of a source of these spatial sizes."""
    for dim, size in enumerate(sizes, 2):
        back = _matrix(alg, size, gradient.shape[dim]).T
        gradient = np.moveaxis(np.tensordot(back, gradient, (1, dim)), 0, dim)
    return gradient
