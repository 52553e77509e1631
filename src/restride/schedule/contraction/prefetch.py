"""What the tiles of a contraction ask for ahead, where a processor would not by itself.

Processors read ahead along one stream, within a page. They do not see

- what is read beside the sums, where the rows of a tile are a page or more apart: each tile asks for its own
  before it sums, and finds it in the first cache behind;
- the next pages of columns of which each is read once, by words of a few bits or in rows far apart, when
  the sums take less time than memory: each turn asks for what comes some lines, or turns, behind;
- the rows of the next tile, where blocks of channels lie apart: each tile asks for those of the
  next one, block by block;
- the next columns, where those of one tile are left for the next row of tiles: all columns are larger than
  the second cache, so that they come from further away each time, while rows of tiles, which find them near,
  give time. Each row of tiles asks for its share of the next columns, line by line as it sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..machine import Machine
from .pack import Pack
from .strides import DESTINATION, FIRST, SECOND, Contraction, ContractionLoop

# Half a page: from 1 to 4 KB all are as fast.
_BEHIND = 2048
_FEW_ROWS = 4
# Columns of turns so far apart no processor reads ahead; asked for 4 to 16 turns before, a row by 900 x 1000
# floats takes 0.8 of the time. Larger ones go by rows (`fold_order.MOST_BY_ROWS`).
_FAR, _TURNS_AHEAD = 512, 8


@dataclass(frozen=True, slots=True)
class Prefetch:
    """The `operands` of a tile, by their numbers among the accesses; in each turn of the summed loop so many
    `lines` of the next columns, and of its own what comes so many bytes `behind`.
    """

    operands: tuple[int, ...] = ()
    lines: int = 0
    behind: int = 0


def find_prefetch(
    contraction: Contraction, machine: Machine, row: ContractionLoop, turns: int, run: int
) -> Prefetch:
    """What tiles ask for. `turns`: of the summed loops of all rows of tiles, before the next columns follow;
    0 where they do not. `run`: bytes of the columns of a tile, one behind the other; 0 where they are not.
    """
    operands = _far_operands(contraction, machine, row)
    if _has_far_blocks(contraction, machine, row):
        operands = (FIRST, *operands)
    is_near = _is_near(contraction, machine)
    # With turns enough to ask for more than twice as much, hardly anything waits for columns.
    if is_near or not 0 < turns <= 2 * run // machine.line:
        return Prefetch(operands)
    return Prefetch(operands, -(-run // (machine.line * turns)))


def bytes_behind(contraction: Contraction, machine: Machine, rows: int, pack: Pack | None) -> int:
    """How far behind a turn asks for columns that are read once, by one tile of all `rows`: words of a sum of
    groups, or elements that lie far apart.
    """
    if rows > _FEW_ROWS or _is_near(contraction, machine):
        return 0
    if pack is None:
        (*_, inner), kind = contraction.summed, contraction.accesses[SECOND].tensor.data_type
        step = inner.strides[SECOND] * kind.bits // 8
        return _TURNS_AHEAD * step if step >= _FAR else 0
    return _BEHIND if contraction.groups is not None else 0


def _has_far_blocks(contraction: Contraction, machine: Machine, row: ContractionLoop) -> bool:
    """True where rows lie side by side, and what is summed of them elsewhere."""
    if contraction.groups is not None:
        return False
    bits = contraction.accesses[FIRST].tensor.data_type.bits
    is_close = 0 < row.strides[FIRST] * bits // 8 <= machine.line
    far = (loop.strides[FIRST] * bits // 8 for loop in contraction.summed if loop.extent > 1)
    return is_close and any(stride > machine.line for stride in far)


def _is_near(contraction: Contraction, machine: Machine) -> bool:
    """True where all columns are in the second cache."""
    tensor = contraction.accesses[SECOND].tensor
    return tensor.data_type.nbytes(prod(tensor.padded)) <= machine.l2


def _far_operands(contraction: Contraction, machine: Machine, row: ContractionLoop) -> tuple[int, ...]:
    """The operands whose rows are on pages of their own."""
    operands = range(DESTINATION + 1, DESTINATION + 1 + len(contraction.loads))
    types = [access.tensor.data_type for access in contraction.accesses]
    return tuple(i for i in operands if abs(row.strides[i]) * types[i].bits // 8 >= machine.page)
