"""Loop trees -> schedules: the digits of every axis, their order, and along which of them vectors go.

1. An axis becomes digits, the coarsest that are strides in all tensors (`digits_of`): a channel of `nChw16c`
   is one of so many blocks, and one of 16 places.
2. An index of several axes, `g * 4 + k`, has digits too where blocks nest with it. What is left, a window
   over a blocked dim, is computed as it runs.
3. Vectors go along one digit: of an outer loop, where each lane has its own output, or of each innermost
   loop, where lanes are folded at its end. That with the fewest loads of single elements wins.
4. Digits stand in the order of the memory that they move through, the one of the vectors last.

All of it depends on the tree alone: so does the order of sums, and with it their bits.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import prod

from ...ir.accesses import Access, accesses_of, coordinates_of, items_of
from ...ir.digits import IndexDigit, IndexDigits, digits_of, stride_at
from ...ir.expression import Affine, Apply, Expr, Index, Load, TreeAxis, is_costly, parts_of
from ...ir.tree import Each, LoopTree, Store, TreeTensor, values_of
from .padding import with_axes_for_padding
from .plan import AxisLimits, EachPlan, TreeDigit, TreeSchedule, axis_digits, fused_digits

# Lanes of a vector: several registers, so that operations overlap. Fewer where each value takes many
# operations, under masks, and where each lane has a row of its own, so that these stay in the caches.
_LANES = 64
_COSTLY_LANES = 32
_MASKED_LANES = 16
_ROW_BYTES = 1 << 15
# What it costs to fold the lanes of one vector, in loads of single elements.
_FOLD_COST = 6.0
# Elements under masks that are only known as it runs, and elements whose offset is computed.
_MASK_COST = 1.5
_COMPUTED_COST = 4.0


@lru_cache(maxsize=256)
def schedule_tree(tree: LoopTree, *, with_vectors: bool = True) -> TreeSchedule:
    """Schedule a tree of one outermost loop that is not empty."""
    tree = with_axes_for_padding(tree)
    scheduler = _Scheduler(tree)
    plan = scheduler.plan(tree.items[0], with_vectors=with_vectors)
    return TreeSchedule(
        tree, plan, scheduler.tensors, scheduler.computed, scheduler.read_axes, scheduler.uncovered
    )


# --- the scheduler ------------------------------------------------------------------------------------------


class _Scheduler:
    """Plans the loops of one tree."""

    def __init__(self, tree: LoopTree) -> None:
        self.tree = tree
        names = {tensor.name for tensor in tree.tensors}
        self.tensors = {tensor.name: tensor for tensor in tree.tensors}
        for item in items_of(tree.items):
            if isinstance(item, Each):
                self.tensors |= {tensor.name: tensor for tensor in item.locals}
        self.locals = set(self.tensors) - names
        self.widths = {
            name: tree.number.bits if name in self.locals else tensor.data_type.bits
            for name, tensor in self.tensors.items()
        }

        self.extents = {
            axis.name: axis.extent
            for item in items_of(tree.items)
            if isinstance(item, Each)
            for axis in item.axes
        }
        items = [item for item in items_of(tree.items) if not isinstance(item, Each)]
        accesses = dict.fromkeys(access for item in items for access in accesses_of(item))
        self.computed = {access: self._computed_dims(access) for access in accesses}
        indices = [at for item in items_of(tree.items) for at in coordinates_of(item)]
        indices += [
            guard.index for each in items_of(tree.items) if isinstance(each, Each) for guard in each.guards
        ]
        # Of an element that is an index the tensor has an access of its own.
        computed = [access[1][dim] for access, dims in self.computed.items() for dim in dims]
        indices += [at for at in computed if isinstance(at, Affine)]
        self.read_axes = frozenset(name for index in indices for name, _ in index.terms)
        self.uncovered = self._uncovered()

    def _computed_dims(self, access: Access) -> tuple[int, ...]:
        """The dims whose index is computed as it runs."""
        pairs = zip(self.tensors[access[0]].digits, access[1], strict=True)
        return tuple(
            dim for dim, (digits, at) in enumerate(pairs) if axis_digits(digits, at, self.extents) is None
        )

    def plan(self, each: Each, *, with_vectors: bool) -> EachPlan:
        """The plan of an outermost loop: vectors along one of its digits, or along those of loops inside."""
        plan = self._with_vectors(self._plain(each, {}), {})[1]
        return plan if with_vectors else _without_vectors(plan)

    def _uncovered(self) -> tuple[str, ...]:
        """Tensors with padding that some store passes over: all of it is zero before the loops."""
        stores = [item for item in items_of(self.tree.items) if isinstance(item, Store)]
        missed = {
            store.tensor
            for store in stores
            for dim, at in enumerate(store.index)
            if store.tensor not in self.locals
            and not self._covers(self.tensors[store.tensor], dim, at, self.extents)
        }
        return tuple(name for name in self.tensors if name in missed)

    # --- digits and order

    def _covers(self, tensor: TreeTensor, dim: int, index: Index, extents: dict[str, int]) -> bool:
        if isinstance(index, Load):
            return tensor.sizes == tensor.padded
        size, padded = tensor.sizes[dim], tensor.padded[dim]
        return size == padded or self._padded_axis(tensor, dim, index, extents) is not None

    def _padded_axis(
        self, tensor: TreeTensor, dim: int, index: Index, extents: dict[str, int]
    ) -> tuple[str, int] | None:
        """The axis along which zeros behind a dim's last index are written, and up to which position."""
        moves = axis_digits(tensor.digits[dim], index, extents)
        if isinstance(index, Load) or not index.terms or moves is None or index.constant:
            return None
        name, factor = max(index.terms, key=lambda term: term[1])
        whole = factor * extents[name] == tensor.sizes[dim]
        return (name, tensor.padded[dim] // factor) if whole and tensor.padded[dim] % factor == 0 else None

    def _plain(self, each: Each, outer: dict[str, int]) -> EachPlan:
        """A loop without vectors."""
        extents = outer | {axis.name: axis.extent for axis in each.axes}
        inner = tuple(self._plain(item, extents) for item in each.items if isinstance(item, Each))
        inside = {**extents, **_extents_inside(each)}
        axes_digits = [self._digits(axis, each, inside) for axis in each.axes]
        digits = [digit for digits, _ in axes_digits for digit in digits]
        limits = tuple(
            (axis.name, limit)
            for axis, (_, limit) in zip(each.axes, axes_digits, strict=True)
            if limit is not None
        )
        order = tuple(digits) if each.in_order else self._ordered(digits)
        order = self._fused(order, frozenset(name for name, _ in limits))
        return EachPlan(each, order, limits, 1, inner)

    def _ordered(self, digits: list[TreeDigit]) -> tuple[TreeDigit, ...]:
        """Outermost the digits that move farthest; those of one axis in their order, where it has limits."""
        order = sorted(digits, key=lambda digit: -digit.reach(self.widths))
        for bound in {digit.bound for digit in digits if digit.bound}:
            places = [place for place, digit in enumerate(order) if digit.bound == bound]
            of_axis = sorted((order[place] for place in places), key=lambda digit: -digit.steps[0][1])
            for place, digit in zip(places, of_axis, strict=True):
                order[place] = digit
        return tuple(order)

    def _fused(self, order: tuple[TreeDigit, ...], bounded: frozenset[str]) -> tuple[TreeDigit, ...]:
        """Digits that continue each other as one."""
        fused: tuple[TreeDigit, ...] = ()
        while order:
            order = fused_digits(order, bounded, self.read_axes, frozenset())
            fused, order = (*fused, order[0]), order[1:]
        return fused

    def _digits(
        self, axis: TreeAxis, each: Each, extents: dict[str, int]
    ) -> tuple[list[TreeDigit], AxisLimits | None]:
        """The digits of one axis, outermost first, and its limits where they do not cover it exactly."""
        accesses = list(dict.fromkeys(access for item in items_of((each,)) for access in accesses_of(item)))
        sides: dict[Access, IndexDigits] = {}
        pads: dict[str, int] = {}
        for access in accesses:
            moves = self._moves(axis.name, access, extents)
            if moves:
                sides[access] = moves
        for store in (item for item in items_of((each,)) if isinstance(item, Store)):
            if store.tensor in self.uncovered:
                continue
            tensor = self.tensors[store.tensor]
            for dim, index in enumerate(store.index):
                padded = self._padded_axis(tensor, dim, index, extents)
                if padded is not None and padded[0] == axis.name and padded[1] > axis.extent:
                    pads[store.tensor] = padded[1]
        end = max([axis.extent, *pads.values()])
        none = (IndexDigit(1, 0),)
        cut = digits_of([none, none, *sides.values()], end)
        digits = [
            TreeDigit(
                part.extent,
                ((axis.name, part.step),),
                tuple(zip(sides, part.more, strict=True)),
                axis.name,
            )
            for part in cut
        ]
        if not pads and cut[0].extent * cut[0].step == axis.extent:
            return [replace(digit, bound="") for digit in digits], None
        return digits, AxisLimits(axis.extent, tuple(pads.items()))

    def _moves(self, name: str, access: Access, extents: dict[str, int]) -> IndexDigits:
        """How an axis moves an access, over all dims that it is an index of; empty where it does not.

        Dims whose index is computed as it runs are left out.
        """
        tensor_name, index = access
        tensor = self.tensors[tensor_name]
        dims: list[IndexDigits] = []
        for digits, at in zip(tensor.digits, index, strict=True):
            if name in at.axes:
                moves = axis_digits(digits, at, extents)
                if moves is not None:
                    dims.append(moves[name])
        if len(dims) < 2:
            return dims[0] if dims else ()
        # A diagonal: the steps of all, and what each moves for them.
        steps = sorted({digit.step for digits in dims for digit in digits})
        return tuple(IndexDigit(step, sum(stride_at(digits, step) for digits in dims)) for step in steps)

    # --- vectors

    def _with_vectors(self, plan: EachPlan, outer: dict[str, int]) -> tuple[float, EachPlan]:
        """What a loop costs with the best vectors, for one turn of the loops around it, and the plan."""
        inner = [self._with_vectors(each, outer) for each in plan.inner]
        own = sum(1.0 for item in plan.each.items for _ in accesses_of(item))
        positions = prod(axis.extent for axis in plan.each.axes)
        below = (
            positions * (own + sum(cost for cost, _ in inner)),
            replace(plan, inner=tuple(each for _, each in inner)),
        )
        digits = () if plan.each.in_order else plan.digits
        here = [self._along(plan, digit) for digit in digits if _takes_vectors(digit)]
        return min([*here, below], key=lambda found: found[0])

    def _along(self, plan: EachPlan, digit: TreeDigit) -> tuple[float, EachPlan]:
        """The cost of vectors along a digit, and the plan."""
        lanes = self._lanes(plan.each, {name for name, _ in digit.steps})
        used = min(digit.extent, lanes)
        cost = self._cost(plan.each, digit, used, 1)
        if plan.each.folds:
            cost += _FOLD_COST * len(plan.each.folds)
        order = [*(each for each in plan.digits if each != digit), digit]
        return cost, replace(plan, digits=tuple(order), lanes=lanes)

    def _cost(self, each: Each, digit: TreeDigit, lanes: int, around: int) -> float:
        positions = around * each.positions
        names = {name for name, _ in digit.steps}
        is_masked = any(name in names for guard in each.guards for name, _ in guard.index.terms)
        weight = _MASK_COST if is_masked else 1.0
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
            return _COMPUTED_COST
        stride = digit.stride(access)
        if stride in (0, 1):
            return 1.0 / lanes
        # Of every second element two loads of neighbours.
        return 2.0 / lanes if stride == 2 and self.widths[access[0]] <= 32 and not is_store else 1.0

    def _is_computed(self, access: Access, names: set[str]) -> bool:
        index = access[1]
        return any(not names.isdisjoint(index[dim].axes) for dim in self.computed[access])

    def _lanes(self, each: Each, names: set[str]) -> int:
        """The number of lanes vectors along a digit of these axes have at most."""
        items = list(items_of((each,)))
        parts = (part for item in items for value in values_of(item) for part in parts_of(value))
        most = _COSTLY_LANES if self.tree.wide or any(map(_is_costly, parts)) else _LANES
        if self.tree.number.is_integer:
            # As many bytes for the states of all folds together.
            folds = [sum(len(fold.names) for fold in item.folds) for item in items if isinstance(item, Each)]
            most = max(_LANES * 32 // self.tree.number.bits >> max(*folds, 1) - 1, 1)
        loops = [item for item in items if isinstance(item, Each)]
        inside = [item for item in loops if item is not each]
        if any(name in names for item in inside for guard in item.guards for name, _ in guard.index.terms):
            return _MASKED_LANES
        rows = sum(prod(tensor.sizes) for item in loops for tensor in item.locals) if inside else 0
        bits = self.tree.number.bits
        while rows * most * bits // 8 > _ROW_BYTES and most > _MASKED_LANES:
            most //= 2
        return most


def _without_vectors(plan: EachPlan) -> EachPlan:
    """The same loops one element at a time."""
    return replace(plan, lanes=1, inner=tuple(map(_without_vectors, plan.inner)))


def _takes_vectors(digit: TreeDigit) -> bool:
    """True for a digit of strides; of an axis with limits for the innermost."""
    is_linear = all(isinstance(stride, int) for _, stride in digit.strides)
    return digit.extent > 1 and is_linear and (not digit.bound or digit.steps[0][1] == 1)


def _is_costly(part: Expr) -> bool:
    return isinstance(part, Apply) and is_costly(part.op)


def _extents_inside(each: Each) -> dict[str, int]:
    return {a.name: a.extent for item in items_of(each.items) if isinstance(item, Each) for a in item.axes}
