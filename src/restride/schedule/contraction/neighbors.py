"""What a search varies of a contraction: tiles, the loops around them, turns written out, what is asked for.

No list of transforms of a contraction changes a bit.
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

# Shapes of tiles that the model finds the fastest, which are tried.
_MOST_SHAPES = 12


def neighbors(contraction: Contraction, machine: Machine) -> list[Neighbors]:
    """What there is to vary of a plan, that which counts most first."""
    draft = draft_of(contraction, machine)
    assert draft is not None, "there are no vectors"

    def made(wanted: Schedule) -> Iterator[Schedule]:
        """In full the transforms of a list that leaves some out; none where it does not fit."""
        try:
            yield transforms_of(apply(contraction, machine, wanted))
        except InvalidArguments:
            return

    def tiles(schedule: Schedule) -> Iterator[Schedule]:
        """Other shapes of tiles; what else there is follows from these."""
        (tile,) = (each for each in schedule if each.name == "tile")
        order = tuple(each for each in schedule if each.name == "reorder")
        for shape in draft.shapes[:_MOST_SHAPES]:
            yield from made((replace(tile, args=(tile.args[0], *shape)), *order))

    def orders(schedule: Schedule) -> Iterator[Schedule]:
        """Neighbouring loops around tiles the other way round."""
        (tile,) = (each for each in schedule if each.name == "tile")
        for order in (each for each in schedule if each.name == "reorder"):
            for at in range(len(order.args) - 1):
                first, second = order.args[at : at + 2]
                args = (*order.args[:at], second, first, *order.args[at + 2 :])
                yield from made((tile, replace(order, args=args)))

    def turns(schedule: Schedule) -> Iterator[Schedule]:
        """More and fewer turns of the innermost summed loop written out."""
        plan: ContractionPlan = apply(contraction, machine, schedule)
        # How many lines are asked for follows from the turns: what the list leaves out is chosen.
        others = tuple(each for each in schedule if each.name not in ("unroll", "prefetch"))
        for transform in (each for each in schedule if each.name == "unroll"):
            for count in unrolled_turns(plan, draft.cost.operations * draft.cost.parts):
                yield from made((*others, replace(transform, args=(transform.args[0], count))))

    def blocks(schedule: Schedule) -> Iterator[Schedule]:
        """Strips and split sums of half and of twice the size, or of all."""
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
        """Nothing asked for ahead, or what is chosen."""
        others = tuple(each for each in schedule if each.name != "prefetch")
        yield from made((*others, Transform("prefetch", (0,))))
        yield from made(others)

    return [tiles, turns, blocks, orders, asked]


def fits(contraction: Contraction, machine: Machine, schedule: Schedule) -> bool:
    """True where transforms fit a contraction."""
    try:
        apply(contraction, machine, schedule)
    except InvalidArguments:
        return False
    return True
