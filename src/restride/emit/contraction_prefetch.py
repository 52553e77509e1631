"""Prefetch of a tile's operands, and of the next columns: `schedule/contraction/prefetch.py`.

Prefetches never fault: those after the last columns can point past the end.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..schedule.contraction.kernel import ContractionKernel
from ..schedule.contraction.strides import FIRST, SECOND
from ..schedule.machine import LINE
from .builder import Builder, Value
from .contraction_loops import ContractionTile
from .contraction_numbers import Distance, distance_of, number_of, times

_FIRST_CACHE, _SECOND_CACHE = 3, 2
# The number of groups ahead: each is in a separate page, which no processor prefetches by itself.
_GROUPS_AHEAD = 8


def prefetch_operands(b: Builder, kernel: ContractionKernel, tile: ContractionTile) -> None:
    """Prefetch the further inputs of a tile's results, into the L1 cache."""
    for access in (number for number in kernel.operands if number != FIRST):
        strides = kernel.strides[access]
        block = distance_of(b, strides.block)
        for place in strides.vectors[: tile.vectors]:
            first = b.advance(tile.pointers[access], times(b, block, place.blocks))
            for row in range(tile.kind.rows):
                b.prefetch(b.advance(first, row * strides.row + place.nbytes), _FIRST_CACHE)


def prefetch_rows(b: Builder, kernel: ContractionKernel, tile: ContractionTile, at: Value) -> None:
    """Prefetch the rows of the next tile in one block, into the L1 cache."""
    nbytes = tile.kind.rows * kernel.strides[FIRST].row
    for line in range(nbytes, 2 * nbytes, LINE):
        b.prefetch(b.advance(at, line), _FIRST_CACHE)


def prefetch_groups(
    b: Builder,
    kernel: ContractionKernel,
    tile: ContractionTile,
    place: Sequence[Value],
    strides: Sequence[Distance],
) -> None:
    """Prefetch the factors of sums of further groups, a row of values for the columns of a tile."""
    groups = kernel.groups_of_sums
    assert groups is not None
    for access in range(len(kernel.types) - len(groups.loads), len(kernel.types)):
        if kernel.strides[access].lane == 1 and not kernel.strides[access].row:
            ahead = b.advance(place[access], times(b, strides[access], _GROUPS_AHEAD))
            for line in range(0, tile.vectors * kernel.lanes * kernel.types[access].bits // 8, LINE):
                b.prefetch(b.advance(ahead, line), _FIRST_CACHE)


def prefetch_behind(b: Builder, kernel: ContractionKernel, pointers: Sequence[Value]) -> None:
    """Prefetch columns beyond those of an iteration, a line each."""
    for place, pointer in zip(kernel.strides[SECOND].vectors, pointers, strict=False):
        if place.nbytes % LINE == 0:
            b.prefetch(b.advance(pointer, kernel.behind), _FIRST_CACHE)


def next_columns(b: Builder, kernel: ContractionKernel, tile: ContractionTile) -> Value | None:
    """Return where the share of a tile in the next columns begins; None if it prefetches none."""
    stream = kernel.stream
    if stream is None:
        return None
    place = b.advance(tile.pointers[SECOND], number_of(b, stream.behind))
    return b.step(place, tile.place.number, distance_of(b, stream.share))


def prefetch_columns(b: Builder, lines: int, share: Value, turn: Value) -> None:
    """Prefetch some lines of a share, into the L2 cache; `turn`: of the summed loop."""
    place = b.step(share, turn, lines * LINE)
    for line in range(lines):
        b.prefetch(b.advance(place, line * LINE), _SECOND_CACHE)
