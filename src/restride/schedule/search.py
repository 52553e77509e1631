"""A small search: times schedules similar to the chosen one, and returns the fastest.

The variations, and which schedules fit, are defined for each kind of loops in its own file: `moves/`,
`trees/` and `contraction/neighbors.py`. One thing is varied at a time, starting from the fastest so far. No
schedule that is tried changes any bits of the result. It ends when none of the variations is faster.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .language import Schedule

MOST_TRIES = 30
# Smaller gains do not count: samples differ by more.
_LEAST_GAIN = 0.97
# The final candidate is timed this many times against the chosen schedule, alternating.
_TURNS = 5

Neighbors = Callable[[Schedule], Iterator[Schedule]]
"""A variation: from a schedule to those that differ only in it. Not all of them need to fit."""


def fastest(
    chosen: Schedule,
    neighbors: Sequence[Neighbors],
    fits: Callable[[Schedule], bool],
    seconds_of: Callable[[Schedule], float],
    is_over: Callable[[], bool],
) -> Schedule:
    """Return the fastest of at most `MOST_TRIES` schedules: the chosen one, and similar ones.

    `fits`: whether one can run, and writes the same bits. `seconds_of`: the time of one execution with it.
    """
    found, least = chosen, seconds_of(chosen)
    tried, last = {chosen}, None
    # One variation can make an earlier one worthwhile.
    while found != last:
        last = found
        for near in neighbors:
            for schedule in near(found):
                if schedule in tried or not fits(schedule):
                    continue
                if len(tried) == MOST_TRIES or is_over():
                    return _confirmed(chosen, found, seconds_of)
                tried.add(schedule)
                seconds = seconds_of(schedule)
                if seconds < least * _LEAST_GAIN:
                    found, least = schedule, seconds
    return _confirmed(chosen, found, seconds_of)


def _confirmed(chosen: Schedule, found: Schedule, seconds_of: Callable[[Schedule], float]) -> Schedule:
    """Return the candidate if it is faster in most of the alternating turns, and at its best."""
    if found == chosen:
        return chosen
    turns = [(seconds_of(chosen), seconds_of(found)) for _ in range(_TURNS)]
    turns.append(tuple(min(times) for times in zip(*turns, strict=True)))
    *wins, is_best = (after < before * _LEAST_GAIN for before, after in turns)
    return found if is_best and sum(wins) > _TURNS // 2 else chosen
