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

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from math import prod

from ..dtypes import DataType
from .expression import Affine, Apply, Coordinate, Expr, Load, TreeAxis, is_costly, parts_of
from .machine import LINE
from .nest import Axis, LoopNest, Stride, highest, lowest
from .reorder import IndexDigit, IndexDigits, digits_of, offset_at, stride_at
from .rewrites import linear_table
from .tree import Each, Item, LoopTree, Store, TreeTensor, values_of

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

Access = tuple[str, tuple[Affine, ...]]
"""A tensor and an index of it."""


@dataclass(frozen=True, slots=True)
class TreeDigit:
    """A digit of an axis, or of several that continue each other: how far it moves each axis and each access.

    `bound` names the axis whose digits do not cover it exactly.
    """

    extent: int
    steps: tuple[tuple[str, int], ...]
    strides: tuple[tuple[Access, Stride], ...]
    bound: str = ""

    def stride(self, access: Access) -> Stride:
        """How far an access moves for one position."""
        return next((stride for each, stride in self.strides if each == access), 0)

    def reach(self, widths: dict[str, int]) -> int:
        """How far the accesses move together, in bits."""
        return sum(_reach(stride) * widths[access[0]] for access, stride in self.strides)

    def __str__(self) -> str:
        return f"{'+'.join(f'{name}/{step}' for name, step in self.steps)} {self.extent}"


@dataclass(frozen=True, slots=True)
class AxisLimits:
    """An axis whose digits are more than its positions: how many are computed, and for each tensor the end of
    the zeros behind them.
    """

    size: int
    pads: tuple[tuple[str, int], ...] = ()

    def below(self, step: int) -> AxisLimits:
        """The limits within the first `step` positions."""
        return AxisLimits(min(self.size, step), tuple((name, min(pad, step)) for name, pad in self.pads))

    def behind(self, positions: int) -> AxisLimits:
        """The limits behind some positions."""
        pads = tuple((name, max(pad - positions, 0)) for name, pad in self.pads)
        return AxisLimits(max(self.size - positions, 0), pads)

    @property
    def end(self) -> int:
        """One past the last position that anything is done for."""
        return max(self.size, *(pad for _, pad in self.pads)) if self.pads else self.size


@dataclass(frozen=True, slots=True)
class EachPlan:
    """A loop: its digits, outermost first; `lanes` more than 1 where vectors go along the last of them.

    `inner` are the plans of the loops inside, in their order.
    """

    each: Each
    digits: tuple[TreeDigit, ...]
    limits: tuple[tuple[str, AxisLimits], ...]
    lanes: int
    inner: tuple[EachPlan, ...]

    @property
    def widest(self) -> int:
        """Lanes of the longest vectors: no more than there are positions."""
        positions = prod(digit.extent for digit in self.digits)
        return min(self.lanes, 1 << (max(positions, 1) - 1).bit_length())

    def lines(self) -> Iterator[str]:
        """The loops as text."""
        lanes = f" in vectors of {self.widest}" if self.lanes > 1 else ""
        yield f"for {', '.join(map(str, self.digits)) or 'once'}{lanes}"
        for plan in self.inner:
            yield from ("  " + line for line in plan.lines())


@dataclass(frozen=True)
class TreeSchedule:
    """The plan of a tree of one outermost loop.

    `computed`: of each access the dims whose index is computed as it runs; `read_axes`: the axes whose
    positions are needed as numbers; `uncovered`: tensors whose padding its stores do not reach.
    """

    tree: LoopTree
    plan: EachPlan
    tensors: dict[str, TreeTensor]
    computed: dict[Access, tuple[int, ...]]
    read_axes: frozenset[str]
    uncovered: tuple[str, ...]

    @property
    def real(self) -> DataType:
        """The type that is computed in."""
        return DataType.f64 if self.tree.wide else DataType.f32

    @property
    def rows(self) -> set[str]:
        """The local tensors."""
        return set(self.tensors) - {tensor.name for tensor in self.tree.tensors}

    @property
    def accesses(self) -> tuple[Access, ...]:
        """All accesses."""
        return tuple(self.computed)

    @property
    def streams(self) -> bool:
        """True where some stores may be of whole lines."""
        stores = {(store.tensor, store.index) for store in self.tree.stores}
        lanes = {plan.widest for plan in _plans_of(self.plan)}
        return any(stores & self.streamed(each) for each in lanes)

    def streamed(self, lanes: int) -> frozenset[Access]:
        """The accesses whose vectors of so many lanes are whole lines of an aligned tensor."""
        digits = [digit for plan in _plans_of(self.plan) for digit in plan.digits]
        return frozenset(access for access in self.computed if self._is_lines(access, lanes, digits))

    def _is_lines(self, access: Access, lanes: int, digits: Sequence[TreeDigit]) -> bool:
        tensor = self.tensors[access[0]]
        width, base = tensor.data_type.bits // 8, tensor.base
        if (
            access[0] in self.rows
            or self.computed[access]
            or any(at.constant for at in access[1])
            or base * width % LINE
        ):
            return False
        strides = [digit.stride(access) for digit in digits]
        far = [stride for stride in strides if stride != 1]
        is_whole = all(isinstance(stride, int) and stride * width % LINE == 0 for stride in far)
        return is_whole and lanes * width % LINE == 0

    @property
    def kind(self) -> str:
        """The name of such kernels: which way vectors go."""
        if self.plan.lanes > 1:
            return "columns" if self.plan.inner else "lines"
        return "rows" if any(each.lanes > 1 for each in self.plan.inner) else "elements"

    @property
    def why(self) -> str:
        """The reason for it."""
        return {
            "lines": "neighbours lie side by side",
            "columns": "what is folded lies across",
            "rows": "what is folded lies side by side",
            "elements": "no axis has neighbours side by side",
        }[self.kind]

    def __str__(self) -> str:
        return "\n".join(self.plan.lines())


