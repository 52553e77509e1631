"""How a tile asks ahead for what it reads, and for the next columns: `plan/contraction_prefetch.py`.

They never fault: behind the last columns they may point past the end.
"""

from __future__ import annotations

from ..plan.contraction import SECOND
from ..plan.contraction_schedule import ContractionPlan
from ..plan.machine import LINE
from .builder import Builder, Value
from .contraction_loops import ContractionTile

_FIRST_CACHE, _SECOND_CACHE = 3, 2


def prefetch_operands(b: Builder, plan: ContractionPlan, tile: ContractionTile) -> None:
    """Ask for what the results of a tile are made of beside the sums, into the first cache."""
    for access in plan.prefetch.operands:
        bits = plan.contraction.accesses[access].tensor.data_type.bits
        for row in range(tile.kind.rows):
            for number in range(tile.vectors):
                offset = plan.row.strides[access] * row + plan.column_offset(access, number * plan.lanes)
                b.prefetch(b.advance(tile.pointers[access], offset * bits // 8), _FIRST_CACHE)


def prefetch_columns(b: Builder, plan: ContractionPlan, tile: ContractionTile, turn: Value) -> None:
    """Ask for some lines of the next columns, into the second cache; `turn` of the summed loop."""
    lines = plan.prefetch.lines
    if not lines:
        return
    bits = plan.contraction.accesses[SECOND].tensor.data_type.bits
    run = plan.column_offset(SECOND, plan.vectors * plan.lanes) * bits // 8
    turns = plan.loops[-1].extent // plan.unroll
    place = b.advance(tile.pointers[SECOND], run)
    place = b.step(b.step(place, tile.number, turns * lines * LINE), turn, lines * LINE)
    for line in range(lines):
        b.prefetch(b.advance(place, line * LINE), _SECOND_CACHE)
