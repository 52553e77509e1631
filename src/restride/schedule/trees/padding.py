"""Padding that a loop tree writes: axes for dims of one index, and nests of zeros that axes do not reach."""

from __future__ import annotations

from dataclasses import replace

from ...ir.accesses import items_of
from ...ir.digits import offset_at
from ...ir.expression import Affine, TreeAxis
from ...ir.nest import Axis, LoopNest
from ...ir.nest_rewrites import linear_table
from ...ir.tree import Each, Item, LoopTree, Store, TreeTensor


def with_axes_for_padding(tree: LoopTree) -> LoopTree:
    """Add an axis of one position for each dim of one index that has padding to be written."""
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
    """Return nests that write zeros to all places of a tensor without an index."""
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
