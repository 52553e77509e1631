"""What the tiles of a contraction ask for ahead, where a processor would not by itself.

Processors read ahead along one stream, within a page. They do not see

- what is read beside the sums, where the rows of a tile are a page or more apart: each tile asks for its own
  before it sums, and finds it in the first cache behind;
- the next columns, where those of one tile are left for the next row of tiles: all columns are larger than
  the second cache, so that they come from further away each time, while few rows of tiles, which find them
  near, give time. Each row of tiles asks for its share of the next columns, line by line as it sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from .contraction import DESTINATION, SECOND, Contraction, ContractionLoop
from .machine import Machine


@dataclass(frozen=True, slots=True)
class Prefetch:
    """The `operands` of a tile, by their numbers among the accesses; and in each step of a tile so many
    `lines` of the next columns, which are `stride` elements apart.
    """

    operands: tuple[int, ...] = ()
    lines: int = 0
    stride: int = 0


def find_prefetch(
    contraction: Contraction, machine: Machine, row: ContractionLoop, tiles: int, loaded: Sequence[int]
) -> Prefetch:
    """What tiles ask for: `tiles` rows of them, which read vectors of columns at the offsets `loaded`."""
    operands = _far_operands(contraction, machine, row)
    tensor = contraction.accesses[SECOND].tensor
    is_near = tensor.data_type.nbytes(prod(tensor.padded)) <= machine.l2
    strides = {second - first for first, second in pairwise(loaded)}
    if is_near or not 1 < tiles <= len(loaded) or len(strides) > 1:
        return Prefetch(operands)
    return Prefetch(operands, -(-len(loaded) // tiles), *strides)


def _far_operands(contraction: Contraction, machine: Machine, row: ContractionLoop) -> tuple[int, ...]:
    """The operands whose rows are on pages of their own."""
    operands = range(DESTINATION + 1, DESTINATION + 1 + len(contraction.loads))
    types = [access.tensor.data_type for access in contraction.accesses]
    return tuple(i for i in operands if abs(row.strides[i]) * types[i].bits // 8 >= machine.page)
