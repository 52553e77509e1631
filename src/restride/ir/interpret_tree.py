"""The meaning of a loop tree: an interpreter in plain NumPy, which the reference engine runs.

Every value is an array with an axis for each axis of the tree, of extent one if it does not depend on it, so
that NumPy's broadcasting does the loops. Sums are accumulated in f64 and rounded once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from math import prod
from typing import Any

import numpy as np

from .arithmetic import NumpyArithmetic
from .conversion import Array, integers_of, storage_dtype
from .digits import offset_at
from .expression import (
    FOLDS,
    Affine,
    Apply,
    Const,
    Coordinate,
    Expr,
    Index,
    Load,
    Ref,
    Scalar,
    evaluate,
    fold,
)
from .interpret_nest import gather, scatter
from .numbers import Number, elements_of, numbers_of
from .tree import Each, Fold, Guard, Let, LoopTree, Store, TreeTensor

_NUMPY = NumpyArithmetic()
# Positions interpreted at once; limits the memory of arrays.
_BLOCK = 1 << 19

Range = tuple[int, int]


def interpret_tree(tree: LoopTree, tensors: Sequence[Array], scalars: Sequence[float] = ()) -> None:
    """Run a tree on flat arrays of storage dtypes, one for each of its tensors; offset 0 is the first."""
    _Interpreter(tree, dict(zip((t.name for t in tree.tensors), tensors, strict=True)), scalars).run()


@dataclass(frozen=True, slots=True)
class _Scope:
    """The state inside some loops: the positions run along each axis, values by name, locals, and which
    positions the guards keep.
    """

    ranges: Mapping[str, Range]
    values: Mapping[str, Array]
    number: Number
    rows: Mapping[str, Array] = field(default_factory=dict)
    mask: Array | None = None

    @property
    def positions(self) -> int:
        """The number of positions that are run at once."""
        return prod(stop - start for start, stop in self.ranges.values())


class _Interpreter:
    """One run of a tree."""

    def __init__(self, tree: LoopTree, memory: Mapping[str, Array], scalars: Sequence[float]) -> None:
        self.tree, self.memory, self.scalars = tree, memory, scalars
        # The index of each axis among the axes of arrays.
        self.order = {name: place for place, name in enumerate(_axis_names(tree.items))}
        self.tensors = {tensor.name: tensor for tensor in tree.tensors}

    def run(self) -> None:
        for name in self.tree.written:
            self.clear_padding(self.tensors[name])
        for item in self.tree.items:
            self.each(item, _Scope({}, {}, self.tree.number))

    def clear_padding(self, tensor: TreeTensor) -> None:
        """Zero all elements that no index reaches."""
        for dim, (size, padded) in enumerate(zip(tensor.sizes, tensor.padded, strict=True)):
            if size == padded:
                continue
            spans = [range(n) for n in tensor.padded]
            spans[dim] = range(size, padded)
            grids = np.meshgrid(*map(np.array, spans), indexing="ij", sparse=True)
            places = self.offsets(tensor, [np.asarray(grid, np.int64) for grid in grids])
            data = self.memory[tensor.name]
            scatter(data, tensor.data_type, places, np.zeros((), data.dtype))

    # --- loops

    def each(self, each: Each, scope: _Scope) -> dict[str, Array]:
        """Run a loop; return the results of its folds: neutral elements for no positions."""
        if each.number not in (None, scope.number):
            self.each(replace(each, number=None), replace(scope, values={}, number=each.number))
            return {}
        if not each.positions:
            pairs = (zip(item.names, FOLDS[item.op].identity, strict=True) for item in each.folds)
            shape = (1,) * len(self.order)
            return {name: np.full(shape, _constant(number, scope)) for pair in pairs for name, number in pair}
        self.tensors |= {tensor.name: tensor for tensor in each.locals}
        if not each.in_order:
            return self.part(each, scope, {axis.name: (0, axis.extent) for axis in each.axes})
        found: dict[str, Array] = {}
        for position in product(*(range(axis.extent) for axis in each.axes)):
            own = {axis.name: (at, at + 1) for axis, at in zip(each.axes, position, strict=True)}
            here = self.whole(each, replace(scope, ranges={**scope.ranges, **own}))
            found = self.together(each, found, here) if found else here
        return found

    def part(self, each: Each, scope: _Scope, ranges: dict[str, Range]) -> dict[str, Array]:
        """Run a part of a loop, in halves if it is long."""
        longest = max(ranges, key=lambda name: ranges[name][1] - ranges[name][0], default=None)
        start, stop = ranges[longest] if longest else (0, 1)
        own = prod(high - low for low, high in ranges.values())
        if own * scope.positions * _inner_positions(each) > _BLOCK and stop - start > 1 and longest:
            middle = (start + stop) // 2
            halves = [
                self.part(each, scope, ranges | {longest: span}) for span in ((start, middle), (middle, stop))
            ]
            return self.together(each, *halves)
        return self.whole(each, replace(scope, ranges={**scope.ranges, **ranges}))

    def together(self, each: Each, one: dict[str, Array], other: dict[str, Array]) -> dict[str, Array]:
        found: dict[str, Array] = {}
        for item in each.folds:
            a, b = ([side[name] for name in item.names] for side in (one, other))
            found |= zip(item.names, fold(item.op, _NUMPY, a, b), strict=True)
        return found

    def whole(self, each: Each, scope: _Scope) -> dict[str, Array]:
        rows = {tensor.name: self.new_row(tensor, scope) for tensor in each.locals}
        scope = replace(scope, rows={**scope.rows, **rows}, mask=self.masked(each.guards, scope))
        found: dict[str, Array] = {}
        for item in each.items:
            if isinstance(item, Each):
                scope = replace(scope, values={**scope.values, **self.each(item, scope)})
            elif isinstance(item, Let):
                scope = replace(scope, values={**scope.values, item.name: self.value(item.value, scope)})
            elif isinstance(item, Fold):
                found |= self.folded(each, item, scope)
            else:
                self.store(item, scope)
        return found

    def new_row(self, tensor: TreeTensor, scope: _Scope) -> Array:
        return np.zeros((*self.shape(scope), *tensor.sizes), storage_dtype(self.tree.row_type(tensor)))

    def masked(self, guards: Sequence[Guard], scope: _Scope) -> Array | None:
        mask = scope.mask
        for guard in guards:
            position = self.index(replace(guard.index, divisor=1), scope)
            divisor = guard.index.divisor
            holds = (position >= 0) & (position < guard.size * divisor) & (position % divisor == 0)
            mask = holds if mask is None else mask & holds
        return mask

    # --- items

    def folded(self, each: Each, item: Fold, scope: _Scope) -> dict[str, Array]:
        values = [self.value(value, scope) for value in item.values]
        shape = list(np.broadcast_shapes(*(value.shape for value in values)))
        for axis in each.axes:
            low, high = scope.ranges[axis.name]
            shape[self.order[axis.name]] = high - low
        if scope.mask is not None:
            shape = list(np.broadcast_shapes(shape, scope.mask.shape))
        empty = [_constant(number, scope) for number in FOLDS[item.op].identity]
        states = [
            np.broadcast_to(value if scope.mask is None else np.where(scope.mask, value, nothing), shape)
            for value, nothing in zip(values, empty, strict=True)
        ]
        over = tuple(self.order[axis.name] for axis in each.axes)
        if item.op == "sum":
            with np.errstate(all="ignore"):
                # Reals are accumulated in f64, integers wrap.
                kind = scope.number.dtype if scope.number.is_integer else np.float64
                total = np.add.reduce(states[0], axis=over, dtype=kind, keepdims=True)
                return {item.names[0]: np.asarray(total.astype(scope.number.dtype))}
        for place in over:
            states = _fold_axis(item.op, states, place)
        return dict(zip(item.names, states, strict=True))

    def store(self, item: Store, scope: _Scope) -> None:
        tensor = self.tensors[item.tensor]
        value = self.value(item.value, scope)
        index = self.places(tensor, item.index, scope)
        shape = np.broadcast_shapes(value.shape, *(each.shape for each in index))
        if scope.mask is not None:
            shape = np.broadcast_shapes(shape, scope.mask.shape)
        chosen = np.broadcast_to(True if scope.mask is None else scope.mask, shape)
        if item.tensor in scope.rows:
            row = scope.rows[item.tensor]
            places = self.row_places(row, index, scope)
            full = np.broadcast_shapes(shape, *(place.shape for place in places))
            chosen = np.broadcast_to(chosen, full)
            bits = np.broadcast_to(value, full)[chosen]
            bits = elements_of(bits, self.tree.row_type(tensor), scope.number)
            at = tuple(np.broadcast_to(place, full)[chosen] for place in places)
            row[at] = bits if at else bits.reshape(())
            return
        bits = elements_of(np.broadcast_to(value, shape)[chosen], tensor.data_type, scope.number)
        places_of = np.broadcast_to(self.offsets(tensor, index), shape)[chosen]
        scatter(self.memory[item.tensor], tensor.data_type, places_of, bits)

    # --- values

    def value(self, expr: Expr, scope: _Scope) -> Array:
        """Return the value of an expression at every position."""
        if isinstance(expr, Ref):
            return scope.values[expr.name]
        if isinstance(expr, Load):
            return self.load(expr, scope)
        if isinstance(expr, Apply):
            args = [self.value(arg, scope) for arg in expr.args]
            with np.errstate(all="ignore"):
                return np.asarray(evaluate(expr.op, _NUMPY, args))
        if isinstance(expr, Coordinate):
            return np.asarray(self.index(expr.index, scope).astype(scope.number.dtype))
        assert isinstance(expr, Const | Scalar)
        number = expr.number if isinstance(expr, Const) else self.scalars[expr.number]
        with np.errstate(all="ignore"):
            return np.full((1,) * len(self.order), _constant(number, scope))

    def load(self, expr: Load, scope: _Scope) -> Array:
        tensor = self.tensors[expr.tensor]
        index = self.places(tensor, expr.index, scope)
        # Positions that guards exclude can have any index.
        inside = [np.clip(at, 0, size - 1) for at, size in zip(index, tensor.sizes, strict=True)]
        if expr.tensor in scope.rows:
            row = scope.rows[expr.tensor]
            bits = np.asarray(row[tuple(self.row_places(row, inside, scope))])
            return numbers_of(bits, self.tree.row_type(tensor), scope.number)
        places = self.offsets(tensor, inside)
        if 0 in tensor.sizes:
            return np.zeros(places.shape, scope.number.dtype)
        data = self.memory[expr.tensor]
        return numbers_of(gather(data, tensor.data_type, places), tensor.data_type, scope.number)

    def row_places(self, row: Array, index: Sequence[Array], scope: _Scope) -> list[Array]:
        """Return the indices into a local tensor for each position that is run."""
        found = []
        for name, place in self.order.items():
            low, high = scope.ranges.get(name, (0, 1))
            count = high - low if row.shape[place] > 1 else 1
            found.append(np.arange(count).reshape(self.along(place)))
        return [*found, *index]

    # --- indices

    def places(self, tensor: TreeTensor, index: Sequence[Index], scope: _Scope) -> list[Array]:
        """Return an index of a tensor, for each dim."""
        return [
            self.element(at, size, scope) if isinstance(at, Load) else self.index(at, scope)
            for at, size in zip(index, tensor.sizes, strict=True)
        ]

    def element(self, load: Load, size: int, scope: _Scope) -> Array:
        """Return a tensor's element as an index of a dim of `size`: from its end if it is negative."""
        tensor = self.tensors[load.tensor]
        index = self.places(tensor, load.index, scope)
        inside = [np.clip(at, 0, n - 1) for at, n in zip(index, tensor.sizes, strict=True)]
        places = self.offsets(tensor, inside)
        if 0 in tensor.sizes:
            return np.zeros(places.shape, np.int64)
        bits = gather(self.memory[load.tensor], tensor.data_type, places)
        at = integers_of(bits, tensor.data_type).astype(np.int64)
        return np.asarray(np.clip(np.where(at < 0, at + size, at), 0, max(size - 1, 0)))

    def index(self, index: Affine, scope: _Scope) -> Array:
        total = np.full((1,) * len(self.order), index.constant, np.int64)
        for name, factor in index.terms:
            positions = np.arange(*scope.ranges[name], dtype=np.int64)
            total = total + factor * positions.reshape(self.along(self.order[name]))
        return np.asarray(total // index.divisor)

    def offsets(self, tensor: TreeTensor, index: Sequence[Array]) -> Array:
        """Return the offsets of elements, from the digits of their indices."""
        places: Array = np.asarray(tensor.base)
        for digits, at in zip(tensor.digits, index, strict=True):
            places = places + offset_at(digits, at)
        return places

    def along(self, place: int) -> tuple[int, ...]:
        return tuple(-1 if i == place else 1 for i in range(len(self.order)))

    def shape(self, scope: _Scope) -> tuple[int, ...]:
        """Return the extents that are run, in the order of array axes; 1 for axes of other loops."""
        spans = (scope.ranges.get(name, (0, 1)) for name in self.order)
        return tuple(high - low for low, high in spans)


def _constant(number: float, scope: _Scope) -> Any:
    """Return a number in the computed type."""
    return scope.number.dtype.type(scope.number.constant(number))


def _fold_axis(op: str, states: list[Array], place: int) -> list[Array]:
    """Fold adjacent elements along one axis until one is left."""
    count = states[0].shape[place]
    while count > 1:
        last = [np.take(state, [count - 1], place) for state in states] if count % 2 else []
        even, odd = ([np.take(s, range(i, count - count % 2, 2), place) for s in states] for i in (0, 1))
        states = list(fold(op, _NUMPY, even, odd))
        if last:
            states = [np.concatenate(pair, place) for pair in zip(states, last, strict=True)]
        count = states[0].shape[place]
    return states


def _inner_positions(each: Each) -> int:
    """Return the most positions of the loops nested in one, for each of its own."""
    inner = [item for item in each.items if isinstance(item, Each)]
    # A loop in order runs one position at a time.
    counts = ((1 if item.in_order else item.positions) * _inner_positions(item) for item in inner)
    return max(counts, default=1)


def _axis_names(items: Sequence[Each]) -> list[str]:
    """Return the axes of all loops; sibling loops can have axes of equal name."""
    names: list[str] = []
    for each in items:
        names += [axis.name for axis in each.axes]
        names += _axis_names([item for item in each.items if isinstance(item, Each)])
    return list(dict.fromkeys(names))
