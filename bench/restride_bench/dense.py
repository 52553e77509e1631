"""Dense formats as digit-wise linear maps, in NumPy: nothing of restride's own descriptors or paths.

An index along an axis has one digit per block of that axis, and each digit has a stride. From that follow
the offset of every element (the check after a timing) and a short list of strided boxes that NumPy and torch
can copy one by one (the peers).
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class FormatDigit(NamedTuple):
    """One digit of an index along an axis: worth `weight` indices, `stride` elements apart."""

    weight: int
    stride: int


class GridBox(NamedTuple):
    """Elements that lie on a regular grid in both operands: extents, then strides and start of each."""

    shape: tuple[int, ...]
    src_strides: tuple[int, ...]
    src_start: int
    dst_strides: tuple[int, ...]
    dst_start: int


@dataclass(frozen=True)
class DenseFormat:
    """A dense format over `dims`: outer axes by decreasing stride, then inner blocks (axis, size)."""

    dims: tuple[int, ...]
    outer: tuple[int, ...]
    blocks: tuple[tuple[int, int], ...]
    margin: tuple[int, ...] = ()

    @classmethod
    def parse(cls, dims: Sequence[int], tag: str, margin: tuple[int, ...] = ()) -> DenseFormat:
        """The layout of a canonical tag, as "acdb" or "aBcd16b". With `margin` elements on all sides of the
        box of `dims`, which are not its own.
        """
        inner = tuple((ord(letter) - 97, int(size)) for size, letter in re.findall(r"(\d+)([a-l])", tag))
        outer = tuple(ord(letter) - 97 for letter in re.match("[a-lA-L]*", tag)[0].lower())  # type: ignore[index]
        return cls(tuple(dims), outer, inner, margin or (0,) * len(dims))

    def block(self, axis: int) -> int:
        """Product of the inner blocks along `axis`."""
        return math.prod(size for of, size in self.blocks if of == axis)

    @property
    def whole(self) -> tuple[int, ...]:
        """Extents with the margin."""
        return tuple(extent + 2 * far for extent, far in zip(self.dims, self.margin, strict=True))

    @cached_property
    def padded(self) -> tuple[int, ...]:
        """Extents rounded up to whole blocks."""
        return tuple(
            -(-extent // self.block(axis)) * self.block(axis) for axis, extent in enumerate(self.whole)
        )

    @cached_property
    def elements(self) -> int:
        """Elements of the storage, padding included."""
        return math.prod(self.padded)

    @cached_property
    def digits(self) -> tuple[tuple[FormatDigit, ...], ...]:
        """The digits of every axis, the least significant first."""
        found: list[list[FormatDigit]] = [[] for _ in self.dims]
        weights, stride = [1] * len(self.dims), 1
        for axis, size in reversed(self.blocks):
            found[axis].append(FormatDigit(weights[axis], stride))
            weights[axis] *= size
            stride *= size
        for axis in reversed(self.outer):
            found[axis].append(FormatDigit(weights[axis], stride))
            stride *= self.padded[axis] // weights[axis]
        return tuple(tuple(digits) for digits in found)

    def offsets(self, axis: int, begin: int = 0, end: int | None = None) -> npt.NDArray[np.int64]:
        """What the indices begin..end along `axis` add to an element's offset."""
        rest = np.arange(begin, self.dims[axis] if end is None else end, dtype=np.int64)
        rest += self.margin[axis]
        total = np.zeros_like(rest)
        for digit in reversed(self.digits[axis]):
            total += rest // digit.weight * digit.stride
            rest = rest % digit.weight
        return total

    def grid(self, begin: int, end: int) -> npt.NDArray[np.int64]:
        """Offsets of all elements whose first index is in begin..end, in logical order."""
        tables = [self.offsets(0, begin, end), *(self.offsets(axis) for axis in range(1, len(self.dims)))]
        total = tables[0]
        for table in tables[1:]:
            total = np.add.outer(total, table)
        return total


def pieces(src: Sequence[FormatDigit], dst: Sequence[FormatDigit], end: int, begin: int = 0) -> list[GridBox]:
    """Indices begin..end of one axis, cut where a digit of either format would carry."""
    weights = sorted({digit.weight for digit in (*src, *dst)})
    if any(big % small for small, big in itertools.pairwise(weights)):
        raise ValueError(f"blocks of {weights} elements do not nest")
    found = []
    while begin < end:
        level = max(i for i, w in enumerate(weights) if begin % w == 0 and begin + w <= end)
        count = (end - begin) // weights[level]
        if level + 1 < len(weights):
            count = min(count, (weights[level + 1] - begin % weights[level + 1]) // weights[level])
        steps = weights[level::-1]
        shape = (count, *(big // small for big, small in itertools.pairwise(steps)))
        strides = [tuple(_step(digits, w) for w in steps) for digits in (src, dst)]
        found.append(GridBox(shape, strides[0], _at(src, begin), strides[1], _at(dst, begin)))
        begin += count * weights[level]
    return found


def product(axes: Sequence[GridBox]) -> GridBox:
    """One box out of one piece of every axis."""
    joined = [tuple(itertools.chain.from_iterable(axis[i] for axis in axes)) for i in (0, 1, 3)]  # type: ignore[misc]
    starts = [sum(axis.src_start for axis in axes), sum(axis.dst_start for axis in axes)]
    return GridBox(joined[0], joined[1], starts[0], joined[2], starts[1])


def _step(digits: Sequence[FormatDigit], weight: int) -> int:
    holder = max((digit for digit in digits if digit.weight <= weight), key=lambda digit: digit.weight)
    return holder.stride * (weight // holder.weight)


def _at(digits: Sequence[FormatDigit], index: int) -> int:
    total = 0
    for digit in reversed(digits):
        total += index // digit.weight * digit.stride
        index %= digit.weight
    return total
