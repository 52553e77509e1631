"""Loop trees -> schedules: in what order the digits of their axes run, and along which of them vectors go.

1. Axes become digits (`loops.py`).
2. Vectors go along one digit: of an outer loop, where each lane has its own output, or of each innermost
   loop, where lanes are folded at its end. That with the fewest loads of single elements wins.
3. Digits stand in the order of the memory that they move through, the one of the vectors last.

All of it depends on the tree alone: so does the order of sums, and with it their bits. `transforms.py` says
what was chosen as a list of transforms, and makes the same loops of one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod

from ...ir.accesses import Access, accesses_of, has_long_function, items_of
from ...ir.expression import Apply, Expr, is_costly, parts_of
from ...ir.tree import Each, LoopTree, Store, values_of
from ..fold_order import (
    COMPUTED_COST,
    COSTLY_LANES,
    FOLD_COST,
    LANES,
    MASK_COST,
    MASKED_LANES,
    ROW_BYTES,
)
from ..machine import LIMITS
from .interior import guarded_axes
from .loops import TreeLoops
from .padding import with_axes_for_padding
from .plan import EachPlan, TreeDigit, TreeSchedule, grid_of


@lru_cache(maxsize=256)
def schedule_tree(tree: LoopTree, *, with_vectors: bool = True) -> TreeSchedule:
    """Schedule a tree of one outermost loop that is not empty."""
    loops = TreeLoops(with_axes_for_padding(tree))
    plan = _Scheduler(loops).plan(with_vectors=with_vectors)
    return loops.scheduled(plan, tuple(grid_of(plan)))


class _Scheduler:
    """Chooses how the loops of one tree run."""

    def __init__(self, loops: TreeLoops) -> None:
        self.loops, self.tree = loops, loops.tree

    def plan(self, *, with_vectors: bool) -> EachPlan:
        """The plan of the outermost loop: vectors along one of its digits, or along those of loops inside."""
        plan = self._with_vectors(self._plain(self.tree.items[0], {}))[1]
        return plan if with_vectors else _without_vectors(plan)

    def _plain(self, each: Each, outer: dict[str, int]) -> EachPlan:
        """A loop without vectors."""
        extents = outer | {axis.name: axis.extent for axis in each.axes}
        inner = tuple(self._plain(item, extents) for item in each.items if isinstance(item, Each))
        digits, limits = self.loops.all_digits(each, extents)
        order = tuple(digits) if each.in_order else self.loops.ordered(digits)
        order = self.loops.fused(order, frozenset(name for name, _ in limits))
        is_window = bool(each.folds) and not inner and each.positions <= LIMITS.window
        is_unrolled = is_window and not has_long_function((each,))
        return EachPlan(each, order, limits, 1, inner, is_unrolled, guarded_axes(each))

    def _with_vectors(self, plan: EachPlan) -> tuple[float, EachPlan]:
        """What a loop costs with the best vectors, for one turn of the loops around it, and the plan."""
        inner = [self._with_vectors(each) for each in plan.inner]
        own = sum(1.0 for item in plan.each.items for _ in accesses_of(item))
        positions = prod(axis.extent for axis in plan.each.axes)
        below = (
            positions * (own + sum(cost for cost, _ in inner)),
            replace(plan, inner=tuple(each for _, each in inner)),
        )
        digits = () if plan.each.in_order else plan.digits
        here = [self._along(plan, digit) for digit in digits if takes_vectors(digit)]
        return min([*here, below], key=lambda found: found[0])

    def _along(self, plan: EachPlan, digit: TreeDigit) -> tuple[float, EachPlan]:
        """The cost of vectors along a digit, and the plan."""
        lanes = self._lanes(plan.each, {name for name, _ in digit.steps})
        used = min(digit.extent, lanes)
        cost = self._cost(plan.each, digit, used, 1)
        if plan.each.folds:
            cost += FOLD_COST * len(plan.each.folds)
        order = [*(each for each in plan.digits if each != digit), digit]
        return cost, replace(plan, digits=tuple(order), lanes=lanes)

    def _cost(self, each: Each, digit: TreeDigit, lanes: int, around: int) -> float:
        positions = around * each.positions
        names = {name for name, _ in digit.steps}
        is_masked = any(name in names for guard in each.guards for name, _ in guard.index.terms)
        weight = MASK_COST if is_masked else 1.0
        cost = 0.0
        for item in each.items:
            if isinstance(item, Each):
                cost += self._cost(item, digit, lanes, positions)
                continue
            for access in accesses_of(item):
                is_store = isinstance(item, Store) and access == (item.tensor, item.index)
                one = self._access_cost(access, digit, names, lanes, is_store=is_store)
                cost += positions * weight * one
        return cost

    def _access_cost(
        self, access: Access, digit: TreeDigit, names: set[str], lanes: int, *, is_store: bool
    ) -> float:
        if self._is_computed(access, names):
            return COMPUTED_COST
        stride = digit.stride(access)
        if stride in (0, 1):
            return 1.0 / lanes
        # Of every second element two loads of neighbours.
        return 2.0 / lanes if stride == 2 and self.loops.widths[access[0]] <= 32 and not is_store else 1.0

    def _is_computed(self, access: Access, names: set[str]) -> bool:
        index = access[1]
        return any(not names.isdisjoint(index[dim].axes) for dim in self.loops.computed[access])

    def _lanes(self, each: Each, names: set[str]) -> int:
        """The number of lanes vectors along a digit of these axes have at most."""
        items = list(items_of((each,)))
        parts = (part for item in items for value in values_of(item) for part in parts_of(value))
        most = COSTLY_LANES if self.tree.wide or any(map(_is_costly, parts)) else LANES
        if self.tree.number.is_integer:
            # As many bytes for the states of all folds together.
            folds = [sum(len(fold.names) for fold in item.folds) for item in items if isinstance(item, Each)]
            most = max(LANES * 32 // self.tree.number.bits >> max(*folds, 1) - 1, 1)
        loops = [item for item in items if isinstance(item, Each)]
        inside = [item for item in loops if item is not each]
        if any(name in names for item in inside for guard in item.guards for name, _ in guard.index.terms):
            return MASKED_LANES
        rows = sum(prod(tensor.sizes) for item in loops for tensor in item.locals) if inside else 0
        bits = self.tree.number.bits
        while rows * most * bits // 8 > ROW_BYTES and most > MASKED_LANES:
            most //= 2
        return most


def _without_vectors(plan: EachPlan) -> EachPlan:
    """The same loops one element at a time."""
    return replace(plan, lanes=1, inner=tuple(map(_without_vectors, plan.inner)))


def takes_vectors(digit: TreeDigit) -> bool:
    """True for a digit of strides; of an axis with limits for the innermost."""
    is_linear = all(isinstance(stride, int) for _, stride in digit.strides)
    return digit.extent > 1 and is_linear and (not digit.bound or digit.steps[0][1] == 1)


def _is_costly(part: Expr) -> bool:
    return isinstance(part, Apply) and is_costly(part.op)
