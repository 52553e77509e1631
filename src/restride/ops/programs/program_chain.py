"""Concatenation of two programs: the second one reads what the first one writes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ...ir.program import DST, SRC, NestStep, Place, Program, RepeatStep, Step, TreeStep

Moved = Callable[[Place], Place]


def chained(first: Program, second: Program, nbytes: int) -> Program:
    """Return both as one program, with the second one's destination. Between them is a temporary of `nbytes`.
    Slots, temporaries and scalars of the second program follow those of the first.
    """
    between = ~len(first.temporaries)

    def of_first(place: Place) -> Place:
        return place._replace(buffer=between) if place.buffer == DST else place

    def of_second(place: Place) -> Place:
        buffer = place.buffer
        if buffer < 0:
            return place._replace(buffer=between - 1 - ~buffer)
        if buffer == SRC:
            return place._replace(buffer=between)
        return place if buffer == DST else place._replace(buffer=buffer - DST - 1 + len(first.slots))

    slots = (first.slots[SRC], second.slots[DST], *first.slots[DST + 1 :], *second.slots[DST + 1 :])
    steps = (
        *(_moved(step, of_first, 0) for step in first.steps),
        *(_moved(step, of_second, first.scalars) for step in second.steps),
    )
    temporaries = (*first.temporaries, max(nbytes, 1), *second.temporaries)
    return Program(slots, steps, temporaries, first.scalars + second.scalars).verify()


def _moved(step: Step, to: Moved, scalars: int) -> Step:
    """Return the step with places moved and scalars renumbered."""
    if isinstance(step, RepeatStep):
        return replace(step, steps=tuple(_moved_tree(each, to, scalars) for each in step.steps))
    if isinstance(step, TreeStep):
        return _moved_tree(step, to, scalars)
    assert isinstance(step, NestStep)
    return _moved_nest(step, to, scalars)


def _moved_nest(step: NestStep, to: Moved, scalars: int) -> NestStep:
    first, count = step.scalars
    return replace(
        step,
        src=to(step.src),
        dst=to(step.dst),
        operands=tuple(map(to, step.operands)),
        scalars=(first + scalars, count),
    )


def _moved_tree(step: TreeStep, to: Moved, scalars: int) -> TreeStep:
    first, count = step.scalars
    return replace(step, places=tuple(map(to, step.places)), scalars=(first + scalars, count))
