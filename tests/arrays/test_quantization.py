"""quantize and dequantize: ranges by NumPy, values by N1, and what comes back is near enough."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from support.errors import refused
from support.rounding import bits_of

RANGES = {"s8": (-128, 127, 0), "u8": (0, 255, 128), "s4": (-8, 7, 0), "u4": (0, 15, 8)}
REALS = {"f8_e4m3": 448.0, "f8_e5m2": 57344.0}
SOURCES = {"f64": np.float64, "f32": np.float32, "bf16": ml_dtypes.bfloat16, "f16": np.float16}
X = (np.random.default_rng(1).standard_normal((3, 17, 5)) * [[[1.0]], [[40.0]], [[0.01]]]).astype(np.float32)


def along(values, axis, ndims=3):
    """One value, or one for each index of an axis, ready to broadcast."""
    return values if axis is None else values.reshape([-1 if d == axis else 1 for d in range(ndims)])


def others(axis):
    return None if axis is None else tuple(d for d in range(3) if d != axis)


def wanted(x, dtype, axis, symmetric):
    """Scales, zero points and elements as bits, from the definition; x is finite."""
    low, high, middle = RANGES.get(dtype, (0, 0, 0))
    wide = x.astype(np.float64)
    if symmetric:
        reach = REALS.get(dtype) or min(middle - low, high - middle)
        extent, zero = np.abs(wide).max(axis=others(axis)) / reach, middle
    else:
        bottom = np.minimum(wide.min(axis=others(axis)), 0)
        extent = (np.maximum(wide.max(axis=others(axis)), 0) - bottom) / (high - low)
    scale = np.where(extent > 0, extent, 1).astype(np.float32)
    if not symmetric:
        zero = np.clip(np.rint(low - bottom / scale.astype(np.float64)), low, high)
    zero = np.broadcast_to(np.asarray(zero, np.int32), scale.shape)
    real = np.float64 if x.dtype == np.float64 else np.float32
    inverse = along(np.float32(1) / scale, axis).astype(real)
    t = x.astype(real) * inverse + along(zero, axis).astype(real)
    return scale, zero, bits_of(t.reshape(-1), rs.DataType[dtype])


def elements(q):
    """The bits of quantized elements, in logical order."""
    values = q.to_numpy() if isinstance(q, rs.Memory) else q
    if rs.DataType.parse(values.dtype).is_integral:
        bits = rs.DataType.parse(values.dtype).bits
        return values.astype(np.int64).reshape(-1) & (1 << bits) - 1
    return np.ascontiguousarray(values).view(np.uint8).reshape(-1)


CASES = [(d, a, s) for d in RANGES for a in (None, 0, 1, -1) for s in (True, False)]
CASES += [(dtype, axis, True) for dtype in REALS for axis in (None, 1)]


@pytest.mark.parametrize(("dtype", "axis", "symmetric"), CASES)
def test_scales_zero_points_and_values_are_by_definition(dtype, axis, symmetric):
    at = None if axis is None else axis % 3
    scales, zeros, stored = wanted(X, dtype, at, symmetric)
    q, scale, zero = rs.quantize(X, dtype, axis=axis, symmetric=symmetric)
    np.testing.assert_array_equal(scale, scales)
    np.testing.assert_array_equal(zero, zeros)
    assert (np.asarray(scale).dtype, np.asarray(scale).shape) == (np.float32, scales.shape)
    np.testing.assert_array_equal(elements(q), stored)


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("axis", [None, 0, 2])
def test_every_real_source_type(source, axis):
    x = (X * 1000 if source == "f64" else X).astype(SOURCES[source])
    scales, zeros, stored = wanted(x, "u8", axis, False)
    q, scale, zero = rs.quantize(x, "u8", axis=axis, symmetric=False)
    np.testing.assert_array_equal(scale, scales)
    np.testing.assert_array_equal(zero, zeros)
    np.testing.assert_array_equal(elements(q), stored)


@pytest.mark.parametrize("tag", ["abc", "cab", "aBc16b", "ABc4a8b"])
def test_any_layout_in_and_out_and_no_padding_in_the_range(tag):
    scales, zeros, stored = wanted(X + 300, "u8", 1, False)
    q, scale, zero = rs.quantize(rs.reorder(X + 300, rs.MemoryDesc(X.shape, "f32", tag)), "u8", 1, False)
    np.testing.assert_array_equal(scale, scales)
    np.testing.assert_array_equal(zero, zeros)
    np.testing.assert_array_equal(elements(q), stored)
    other = rs.quantize(X + 300, "u8", 1, False, dst=tag)[0]
    np.testing.assert_array_equal(elements(other), stored)


@pytest.mark.parametrize(("dtype", "axis", "symmetric"), CASES)
def test_what_comes_back_is_within_half_a_step(dtype, axis, symmetric):
    q, scale, zero = rs.quantize(X, dtype, axis=axis, symmetric=symmetric)
    at = None if axis is None else axis % 3
    back = rs.dequantize(q, scale, zero, axis=axis)
    steps = np.abs(X - back) / along(np.asarray(scale), at)
    size = np.abs(X) / along(np.asarray(scale), at)
    half = 0.5 if dtype in RANGES else np.maximum(size * 2.0 ** (-4 if dtype == "f8_e4m3" else -3), 2.0**-10)
    assert (steps <= half + 1e-3).all()


def test_0_stays_exact_without_symmetry():
    x = X.copy()
    x[0, :5] = 0
    for dtype in RANGES:
        q, scale, zero = rs.quantize(x + (x != 0) * np.float32(500), dtype, symmetric=False)
        assert (rs.dequantize(q, scale, zero)[x == 0] == 0).all()


def test_only_finite_values_make_the_range_and_the_rest_saturate():
    x = np.float32([[1, -2, np.nan, np.inf], [-np.inf, 3, 0.5, np.nan], [np.nan, np.inf, -np.inf, np.nan]])
    q, scale, zero = rs.quantize(x, axis=0)
    assert scale.tolist() == [np.float32(2 / 127), np.float32(3 / 127), 1.0]
    assert q.tolist() == [[64, -127, 0, 127], [-128, 127, 21, 0], [0, 127, -128, 0]]
    assert not zero.any()


@pytest.mark.parametrize("symmetric", [True, False])
def test_all_zeros_have_scale_1(symmetric):
    for dtype in RANGES:
        q, scale, zero = rs.quantize(np.zeros((2, 3), np.float32), dtype, symmetric=symmetric)
        assert scale == 1
        assert (rs.dequantize(q, scale, zero) == 0).all()


def test_extreme_ranges_have_usable_scales():
    for value in (1e-45, 1e-38, 3.4e38):
        q, scale, _ = rs.quantize(np.float32([value, -value, 0]))
        assert np.isfinite(scale)
        assert np.isfinite(np.float32(1) / scale)
        assert q[0] == -q[1]
    q, scale, zero = rs.quantize(np.float32([3.4e38, -3.4e38]), "u8", symmetric=False)
    assert np.isfinite(scale)
    assert (q.tolist(), zero) == ([255, 0], 127) or (q.tolist(), zero) == ([255, 0], 128)


def test_an_empty_array_is_quantized():
    q, scale, zero = rs.quantize(np.zeros((0, 3), np.float32), axis=1)
    assert q.shape == (0, 3)
    assert scale.tolist() == [1, 1, 1]
    assert zero.tolist() == [0, 0, 0]


def test_dequantize_writes_other_types_and_formats():
    q = np.arange(-6, 6, dtype=np.int8).reshape(2, 6)
    wanted = (q.astype(np.float32) - 3) * np.float32(0.5)
    for dtype in ("bf16", "f16", "f64"):
        found = rs.dequantize(q, 0.5, 3, dtype=dtype, dst="ba")
        assert (found.dtype, found.strides[0]) == (rs.DataType[dtype].numpy, found.itemsize)
        np.testing.assert_array_equal(found.astype(np.float32), wanted)
    out = np.zeros((2, 6), np.float32)
    assert rs.dequantize(q, np.float32([0.5, 2]), np.int32([3, -1]), axis=0, out=out) is out
    np.testing.assert_array_equal(out, (q - np.float32([[3], [-1]])) * np.float32([[0.5], [2]]))


def test_what_cannot_be_quantized_says_what_can():
    with refused("quantize: dtype is s32", "s8, u8, s4, u4, f8_e4m3 and f8_e5m2"):
        rs.quantize(X, "s32")
    with refused("f8_e4m3 with symmetric=False", "no zero point"):
        rs.quantize(X, "f8_e4m3", symmetric=False)
    with refused("x is not of real numbers", "its elements are s8"):
        rs.quantize(X.astype(np.int8))
    for axis in (3, -4):
        with refused(f"quantize: axis is {axis}", "it must be from -3 to 2"):
            rs.quantize(X, axis=axis)
    with refused("quantize: axis"):
        rs.quantize(X, axis="1")
    for kind in ("e8m0", "f4_e2m1"):
        source = rs.reorder(X, rs.MemoryDesc(X.shape, kind))
        for options in ({}, {"group": 0}):
            with refused("x is not of real numbers", f"its elements are {kind}", "f16, f8_e5m2"):
                rs.quantize(source, **options)
    with refused("dequantize: dtype is s8", "a real type"):
        rs.dequantize(np.int8([1]), 0.5, dtype="s8")
    for wrong in (np.ones(4, np.float32), np.ones((2, 2), np.float32)):
        with refused("scale"):
            rs.dequantize(np.zeros((2, 3), np.int8), wrong, axis=1)


@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("axis", [None, 1])
@pytest.mark.parametrize("symmetric", [True, False])
def test_nan_becomes_what_stands_for_0(dtype, axis, symmetric):
    x = X.copy() + 300
    x[0, 3, :2] = np.nan
    q, scale, zero = rs.quantize(x, dtype, axis=axis, symmetric=symmetric)
    assert rs.dequantize(q, scale, zero, axis=axis)[0, 3, :2].tolist() == [0, 0]


@pytest.mark.parametrize("dtype", RANGES)
@pytest.mark.parametrize("symmetric", [True, False])
def test_doubles_beyond_what_a_scale_can_express_are_refused(dtype, symmetric):
    for values in ([1e308, -1e308], [1e308, 5e307], [-1.7e308, 1.7e308]):
        with refused("the values of x are too large", "scales are f32"):
            rs.quantize(np.array(values), dtype, symmetric=symmetric)
    _, scale, _ = rs.quantize(np.array([1e38, -1e37]), dtype, symmetric=symmetric)
    assert np.isfinite(scale)


def test_dequantize_wants_a_scale():
    with refused("scale is None"):
        rs.dequantize(np.int8([1]), None)


@pytest.mark.parametrize("axis", [None, 0])
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("dtype", REALS)
def test_infinities_saturate_in_floats_and_nan_stays(dtype, source, axis):
    x = np.array([[np.inf, -np.inf, 1, np.nan, 0.5, -1]]).astype(SOURCES[source])
    q, scale, zero = rs.quantize(x, dtype, axis=axis)
    top = REALS[dtype]
    np.testing.assert_array_equal(q.astype(np.float32), [[top, -top, top, np.nan, top / 2, -top]])
    assert np.float32(1 / top) == scale
    assert not np.any(zero)
    q, scale, _ = rs.quantize(np.array([np.inf, np.nan, -np.inf], SOURCES[source]), dtype)
    np.testing.assert_array_equal(q.astype(np.float32), [top, np.nan, -top])
    assert scale == 1


def test_dequantize_takes_the_type_of_what_it_writes():
    q = np.arange(-6, 6, dtype=np.int8).reshape(2, 6)
    for kind in (np.float16, np.float64, ml_dtypes.bfloat16):
        out = np.zeros((2, 6), kind)
        assert rs.dequantize(q, 0.5, out=out) is out
        np.testing.assert_array_equal(out.astype(np.float32), q * np.float32(0.5))
        held = rs.Memory(rs.MemoryDesc((2, 6), kind, "ba"), rs.Engine("cpu"))
        assert rs.dequantize(q, 0.5, out=held) is held
        np.testing.assert_array_equal(held.to_numpy().astype(np.float32), q * np.float32(0.5))
        assert rs.dequantize(q, 0.5, dst=held.desc).dtype == kind
    assert rs.dequantize(q, 0.5).dtype == np.float32
    with refused("dequantize: dtype is s8", "a real type"):
        rs.dequantize(q, 0.5, out=np.zeros((2, 6), np.int8))
    with refused("its elements are f16, not f32", "leave dtype out"):
        rs.dequantize(q, 0.5, dtype="f32", out=np.zeros((2, 6), np.float16))
