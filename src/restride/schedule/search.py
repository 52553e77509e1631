"""A small search: schedules like the chosen one, timed one after the other, and the fastest of them.

What there is to vary, and which schedules fit, each kind of loops says in a file of its own: `moves/`,
`trees/` and `contraction/neighbors.py`. One thing at a time is varied, and what is fastest goes on. No
schedule that is tried changes a bit of the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from .language import Schedule

MOST_TRIES = 30
# A schedule that gains less is none that is faster: samples differ by more.
_LEAST_GAIN = 0.97
# What seems faster in the end is timed so often beside the one that was chosen, in turns.
_TURNS = 5

Neighbors = Callable[[Schedule], Iterator[Schedule]]
"""A thing to vary: from a schedule to those that differ from it in that alone. Not all of them need fit."""


def fastest(
    chosen: Schedule,
    neighbors: Sequence[Neighbors],
    fits: Callable[[Schedule], bool],
    seconds_of: Callable[[Schedule], float],
    is_over: Callable[[], bool],
) -> Schedule:
    """The fastest of at most `MOST_TRIES` schedules: the chosen one, and such as are near it.

    `fits`: whether one can run, and writes the same bits. `seconds_of`: how long an execution takes by one.
    """
    found, least = chosen, seconds_of(chosen)
    tried = {chosen}
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
    """What was found where it is faster in most of the turns of both, and at their best."""
    if found == chosen:
        return chosen
    turns = [(seconds_of(chosen), seconds_of(found)) for _ in range(_TURNS)]
    turns.append(tuple(min(times) for times in zip(*turns, strict=True)))
    *wins, is_best = (after < before * _LEAST_GAIN for before, after in turns)
    return found if is_best and sum(wins) > _TURNS // 2 else chosen
