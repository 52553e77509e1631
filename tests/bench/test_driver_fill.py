"""Data of the driver: the same every time, with limits, ties, and numbers that tell places apart."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.dtypes import DataType
from restride.ir.conversion import PROVIDED
from restride_bench.driver.fill import bits_for, operand_for, scales_for, values_for, zero_points_for


@pytest.mark.parametrize("kind", PROVIDED, ids=str)
def test_data_are_the_same_every_time_and_fill_every_byte(kind: DataType) -> None:
    data = values_for(kind, 4096)
    assert data.size == 4096
    assert (data == values_for(kind, 4096)).all()
    assert len(set(data.tolist())) > 1


def test_floats_hold_limits_ties_and_numbers_out_of_range() -> None:
    values = set(values_for(rs.f32, 4096).view(np.float32).tolist())
    assert {float(np.finfo(np.float32).max), float(np.finfo(np.float32).min)} <= values
    assert {0.0, 0.25, 0.5, 1.5, -0.5, -2.5, 300.0} <= values


def test_integers_hold_their_limits() -> None:
    assert {-128, 127, 0} <= set(values_for(rs.s8, 4096).view(np.int8).tolist())


def test_neighbors_along_any_power_of_two_differ() -> None:
    values = values_for(rs.f32, 1 << 16).view(np.float32)
    for step in (1, 2, 16, 64, 256, 1024):
        same = np.mean(values[step:] == values[:-step])
        assert same < 0.3, step


@pytest.mark.parametrize("kind", [rs.f64, rs.f32, rs.s32])
def test_wide_words_of_a_shuffle_all_differ(kind: DataType) -> None:
    words = bits_for(kind, 1 << 14).view(f"u{kind.bits // 8}")
    assert len(set(words.tolist())) == words.size


def test_bits_of_a_shuffle_end_with_the_storage() -> None:
    assert bits_for(rs.s32, 12).view(np.uint32).tolist() == [101, 198, 295]


def test_scales_are_powers_of_two_unless_given() -> None:
    assert scales_for(6, rs.f32).view(np.float32).tolist() == [0.25, 2.0, 0.5, 4.0, 1.0, 0.25]
    assert scales_for(3, rs.f32, (3.0, 5.0)).view(np.float32).tolist() == [3.0, 5.0, 3.0]


def test_zero_points_of_four_bits_lie_by_two_in_a_byte() -> None:
    assert zero_points_for(4, rs.s32).view(np.int32).tolist() == [1, 0, 3, 2]
    assert zero_points_for(3, rs.u4).tolist() == [0x01, 0x23]


def test_operands_fit_their_type() -> None:
    values = operand_for(rs.MemoryDesc((6,), "u8", "a"))
    assert values.tolist() == [0, 2, 0, 4, 1, 0]
