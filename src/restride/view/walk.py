"""A layout split into lines and columns, so that nested blocks are grids within grids.

Digits of a position, the levels, run across or down. In a plain layout only the innermost level runs across.
With nested inner blocks every other one does, from the innermost on: for `OIhw4i16o4i` a line has four groups
of four cells, and a block has sixteen lines. Lines enumerate all levels that run down, the slowest first.

Long walks omit lines and groups, so that the cost does not grow with the layout. Omitted parts look like
those shown: for every level the first positions, the last, and those where padding begins are kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

from ..desc.layout import BlockedLayout, LayoutDigit, layout_digits


class Elision(NamedTuple):
    """Omitted lines: how many, and which positions of an axis they are if they belong to one level."""

    lines: int
    axis: int | None = None
    first: int = 0
    last: int = 0


class WalkLine(NamedTuple):
    """One line: its start, in elements and as a position, and its relation to the line before it.

    `changed` is the outermost level that moved on (None for the first line).
    """

    offset: int
    position: tuple[int, ...]
    changed: int | None
    left_out: Elision | None


@dataclass(frozen=True, slots=True)
class Span:
    """Levels that are enumerated together, the slowest first; an ordinal is one digit of each.

    `turn` is the ordinal of the last digits that are not padding, in the last block.
    """

    levels: tuple[LayoutDigit, ...]
    turn: int

    @classmethod
    def over(cls, levels: Sequence[LayoutDigit], dims: Sequence[int]) -> Span:
        """Return the span of these levels of a tensor of `dims`."""
        turn = 0
        for level in levels:
            last = (dims[level.axis] - 1) // abs(level.weight) % level.extent
            turn = turn * level.extent + last
        return cls(tuple(levels), turn)

    @property
    def extent(self) -> int:
        """The number of ordinals; 1 if there is no level."""
        return prod(level.extent for level in self.levels)

    def digits(self, ordinal: int) -> tuple[int, ...]:
        """Return the digit of each level."""
        digits = []
        for level in reversed(self.levels):
            ordinal, digit = divmod(ordinal, level.extent)
            digits.append(digit)
        return tuple(reversed(digits))

    def kept(self, most: int) -> list[int]:
        """Return at most `most` ordinals (at least four): the first, the last, and where padding begins."""
        return some(self.extent, max(4, most), self.turn)


@dataclass(frozen=True, slots=True)
class Walk:
    """The levels of a non-empty layout, and the location of its lowest element.

    `outer` distinguishes blocks, or the lines of a plain layout, the slowest first; `inner` are the lines of
    a block; `groups` the groups of a line and `row` the cells of a group. `is_block[i]` is true if a step of
    `outer[i]` ends a block. Axes that run backwards are walked from their end: their weights are negative.
    """

    dims: tuple[int, ...]
    offset: int
    position: tuple[int, ...]
    outer: tuple[LayoutDigit, ...]
    inner: Span
    groups: Span
    row: Span
    is_block: tuple[bool, ...]

    @classmethod
    def over(cls, layout: BlockedLayout) -> Walk:
        """Return the walk over a non-empty layout."""
        dims, digits = layout.dims, layout_digits(layout)
        outermost = [digits[d] for d in layout.outer_order]
        position, offset = [0] * len(dims), layout.offset0
        for level in outermost:
            if level.stride < 0 and level.extent > 1:
                position[level.axis] += (level.extent - 1) * level.weight
                offset += (level.extent - 1) * level.stride
        outer = [_forwards(level) for level in outermost if level.extent > 1]
        inner = [level for level in digits[len(dims) :] if level.extent > 1]
        if not inner:
            inner = [outer.pop() if outer else digits[-1]]
        nested = len(layout.inner_blks) > 1
        # A step of an outer level restarts the blocks inside it.
        within = [{level.axis for level in outer[i:]} for i in range(len(outer))]
        ends = tuple(nested or not axes.isdisjoint(layout.inner_idxs) for axes in within)
        # From the innermost on, every other level runs across: 16o of 4i16o4i runs down.
        down, groups = inner[-2::-2][::-1], inner[-3::-2][::-1]
        return cls(
            dims,
            offset,
            tuple(position),
            tuple(outer),
            Span.over(down, dims),
            Span.over(groups, dims),
            Span.over(inner[-1:], dims),
            ends,
        )

    @property
    def down(self) -> tuple[LayoutDigit, ...]:
        """All levels that run down."""
        return self.outer + self.inner.levels

    @property
    def line_count(self) -> int:
        """The number of lines."""
        return prod(level.extent for level in self.down)

    def blocks(self, most: int) -> Iterator[tuple[int, ...]]:
        """Yield about `most` positions of the outer levels, including the first and the last.

        The ends of levels with padding take precedence: they look unlike the rest.
        """
        extents = [level.extent for level in self.outer]
        padded = [i for i, level in enumerate(self.outer) if self.dims[level.axis] % level.weight]
        digits: tuple[int, ...] = ()
        for digits in product(
            *(some(n, k) for n, k in zip(extents, budget(extents, most, padded), strict=True))
        ):
            yield digits
        last = tuple(n - 1 for n in extents)
        if digits != last:
            yield last

    def lines(self, most: int) -> Iterator[WalkLine]:
        """Yield the lines from low offsets to high: about `most` of them, shared among the blocks."""
        inner = [self.inner.digits(ordinal) for ordinal in self.inner.kept(most)]
        before: tuple[int, ...] | None = None
        for outer in self.blocks(max(1, most // len(inner))):
            for rest in inner:
                digits = outer + rest
                offset, position = self.place(self.down, digits)
                step = (None, None) if before is None else self._step(before, digits)
                yield WalkLine(offset, position, *step)
                before = digits

    def place(self, levels: Sequence[LayoutDigit], digits: Sequence[int]) -> tuple[int, tuple[int, ...]]:
        """Return the offset and the position at which these levels have those digits, and all others 0."""
        position, offset = list(self.position), self.offset
        for level, digit in zip(levels, digits, strict=True):
            position[level.axis] += digit * level.weight
            offset += digit * level.stride
        return offset, tuple(position)

    def in_group(self, position: Sequence[int], group: int) -> tuple[int, ...]:
        """Return the position at which a group of the line at that position begins."""
        here = list(position)
        for level, digit in zip(self.groups.levels, self.groups.digits(group), strict=True):
            here[level.axis] += digit * level.weight
        return tuple(here)

    def group_offset(self, group: int) -> int:
        """Return the distance of a group from the start of its line, in elements."""
        pairs = zip(self.groups.levels, self.groups.digits(group), strict=True)
        return sum(level.stride * digit for level, digit in pairs)

    def group_name(self, group: int, names: str) -> str:
        """Return `+64`: a group's distance from the start of its line; for another axis, `c1 +64`."""
        own = self.row.levels[0].axis
        others = dict.fromkeys(level.axis for level in self.groups.levels if level.axis != own)
        place = self.in_group([0] * len(self.dims), group)
        return "".join(f"{names[d]}{place[d]} " for d in others) + f"+{self.group_offset(group)}"

    def _step(self, before: Sequence[int], after: Sequence[int]) -> tuple[int, Elision | None]:
        """Return the outermost digit that differs, and the lines between the two."""
        extents = [level.extent for level in self.down]
        changed = next(i for i, (a, b) in enumerate(zip(before, after, strict=True)) if a != b)
        sizes = [prod(extents[i + 1 :]) for i in range(len(extents))]
        lines = sum((b - a) * size for a, b, size in zip(before, after, sizes, strict=True)) - 1
        if not lines:
            return changed, None
        inside = range(changed + 1, len(extents))
        if any(before[i] != extents[i] - 1 or after[i] for i in inside):
            return changed, Elision(lines)
        level, outer = self.down[changed], self.down[: changed + 1]
        first, last = (
            self.place(outer, (*before[:changed], digit))[1][level.axis]
            for digit in (before[changed] + 1, after[changed] - 1)
        )
        return changed, Elision(lines, level.axis, first, last + max(0, level.weight - 1))


