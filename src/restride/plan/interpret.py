"""What a loop nest means: an interpreter in plain NumPy, slow and plain to read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .contract import Array, convert
from .nest import Axis, LoopNest, slice_axis

# Positions interpreted at once; bounds the memory that index arrays take.
_BLOCK = 1 << 20


def interpret(nest: LoopNest, src: Array, dst: Array, alpha: float = 1.0, beta: float = 0.0) -> None:
    """Run `nest` on flat arrays of storage dtypes, writing into `dst`; offset 0 is the first of each."""
    if nest.is_empty:
        return
    axes = nest.axes
    if nest.positions > _BLOCK and any(a.extent > 1 for a in axes):
        for part in _halves(nest):
            interpret(part, src, dst, alpha, beta)
        return
    _interpret_block(nest, src, dst, alpha, beta)


def _halves(nest: LoopNest) -> tuple[LoopNest, LoopNest]:
    index = max(range(len(nest.axes)), key=lambda i: nest.axes[i].extent)
    axis = nest.axes[index]
    if axis.bound >= 0:
        return _halves_bounded(nest, index)
    half = axis.extent // 2
    return slice_axis(nest, index, 0, half), slice_axis(nest, index, half, axis.extent - half)


def _halves_bounded(nest: LoopNest, index: int) -> tuple[LoopNest, LoopNest]:
    """Halve an axis of a bounded dimension; the upper half's limits move down by what it skips."""
    axis = nest.axes[index]
    half = axis.extent // 2
    low = slice_axis(nest, index, 0, half)
    high = slice_axis(nest, index, half, axis.extent - half)
    skipped = half * axis.step
    bound = nest.bounds[axis.bound]
    moved = replace(bound, size=max(bound.size - skipped, 0), padded=max(bound.padded - skipped, 0))
    bounds = tuple(moved if i == axis.bound else b for i, b in enumerate(nest.bounds))
    return low, replace(high, bounds=bounds)


def _interpret_block(nest: LoopNest, src: Array, dst: Array, alpha: float, beta: float) -> None:
    shape = tuple(a.extent for a in nest.axes)
    to = np.full(shape, nest.dst_base, np.int64)
    at = np.full(shape, nest.src_base, np.int64)
    reads = np.ones(shape, np.bool_)
    indices = [np.zeros(shape, np.int64) for _ in nest.bounds]
    for place, axis in enumerate(nest.axes):
        along = _along(axis, place, len(shape))
        to += np.array([axis.dst_offset(i) for i in range(axis.extent)], np.int64).reshape(along)
        at += np.array([axis.src_offset(i) for i in range(axis.extent)], np.int64).reshape(along)
        positions = np.arange(axis.extent).reshape(along)
        reads &= positions < axis.valid
        if axis.bound >= 0:
            indices[axis.bound] += positions * axis.step
    writes = np.ones(shape, np.bool_)
    for index, bound in zip(indices, nest.bounds, strict=True):
        reads &= index < bound.size
        writes &= index < bound.padded
    dst[to[writes & ~reads]] = 0
    chosen = reads & writes
    if chosen.any():
        values, old = src[at[chosen]], dst[to[chosen]]
        dst[to[chosen]] = convert(values, old, nest.src_type, nest.dst_type, nest.compute, alpha, beta)


def _along(axis: Axis, place: int, ndims: int) -> tuple[int, ...]:
    return tuple(axis.extent if i == place else 1 for i in range(ndims))
