"""How long one execution takes: rounds, until the time or the number of rounds is reached."""

from __future__ import annotations

import contextlib
import gc
import itertools
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ..machine import last_level_cache
from .common import CommonKnobs

_LEAST_ROUNDS = 5
_WARM_UP = 3
_BATCH_MS = 0.2  # that a sample should last: a clock that is read too often is measured itself
_FLUSHED = 256 << 20


class Times(NamedTuple):
    """Least, mean and most ms of one execution, and how many were timed."""

    least: float
    mean: float
    most: float
    rounds: int


def measure(call: Callable[[], object], common: CommonKnobs) -> Times:
    """Time `call`, which has been called before. The time asked for is that of the clock, with all in it."""
    before = _flusher() if common.cold_cache == "all" else None
    begin = time.perf_counter()
    is_single = before is not None or common.fix_times_per_prb > 0
    with _no_collection():
        number = 1 if is_single else _batch(call)
        samples = list[float]()
        while not _is_done(len(samples), begin, common):
            samples.append(_sample(call, number, before))
    return Times(min(samples), sum(samples) / len(samples), max(samples), len(samples) * number)


def _is_done(rounds: int, begin: float, common: CommonKnobs) -> bool:
    if common.fix_times_per_prb:
        return rounds >= common.fix_times_per_prb
    return rounds >= _LEAST_ROUNDS and (time.perf_counter() - begin) * 1e3 >= common.max_ms_per_prb


def _batch(call: Callable[[], object]) -> int:
    """How many calls make a sample: doubled until they last. The first ones, which are slow, do not count."""
    _sample(call, _WARM_UP, None)
    number = 1
    while _sample(call, number, None) * number < _BATCH_MS:
        number *= 2
    return number


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


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
