"""From offsets back to indices: the inverse of a layout, and whether it has one (M10, N8)."""

from __future__ import annotations

from math import gcd

from .layout import Layout, Level, levels

_MAX_STEPS = 200_000


def index_of(layout: Layout, offset: int) -> tuple[int, ...] | None:
    """The logical index whose element lies at `offset`; None for padding, gaps, and outside.

    Digits are found from the widest stride down, keeping the rest within reach of the narrower ones; for strides that
    nest there is one choice at each.
    """
    if 0 in layout.dims:
        return None
    digits = _Digits(layout)
    position = digits.find(offset - layout.offset0)
    if position is None or any(i >= n for i, n in zip(position, layout.dims, strict=True)):
        return None
    return position


class _Digits:
    """Search for digits whose offsets sum to a target; negative strides are counted from their far end."""

    def __init__(self, layout: Layout) -> None:
        self.ndims = len(layout.dims)
        self.levels = sorted(levels(layout), key=lambda level: -abs(level.stride))
        self.shift = sum(min(0, (level.extent - 1) * level.stride) for level in self.levels)
        self.reach, self.common = _rest_of(self.levels)
        self.dead: set[tuple[int, int]] = set()

    def find(self, target: int) -> tuple[int, ...] | None:
        digits = self._search(0, target - self.shift)
        if digits is None:
            return None
        position = [0] * self.ndims
        for level, digit in zip(self.levels, digits, strict=True):
            steps = digit if level.stride >= 0 else level.extent - 1 - digit
            position[level.axis] += steps * level.weight
        return tuple(position)

    def _search(self, depth: int, target: int) -> tuple[int, ...] | None:
        if depth == len(self.levels):
            return () if target == 0 else None
        if (depth, target) in self.dead or not 0 <= target <= self.reach[depth]:
            return None
        for digit in self._choices(depth, target):
            tail = self._search(depth + 1, target - digit * abs(self.levels[depth].stride))
            if tail is not None:
                return (digit, *tail)
        self.dead.add((depth, target))
        return None

    def _choices(self, depth: int, target: int) -> range:
        level, stride = self.levels[depth], abs(self.levels[depth].stride)
        if stride == 0:
            return range(1)
        least = max(0, -(-(target - self.reach[depth + 1]) // stride))
        return range(least, min(level.extent - 1, target // stride) + 1)


def _rest_of(found: list[Level]) -> tuple[list[int], list[int]]:
    """For each depth, the largest sum that the levels from there on can reach, and the divisor of all such sums."""
    reach, common = [0], [0]
    for level in reversed(found):
        reach.append(reach[-1] + (level.extent - 1) * abs(level.stride))
        common.append(gcd(common[-1], level.stride) if level.extent > 1 else common[-1])
    return reach[::-1], common[::-1]


def is_injective(layout: Layout) -> bool:
    """True where no two positions, padding included, share an offset.

    Two positions clash when some digit differences, not all zero, sum to offset 0. Strides that nest cannot; for
    others the differences are searched, widest stride first, in steps that the narrower strides can make up for.
    A search that would run too long counts as a clash.
    """
    found = [level for level in levels(layout) if level.extent > 1]
    if 0 in layout.dims:
        return True
    if any(level.stride == 0 for level in found):
        return False
    found.sort(key=lambda level: -abs(level.stride))
    return _Clash(found).absent()


class _Clash:
    """Search for digit differences, not all zero, whose offsets sum to zero."""

    def __init__(self, found: list[Level]) -> None:
        self.levels = found
        self.reach, self.common = _rest_of(found)
        self.steps = 0

    def absent(self) -> bool:
        """True where there are none. By symmetry the first nonzero difference may be taken positive."""
        for depth, level in enumerate(self.levels):
            if abs(level.stride) <= self.reach[depth + 1] and self._starts_here(depth):
                return False
        return True

    def _starts_here(self, depth: int) -> bool:
        stride = abs(self.levels[depth].stride)
        least = self.common[depth + 1] // gcd(self.common[depth + 1], stride)
        most = min(self.levels[depth].extent - 1, self.reach[depth + 1] // stride)
        return any(self._sums_to(depth + 1, digit * stride) for digit in range(least, most + 1, least))

    def _sums_to(self, depth: int, target: int) -> bool:
        """True where differences from `depth` on can sum to `target` (or its negative: the set is symmetric)."""
        self.steps += 1
        if self.steps > _MAX_STEPS:
            return True
        if depth == len(self.levels):
            return target == 0
        if abs(target) > self.reach[depth] or target % self.common[depth]:
            return False
        return any(
            self._sums_to(depth + 1, target - digit * abs(self.levels[depth].stride))
            for digit in self._differences(depth, target)
        )

    def _differences(self, depth: int, target: int) -> range:
        """Digits that leave a rest within the reach of the narrower strides and divisible by their divisor."""
        level, stride = self.levels[depth], abs(self.levels[depth].stride)
        rest, common = self.reach[depth + 1], self.common[depth + 1]
        least = max(1 - level.extent, -((rest - target) // stride))
        most = min(level.extent - 1, (target + rest) // stride)
        if common == 0:
            return range(least, most + 1)
        period = common // gcd(common, stride)
        first = target // gcd(common, stride) * pow(stride // gcd(common, stride), -1, period) % period
        return range(least + (first - least) % period, most + 1, period)
