"""The search for a faster schedule: few tries, one thing at a time, and nothing on the word of one sample.

Clocks decide no test: how long a schedule takes is made up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from restride.desc.memory_desc import MemoryDesc
from restride.ir.digits import reorder_nest
from restride.ir.nest import Compute
from restride.schedule.language import Schedule, Transform
from restride.schedule.search import MOST_TRIES, fastest
from restride.targets.cpu import lower_nest
from restride.targets.cpu_kernels import lower_tree
from restride.targets.isa import CacheSizes, Isa
from restride.targets.lowered import ScheduleChoice
from support.contractions import CONVOLUTIONS, convolution_tree
from support.trees import softmax_tree, window_tree

_ISA, _CACHES = Isa.for_name("avx512"), CacheSizes(l2=1 << 20, l3=1 << 25)


def _move() -> ScheduleChoice:
    src, dst = MemoryDesc((8, 100, 64, 64), "f32", "abcd"), MemoryDesc((8, 100, 64, 64), "f32", "aBcd16b")
    choice = lower_nest(reorder_nest(src, dst, Compute()), _ISA, _CACHES).choice
    assert choice is not None
    return choice()


def _loop() -> ScheduleChoice:
    md = MemoryDesc((8, 16, 19, 21), "f32", "aBcd16b")
    choice = lower_tree(window_tree(md, md, 3, 1, 1), _ISA, _CACHES).loops[0].choice
    assert choice is not None
    return choice()


def _rows() -> ScheduleChoice:
    md = MemoryDesc((8, 64, 19), "f32", "acb")
    choice = lower_tree(softmax_tree(md, md, 1), _ISA, _CACHES).loops[0].choice
    assert choice is not None
    return choice()


def _contraction() -> ScheduleChoice:
    window, formats = CONVOLUTIONS[0]
    tree = convolution_tree(window, window.descs(*formats))
    choice = lower_tree(tree, _ISA, _CACHES).loops[0].choice
    assert choice is not None
    return choice()


_CHOICES = {"move": _move, "loops": _loop, "rows": _rows, "contraction": _contraction}


def _search(
    choice: ScheduleChoice, seconds_of: Callable[[Schedule], float], most: int = 1000
) -> tuple[Schedule, list[Schedule]]:
    """Search with a limit of timed executions; return the result and the timed schedules."""
    timed: list[Schedule] = []

    def seconds(schedule: Schedule) -> float:
        choice.lower(schedule)
        timed.append(schedule)
        return seconds_of(schedule)

    near, is_over = choice.neighbors(), lambda: len(timed) >= most
    return fastest(choice.transforms, near, choice.fits, seconds, is_over), timed


def _distance(schedule: Schedule) -> int:
    found = (t.args[0] for t in schedule if t.name == "prefetch" and t.loop == 0)
    return int(next(found, 0))


def test_the_fastest_is_found_and_few_are_tried() -> None:
    choice = _move()
    found, timed = _search(choice, lambda schedule: 2.0 - (_distance(schedule) == 512))
    assert _distance(found) == 512
    assert 10 < len(set(timed)) <= MOST_TRIES
    assert timed[0] == choice.transforms


@pytest.mark.parametrize("make", _CHOICES.values(), ids=_CHOICES)
def test_what_is_faster_goes_on(make: Callable[[], ScheduleChoice]) -> None:
    """Of every kind of loops there are others that fit; the fastest of those that were timed is found."""
    choice, seconds = make(), dict[Schedule, float]()

    def seconds_of(schedule: Schedule) -> float:
        return seconds.setdefault(schedule, 1 / (1 + len(seconds)))

    found, timed = _search(choice, seconds_of)
    assert found == min(seconds, key=seconds.__getitem__) != choice.transforms
    assert 3 < len(set(timed)) <= MOST_TRIES


@pytest.mark.parametrize("make", _CHOICES.values(), ids=_CHOICES)
def test_what_is_not_faster_leaves_the_chosen_one(make: Callable[[], ScheduleChoice]) -> None:
    choice = make()
    chosen = choice.transforms
    assert _search(choice, lambda _: 1.0)[0] == chosen
    assert _search(choice, lambda schedule: 1.0 - (schedule != chosen) * 0.01)[0] == chosen


def test_one_sample_is_not_believed() -> None:
    choice, samples = _move(), iter((1.0, 0.1))
    found, timed = _search(choice, lambda _: next(samples, 1.0))
    assert found == choice.transforms
    assert timed[-2] == choice.transforms


def test_without_time_only_the_chosen_one_is_timed() -> None:
    choice = _move()
    assert _search(choice, lambda _: 1.0, most=1) == (choice.transforms, [choice.transforms])


def test_what_was_tried_is_tried_once_and_what_does_not_fit_is_not() -> None:
    def near(schedule: Schedule) -> Iterator[Schedule]:
        yield from ((Transform("a"),), (Transform("b"),), schedule)

    timed: list[Schedule] = []

    def seconds_of(schedule: Schedule) -> float:
        timed.append(schedule)
        return 1.0

    fastest((), [near, near], lambda schedule: schedule != (Transform("b"),), seconds_of, lambda: False)
    assert timed == [(), (Transform("a"),)]


def test_of_loops_that_sum_floats_vectors_and_order_stay() -> None:
    """They are the order in which is added up: of rows the vectors are those of sums."""
    choice = _rows()
    vectors = [each for each in choice.transforms if each.name == "vectorize"]
    assert vectors
    for near in choice.neighbors():
        for schedule in filter(choice.fits, near(choice.transforms)):
            sums = [each for each in schedule if each.name == "vectorize"]
            assert sums[1] == vectors[1], "the loop of the sum"
    assert not choice.fits(tuple(each for each in choice.transforms if each.name != "vectorize"))
