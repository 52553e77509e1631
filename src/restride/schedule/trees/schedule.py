"""Scheduler for loop trees: the order of the digits of their axes, and those along which vectors run.

1. Axes become digits (`loops.py`).
2. Vectors run along one digit: of an outer loop, where each lane has its own output, or of each innermost
   loop, where lanes are folded at its end. The choice with the fewest loads of single elements wins.
3. Digits follow the order of the memory that they traverse, the one of the vectors last.

All of it depends only on the tree, and so do the order of sums and their bits. `transforms.py` expresses the
choices as a list of transforms, and builds the same loops from one.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import inf, prod

from ...ir.accesses import Access, accesses_of, has_long_function, items_of
from ...ir.expression import Apply, Coordinate, Expr, Load, Ref, is_costly
from ...ir.numbers import Number
from ...ir.tree import Each, Item, Let, LoopTree, Store, parts_in
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
from .plan import EachPlan, RepeatedStride, TreeDigit, TreeSchedule, grid_of

# The least vector of elements in memory, in bits, for short rows: several rows make one vector.
_REGISTER_BITS = 256
# The bits of a vector of several results that are folded together.
_JOINED_BITS = 1 << 12


@lru_cache(maxsize=256)
def schedule_tree(tree: LoopTree, *, with_vectors: bool = True, register: int = 64) -> TreeSchedule:
    """Schedule a nonempty tree with one outermost loop; `register`: bytes of a vector register."""
    loops = TreeLoops(with_axes_for_padding(tree))
    plan = _Scheduler(loops, register, with_vectors=with_vectors).plan()
    return loops.scheduled(plan, tuple(grid_of(plan)))


class _Scheduler:
    """Chooses the schedule of the loops of one tree."""

    def __init__(self, loops: TreeLoops, register: int, *, with_vectors: bool) -> None:
        self.register, self.with_vectors = register, with_vectors
        self.loops, self.tree = loops, loops.tree
        # The order of sums must not depend on the width of registers.
        self.is_free = not _folds_reals(self.tree.items[0], self.tree.number)

    def plan(self) -> EachPlan:
        """Return the plan of the outermost loop: vectors along one of its digits, or those of inner loops."""
        plan = self._with_vectors(self._plain(self.tree.items[0], {}, self.tree.number))[1]
        return plan if self.with_vectors else _without_vectors(plan)

    def _plain(self, each: Each, outer: dict[str, int], number: Number) -> EachPlan:
        """Return a loop without vectors."""
        number = each.number or number
        extents = outer | {axis.name: axis.extent for axis in each.axes}
        inner = tuple(self._plain(item, extents, number) for item in each.items if isinstance(item, Each))
        digits, limits = self.loops.all_digits(each, extents)
        order = tuple(digits) if each.in_order else self.loops.ordered(digits)
        order = self.loops.fused(order, frozenset(name for name, _ in limits))
        is_window = bool(each.folds) and not inner and each.positions <= LIMITS.window
        is_unrolled = is_window and not has_long_function((each,))
        return EachPlan(each, order, limits, 1, inner, is_unrolled, guarded_axes(each), number)

    def _with_vectors(self, plan: EachPlan) -> tuple[float, EachPlan]:
        """Return the cost of a loop with the best vectors, for one outer iteration, and the plan."""
        inner = [self._with_vectors(each) for each in plan.inner]
        own = sum(1.0 for item in plan.each.items for _ in accesses_of(item))
        positions = prod(axis.extent for axis in plan.each.axes)
        below = (
            positions * (own + sum(cost for cost, _ in inner)),
            replace(plan, inner=tuple(each for _, each in inner)),
        )
        digits = () if plan.each.in_order else plan.digits
        here = [self._along(plan, digit) for digit in digits if takes_vectors(digit)]
        here += [self._joined(plan, digit) for digit in digits if can_join(plan, digit)]
        return min([*here, below], key=lambda found: found[0])

    def _along(self, plan: EachPlan, digit: TreeDigit) -> tuple[float, EachPlan]:
        """Return the cost of vectors along a digit, and the plan."""
        lanes = self._lanes(plan, {name for name, _ in digit.steps})
        used = min(digit.extent, lanes)
        cost = self._cost(plan.each, digit, used, 1)
        if plan.each.folds:
            cost += FOLD_COST * len(plan.each.folds)
        order = [*(each for each in plan.digits if each != digit), digit]
        # Digits with repeated elements need vectors, and indices that no tensor provides.
        is_short = self.with_vectors and digit.extent < lanes and self._has_short_rows(plan, digit.extent)
        accesses = (access for item in plan.each.items for access in accesses_of(item))
        if is_short and not any(map(self.loops.computed.get, accesses)):
            bounded = frozenset(name for name, _ in plan.limits)
            order[-2:] = self.loops.fused(tuple(order[-2:]), bounded, plan.each)
        return cost, replace(plan, digits=tuple(order), lanes=lanes)

    def _has_short_rows(self, plan: EachPlan, extent: int) -> bool:
        """Return whether rows of this many elements, less than a register of bytes, are stored."""
        stores = [item for item in plan.each.items if isinstance(item, Store)]
        bits = [self.loops.tensors[store.tensor].data_type.bits for store in stores]
        is_short = _is_power(extent) and max(bits, default=0) * extent < _REGISTER_BITS
        return is_short and len(stores) == len(plan.each.items)

    def _is_small_float(self, item: Item) -> bool:
        if not isinstance(item, Store):
            return False
        data_type = self.loops.tensors[item.tensor].data_type
        return data_type.kind == "float" and data_type.bits <= 8

    def _joined(self, plan: EachPlan, digit: TreeDigit) -> tuple[float, EachPlan]:
        """Return the cost of vectors along a digit and, inside it, along everything folded, and the plan."""
        (inner,) = plan.inner
        folded, loads = inner.digits[0].extent, sum(1 for item in inner.each.items for _ in accesses_of(item))
        lanes = min(_JOINED_BITS // inner.number.bits // folded, 1 << digit.extent.bit_length() - 1)
        order = *(each for each in plan.digits if each != digit), digit
        made = replace(plan, digits=order, lanes=lanes, inner=(replace(inner, lanes=folded),))
        cost = (loads + FOLD_COST * len(inner.each.folds)) * plan.each.positions / max(lanes, 1)
        return cost if lanes > 1 else inf, made

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
        # Every second element takes two loads of adjacent ones.
        return 2.0 / lanes if stride == 2 and self.loops.widths[access[0]] <= 32 and not is_store else 1.0

    def _is_computed(self, access: Access, names: set[str]) -> bool:
        index = access[1]
        return any(not names.isdisjoint(index[dim].axes) for dim in self.loops.computed[access])

    def _lanes(self, plan: EachPlan, names: set[str]) -> int:
        """Return the most lanes for vectors along a digit of these axes."""
        each, number = plan.each, plan.number
        items = list(items_of((each,)))
        most = COSTLY_LANES if number is Number.f64 or any(map(_is_costly, parts_in(items))) else LANES
        if number.is_integer:
            # As many bytes for the states of all folds together.
            folds = [sum(len(fold.names) for fold in item.folds) for item in items if isinstance(item, Each)]
            most = max(LANES * 32 // number.bits >> max(*folds, 1) - 1, 1)
        if self.is_free and any(map(self._is_small_float, items)):
            # A register of codes takes many operations.
            most = min(most, self.register)
        loops = [item for item in items if isinstance(item, Each)]
        inside = [item for item in loops if item is not each]
        if any(name in names for item in inside for guard in item.guards for name, _ in guard.index.terms):
            return MASKED_LANES
        rows = sum(prod(tensor.sizes) for item in loops for tensor in item.locals) if inside else 0
        while rows * most * number.bits // 8 > ROW_BYTES and most > MASKED_LANES:
            most //= 2
        return most


def _folds_reals(each: Each, number: Number) -> bool:
    """Return whether floats are folded in a loop, or in inner ones."""
    number = each.number or number
    inside = (item for item in each.items if isinstance(item, Each))
    own = bool(each.folds) and not number.is_integer
    return own or any(_folds_reals(item, number) for item in inside)


def can_join(plan: EachPlan, digit: TreeDigit) -> bool:
    """Return whether adjacent positions of a digit continue an inner loop's fold, all of it one vector.

    Only for integers, whose folds do not depend on the order. Whole trees are split by lanes (`lanes.py`).
    """
    if (
        len(plan.inner) != 1
        or plan.each.number is None
        or plan.each.in_order
        or digit.bound
        or not takes_vectors(digit)
    ):
        return False
    (inner,) = plan.inner
    each, names = inner.each, {name for name, _ in digit.steps}
    is_guarded = any(name in names for guard in plan.each.guards for name, _ in guard.index.terms)
    has_more = (
        each.guards or each.locals or inner.limits or any(isinstance(i, Each | Store) for i in each.items)
    )
    if is_guarded or has_more or not (each.folds and inner.number.is_integer and len(inner.digits) == 1):
        return False
    (folded,) = inner.digits
    lets = {item.name for item in each.items if isinstance(item, Let)}
    parts = list(parts_in(each.items))
    outside = (isinstance(p, Coordinate) or (isinstance(p, Ref) and p.name not in lets) for p in parts)
    loads = [(part.tensor, part.index) for part in parts if isinstance(part, Load)]
    goes_on = (folded.stride(at) == 1 and digit.stride(at) == folded.extent for at in loads)
    return takes_vectors(folded) and _is_power(folded.extent) and not any(outside) and all(goes_on)


def _without_vectors(plan: EachPlan) -> EachPlan:
    """Return the same loops one element at a time."""
    return replace(plan, lanes=1, inner=tuple(map(_without_vectors, plan.inner)))


def takes_vectors(digit: TreeDigit) -> bool:
    """Return whether a digit consists of strides, and is the innermost if its axis has limits."""
    is_linear = all(isinstance(stride, int | RepeatedStride) for _, stride in digit.strides)
    return digit.extent > 1 and is_linear and (not digit.bound or digit.steps[0][1] == 1)


def _is_power(number: int) -> bool:
    return number & number - 1 == 0


def _is_costly(part: Expr) -> bool:
    return isinstance(part, Apply) and is_costly(part.op)
