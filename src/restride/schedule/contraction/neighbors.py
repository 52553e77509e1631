"""The variants of a contraction that a search tries: tiles, loops around them, unrolling, prefetch.

No list of transforms of a contraction changes any bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...errors import InvalidArguments
from ..language import Schedule, Transform
from ..machine import Machine
from ..search import Neighbors
from .schedule import ContractionPlan, draft_of, unrolled_turns
from .strides import Contraction
from .transforms import apply, transforms_of

# The number of tile shapes, fastest first by the model, that are tried.
_MOST_SHAPES = 12


def neighbors(contraction: Contraction, machine: Machine) -> list[Neighbors]:
    """Return the variations of a plan, the most effective first."""
    draft = draft_of(contraction, machine)
    assert draft is not None, "there are no vectors"

    def made(wanted: Schedule) -> Iterator[Schedule]:
        """Complete a list of transforms that leaves some out; yields none if it does not fit."""
        try:
            yield transforms_of(apply(contraction, machine, wanted))
        except InvalidArguments:
            return

    def tiles(schedule: Schedule) -> Iterator[Schedule]:
        """Yield other shapes of tiles; everything else follows from these."""
        (tile,) = (each for each in schedule if each.name == "tile")
        order = tuple(each for each in schedule if each.name == "reorder")
        for shape in draft.shapes[:_MOST_SHAPES]:
            yield from made((replace(tile, args=(tile.args[0], *shape)), *order))

    def orders(schedule: Schedule) -> Iterator[Schedule]:
        """Yield exchanges of adjacent loops around tiles."""
        (tile,) = (each for each in schedule if each.name == "tile")
        for order in (each for each in schedule if each.name == "reorder"):
            for at in range(len(order.args) - 1):
                first, second = order.args[at : at + 2]
                args = (*order.args[:at], second, first, *order.args[at + 2 :])
                yield from made((tile, replace(order, args=args)))

    def turns(schedule: Schedule) -> Iterator[Schedule]:
        """Yield more and less unrolling of the innermost summed loop."""
        plan: ContractionPlan = apply(contraction, machine, schedule)
        # The number of prefetched lines follows from the unrolling: omitted transforms are chosen.
        others = tuple(each for each in schedule if each.name not in ("unroll", "prefetch"))
        for transform in (each for each in schedule if each.name == "unroll"):
            for count in unrolled_turns(plan, draft.cost.operations * draft.cost.parts):
                yield from made((*others, replace(transform, args=(transform.args[0], count))))

    def blocks(schedule: Schedule) -> Iterator[Schedule]:
        """Yield strips and split sums of half and twice the size, or of everything."""
        plan: ContractionPlan = apply(contraction, machine, schedule)
        for name, count, most in (
            ("strip", plan.strip, plan.tiling.count),
            ("split", plan.split, plan.split_turns),
        ):
            others = tuple(each for each in schedule if each.name not in (name, "prefetch"))
            for transform in (each for each in schedule if each.name == name):
                for other in (count // 2, count * 2, most):
                    yield from made((*others, replace(transform, args=(transform.args[0], other))))

    def asked(schedule: Schedule) -> Iterator[Schedule]:
        """Yield no prefetch, or the chosen one."""
        others = tuple(each for each in schedule if each.name != "prefetch")
        yield from made((*others, Transform("prefetch", (0,))))
        yield from made(others)

    return [tiles, turns, blocks, orders, asked]


def fits(contraction: Contraction, machine: Machine, schedule: Schedule) -> bool:
    """Return whether transforms fit a contraction."""
    try:
        apply(contraction, machine, schedule)
    except InvalidArguments:
        return False
    return True
