"""A small search: schedules like the chosen one, tried in turns, and the fastest of them.

One thing at a time is varied, and what is fastest goes on: tiles, the order of loops, the size of steps, how
far ahead to ask, and whether stores go past the caches. None of it changes a bit of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ...errors import InvalidArguments
from ...ir.nest import LoopNest
from ..language import Transform
from ..machine import Machine
from .loop_order import order_loops
from .schedule import Schedule
from .transforms import apply, transforms_of

MOST_TRIES = 30
# A schedule that gains less is none that is faster: samples differ by more.
_LEAST_GAIN = 0.97
_DISTANCES = (0, 64, 128, 256, 512, 4096)

# What seems faster in the end is timed so often beside the one that was chosen, in turns.
_TURNS = 3

SecondsOf = Callable[[tuple[Transform, ...]], float]
"""How long an execution takes by these transforms."""


def fastest(
    boxes: Sequence[LoopNest],
    plans: Sequence[Schedule],
    machine: Machine,
    seconds_of: SecondsOf,
    is_over: Callable[[], bool],
) -> tuple[Transform, ...]:
    """The transforms of the fastest of at most `MOST_TRIES` schedules: of these, or like them. The box that
    moves the most is varied, until all has been tried, or `is_over`.
    """
    main = max(range(len(plans)), key=lambda i: (not plans[i].nest.is_zero, plans[i].nest.positions))
    chosen = transforms_of(boxes, plans)
    best, found, least = plans[main], chosen, seconds_of(chosen)
    tried = {chosen}
    for vary in (_tiles, _orders, _steps, _distances, _stores):
        for plan in vary(best, machine):
            transforms = transforms_of(boxes, [*plans[:main], plan, *plans[main + 1 :]])
            if transforms in tried or not _fits(boxes, transforms, machine):
                continue
            if len(tried) == MOST_TRIES or is_over():
                return _confirmed(chosen, found, seconds_of)
            tried.add(transforms)
            seconds = seconds_of(transforms)
            if seconds < least * _LEAST_GAIN:
                best, found, least = plan, transforms, seconds
    return _confirmed(chosen, found, seconds_of)


def _fits(boxes: Sequence[LoopNest], transforms: tuple[Transform, ...], machine: Machine) -> bool:
    try:
        apply(boxes, transforms, machine)
    except InvalidArguments:
        return False
    return True


def _confirmed(
    chosen: tuple[Transform, ...], found: tuple[Transform, ...], seconds_of: SecondsOf
) -> tuple[Transform, ...]:
    """What was found, unless the chosen one is as fast when both are timed in turn."""
    if found == chosen:
        return chosen
    turns = [(seconds_of(chosen), seconds_of(found)) for _ in range(_TURNS)]
    before, after = (min(times) for times in zip(*turns, strict=True))
    return found if after < before * _LEAST_GAIN else chosen


def _tiles(plan: Schedule, machine: Machine) -> Iterator[Schedule]:
    """Each side of the tile half and twice as long, and the loops that suit it."""
    for axis, chunk in enumerate(plan.chunks):
        for other in (chunk // 2, chunk * 2) if chunk > 1 else ():
            chunks = (*plan.chunks[:axis], other, *plan.chunks[axis + 1 :])
            order = order_loops(plan.nest, chunks, machine)
            yield replace(plan, chunks=chunks, grid=order.grid, inner=order.inner)


def _orders(plan: Schedule, _: Machine) -> Iterator[Schedule]:
    """Neighbouring loops within a step the other way round; and steps."""
    for at in range(len(plan.inner) - 1):
        first, second = plan.inner[at : at + 2]
        yield replace(plan, inner=(*plan.inner[:at], second, first, *plan.inner[at + 2 :]))
    for at in range(len(plan.grid) - 1):
        outer, inner = plan.grid[at : at + 2]
        yield replace(plan, grid=(*plan.grid[:at], inner, outer, *plan.grid[at + 2 :]))


def _steps(plan: Schedule, _: Machine) -> Iterator[Schedule]:
    """Longer and shorter steps of each loop that is cut."""
    for at, grid in enumerate(plan.grid):
        for tiles in (grid.tiles // 2, grid.tiles * 2) if grid.axis in plan.inner else ():
            if 1 <= tiles < plan.tiles(grid.axis):
                yield replace(plan, grid=(*plan.grid[:at], replace(grid, tiles=tiles), *plan.grid[at + 1 :]))


def _distances(plan: Schedule, _: Machine) -> Iterator[Schedule]:
    """Asking nearer, further, and not at all."""
    for nbytes in _DISTANCES:
        yield replace(plan, prefetch=nbytes)


def _stores(plan: Schedule, _: Machine) -> Iterator[Schedule]:
    """Stores through the caches, or past them."""
    yield replace(plan, streams=not plan.streams)
