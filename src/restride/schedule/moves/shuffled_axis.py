"""The axis that a shuffle exchanges: its digits, cut at the borders of blocks and groups."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import gcd

from ...errors import refuse
from ...ir.digits import IndexDigits, offsets, stride_at
from ...ir.nest import Axis

# The most runs of channels that an axis can list in a table, if blocks and factors do not nest.
_LONGEST_TABLE = 1 << 18


@dataclass(frozen=True, slots=True)
class ShuffledAxis:
    """The shuffled axis: its size, without and with padding, the columns of its matrix, and its blocks."""

    size: int
    padded: int
    columns: int
    src: IndexDigits
    dst: IndexDigits

    @property
    def rows(self) -> int:
        """The rows of the matrix, the other factor."""
        return self.size // self.columns

    def digits(self) -> list[Axis]:
        """Return digits with a stride on both sides if blocks and factors nest, else runs in a table."""
        src, dst = _borders(self.src, self.size), _borders(self.dst, self.padded)
        if not (self.is_source_nested and self.is_destination_nested):
            return self._runs(src, dst)
        v = sorted({1, *_below(src, self.columns), *_above(dst, self.rows)})
        u = sorted({1, *_below(dst, self.rows), *_above(src, self.columns), self.rows})
        if not (_is_chain(v) and _is_chain(u)):
            return self._runs(src, dst)
        v.append(-(-self.padded // (self.rows * v[-1])) * v[-1])
        outer = [self._digit(b // a, a * self.rows, a) for a, b in pairwise(v)]
        inner = [self._digit(b // a, a, a * self.columns) for a, b in pairwise(u)]
        return outer[::-1] + inner[::-1]

    def _digit(self, extent: int, step: int, src_step: int) -> Axis:
        """Return `extent` steps of the destination's index, each of which is `src_step` of the source's."""
        return Axis(extent, stride_at(self.src, src_step), stride_at(self.dst, step), step=step)

    def digits_of_source(self) -> list[Axis]:
        """Return the digits of the source's index, if its blocks nest with the columns: to a plain layout."""
        steps = sorted({1, self.columns, *_borders(self.src, self.size)})
        steps.append(-(-self.size // steps[-1]) * steps[-1])
        dst = [a * self.rows if a < self.columns else a // self.columns for a in steps]
        digits = [
            Axis(b // a, stride_at(self.src, a), stride_at(self.dst, to), step=a)
            for (a, b), to in zip(pairwise(steps), dst, strict=False)
        ]
        return digits[::-1]

    def digits_of_destination(self) -> list[Axis]:
        """Return the digits of the destination's index, if its blocks nest with the rows: from plain."""
        steps = sorted({1, self.rows, *_borders(self.dst, self.padded)})
        steps.append(-(-self.padded // steps[-1]) * steps[-1])
        src = [a * self.columns if a < self.rows else a // self.rows for a in steps]
        return [self._digit(b // a, a, of) for (a, b), of in zip(pairwise(steps), src, strict=False)][::-1]

    @property
    def is_source_nested(self) -> bool:
        """True if the columns cut no block of the source."""
        return _nest(_borders(self.src, self.size), self.columns)

    @property
    def is_destination_nested(self) -> bool:
        """True if the rows cut no block of the destination."""
        return _nest(_borders(self.dst, self.padded), self.rows)

    def _runs(self, src: list[int], dst: list[int]) -> list[Axis]:
        """Return a table of runs of channels that no block cuts, and a run: a digit u of a few values."""
        run = gcd(self.rows, *dst, *(self._uncut(border) for border in src))
        count = -(-self.padded // run)
        if count > _LONGEST_TABLE:
            raise refuse("RS-L01:blocks-groups-too", count=count, longest_table=_LONGEST_TABLE)
        starts = range(0, count * run, run)
        table = Axis(count, offsets(self.src, map(self._source, starts)), offsets(self.dst, starts), step=run)
        return [table, self._digit(run, 1, self.columns)]

    def _uncut(self, border: int) -> int:
        """Return the number of values of u before a border of the source; 0 if it does not matter."""
        if self.columns % border == 0:
            return 0
        return border // self.columns if border % self.columns == 0 else 1

    def _source(self, index: int) -> int:
        """Return the source's index for one in the destination; that of padding does not matter."""
        v, u = divmod(index, self.rows)
        return u * self.columns + v if index < self.size else 0


def _borders(of: IndexDigits, size: int) -> list[int]:
    """Return the steps at which blocks end within an axis; a block that holds the whole axis never does."""
    return [level.step for level in of if 1 < level.step < size]


def _nest(borders: list[int], factor: int) -> bool:
    return all(border % factor == 0 or factor % border == 0 for border in borders)


def _below(borders: list[int], factor: int) -> list[int]:
    return [border for border in borders if border < factor]


def _above(borders: list[int], factor: int) -> list[int]:
    return [border // factor for border in borders if border > factor]


def _is_chain(steps: list[int]) -> bool:
    return all(b % a == 0 for a, b in pairwise(steps))
