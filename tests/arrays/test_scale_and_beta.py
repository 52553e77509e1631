"""`scale` and `beta` of `rs.reorder`: any real number, rounded to f32 (N1)."""

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


def _channels(values, data_type="float32"):
    return np.asarray(values, data_type).reshape(1, 5, 1, 1)


@pytest.mark.parametrize("kind", [list, tuple, np.array, lambda v: np.array(v, np.float32)])
def test_a_scale_for_each_index_of_an_axis_multiplies_it(x, kind):
    scale = [0.5, 2.0, -1.0, 3.0, 0.0]
    for axis in (1, -3, np.int64(1)):
        result = rs.reorder(x, "nhwc", scale=kind(scale), axis=axis)
        np.testing.assert_array_equal(result, x * _channels(scale))
    result = rs.reorder(rs.Memory.from_numpy(x), "nChw16c", scale=kind(scale), axis=1)
    np.testing.assert_array_equal(result.to_numpy(), x * _channels(scale))


def test_a_zero_point_shifts_the_side_of_integers(x):
    bytes_ = np.rint(x * 10).clip(-128, 127).astype(np.int8)
    zeros = np.array([3, -7, 100, 0, 1])
    per_channel = _channels(zeros, "int32")
    into = rs.reorder(x, "nhwc", dtype="s8", scale=10, zero_point=zeros, axis=1)
    np.testing.assert_array_equal(into, np.clip(np.rint(x * np.float32(10)) + per_channel, -128, 127))
    back = rs.reorder(bytes_, "nhwc", dtype="f32", scale=0.25, zero_point=zeros, axis=1)
    np.testing.assert_array_equal(back, (bytes_ - per_channel) * np.float32(0.25))
    np.testing.assert_array_equal(
        rs.reorder(x, None, dtype="u8", zero_point=4), np.clip(np.rint(x) + 4, 0, 255)
    )


def test_a_zero_point_without_integers_is_refused(x):
    with refused("zero_point without integers", "R27"):
        rs.reorder(x, "nhwc", zero_point=1)
    for value in (0.5, "3", np.array([1.5] * 5)):
        with refused("zero_point"):
            rs.reorder(x, "nhwc", dtype="s8", zero_point=value, axis=1)
    with refused("zero_point"):
        rs.reorder(x, "nhwc", dtype="s8", zero_point=[2**31] * 5, axis=1)


@pytest.mark.parametrize("name", ["scale", "zero_point"])
def test_several_values_need_the_axis_that_they_lie_along(x, name):
    with refused(f"several {name} values without axis", where=("(2, 5, 3, 4)",)):
        rs.reorder(x, "nhwc", dtype="s8", **{name: [1] * 5})
    for wrong in ([1] * 4, [[1] * 5], np.ones((5, 1)), []):
        with refused(f"{name} is", "5 real numbers", where=("(2, 5, 3, 4)", "axis 1")):
            rs.reorder(x, "nhwc", dtype="s8", axis=1, **{name: wrong})


@pytest.mark.parametrize("kind", [np.array, list, np.ma.array], ids=["array", "list", "masked"])
def test_one_value_in_a_list_needs_no_axis(x, kind):
    one, shift = (np.float32([2.0]), np.int32([3])) if kind is np.array else (kind([2.0]), kind([3]))
    if kind is np.ma.array:
        with refused("several scale values without axis"):
            rs.reorder(x, "nhwc", scale=one)
        return
    np.testing.assert_array_equal(rs.reorder(x, "nhwc", scale=one), x * 2)
    for given in (3, shift):
        made = rs.reorder(x, "nhwc", dtype="s8", scale=one, zero_point=given, post_ops=["relu"])
        wanted = rs.reorder(x, "nhwc", dtype="s8", scale=2.0, zero_point=3, post_ops=["relu"])
        np.testing.assert_array_equal(made, wanted)
    made = rs.dequantize(made, np.ones((1, 1), np.float32), shift)
    np.testing.assert_array_equal(made, wanted.astype(np.float32) - 3)
    assert rs.plan(x, "nhwc", scale=one).impl == rs.plan(x, "nhwc", scale=2.0).impl


def test_an_axis_that_the_tensor_lacks_is_refused_with_or_without_values(x):
    for axis in (4, -5):
        with refused(f"axis is {axis}", "from -4 to 3"):
            rs.reorder(x, "nhwc", axis=axis)
    for axis in (0.5, "c"):
        with refused("axis is"):
            rs.reorder(x, "nhwc", axis=axis)
    np.testing.assert_array_equal(rs.reorder(x, "nhwc", scale=2, axis=1), x * 2)


