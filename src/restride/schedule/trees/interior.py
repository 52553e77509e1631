"""The positions of a loop at which the guards of inner loops always hold, so that they need no test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ...ir.tree import Each, Guard


def interior(
    each: Each, axis: str, extents: Mapping[str, int], span: tuple[int, int]
) -> tuple[int, int, frozenset[Guard]]:
    """Return the part of a span of an axis where the guards of the loops in `each` hold, and these guards.

    They hold at all positions of the other axes in their indices. `extents`: those of all axes.

    >>> from restride.ir.expression import Affine, TreeAxis
    >>> guard = Guard(Affine((("ow", 2), ("kw", 1)), -1), 7)          # 0 <= 2 * ow + kw - 1 < 7
    >>> outer = Each((TreeAxis("ow", 4),), (Each((TreeAxis("kw", 3),), (), (guard,)),))
    >>> interior(outer, "ow", {"ow": 4, "kw": 3}, (0, 4))[:2]
    (1, 3)
    """
    low, high = span
    found = []
    for guard in _guards_inside(each):
        factor = dict(guard.index.terms).get(axis, 0)
        if not factor or guard.index.divisor != 1:
            continue
        first, last = _positions(guard, axis, factor, extents)
        low, high = max(low, first), min(high, last)
        found.append(guard)
    return low, high, frozenset(found)


def guarded_axes(each: Each) -> tuple[str, ...]:
    """Return the axes of a loop that guards of inner loops depend on, without a divisor."""
    names = {
        name for guard in _guards_inside(each) if guard.index.divisor == 1 for name, _ in guard.index.terms
    }
    return tuple(axis.name for axis in each.axes if axis.name in names)


def _guards_inside(each: Each) -> Iterator[Guard]:
    for item in each.items:
        if isinstance(item, Each):
            yield from item.guards
            yield from _guards_inside(item)


def _positions(guard: Guard, axis: str, factor: int, extents: Mapping[str, int]) -> tuple[int, int]:
    """Return the first position of an axis, and one past the last, where a guard holds for all others."""
    others = [(extents[name] - 1) * each for name, each in guard.index.terms if name != axis]
    least = guard.index.constant + sum(min(other, 0) for other in others)
    most = guard.index.constant + sum(max(other, 0) for other in others)
    # 0 <= factor * position + least, and factor * position + most <= size - 1.
    if factor > 0:
        return -(least // factor), (guard.size - 1 - most) // factor + 1
    return -((guard.size - 1 - most) // -factor), least // -factor + 1