@lru_cache(maxsize=256)
def schedule_tree(tree: LoopTree, *, with_vectors: bool = True) -> TreeSchedule:
    """Schedule a tree of one outermost loop that is not empty."""
    tree = with_axes_for_padding(tree)
    scheduler = _Scheduler(tree)
    plan = scheduler.plan(tree.items[0], with_vectors=with_vectors)
    return TreeSchedule(
        tree, plan, scheduler.tensors, scheduler.computed, scheduler.read_axes, scheduler.uncovered()
    )


def _plans_of(plan: EachPlan) -> Iterator[EachPlan]:
    yield plan
    for inner in plan.inner:
        yield from _plans_of(inner)


# --- digits while they run ----------------------------------------------------------------------------------

# Steps that threads may share, more or less.
_GRID_STEPS = 1024


def grid_of(plan: EachPlan) -> list[tuple[TreeDigit, int, int]]:
    """The digits that threads share, outermost first: how many positions a step has, and how many steps.

    Of the digit of vectors a position is a whole vector.
    """
    grid: list[tuple[TreeDigit, int, int]] = []
    limits, steps = dict(plan.limits), 1
    for place, digit in enumerate(plan.digits):
        is_vector = plan.lanes > 1 and place + 1 == len(plan.digits)
        count = digit.extent
        if digit.bound:
            ((name, step),) = digit.steps
            end = limits[name].size if is_vector else limits[name].end
            count = min(count, -(-end // step))
        if is_vector:
            count //= min(plan.widest, 1 << (max(count, 1) - 1).bit_length())
        if count < 2:
            continue
        tiles = -(-count // max(_GRID_STEPS // steps, 1))
        grid.append((digit, tiles, -(-count // tiles)))
        steps *= grid[-1][2]
        if steps > _GRID_STEPS // 2 or tiles > 1:
            break
        if (
            digit.bound
            and not is_vector
            and any(digit.bound == each.bound for each in plan.digits[place + 1 :])
        ):
            # What is inside depends on which of its positions it is.
            break
    return grid


def sections_of(limits: AxisLimits, step: int, extent: int) -> Iterator[tuple[int, int, AxisLimits]]:
    """The runs of positions of a digit that are alike: first, one past the last, and the limits inside.

    17 of 32 in steps of 16  ->  1 position of 16, and 1 of which 1 is computed and 15 are zero.
    """
    end = min(extent, -(-limits.end // step))
    edges = {0, end}
    for limit in (limits.size, *(pad for _, pad in limits.pads)):
        edges |= {min(limit // step, end), min(-(-limit // step), end)}
    borders = sorted(edges)
    for first, last in pairwise(borders):
        yield first, last, limits.behind(first * step).below(step)


def fused_digits(
    order: tuple[TreeDigit, ...],
    bounded: frozenset[str],
    read_axes: frozenset[str],
    fixed: frozenset[TreeDigit],
) -> tuple[TreeDigit, ...]:
    """The order with its first digit made one with those that continue it; the `fixed` ones stay.

    `for 5: src += 3` around `for 3: src += 1`  ->  `for 15: src += 1`.
    """
    while len(order) > 1:
        outer, inner = order[:2]
        names = {name for digit in (outer, inner) for name, _ in digit.steps}
        if names & (bounded | read_axes) or {outer, inner} & fixed or not _continues(outer, inner):
            break
        order = (replace(inner, extent=outer.extent * inner.extent, bound=""), *order[2:])
    return order


def _continues(outer: TreeDigit, inner: TreeDigit) -> bool:
    accesses = dict.fromkeys(access for digit in (outer, inner) for access, _ in digit.strides)
    for access in accesses:
        before, after = outer.stride(access), inner.stride(access)
        if not isinstance(before, int) or not isinstance(after, int) or before != after * inner.extent:
            return False
    return True


# --- padding of dims of one index ---------------------------------------------------------------------------


def with_axes_for_padding(tree: LoopTree) -> LoopTree:
    """The same tree with an axis of one position for each dim of one index that has padding to be written."""
    made = []
    for each in tree.items:
        stores = [item for item in items_of((each,)) if isinstance(item, Store)]
        axes = {
            (store.tensor, dim): TreeAxis(f"{store.tensor}.{dim}", 1)
            for store in stores
            for dim, (size, padded) in enumerate(zip(*_extents(tree, store.tensor), strict=True))
            if size == 1 and padded > 1 and store.index[dim] == Affine()
        }
        made.append(replace(_indexed(each, axes), axes=(*each.axes, *axes.values())) if axes else each)
    return replace(tree, items=tuple(made))


def padding_nests(tensor: TreeTensor) -> tuple[LoopNest, ...]:
    """Nests that write zeros to all places of a tensor that no index has."""
    return tuple(
        _padding_nest(tensor, dim)
        for dim, (size, padded) in enumerate(zip(tensor.sizes, tensor.padded, strict=True))
        if size < padded and 0 not in tensor.padded
    )


def _padding_nest(tensor: TreeTensor, dim: int) -> LoopNest:
    spans = [range(padded) for padded in tensor.padded]
    spans[dim] = range(tensor.sizes[dim], tensor.padded[dim])
    axes, base = [], tensor.base
    for digits, span in zip(tensor.digits, spans, strict=True):
        places = [offset_at(digits, index) for index in span]
        base += places[0]
        to = linear_table(tuple(place - places[0] for place in places))
        axes.append(Axis(len(span), 0, to, valid=0))
    return LoopNest(tensor.data_type, tensor.data_type, tuple(axes), 0, base).verify()


def _extents(tree: LoopTree, name: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    tensor = tree.tensor(name)
    return tensor.sizes, tensor.padded


def _indexed(each: Each, axes: dict[tuple[str, int], TreeAxis]) -> Each:
    def indexed(item: Item) -> Item:
        if isinstance(item, Each):
            return _indexed(item, axes)
        if not isinstance(item, Store):
            return item
        index = (
            axes[item.tensor, dim] + 0 if (item.tensor, dim) in axes else at
            for dim, at in enumerate(item.index)
        )
        return replace(item, index=tuple(index))

    return replace(each, items=tuple(map(indexed, each.items)))


# --- digits -------------------------------------------------------------------------------------------------


def axis_digits(digits: IndexDigits, index: Affine, extents: dict[str, int]) -> dict[str, IndexDigits] | None:
    """How each axis of an index moves through the digits of a dim; None where only computing it tells.

    `g * 4 + k` through blocks of 16  ->  g: 1 of 4 places, then of so many blocks; k: places.
    """
    if index.divisor > 1:
        return None
    if len(digits) == 1:
        return {name: (IndexDigit(1, digits[0].stride * factor),) for name, factor in index.terms}
    terms = sorted(index.terms, key=lambda term: term[1])
    found: dict[str, IndexDigits] = {}
    reach = 1
    if index.constant:
        return None
    for place, (name, factor) in enumerate(terms):
        # Each axis begins where the one before it ends, at the edge of a block or of a part of one: no carry
        # goes from one to the next.
        if not _divides_all(factor, digits) or (factor != reach and (place > 0 or factor < 0)):
            return None
        reach = factor * extents[name]
        inside = [
            digit
            for digit in digits
            if digit.step > factor and (digit.step < reach or place + 1 == len(terms))
        ]
        if any(digit.step % factor for digit in inside):
            return None
        first = IndexDigit(1, stride_at(digits, factor))
        found[name] = (first, *(IndexDigit(digit.step // factor, digit.stride) for digit in inside))
    return found


def _divides_all(factor: int, digits: IndexDigits) -> bool:
    return all(digit.step % factor == 0 or factor % digit.step == 0 for digit in digits)


def items_of(items: Sequence[Item]) -> Iterator[Item]:
    """Items, and those inside of them."""
    for item in items:
        yield item
        if isinstance(item, Each):
            yield from items_of(item.items)


def accesses_of(item: Item) -> Iterator[Access]:
    """The accesses of one item itself."""
    for value in values_of(item):
        for part in parts_of(value):
            if isinstance(part, Load):
                yield part.tensor, part.index
    if isinstance(item, Store):
        yield item.tensor, item.index


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
        real = DataType.f64 if tree.wide else DataType.f32
        self.widths = {
            name: real.bits if name in self.locals else tensor.data_type.bits
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
        indices += [access[1][dim] for access, dims in self.computed.items() for dim in dims]
        self.read_axes = frozenset(name for index in indices for name, _ in index.terms)

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

    def uncovered(self) -> tuple[str, ...]:
        """Tensors with padding that some store passes over."""
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

    def _covers(self, tensor: TreeTensor, dim: int, index: Affine, extents: dict[str, int]) -> bool:
        size, padded = tensor.sizes[dim], tensor.padded[dim]
        return size == padded or self._padded_axis(tensor, dim, index, extents) is not None

    def _padded_axis(
        self, tensor: TreeTensor, dim: int, index: Affine, extents: dict[str, int]
    ) -> tuple[str, int] | None:
        """The axis along which zeros behind a dim's last index are written, and up to which position."""
        moves = axis_digits(tensor.digits[dim], index, extents)
        if not index.terms or moves is None or index.constant:
            return None
        name, factor = max(index.terms, key=lambda term: term[1])
        whole = factor * extents[name] == tensor.sizes[dim]
        return (name, tensor.padded[dim] // factor) if whole and tensor.padded[dim] % factor == 0 else None

    def _plain(self, each: Each, outer: dict[str, int]) -> EachPlan:
        """A loop without vectors."""
        extents = outer | {axis.name: axis.extent for axis in each.axes}
        inner = tuple(self._plain(item, extents) for item in each.items if isinstance(item, Each))
        inside = {**extents, **_extents_inside(each)}
        found = [self._digits(axis, each, inside) for axis in each.axes]
        digits = [digit for digits, _ in found for digit in digits]
        limits = tuple(
            (axis.name, limit) for axis, (_, limit) in zip(each.axes, found, strict=True) if limit is not None
        )
        order = self._fused(self._ordered(digits), frozenset(name for name, _ in limits))
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
        made: tuple[TreeDigit, ...] = ()
        while order:
            order = fused_digits(order, bounded, self.read_axes, frozenset())
            made, order = (*made, order[0]), order[1:]
        return made

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
        found: list[IndexDigits] = []
        for digits, at in zip(tensor.digits, index, strict=True):
            if any(each == name for each, _ in at.terms):
                moves = axis_digits(digits, at, extents)
                if moves is not None:
                    found.append(moves[name])
        if len(found) < 2:
            return found[0] if found else ()
        # A diagonal: the steps of all, and what each moves for them.
        steps = sorted({digit.step for digits in found for digit in digits})
        return tuple(IndexDigit(step, sum(stride_at(digits, step) for digits in found)) for step in steps)

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
        here = [self._along(plan, digit) for digit in plan.digits if _takes_vectors(digit)]
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
        if stride in (0, 1) or access[0] in self.locals:
            return 1.0 / lanes
        # Of every second element two loads of neighbours.
        return 2.0 / lanes if stride == 2 and self.widths[access[0]] <= 32 and not is_store else 1.0

    def _is_computed(self, access: Access, names: set[str]) -> bool:
        index = access[1]
        return any(name in names for dim in self.computed[access] for name, _ in index[dim].terms)

    def _lanes(self, each: Each, names: set[str]) -> int:
        """How many lanes vectors along a digit of these axes have at most."""
        items = list(items_of((each,)))
        parts = (part for item in items for value in values_of(item) for part in parts_of(value))
        most = _COSTLY_LANES if self.tree.wide or any(map(_is_costly, parts)) else _LANES
        loops = [item for item in items if isinstance(item, Each)]
        inside = [item for item in loops if item is not each]
        if any(name in names for item in inside for guard in item.guards for name, _ in guard.index.terms):
            return _MASKED_LANES
        rows = sum(prod(tensor.sizes) for item in loops for tensor in item.locals) if inside else 0
        real_bytes = 8 if self.tree.wide else 4
        while rows * most * real_bytes > _ROW_BYTES and most > _MASKED_LANES:
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


def _reach(stride: Stride) -> int:
    return (
        abs(stride) if isinstance(stride, int) else highest(stride, len(stride)) - lowest(stride, len(stride))
    )


def coordinates_of(item: Item) -> Iterator[Affine]:
    """The indices that an item uses as numbers."""
    for value in values_of(item):
        for part in parts_of(value):
            if isinstance(part, Coordinate):
                yield part.index
