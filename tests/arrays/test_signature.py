"""Fast parsing of calls: structure apart from values; unclear calls are left to the slow path."""

import math

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from restride.arrays.calls.signature import read_values

ROW = np.float32([1, 2, 3])


def structure(scale=None, zero_point=None, axis=None, beta=0.0, post_ops=None):
    values = read_values(scale, zero_point, axis, beta, post_ops)
    return None if values is None else values.structure


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"scale": 0.5}, {"scale": np.float32(3)}),
        ({"scale": 0.5, "zero_point": 3}, {"scale": 2, "zero_point": np.int8(-7)}),
        ({"scale": ROW, "axis": 1}, {"scale": [4, 5.5, 6], "axis": 1}),
        ({"zero_point": [1, 2], "axis": 0}, {"zero_point": np.arange(2), "axis": 0}),
        ({"post_ops": [("clip", 0, 6)]}, {"post_ops": [["clip", -1.5, 1]]}),
        ({"post_ops": [("add", 1)]}, {"post_ops": [("add", 2.5)]}),
        ({"post_ops": [("add", ROW)]}, {"post_ops": [("add", ROW + 1)]}),
        ({"beta": 1}, {"beta": 0.25}),
        ({}, {"scale": 1.0, "zero_point": 0, "beta": -0.0, "post_ops": []}),
    ],
    ids=str,
)
def test_other_values_have_the_same_structure(one, other):
    assert structure(**one) == structure(**other) is not None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"scale": 0.5}, {"scale": 1.0}),
        ({"zero_point": 0}, {"zero_point": 1}),
        ({"beta": 0.0}, {"beta": 1.0}),
        ({"scale": ROW, "axis": 0}, {"scale": ROW, "axis": 1}),
        ({"scale": ROW, "axis": 0}, {"scale": ROW[:2], "axis": 0}),
        ({"post_ops": "relu"}, {"post_ops": [("relu", 0.0)]}),
        ({"post_ops": "relu"}, {"post_ops": "abs"}),
        ({"post_ops": [("add", ROW)]}, {"post_ops": [("add", ROW[None])]}),
        ({"post_ops": [("add", ROW)]}, {"post_ops": [("add", ROW.astype("f2"))]}),
        ({"post_ops": [("add", ROW)]}, {"post_ops": [("add", ROW[::-1])]}),
    ],
    ids=str,
)
def test_what_is_there_and_how_it_lies_is_structure(one, other):
    assert structure(**one) != structure(**other)


@pytest.mark.parametrize(
    "given",
    [
        {"axis": True},
        {"axis": 1.0},
        {"scale": math.nan},
        {"scale": rs.RUNTIME_F32_VAL},
        {"scale": 10**400},
        {"scale": "1"},
        {"scale": True},
        {"scale": np.ma.array(ROW)},
        {"scale": [[1], [2, 3]]},
        {"scale": [1, None]},
        {"scale": ROW.astype(ml_dtypes.bfloat16)},
        {"zero_point": 1.5},
        {"zero_point": True},
        {"zero_point": 2**31},
        {"zero_point": rs.RUNTIME_S32_VAL},
        {"zero_point": [1, 2**40]},
        {"zero_point": ROW},
        {"beta": None},
        {"post_ops": "no such function"},
        {"post_ops": [()]},
        {"post_ops": 5},
        {"post_ops": ["clip", ("clip", 6, 0)]},
        {"post_ops": [("relu", "1")]},
        {"post_ops": [("relu", 0, 0, 1, 1)]},
        {"post_ops": [("sum", 0.5)]},
        {"post_ops": [("add", [1, 2])]},
        {"post_ops": [("add", True)]},
        {"post_ops": [("add", np.ma.array(ROW))]},
        {"post_ops": [("add", np.zeros(3, ml_dtypes.int4))]},
    ],
    ids=str,
)
def test_what_is_unclear_is_left_to_a_closer_look(given):
    assert structure(**given) is None


def test_values_are_rounded_to_f32_and_come_in_order():
    ops = rs.PostOps()
    ops.append_eltwise("linear", 0.1, 3)
    values = read_values(0.1, -4, None, 0.3, ops)
    tenth = float(np.float32(0.1))
    assert values.scalars == [-4, tenth, float(np.float32(0.3)), tenth, 3.0, 1.0]


def test_arrays_are_what_kernels_read_and_come_in_order():
    values = read_values(ROW[::-1], np.arange(3), 0, 0.0, [("add", np.arange(3)), ("mul", ROW)])
    assert [array.dtype for array in values.arrays] == ["i4", "f4", "f8", "f4"]
    np.testing.assert_array_equal(values.arrays[1], [3, 2, 1])
    assert values.arrays[1].flags.c_contiguous
    assert values.arrays[3] is ROW
