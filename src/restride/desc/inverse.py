"""From offsets back to indices: the inverse of a layout, and whether it has one (M10, N8)."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from ..errors import Unimplemented
from .layout import Layout, levels

_MAX_STEPS = 100_000


class _Digit(NamedTuple):
    """An unknown integer between `least` and `most` that moves the offset by `stride` > 0 each."""

    stride: int
    least: int
    most: int


class _TooLongError(Exception):
    """The search for digits used up its steps; only strides that do not nest can do that."""


class _Sum:
    """Finds digits with `Σ digit * stride == target`, widest stride first.

    A digit is tried only where the narrower strides can make up for the rest: within reach, and divisible by
    their common divisor. For strides that nest that is one value each, so the search does not branch.
    """

    def __init__(self, digits: list[_Digit]) -> None:
        self.digits = digits
        self.low, self.high, self.common = [0], [0], [0]
        for digit in reversed(digits):
            self.low.insert(0, self.low[0] + digit.least * digit.stride)
            self.high.insert(0, self.high[0] + digit.most * digit.stride)
            self.common.insert(
                0, gcd(self.common[0], digit.stride) if digit.least < digit.most else self.common[0]
            )
        self.steps = 0

    def solve(self, target: int, depth: int = 0) -> tuple[int, ...] | None:
        """Digits from `depth` on that sum to `target`, or None where there are none."""
        self.steps += 1
        if self.steps > _MAX_STEPS:
            raise _TooLongError
        if depth == len(self.digits):
            return () if target == 0 else None
        for value in self.choices(target, depth):
            rest = self.solve(target - value * self.digits[depth].stride, depth + 1)
            if rest is not None:
                return (value, *rest)
        return None

    def choices(self, target: int, depth: int) -> range:
        """The values of one digit that leave a rest which the later ones may reach."""
        digit, after = self.digits[depth], depth + 1
        least = max(digit.least, -((self.high[after] - target) // digit.stride))
        most = min(digit.most, (target - self.low[after]) // digit.stride)
        shared = gcd(self.common[after], digit.stride)
        if target % shared:
            return range(0)
        period = max(1, self.common[after] // shared)
        first = target // shared * pow(digit.stride // shared, -1, period) if period > 1 else 0
        return range(least + (first - least) % period, most + 1, period)


def index_of(layout: Layout, offset: int) -> tuple[int, ...] | None:
    """The logical index whose element lies at `offset`; None for padding, gaps, and outside.

    Raises Unimplemented where overlapping strides make the search too long.
    """
    if 0 in layout.dims:
        return None
    found = sorted((level for level in levels(layout) if level.stride), key=lambda level: -abs(level.stride))
    backwards = sum((level.extent - 1) * level.stride for level in found if level.stride < 0)
    search = _Sum([_Digit(abs(level.stride), 0, level.extent - 1) for level in found])
    try:
        digits = search.solve(offset - layout.offset0 - backwards)
    except _TooLongError:
        raise Unimplemented(
            "MemoryDesc.index: too many overlapping strides",
            code="RS-L01",
            where=str(layout.strides),
            why="more places than can be searched may hold the element",
            hint="ask a descriptor whose strides nest",
        ) from None
    if digits is None:
        return None
    position = [0] * len(layout.dims)
    for level, digit in zip(found, digits, strict=True):
        position[level.axis] += level.weight * (digit if level.stride > 0 else level.extent - 1 - digit)
    return tuple(position) if all(i < n for i, n in zip(position, layout.dims, strict=True)) else None


def is_injective(layout: Layout) -> bool:
    """True where no two positions, padding included, share an offset.

    Two positions clash when differences of digits, not all zero, sum to offset 0. Strides that nest cannot;
    for others the differences are searched. A search that would run too long counts as a clash.
    """
    found = [level for level in levels(layout) if level.extent > 1]
    if 0 in layout.dims:
        return True
    if any(level.stride == 0 for level in found):
        return False
    steps = sorted(((abs(level.stride), level.extent) for level in found), reverse=True)
    search = _Sum([_Digit(stride, 1 - extent, extent - 1) for stride, extent in steps])
    try:
        return not any(_clashes_from(search, depth) for depth in range(len(steps)))
    except _TooLongError:
        return False


def _clashes_from(search: _Sum, depth: int) -> bool:
    """True where differences exist that start at `depth`; by symmetry that one may be positive."""
    digit = search.digits[depth]
    if digit.stride > search.high[depth + 1]:
        return False
    values = (value for value in search.choices(0, depth) if value > 0)
    return any(search.solve(-value * digit.stride, depth + 1) is not None for value in values)
