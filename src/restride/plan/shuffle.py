"""Shuffle: a reorder whose source axis is split and exchanged (S04, spec 1.4).

The shuffled axis of C channels is a matrix of `group_size` columns in the source, and its transpose in the
destination: with `rows = C / group_size`, `dst[v * rows + u] = src[u * group_size + v]`. So the index in the
destination has the digits v and u, of which v is the finer one in the source. Backward is forward with both
factors exchanged.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import gcd

from ..desc.memory_desc import MemoryDesc
from ..errors import Unimplemented
from .digits import Level, levels, offsets, stride_at
from .nest import Axis, Compute, LoopNest
from .reorder import common_digits, nest_of

# Runs of channels that an axis may list one by one, where blocks and factors do not nest.
_LONGEST_TABLE = 1 << 18


def shuffle_nest(src: MemoryDesc, dst: MemoryDesc, axis: int, group_size: int) -> LoopNest:
    """The nest that shuffles `axis` of `src` into `dst` and writes zero into the padding of `dst`.

    Both descriptors are concrete, of equal dims, and of types of one width; `group_size` divides the axis.
    """
    dims = [common_digits(src, dst, dim) for dim in range(dst.ndims)]
    size = dst.dims[axis]
    if 1 < group_size < size:
        exchange = _Exchange(size, dst.padded_dims[axis], group_size, levels(src, axis), levels(dst, axis))
        dims[axis] = exchange.digits()
    return nest_of(src, dst, Compute(), dims)


@dataclass(frozen=True, slots=True)
class _Exchange:
    """The shuffled axis: its size, without and with padding, the columns of its matrix, and its blocks."""

    size: int
    padded: int
    columns: int
    src: list[Level]
    dst: list[Level]

    @property
    def rows(self) -> int:
        return self.size // self.columns

    def digits(self) -> list[Axis]:
        """Digits with a stride on both sides where blocks and factors nest, else runs in a table."""
        src, dst = _borders(self.src, self.size), _borders(self.dst, self.padded)
        if not (_nest(src, self.columns) and _nest(dst, self.rows)):
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
        """`extent` steps of the destination's index, each of which is `src_step` of the source's."""
        return Axis(extent, stride_at(self.src, src_step), stride_at(self.dst, step), step=step)

    def _runs(self, src: list[int], dst: list[int]) -> list[Axis]:
        """A table of runs of channels that no block cuts, and a run: one digit u of a few values."""
        run = gcd(self.rows, *dst, *(self._uncut(border) for border in src))
        count = -(-self.padded // run)
        if count > _LONGEST_TABLE:
            raise _too_long(count)
        starts = range(0, count * run, run)
        table = Axis(count, offsets(self.src, map(self._source, starts)), offsets(self.dst, starts), step=run)
        return [table, self._digit(run, 1, self.columns)]

    def _uncut(self, border: int) -> int:
        """How many values of u come before a border of the source; 0 where it does not matter."""
        if self.columns % border == 0:
            return 0
        return border // self.columns if border % self.columns == 0 else 1

    def _source(self, index: int) -> int:
        """The source's index of one in the destination; that of padding is of no account."""
        v, u = divmod(index, self.rows)
        return u * self.columns + v if index < self.size else 0


def _borders(of: list[Level], size: int) -> list[int]:
    """The steps at which blocks end within an axis; one that holds all of it never does."""
    return [level.step for level in of if 1 < level.step < size]


def _nest(borders: list[int], factor: int) -> bool:
    return all(border % factor == 0 or factor % border == 0 for border in borders)


def _below(borders: list[int], factor: int) -> list[int]:
    return [border for border in borders if border < factor]


def _above(borders: list[int], factor: int) -> list[int]:
    return [border // factor for border in borders if border > factor]


def _is_chain(steps: list[int]) -> bool:
    return all(b % a == 0 for a, b in pairwise(steps))


def _too_long(count: int) -> Unimplemented:
    return Unimplemented(
        "shuffle: blocks and groups have too little in common",
        why=f"the axis falls into {count} runs of channels; {_LONGEST_TABLE} are provided",
        hint="reorder into a plain format first, and shuffle that",
    )
