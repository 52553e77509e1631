"""Tiles of rows: what windows leave out of each, and how few are looked at."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from restride.desc.memory_desc import MemoryDesc
from restride.schedule.contraction.strides import ContractionLoop, Limit, find_contraction
from restride.schedule.contraction.tiles import ONE_OPERATION, row_tiling, tiles_by_time
from restride.schedule.machine import Machine
from support.contractions import product_tree

_MATRICES = (MemoryDesc((1, 4, 3), "f32"), MemoryDesc((1, 3, 5), "f32"), MemoryDesc((1, 4, 5), "f32"))
_PRODUCT = find_contraction(product_tree(*_MATRICES))
assert _PRODUCT is not None


def test_tiles_read_no_more_vectors_than_rows_hide():
    wide = Machine(vector_bytes=64, registers=32)
    # 1000 columns are 63 vectors, which 9 divide and 2 do not.
    for count in (62, 63, 64):
        rows, vectors = tiles_by_time(wide, ONE_OPERATION, 169, count, 1)[0]
        assert rows > 2
        assert vectors in (2, 3)
    rows, vectors = tiles_by_time(wide, ONE_OPERATION, 2, 63, 1)[0]
    assert rows == 2
    assert vectors > 2


@given(
    st.integers(1, 40), st.integers(1, 9), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3), st.data()
)
def test_row_tiles_leave_out_what_windows_leave_out(extent, rows, factor, taps, step, data):
    """Each row of each tile, beside the index itself."""
    constant = data.draw(st.integers(-5, 5))
    size = data.draw(st.integers(1, 60))
    loops = ContractionLoop("m", 1, extent, extent, (1, 0, 1)), ContractionLoop("k", 1, taps, taps, (1, 1, 0))
    limit = Limit((("m", factor), ("k", step)), constant, size)
    contraction = replace(_PRODUCT, summed=(loops[1],), limits=(limit,))
    tiling = row_tiling(contraction, loops[0], rows)
    assert tiling.count == -(-extent // rows)
    ends = [0, *(end for _, end in tiling.runs)]
    kinds = [kind for (kind, end), first in zip(tiling.runs, ends, strict=False) for _ in range(first, end)]
    for m in range(extent):
        tile = tiling.kinds[kinds[m // rows]]
        inside = [k for k in range(taps) if 0 <= factor * m + step * k + constant < size]
        assert m % rows < tile.rows
        held = list(range(taps)) if not tile.taps else list(tile.taps_of(m % rows))
        assert held == inside
    assert sum(tiling.kinds[kind].rows for kind in kinds) == extent


def test_rows_are_not_looked_at_one_by_one() -> None:
    row = ContractionLoop("m", 1, 1 << 50, 1 << 50, (1, 0, 1))
    tiling = row_tiling(replace(_PRODUCT, limits=()), row, 14)
    assert len(tiling.runs) == 2
    assert tiling.count == -(-(1 << 50) // 14)
