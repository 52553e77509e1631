"""One transpose step by step: every rung does the same work, and has one thing more than the rung before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import restride as rs
from restride.targets.isa import host_isa
from restride_bench import ladder
from restride_bench.study import BenchSetup


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = rs.get_num_threads()
    yield
    rs.set_num_threads(before)


def test_each_rung_has_one_thing_more() -> None:
    made = [each for each in ladder.variants(ladder.WORK).values() if isinstance(each.plan, tuple)]
    (loops, *_, plain, ahead, best) = (each.plan[0] for each in made)
    assert set(loops.chunks) == {1}
    assert max(plain.chunks) > 1
    assert (loops.prefetch, plain.prefetch, plain.streams) == (0, 0, False)
    assert ahead.prefetch == best.prefetch
    assert not ahead.streams
    assert len({each.key for each in made}) >= len(made) - (not best.prefetch) - (not best.streams)
    assert all(each.isa.vector_bytes <= host_isa().vector_bytes for each in made)


def test_every_rung_gives_the_right_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    small = ladder.replace(ladder.WORK, dims=(2, 37, 9, 5))
    monkeypatch.setattr(ladder, "WORK", small)
    (row,) = ladder.measure(BenchSetup([], [], threads=2, rounds=1, largest=small.moved))
    assert row.wrong == {}
    assert [row.about["threads"][name] for name in row.times][-3:] == [2, 1, 2]
    assert list(row.times)[-2:] == ["memcpy, 1 thread", "memcpy, 2 threads"]
    assert all(row.rate(name) > 0 for name in row.times)
    assert row.moved == small.moved


def test_a_quick_run_takes_one_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ladder, "WORK", ladder.replace(ladder.WORK, dims=(2, 32, 4, 4)))
    (row,) = ladder.measure(BenchSetup([], [], threads=1, rounds=1, largest=1))
    assert row.moved == 32 * 16 * 8
    assert set(row.about["threads"].values()) == {1}