def _forwards(level: LayoutDigit) -> LayoutDigit:
    if level.stride >= 0:
        return level
    return level._replace(weight=-level.weight, stride=-level.stride)


def budget(extents: Sequence[int], most: int, first: Sequence[int] = ()) -> list[int]:
    """Return the number of positions of each level to keep, so that their product is at most `most`.

    Every level gets its first and last position as far as possible, those in `first` before others; then the
    innermost grow first.
    """
    counts = [1] * len(extents)
    inwards = list(reversed(range(len(extents))))
    ends = [(i, 2) for i in (*(i for i in inwards if i in first), *inwards)]
    for i, count in (*ends, *((i, most) for i in inwards)):
        rest = prod(counts) // counts[i]
        counts[i] = max(counts[i], min(extents[i], most // rest, count))
    return counts


def some(extent: int, count: int, turn: int | None = None) -> list[int]:
    """Return `count` of the positions 0..extent-1: the first ones, the last, and `turn` and the next one."""
    if count >= extent:
        return list(range(extent))
    last = {extent - 1} if count > 1 else set()
    if turn is not None and count > 3:
        last |= {turn, min(turn + 1, extent - 1)}
    positions = set(last)
    at = 0
    while len(positions) < count:
        positions.add(at)
        at += 1
    return sorted(positions)


def gaps(ordinals: Sequence[int]) -> list[int | None]:
    """Return the ordinals, with None between two that are not consecutive."""
    marked: list[int | None] = []
    for ordinal in ordinals:
        if marked and ordinal != (marked[-1] or 0) + 1:
            marked.append(None)
        marked.append(ordinal)
    return marked
