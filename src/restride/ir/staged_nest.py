"""A nest in stages, as a function of the number of positions, which `schedule/moves/staged.py` chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from .nest import Axis, LoopNest


@dataclass(frozen=True, slots=True)
class StridedRun:
    """`extent` elements or runs of elements, `stride` elements apart."""

    extent: int
    stride: int


FlushWay = Literal["runs", "lines", "stores"]
"""Runs bypass the caches, wherever they begin and end; or as whole lines; or go through the caches."""


@dataclass(frozen=True, slots=True)
class Flush:
    """The move of a chunk from scratch to the destination: loops over runs of `length` (src: scratch).

    `ahead` is where the next chunk's source is, innermost first: it is prefetched meanwhile, so that reading
    and writing overlap. `streams`: it bypasses the caches.
    """

    loops: tuple[Axis, ...]
    length: int
    ahead: tuple[StridedRun, ...]
    way: FlushWay = "runs"


def runs_of(axes: Iterable[StridedRun]) -> tuple[StridedRun, ...]:
    """Return axes as runs, innermost first, with contiguous ones merged."""
    runs: list[StridedRun] = []
    for axis in sorted(axes, key=lambda axis: abs(axis.stride)):
        last = runs[-1] if runs else StridedRun(1, axis.stride)
        if axis.stride == last.extent * last.stride:
            runs[-1:] = [StridedRun(last.extent * axis.extent, last.stride)]
        else:
            runs.append(axis)
    return tuple(runs)


@dataclass(frozen=True, slots=True)
class StagedNest:
    """A nest in stages: `nests(positions, through_scratch)` for positions of `along`, within `outer`.

    The first nest reads the source, the last writes the destination, or scratch if it goes
    `through_scratch`; between them is plain scratch, of which a position takes `row` elements. `run` is what
    a position adds to a run of the destination; or all of its runs are `whole_run`. If scratch contains
    planes (adjacent positions), each begins at a multiple of `plane` elements.
    """

    nest: LoopNest
    outer: tuple[Axis, ...]
    along: Axis
    row: int
    run: int
    nests: Callable[[int, bool], tuple[LoopNest, ...]]
    flush: Callable[[int], Flush]
    why: str
    plane: int = 0
    whole_run: int = 0

    def scratch(self, positions: int) -> int:
        """Return the elements of plain scratch needed for the positions."""
        return self.row * (-(-positions // self.plane) * self.plane if self.plane else positions)
