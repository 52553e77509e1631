"""Axes cut into pieces, and items by the axes that come of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from ...ir.expression import Affine, Apply, Coordinate, Expr, Load, TreeAxis, parts_of
from ...ir.tree import Each, Fold, Guard, Item, Let, LoopTree, Store, values_of


class AxisPieces(NamedTuple):
    """Axes of pieces, axes within one, what the old axes have become, and guards against what is outside."""

    outside: tuple[TreeAxis, ...]
    inside: tuple[TreeAxis, ...]
    moved: dict[str, Affine]
    guards: tuple[Guard, ...]


def pieces_of(
    axes: Sequence[TreeAxis], most: int
) -> tuple[tuple[TreeAxis, ...], tuple[TreeAxis, ...], dict[str, Affine]]:
    """Axes cut into pieces of so many positions at most: axes of pieces, axes within one, and what the old
    axes have become.
    """
    outside: list[TreeAxis] = []
    inside: list[TreeAxis] = []
    moved: dict[str, Affine] = {}
    size = 1
    for axis in reversed(axes):
        length = _divisor(axis.extent, max(most // size, 1))
        size *= length
        if length == axis.extent:
            inside.insert(0, axis)
        elif length == 1:
            outside.insert(0, axis)
        else:
            piece, rest = TreeAxis(f"{axis.name}.piece", axis.extent // length), TreeAxis(axis.name, length)
            moved[axis.name] = piece * length + rest
            outside.insert(0, piece)
            inside.insert(0, rest)
    return tuple(outside), tuple(inside), moved


def pieces_with_a_rest(axes: Sequence[TreeAxis], most: int) -> AxisPieces:
    """The same with pieces of nearly so many positions whatever the extents are: of the one axis that is cut
    the last piece may be a shorter one, for which there is a guard.
    """
    inside: list[TreeAxis] = []
    size = 1
    *outside, last = axes
    while last.extent * size <= most and outside:
        inside.insert(0, last)
        size *= last.extent
        last = outside.pop()
    room = max(most // size, 1)
    count = -(-last.extent // room)
    if count == 1:
        return AxisPieces(tuple(outside), (last, *inside), {}, ())
    even = (each for each in range(room, room // 2, -1) if last.extent % each == 0)
    length = next(even, -(-last.extent // count))
    if length == 1:
        return AxisPieces((*outside, last), tuple(inside), {}, ())
    piece, rest = TreeAxis(f"{last.name}.piece", -(-last.extent // length)), TreeAxis(last.name, length)
    index = piece * length + rest
    guards = (Guard(index, last.extent),) if piece.extent * length > last.extent else ()
    return AxisPieces((*outside, piece), (rest, *inside), {last.name: index}, guards)


def _divisor(number: int, most: int) -> int:
    return next(each for each in range(min(number, most), 0, -1) if number % each == 0) if number else 1


def step_along(axis: TreeAxis, inner: Each, tree: LoopTree) -> int:
    """How far one position of an axis is from the next, in the first tensor that it moves through."""
    parts = (part for item in inner.items for value in values_of(item) for part in parts_of(value))
    for part in parts:
        if isinstance(part, Load):
            digits = tree.tensor(part.tensor).digits
            steps = [of[0].stride for of, at in zip(digits, part.index, strict=True) if at.axis == axis.name]
            if steps:
                return steps[0]
    return 0


def with_axes(item: Item, by: Mapping[str, Affine]) -> Item:
    """An item whose values and places are by other axes."""
    if isinstance(item, Let):
        return replace(item, value=_value(item.value, by))
    if isinstance(item, Fold):
        return replace(item, values=tuple(_value(value, by) for value in item.values))
    if isinstance(item, Store):
        index = tuple(at.with_axes(by) for at in item.index)
        return replace(item, index=index, value=_value(item.value, by))
    guards = tuple(Guard(guard.index.with_axes(by), guard.size) for guard in item.guards)
    return replace(item, items=tuple(with_axes(each, by) for each in item.items), guards=guards)


def _value(expr: Expr, by: Mapping[str, Affine]) -> Expr:
    if isinstance(expr, Load):
        return replace(expr, index=tuple(at.with_axes(by) for at in expr.index))
    if isinstance(expr, Coordinate):
        return Coordinate(expr.index.with_axes(by))
    if isinstance(expr, Apply):
        return replace(expr, args=tuple(_value(arg, by) for arg in expr.args))
    return expr
