"""Software prefetch in the tiles of a contraction, for accesses that the hardware does not prefetch.

Processors prefetch along one stream, within a page. They do not recognize

- operands other than the sums, if the rows of a tile are a page or more apart: each tile prefetches its own
  before it sums, and then finds them in the L1 cache;
- the next pages of columns that are each read once, in words of a few bits or in rows far apart, if the sums
  take less time than memory: each iteration prefetches some lines, or iterations, ahead;
- the rows of the next tile, if blocks of channels are far apart: each tile prefetches those of the next one,
  block by block;
- the next columns, if those of one tile are followed by the next row of tiles: all columns exceed the L2
  cache, so that they come from farther away each time, while rows of tiles, which find them near, leave time.
  Each row of tiles prefetches its share of the next columns, line by line as it sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..machine import Machine
from .pack import Pack
from .strides import DESTINATION, FIRST, SECOND, Contraction, ContractionLoop

# Half a page: from 1 to 4 KB, all sizes are equally fast.
_BEHIND = 2048
_FEW_ROWS = 4
# No processor prefetches columns of iterations this far apart; prefetched 4 to 16 iterations ahead, a row by
# 900 x 1000 floats takes 0.8 of the time. Larger ones go by rows (`fold_order.MOST_BY_ROWS`).
_FAR, _TURNS_AHEAD = 512, 8


@dataclass(frozen=True, slots=True)
class Prefetch:
    """The `operands` of a tile, by their numbers among the accesses; in each iteration of the summed loop,
    this many `lines` of the next columns, and of its own columns those `behind` bytes ahead.
    """

    operands: tuple[int, ...] = ()
    lines: int = 0
    behind: int = 0


def find_prefetch(
    contraction: Contraction, machine: Machine, row: ContractionLoop, turns: int, run: int
) -> Prefetch:
    """Return what tiles prefetch. `turns`: iterations of the summed loops of all rows of tiles, before the
    next columns follow; 0 if they do not. `run`: the contiguous bytes of a tile's columns; 0 if they are not
    contiguous.
    """
    operands = _far_operands(contraction, machine, row)
    if _has_far_blocks(contraction, machine, row):
        operands = (FIRST, *operands)
    is_near = _is_near(contraction, machine)
    # With enough iterations to prefetch more than twice as much, columns hardly ever stall.
    if is_near or not 0 < turns <= 2 * run // machine.line:
        return Prefetch(operands)
    return Prefetch(operands, -(-run // (machine.line * turns)))


def bytes_behind(contraction: Contraction, machine: Machine, rows: int, pack: Pack | None) -> int:
    """Return how far ahead an iteration prefetches columns that one tile of all `rows` reads once: words of a
    sum of groups, or elements that are far apart.
    """
    if rows > _FEW_ROWS or _is_near(contraction, machine):
        return 0
    if pack is None:
        (*_, inner), kind = contraction.summed, contraction.accesses[SECOND].tensor.data_type
        step = inner.strides[SECOND] * kind.bits // 8
        return _TURNS_AHEAD * step if step >= _FAR else 0
    return _BEHIND if contraction.groups is not None else 0


def _has_far_blocks(contraction: Contraction, machine: Machine, row: ContractionLoop) -> bool:
    """Return whether rows are adjacent, but their summed elements are far apart."""
    if contraction.groups is not None:
        return False
    bits = contraction.accesses[FIRST].tensor.data_type.bits
    is_close = 0 < row.strides[FIRST] * bits // 8 <= machine.line
    far = (loop.strides[FIRST] * bits // 8 for loop in contraction.summed if loop.extent > 1)
    return is_close and any(stride > machine.line for stride in far)


def _is_near(contraction: Contraction, machine: Machine) -> bool:
    """Return whether all columns fit the L2 cache."""
    tensor = contraction.accesses[SECOND].tensor
    return tensor.data_type.nbytes(prod(tensor.padded)) <= machine.l2


def _far_operands(contraction: Contraction, machine: Machine, row: ContractionLoop) -> tuple[int, ...]:
    """Return the operands whose rows are on separate pages."""
    operands = range(DESTINATION + 1, DESTINATION + 1 + len(contraction.loads))
    types = [access.tensor.data_type for access in contraction.accesses]
    return tuple(i for i in operands if abs(row.strides[i]) * types[i].bits // 8 >= machine.page)
