"""The items of a loop tree: what they read and write, and the indices that they need as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .expression import Affine, Apply, Coordinate, Index, Load, is_long, parts_of
from .tree import Each, Item, Store, values_of

Access = tuple[str, tuple[Index, ...]]
"""A tensor and an index of it."""


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


def coordinates_of(item: Item) -> Iterator[Affine]:
    """The indices that an item uses as numbers."""
    for value in values_of(item):
        for part in parts_of(value):
            if isinstance(part, Coordinate):
                yield part.index


def has_long_function(items: Sequence[Item]) -> bool:
    """True where a function of tens of operations is in one of the items, or inside of one."""
    values = (value for item in items_of(items) for value in values_of(item))
    parts = (part for value in values for part in parts_of(value))
    return any(isinstance(part, Apply) and is_long(part.op) for part in parts)
