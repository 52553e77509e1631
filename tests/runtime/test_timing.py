"""Timing one function: how often it runs, and what is told of the times."""

import itertools

import pytest

from restride.runtime import timing
from restride.runtime.timing import Measured, available_memory, quartiles, time_call


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes on by what a call takes, in ns."""
    now = itertools.count(0)

    def advance(step):
        for _ in range(step):
            next(now)

    monkeypatch.setattr(timing.time, "perf_counter_ns", lambda: next(now))
    return advance


def test_short_calls_are_sampled_together_and_long_ones_alone(clock):
    times = time_call(lambda: clock(99_999), 4)
    assert times == [pytest.approx(1e-4, rel=0.01)] * 4
    calls = []
    times = time_call(lambda: (calls.append(1), clock(1000)), 3)
    assert times == [pytest.approx(1e-6, rel=0.01)] * 3
    assert len(calls) > 3 * 64


def test_a_clock_that_stands_still_gives_no_time_of_zero(monkeypatch):
    readings = itertools.chain([0, 10**9], itertools.repeat(5))
    monkeypatch.setattr(timing.time, "perf_counter_ns", lambda: next(readings))
    assert min(time_call(lambda: None, 2)) > 0


def test_quartiles_are_those_of_the_sample():
    assert quartiles([3.0, 1.0, 2.0, 5.0, 4.0]) == (2.0, 3.0, 4.0)
    assert quartiles([7.0]) == (7.0, 7.0, 7.0)


def test_rate_and_spread_follow_from_seconds_and_bytes():
    found = Measured(seconds=2.0, low=1.5, high=2.5, rounds=15, threads=2, moved_bytes=8_000_000_000)
    assert (found.gb_per_s, found.spread) == (4.0, 0.5)


def test_memory_that_is_free_is_known_here():
    found = available_memory()
    assert found is None or found > 0
