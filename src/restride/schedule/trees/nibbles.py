"""Recognizes schedules of loop trees that access 4-bit tensors in whole bytes: their vectors begin at the
first half of a byte, have an even number of adjacent elements, and are never masked.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...ir.accesses import Access, accesses_of
from ...ir.expression import Affine
from ...ir.tree import Each
from .plan import EachPlan, TreeSchedule


def has_whole_bytes(schedule: TreeSchedule) -> bool:
    """Return whether no byte of a 4-bit tensor is split."""
    places = ((access, plans) for access, plans in _accesses(schedule.plan, ()))
    return all(
        _is_whole(schedule, access, plans)
        for access, plans in places
        if schedule.tensors[access[0]].data_type.bits < 8
    )


def _accesses(plan: EachPlan, around: tuple[EachPlan, ...]) -> Iterator[tuple[Access, tuple[EachPlan, ...]]]:
    """Yield the accesses in a loop, and the loops around each."""
    plans = (*around, plan)
    for item in plan.each.items:
        if not isinstance(item, Each):
            yield from ((access, plans) for access in accesses_of(item))
    for inner in plan.inner:
        yield from _accesses(inner, plans)


def _is_whole(schedule: TreeSchedule, access: Access, plans: tuple[EachPlan, ...]) -> bool:
    tensor = schedule.tensors[access[0]]
    vectors = [plan for plan in plans if plan.lanes > 1]
    if schedule.computed[access] or tensor.padded != tensor.sizes or len(vectors) != 1:
        return False
    (along,) = vectors
    digit = along.digits[-1]
    names = {name for name, _ in digit.steps}
    masks = {name for plan in plans for guard in plan.each.guards for name, _ in guard.index.terms}
    if digit.bound or digit.stride(access) != 1 or digit.extent % 2 or names & masks:
        return False
    places = zip(access[1], tensor.digits, strict=True)
    offsets = [at.constant * digits[0].stride for at, digits in places if isinstance(at, Affine)]
    strides = [each.stride(access) for plan in plans for each in plan.digits if each is not digit]
    return all(isinstance(move, int) and move % 2 == 0 for move in (tensor.base, *offsets, *strides))
