"""Quantization in groups: scales from their definitions in NumPy, elements from ml_dtypes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from restride.arrays.scaling.group import NAMED
from restride.arrays.scaling.quantized_tensor import QuantizedTensor
from support.errors import refused

_RNG = np.random.default_rng(3)
X = (_RNG.standard_normal((96, 128)) * np.exp(3 * _RNG.standard_normal((96, 1)))).astype(np.float32)
X[0, :32], X[1, 5] = 0, 0
_F4, _E4M3 = ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn


def _groups(x: np.ndarray, groups: tuple[int, int]) -> np.ndarray:
    (m, n), (g, h) = x.shape, groups
    return x.reshape(m // g, g, n // h, h).swapaxes(1, 2)


def _spread(scales: np.ndarray, groups: tuple[int, int]) -> np.ndarray:
    return scales.repeat(groups[0], 0).repeat(groups[1], 1)


def _largest(x: np.ndarray, groups: tuple[int, int]) -> np.ndarray:
    return np.abs(_groups(x, groups)).max((2, 3))


def _powers(x: np.ndarray, reach: float, groups: tuple[int, int] = (1, 32)) -> np.ndarray:
    largest = _largest(x.astype(np.float32), groups)
    with np.errstate(all="ignore"):
        found = np.exp2(np.floor(np.log2(largest)) - np.floor(np.log2(reach)))
    return np.where(largest > 0, found, 1).astype(np.float32)


@pytest.mark.parametrize(("name", "kind", "reach"), [("mxfp4", _F4, 6.0), ("mxfp8", _E4M3, 448.0)])
@pytest.mark.parametrize("source", [np.float32, ml_dtypes.bfloat16, np.float16])
def test_mx_formats_take_the_power_of_two_of_the_largest_of_32(name, kind, reach, source):
    x = np.clip(X, -6e4, 6e4).astype(source)
    made = rs.quantize(x, name)
    scales = _powers(x, reach)
    np.testing.assert_array_equal(made.scale.to_numpy().astype(np.float32), scales)
    t = np.clip(x.astype(np.float32) / _spread(scales, (1, 32)), -reach, reach)
    wanted = t.astype(kind).astype(np.float32) * _spread(scales, (1, 32))
    np.testing.assert_array_equal(rs.dequantize(made), wanted)
    np.testing.assert_array_equal(
        rs.dequantize(made, dtype="bf16").astype("f4"), wanted.astype(ml_dtypes.bfloat16).astype("f4")
    )


def test_nvfp4_scales_blocks_by_f8_and_the_tensor_by_f32():
    made = rs.quantize(X, "nvfp4")
    whole = np.float32(np.abs(X).max() / np.float32(6 * 448))
    assert made.tensor_scale == whole
    exact = np.minimum(_largest(X, (1, 16)) / np.float32(6) / whole, np.float32(448))
    exact = np.where(exact > 0, exact, np.float32(1))
    stored = np.maximum(exact.astype(_E4M3).astype(np.float32), np.float32(2.0**-9))
    np.testing.assert_array_equal(made.scale.to_numpy().astype(np.float32), stored)
    codes = (X / _spread(stored * whole, (1, 16))).astype(_F4).astype(np.float32)
    np.testing.assert_array_equal(made.values.to_numpy().astype(np.float32), codes)
    np.testing.assert_array_equal(rs.dequantize(made), codes * _spread(stored, (1, 16)) * whole)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("groups", [(1, 32), (32, 1), (32, 128), (96, 1), (1, 128), (16, 16)])
@pytest.mark.parametrize("dtype", ["s8", "s4", "u4", "f8_e4m3", "f4_e3m0"])
@pytest.mark.parametrize("scale_type", ["f32", "f16", "bf16"])
def test_groups_of_any_axes_share_a_scale(groups, dtype, scale_type):
    x = X[:, :] / np.abs(X).max()
    made = rs.quantize(x, dtype, group=groups, scale_type=scale_type)
    assert made.groups == groups
    reach = {"s8": 127, "s4": 7, "u4": 7, "f8_e4m3": 448, "f4_e3m0": 16}[dtype]
    largest = _largest(x, groups)
    scales = np.where(largest > 0, largest / np.float32(reach), np.float32(1))
    scales = scales.astype(rs.DataType[scale_type].numpy).astype(np.float32)
    scales = np.maximum(scales, np.float32(2.0**-24 if scale_type == "f16" else 2.0**-126))
    np.testing.assert_array_equal(made.scale.to_numpy().astype(np.float32), scales)
    error = np.abs(rs.dequantize(made) - x)
    step = {"f8_e4m3": 32, "f4_e3m0": 8}.get(dtype, 1)
    # Where the type of the scales holds them to a few bits only, elements may saturate.
    allowed = np.where(_spread(scales, groups) < 2.0**-14, 1e-3, _spread(scales, groups) * step * 0.6)
    assert (error <= allowed).all()


def test_attributes_have_groups_of_any_dims():
    x = _RNG.integers(-128, 128, (4, 6, 8)).astype(np.int8)
    scales = np.exp2(np.arange(12, dtype=np.float32)).reshape(2, 3, 2)
    attr, cpu = rs.PrimitiveAttr(), rs.Engine("cpu")
    attr.set_scales(rs.ARG_SRC, 7, groups=(2, 2, 4))
    src, dst = rs.Memory.from_numpy(x), rs.Memory(rs.MemoryDesc(x.shape, "f32", "aBc4b"), cpu)
    args = {rs.ARG_FROM: src, rs.ARG_TO: dst, rs.ARG_ATTR_SCALES | rs.ARG_SRC: rs.Memory.from_numpy(scales)}
    rs.Reorder(src, dst, attr).execute(rs.Stream(cpu), args)
    wanted = x * scales.repeat(2, 0).repeat(2, 1).repeat(4, 2)
    np.testing.assert_array_equal(dst.to_numpy(), wanted)


def test_an_axis_names_the_groups_of_a_number():
    assert rs.quantize(X, "s8", axis=0, group=32).groups == (32, 1)
    assert rs.quantize(X, "s8", axis=-1, group=0).groups == (1, 128)


@pytest.mark.parametrize("dtype", ["u8", "u4", "s8"])
def test_zero_points_of_groups_keep_zero_exact(dtype):
    x = np.abs(X) / np.abs(X).max() - 0.1
    made = rs.quantize(x, dtype, group=32, symmetric=False)
    assert made.zero_point is not None
    assert made.zero_point.desc.data_type is rs.DataType[dtype]
    low, high = _groups(x, (1, 32)).min((2, 3)), _groups(x, (1, 32)).max((2, 3))
    steps = 15 if dtype == "u4" else 255
    wide = np.maximum(high, 0).astype(np.float64) - np.minimum(low, 0)
    np.testing.assert_allclose(made.scale.to_numpy(), np.where(wide > 0, wide / steps, 1), rtol=1e-6)
    error = np.abs(rs.dequantize(made) - x)
    assert (error <= _spread(made.scale.to_numpy(), (1, 32)) * 1.01 + 1e-6).all()


def test_scales_that_are_passed_are_used_whatever_their_layout():
    scales = np.asfortranarray(np.exp2(np.round(_RNG.standard_normal((96, 4)) * 3)).astype(np.float32))
    made = rs.quantize(X, "s8", scale=scales)
    wanted = np.clip(np.rint(X / _spread(scales, (1, 32))), -128, 127).astype(np.int8)
    np.testing.assert_array_equal(made.values.to_numpy(), wanted)
    np.testing.assert_array_equal(
        rs.dequantize(made.values, scales), wanted.astype(np.float32) * _spread(scales, (1, 32))
    )
    zero = _RNG.integers(-5, 5, (3, 4)).astype(np.int8)
    both = rs.dequantize(wanted, scales, zero, dtype="f32")
    shifted = wanted.astype(np.float32) - _spread(zero, (32, 32)).astype(np.float32)
    np.testing.assert_array_equal(both, shifted * _spread(scales, (1, 32)))


@pytest.mark.parametrize("layout", ["ba", "BA16a32b", "aB16@1b2@16b", "AB16b64a"])
def test_values_go_into_any_layout_and_come_back(layout):
    plain, packed = rs.quantize(X, "mxfp4"), rs.quantize(X, "mxfp4", dst=layout)
    assert packed.values.desc.tag == layout
    np.testing.assert_array_equal(rs.dequantize(packed), rs.dequantize(plain))


def test_large_tensors_are_done_in_chunks_with_the_same_result():
    x = np.resize(X, (96 * 64, 128)) * np.linspace(0.5, 2, 96 * 64, dtype=np.float32)[:, None]
    made = rs.quantize(x, "mxfp4")
    parts = [rs.dequantize(rs.quantize(x[i : i + 96], "mxfp4")) for i in range(0, len(x), 96)]
    np.testing.assert_array_equal(rs.dequantize(made), np.concatenate(parts))


def test_values_and_scales_of_one_buffer_are_read_and_written_in_place():
    """As in Q8_0: an f16 scale, then 32 elements of s8, row after row."""
    rows, blocks = 6, 4
    buffer = np.zeros(rows * blocks * 34, np.uint8)
    values = rs.MemoryDesc.from_strides((rows, 32 * blocks), "s8", (34 * blocks, 34), 2, [(1, 32, 1)])
    scales = rs.MemoryDesc.from_strides((rows, blocks), "f16", (17 * blocks, 17))
    cpu = rs.Engine("cpu")
    held = QuantizedTensor(rs.Memory(values, cpu, buffer), rs.Memory(scales, cpu, buffer))
    q = _RNG.integers(-128, 128, (rows, 32 * blocks)).astype(np.int8)
    s = _RNG.standard_normal((rows, blocks)).astype(np.float16)
    rs.reorder(q, None, out=held.values)
    rs.reorder(s, None, out=held.scale)
    raw = buffer.reshape(rows, blocks, 34)
    np.testing.assert_array_equal(raw[:, :, 2:].reshape(rows, -1).view(np.int8), q)
    np.testing.assert_array_equal(raw[:, :, :2].copy().view(np.float16)[..., 0], s)
    wanted = q.astype(np.float32) * s.astype(np.float32).repeat(32, 1)
    np.testing.assert_array_equal(rs.dequantize(held), wanted)


def test_nothing_finite_and_nothing_at_all():
    x = np.array([[np.nan] * 32, [np.inf] * 32, [0.0] * 32], np.float32)
    for name in NAMED:
        made = rs.quantize(x, name)
        assert (made.scale.to_numpy().astype(np.float32) == 1).all()
        assert rs.dequantize(made)[1:, 0].tolist() == [{"mxfp8": 448.0}.get(name, 6.0), 0.0]
        assert rs.dequantize(rs.quantize(x[:0], name)).shape == (0, 32)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"group": 33}, "128 is not a multiple of 33"),
        ({"group": -1}, "128 is not a multiple of -1"),
        ({"group": (1, 1, 1)}, "at most one group for each axis"),
        ({"group": 2.5}, "an integer"),
        ({"group": 32, "axis": 2}, "from -2 to 1"),
        ({"group": 32, "scale_type": "s8"}, "with groups it must be one of f32"),
        ({"group": 32, "dtype": "f16"}, "with groups it must be one of f4_e2m1"),
        ({"group": 32, "dtype": "f8_e4m3", "symmetric": False}, "only integers have zero points"),
        ({"scale": "largest"}, 'with "absmax"'),
        ({"scale": "largest", "group": 32}, 'with "absmax"'),
        ({"group": (1, 32), "axis": 0}, "several groups apply to the last axes"),
        ({"group": 64, "scale": np.ones((96, 4), np.float32)}, "groups of (1, 64) need (96, 2)"),
        ({"group": 32, "scale": np.ones((96, 3), np.float32)}, "groups of (1, 32) need (96, 4)"),
        ({"scale": np.ones((96, 4), np.int32)}, "their type must be one of f32"),
        ({"scale": np.ones((96, 4), np.float32), "scale_type": "f16"}, "their type must be f16"),
        ({"scale": np.ones((96, 4), np.float32), "dtype": "mxfp4"}, "their type must be e8m0"),
        ({"scale": np.ones((96, 4), np.float32), "symmetric": False}, "computed together with scales"),
        ({"dtype": "u4", "format": "mxfp4"}, "two names of one parameter"),
        ({"format": "mxfp3"}, "did you mean 'mxfp"),
        ({"scale": np.ones((5, 5), np.float32)}, "each group must have equally many"),
        ({"dtype": "mxfp3"}, "no data type of that name"),
        ({"dtype": "MXFP4"}, "did you mean 'mxfp4'"),
        ({"scale": 0.5}, "quantize: scale cannot be read"),
        ({"scale": np.ones((96, 4), ">f4")}, "quantize: scale cannot be read"),
        ({"scale": np.ones((96, 4), np.complex64)}, "quantize: scale cannot be read"),
    ],
)
def test_what_does_not_fit_is_refused(options, why):
    with refused(why):
        rs.quantize(X, **options)


@pytest.mark.parametrize("dtype", ["u4", "u8", "s4", "f4_e2m1"])
def test_scales_that_were_found_are_as_good_when_they_are_passed(dtype):
    """Negative numbers of types without a sign too: their zero point is the middle."""
    found = rs.quantize(X, dtype, group=32, scale_type="f16")
    again = rs.quantize(X, dtype, group=32, scale=found.scale)
    np.testing.assert_array_equal(again.values.data.view("u1"), found.values.data.view("u1"))
    np.testing.assert_array_equal(rs.dequantize(again), rs.dequantize(found))


def test_dequantize_takes_nothing_that_it_would_ignore():
    made = rs.quantize(X, "mxfp4")
    plain = (made.values.desc.dims, np.float32)
    for options, why in (
        ({"scale": 0.5}, "has its own"),
        ({"zero_point": 1}, "has its own"),
        ({"axis": 0}, "has its own"),
        ({"dtype": "bf16", "out": np.empty(*plain)}, "not bf16"),
        ({"dst": "ba", "out": np.empty(*plain)}, "strides"),
        ({"out": np.empty((96, 127), np.float32)}, "the destination has dims (96, 127)"),
        ({"dtype": "bf16", "dst": rs.MemoryDesc(plain[0], "f32")}, "dtype and dst disagree"),
        ({"dtype": "f32", "out": np.empty(plain[0], ">f4")}, "dequantize: out cannot be written"),
    ):
        with refused(why):
            rs.dequantize(made, **options)
    with refused("determine the groups along all axes"):
        rs.dequantize(np.zeros((4, 8), np.int8), np.ones((4, 2), np.float32), axis=0)
    with refused("dtype and dst disagree"):
        made.dequantize("bf16", rs.MemoryDesc(plain[0], "f32"))
    assert str(made.dequantize(dst=rs.MemoryDesc(plain[0], "f16", "ba")).desc) == "f16 96x128 ba"
    out = np.empty(*plain)
    assert rs.dequantize(made, dtype="f32", dst="ab", out=out) is out
    np.testing.assert_array_equal(out, rs.dequantize(made))


def test_groups_may_share_one_zero_point():
    q, scales = np.arange(32, dtype=np.uint8).reshape(4, 8), np.full((4, 2), 0.5, np.float32)
    for zero in (8, np.int64(8), np.full((1, 1), 8, np.uint8)):
        np.testing.assert_array_equal(rs.dequantize(q, scales, zero), (q.astype(np.float32) - 8) / 2)
    for bad in (1.5, 1 << 31, "8"):
        with refused("zero_point"):
            rs.dequantize(q, scales, bad)


def test_a_quantized_tensor_is_of_parts_that_fit():
    made = rs.quantize(X, "s8", group=32)
    wrapped = rs.Memory.from_numpy
    for parts, why in (
        ((made.values, None), "scale is NoneType"),
        ((made.values, np.ones((96, 4), np.float32)), "scale is ndarray"),
        ((None, made.scale), "values is NoneType"),
        ((made.values, wrapped(np.ones((96, 4), np.int32))), "scale is of s32"),
        ((made.values, wrapped(np.ones((96, 5), np.float32))), "do not divide"),
        ((made.values, made.scale, wrapped(np.ones((5, 4), np.int8))), "do not divide"),
        ((made.values, made.scale, None, float("nan")), "tensor_scale is nan"),
        ((made.values, made.scale, None, "1"), "one real number"),
        ((made.values, made.scale, None, 1.0, wrapped(np.ones((96, 4), np.int8))), "minimum is of s8"),
    ):
        with refused(why):
            rs.QuantizedTensor(*parts)


def test_what_cannot_be_read_has_its_name():
    q, scale = np.zeros((4, 8), np.int8), np.ones((4, 2), np.float32)
    for name, call in (
        ("q", lambda: rs.dequantize(q.astype(">i4"), scale)),
        ("q", lambda: rs.dequantize(q.astype(">i4"), 0.5)),
        ("scale", lambda: rs.dequantize(q, scale.astype(">f4"))),
        ("zero_point", lambda: rs.dequantize(q, scale, scale.astype(">i4"))),
    ):
        with refused(f"dequantize: {name} cannot be read", "swap the bytes"):
            call()
    with refused("x.astype(np.float32)", kind=rs.Unimplemented):
        rs.quantize(np.ones((4, 32), ml_dtypes.float4_e2m1fn), "mxfp4")


def test_scales_of_no_group_are_refused():
    with refused("do not divide those of the tensor"):
        rs.dequantize(np.zeros((4, 6), np.int8), np.ones((4, 4), np.float32))
    with refused("do not nest"):
        rs.dequantize(np.zeros((2, 12), np.int8), np.ones((2, 2), np.float32), np.zeros((2, 3), np.int8))
    with refused("the result must have a real type"):
        rs.dequantize(rs.quantize(X, "mxfp4"), dtype="s8")
    with refused("are too large"):
        rs.quantize(np.full((2, 32), 1e300), "mxfp4")
    with refused("are too large"):
        rs.quantize(np.full((2, 32), 1e300), "u8", group=32, symmetric=False)
    # From one end of f64 to the other is further than f64 goes.
    with refused("are too large"):
        rs.quantize(np.array([[-1.7e308, 1.7e308] * 4]), "u8", group=8, symmetric=False)
