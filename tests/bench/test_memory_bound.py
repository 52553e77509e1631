"""The benchmark of primitives bound by memory: its rows, a measured one, and its table."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride_bench import memory_bound, studies
from restride_bench.array_peers import NumPy
from restride_bench.measure import Timing
from restride_bench.memory_bound_cases import CASES, PRIMITIVES
from restride_bench.memory_bound_jax import CALLS, by_jax
from restride_bench.peers import open_peers
from restride_bench.study import BenchRow, BenchSetup


def _setting(*names: str) -> BenchSetup:
    peers, _ = open_peers(list(names), 1)
    return BenchSetup(peers, [NumPy(1)], 1, 2, 1000)


def _small(primitive: memory_bound.MemoryBoundCase) -> rs.MemoryDesc:
    return (
        rs.MemoryDesc((4, 1024), "f32", "ab")
        if primitive.of_rows
        else rs.MemoryDesc((1, 32, 56, 56), "f32", "abcd")
    )


def test_rows_move_what_large_and_small_mean() -> None:
    found = list(memory_bound.rows())
    assert len({name for _, _, name in found}) == len(found)
    for _, src, name in found:
        assert (64e6 <= src.size <= 70e6) if name.endswith("large") else (1e6 <= src.size <= 4e6)


@pytest.mark.parametrize("primitive", PRIMITIVES[:1] + CASES[-7:], ids=lambda each: each.name)
def test_a_row_has_times_of_each_side(primitive: memory_bound.MemoryBoundCase) -> None:
    row = memory_bound.measure_row(_setting("restride"), primitive, _small(primitive), "row")
    assert row.times.keys() == {"restride", "memcpy"}
    assert row.moved > _small(primitive).size
    assert row.rate("restride") > 0
    assert (row.wrong, row.refused, row.over("torch")) == ({}, {}, None)


@pytest.mark.peer
@pytest.mark.parametrize("peer", ["torch", "oneDNN"])
@pytest.mark.parametrize("primitive", CASES, ids=lambda each: each.name)
def test_peers_have_the_same_answers(primitive: memory_bound.MemoryBoundCase, peer: str) -> None:
    setting = _setting("restride", peer)
    if peer not in {each.name for each in setting.peers}:
        pytest.skip(f"{peer} is not installed")
    if peer == "torch" and primitive.torch is None:
        pytest.skip("torch has no such function")
    row = memory_bound.measure_row(setting, primitive, _small(primitive), "row")
    assert (row.wrong, row.refused.get(peer)) == ({}, None)
    assert peer in row.times


@pytest.mark.peer
@pytest.mark.parametrize("tag", ["abcd", "acdb"])
@pytest.mark.parametrize(
    "primitive", [each for each in CASES if each.name in CALLS], ids=lambda each: each.name
)
def test_jax_has_the_same_answers(primitive: memory_bound.MemoryBoundCase, tag: str) -> None:
    pytest.importorskip("jax")
    engine, md = rs.Engine("cpu"), _small(primitive)
    md = md if primitive.of_rows else rs.MemoryDesc((1, 32, 56, 56), "f32", tag)
    kind, pd = primitive.make(engine, md)
    memories = {arg: rs.Memory(each, engine) for arg, each in memory_bound.descs_of(pd).items()}
    for seed, (arg, memory) in enumerate(memories.items()):
        values = np.random.default_rng(seed).uniform(0.1, 1.1, memory.desc.dims).astype(np.float32)
        rs.reorder(values * (arg not in memory_bound.WRITTEN), None, out=memory)
    call, answer = by_jax(primitive.name, memories)
    call()
    kind(pd).execute(rs.Stream(engine), memories)
    np.testing.assert_allclose(
        memories[memory_bound._result(memories)].to_numpy(), answer(), rtol=1e-4, atol=1e-4
    )


def test_jax_refuses_blocks_and_what_it_has_no_function_for() -> None:
    pytest.importorskip("jax")
    md = rs.MemoryDesc((1, 32, 8, 8), "f32", "aBcd16b")
    memories = {rs.ARG_SRC: rs.Memory(md, rs.Engine("cpu"))}
    for name in ("eltwise relu", "no such primitive"):
        with pytest.raises(ValueError, match="no such function, or no blocked formats"):
            by_jax(name, memories)


def test_answers_that_differ_are_told() -> None:
    own = rs.Memory.from_numpy(np.ones(3, np.float32))
    answers = {"torch": lambda: np.full(3, 1.5), "oneDNN": lambda: np.ones(3)}
    assert memory_bound.differences(own, answers) == {"torch": "off by 0.5"}


def test_the_table_has_means_and_wrong_answers() -> None:
    one, two = (Timing((value,)) for value in (1.0, 2.0))
    times = {"restride": one, "torch": two, "JAX": two, "memcpy": one}
    rows = [BenchRow("relu", 10**9, times, wrong={"JAX": "off by 1"})]
    rows.append(BenchRow("tanh", 10**9, {"restride": one, "memcpy": two}))
    found = studies.Studies(rows={"primitives": rows})
    page = studies.as_markdown(found)
    assert "| relu | 1.0 | 1.00 | 2.00 | – |" in page
    assert "| geometric mean |  | 1.41 (worst 1.00) | 2.00 (worst 2.00) | – |" in page
    assert found.wrong == ["relu: JAX: off by 1"]
