"""When measuring ends, and what it tells."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from dataclasses import replace

import pytest

from restride_bench.driver import timing
from restride_bench.driver.common import CommonKnobs
from restride_bench.driver.timing import measure

_COMMON = CommonKnobs(mode="P", max_ms_per_prb=10)


def test_so_many_rounds_are_taken_as_asked_for() -> None:
    calls = list[int]()
    times = measure(lambda: calls.append(1), replace(_COMMON, fix_times_per_prb=4))
    assert times.rounds == 4
    assert len(calls) == 4


def test_rounds_last_as_long_as_asked_for() -> None:
    start = time.perf_counter()
    times = measure(lambda: time.sleep(0.001), _COMMON)
    assert time.perf_counter() - start >= 0.010
    assert times.least >= 1.0
    assert times.least <= times.mean <= times.most


def test_a_slow_call_gets_five_rounds() -> None:
    assert measure(lambda: time.sleep(0.01), _COMMON).rounds == 5


def test_a_short_call_is_timed_many_at_a_time() -> None:
    # Other programs may take most of the 10 ms.
    assert any(measure(lambda: None, _COMMON).rounds > 1000 for _ in range(20))


def test_a_first_call_that_is_slow_does_not_make_samples_of_single_calls() -> None:
    # Other programs may hold up a sample, too.
    assert any(timing._batch(_slow_at_first()) > 8 for _ in range(20))


def _slow_at_first() -> Callable[[], None]:
    pauses = iter([0.005])

    def call() -> None:
        if pause := next(pauses, 0.0):
            time.sleep(pause)

    return call


@pytest.mark.parametrize("cold_cache", ["none", "all"])
def test_the_time_asked_for_is_that_of_the_clock(cold_cache: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_FLUSHED", 1 << 16)
    monkeypatch.setattr(timing, "last_level_cache", lambda: None)
    spent = [_seconds(replace(_COMMON, max_ms_per_prb=300, cold_cache=cold_cache))]
    while spent[-1] >= 1.5 and len(spent) < 10:
        spent.append(_seconds(replace(_COMMON, max_ms_per_prb=300, cold_cache=cold_cache)))
    assert 0.3 <= spent[-1] < 1.5


def _seconds(common: CommonKnobs) -> float:
    start = time.perf_counter()
    measure(lambda: None, common)
    return time.perf_counter() - start


def test_the_collector_rests_meanwhile_and_goes_on_afterward() -> None:
    states = list[bool]()
    measure(lambda: states.append(gc.isenabled()), replace(_COMMON, fix_times_per_prb=2))
    assert states == [False, False]
    assert gc.isenabled()
