"""The variants of a loop tree that a search tries: vectors, unrolling, separate edges, order, steps, memory.

For loops that fold floats, neither digits nor vectors are varied: they determine the order of the sums, and
so their bits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ...errors import InvalidArguments
from ...ir.tree import LoopTree
from ..language import Schedule, Transform
from ..search import Neighbors
from .plan import EachPlan, TreeSchedule, plans_of
from .schedule import schedule_tree
from .transforms import apply


def neighbors(tree: LoopTree) -> list[Neighbors]:
    """Return the variations of the schedule of a tree with one outermost loop, the most effective first."""

    def written_out(schedule: Schedule) -> Iterator[Schedule]:
        """Yield each window as a loop, or unrolled; and the edges of loops separately, or with the rest."""
        for number, plan in enumerate(plans_of(apply(tree, schedule).plan)):
            if plan.each.folds and not plan.inner:
                yield _toggled(schedule, Transform("unroll", (), number))
            if plan.interior:
                yield _without(schedule, "interior", number)

    def reordered(schedule: Schedule) -> Iterator[Schedule]:
        """Yield exchanges of adjacent digits of a loop."""
        for at, transform in enumerate(schedule):
            digits = transform.args if transform.name == "reorder" else ()
            for place in range(len(digits) - 1):
                first, second = digits[place : place + 2]
                other = replace(transform, args=(*digits[:place], second, first, *digits[place + 2 :]))
                yield (*schedule[:at], other, *schedule[at + 1 :])

    return [_in_other_vectors, written_out, _in_other_steps, reordered, _otherwise_stored]


def fits(tree: LoopTree, schedule: Schedule) -> bool:
    """Return whether transforms fit a tree, and change no bits."""
    try:
        made = apply(tree, schedule)
    except InvalidArguments:
        return False
    return _orders_of_sums(made) == _orders_of_sums(schedule_tree(tree))


def _orders_of_sums(schedule: TreeSchedule) -> list[tuple[object, ...]]:
    """Return what the bits of float folds depend on: the digits and the vectors of their loops."""
    if schedule.tree.number.is_integer:
        return []
    return [_order_of(plan) for plan in plans_of(schedule.plan) if plan.each.folds]


def _order_of(plan: EachPlan) -> tuple[object, ...]:
    return (plan.lanes, *((digit.name, digit.extent) for digit in plan.digits))


def _in_other_vectors(schedule: Schedule) -> Iterator[Schedule]:
    """Yield vectors half and twice as long."""
    for at, transform in enumerate(schedule):
        for lanes in _halved_and_doubled(transform) if transform.name == "vectorize" else ():
            yield (*schedule[:at], lanes, *schedule[at + 1 :])


def _in_other_steps(schedule: Schedule) -> Iterator[Schedule]:
    """Yield shorter and longer steps for threads to share, and one digit less."""
    shared = [at for at, transform in enumerate(schedule) if transform.name == "parallel"]
    for at in shared:
        for steps in _halved_and_doubled(schedule[at]):
            yield (*schedule[:at], steps, *schedule[at + 1 :])
    for at in shared[-1:]:
        yield (*schedule[:at], *schedule[at + 1 :])


def _halved_and_doubled(transform: Transform) -> Iterator[Transform]:
    digit, count = transform.args
    assert isinstance(count, int)
    for other in (count // 2, count * 2):
        yield replace(transform, args=(digit, other))


def _otherwise_stored(schedule: Schedule) -> Iterator[Schedule]:
    """Yield prefetch or none, and stores through the caches or past them."""
    for name in ("prefetch", "stream"):
        yield _toggled(schedule, Transform(name))


def _toggled(schedule: Schedule, transform: Transform) -> Schedule:
    if transform in schedule:
        return _without(schedule, transform.name, transform.loop)
    return (*schedule, transform)


def _without(schedule: Schedule, name: str, loop: int) -> Schedule:
    return tuple(each for each in schedule if (each.name, each.loop) != (name, loop))
