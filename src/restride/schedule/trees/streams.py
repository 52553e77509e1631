"""Stores of a loop tree that can bypass the caches: those that fill whole lines of an aligned tensor.

Either a single vector does, or several at one position: both pixels of `nChw8c` that a position doubles, or
every second element of one store and those between them of another. Vectors that are part of a line do if
they are consecutive: one pixel of `nChw8c` after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

from ...ir.accesses import Access
from ...ir.expression import Load
from ...ir.tree import TreeTensor
from ..machine import LINE, SHORTEST_VECTOR
from .plan import EachPlan, TreeDigit, TreeSchedule, plans_of

# A tensor is small if it is this many times smaller than the largest one.
_SMALL = 8
# The strides of adjacent elements, and of every second one.
_NEAR = (1, 2)


def has_streams(schedule: TreeSchedule) -> bool:
    """Return whether some stores can bypass the caches."""
    return bool(streamed_tensors(schedule))


def streamed_tensors(schedule: TreeSchedule) -> set[str]:
    """Return the tensors that these write: they must begin at cache lines."""
    lanes = {each for plan in plans_of(schedule.plan) for each in (plan.widest, plan.longest)}
    return {access[0] for lane in lanes for access in streamed(schedule, lane)}


def streamed(schedule: TreeSchedule, lanes: int) -> frozenset[Access]:
    """Return the stores that can, for vectors of `lanes`. Those of every second element count as one."""
    groups: dict[object, list[Access]] = {}
    for store in schedule.tree.stores:
        terms = tuple(at if isinstance(at, Load) else at.terms for at in store.index)
        groups.setdefault((store.tensor, terms), []).append((store.tensor, store.index))
    sizes = {name: _bytes_of(schedule.tree.tensor(name)) for name in schedule.tree.written}
    # Tensors that are small next to another one are not worth it.
    large = {name for name, size in sizes.items() if size * _SMALL >= max(sizes.values())}
    groups = {key: group for key, group in groups.items() if group[0][0] in large}
    fill = (group for group in groups.values() if _Lines(schedule, group, lanes).are_filled)
    return frozenset(access for group in fill for access in group)


class _Lines:
    """The lines written by stores that differ only by constants."""

    def __init__(self, schedule: TreeSchedule, group: Sequence[Access], lanes: int) -> None:
        self.schedule, self.group, self.lanes = schedule, group, lanes
        self.access = group[0]
        self.tensor = schedule.tensors[self.access[0]]

    @property
    def are_filled(self) -> bool:
        """True if whole lines are written, and not read again."""
        schedule, bits = self.schedule, self.tensor.data_type.bits
        if self.tensor.name in schedule.read_again or any(map(self._is_computed, self.group)):
            return False
        return any(self._fill(plan, near, LINE * 8 // bits) for plan, near in self._vectors())

    def _is_computed(self, access: Access) -> bool:
        return bool(self.schedule.computed[access]) or _offset(self.tensor, access) is None

    def _vectors(self) -> Iterator[tuple[EachPlan, int]]:
        """Yield the loops whose vectors cover adjacent elements, or every second one."""
        for plan in plans_of(self.schedule.plan):
            if plan.lanes > 1 and plan.digits and plan.digits[-1].stride(self.access) in _NEAR:
                stride = plan.digits[-1].stride(self.access)
                yield plan, stride if isinstance(stride, int) else 0

    def _fill(self, plan: EachPlan, near: int, line: int) -> bool:
        """Return whether vectors of this loop fill lines of `line` elements."""
        digit, lanes = plan.digits[-1], self.lanes
        offsets = sorted({_offset(self.tensor, access) or 0 for access in self.group})
        places = {offset + near * lane for offset in offsets for lane in range(lanes)}
        along = None
        if len({place // line for place in places}) * line != len(places):
            along = self._around(plan, line) if len(offsets) == 1 and near == 1 else None
            if along is None:
                return False
        whole = min(near * lanes, line)
        if any(offset % whole for offset in offsets[::near]):
            return False
        digits = (each for every in plans_of(self.schedule.plan) for each in every.digits)
        steps = [each.stride(self.access) for each in digits if each not in (digit, along)]
        steps += [self.tensor.base, near * lanes if digit.extent > lanes and digit is not along else 0]
        return all(isinstance(step, int) and step % line == 0 for step in steps)

    def _around(self, plan: EachPlan, line: int) -> TreeDigit | None:
        """Return the digit along which vectors are consecutive, in whole lines: theirs, or the outer one."""
        own = plan.digits[-1]
        is_long = self.lanes * self.tensor.data_type.bits >= 8 * SHORTEST_VECTOR
        if is_long and own.extent > self.lanes and own.extent % line == 0:
            return own
        if len(plan.digits) < 2 or own.extent != self.lanes:
            return None
        around = plan.digits[-2]
        follow = around.stride(self.access) == self.lanes and around.extent * self.lanes % line == 0
        return around if is_long and follow else None


def _bytes_of(tensor: TreeTensor) -> int:
    return tensor.data_type.nbytes(prod(tensor.padded))


def _offset(tensor: TreeTensor, access: Access) -> int | None:
    """Return the offset of the constants of an index, in elements; None if it is not the same everywhere."""
    found = 0
    for at, digits in zip(access[1], tensor.digits, strict=True):
        if isinstance(at, Load) or (at.constant and len(digits) != 1):
            return None
        found += at.constant * digits[0].stride if at.constant else 0
    return found
