"""Tolerances: results close enough to a formula, and results that are not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from restride import DataType
from restride_bench.driver.attr_text import parse_post_ops, parse_scales
from restride_bench.driver.compare import Tolerance, are_near, epsilon, points_of
from restride_bench.driver.fill import rounded


def _is_near(got: float, exact: float, data_type: str = "f32", **how: Any) -> bool:
    kind = DataType.parse(data_type)
    points = points_of(np.array([got], kind.numpy), np.array([exact]), kind)
    return bool(are_near(points, kind, Tolerance(**how)).all())


def test_equal_values_are_no_points() -> None:
    points = points_of(np.array([1.0, 2.0, 3.0], np.float32), np.array([1.0, 2.5, 3.0]), DataType.f32)
    assert points.index.tolist() == [1]
    assert (points.diff.tolist(), points.rdiff.tolist()) == ([0.5], [0.2])


@pytest.mark.parametrize(
    ("data_type", "expected"), [("f32", 2.0**-23), ("bf16", 2.0**-7), ("f16", 2.0**-10), ("s8", 0.0)]
)
def test_epsilon_is_the_step_above_one(data_type: str, expected: float) -> None:
    assert epsilon(DataType.parse(data_type)) == expected


def test_rounding_saturates_integers_and_takes_halves_to_even() -> None:
    assert rounded(np.array([0.5, 1.5, 300.0, -5.0, np.nan]), DataType.u8).tolist() == [0, 2, 255, 0, 0]


def test_a_relative_difference_counts_and_near_zero_an_absolute_one() -> None:
    assert _is_near(1000.001, 1000.0, threshold=1e-5)
    assert not _is_near(1000.1, 1000.0, threshold=1e-5)
    assert _is_near(2e-8, 0.0)
    assert not _is_near(2e-6, 0.0)
    assert _is_near(2e-6, 0.0, threshold=1e-5)


def test_infinities_and_nan_are_right_where_they_are_expected() -> None:
    assert _is_near(float("nan"), float("nan"), has_nan=True)
    assert not _is_near(float("nan"), float("nan"))
    assert not _is_near(1.0, float("nan"), has_nan=True)
    assert not _is_near(float("-inf"), float("inf"), has_nan=True)
    assert _is_near(float("inf"), float("inf"))


def test_integers_may_lie_on_either_side_of_a_half() -> None:
    assert _is_near(3, 2.5, "s8")
    assert not _is_near(4, 2.5, "s8")
    assert not _is_near(3, 2.4, "s8")


def test_floats_of_a_byte_may_lie_on_either_side_of_a_half() -> None:
    assert _is_near(1.125, 1.0625, "f8_e4m3")
    assert not _is_near(1.25, 1.0625, "f8_e4m3")
    assert not _is_near(1.125, 1.01, "f8_e4m3")
    assert not _is_near(1.0078125, 1.00390625, "bf16")


def test_a_destination_may_be_multiplied_by_the_inverse_of_its_scale() -> None:
    assert _is_near(1.000009, 1.0, scales=parse_scales("dst:common:3"))
    assert not _is_near(1.000009, 1.0, scales=parse_scales("src:common:3"))
    assert not _is_near(1.000009, 1.0, scales=parse_scales("dst:common:3:bf16"))


def test_a_saturated_s32_is_as_near_as_a_float_comes() -> None:
    assert _is_near(2147483520, 3e9, "s32")
    assert not _is_near(2147480000, 3e9, "s32")


def test_post_ops_make_more_allowance() -> None:
    assert not _is_near(1.00001, 1.0)
    assert _is_near(1.00001, 1.0, post_ops=parse_post_ops("tanh"))
    assert _is_near(1.000005, 1.0, post_ops=parse_post_ops("add:f32"))
    assert not _is_near(1.01, 1.0, post_ops=parse_post_ops("tanh+add:f32"))
    assert _is_near(float("nan"), float("nan"), post_ops=parse_post_ops("div:f32"))


def test_what_a_driver_allows_is_allowed() -> None:
    assert _is_near(2.0, 1.0, allows=lambda points: points.diff <= 1)


def test_more_zeros_are_trusted_where_negative_values_become_zero() -> None:
    assert Tolerance().trusted_zeros(DataType.f32) == 0.3
    assert Tolerance().trusted_zeros(DataType.u8) == 0.65
    assert Tolerance(post_ops=parse_post_ops("relu")).trusted_zeros(DataType.f32) == 0.65
    assert Tolerance(zeros=99.0).trusted_zeros(DataType.u8) == 0.99
