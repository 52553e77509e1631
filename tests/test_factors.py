"""`scale` and `beta` of `rs.reorder`: any real number, rounded to f32 (N1, R36)."""

from fractions import Fraction

import numpy as np
import pytest

import restride as rs
from support.errors import refused

CPU, REF = rs.Engine("cpu"), rs.Engine("reference")
DIMS = (2, 5, 3, 4)


@pytest.fixture
def x():
    return np.arange(120, dtype=np.float32).reshape(DIMS)


# scale and beta

TWO = [2, 2.0, np.float32(2), np.float64(2), np.int8(2), np.array(2.0), Fraction(2)]


@pytest.mark.parametrize("two", TWO, ids=lambda v: type(v).__name__)
def test_scales_and_weights_are_any_real_number(x, two):
    np.testing.assert_array_equal(rs.reorder(x, "nhwc", scale=two), 2 * x)
    np.testing.assert_array_equal(rs.reorder(rs.Memory.from_numpy(x), "nhwc", scale=two), 2 * x)
    out = np.ones(DIMS, np.float32)
    assert rs.reorder(x, None, scale=two, beta=two, out=out) is out
    np.testing.assert_array_equal(out, 2 * x + 2)


def test_factors_are_rounded_to_f32_before_anything_is_decided():
    """N1: a scale of 1 in f32 moves bits, a beta of 0 in f32 does not read the destination."""
    x = np.array([0x7F800001, 0xFFC12345], np.uint32).view(np.float32)
    for scale in (1.0 + 1e-12, 1, np.float64(1 - 1e-12)):
        np.testing.assert_array_equal(rs.reorder(x, None, scale=scale).view("u4"), x.view("u4"))
    out = np.full(3, np.nan, np.float32)
    rs.reorder(np.ones(3, np.float32), None, beta=1e-60, out=out)
    np.testing.assert_array_equal(out, np.ones(3))
    assert rs.reorder(np.ones(3, np.float32), None, beta=1e-60).sum() == 3
    assert rs.reorder(np.ones(3, np.float32), None, scale=1e300).tolist() == [np.inf] * 3


def test_zero_and_minus_zero_are_two_scales():
    x = np.ones(20, np.float32)
    for scale in (0.0, -0.0, 0.0, -0.0, 0, np.float32(-0.0)):
        got = rs.reorder(x, None, scale=scale)
        assert (np.signbit(got) == np.signbit(np.float32(scale))).all()


def test_nan_is_a_factor():
    out = np.ones(20, np.float32)
    assert np.isnan(rs.reorder(out, None, scale=float("nan"))).all()
    rs.reorder(np.ones(20, np.float32), None, beta=float("nan"), out=out)
    assert np.isnan(out).all()


NO_NUMBERS = [
    "2",
    b"2",
    True,
    np.True_,
    1j,
    np.complex64(1),
    {},
    [],
    [[1], [2, 3]],
    object(),
    np.array("a"),
    rs.s8,
]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda v: repr(v)[:20])
def test_what_is_no_number_is_refused(x, value):
    for source in (x, rs.Memory.from_numpy(x)):
        with pytest.raises(rs.Error, match="scale"):
            rs.reorder(source, "nhwc", scale=value)
        with pytest.raises(rs.InvalidArguments, match="beta"):
            rs.reorder(source, None, beta=value, out=np.zeros(DIMS, np.float32))


def test_a_scale_for_each_channel_is_not_provided_yet(x):
    for scale in ([1.0] * 5, np.ones(5, np.float32), (1.0,)):
        with refused("scale per axis", kind=rs.Unimplemented):
            rs.reorder(x, "nhwc", scale=scale)


@pytest.mark.parametrize("name", ["zero_point", "axis", "post_ops"])
def test_options_of_later_versions_are_refused_by_name(x, name):
    for value in (False, 0.0, 1, [0], np.zeros(1, int), np.zeros((), int), rs.PostOps()):
        with refused(f"{name} is not provided", kind=rs.Unimplemented):
            rs.reorder(x, "nhwc", **{name: value})


def test_a_zero_point_of_zero_is_none(x):
    for zero in (0, np.int64(0), np.uint8(0)):
        np.testing.assert_array_equal(rs.reorder(x, "nhwc", dtype="s8", zero_point=zero), x.astype("i1"))
        with refused("axis is not provided", kind=rs.Unimplemented):
            rs.reorder(x, "nhwc", zero_point=zero, axis=0)


def test_beta_needs_something_to_multiply(x):
    for source in (x, rs.Memory.from_numpy(x)):
        with refused("beta without out"):
            rs.reorder(source, "nhwc", beta=1.0)
    np.testing.assert_array_equal(rs.reorder(x, "nhwc", beta=0), x)
