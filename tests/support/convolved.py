"""Convolutions by their definition: a loop over taps, in doubles, from which gradients follow too."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import restride as rs

Array = npt.NDArray[Any]


class Case(NamedTuple):
    """A convolution of any rank: extents of the source, kernel and window."""

    batch: int
    groups: int
    inputs: int
    outputs: int
    sizes: tuple[int, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilates: tuple[int, ...]
    padding: tuple[int, ...]

    @property
    def points(self) -> tuple[int, ...]:
        """The extents of the destination."""
        rows = zip(self.sizes, self.kernel, self.strides, self.dilates, self.padding, strict=True)
        return tuple((n + 2 * p - (k - 1) * (d + 1) - 1) // s + 1 for n, k, s, d, p in rows)

    @property
    def window(self) -> tuple[list[int], ...]:
        """Strides, dilates and paddings, as a primitive descriptor takes them."""
        return list(self.strides), list(self.dilates), list(self.padding), list(self.padding)

    @property
    def dims(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """Of source, weights and destination."""
        groups = (self.groups,) if self.groups > 1 else ()
        return (
            (self.batch, self.groups * self.inputs, *self.sizes),
            (*groups, self.outputs, self.inputs, *self.kernel),
            (self.batch, self.groups * self.outputs, *self.points),
        )

    def descs(self, formats: tuple[Any, Any, Any], data_type: str = "f32") -> list[rs.MemoryDesc]:
        """Source, weights and destination."""
        rows = zip(self.dims, formats, strict=True)
        return [rs.MemoryDesc(dims, data_type, format) for dims, format in rows]


def _pieces(case: Case) -> Any:
    """Of each tap: its index, the points that it has, and where they read."""
    rows = list(zip(case.sizes, case.strides, case.dilates, case.padding, case.points, strict=True))
    for tap in product(*map(range, case.kernel)):
        points, places = [], []
        for k, (n, s, d, p, o) in zip(tap, rows, strict=True):
            at = np.arange(o) * s + k * (d + 1) - p
            inside = np.flatnonzero((at >= 0) & (at < n))
            points.append(inside)
            places.append(at[inside])
        yield tap, np.ix_(*points), np.ix_(*places)


def _grouped(case: Case, x: Array, channels: int) -> Array:
    return x.reshape(case.batch, case.groups, channels, *x.shape[2:]).astype(np.float64)


def forward(case: Case, x: Array, w: Array) -> Array:
    """The convolution."""
    x, w = _grouped(case, x, case.inputs), w.reshape(case.groups, case.outputs, case.inputs, *case.kernel)
    y = np.zeros((case.batch, case.groups, case.outputs, *case.points))
    for tap, points, places in _pieces(case):
        read = x[(slice(None), slice(None), slice(None), *places)]
        y[(..., *points)] += np.einsum("ngi...,goi->ngo...", read, w[(..., *tap)])
    return y.reshape(case.dims[2])


def backward_data(case: Case, y: Array, w: Array) -> Array:
    """The gradient of the source."""
    y, w = _grouped(case, y, case.outputs), w.reshape(case.groups, case.outputs, case.inputs, *case.kernel)
    x = np.zeros((case.batch, case.groups, case.inputs, *case.sizes))
    for tap, points, places in _pieces(case):
        x[(..., *places)] += np.einsum("ngo...,goi->ngi...", y[(..., *points)], w[(..., *tap)])
    return x.reshape(case.dims[0])


def backward_weights(case: Case, x: Array, y: Array) -> Array:
    """The gradient of the weights."""
    x, y = _grouped(case, x, case.inputs), _grouped(case, y, case.outputs)
    w = np.zeros((case.groups, case.outputs, case.inputs, *case.kernel))
    for tap, points, places in _pieces(case):
        one, other = (part.reshape(*part.shape[:3], -1) for part in (y[(..., *points)], x[(..., *places)]))
        w[(..., *tap)] = np.einsum("ngop,ngip->goi", one, other)
    return w.reshape(case.dims[1])
