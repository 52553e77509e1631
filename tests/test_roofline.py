"""Speed over size: the sizes, what is left out, and that answers are checked. No timing decides."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest

import restride as rs
from restride_bench import roofline
from restride_bench.array_peers import NumPy
from restride_bench.figures import BenchSetup
from restride_bench.measure import Quartiles
from restride_bench.peers import Restride
from restride_bench.roofline import MEMCPY, SHAPES, Point


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
    wanted = [(name, threads) for threads in (1, 2) for name in kernels]
    assert [(point.kernel, point.threads) for point in found.points] == wanted * 2
    assert not [point for point in found.points if point.wrong]
    assert all(point.rate > 0 for point in found.points)
    assert all((point.predicted is None) == (point.kernel == MEMCPY) for point in found.points)
    assert rs.get_num_threads() == 2


def test_a_size_without_room_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roofline, "available_memory", lambda: 6000)
    found = roofline.measure(_setting(10_000))
    assert {point.moved for point in found.points if point.kernel == MEMCPY} == {4096}
    ((moved, why),) = found.left_out
    assert moved == 16 * 14 * 14 * 8
    assert "GB free" in why
    monkeypatch.setattr(roofline, "available_memory", lambda: None)
    assert roofline.no_room(1 << 60) == ""


@pytest.mark.parametrize("image", [0, 2, 3])
def test_a_wrong_image_is_found(image: int) -> None:
    problem = roofline.problems((4, 16, 3, 5))[3]
    source, target = problem.source(), problem.destination()
    right = Restride(1).prepare(problem, source, target).call
    assert roofline._wrong(problem, right, source, target) == ""

    def wrong() -> None:
        right()
        target[image * 16 * 15] ^= np.uint8(1)

    assert roofline._wrong(problem, wrong, source, target).startswith(f"image {image}: 1 of ")


def test_the_mean_error_of_predictions_is_a_factor_either_way() -> None:
    second = Quartiles(1.0, 1.0, 1.0)
    points = [Point("a", 1, 8, second, told) for told in (4.0, 0.25, None)]
    assert roofline.mean_error(points) == pytest.approx(4.0)
    assert roofline.mean_error([]) is None
