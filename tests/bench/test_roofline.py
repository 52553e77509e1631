"""Speed over size: the sizes, what is left out, and that answers are checked. No timing decides."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

import restride as rs
from restride_bench import roofline
from restride_bench.array_peers import NumPy
from restride_bench.measure import Timing
from restride_bench.peers import Restride
from restride_bench.roofline import SHAPES
from restride_bench.study import MEMCPY, BenchRow, BenchSetup


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    before = rs.get_num_threads()
    yield
    rs.set_num_threads(before)


def _setting(largest: int) -> BenchSetup:
    return BenchSetup([Restride(2), NumPy(2)], [NumPy(2)], threads=2, rounds=1, largest=largest)


def test_sizes_go_from_4_kilobytes_to_4_gigabytes_by_about_four() -> None:
    moved = [roofline.problems(dims)[0].moved for dims in SHAPES]
    assert moved[0] == 4096
    assert 3.9e9 < moved[-1] <= 4e9
    assert all(2 < after / before < 7 for before, after in itertools.pairwise(moved))


def test_every_size_has_every_kernel_and_memcpy_on_one_thread_and_on_all() -> None:
    found = roofline.measure(_setting(10_000))
    kernels = [MEMCPY, *(problem.name for problem in roofline.problems(SHAPES[0]))]
    assert [row.about["threads"] for row in found] == [1, 2] * 2
    assert all(set(row.times) == set(row.about["moved by"]) == set(kernels) for row in found)
    assert not [row for row in found if row.wrong]
    assert all(roofline.rate(row, name) > 0 for row in found for name in kernels)
    assert all(all(row.about["predicted"].values()) for row in found)
    assert rs.get_num_threads() == 2


def test_a_size_without_room_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline, "available_memory", lambda: 6000)
    found = roofline.measure(_setting(10_000))
    *measured, left_out = found
    assert {row.moved for row in measured} == {4096}
    assert left_out.moved == 16 * 14 * 14 * 8
    assert "GB free" in left_out.refused["restride"]
    assert "Left out: 25.1 KB, source" in roofline.page(found)
    monkeypatch.setattr(roofline, "available_memory", lambda: None)
    assert roofline.no_room(1 << 60) == ""


@pytest.mark.parametrize("image", [0, 2, 3])
def test_a_wrong_image_is_found(image: int) -> None:
    problem = roofline.problems((4, 16, 3, 5))[3]
    source, target = problem.source(), problem.destination()
    right = Restride(1).prepare(problem, source, target).call
    assert roofline.wrong_image(problem, right, source, target) == ""

    def wrong() -> None:
        right()
        target[image * 16 * 15] ^= np.uint8(1)

    assert roofline.wrong_image(problem, wrong, source, target).startswith(f"image {image}: 1 of ")


def test_the_mean_error_of_predictions_is_a_factor_either_way() -> None:
    predicted = {"a": 4.0, "b": 0.25, "c": None}
    row = BenchRow("8 B", 8, dict.fromkeys("abc", Timing((1.0,))), about={"predicted": predicted})
    assert roofline.mean_error([row]) == pytest.approx(4.0)
    assert roofline.mean_error([]) is None
