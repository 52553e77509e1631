"""How long one execution takes: rounds, until the time or the number of rounds is reached (spec 3.1)."""

from __future__ import annotations

import gc
import itertools
import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..machine import last_level_cache
from .common import Common

_LEAST_ROUNDS = 5
_BATCH_MS = 0.2  # that a sample should last: a clock that is read too often is measured itself
_FLUSHED = 256 << 20


class Times(NamedTuple):
    """Least, mean and most ms of one execution, and how many were timed."""

    least: float
    mean: float
    most: float
    rounds: int


def measure(call: Callable[[], object], common: Common) -> Times:
    """Time `call`, which has been called before."""
    before = _flusher() if common.cold_cache == "all" else None
    once = _sample(call, 1, before)
    number = 1 if before or common.fix_times_per_prb else max(1, int(_BATCH_MS / max(once, 1e-4)))
    samples = list[float]()
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        while not _is_done(samples, number, common):
            samples.append(_sample(call, number, before))
    finally:
        if was_enabled:
            gc.enable()
    return Times(min(samples), sum(samples) / len(samples), max(samples), len(samples) * number)


def _is_done(samples: list[float], number: int, common: Common) -> bool:
    if common.fix_times_per_prb:
        return len(samples) >= common.fix_times_per_prb
    return len(samples) >= _LEAST_ROUNDS and sum(samples) * number >= common.max_ms_per_prb


def _sample(call: Callable[[], object], number: int, before: Callable[[], None] | None) -> float:
    if before is not None:
        before()
    begin = time.perf_counter_ns()
    for _ in itertools.repeat(None, number):
        call()
    return (time.perf_counter_ns() - begin) / (number * 1e6)


def _flusher() -> Callable[[], None]:
    """A function that reads and writes more than the caches hold."""
    filler = np.zeros(max(_FLUSHED, 2 * (last_level_cache() or 0)) // 8, np.uint64)

    def flush() -> None:
        np.add(filler, 1, out=filler)

    return flush
