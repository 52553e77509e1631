"""What a benchmark row moves, and the bytes that a right answer has."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from restride import DataType
from restride.runtime.result_pool import allocate

from .arithmetic import PLAIN, PeerArithmetic
from .dense import DenseFormat, GridBox, pieces, product

Bytes = npt.NDArray[np.uint8]
Array = npt.NDArray[Any]

_PERIOD = 1_000_003  # of the random data: prime, so that it meets no power-of-two stride twice
_CHUNK = 1 << 22  # elements checked at a time
_POISON = 0xA5


def storage(nbytes: int) -> Bytes:
    """Storage for any peer, aligned to a cache line or better as torch, oneDNN and restride allocate it."""
    return allocate(nbytes).bytes()


@dataclass(frozen=True)
class PeerProblem:
    """One reorder from one format and type to another. `margin`: the source is a window, that far from every
    side of what it lies in.

    With a `group_size`, a shuffle of axis 1 between equal formats and types.
    """

    name: str
    dims: tuple[int, ...]
    src_type: str
    src_tag: str
    dst_type: str
    dst_tag: str
    arithmetic: PeerArithmetic = PLAIN
    group: str = "layout"
    margin: tuple[int, ...] = ()
    group_size: int | None = None

    @property
    def label(self) -> str:
        """Name and extents."""
        return f"{self.name} {'x'.join(map(str, self.dims))}"

    @property
    def scale(self) -> float | None:
        """The scale of the source, for the first index where there are several."""
        return self.arithmetic.scale

    @cached_property
    def src(self) -> DenseFormat:
        """Format of the source."""
        return DenseFormat.parse(self.dims, self.src_tag, self.margin)

    @cached_property
    def dst(self) -> DenseFormat:
        """Format of the destination."""
        return DenseFormat.parse(self.dims, self.dst_tag)

    @cached_property
    def src_dtype(self) -> np.dtype[Any]:
        """NumPy twin of the source's type."""
        return _twin(self.src_type)

    @cached_property
    def dst_dtype(self) -> np.dtype[Any]:
        """NumPy twin of the destination's type."""
        return _twin(self.dst_type)

    @property
    def moved(self) -> int:
        """Bytes read and written."""
        read = math.prod(self.dims) if self.margin else self.src.elements
        written = self.dst.elements * self.dst_dtype.itemsize
        return read * self.src_dtype.itemsize + written * (2 if self.arithmetic.beta else 1)

    def of_at_least(self, nbytes: int) -> PeerProblem:
        """The same problem with the first extent doubled until it moves `nbytes`."""
        bigger = self
        while bigger.moved < nbytes:
            bigger = replace(bigger, dims=(bigger.dims[0] * 2, *bigger.dims[1:]))
        return bigger

    def source(self, seed: int = 0) -> Bytes:
        """Storage of the source: random elements, zero padding."""
        values = np.resize(_random(self.src_type, seed), self.src.elements)
        if self.src.padded != self.src.dims:
            keep = np.zeros(self.src.elements, np.bool_)
            for begin, end in self._chunks():
                keep[self.src.grid(begin, end)] = True
            values[~keep] = 0
        stored = storage(values.nbytes)
        stored[...] = values.view(np.uint8)
        return stored

    def destination(self) -> Bytes:
        """Storage for the destination, every page touched, every byte poisoned."""
        stored = storage(self.dst.elements * self.dst_dtype.itemsize)
        self.poison(stored)
        return stored

    def poison(self, result: Bytes) -> None:
        """The bytes that a destination holds before a run that counts."""
        result[...] = _POISON

    def wrong(self, source: Bytes, result: Bytes) -> str:
        """What is wrong with the `result` of a run on poison, or "" if all elements and padding are right."""
        src, dst = source.view(self.src_dtype), result.view(_word(self.dst_dtype))
        padding = np.ones(self.dst.elements, np.bool_) if self.dst.padded != self.dst.dims else None
        for begin, end in self._chunks():
            at = self.dst.grid(begin, end)
            values = self.shuffled(src[self.src.grid(begin, end)])
            expected = self.convert(values, begin).view(_word(self.dst_dtype))
            differ = int(np.count_nonzero(dst[at] != expected))
            if differ:
                return f"{differ} of {expected.size} elements differ in rows {begin} to {end}"
            if padding is not None:
                padding[at] = False
        return "padding is not zero" if padding is not None and dst[padding].any() else ""

    def convert(self, values: Array, begin: int = 0) -> Array:
        """What becomes of the rows of `values` from `begin` on, over poison (N1 to N3)."""
        made, rows = self.arithmetic, slice(begin, begin + len(values))
        scales = np.float32(1) if made.scale is None else _rows(made.scales(self.dims), rows)
        dst_scales = _rows(made.dst_scales(self.dims), rows)
        old = np.full(self.dst_dtype.itemsize, _POISON, np.uint8).view(self.dst_dtype)
        return made.apply(values, old, self.dst_dtype, np.asarray(scales), dst_scales)

    def shuffled(self, values: Array) -> Array:
        """`values`, with the channels shuffled where there is a group size."""
        if self.group_size is None:
            return values
        rows, channels, *rest = values.shape
        split = values.reshape(rows, channels // self.group_size, self.group_size, *rest)
        return split.swapaxes(1, 2).reshape(values.shape)

    def boxes(self) -> list[GridBox]:
        """The elements as strided boxes. Raises ValueError where the blocks of the formats do not nest."""
        if self.group_size is not None:
            return [self._exchanged(self.group_size)]
        axes = [pieces(s, d, n) for s, d, n in zip(self.src.digits, self.dst.digits, self.dims, strict=True)]
        shift = sum(
            far * digits[0].stride for far, digits in zip(self.src.margin, self.src.digits, strict=True)
        )
        found = [product(choice) for choice in itertools.product(*axes)]
        return [box._replace(src_start=box.src_start + shift) for box in found]

    def padding(self) -> list[GridBox]:
        """The destination's padding as boxes (their source side means nothing)."""
        found, layout = [], self.dst
        for axis, (extent, padded) in enumerate(zip(layout.dims, layout.padded, strict=True)):
            if extent == padded:
                continue
            axes = [
                pieces(d, d, layout.dims[i] if i > axis else layout.padded[i], extent if i == axis else 0)
                for i, d in enumerate(layout.digits)
            ]
            found += [product(choice) for choice in itertools.product(*axes)]
        return found

    def _exchanged(self, group_size: int) -> GridBox:
        if self.src.blocks:
            raise ValueError("groups cut blocks: channels lie on no grid")
        axes = [pieces(s, s, n)[0] for s, n in zip(self.src.digits, self.dims, strict=True)]
        (step,), rows = axes[1].src_strides, self.dims[1] // group_size
        axes[1] = GridBox((group_size, rows), (step, group_size * step), 0, (rows * step, step), 0)
        return product(axes)

    def _chunks(self) -> Iterator[tuple[int, int]]:
        rows = max(1, _CHUNK // max(1, math.prod(self.dims[1:])))
        for begin in range(0, self.dims[0], rows):
            yield begin, min(begin + rows, self.dims[0])


def _rows(factors: Array, rows: slice) -> Array:
    return factors if len(factors) == 1 else factors[rows]


# Peers take the same values one after the other.
@functools.lru_cache(maxsize=2)
def _random(data_type: str, seed: int) -> Array:
    rng, dtype = np.random.default_rng(seed), _twin(data_type)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return rng.integers(limits.min, limits.max, _PERIOD, dtype, endpoint=True)
    return (rng.standard_normal(_PERIOD, np.float32) * np.float32(50)).astype(dtype)


def _twin(data_type: str) -> np.dtype[Any]:
    found = DataType.parse(data_type).numpy
    if found is None:
        raise ValueError(f"{data_type} has no NumPy twin")
    return found


def _word(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(f"u{dtype.itemsize}")
