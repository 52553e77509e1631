"""What the tiles of a contraction ask for ahead, where a processor would not by itself.

Processors read ahead along one stream, within a page. They do not see

- what is read beside the sums, where the rows of a tile are a page or more apart: each tile asks for its own
  before it sums, and finds it in the first cache behind;
- the next columns, where those of one tile are left for the next row of tiles: all columns are larger than
  the second cache, so that they come from further away each time, while rows of tiles, which find them near,
  give time. Each row of tiles asks for its share of the next columns, line by line as it sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ..machine import Machine
from .strides import DESTINATION, SECOND, Contraction, ContractionLoop


@dataclass(frozen=True, slots=True)
class Prefetch:
    """The `operands` of a tile, by their numbers among the accesses; and in each turn of the summed loop so
    many `lines` of the next columns.
    """

    operands: tuple[int, ...] = ()
    lines: int = 0


def find_prefetch(
    contraction: Contraction, machine: Machine, row: ContractionLoop, turns: int, run: int
) -> Prefetch:
    """What tiles ask for. `turns`: of the summed loops of all rows of tiles, before the next columns follow;
    0 where they do not. `run`: bytes of the columns of a tile, one behind the other; 0 where they are not.
    """
    operands = _far_operands(contraction, machine, row)
    tensor = contraction.accesses[SECOND].tensor
    is_near = tensor.data_type.nbytes(prod(tensor.padded)) <= machine.l2
    # With turns enough to ask for more than twice as much, hardly anything waits for columns.
    if is_near or not 0 < turns <= 2 * run // machine.line:
        return Prefetch(operands)
    return Prefetch(operands, -(-run // (machine.line * turns)))


def _far_operands(contraction: Contraction, machine: Machine, row: ContractionLoop) -> tuple[int, ...]:
    """The operands whose rows are on pages of their own."""
    operands = range(DESTINATION + 1, DESTINATION + 1 + len(contraction.loads))
    types = [access.tensor.data_type for access in contraction.accesses]
    return tuple(i for i in operands if abs(row.strides[i]) * types[i].bits // 8 >= machine.page)
