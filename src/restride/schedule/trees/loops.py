"""The loops of a tree: the digits of the axes, their order, and which of them are contiguous.

1. An axis becomes digits, the coarsest that are strides in all tensors (`digits_of`): a channel of `nChw16c`
   is a number of a block, and one of 16 positions.
2. An index of several axes, `g * 4 + k`, also has digits if blocks nest with it. Any other index, such as a
   window over a blocked dim, is computed at run time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...ir.accesses import Access, accesses_of, coordinates_of, items_of
from ...ir.digits import IndexDigit, IndexDigits, digits_of, stride_at
from ...ir.expression import Affine, Index, Load, TreeAxis
from ...ir.tree import Each, LoopTree, Store, TreeTensor
from .plan import AxisLimits, EachPlan, Grid, TreeDigit, TreeSchedule, axis_digits, fused_digits


class TreeLoops:
    """The loops of one tree, and the digits of their axes."""

    def __init__(self, tree: LoopTree) -> None:
        self.tree = tree
        names = {tensor.name for tensor in tree.tensors}
        self.tensors = {tensor.name: tensor for tensor in tree.tensors}
        for item in items_of(tree.items):
            if isinstance(item, Each):
                self.tensors |= {tensor.name: tensor for tensor in item.locals}
        self.locals = set(self.tensors) - names
        self.widths = {
            name: (tree.row_type(tensor) if name in self.locals else tensor.data_type).bits
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
        # An element used as an index has a separate access to its tensor.
        computed = [access[1][dim] for access, dims in self.computed.items() for dim in dims]
        indices += [at for at in computed if isinstance(at, Affine)]
        self.read_axes = frozenset(name for index in indices for name, _ in index.terms)
        self.uncovered = self._uncovered()

    def scheduled(self, plan: EachPlan, grid: Grid) -> TreeSchedule:
        """Return the tree with a plan of its loops."""
        return TreeSchedule(
            self.tree, plan, grid, self.tensors, self.computed, self.read_axes, self.uncovered
        )

    def _computed_dims(self, access: Access) -> tuple[int, ...]:
        """Return the dims whose index is computed at run time."""
        pairs = zip(self.tensors[access[0]].digits, access[1], strict=True)
        return tuple(
            dim for dim, (digits, at) in enumerate(pairs) if axis_digits(digits, at, self.extents) is None
        )

    def _uncovered(self) -> tuple[str, ...]:
        """Return tensors with padding that some store skips: all of it is zeroed before the loops."""
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

    def extents_inside(self, each: Each, outer: Mapping[str, int]) -> dict[str, int]:
        """Return the extents of all axes of a loop, of those around it and of those inside."""
        loops = (item for item in items_of((each,)) if isinstance(item, Each))
        return {**outer, **{axis.name: axis.extent for loop in loops for axis in loop.axes}}

    def _covers(self, tensor: TreeTensor, dim: int, index: Index, extents: dict[str, int]) -> bool:
        if isinstance(index, Load):
            return tensor.sizes == tensor.padded
        size, padded = tensor.sizes[dim], tensor.padded[dim]
        return size == padded or self._padded_axis(tensor, dim, index, extents) is not None

    def _padded_axis(
        self, tensor: TreeTensor, dim: int, index: Index, extents: dict[str, int]
    ) -> tuple[str, int] | None:
        """Return the axis along which a store writes the zeros past a dim's last index, and up to where."""
        moves = axis_digits(tensor.digits[dim], index, extents)
        if isinstance(index, Load) or not index.terms or moves is None or index.constant:
            return None
        name, factor = max(index.terms, key=lambda term: term[1])
        whole = factor * extents[name] == tensor.sizes[dim]
        return (name, tensor.padded[dim] // factor) if whole and tensor.padded[dim] % factor == 0 else None

    def all_digits(
        self, each: Each, extents: Mapping[str, int], cuts: Mapping[str, Sequence[int]] | None = None
    ) -> tuple[list[TreeDigit], tuple[tuple[str, AxisLimits], ...]]:
        """Return the digits of all axes of a loop, and the limits of those that they do not cover exactly."""
        inside, items = self.extents_inside(each, extents), list(items_of((each,)))
        accesses = tuple(dict.fromkeys(access for item in items for access in accesses_of(item)))
        stores = [item for item in items if isinstance(item, Store) and item.tensor not in self.uncovered]
        found = [
            (axis, *self.digits(axis, accesses, stores, inside, (cuts or {}).get(axis.name, ())))
            for axis in each.axes
        ]
        limits = tuple((axis.name, limit) for axis, _, limit in found if limit is not None)
        return [digit for _, digits, _ in found for digit in digits], limits

    def ordered(self, digits: Sequence[TreeDigit]) -> tuple[TreeDigit, ...]:
        """Order digits by distance in memory, farthest first; digits of axes with limits stay in order."""
        order = sorted(digits, key=lambda digit: -digit.reach(self.widths))
        for bound in {digit.bound for digit in digits if digit.bound}:
            places = [place for place, digit in enumerate(order) if digit.bound == bound]
            of_axis = sorted((order[place] for place in places), key=lambda digit: -digit.steps[0][1])
            for place, digit in zip(places, of_axis, strict=True):
                order[place] = digit
        return tuple(order)

    def fused(
        self, order: tuple[TreeDigit, ...], bounded: frozenset[str], each: Each | None = None
    ) -> tuple[TreeDigit, ...]:
        """Merge contiguous digits; accesses that `each`, a loop without inner ones, only reads can stay
        in place along the inner digit.
        """
        items = each.items if each is not None else ()
        accesses = (access for item in items for access in accesses_of(item))
        written = {(item.tensor, item.index) for item in items if isinstance(item, Store)}
        is_innermost = not any(isinstance(item, Each) for item in items)
        stays = frozenset(accesses) - written if is_innermost else frozenset()
        fused: tuple[TreeDigit, ...] = ()
        while order:
            order = fused_digits(order, bounded, self.read_axes, frozenset(), stays)
            fused, order = (*fused, order[0]), order[1:]
        return fused

    def digits(
        self,
        axis: TreeAxis,
        accesses: Sequence[Access],
        stores: Sequence[Store],
        extents: dict[str, int],
        cuts: Sequence[int],
    ) -> tuple[list[TreeDigit], AxisLimits | None]:
        """Return the digits of one axis, outermost first, and its limits if they do not cover it exactly.

        They are the coarsest that are strides in all tensors, cut further after these numbers of positions.
        """
        sides: dict[Access, IndexDigits] = {}
        pads: dict[str, int] = {}
        for access in accesses:
            moves = self._moves(axis.name, access, extents)
            if moves:
                sides[access] = moves
        for store in stores:
            tensor = self.tensors[store.tensor]
            for dim, index in enumerate(store.index):
                padded = self._padded_axis(tensor, dim, index, extents)
                if padded is not None and padded[0] == axis.name and padded[1] > axis.extent:
                    pads[store.tensor] = padded[1]
        end = max([axis.extent, *pads.values()])
        none = (IndexDigit(1, 0),)
        wanted = (none, *((*none, IndexDigit(step, 0)) for step in cuts if 1 < step < end))
        cut = digits_of([none, none, *sides.values(), *wanted], end)
        is_exact = not pads and cut[0].extent * cut[0].step == axis.extent
        digits = [
            TreeDigit(
                part.extent,
                ((axis.name, part.step),),
                tuple(zip(sides, part.more, strict=False)),
                "" if is_exact else axis.name,
            )
            for part in cut
        ]
        return digits, None if is_exact else AxisLimits(axis.extent, tuple(pads.items()))

    def _moves(self, name: str, access: Access, extents: dict[str, int]) -> IndexDigits:
        """Return how an axis moves an access, over all dims that it indexes; empty if it does not.

        Dims whose index is computed at run time are excluded.
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
        # A diagonal: the steps of all dims, and the sum of their moves.
        steps = sorted({digit.step for digits in dims for digit in digits})
        return tuple(IndexDigit(step, sum(stride_at(digits, step) for digits in dims)) for step in steps)
