"""How a tile asks ahead for what it reads, and for the next columns: `schedule/contraction/prefetch.py`.

They never fault: behind the last columns they may point past the end.
"""

from __future__ import annotations

from ..schedule.contraction.kernel import ContractionKernel
from ..schedule.contraction.strides import SECOND
from ..schedule.machine import LINE
from .builder import Builder, Value
from .contraction_loops import ContractionTile
from .contraction_numbers import distance_of, number_of, times

_FIRST_CACHE, _SECOND_CACHE = 3, 2


def prefetch_operands(b: Builder, kernel: ContractionKernel, tile: ContractionTile) -> None:
    """Ask for what the results of a tile are made of beside the sums, into the first cache."""
    for access in kernel.operands:
        strides = kernel.strides[access]
        block = distance_of(b, strides.block)
        for place in strides.vectors[: tile.vectors]:
            first = b.advance(tile.pointers[access], times(b, block, place.blocks))
            for row in range(tile.kind.rows):
                b.prefetch(b.advance(first, row * strides.row + place.nbytes), _FIRST_CACHE)


def next_columns(b: Builder, kernel: ContractionKernel, tile: ContractionTile) -> Value | None:
    """Where the share of a tile in the next columns begins; None where it asks for none."""
    stream = kernel.stream
    if stream is None:
        return None
    place = b.advance(tile.pointers[SECOND], number_of(b, stream.behind))
    return b.step(place, tile.place.number, distance_of(b, stream.share))


def prefetch_columns(b: Builder, lines: int, share: Value, turn: Value) -> None:
    """Ask for some lines of a share, into the second cache; `turn` of the summed loop."""
    place = b.step(share, turn, lines * LINE)
    for line in range(lines):
        b.prefetch(b.advance(place, line * LINE), _SECOND_CACHE)
