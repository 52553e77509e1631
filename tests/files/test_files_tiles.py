"""Tiles: every byte of both sides belongs to one tile, tiles are as large as allowed, and runs are long."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.files.conversion.tiles import box_bytes, compact, plan_tiles, run_bytes, runs_of
from support.descriptors import shapes, tags


@st.composite
def _descs(draw: st.DrawFn) -> tuple[rs.MemoryDesc, rs.MemoryDesc]:
    dims = draw(shapes(max_ndims=4, most=600))
    types = st.sampled_from(("f32", "bf16", "s8", "s4"))
    one, two = (rs.MemoryDesc(dims, draw(types), draw(tags(dims, most=4000))) for _ in range(2))
    return one, two


@settings(max_examples=40)
@given(_descs(), st.sampled_from((64, 300, 2000, 1 << 20)))
def test_tiles_cover_every_byte_of_both_sides_once(
    descs: tuple[rs.MemoryDesc, rs.MemoryDesc], budget: int
) -> None:
    grid = plan_tiles(descs, budget, least_bytes=budget)
    for desc in descs:
        touched = np.zeros(desc.size, int)
        for number in range(len(grid)):
            start = grid.start(number)
            size = grid.size(start)
            runs = runs_of(desc, start, size)
            assert compact(desc, size).size == runs.nbytes * runs.starts.size
            for first in runs.starts:
                touched[first : first + runs.nbytes] += 1
        assert (touched == 1).all()


@settings(max_examples=25)
@given(_descs())
def test_runs_are_where_the_descriptor_says(descs: tuple[rs.MemoryDesc, rs.MemoryDesc]) -> None:
    desc = descs[0].as_type("u8")
    grid = plan_tiles((desc, descs[1].as_type("u8")), 64, least_bytes=64)
    start = grid.start(len(grid) - 1)
    size = grid.size(start)
    runs = runs_of(desc, start, size)
    gathered = compact(desc, size)
    places = np.concatenate([np.arange(first, first + runs.nbytes) for first in runs.starts])
    for index in np.ndindex(*size):
        whole = desc.offset(*(a + b for a, b in zip(start, index, strict=True)))
        assert places[gathered.offset(*index)] == whole


@pytest.mark.parametrize(
    ("src", "dst"), [("ab", "ba"), ("ab", "BA16a64b"), ("ba", "AB16b64a"), ("ab", "aB32b")]
)
def test_runs_are_long_on_both_sides_and_tiles_within_the_memory(src: str, dst: str) -> None:
    dims = (8192, 28672)
    descs = (rs.MemoryDesc(dims, "bf16", src), rs.MemoryDesc(dims, "s8", dst))
    grid = plan_tiles(descs, 128 << 20)
    assert box_bytes(descs, grid.box) <= 128 << 20
    assert min(run_bytes(desc, grid.box) for desc in descs) >= 4096


def test_boxes_keep_to_the_multiples_that_are_asked_for() -> None:
    descs = (rs.MemoryDesc((1000, 96), "f32"), rs.MemoryDesc((1000, 96), "s8", "ba"))
    grid = plan_tiles(descs, 4096, (1, 32), least_bytes=4096)
    assert grid.box[1] % 32 == 0
    assert len(grid) > 10


def test_what_cannot_be_cut_is_one_tile() -> None:
    gap = rs.MemoryDesc((64, 64), "f32", (128, 1))
    odd = rs.MemoryDesc((64, 63), "s4")
    for desc in (gap, odd):
        assert len(plan_tiles((desc, desc), 64, least_bytes=64)) == 1
