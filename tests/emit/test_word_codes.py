"""Floats of 8 and 4 bits from words, in quantization: every bf16, and f32 at and beside every tie."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import restride as rs
from restride.dtypes import DataType
from support.values import patterns

_KINDS = {"f8_e4m3": (ml_dtypes.float8_e4m3fn, 448.0), "f8_e5m2": (ml_dtypes.float8_e5m2, 57344.0)}


def _in_groups(real: npt.NDArray[np.generic], most: float) -> npt.NDArray[np.generic]:
    """Rows of 60 numbers and four of the largest magnitude, so that each row has the scale 1."""
    small = real[~(np.abs(real.astype(np.float64)) > most) | ~np.isfinite(real.astype(np.float64))]
    rows = np.resize(small, (-(-small.size // 60), 60))
    return np.concatenate([rows, np.full((len(rows), 4), most).astype(real.dtype)], 1)


def _beside_ties(kind: type) -> npt.NDArray[np.float32]:
    """Every number of the type, every middle of two, and the floats beside these."""
    exact = np.arange(128, dtype=np.uint8).view(kind).astype(np.float32)
    exact = exact[np.isfinite(exact)]
    near = np.concatenate([exact, (exact[1:] + exact[:-1]) / 2])
    beside = [np.nextafter(near, np.float32(end)) for end in (-np.inf, np.inf)]
    return np.concatenate([near, *beside, -near, *(-each for each in beside)])


@pytest.mark.parametrize("scale_type", ["e8m0", "f32"])
@pytest.mark.parametrize("src", ["bf16", "f32"])
@pytest.mark.parametrize("kind", _KINDS)
def test_every_rounding_to_8_bits_is_right(kind: str, src: str, scale_type: str) -> None:
    wanted_type, most = _KINDS[kind]
    if src == "bf16":
        real = patterns(DataType.bf16).view(ml_dtypes.bfloat16)
    else:
        real = np.concatenate([patterns(DataType.f32).view(np.float32), _beside_ties(wanted_type)])
    with np.errstate(invalid="ignore"):
        x = _in_groups(real, most)
    made = rs.quantize(x, kind, group=64, scale_type=scale_type)
    assert (made.scale.to_numpy().astype(np.float32) == 1).all()
    with np.errstate(invalid="ignore"):
        wanted = np.clip(x.astype(np.float32), -most, most).astype(wanted_type).view(np.uint8)
    quiet = np.array(np.nan, wanted_type).view(np.uint8) & 0x7F
    wanted = np.where(np.isnan(x.astype(np.float32)), quiet, wanted)
    np.testing.assert_array_equal(made.values.data.view(np.uint8).reshape(x.shape), wanted)


@pytest.mark.parametrize("scale_type", ["e8m0", "f32"])
def test_zeros_of_either_sign_nan_and_subnormals_lie_beside_normal_numbers(scale_type: str) -> None:
    """Each register has one odd lane, or zeros alone."""
    rng = np.random.default_rng(4)
    x = (rng.standard_normal((96, 64)) * np.exp2(rng.integers(-9, 9, (96, 1)))).astype(ml_dtypes.bfloat16)
    for row, odd in enumerate((0.0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 2.0**-133, 1e-30, 2.0**-20)):
        x[row::9, (7 * row) % 64] = odd
    x[90:] = np.where(rng.random((6, 64)) < 0.5, 0, x[90:])
    x[95, 1:] = 0
    made = rs.quantize(x, "f8_e4m3", group=64, scale_type=scale_type)
    kind, most = _KINDS["f8_e4m3"]
    scales = made.scale.to_numpy().astype(np.float32)
    wanted = np.clip(x.astype(np.float32) / scales, -most, most).astype(kind).view(np.uint8)
    wanted = np.where(np.isnan(x.astype(np.float32)), 0x7F, wanted)
    np.testing.assert_array_equal(made.values.data.view(np.uint8).reshape(x.shape), wanted)


@pytest.mark.parametrize("name", ["mxfp4", "mxfp8"])
def test_tiny_groups_are_divided_as_floats(name: str) -> None:
    """Subnormals over a power so small are no zeros; groups with a larger power lie beside them."""
    rng = np.random.default_rng(3)
    powers = np.exp2(rng.integers(-140, 20, (512, 1)).astype(np.float64))
    x = (rng.standard_normal((512, 64)) * powers).astype(ml_dtypes.bfloat16)
    made = rs.quantize(x, name)
    scales = made.scale.to_numpy().astype(np.float32).repeat(32, 1)
    found = np.asarray(rs.reorder(made.values, None, dtype="f32"))
    kind, most = (ml_dtypes.float4_e2m1fn, 6.0) if name == "mxfp4" else _KINDS["f8_e4m3"]
    wanted = np.clip(x.astype(np.float32) / scales, -most, most).astype(kind).astype(np.float32)
    np.testing.assert_array_equal(found, wanted)
    assert (scales < 2.0**-100).any()
    assert (scales > 2.0**-100).any()
