"""The search for a faster schedule: few tries, one thing at a time, and nothing on the word of one sample."""

from __future__ import annotations

from collections.abc import Iterator

from restride.desc.memory_desc import MemoryDesc
from restride.ir.digits import reorder_nest
from restride.ir.nest import Compute
from restride.ir.nest_rewrites import normalise, peel
from restride.schedule.language import Transform
from restride.schedule.machine import Machine
from restride.schedule.moves.schedule import schedule
from restride.schedule.moves.search import MOST_TRIES, SecondsOf, fastest
from restride.schedule.moves.transforms import apply, transforms_of

_MACHINE = Machine(vector_bytes=64, registers=32, l2=1, l3=1)
_SRC, _DST = MemoryDesc((8, 100, 64, 64), "f32", "abcd"), MemoryDesc((8, 100, 64, 64), "f32", "aBcd16b")
_BOXES = [normalise(box) for box in peel(reorder_nest(_SRC, _DST, Compute()))]
_PLANS = [plan for box in _BOXES for plan in schedule(box, _MACHINE)]
_CHOSEN = transforms_of(_BOXES, _PLANS)

Transforms = tuple[Transform, ...]


def _search(seconds_of: SecondsOf, most: int = 1000) -> tuple[Transforms, list[Transforms]]:
    """What is found where so many executions may be timed, and what was timed."""
    timed: list[Transforms] = []

    def seconds(transforms: Transforms) -> float:
        apply(_BOXES, transforms, _MACHINE)
        timed.append(transforms)
        return seconds_of(transforms)

    found = fastest(_BOXES, _PLANS, _MACHINE, seconds, lambda: len(timed) >= most)
    return found, timed


def _distance(transforms: Transforms) -> int:
    found = (t.args[0] for t in transforms if t.name == "prefetch" and t.loop == 0)
    return int(next(found, 0))


def test_the_fastest_is_found_and_few_are_tried() -> None:
    found, timed = _search(lambda transforms: 2.0 - (_distance(transforms) == 512))
    assert _distance(found) == 512
    assert 10 < len(set(timed)) <= MOST_TRIES
    assert timed[0] == _CHOSEN


def test_what_is_not_faster_leaves_the_chosen_one() -> None:
    assert _search(lambda _: 1.0)[0] == _CHOSEN
    assert _search(lambda transforms: 1.0 - (transforms != _CHOSEN) * 0.01)[0] == _CHOSEN


def test_one_sample_is_not_believed() -> None:
    samples: Iterator[float] = iter((1.0, 0.1))
    found, timed = _search(lambda _: next(samples, 1.0))
    assert found == _CHOSEN
    assert timed[-2] == _CHOSEN


def test_without_time_only_the_chosen_one_is_timed() -> None:
    found, timed = _search(lambda _: 1.0, most=1)
    assert (found, timed) == (_CHOSEN, [_CHOSEN])
