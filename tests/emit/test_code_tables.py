"""Computations on 4-bit elements by tables: every code with every kind of scale, against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

import restride as rs
from restride.dtypes import DataType
from restride.emit.code_tables import can_tabulate
from restride.emit.convert import Abilities
from restride.ir.nest import Compute, Step
from support.values import patterns

_NUMBERS = {
    "u4": np.arange(16),
    "s4": np.array([*range(8), *range(-8, 0)]),
    "f4_e2m1": np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6]),
}
_WIDE = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
_QUIET_NAN = {"f32": 0x7FC00000, "f16": 0x7E00, "bf16": 0x7FC0}
_SCALES = {"f16": np.float16, "e8m0": ml_dtypes.float8_e8m0fnu, "f8_e4m3": ml_dtypes.float8_e4m3fn}


def _packed(codes: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    return (codes[..., ::2] | codes[..., 1::2] << 4).reshape(-1)


def _scales(name: str) -> npt.NDArray[np.generic]:
    """Every number of the type, NaN and infinity among them; of f16 a part, with all subnormals."""
    bits = patterns(DataType[name])
    kept = bits if bits.dtype == np.uint8 else np.concatenate([bits[:2048:7], bits[::61], bits[-32:]])
    return np.resize(kept, -(-kept.size // 64) * 64).view(_SCALES[name]).reshape(-1, 8)


@pytest.mark.parametrize("dst", _WIDE)
@pytest.mark.parametrize("group", [16, 32, 64])
@pytest.mark.parametrize(("kind", "scale_type"), [("u4", "f16"), ("s4", "e8m0"), ("f4_e2m1", "f8_e4m3")])
def test_every_code_times_every_scale(kind: str, scale_type: str, group: int, dst: str) -> None:
    scales = _scales(scale_type)
    rows, groups = scales.shape
    codes = np.tile(np.arange(16, dtype=np.uint8), rows * groups * group // 16).reshape(rows, -1)
    codes ^= np.random.default_rng(0).integers(0, 16, codes.shape, np.uint8)
    values = rs.Memory(rs.MemoryDesc(codes.shape, kind), rs.Engine("cpu"), _packed(codes))
    found = rs.dequantize(rs.QuantizedTensor(values, rs.Memory.from_numpy(scales)), dtype=dst)
    with np.errstate(all="ignore"):
        exact = _NUMBERS[kind].astype(np.float32)[codes] * scales.astype(np.float32).repeat(group, 1)
        wanted = exact.astype(_WIDE[dst])
    bits = np.asarray(found).view(f"u{wanted.itemsize}")
    wanted_bits = np.where(np.isnan(exact), _QUIET_NAN[dst], wanted.view(bits.dtype))
    np.testing.assert_array_equal(bits, wanted_bits)


@pytest.mark.parametrize("axis", [0, 1])
def test_zero_points_and_a_factor_of_all_are_in_the_table(axis: int) -> None:
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 16, (64, 96), np.uint8)
    counts = (2, 96) if axis == 0 else (64, 3)
    scales = rng.standard_normal(counts).astype(np.float32)
    zeros = rng.integers(0, 16, counts, np.uint8)
    held = rs.QuantizedTensor(
        rs.Memory(rs.MemoryDesc(codes.shape, "u4"), rs.Engine("cpu"), _packed(codes)),
        rs.Memory.from_numpy(scales),
        rs.Memory.from_numpy(zeros),
        tensor_scale=0.3,
    )
    spread = (each.repeat(32, axis).astype(np.float32) for each in (zeros, scales))
    zero, scale = spread
    wanted = (codes.astype(np.float32) - zero) * scale * np.float32(0.3)
    np.testing.assert_array_equal(rs.dequantize(held), wanted)
    np.testing.assert_array_equal(rs.dequantize(held, dtype="f16"), wanted.astype(np.float16))


def test_a_negative_zero_keeps_its_sign_under_two_scales() -> None:
    held = rs.QuantizedTensor(
        rs.Memory(rs.MemoryDesc((1, 32), "f4_e2m1"), rs.Engine("cpu"), np.full(16, 0x88, np.uint8)),
        rs.Memory.from_numpy(np.ones((1, 2), np.float32)),
        tensor_scale=0.5,
    )
    assert np.signbit(rs.dequantize(held)).all()


def test_tables_are_of_registers_and_of_results_that_fit_them() -> None:
    scaled, wide = Compute((Step("mul", operand=0),)), Compute((Step("mul", operand=0),), wide=True)
    can = Abilities(masks=True)
    assert can_tabulate(DataType.u4, DataType.bf16, scaled, can)
    assert not can_tabulate(DataType.u4, DataType.bf16, scaled, Abilities())
    assert not can_tabulate(DataType.u4, DataType.bf16, Compute(), can)
    assert not can_tabulate(DataType.u4, DataType.f32, wide, can)
    assert not can_tabulate(DataType.u4, DataType.s8, scaled, can)
    assert not can_tabulate(DataType.s8, DataType.bf16, scaled, can)
    assert not can_tabulate(DataType.u4, DataType.f32, Compute((Step("mul"), Step("sum"))), can)
