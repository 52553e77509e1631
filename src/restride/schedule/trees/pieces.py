"""Axes cut into pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...ir.expression import Affine, TreeAxis
from ...ir.tree import Each, LoopTree, loads_in
from ..language import Schedule, Transform


class AxisPieces(NamedTuple):
    """Axes cut into pieces: axes of pieces, axes within one, and the number of positions of each cut.

    An axis `c` that is cut becomes `c.block` and `c.place`, as the transform `block` names them.
    """

    outside: tuple[TreeAxis, ...]
    inside: tuple[TreeAxis, ...]
    cuts: tuple[tuple[str, int], ...]

    @property
    def moved(self) -> dict[str, Affine]:
        """Return the expressions that replace the axes that are cut."""
        return {name: Affine(((f"{name}.block", length), (f"{name}.place", 1))) for name, length in self.cuts}

    @property
    def transforms(self) -> Schedule:
        """Return the transforms that cut them."""
        return tuple(Transform("block", cut) for cut in self.cuts)


def pieces_of(axes: Sequence[TreeAxis], most: int) -> AxisPieces:
    """Cut axes into pieces of at most this many positions, which divide their extents."""
    outside: list[TreeAxis] = []
    inside: list[TreeAxis] = []
    cuts: list[tuple[str, int]] = []
    size = 1
    for axis in reversed(axes):
        length = _divisor(axis.extent, max(most // size, 1))
        size *= length
        _cut(axis, length, outside, inside, cuts)
    return AxisPieces(tuple(reversed(outside)), tuple(reversed(inside)), tuple(cuts))


def pieces_with_a_rest(axes: Sequence[TreeAxis], most: int) -> AxisPieces:
    """Do the same with pieces of nearly `most` positions whatever the extents: the last piece of the one axis
    that is cut can be shorter, which needs a guard.
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
    even = (each for each in range(room, room // 2, -1) if last.extent % each == 0)
    length = last.extent if count == 1 else next(even, -(-last.extent // count))
    first: list[TreeAxis] = []
    cuts: list[tuple[str, int]] = []
    _cut(last, length, outside, first, cuts)
    return AxisPieces(tuple(outside), (*first, *inside), tuple(cuts))


def _cut(
    axis: TreeAxis, length: int, outside: list[TreeAxis], inside: list[TreeAxis], cuts: list[tuple[str, int]]
) -> None:
    """Add an axis, or its pieces, to the result."""
    if length == axis.extent:
        inside.append(axis)
    elif length == 1:
        outside.append(axis)
    else:
        outside.append(TreeAxis(f"{axis.name}.block", -(-axis.extent // length)))
        inside.append(TreeAxis(f"{axis.name}.place", length))
        cuts.append((axis.name, length))


def _divisor(number: int, most: int) -> int:
    return next(each for each in range(min(number, most), 0, -1) if number % each == 0) if number else 1


def step_along(axis: TreeAxis, inner: Each, tree: LoopTree) -> int:
    """Return the distance between positions of an axis, in the first tensor that it moves through."""
    for load in loads_in(inner.items):
        digits = tree.tensor(load.tensor).digits
        steps = [of[0].stride for of, at in zip(digits, load.index, strict=True) if at.axis == axis.name]
        if steps:
            return steps[0]
    return 0
