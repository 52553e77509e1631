"""Scales and zero points of groups in `rs.reorder`, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from support.errors import refused

_RNG = np.random.default_rng(11)
X = _RNG.integers(-128, 128, (8, 64)).astype(np.int8)
SCALES = _RNG.random((8, 2), dtype=np.float32)
ZEROS = _RNG.integers(-5, 5, (4, 1)).astype(np.int8)


def _spread(values: np.ndarray, dims: tuple[int, ...]) -> np.ndarray:
    for axis, n in enumerate(dims):
        values = values.repeat(n // values.shape[axis], axis)
    return values.astype(np.float32)


@pytest.mark.parametrize(
    "kind",
    [np.float32, np.float16, np.float64, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2],
)
@pytest.mark.parametrize("shape", [(8, 2), (1, 4), (2, 1), (8, 64)])
@pytest.mark.parametrize("dst", [None, "ba", "BA16a16b"])
def test_scales_of_groups_multiply(kind, shape, dst):
    scales = _RNG.random(shape).astype(kind)
    made = rs.reorder(X, dst, dtype="f32", scale=scales)
    wanted = X.astype(np.float32) * _spread(scales.astype(np.float32), X.shape)
    np.testing.assert_array_equal(np.asarray(made.to_numpy() if dst == "BA16a16b" else made), wanted)


def test_scales_of_powers_of_two_and_of_any_layout_and_of_two_levels():
    powers = _RNG.integers(100, 140, (8, 2)).astype(np.uint8).view(ml_dtypes.float8_e8m0fnu)
    wanted = X * _spread(powers.astype(np.float32), X.shape)
    np.testing.assert_array_equal(rs.reorder(X, None, dtype="f32", scale=powers), wanted)
    turned = rs.Memory.from_numpy(SCALES).to("ba")
    plain = X * _spread(SCALES, X.shape)
    np.testing.assert_array_equal(rs.reorder(X, None, dtype="f32", scale=turned), plain)
    both = rs.reorder(X, None, dtype="f32", scale=(turned, 0.3))
    np.testing.assert_array_equal(both, plain * np.float32(0.3))
    x = _RNG.standard_normal((128, 64), dtype=np.float32)
    found = rs.quantize(x, "nvfp4")
    swizzled = rs.formats.nvfp4(x.shape).pack(found)
    made = rs.reorder(swizzled.values, None, dtype="f32", scale=(swizzled.scale, swizzled.tensor_scale))
    np.testing.assert_array_equal(made, rs.dequantize(found))


@pytest.mark.parametrize("zeros", [ZEROS, ZEROS.astype(np.int64), ZEROS.astype(ml_dtypes.int4)])
def test_zero_points_of_groups_are_of_the_side_of_integers(zeros):
    made = rs.reorder(X, None, dtype="f32", scale=SCALES, zero_point=zeros)
    shifted = X.astype(np.float32) - _spread(ZEROS, X.shape)
    np.testing.assert_array_equal(made, shifted * _spread(SCALES, X.shape))
    floats = _RNG.standard_normal((8, 64), dtype=np.float32)
    made = rs.reorder(floats, None, dtype="s8", scale=SCALES * 100, zero_point=zeros)
    exact = floats * _spread(SCALES * 100, X.shape) + _spread(ZEROS, X.shape)
    np.testing.assert_array_equal(made, np.clip(np.rint(exact), -128, 127))


def test_groups_go_with_post_ops_and_an_old_destination():
    out = _RNG.standard_normal((8, 64), dtype=np.float32)
    wanted = np.maximum(X * _spread(SCALES, X.shape) * np.float32(0.5) + out, 0)
    rs.reorder(X, None, scale=(SCALES, 0.5), beta=1.0, post_ops=["relu"], out=out)
    np.testing.assert_array_equal(out, wanted)


def test_groups_of_nothing():
    empty = np.zeros((0, 4), np.int8)
    assert rs.reorder(empty, None, dtype="f32", scale=np.ones((0, 2), np.float32)).shape == (0, 4)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"scale": np.ones((3, 2))}, "axis 0 has 8 elements, which 3 groups do not divide"),
        ({"scale": np.ones((8, 0))}, "axis 1 has 64 elements, which 0 groups do not divide"),
        ({"scale": np.ones((16, 2))}, "which 16 groups do not divide"),
        ({"scale": np.ones((8, 2), complex)}, "it must be one of f32, bf16, f16, e8m0"),
        ({"scale": np.ma.ones((8, 2))}, "without a mask"),
        ({"scale": np.full((8, 2), "a")}, "it must be one of f32"),
        ({"scale": rs.Memory.from_numpy(np.ones((8, 2), np.int8))}, "it must be one of f32"),
        ({"scale": (SCALES, "a")}, "one real number"),
        ({"scale": (SCALES, SCALES)}, "scale is not a number"),
        ({"zero_point": np.full((8, 2), 0.5)}, "it must be one of s32, s8, u8, s4, u4"),
        ({"zero_point": np.full((8, 2), 2**40)}, "it must be one of s32"),
        ({"zero_point": np.ones((8, 3), np.int8)}, "which 3 groups do not divide"),
    ],
)
def test_what_is_of_no_group_is_refused(options, why):
    with refused(why):
        rs.reorder(X, None, dtype="f32", **options)
