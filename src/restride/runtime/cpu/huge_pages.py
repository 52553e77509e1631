"""Offsets of the pages that nests write, in order, so that they can be prefaulted.

The first write to a page of a fresh destination waits until the system has found and cleared it: up to ten
milliseconds for a huge page. One step of a transpose may write a little to every page of its destination, and
cannot be interrupted. With all pages present, no step takes long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from ...ir.nest import Axis, LoopNest, Stride, highest, lowest
from ...schedule.machine import HUGE_PAGE
from ..alloc import Array


def page_offsets(nests: Iterable[LoopNest]) -> Array:
    """Return int64 offsets of bytes that the nests write, ascending and at most a huge page apart."""
    parts = [_offsets(nest, position) for nest in nests if not nest.is_empty for position in (_first, _last)]
    return _ascending(np.concatenate([np.zeros(0, np.int64), *parts]))


def _ascending(offsets: Array) -> Array:
    """Sort without duplicates. `np.unique` would import `numpy.ma`: 15 ms of the first call."""
    ordered = np.sort(offsets)
    different: Array = ordered[np.append(True, ordered[1:] != ordered[:-1])[: ordered.size]]
    return different


def _offsets(nest: LoopNest, end: Callable[[Axis], int]) -> Array:
    """Return one nest's bytes, at one end of the axes that together stay within a page."""
    positions = _positions(nest, end)
    bits = nest.dst_base + _sums(positions, [axis.dst for axis in nest.axes])
    is_written = np.ones(bits.shape, bool)
    for number, bound in enumerate(nest.bounds):
        steps = [axis.step if axis.bound == number else 0 for axis in nest.axes]
        is_written &= _sums(positions, steps) < bound.padded
    offsets: Array = bits[is_written] * nest.dst_type.bits // 8
    return offsets


def _positions(nest: LoopNest, end: Callable[[Axis], int]) -> list[Array]:
    """Return positions of each axis: one if it stays near, else enough that no page is missed."""
    width, left = nest.dst_type.bits, HUGE_PAGE * 8
    positions: dict[int, Array] = {}
    for index in sorted(range(len(nest.axes)), key=lambda i: _reach(nest.axes[i])):
        axis = nest.axes[index]
        left -= _reach(axis) * width
        positions[index] = np.array([end(axis)]) if left >= 0 else _samples(axis, width)
    return [positions[index] for index in range(len(nest.axes))]


def _samples(axis: Axis, width: int) -> Array:
    """Return positions of an axis at most a page apart where its stride allows, including the last."""
    step = max(HUGE_PAGE * 8 // (abs(axis.dst) * width), 1) if isinstance(axis.dst, int) else 1
    return np.append(np.arange(0, axis.extent - 1, step), axis.extent - 1)


def _sums(positions: list[Array], strides: Iterable[Stride]) -> Array:
    """Return the sum of stride times position over all axes, for every combination of positions."""
    total = np.zeros((), np.int64)
    for at, stride in zip(positions, strides, strict=True):
        terms = at * stride if isinstance(stride, int) else np.array(stride, np.int64)[at]
        total = np.add.outer(total, terms)
    return total


def _reach(axis: Axis) -> int:
    """Return the reach of an axis in the destination, in elements."""
    return highest(axis.dst, axis.extent) - lowest(axis.dst, axis.extent)


def _first(axis: Axis) -> int:
    return 0


def _last(axis: Axis) -> int:
    return axis.extent - 1
