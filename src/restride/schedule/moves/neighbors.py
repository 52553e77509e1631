"""The variants of a move that a search tries: tiles, loops, steps, prefetch distance, and kind of stores.

The box that moves the most is varied. No schedule of a move changes any bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from ...ir.nest import LoopNest
from ...ir.staged_nest import StagedNest
from ..language import Schedule as Transforms
from ..machine import Machine
from ..search import Neighbors
from .loop_order import order_loops
from .schedule import Schedule
from .transforms import WHOLE, apply, transforms_of
from .whole_nest import whole_neighbors

_DISTANCES = (0, 64, 128, 256, 512, 4096)


def neighbors(
    nest: LoopNest, boxes: Sequence[LoopNest], chain: StagedNest | None, machine: Machine
) -> list[Neighbors]:
    """Return the variations of the schedules of a nest and its boxes, the most effective first.

    `chain`: the nest in stages, if there is such a form.
    """

    def varied_by(vary: Callable[[Schedule, Machine], Iterator[Schedule]]) -> Neighbors:
        def near(transforms: Transforms) -> Iterator[Transforms]:
            if transforms and transforms[0].name in WHOLE:
                return  # boxes within blocks and stages keep their schedules
            plans = apply(boxes, transforms, machine)
            main = max(range(len(plans)), key=lambda i: (not plans[i].nest.is_zero, plans[i].nest.positions))
            for plan in vary(plans[main], machine):
                yield transforms_of(boxes, [*plans[:main], plan, *plans[main + 1 :]])

        return near

    whole = [whole_neighbors(nest, boxes, chain, machine)] if nest.moved_bytes >= machine.l2 else []
    return [*(varied_by(vary) for vary in (_tiles, _orders, _steps, _distances, _stores)), *whole]


def _tiles(plan: Schedule, machine: Machine) -> Iterator[Schedule]:
    """Yield tiles with each side half and twice as long, with loops that suit them."""
    for axis, chunk in enumerate(plan.chunks):
        for other in (chunk // 2, chunk * 2) if chunk > 1 else ():
            chunks = (*plan.chunks[:axis], other, *plan.chunks[axis + 1 :])
            order = order_loops(plan.nest, chunks, machine)
            yield replace(plan, chunks=chunks, grid=order.grid, inner=order.inner)


def _orders(plan: Schedule, _: Machine) -> Iterator[Schedule]:
    """Yield exchanges of adjacent loops within a step, and of steps."""
    for at in range(len(plan.inner) - 1):
        first, second = plan.inner[at : at + 2]
        yield replace(plan, inner=(*plan.inner[:at], second, first, *plan.inner[at + 2 :]))
    for at in range(len(plan.grid) - 1):
        outer, inner = plan.grid[at : at + 2]
        yield replace(plan, grid=(*plan.grid[:at], inner, outer, *plan.grid[at + 2 :]))


def _steps(plan: Schedule, _: Machine) -> Iterator[Schedule]:
    """Yield longer and shorter steps of each loop that is cut."""
    for at, grid in enumerate(plan.grid):
        for tiles in (grid.tiles // 2, grid.tiles * 2) if grid.axis in plan.inner else ():
            if 1 <= tiles < plan.tiles(grid.axis):
                yield replace(plan, grid=(*plan.grid[:at], replace(grid, tiles=tiles), *plan.grid[at + 1 :]))


def _distances(plan: Schedule, _: Machine) -> Iterator[Schedule]:
    """Yield shorter and longer prefetch distances, and none."""
    for nbytes in _DISTANCES:
        yield replace(plan, prefetch=nbytes)


def _stores(plan: Schedule, _: Machine) -> Iterator[Schedule]:
    """Yield stores through the caches, or past them."""
    yield replace(plan, streams=not plan.streams)
