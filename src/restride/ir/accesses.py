"""The items of a loop tree: the elements they read and write, and the indices they use as numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from .expression import Affine, Apply, Coordinate, Expr, Index, Load, is_long
from .tree import Each, Fold, Guard, Item, Let, Store, loads_in, parts_in

_Item = TypeVar("_Item", Each, Let, Fold, Store, Item)

Access = tuple[str, tuple[Index, ...]]
"""A tensor and an index into it."""


def items_of(items: Sequence[Item]) -> Iterator[Item]:
    """Yield items, including nested ones."""
    for item in items:
        yield item
        if isinstance(item, Each):
            yield from items_of(item.items)


def accesses_of(item: Item) -> Iterator[Access]:
    """Yield the accesses of one item itself."""
    for load in loads_in((item,)):
        yield load.tensor, load.index
    if isinstance(item, Store):
        yield item.tensor, item.index


def coordinates_of(item: Item) -> Iterator[Affine]:
    """Yield the indices that an item uses as numbers."""
    return (part.index for part in parts_in((item,)) if isinstance(part, Coordinate))


def has_long_function(items: Sequence[Item]) -> bool:
    """Return whether items, including nested ones, call a function of tens of operations."""
    return any(isinstance(part, Apply) and is_long(part.op) for part in parts_in(items_of(items)))


def with_values(item: _Item, change: Callable[[Expr], Expr]) -> _Item:
    """Return an item with `change` applied to each number, name, load and index in its values."""
    if isinstance(item, Each):
        return replace(item, items=tuple(with_values(each, change) for each in item.items))
    if isinstance(item, Fold):
        return replace(item, values=tuple(_changed(value, change) for value in item.values))
    return replace(item, value=_changed(item.value, change))


def _changed(expr: Expr, change: Callable[[Expr], Expr]) -> Expr:
    if isinstance(expr, Apply):
        return replace(expr, args=tuple(_changed(arg, change) for arg in expr.args))
    return change(expr)


def with_indices(item: _Item, change: Callable[[Affine], Affine]) -> _Item:
    """Return an item with `change` applied to each index, including those of guards."""

    def load(old: Load) -> Load:
        return replace(old, index=tuple(map(moved, old.index)))

    def moved(index: Index) -> Index:
        return load(index) if isinstance(index, Load) else change(index)

    def changed(leaf: Expr) -> Expr:
        if isinstance(leaf, Coordinate):
            return Coordinate(change(leaf.index))
        return load(leaf) if isinstance(leaf, Load) else leaf

    if isinstance(item, Each):
        guards = tuple(Guard(change(guard.index), guard.size) for guard in item.guards)
        return replace(item, items=tuple(with_indices(each, change) for each in item.items), guards=guards)
    item = with_values(item, changed)
    return replace(item, index=tuple(map(moved, item.index))) if isinstance(item, Store) else item
