"""Banks, lines and sectors of walks, counted byte by byte."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import restride as rs
from restride.layouts import Layout, Swizzle, bank_conflicts, cache_lines, coalescing
from support.errors import refused
from support.layouts import layouts, offsets


@given(
    layouts(),
    st.sampled_from([1, 2, 4, 8]),
    st.sampled_from([1, 2, 4]),
    st.sampled_from([1, 2, 4, 8, 16, 32]),
)
def test_counts_are_those_of_bytes(a: Layout, itemsize: int, vector: int, lanes: int) -> None:
    if a.size % lanes and lanes <= a.size:
        with refused("RS-A18"):
            cache_lines(a, itemsize, vector=vector, lanes=lanes)
        return
    is_aligned = not (np.array(offsets(a)) % vector).any()
    if not is_aligned:
        for on_gpu in (coalescing, bank_conflicts):
            with refused("a vector of"):
                on_gpu(a, itemsize, vector=vector, lanes=lanes)
        vector = 1
    for unit, found in (
        (64, cache_lines(a, itemsize, vector=vector, lanes=lanes)),
        (32, coalescing(a, itemsize, vector=vector, lanes=lanes)),
        (4, bank_conflicts(a, itemsize, vector=vector, lanes=lanes, banks=8)),
    ):
        table = np.array(offsets(a)).reshape(-1, min(lanes, a.size)) * itemsize
        for starts, count, least in zip(table.tolist(), found.counts, found.least, strict=True):
            touched = {start + byte for start in starts for byte in range(itemsize * vector)}
            units = {byte // unit for byte in touched}
            if unit > 4:
                assert (count, least) == (len(units), -(-len(touched) // unit))
            elif len(starts) * itemsize * vector <= 32:
                banks = [sum(word % 8 == bank for word in units) for bank in range(8)]
                assert (count, least) == (max(banks), -(-len(units) // 8))
        assert 0 < found.efficiency <= 1
        assert (found.total, found.worst) == (sum(found.counts), max(found.counts))


def test_a_swizzle_frees_a_tile_of_conflicts() -> None:
    rows = Layout("(8,8):(64,8)")  # lane, and 16 bytes of its row
    plain, swizzled = (
        bank_conflicts(walk, 2, vector=8, lanes=8) for walk in (rows, Swizzle(3, 3, 3).compose(rows))
    )
    assert (plain.counts, swizzled.counts) == ((8,) * 8, (1,) * 8)
    assert bank_conflicts(rows, 2, vector=8).counts == (32, 32)
    assert plain.units[1] == (4,) * 8
    assert bank_conflicts("32:0").total == bank_conflicts("32:33").total == 1
    whole = bank_conflicts("32:8", 2, vector=8)
    assert (whole.worst, whole.least, whole.efficiency) == (4, (4,), 1.0)
    assert repr(plain) == "<Accesses bank requests 8 total 64 least 8 worst 8 efficiency 12%>"


def test_a_descriptor_is_no_walk_and_the_error_names_its_layout() -> None:
    with pytest.raises(rs.InvalidArguments, match="from_desc"):
        bank_conflicts(rs.onednn.MemoryDesc((2, 3), "f32", "ab"))  # type: ignore[arg-type]


def test_a_walk_may_be_an_array_of_offsets() -> None:
    assert cache_lines(np.array([[0, 1], [0, 100]]), lanes=2).counts == (1, 2)
    assert coalescing("(32,4):(4,1)").counts == (16,) * 4


REFUSED = [
    *(
        lambda w=w: bank_conflicts(w)
        for w in (None, np.zeros(3), np.array([-1]), "4:-1", "(2,5000000):(1,2)", [0])
    ),
    *(
        lambda w=w: cache_lines(w)
        for w in (np.zeros(0, int), "16:99999999999999", np.array([2**63], np.uint64))
    ),
    *(lambda n=n: coalescing("32", n) for n in (0, -4, 1.5, "4", 10**9, None, float("nan"))),
    lambda: bank_conflicts("32", 4, vector=4096),
    lambda: bank_conflicts("32", banks=0),
    lambda: cache_lines("17"),
    lambda: bank_conflicts("32:1", 2, vector=8, lanes=8),
    lambda: coalescing("32:2", 4, vector=4),
]


@pytest.mark.parametrize("make", REFUSED, ids=range(len(REFUSED)))
def test_what_is_no_walk_is_refused(make: Any) -> None:
    with refused():
        make()
