"""A nest in stages: what the stages of so many positions are. `schedule/moves/staged.py` chooses how many."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from .nest import Axis, LoopNest


@dataclass(frozen=True, slots=True)
class StridedRun:
    """`extent` elements or runs of them, `stride` elements apart."""

    extent: int
    stride: int


FlushWay = Literal["runs", "lines", "stores"]
"""Runs go past the caches, wherever they begin and end; or as whole lines do; or through the caches."""


@dataclass(frozen=True, slots=True)
class Flush:
    """How a chunk in scratch goes to the destination: loops over runs of `length` elements (src: scratch).

    `ahead` is where the next chunk's source lies, innermost first: it is asked for meanwhile, so that reading
    and writing overlap. `streams`: it goes past the caches.
    """

    loops: tuple[Axis, ...]
    length: int
    ahead: tuple[StridedRun, ...]
    way: FlushWay = "runs"


def runs_of(axes: Iterable[StridedRun]) -> tuple[StridedRun, ...]:
    """Axes as runs, innermost first: those that follow each other without a gap are one."""
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
    """A nest in stages: `nests(positions, through_scratch)` for so many positions of `along`, within `outer`.

    The first nest reads the source, the last writes the destination, or scratch where it goes
    `through_scratch`; between them is plain scratch, of which a position takes `row` elements. `run` is what
    a position adds to a run of the destination; or all of its runs are `whole_run`. Where scratch holds
    planes, positions side by side, each begins at a multiple of `plane` elements.
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
        """Elements that the plain scratch of so many positions takes."""
        return self.row * (-(-positions // self.plane) * self.plane if self.plane else positions)
