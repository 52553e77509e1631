"""Timing that compares: each candidate in turn, round after round, so that a change of the machine meets all.

A ratio is the quotient of two medians over the rounds, so that it agrees with the printed figures; its
quartiles are those of the ratios within each round. A pause before each call lets the worker threads of the
one before come to rest: some runtimes keep them spinning for milliseconds, for which the next would pay.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

Call = Callable[[], object]

SETTLE = 0.008  # seconds; libgomp's workers spin for about 5 ms
_BATCH = 1e-3  # seconds that one sample of a short call should last


@dataclass(frozen=True)
class Quartiles:
    """Median and quartiles of a sample."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: list[float]) -> Quartiles:
        """The spread of `values` (one value has none)."""
        if len(values) < 2:
            return cls(values[0], values[0], values[0])
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high)

    @property
    def relative(self) -> float:
        """Interquartile range as a part of the median."""
        return (self.high - self.low) / self.median if self.median else 0.0

    def values(self) -> list[float]:
        """For JSON, from the lowest."""
        return [self.low, self.median, self.high]


@dataclass(frozen=True)
class Timing:
    """Seconds per call, one value per round."""

    seconds: tuple[float, ...]

    @property
    def spread(self) -> Quartiles:
        """Median and quartiles over the rounds."""
        return Quartiles.of(list(self.seconds))

    @property
    def least(self) -> float:
        """The least of the rounds, which other work on the machine changes least."""
        return min(self.seconds)

    def times_faster_than(self, other: Timing) -> Quartiles:
        """Return the time of `other` relative to this: the ratio of medians, and quartiles within rounds.

        Tables show both medians, and a reader divides them.
        """
        rounds = Quartiles.of([b / a for a, b in zip(self.seconds, other.seconds, strict=True)])
        median = other.spread.median / self.spread.median
        return Quartiles(median, min(rounds.low, median), max(rounds.high, median))


def alternate(
    calls: Mapping[str, Call],
    *,
    rounds: int = 15,
    warmup: int = 2,
    settle: float = SETTLE,
    number: int = 1,
    untimed: int = 0,
    before: Mapping[str, Call] = MappingProxyType({}),
) -> dict[str, Timing]:
    """Time every one of `calls` once per round, a sample of `number` calls, starting with another each round.

    `before` holds what to do, untimed, ahead of the samples of that name. `untimed` calls come after the
    pause and are no part of a sample.
    """
    names = list(calls)
    taken: dict[str, list[float]] = {name: [] for name in names}
    with no_collection():
        for turn in range(warmup + rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                before.get(name, lambda: None)()
                time.sleep(settle)
                for _ in range(untimed):
                    calls[name]()
                taken[name].append(sample(calls[name], number))
    return {name: Timing(tuple(values[warmup:])) for name, values in taken.items()}


def batch_size(call: Call, seconds: float = _BATCH) -> int:
    """Return the number of calls of `call`, once warm, so that one sample lasts about `seconds`."""
    sample(call, 3)
    number = 1
    while (once := sample(call, number) * number) < seconds:
        number = max(number * 2, int(number * seconds / max(once, 1e-9)) + 1)
    return number


def geometric_mean(values: list[float]) -> float | None:
    """The geometric mean, or None of nothing."""
    return statistics.geometric_mean(values) if values else None


def sample(call: Call, number: int) -> float:
    """Seconds of a call, of which so many are timed."""
    begin = time.perf_counter_ns()
    for _ in itertools.repeat(None, number):
        call()
    return (time.perf_counter_ns() - begin) / (number * 1e9)


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Without Python's collector of garbage."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()