def test_post_ops_are_applied_in_their_order(x):
    bias = np.arange(5, dtype=np.float32).reshape(5, 1, 1)
    chain = ["relu", ("mul", 3.0), ("add", bias), ("clip", 0, 6)]
    wanted = np.clip(np.maximum(x, 0) * 3 + bias, 0, 6)
    np.testing.assert_array_equal(rs.reorder(x, "nhwc", post_ops=chain), wanted)
    ops = rs.PostOps()
    ops.append_eltwise("relu")
    for one in ("relu", ["relu"], ops):
        np.testing.assert_array_equal(rs.reorder(x, "nhwc", post_ops=one), np.maximum(x, 0))
    np.testing.assert_array_equal(rs.reorder(x, None, post_ops=[]), x)


def test_functions_that_need_numbers_take_the_usual_ones_or_ask(x):
    """Without them hardswish would be 0 for every x, and soft_relu infinite."""
    y = x / 20 - 3
    clipped = np.clip(y * np.float32(1 / 6) + np.float32(0.5), 0, 1)
    np.testing.assert_array_equal(rs.reorder(y, None, post_ops="hardsigmoid"), clipped)
    np.testing.assert_array_equal(rs.reorder(y, None, post_ops=["hardswish"]), y * clipped)
    np.testing.assert_allclose(
        rs.reorder(y, None, post_ops="elu"), np.where(y > 0, y, np.expm1(y)), rtol=1e-6
    )
    np.testing.assert_allclose(rs.reorder(y, None, post_ops="swish"), y / (1 + np.exp(-y)), rtol=1e-6)
    np.testing.assert_allclose(rs.reorder(y, None, post_ops="soft_relu"), np.log1p(np.exp(y)), rtol=1e-6)
    for name in ("pow", "linear", "clip"):
        with refused(f"{name} takes", f'pass ("{name}"'):
            rs.reorder(y, None, post_ops=name)


def test_errors_of_operands_speak_of_them(x):
    for operand in (np.complex64([1, 2, 3, 4]), np.array(["a"]), 1j, None):
        with refused("the operand of a post-op cannot be read"):
            rs.reorder(x, None, post_ops=[("add", operand)])


def test_any_sequence_or_masked_array_is_told_apart(x):
    np.testing.assert_array_equal(rs.reorder(x, None, scale=range(5), axis=1), x * _channels(range(5)))
    with refused("scale is"):
        rs.reorder(x, None, scale=np.ma.array(np.ones(5), mask=[1, 0, 0, 0, 0]), axis=1)


def test_zero_points_that_are_all_0_shift_nothing(x):
    np.testing.assert_array_equal(rs.reorder(x, None, zero_point=[0] * 5, axis=1), x)
    with refused("zero_point without integers"):
        rs.reorder(x, None, zero_point=[0, 0, 1, 0, 0], axis=1)


def test_beta_comes_before_the_post_ops(x):
    out = np.full(x.shape, -100, np.float32)
    rs.reorder(x, None, beta=0.5, out=out, post_ops=["relu"])
    np.testing.assert_array_equal(out, np.maximum(x - 50, 0))


@pytest.mark.parametrize(
    "entry",
    [
        3,
        {},
        [3],
        [()],
        [("add",)],
        [("add", 1, 2)],
        [("relu", 1, 2, 3, 4)],
        [("clip", 0)],
        ["no such"],
        "gelu",
    ],
    ids=repr,
)
def test_what_is_no_chain_is_refused_with_an_example(x, entry):
    with pytest.raises(rs.InvalidArguments) as caught:
        rs.reorder(x, None, post_ops=entry)
    assert caught.value.hint


def test_a_zero_point_of_zero_is_none(x):
    for zero in (0, np.int64(0), np.uint8(0)):
        np.testing.assert_array_equal(rs.reorder(x, "nhwc", dtype="s8", zero_point=zero), x.astype("i1"))
        np.testing.assert_array_equal(rs.reorder(x, "nhwc", zero_point=zero), x)


def test_beta_needs_something_to_multiply(x):
    for source in (x, rs.Memory.from_numpy(x)):
        with refused("beta without out"):
            rs.reorder(source, "nhwc", beta=1.0)
    np.testing.assert_array_equal(rs.reorder(x, "nhwc", beta=0), x)
