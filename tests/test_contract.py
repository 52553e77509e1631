"""The numeric contract (N1 to N6) against exact fractions, NumPy and ml_dtypes: three other arithmetics."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import ml_dtypes
import numpy as np
import pytest

from restride.dtypes import DataType
from restride.plan.contract import PROVIDED, convert, from_float, is_integer_move, storage_dtype, to_float
from restride.plan.nest import Compute
from support.values import Bits, patterns

_F32, _BF16, _F16 = DataType.f32, DataType.bf16, DataType.f16
_S32, _S8, _U8 = DataType.s32, DataType.s8, DataType.u8
_FLOATS, _INTS = (_F32, _BF16, _F16), (_S32, _S8, _U8)
_MOVE = Compute()
# Mantissa bits (with the hidden one), lowest exponent of a normal number, exponent past the largest.
_FORMATS = {_F32: (24, -126, 128), _BF16: (8, -126, 128), _F16: (11, -14, 16)}
_RANGES = {_S32: (-(2**31), 2**31 - 1), _S8: (-128, 127), _U8: (0, 255)}


def _move(bits: Bits, src: DataType, dst: DataType) -> Bits:
    return convert(bits, np.zeros(bits.shape, storage_dtype(dst)), src, dst, _MOVE, 1.0, 0.0)


def _compute(bits: Bits, old: Bits, types: tuple[DataType, DataType], alpha: float, beta: float) -> Bits:
    return convert(bits, old, *types, Compute(True, True), alpha, beta)


def _values(bits: Bits, data_type: DataType) -> np.ndarray:
    return bits.view(data_type.numpy)


def _is_nan(bits: Bits, data_type: DataType) -> np.ndarray:
    return np.isnan(_values(bits, data_type).astype(np.float32))


# --- exact arithmetic --------------------------------------------------------------------------------------


def _exact(bits: int, data_type: DataType) -> Fraction | float:
    """The number that bits stand for, or a float infinity or NaN, from the definition of the format."""
    if data_type in _RANGES:
        return Fraction(bits - (bits >> (data_type.bits - 1) << data_type.bits) * (data_type is not _U8))
    precision, least, past = _FORMATS[data_type]
    sign = -1 if bits >> (data_type.bits - 1) else 1
    mantissa, exponent = bits & (1 << precision - 1) - 1, (bits >> precision - 1) & 2 * past - 1
    if exponent == 2 * past - 1:
        return math.nan if mantissa else sign * math.inf
    if exponent == 0:
        return sign * mantissa * Fraction(2) ** (least - precision + 1)
    return sign * ((1 << precision - 1) + mantissa) * Fraction(2) ** (exponent - past + 1 - precision + 1)


def _rounded(value: Fraction | float, data_type: DataType) -> Fraction | float:
    """The nearest number of a float format, ties to even, overflow to infinity."""
    if isinstance(value, float) or value == 0:
        return value
    precision, least, past = _FORMATS[data_type]
    exponent = max(_exponent(abs(value)), least)
    step = Fraction(2) ** (exponent - precision + 1)
    nearest = round(value / step) * step  # round() of a Fraction takes a tie to even
    return math.copysign(math.inf, value) if abs(nearest) >= Fraction(2) ** past else nearest


def _exponent(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


def _saturated(value: Fraction | float, data_type: DataType) -> int:
    """Saturate, then round half to even (N2); NaN is 0 (N4); s32 ends at the last f32 below 2**31 (N3)."""
    low, high = _RANGES[data_type]
    high = 2147483520 if data_type is _S32 else high
    if isinstance(value, float):
        return 0 if math.isnan(value) else high if value > 0 else low
    return round(min(max(value, Fraction(low)), Fraction(high)))


def _reference(bits: int, src: DataType, dst: DataType) -> Fraction | float | int:
    value = _exact(bits, src)
    if src in _INTS and dst in _INTS:
        low, high = _RANGES[dst]
        return min(max(int(value), low), high)
    through = _rounded(value, _F32)
    return _saturated(through, dst) if dst in _INTS else _rounded(through, dst)


_PAIRS = [(src, dst) for src, dst in product(PROVIDED, repeat=2) if src is not dst]


@pytest.mark.parametrize(("src", "dst"), _PAIRS)
def test_conversions_equal_exact_arithmetic(src: DataType, dst: DataType) -> None:
    every = patterns(src)
    bits = np.unique(np.concatenate([every[:: max(every.size // 1500, 1)], every[-40:]]))
    got = _move(bits, src, dst)
    for one, result in zip(bits.tolist(), got.tolist(), strict=True):
        wanted, found = _reference(one, src, dst), _exact(result, dst)
        assert _same(found, wanted), f"{src} {one:#x} gave {dst} {result:#x} = {found}, not {wanted}"


def _same(found: Fraction | float, wanted: Fraction | float) -> bool:
    if isinstance(wanted, float) and math.isnan(wanted):
        return isinstance(found, float) and math.isnan(found)
    return found == wanted


# --- every pattern, against other people's code ------------------------------------------------------------


@pytest.mark.parametrize("src", PROVIDED)
@pytest.mark.parametrize("dst", _FLOATS)
def test_floats_equal_ml_dtypes(src: DataType, dst: DataType) -> None:
    """Through f32, as everything goes; NumPy and ml_dtypes round half to even and keep subnormals (N5)."""
    bits = patterns(src)
    with np.errstate(all="ignore"):
        wanted = _values(bits, src).astype(np.float32).astype(dst.numpy).view(storage_dtype(dst))
    got = _move(bits, src, dst)
    nan = _is_nan(wanted, dst)
    assert (got[~nan] == wanted[~nan]).all()
    assert _is_nan(got, dst)[nan].all()


@pytest.mark.parametrize("src", _FLOATS)
@pytest.mark.parametrize("dst", _INTS)
def test_integers_from_floats_equal_numpy(src: DataType, dst: DataType) -> None:
    bits = patterns(src)
    with np.errstate(all="ignore"):
        value = _values(bits, src).astype(np.float32).astype(np.float64)
    low, high = _RANGES[dst]
    high = 2147483520 if dst is _S32 else high
    wanted = np.clip(np.rint(np.nan_to_num(value, nan=0.0)), low, high).astype(np.int64)
    assert (_values(_move(bits, src, dst), dst).astype(np.int64) == wanted).all()


@pytest.mark.parametrize("src", _INTS)
@pytest.mark.parametrize("dst", _INTS)
def test_integers_saturate_without_floats(src: DataType, dst: DataType) -> None:
    bits = patterns(src)
    wanted = np.clip(_values(bits, src).astype(np.int64), *_RANGES[dst])
    assert (_values(_move(bits, src, dst), dst).astype(np.int64) == wanted).all()
    assert is_integer_move(src, dst, _MOVE)
    assert not is_integer_move(src, dst, Compute(scaled=True))


@pytest.mark.parametrize("data_type", PROVIDED)
def test_same_type_copies_bits(data_type: DataType) -> None:
    bits = patterns(data_type)
    assert (_move(bits, data_type, data_type) == bits).all()


@pytest.mark.parametrize(
    ("narrow", "wide"), [(_BF16, _F32), (_F16, _F32), (_S8, _S32), (_U8, _S32), (_U8, _BF16)]
)
def test_widening_and_back_is_the_identity(narrow: DataType, wide: DataType) -> None:
    bits = patterns(narrow)
    back = _move(_move(bits, narrow, wide), wide, narrow)
    nan = _is_nan(bits, narrow)
    assert (back[~nan] == bits[~nan]).all()
    assert _is_nan(back, narrow)[nan].all()


# --- NaN ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("src", "dst"), [(s, d) for s, d in product(_FLOATS, repeat=2) if s is not d])
def test_a_nan_is_made_quiet_and_keeps_its_sign_and_leading_payload(src: DataType, dst: DataType) -> None:
    bits = patterns(src)
    bits = bits[_is_nan(bits, src)]
    got = _move(bits, src, dst)
    assert (got >> (dst.bits - 1) == bits >> (src.bits - 1)).all()
    quiet = _FORMATS[dst][0] - 2
    if (src, dst) == (_BF16, _F32):
        assert (got == bits.astype(np.uint32) << 16).all()  # R19: exact, a signalling NaN included
        return
    assert (got >> quiet & 1 == 1).all()
    kept = min(_FORMATS[src][0], _FORMATS[dst][0]) - 2
    mask = (1 << kept) - 1
    before = bits.astype(np.uint32) >> (_FORMATS[src][0] - 2 - kept) & mask
    after = got.astype(np.uint32) >> (_FORMATS[dst][0] - 2 - kept) & mask
    assert (before == after).all()


@pytest.mark.parametrize("dst", _INTS)
@pytest.mark.parametrize("src", _FLOATS)
def test_nan_is_zero_as_an_integer(src: DataType, dst: DataType) -> None:
    bits = patterns(src)
    bits = bits[_is_nan(bits, src)]
    assert bits.size > 100
    assert not _move(bits, src, dst).any()
    assert not _compute(bits, np.zeros(bits.shape, storage_dtype(dst)), (src, dst), 2.0, 1.0).any()


@pytest.mark.parametrize(("dst", "quiet"), [(_F32, 0x7FC00000), (_BF16, 0x7FC0), (_F16, 0x7E00)])
def test_arithmetic_makes_the_one_quiet_nan(dst: DataType, quiet: int) -> None:
    """Which NaN a sum of two keeps differs between machines; so none is kept."""
    bits = patterns(_F32)
    nan = bits[_is_nan(bits, _F32)]
    old = np.zeros(nan.shape, storage_dtype(dst))
    for alpha, beta in ((1.0, 0.0), (-2.5, 1.0), (math.nan, 0.0), (0.0, 0.0)):
        assert set(_compute(nan, old, (_F32, dst), alpha, beta).tolist()) == {quiet}
    infinite = np.array([np.inf, -np.inf], np.float32).view(np.uint32)
    assert set(_compute(infinite, old[:2], (_F32, dst), 0.0, 0.0).tolist()) == {quiet}


# --- arithmetic --------------------------------------------------------------------------------------------

_ALPHAS = (0.5, -3.7, 0.0, 1e-30, 4294967295.0, 3.0e38)
_BETAS = (0.0, 1.0, -0.25, 2.0**-149)


@pytest.mark.parametrize(("alpha", "beta"), list(product(_ALPHAS, _BETAS)))
def test_scale_and_sum_round_after_each_step(alpha: float, beta: float) -> None:
    """N1: f32 products and their f32 sum, each rounded once."""
    bits = patterns(_F32)[::97]
    old = bits[::-1].copy()
    got = _compute(bits, old, (_F32, _F32), alpha, beta)
    a, b = _exact_float(alpha), _exact_float(beta)
    for one, was, result in zip(bits.tolist(), old.tolist(), got.tolist(), strict=True):
        wanted = _added(_times(a, _exact(one, _F32)), _times(b, _exact(was, _F32)))
        assert _same(_exact(result, _F32), wanted), (alpha, hex(one), beta, hex(was), hex(result))


def _exact_float(value: float) -> Fraction:
    return Fraction(float(np.float32(value)))


def _times(a: Fraction, b: Fraction | float) -> Fraction | float:
    if isinstance(b, float):
        return math.nan if a == 0 or math.isnan(b) else math.copysign(1, a) * b
    return _rounded(a * b, _F32)


def _added(a: Fraction | float, b: Fraction | float) -> Fraction | float:
    if isinstance(a, float) or isinstance(b, float):
        return float(a) + float(b) if math.isfinite(a) is False or math.isfinite(b) is False else a + b
    return _rounded(a + b, _F32)


@pytest.mark.parametrize("dst", _INTS)
def test_a_huge_scale_saturates(dst: DataType) -> None:
    """R36: 4294967295 must not wrap."""
    source = np.array([1.0, -1.0, 0.0, 3e30], np.float32).view(np.uint32)
    old = np.zeros(4, storage_dtype(dst))
    got = convert(source, old, _F32, dst, Compute(scaled=True), 4294967295.0, 0.0).view(dst.numpy)
    low, high = _RANGES[dst]
    high = 2147483520 if dst is _S32 else high
    assert got.tolist() == [high, low, 0, high]


def test_documented_values() -> None:
    """R13 to R17, R19."""
    f32 = np.array([0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 127.5, 1024, -124, -np.inf], np.float32).view(np.uint32)
    assert _values(_move(f32, _F32, _S8), _S8).tolist() == [0, 2, 2, 0, -2, 126, 127, 127, -124, -128]
    unsigned = np.array([254.5, 255.5, -124, 0.5, np.inf, -np.inf], np.float32).view(np.uint32)
    assert _move(unsigned, _F32, _U8).tolist() == [254, 255, 0, 0, 255, 0]
    large = np.array([2.0**31, np.inf, -(2.0**31), -np.inf, 2147483520.0], np.float32).view(np.uint32)
    high, low = 2147483520, -2147483648
    assert _values(_move(large, _F32, _S32), _S32).tolist() == [high, high, low, low, high]
    wide = np.array([16777217, 300, -1, 2147483647], np.int32).view(np.uint32)
    assert _values(_move(wide, _S32, _F32), _F32).tolist() == [16777216.0, 300.0, -1.0, 2147483648.0]
    assert _values(_move(wide, _S32, _S8), _S8).tolist() == [127, 127, -1, 127]
    assert _move(wide, _S32, _U8).tolist() == [255, 255, 0, 255]
    assert _values(_move(np.array([200], np.uint8), _U8, _S8), _S8).tolist() == [127]
    assert _move(np.array([-5], np.int8).view(np.uint8), _S8, _U8).tolist() == [0]
    tiny = np.array([1e-40], np.float32)
    assert (
        _values(_move(tiny.view(np.uint32), _F32, _BF16), _BF16)[0] == tiny.astype(ml_dtypes.bfloat16)[0] != 0
    )


def test_halves_meet_floats_both_ways() -> None:
    for half in (_BF16, _F16):
        bits = patterns(half)
        assert (from_float(to_float(bits, half), half) == _move(_move(bits, half, _F32), _F32, half)).all()
