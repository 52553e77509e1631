"""The cost of a walk: bank conflicts between lanes, and the cache lines and sectors that they touch.

A walk is a layout, whose indices are processed `lanes` at a time, or an array of offsets of (requests,
lanes). Each index is one read of `vector` elements of `itemsize` bytes, starting at its offset: a tile of 64
columns read with `vector=8` is a walk of 8 columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int, short_repr
from ..desc.viewer import viewer
from ..errors import raises_at_the_call, refuse
from ..frozen import dataclass
from .functions import MOST_OFFSETS, LayoutFunction
from .layout import as_layout

_MOST = 4096

Walk = LayoutFunction | NDArray[Any] | str


@dataclass(frozen=True, slots=True)
class Accesses:
    """The cost of each request of a walk, and the minimum cost for its bytes.

    `units` are the bank, line or sector of each lane's first byte, by request. In a notebook it is shown as a
    picture of these.
    """

    unit: str
    counts: tuple[int, ...]
    least: tuple[int, ...]
    units: tuple[tuple[int, ...], ...]

    @property
    def total(self) -> int:
        """The cost of all requests: passes over the banks, or lines or sectors that are transferred."""
        return sum(self.counts)

    @property
    def worst(self) -> int:
        """The cost of the worst request."""
        return max(self.counts)

    @property
    def efficiency(self) -> float:
        """The minimum cost as a share of the cost: 1 at best."""
        return sum(self.least) / self.total

    def __repr__(self) -> str:
        words = f"requests {len(self.counts)} total {self.total} least {sum(self.least)} worst {self.worst}"
        return f"<Accesses {self.unit} {words} efficiency {self.efficiency:.0%}>"

    @raises_at_the_call
    def svg(self) -> str:
        """Return a picture: requests down, lanes across; a cell's color and number is the lane's unit."""
        return viewer().accesses_svg(self)

    def _repr_svg_(self) -> str:
        return self.svg()


@raises_at_the_call
def bank_conflicts(
    walk: Walk, itemsize: int = 4, *, vector: int = 1, lanes: int = 32, banks: int = 32, width: int = 4
) -> Accesses:
    """Return passes over shared memory of `banks` banks of `width` bytes for each request of a warp.

    Lanes that read the same word share it; different words in a bank take one pass each. A request for more
    bytes than the banks are wide is split, as on GPUs: with 16 bytes a lane, 8 lanes at a time, so that 32
    lanes take 4 passes without a conflict. Raises InvalidArguments for vectors that are not aligned to their
    size.
    """
    nbytes = _nbytes(itemsize, vector)
    row = _positive(banks, "banks") * _positive(width, "width")
    starts = _aligned(_starts(walk, itemsize, _positive(lanes, "lanes")), itemsize, nbytes)
    part = max(1, row // nbytes)
    counts, least = [], []
    for request in starts:
        words = [_touched(request[i : i + part], nbytes, width) for i in range(0, len(request), part)]
        counts.append(sum(int(np.bincount(each % banks).max()) for each in words))
        least.append(sum(-(-len(each) // banks) for each in words))
    return _accesses("bank", counts, least, starts // width % banks)


@raises_at_the_call
def cache_lines(
    walk: Walk, itemsize: int = 4, *, vector: int = 1, lanes: int = 16, line: int = 64
) -> Accesses:
    """Return the cache lines that each request touches: by default vectors of 16 lanes, lines of 64 bytes."""
    return _moved("line", walk, itemsize, vector, lanes, line)


@raises_at_the_call
def coalescing(
    walk: Walk, itemsize: int = 4, *, vector: int = 1, lanes: int = 32, sector: int = 32
) -> Accesses:
    """Return the sectors of global memory that each request of a warp transfers; vectors must be aligned."""
    return _moved("sector", walk, itemsize, vector, lanes, sector)


def _moved(unit: str, walk: Walk, itemsize: int, vector: int, lanes: int, size: int) -> Accesses:
    nbytes = _nbytes(itemsize, vector)
    size = _positive(size, unit)
    starts = _starts(walk, itemsize, _positive(lanes, "lanes"))
    if unit == "sector":
        _aligned(starts, itemsize, nbytes)
    counts = [len(_touched(request, nbytes, size)) for request in starts]
    gaps = np.diff(np.sort(starts), append=2**62)
    least = (-(-np.minimum(gaps, nbytes).sum(axis=1) // size)).tolist()
    return _accesses(unit, counts, least, starts // size)


def _accesses(unit: str, counts: list[int], least: list[int], units: NDArray[np.int64]) -> Accesses:
    return Accesses(unit, tuple(counts), tuple(least), tuple(map(tuple, units.tolist())))


def _positive(value: object, name: str) -> int:
    number = parse_int(value, name)
    if not 1 <= number <= _MOST:
        raise refuse("RS-A18:access", name=name, n=short_repr(number), most=_MOST)
    return number


def _nbytes(itemsize: int, vector: int) -> int:
    """Return the number of bytes that a lane reads."""
    return _positive(_positive(itemsize, "itemsize") * _positive(vector, "vector"), "itemsize * vector")


def _starts(walk: Walk, itemsize: int, lanes: int) -> NDArray[np.int64]:
    """Return the first byte of each lane, by request; the lowest offset of a walk is at least 0."""
    if isinstance(walk, MemoryDesc):
        raise refuse("RS-A18:walk-desc", walk=short_repr(walk))
    if isinstance(walk, np.ndarray):
        if walk.dtype.kind not in "iu":
            raise refuse("RS-A18:walk", walk=f"an array of {walk.dtype}", most=MOST_OFFSETS // 16)
        offsets = walk.reshape(-1).astype(np.int64)
    else:
        offsets = (walk if isinstance(walk, LayoutFunction) else as_layout(walk)).offsets()
    if not 0 < len(offsets) <= MOST_OFFSETS // 16 or offsets.min() < 0 or offsets.max() >= 2**46:
        raise refuse("RS-A18:walk", walk=short_repr(walk), most=MOST_OFFSETS // 16)
    lanes = min(lanes, len(offsets))
    if len(offsets) % lanes:
        raise refuse("RS-A18:lanes", count=len(offsets), lanes=lanes)
    return (offsets * itemsize).reshape(-1, lanes)


def _aligned(starts: NDArray[np.int64], itemsize: int, nbytes: int) -> NDArray[np.int64]:
    """The starts, each a multiple of the largest power of two in `nbytes`, as GPUs read vectors."""
    step = nbytes & -nbytes
    if nbytes > itemsize and (starts % step).any():
        at = int(starts[starts % step != 0][0])
        raise refuse("RS-A18:unaligned", at=at, nbytes=nbytes, step=step, vector=nbytes // itemsize)
    return starts


def _touched(starts: NDArray[np.int64], nbytes: int, size: int) -> NDArray[np.int64]:
    """Return the units of `size` bytes that accesses of `nbytes` bytes touch, each once."""
    first, last = starts // size, (starts + nbytes - 1) // size
    steps = np.arange(int((last - first).max()) + 1)
    units = first[:, None] + steps
    return np.unique(units[units <= last[:, None]])
