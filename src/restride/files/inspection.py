"""Statistics of the numbers in stored tensors, and differences between tensors, read block by block.

Quantized tensors are read as the real numbers that they represent, as in a conversion. Memory is bounded by
the size of a block, or of a Zarr chunk, whatever the size of a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import starmap
from math import inf, isfinite, lcm, prod
from typing import NamedTuple

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import Error
from ..runtime.alloc import Array
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from .conversion.reals import RealPlace, as_read, place_of
from .conversion.rules import ConversionRule
from .conversion.sources import SourceFile
from .conversion.tiles import Ints, TileGrid, box_units, compact, plan_tiles
from .conversion.value_errors import as_f64
from .places import TensorPlace
from .stored_tensors import StoredTensor
from .zarr.arrays import ZarrFolder

_CPU = Engine("cpu")
_BLOCK = 4 << 20
# With a scale, ggml blocks are read as real numbers too; otherwise they would become floats directly.
_AS_NUMBERS = (ConversionRule("*", data_type=DataType.f32, scale=1.0),)


class ReadTensor(NamedTuple):
    """A tensor of a file, and the place from which its boxes are read."""

    tensor: StoredTensor
    place: TensorPlace

    @property
    def desc(self) -> MemoryDesc:
        """The descriptor for reading it: elements, bits of the same width, or bytes; 1-D without axes."""
        array = self.tensor.array
        if array.moved_as is None and array.kind.carrier is not None:
            return MemoryDesc((prod(array.shape),), array.kind.carrier)
        return array.whole_desc

    @property
    def dims(self) -> Ints:
        """Its logical dims."""
        array = self.tensor.array
        return array.shape if array.desc is None else array.desc.dims

    @property
    def has_numbers(self) -> bool:
        """True if restride or NumPy knows the values; otherwise there are only bytes."""
        kind = self.tensor.array.kind
        return kind.data_type is not None or kind.numpy is not None

    def content(self, start: Ints, size: Ints) -> Array:
        """Return the bytes of a box, gathered."""
        content = np.empty(compact(self.desc, size).size, np.uint8)
        if content.size:
            self.place.read(self.desc, start, size, content)
        return content

    def values(self, start: Ints, size: Ints) -> Array:
        """Return the numbers of a box, in logical order, or bytes if it has none. Floats have 64 bits."""
        memory = Memory(compact(self.desc, size), _CPU, self.content(start, size))
        kind = self.tensor.array.kind
        if memory.desc.data_type.bits < 8:
            return as_f64(memory)
        values = memory.to_numpy()
        if kind.data_type is None and kind.numpy is not None:
            values = values.view(kind.numpy)
        if values.dtype.kind in "iu":
            return values
        return values.astype({"b": np.uint8, "c": np.complex128}.get(values.dtype.kind, np.float64))


def read_tensors(file: SourceFile | ZarrFolder) -> list[ReadTensor]:
    """Return the tensors of a file, quantized ones as real numbers, without their scales.

    Tensors that cannot be read this way, such as GPTQ layers without their configuration, are returned as
    stored.
    """
    try:
        tensors = [tensor for tensor, _ in as_read(file, _AS_NUMBERS)]
    except Error:
        tensors = list(file.tensors)
    return [ReadTensor(tensor, place_of(file, tensor)) for tensor in tensors]


def _grid(tensors: Sequence[ReadTensor]) -> TileGrid:
    """Return the boxes in which tensors of the same dims are read together."""
    units = tuple(
        starmap(
            lcm, zip(*(one.tensor.units or box_units(one.tensor, one.desc) for one in tensors), strict=True)
        )
    )
    return plan_tiles([one.desc for one in tensors], _BLOCK, units)


# --- statistics ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Statistics:
    """Facts about a tensor's numbers; `minimum`, `maximum` and `mean` are of the finite ones, or None."""

    count: int = 0
    zeros: int = 0
    nans: int = 0
    infinities: int = 0
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None

    def add(self, values: Array) -> None:
        """Include more numbers."""
        if values.dtype.kind == "f":
            is_finite = np.isfinite(values)
            if not is_finite.all():
                self.nans += int(np.isnan(values).sum())
                self.infinities += int(np.isinf(values).sum())
                self.count += int(values.size - is_finite.sum())
                values = values[is_finite]
        if not values.size:
            return
        before = self.count - self.nans - self.infinities
        low, high, total = values.min().item(), values.max().item(), float(values.sum(dtype=np.float64))
        self.minimum = low if self.minimum is None else min(self.minimum, low)
        self.maximum = high if self.maximum is None else max(self.maximum, high)
        self.mean = ((self.mean or 0.0) * before + total) / (before + values.size)
        self.zeros += int(values.size - np.count_nonzero(values))
        self.count += values.size


