"""The benchmark of primitives bound by memory: its rows, a measured one, and its table."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride_bench import memory_bound, studies
from restride_bench.array_peers import NumPy
from restride_bench.figures import BenchSetup
from restride_bench.measure import Quartiles
from restride_bench.memory_bound import PRIMITIVES, BoundRow
from restride_bench.peers import open_peers


def _setting(*names: str) -> BenchSetup:
    peers, _ = open_peers(list(names), 1)
    return BenchSetup(peers, [NumPy(1)], 1, 2, 1000)


def _small(primitive: memory_bound.MemoryBoundCase) -> rs.MemoryDesc:
    return (
        rs.MemoryDesc((4, 1024), "f32", "ab")
        if primitive.of_rows
        else rs.MemoryDesc((1, 3, 56, 56), "f32", "abcd")
    )


def test_rows_move_what_large_and_small_mean() -> None:
    found = list(memory_bound.rows())
    assert len({name for _, _, name in found}) == len(found)
    for _, src, name in found:
        assert (64e6 <= src.size <= 70e6) if name.endswith("large") else (1e6 <= src.size <= 4e6)


@pytest.mark.parametrize("primitive", PRIMITIVES[:1] + PRIMITIVES[-2:], ids=lambda each: each.name)
def test_a_row_has_times_of_each_side(primitive: memory_bound.MemoryBoundCase) -> None:
    row = memory_bound.measure_row(_setting("restride"), primitive, _small(primitive), "row")
    assert row.seconds.keys() == {"restride", "memcpy"}
    assert row.moved >= 2 * _small(primitive).size
    assert row.rate("restride") > 0
    assert (row.wrong, row.refused, row.over("torch")) == ("", {}, None)


@pytest.mark.peer
@pytest.mark.parametrize("peer", ["torch", "oneDNN"])
@pytest.mark.parametrize("primitive", PRIMITIVES, ids=lambda each: each.name)
def test_peers_have_the_same_answers(primitive: memory_bound.MemoryBoundCase, peer: str) -> None:
    setting = _setting("restride", peer)
    if peer not in {each.name for each in setting.peers}:
        pytest.skip(f"{peer} is not installed")
    row = memory_bound.measure_row(setting, primitive, _small(primitive), "row")
    assert (row.wrong, row.refused) == ("", {})
    assert peer in row.seconds


def test_answers_that_differ_are_told() -> None:
    assert memory_bound._difference(np.ones(3), {"torch": lambda: np.ones(3)}) == ""
    assert memory_bound._difference(np.ones(3), {"torch": lambda: np.full(3, 1.5)}) == "off by 0.5 from torch"


def test_the_table_has_means_and_wrong_answers() -> None:
    one, two = (Quartiles(value, value, value) for value in (1.0, 2.0))
    rows = [
        BoundRow("relu", 10**9, {"restride": one, "torch": two, "memcpy": one}, wrong="off by 1 from torch")
    ]
    rows.append(BoundRow("tanh", 10**9, {"restride": one, "memcpy": two}))
    found = studies.Studies(primitives=rows)
    page = studies.as_markdown(found)
    assert "| relu | 1.0 | 1.00 | 2.00 |" in page
    assert "| geometric mean |  | 1.41 (worst 1.00) | 2.00 (worst 2.00) |" in page
    assert found.wrong == ["relu: off by 1 from torch"]
    assert not found.is_empty
