"""Tiles of a tensor that is moved between two layouts: boxes whose bytes lie in long runs on both sides.

A box starts on whole blocks of both layouts, so that each side of it is a box of the physical array too. How
long its runs are says how often a side is visited: boxes are cut where that hurts least.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import lcm, prod
from typing import NamedTuple

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...desc.text_forms import order_tag
from ...runtime.alloc import Array
from ..stored_tensors import is_dense

Ints = tuple[int, ...]

# Tiles that stay in the caches between reading and writing, where runs are as long as this or longer.
_LEAST_BYTES = 4 << 20
_LONG_RUN = 256 << 10
_GROWTH = 4
_COMPARED = 1 << 20


@dataclass(frozen=True, slots=True)
class TileGrid:
    """Boxes of `box` elements that cover `dims`, those at the ends cut off; numbered row-major."""

    dims: Ints
    box: Ints

    @property
    def counts(self) -> Ints:
        """Boxes along each axis."""
        return tuple(-(-n // b) for n, b in zip(self.dims, self.box, strict=True))

    def __len__(self) -> int:
        return prod(self.counts)

    def start(self, number: int) -> Ints:
        """The first index of a box."""
        starts: list[int] = []
        for count, b in zip(reversed(self.counts), reversed(self.box), strict=True):
            number, digit = divmod(number, count)
            starts.append(digit * b)
        return tuple(reversed(starts))

    def size(self, start: Ints) -> Ints:
        """The extents of the box that starts there."""
        return tuple(min(b, n - at) for b, n, at in zip(self.box, self.dims, start, strict=True))


class Runs(NamedTuple):
    """Where a box lies in the bytes of a physical array: `nbytes` bytes from each of `starts` on."""

    starts: Array
    nbytes: int


def compact(desc: MemoryDesc, size: Ints) -> MemoryDesc:
    """The descriptor of a box of a tensor, gathered: the same order and blocks, without gaps."""
    return desc if size == desc.dims else MemoryDesc(size, desc.data_type, order_tag(desc.layout))


def runs_of(desc: MemoryDesc, start: Ints, size: Ints) -> Runs:
    """The runs of a box of a dense tensor, in the order in which the gathered box has them."""
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
    """How long the runs of a box of this size are."""
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
    """Boxes of tensors of the same dims in several layouts, which take at most about `most_bytes` together.

    `aligned`: multiples that a box keeps along each axis. A tensor that cannot be cut is one box, whatever
    its size: the caller looks.
    """
    dims = descs[0].dims
    units = _units(descs, aligned or (1,) * len(dims))
    if units is None or 0 in dims:
        return TileGrid(dims, tuple(max(n, 1) for n in dims))
    budget = min(_LEAST_BYTES if least_bytes is None else least_bytes, most_bytes)
    while True:
        box = _cut(descs, units, budget)
        runs = min(run_bytes(desc, box) for desc in descs)
        if runs >= _LONG_RUN or box == dims or budget >= most_bytes:
            return TileGrid(dims, box)
        budget = min(budget * _GROWTH, most_bytes)


def pieces_of(descs: Sequence[MemoryDesc], size: Ints, units: Ints = ()) -> Iterator[tuple[Ints, Ints]]:
    """Starts and extents of the pieces in which a box is compared: floats take many times its bytes."""
    grid = plan_tiles([compact(desc, size) for desc in descs], _COMPARED, units)
    for number in range(len(grid)):
        start = grid.start(number)
        yield start, grid.size(start)


def box_bytes(descs: Sequence[MemoryDesc], box: Ints) -> int:
    """The bytes of a box in all the layouts."""
    return sum(_gathered_bytes(desc, box) for desc in descs)


def _gathered_bytes(desc: MemoryDesc, box: Ints) -> int:
    blocks = desc.layout.blocks
    return desc.data_type.nbytes(prod(-(-n // b) * b for n, b in zip(box, blocks, strict=True)))


def _units(descs: Sequence[MemoryDesc], aligned: Ints) -> Ints | None:
    """The least box along each axis; None where the tensor cannot be cut."""
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
    """The box of at most `budget` bytes, where there is one, found by halving what shortens runs least."""
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