@np.errstate(all="ignore")
def statistics(tensor: ReadTensor) -> Statistics | None:
    """Return the statistics of a tensor; None if it has no numbers, or complex ones.

    Raises InvalidArguments for non-finite scales and for a truncated file.
    """
    kind = tensor.tensor.array.kind
    if not tensor.has_numbers or (kind.numpy is not None and kind.numpy.kind == "c"):
        return None
    found = Statistics()
    if tensor.desc.nelems:
        for start, size in _grid([tensor]):
            found.add(tensor.values(start, size))
    if found.mean is not None and not isfinite(found.mean):
        found.mean = None  # its sum is beyond the range of 64 bits
    return found


# --- differences --------------------------------------------------------------------------------------------


@dataclass(slots=True)
class ValueDifference:
    """The difference of two tensors of the same dims.

    differing  the number of elements that differ; NaN equals NaN
    largest    the largest difference; infinite where only one of two elements is finite
    relative   the same as a share of the largest magnitude in the first tensor
    first      the first index in row-major order at which they differ
    are_bytes  bytes are counted, as restride cannot read the numbers
    """

    count: int = 0
    differing: int = 0
    largest: float = 0.0
    relative: float = 0.0
    first: Ints | None = None
    are_bytes: bool = False


@np.errstate(all="ignore")
def difference(one: ReadTensor, other: ReadTensor) -> ValueDifference:
    """Return the difference of two tensors that `are_comparable`. Raises as `statistics` does."""
    found = ValueDifference(one.desc.nelems, are_bytes=not one.has_numbers)
    if not found.count or _are_same_bytes(one, other):
        return found
    magnitude = 0.0
    for start, size in _grid([one, other]):
        a, b = one.values(start, size), other.values(start, size)
        magnitude = max(magnitude, float(np.abs(a).max(initial=0, where=np.isfinite(a))))
        is_off = (a != b) & ~(np.isnan(a) & np.isnan(b))
        if not is_off.any():
            continue
        off = np.abs(np.subtract(a, b, dtype=np.result_type(a, np.float64))[is_off])
        found.differing += off.size
        found.largest = max(found.largest, float(np.where(np.isnan(off), inf, off).max()))
        index = np.unravel_index(int(np.argmax(is_off)), size)
        at = tuple(int(i) + first for i, first in zip(index, start, strict=True))
        found.first = at if found.first is None else min(found.first, at)
    found.relative = found.largest / magnitude if magnitude else (inf if found.largest else 0.0)
    if found.first is not None and one.tensor.array.moved_as is None and not found.are_bytes:
        found.first = tuple(map(int, np.unravel_index(found.first[0], one.dims)))
    return found


def are_comparable(one: ReadTensor, other: ReadTensor) -> bool:
    """Return True for two tensors of the same dims that both have numbers, or are bytes of the same kind."""
    first, second = one.tensor.array, other.tensor.array
    have_numbers = one.has_numbers and other.has_numbers
    return one.dims == other.dims and (
        have_numbers or (first.kind, first.nbytes) == (second.kind, second.nbytes)
    )


def _are_same_bytes(one: ReadTensor, other: ReadTensor) -> bool:
    """Return True if two tensors are stored alike, and have the same bytes."""
    pairs = list(zip(_parts(one), _parts(other), strict=False))
    alike = [[_form(each) for each in _parts(side)] for side in (one, other)]
    if alike[0] != alike[1] or one.tensor.zero_shift != other.tensor.zero_shift:
        return False
    return all(
        np.array_equal(a.content(start, size), b.content(start, size))
        for a, b in pairs
        if a.desc.nelems
        for start, size in _grid([a, b])
    )


def _parts(one: ReadTensor) -> list[ReadTensor]:
    places = one.place.places if isinstance(one.place, RealPlace) else {}
    return [ReadTensor(one.tensor.parts[name], place) for name, place in places.items()] or [one]


def _form(one: ReadTensor) -> object:
    array = one.tensor.array
    return array.kind, array.shape, array.desc, array.scaling and (array.scaling.axis, array.scaling.groups)
