"""Tiles of a tensor that is moved between two layouts: boxes whose bytes are in long runs on both sides.

A box starts on whole blocks of both layouts, so that on each side it is a box of the physical array too. The
length of its runs determines how often a side is accessed: boxes are split where that costs least.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import lcm, prod
from typing import NamedTuple

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...desc.parse import parse_int, short_repr
from ...desc.text_forms import order_tag
from ...errors import refuse
from ...runtime.alloc import Array
from ..stored_tensors import StoredArray, StoredTensor, is_dense, is_row_major

Ints = tuple[int, ...]

_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_UNITS |= {f"{unit}i": 1024**power for power, unit in enumerate(("k", "m", "g", "t"), 1)}


# Tiles that stay in the caches between reading and writing, if runs are at least this long.
_LEAST_BYTES = 4 << 20
_LONG_RUN = 256 << 10
_GROWTH = 4
_COMPARED = 1 << 20


def parse_memory(memory: object, what: str) -> int:
    """Parse a number of bytes, or a text such as "512MiB"; errors name it `what`."""
    if not isinstance(memory, str):
        return parse_int(memory, what)
    match = re.fullmatch(r"\s*(\d{1,15})\s*([kmgt]i?)?b?\s*", memory.lower(), re.ASCII)
    if match:
        return int(match[1]) * _UNITS[match[2] or ""]
    raise refuse("RS-V08:whole-number-bytes", what=what, memory=short_repr(memory))


@dataclass(frozen=True, slots=True)
class TileGrid:
    """Boxes of `box` elements that cover `dims`, truncated at the ends; numbered row-major."""

    dims: Ints
    box: Ints

    @property
    def counts(self) -> Ints:
        """Number of boxes along each axis."""
        return tuple(-(-n // b) for n, b in zip(self.dims, self.box, strict=True))

    def __len__(self) -> int:
        return prod(self.counts)

    def start(self, number: int) -> Ints:
        """Return the first index of a box."""
        starts: list[int] = []
        for count, b in zip(reversed(self.counts), reversed(self.box), strict=True):
            number, digit = divmod(number, count)
            starts.append(digit * b)
        return tuple(reversed(starts))

    def size(self, start: Ints) -> Ints:
        """Return the extents of the box that starts there."""
        return tuple(min(b, n - at) for b, n, at in zip(self.box, self.dims, start, strict=True))

    def __getitem__(self, number: int) -> tuple[Ints, Ints]:
        """Return the first index and the extents of a box."""
        start = self.start(number)
        return start, self.size(start)

    def __iter__(self) -> Iterator[tuple[Ints, Ints]]:
        return map(self.__getitem__, range(len(self)))

    @classmethod
    def of_one(cls, dims: Ints) -> TileGrid:
        """Return a single box that covers everything."""
        return cls(dims, tuple(max(n, 1) for n in dims))


class Runs(NamedTuple):
    """The bytes of a box in a physical array: `nbytes` from each of `starts` on."""

    starts: Array
    nbytes: int


def compact(desc: MemoryDesc, size: Ints) -> MemoryDesc:
    """Return the descriptor of a gathered box of a tensor: the same order and blocks, without gaps."""
    return desc if size == desc.dims else MemoryDesc(size, desc.data_type, order_tag(desc.layout))


def runs_of(desc: MemoryDesc, start: Ints, size: Ints) -> Runs:
    """Return the runs of a box of a dense tensor, in the order of the gathered box."""
    layout = desc.layout
    if size == desc.dims:
        return Runs(np.zeros(1, np.int64), desc.size)
    order, blocks, whole = layout.outer_order, layout.blocks, layout.outer_extents
    extents = [-(-size[d] // blocks[d]) for d in order]
    cut = max(i for i, d in enumerate(order) if extents[i] != whole[d])
    places = np.zeros(1, np.int64)
    for i, d in enumerate(order):
        first = start[d] // blocks[d] * layout.strides[d]
        steps = np.arange(extents[i] if i < cut else 1, dtype=np.int64) * layout.strides[d]
        places = (places[:, None] + (first + steps)[None, :]).reshape(-1)
    length = extents[cut] * layout.strides[order[cut]]
    return Runs(places * desc.data_type.bits // 8, length * desc.data_type.bits // 8)


def run_bytes(desc: MemoryDesc, size: Ints) -> int:
    """Return the length of the runs of a box of this size."""
    layout = desc.layout
    run = prod(layout.inner_blks)
    for d in reversed(layout.outer_order):
        blocks = -(-size[d] // layout.blocks[d])
        run *= blocks
        if blocks != layout.outer_extents[d]:
            break
    return run * desc.data_type.bits // 8


def plan_tiles(
    descs: Sequence[MemoryDesc], most_bytes: int, aligned: Ints = (), least_bytes: int | None = None
) -> TileGrid:
    """Return boxes of tensors of the same dims in several layouts, with at most about `most_bytes` in total.

    `aligned`: box extents are multiples of these. A tensor that cannot be split is one box, whatever its
    size: the caller checks that.
    """
    dims = descs[0].dims
    units = least_box(descs, aligned or (1,) * len(dims))
    if units is None or 0 in dims:
        return TileGrid.of_one(dims)
    budget = min(_LEAST_BYTES if least_bytes is None else least_bytes, most_bytes)
    while True:
        box = _cut(descs, units, budget)
        runs = min(run_bytes(desc, box) for desc in descs)
        if runs >= _LONG_RUN or box == dims or budget >= most_bytes:
            return TileGrid(dims, box)
        budget = min(budget * _GROWTH, most_bytes)


def pieces_of(descs: Sequence[MemoryDesc], size: Ints, units: Ints = ()) -> TileGrid:
    """Return the pieces in which a box is compared: floats take many times its bytes."""
    return plan_tiles([compact(desc, size) for desc in descs], _COMPARED, units)


def box_bytes(descs: Sequence[MemoryDesc], box: Ints) -> int:
    """Return the size of a gathered box in all the layouts together."""
    blocks = [[-(-n // b) * b for n, b in zip(box, desc.layout.blocks, strict=True)] for desc in descs]
    return sum(desc.data_type.nbytes(prod(extents)) for desc, extents in zip(descs, blocks, strict=True))


def least_box(descs: Sequence[MemoryDesc], aligned: Ints) -> Ints | None:
    """Return the smallest box along each axis; None if the tensor cannot be split."""
    if not all(is_dense(desc) for desc in descs):
        return None
    units = list(aligned)
    for desc in descs:
        layout = desc.layout
        units = [lcm(unit, blk) for unit, blk in zip(units, layout.blocks, strict=True)]
        if desc.data_type.bits < 8 and prod(layout.inner_blks) % 2:
            # Elements that share a byte stay together.
            inner = layout.outer_order[-1]
            if layout.outer_extents[inner] % 2:
                return None
            units[inner] = lcm(units[inner], 2 * layout.blocks[inner])
    return tuple(units)


def _cut(descs: Sequence[MemoryDesc], units: Ints, budget: int) -> Ints:
    """Return a box of at most `budget` bytes, if possible, by halving whatever shortens runs least."""
    dims = descs[0].dims
    counts = [-(-n // unit) for n, unit in zip(dims, units, strict=True)]

    def box_of(numbers: Iterable[int]) -> Ints:
        return tuple(min(k * unit, n) for k, unit, n in zip(numbers, units, dims, strict=True))

    while box_bytes(descs, box_of(counts)) > budget:
        choices = [
            (*counts[:d], -(-count // 2), *counts[d + 1 :]) for d, count in enumerate(counts) if count > 1
        ]
        if not choices:
            break
        counts = list(max(choices, key=lambda choice: sorted(run_bytes(d, box_of(choice)) for d in descs)))
    return box_of(counts)


def physical_box(
    desc: MemoryDesc, shape: Ints, start: Ints, size: Ints
) -> tuple[tuple[int, int], ...] | None:
    """Return the first and last positions, along each axis of an array of `shape`, of a box of its tensor.

    None if the array is not the tensor's physical one, or has no axes: then it is read as a whole.
    """
    if not shape:
        return None
    if shape == desc.dims and is_row_major(desc):
        return tuple((at, at + n) for at, n in zip(start, size, strict=True))
    if shape != desc.physical_shape:
        return None
    layout = desc.layout
    blocks = layout.blocks
    outer = [(start[d] // blocks[d], -(-(start[d] + size[d]) // blocks[d])) for d in layout.outer_order]
    return (*outer, *((0, n) for n in layout.inner_blks))


def is_cut_in_boxes(array: StoredArray, desc: MemoryDesc) -> bool:
    """Return True if boxes of the tensor are boxes of its array."""
    return physical_box(desc, array.shape, (0,) * desc.ndims, desc.dims) is not None


def box_shape(array: StoredArray, desc: MemoryDesc, size: Ints) -> Ints:
    """Return the extents of the part of an array that contains a box of `size` from the start."""
    box = physical_box(desc, array.shape, (0,) * desc.ndims, size)
    return array.shape if box is None else tuple(last for _, last in box)


def box_units(tensor: StoredTensor, desc: MemoryDesc) -> Ints:
    """Return multiples for box extents that keep each of the tensor's chunks in one box."""
    layout, chunks = desc.layout, tensor.chunks
    if is_row_major(desc) and len(chunks) == desc.ndims:
        return tuple(max(n, 1) for n in chunks)
    units = [1] * desc.ndims
    if tensor.array.shape == desc.physical_shape:
        for d, n in zip(layout.outer_order, chunks, strict=False):
            units[d] = max(n, 1) * layout.blocks[d]
    return tuple(units)
