"""Gradients of pooling where the last dim is contiguous: sums over rows of windows, then along them.

A row of the source is in the windows of a few rows. These are added up first, in whole vectors: for maxima,
into one row of sums for each position along a window; for averages, into a single row. Rows of sums stay in
the L1 cache, with zeros at both ends. Then each position adds up its entries in them, without bounds tests.
So a gradient is read once for each row of the source, not once for each position.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

from ...desc.memory_desc import MemoryDesc
from ...ir.expression import Affine, Const, Expr, Load, Ref, TreeAxis
from ...ir.tree import Each, Item, Store, TreeTensor, fold_over
from .windows import WindowPhase, Windows

# The most elements of the rows of sums for one row of the source: they stay in the L1 cache.
_MOST_ELEMENTS = 1 << 11
# The most elements of the rows of sums for a whole image: up to this, all are computed first. Values just
# written with vectors other than those they are read with must reach the cache before they can be read.
_MOST_OF_IMAGE = 1 << 12
# The most positions along a window, or windows of a position, that are unrolled; more are a loop.
_WRITTEN_OUT = 5
# The fewest windows of a row; and the most if there are strides and more bytes than the caches hold.
_LEAST_COLUMNS, _MOST_COLUMNS, _IN_CACHES = 2, 64, 1 << 24

Index = tuple[Affine | TreeAxis, ...]
Term = Callable[[Index, Sequence[Affine]], Expr]
"""The contribution of a window, by the index of the window and the position in it."""


class SumRows(NamedTuple):
    """Rows of sums, for each position of some axes."""

    tensor: TreeTensor
    axes: tuple[TreeAxis, ...]

    def store(self, place: Affine | TreeAxis | int, column: Affine | TreeAxis, value: Expr) -> Store:
        """Return the item that writes a sum."""
        return self.tensor.store((*self.axes, place, column), value)

    def load(self, place: Affine, column: Affine) -> Load:
        """Load a sum."""
        return self.tensor.load(*self.axes, place, column)


@dataclass(frozen=True, slots=True)
class PoolingGradientRows:
    """The rows of a gradient. `is_max`: for maxima, what a window contributes depends on its position."""

    windows: Windows
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    is_max: bool

    @property
    def are_faster(self) -> bool:
        """True if windows overlap along rows and from row to row. Long rows from memory of which a stride
        makes several are excluded: these are written in bursts, but phase after phase writes continuously.
        """
        mds = self.diff_src, self.diff_dst
        if not all(md.nelems and not md.inner_blks and md.layout.strides[-1] == 1 for md in mds):
            return False
        *deep, is_along = (self._overlap(dim) for dim in range(-len(self.windows.kernel), 0))
        if not (is_along and any(deep)) or self.diff_dst.dims[-1] < _LEAST_COLUMNS:
            return False
        is_far = sum(md.size for md in mds) > _IN_CACHES and prod(self.windows.strides) > 1
        is_long = self.diff_dst.dims[-1] > _MOST_COLUMNS
        return self._size <= _MOST_ELEMENTS and not (is_far and is_long)

    def _overlap(self, dim: int) -> bool:
        """Return whether a position of a dim is in several windows."""
        return any(tap.extent > 1 for phase in self._phases(dim)[1] for tap in phase.taps)

    @property
    def _rows(self) -> int:
        """The number of rows of sums."""
        return self.windows.kernel[-1] if self.is_max else 1

    @property
    def _length(self) -> int:
        """The elements of a row of sums."""
        return sum(self._ends) + self.diff_dst.dims[-1]

    @property
    def _size(self) -> int:
        """The elements of all rows of sums for a row of the source."""
        return self._rows * self._length

    @property
    def _ends(self) -> tuple[int, int]:
        """The numbers of zeros to the left and right of rows of sums."""
        axis, along = self._phases(-1)
        outputs = [(phase.output, tap) for phase in along for tap in phase.taps]
        # From a position's last window, the nearest on the left, to its first.
        low = min(
            output.constant + dict(output.terms)[tap.name] * (tap.extent - 1) for output, tap in outputs
        )
        high = max(output.constant for output, _ in outputs) + axis.extent
        return max(0, -low), max(0, high - self.diff_dst.dims[-1])

    def _phases(self, dim: int) -> tuple[TreeAxis, tuple[WindowPhase, ...]]:
        """Return the phases of a spatial dim, counted from the last one."""
        spatial = len(self.windows.kernel)
        return self.windows.phases(spatial + dim, self.diff_src.dims[dim], self.diff_dst.dims[dim])

    def loop(
        self, out: TreeTensor, outer: Sequence[TreeAxis], term: Term, result: Callable[[Expr], Expr]
    ) -> Each:
        """Return the loops over all positions of the source. `result`: maps a sum to the stored value."""
        *deep, (columns, along) = (self._phases(dim) for dim in range(-len(self.windows.kernel), 0))
        axes, phases = tuple(axis for axis, _ in deep), [*product(*(found for _, found in deep))]
        of_image = prod(axis.extent for axis in axes) * len(phases) * self._size
        own = axes if of_image <= _MOST_OF_IMAGE else ()
        sums: list[Item] = []
        stores: list[Item] = []
        tensors: list[TreeTensor] = []
        for depth in phases:
            rows: SumRows | None = None
            if all(phase.taps for phase in depth):
                sizes = (*(axis.extent for axis in own), self._rows, self._length)
                rows = SumRows(TreeTensor.row_major(f"sums{len(tensors)}", sizes), own)
                tensors.append(rows.tensor)
                sums += [*self._zeros(rows), self._sums(rows, outer, depth, term)]
            for phase in along:
                stores += self._stores_of(rows, out, outer, (*depth, phase), result)
        # Stores come last, so that adjacent ones become one.
        stores.sort(key=_is_last)
        if not own:
            return Each((*outer, *axes), (*sums, Each((columns,), tuple(stores))), locals=tuple(tensors))
        loops = Each(axes, tuple(sums)), Each((*axes, columns), tuple(stores))
        return Each(tuple(outer), loops, locals=tuple(tensors))

    def _zeros(self, rows: SumRows) -> list[Item]:
        """Return the items that write the ends of rows of sums."""
        left, right = self._ends
        items: list[Item] = []
        for side, first, size in (("left", 0, left), ("right", self._length - right, right)):
            name = f"{rows.tensor.name}.{side}"
            place, axis = TreeAxis(f"{name}.place", self._rows), TreeAxis(name, size)
            if size:
                items.append(Each((place, axis), (rows.store(place, axis + first, Const(0.0)),)))
        return items

    def _sums(
        self, rows: SumRows, outer: Sequence[TreeAxis], depth: Sequence[WindowPhase], term: Term
    ) -> Each:
        """Return the sums over the rows of windows containing a source row, for each column of windows."""
        name = rows.tensor.name
        column, place = TreeAxis(f"{name}.column", self.diff_dst.dims[-1]), TreeAxis(f"{name}.at", self._rows)
        index: Index = (*outer, *(phase.output for phase in depth), column)
        guards = tuple(guard for phase in depth for guard in phase.guards)
        taps = tuple(axis for phase in depth for axis in phase.taps)
        is_short = self._rows <= _WRITTEN_OUT
        places = [Affine((), number) for number in range(self._rows)] if is_short else [place + 0]
        folds: list[Item] = []
        stores: list[Item] = []
        for number, at in enumerate(places):
            value = term(index, [*(phase.tap for phase in depth), at])
            folds.append(Each(taps, (fold_over("sum", f"{name}.{number}", value),), guards))
            stores.append(rows.store(at, column + self._ends[0], Ref(f"{name}.{number}")))
        return Each((column,) if is_short else (place, column), (*folds, *stores))

    def _stores_of(
        self,
        rows: SumRows | None,
        out: TreeTensor,
        outer: Sequence[TreeAxis],
        phases: Sequence[WindowPhase],
        result: Callable[[Expr], Expr],
    ) -> list[Item]:
        """Return the items that write the positions of a phase of each dim."""
        value: Expr = Const(0.0)
        items: list[Item] = []
        last = phases[-1]
        if rows is not None and last.taps:
            (tap,) = last.taps
            places = (last.tap if self.is_max else Affine(), last.output + self._ends[0])
            if tap.extent <= _WRITTEN_OUT:
                numbers = ({tap.name: Affine((), number)} for number in range(tap.extent))
                total = _sum_of([rows.load(*(place.with_axes(at) for place in places)) for at in numbers])
            else:
                name = f"total.{rows.tensor.name}.{last.source.constant}"
                items.append(Each((tap,), (fold_over("sum", name, rows.load(*places)),)))
                total = Ref(name)
            value = result(total)
        store = out.store((*outer, *(phase.source for phase in phases)), value)
        guards = tuple(guard for phase in phases for guard in phase.inside)
        return [*items, Each((), (store,), guards) if guards else store]


def _sum_of(values: Sequence[Expr]) -> Expr:
    total = values[0]
    for value in values[1:]:
        total = total + value
    return total


def _is_last(item: Item) -> bool:
    """Return whether an item is a store, possibly guarded, and not the loop of a sum."""
    return not (isinstance(item, Each) and item.folds)
