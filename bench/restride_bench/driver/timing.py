"""Timing of one execution: rounds, until the time or the number of rounds is reached."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..machine import last_level_cache
from ..measure import Call, no_collection, sample
from .common import CommonKnobs

_LEAST_ROUNDS = 5
_WARM_UP = 3
_BATCH = 2e-4  # seconds that a sample should last: a clock that is read too often is measured itself
_FLUSHED = 256 << 20


class Times(NamedTuple):
    """Least, mean and most ms of one execution, and how many were timed."""

    least: float
    mean: float
    most: float
    rounds: int


def measure(call: Call, common: CommonKnobs) -> Times:
    """Time `call`, which has been called before. The time asked for is that of the clock, with all in it."""
    flush = _flusher() if common.cold_cache == "all" else None
    begin = time.perf_counter()
    with no_collection():
        number = 1 if flush is not None or common.fix_times_per_prb else _batch(call)
        samples = list[float]()
        while not _is_done(len(samples), begin, common):
            if flush is not None:
                flush()
            samples.append(sample(call, number) * 1e3)
    return Times(min(samples), sum(samples) / len(samples), max(samples), len(samples) * number)


def _is_done(rounds: int, begin: float, common: CommonKnobs) -> bool:
    if common.fix_times_per_prb:
        return rounds >= common.fix_times_per_prb
    return rounds >= _LEAST_ROUNDS and (time.perf_counter() - begin) * 1e3 >= common.max_ms_per_prb


def _batch(call: Call) -> int:
    """Return the number of calls per sample, doubled until they last. Slow first calls do not count."""
    sample(call, _WARM_UP)
    number = 1
    while sample(call, number) * number < _BATCH:
        number *= 2
    return number


def _flusher() -> Callable[[], None]:
    """A function that reads and writes more than the caches hold."""
    filler = np.zeros(max(_FLUSHED, 2 * (last_level_cache() or 0)) // 8, np.uint64)

    def flush() -> None:
        np.add(filler, 1, out=filler)

    return flush
