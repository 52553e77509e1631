"""A layout walked from its lowest offset to its highest, one run of the innermost level at a time.

Long walks leave lines out, so that the cost does not grow with the layout: of every level the first few
positions are kept and, as far as that goes, the last one, where padding lies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

from ..desc.layout import Layout, LayoutDigit, layout_digits


class WalkLine(NamedTuple):
    """One run: where it starts, in elements and as a position, and how it follows the line before it.

    `changed` is the outermost level that moved on (None for the first line), `skipped` the lines left out.
    """

    offset: int
    position: tuple[int, ...]
    changed: int | None
    skipped: int


@dataclass(frozen=True, slots=True)
class Walk:
    """`row` is the level along a line; `outer` are those that tell lines apart, the slowest first.

    `is_block[i]` says that a step of `outer[i]` ends a block. Axes that run backwards are walked from their
    end: their weights are negative, and `offset` and `position` are where the lowest element lies.
    """

    offset: int
    position: tuple[int, ...]
    outer: tuple[LayoutDigit, ...]
    row: LayoutDigit
    is_block: tuple[bool, ...]

    @classmethod
    def over(cls, layout: Layout) -> Walk:
        """The walk over a layout that has elements."""
        found = layout_digits(layout)
        ordered = [*(found[d] for d in layout.outer_order), *found[len(layout.dims) :]]
        grown = [level for level in ordered if level.extent > 1] or ordered[-1:]
        position, offset = [0] * len(layout.dims), layout.offset0
        for level in grown:
            if level.stride < 0:
                position[level.axis] += (level.extent - 1) * level.weight
                offset += (level.extent - 1) * level.stride
        *outer, row = (_forwards(level) for level in grown)
        inner = len(layout.inner_blks)
        blocked = range(len(layout.dims)) if inner > 1 else layout.inner_idxs
        outermost = [level for level in ordered[: len(layout.dims)] if level.extent > 1]
        ends = (i < len(outermost) and level.axis in blocked for i, level in enumerate(outer))
        return cls(offset, tuple(position), tuple(outer), row, tuple(ends))

    def lines(self, most: int) -> Iterator[WalkLine]:
        """The lines from low offsets to high: about `most` of them at most, the first and last among them."""
        extents = [level.extent for level in self.outer]
        last = tuple(n - 1 for n in extents)
        before: tuple[int, ...] | None = None
        for digits in product(*(some(n, k) for n, k in zip(extents, budget(extents, most), strict=True))):
            yield self._line(digits, before, extents)
            before = digits
        if before is not None and before != last:
            yield self._line(last, before, extents)

    def _line(self, digits: Sequence[int], before: Sequence[int] | None, extents: Sequence[int]) -> WalkLine:
        changed, skipped = (None, 0) if before is None else _step(before, digits, extents)
        return WalkLine(*self._start(digits), changed, skipped)

    def _start(self, digits: Sequence[int]) -> tuple[int, tuple[int, ...]]:
        position, offset = list(self.position), self.offset
        for level, digit in zip(self.outer, digits, strict=True):
            position[level.axis] += digit * level.weight
            offset += digit * level.stride
        return offset, tuple(position)


def _forwards(level: LayoutDigit) -> LayoutDigit:
    if level.stride >= 0:
        return level
    return level._replace(weight=-level.weight, stride=-level.stride)


def _step(before: Sequence[int], after: Sequence[int], extents: Sequence[int]) -> tuple[int, int]:
    """The outermost digit that differs, and how many lines lie between the two."""
    changed = next(i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b)
    sizes = [prod(extents[i + 1 :]) for i in range(len(extents))]
    apart = sum((b - a) * size for a, b, size in zip(before, after, sizes, strict=True))
    return changed, apart - 1


def budget(extents: Sequence[int], most: int) -> list[int]:
    """How many positions of each level to keep, so that their product is at most `most`.

    Every level gets its first and last position as far as that goes, then the innermost grow first.
    """
    kept = [1] * len(extents)
    for ends in (True, False):
        for i in reversed(range(len(extents))):
            rest = prod(kept) // kept[i]
            kept[i] = max(kept[i], min(extents[i], most // rest, 2 if ends else most))
    return kept


def some(extent: int, count: int) -> list[int]:
    """`count` of the positions 0..extent-1: the first ones and the last."""
    if count >= extent:
        return list(range(extent))
    return [*range(count - 1), extent - 1] if count > 1 else [0]
