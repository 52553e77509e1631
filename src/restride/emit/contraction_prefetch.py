"""How a tile asks ahead for what it reads, and for the next columns: `plan/contraction_prefetch.py`.

They never fault: behind the last columns they may point past the end.
"""

from __future__ import annotations

from ..plan.contraction import SECOND
from ..plan.contraction_schedule import ContractionPlan
from .builder import Builder, Value
from .contraction_loops import ContractionTile

_FIRST_CACHE, _SECOND_CACHE = 3, 2


def prefetch_operands(b: Builder, plan: ContractionPlan, tile: ContractionTile) -> None:
    """Ask for what the results of a tile are made of beside the sums, into the first cache."""
    for access in plan.prefetch.operands:
        for row in range(tile.kind.rows):
            for number in range(tile.vectors):
                offset = plan.row.strides[access] * row + plan.column_offset(access, number * plan.lanes)
                place = b.advance(tile.pointers[access], offset * _bits(plan, access) // 8)
                b.prefetch(place, _FIRST_CACHE)


def prefetch_columns(b: Builder, plan: ContractionPlan, tile: ContractionTile, columns: Value) -> None:
    """Ask for this row of tiles' share of the next columns of a step, into the second cache."""
    wanted = plan.prefetch
    if not wanted.lines:
        return
    stride = wanted.stride * _bits(plan, SECOND) // 8
    following = plan.column_offset(SECOND, plan.vectors * plan.lanes) * _bits(plan, SECOND) // 8
    place = b.step(b.advance(columns, following), tile.number, wanted.lines * stride)
    for line in range(wanted.lines):
        b.prefetch(b.advance(place, line * stride), _SECOND_CACHE)


def _bits(plan: ContractionPlan, access: int) -> int:
    return plan.contraction.accesses[access].tensor.data_type.bits
