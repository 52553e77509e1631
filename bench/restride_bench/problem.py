"""The problem of a benchmark row, and the bytes of a right answer.

Formats are digit-wise linear maps, in NumPy: nothing of restride's own descriptors or paths. An index along
an axis has one digit per block of that axis, and each digit has a stride. From that follow the offset of each
element (the check after a timing) and a short list of strided boxes that NumPy and torch copy one by one.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from restride import DataType
from restride.runtime.result_pool import allocate

Array = npt.NDArray[Any]

_F32_BELOW_2_31 = 2147483520


@dataclass(frozen=True)
class PeerArithmetic:
    """`scale` of the source, common or one for each index of `axis`.

    `zero_point` is of the destination where that is of integers, else of the source.
    `beta` weighs the old destination; `dst_axis` gives the destination scales of its own, one for each index.
    """

    scale: float | None = None
    axis: int | None = None
    zero_point: int = 0
    beta: float = 0.0
    dst_axis: int | None = None

    @property
    def is_plain(self) -> bool:
        """True where a common scale is all there is."""
        return self == PeerArithmetic(self.scale)

    def scales(self, dims: tuple[int, ...]) -> Array:
        """The scales of the source, f32, to broadcast."""
        assert self.scale is not None
        return spread(np.float32(self.scale), self.axis, dims)

    def dst_scales(self, dims: tuple[int, ...]) -> Array:
        """The scales of the destination."""
        return spread(np.float32(0.75), self.dst_axis, dims)

    def apply(
        self, values: Array, old: Array, dtype: np.dtype[Any], scales: Array, dst_scales: Array
    ) -> Array:
        """`values` become those of `dtype`, rounded half to even and saturated (N1 to N3)."""
        is_integral = dtype.kind in "iu"
        if self == PLAIN and values.dtype.kind in "iu":
            return _to_integers(values.astype(np.int64), dtype) if is_integral else values.astype(dtype)
        t = values.astype(np.float32)
        if self.zero_point and not is_integral:
            t -= np.float32(self.zero_point)
        if self.scale is not None:
            t *= scales
        if self.beta:
            t += np.float32(self.beta) * old.astype(np.float32)
        if self.dst_axis is not None:
            t *= np.float32(1) / dst_scales
        if not is_integral:
            return t.astype(dtype)
        return _to_integers(np.rint(t + np.float32(self.zero_point)), dtype)

    def __str__(self) -> str:
        """The description in the row's name."""
        said = [f"scale per dim {self.axis}"] if self.axis is not None else []
        said += [f"dst scale per dim {self.dst_axis}"] if self.dst_axis is not None else []
        said += [f"zero point {self.zero_point}"] if self.zero_point else []
        said += [f"sum {self.beta:g}"] if self.beta else []
        return ", ".join(said)


def spread(value: np.float32, axis: int | None, dims: tuple[int, ...]) -> Array:
    """One value for all; or near it, one for each index of an axis, with extent 1 elsewhere."""
    if axis is None:
        return np.full((1,) * len(dims), value)
    each = value * (1 + np.arange(dims[axis], dtype=np.float32) % 8 / 8)
    return each.reshape([-1 if i == axis else 1 for i in range(len(dims))])


def _to_integers(values: Array, dtype: np.dtype[Any]) -> Array:
    limits = np.iinfo(dtype)
    high = limits.max if values.dtype.kind in "iu" else min(limits.max, _F32_BELOW_2_31)
    return np.clip(values, limits.min, high).astype(dtype)


def mask_of(axis: int | None) -> int:
    """The mask of an attribute."""
    return 0 if axis is None else 1 << axis


PLAIN = PeerArithmetic()


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
        """Return the offsets that the indices begin..end along `axis` add."""
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


Bytes = npt.NDArray[np.uint8]

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

    With a `group_size`, a shuffle of an axis between equal formats and types.
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
    axis: int = 1

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
        """Return the error in the `result` of a run on poison; "" if elements and padding are right."""
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
        """Return the results for the rows of `values` from `begin` on, over poison (N1 to N3)."""
        made, rows = self.arithmetic, slice(begin, begin + len(values))
        scales = np.float32(1) if made.scale is None else _rows(made.scales(self.dims), rows)
        dst_scales = _rows(made.dst_scales(self.dims), rows)
        old = np.full(self.dst_dtype.itemsize, _POISON, np.uint8).view(self.dst_dtype)
        return made.apply(values, old, self.dst_dtype, np.asarray(scales), dst_scales)

    def shuffled(self, values: Array) -> Array:
        """`values`, with the channels shuffled where there is a group size."""
        if self.group_size is None:
            return values
        axis, sizes = self.axis, (values.shape[self.axis] // self.group_size, self.group_size)
        split = values.reshape(*values.shape[:axis], *sizes, *values.shape[axis + 1 :])
        return split.swapaxes(axis, axis + 1).reshape(values.shape)

    def boxes(self) -> list[GridBox]:
        """The elements as strided boxes. Raises ValueError where the blocks of the formats do not nest."""
        axes = [pieces(s, d, n) for s, d, n in zip(self.src.digits, self.dst.digits, self.dims, strict=True)]
        if self.group_size is not None:
            size, (digit, *blocks) = self.group_size, self.src.digits[self.axis]
            if blocks:
                raise ValueError("groups cut blocks: channels lie on no grid")
            step, rows = digit.stride, self.dims[self.axis] // size
            axes[self.axis] = [GridBox((size, rows), (step, size * step), 0, (rows * step, step), 0)]
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
