"""Timing of a function: the median of several samples, each long enough for the clock."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

# Minimum duration of a sample: a thousand times the cost of reading the clock.
_SAMPLE = 1e-4
_WARM_UP = 2


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of one execution: the median over `rounds` samples, with the quartiles.

    `moved_bytes` are those read and written; `threads` is the number that could share the work, or of
    work-items on a SYCL device; `flops` are the operations in sums of products, two for each product that is
    computed: those of Winograd's transformed tiles, not of the windows.
    """

    seconds: float
    low: float
    high: float
    rounds: int
    threads: int
    moved_bytes: int
    flops: int = 0

    @property
    def gb_per_s(self) -> float:
        """Bytes read and written, in 1e9 per second, at the median."""
        return self.moved_bytes / self.seconds / 1e9

    @property
    def gflop_per_s(self) -> float:
        """Operations in 1e9 per second, at the median; 0 for everything but sums of products."""
        return self.flops / self.seconds / 1e9

    @property
    def spread(self) -> float:
        """The interquartile range relative to the median."""
        return (self.high - self.low) / self.seconds


def time_call(call: Callable[[], object], rounds: int) -> list[float]:
    """Return seconds of `call`, one value per round, after a warm-up. A sample repeats short calls."""
    for _ in range(_WARM_UP):
        call()
    number = _number(call)
    return [_sample(call, number) for _ in range(rounds)]


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """Return lower quartile, median and upper quartile."""
    low, median, high = np.quantile(values, (0.25, 0.5, 0.75)).tolist()
    return low, median, high


def available_memory() -> int | None:
    """Return the bytes that this process could still use without swapping, if the system reports them."""
    try:
        with open("/proc/meminfo", encoding="utf-8") as lines:
            return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):
        return _free_pages()


def _free_pages() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _number(call: Callable[[], object]) -> int:
    number = 1
    while _sample(call, number) * number < _SAMPLE:
        number *= 2
    return number


def _sample(call: Callable[[], object], number: int) -> float:
    begin = time.perf_counter_ns()
    for _ in itertools.repeat(None, number):
        call()
    # A clock can stand still between two readings.
    return max(time.perf_counter_ns() - begin, 1) / (number * 1e9)
