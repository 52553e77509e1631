"""The numeric contract (N1 to N7) against exact fractions, NumPy and ml_dtypes: three other arithmetics."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import ml_dtypes
import numpy as np
import pytest

from restride.dtypes import DataType
from restride.ir.conversion import (
    PROVIDED,
    Inputs,
    convert,
    from_real,
    is_integer_move,
    is_wide,
    storage_dtype,
    to_real,
)
from restride.ir.nest import Compute, linear
from support.effort import examples
from support.packed import NF4
from support.values import Bits, patterns

_F32, _BF16, _F16 = DataType.f32, DataType.bf16, DataType.f16
_F64, _E5M2, _E4M3 = DataType.f64, DataType.f8_e5m2, DataType.f8_e4m3
_S32, _S8, _U8, _BOOL = DataType.s32, DataType.s8, DataType.u8, DataType.boolean
_S4, _U4 = DataType.s4, DataType.u4
_E8M0, _E2M1, _E3M0 = DataType.e8m0, DataType.f4_e2m1, DataType.f4_e3m0
# The numbers that bitsandbytes has for the codes, as decimal fractions of its source.
_NF4 = tuple(map(Fraction, NF4.tolist()))
_FLOATS, _INTS = (_F64, _F32, _BF16, _F16, _E5M2, _E4M3), tuple(kind for kind in PROVIDED if kind.is_integral)
# The magnitudes of the floats of 4 bits, by code.
_F4 = {
    _E2M1: tuple(map(Fraction, ("0", "1/2", "1", "3/2", "2", "3", "4", "6"))),
    _E3M0: tuple(map(Fraction, ("0", "1/4", "1/2", "1", "2", "4", "8", "16"))),
}
_MOVE = Compute()
# Mantissa bits (with the hidden one), lowest exponent of a normal number, what overflows.
_FORMATS = {
    _F64: (53, -1022, 2**1024),
    _F32: (24, -126, 2**128),
    _BF16: (8, -126, 2**128),
    _F16: (11, -14, 2**16),
    _E5M2: (3, -14, 2**16),
    _E4M3: (4, -6, 480),
}
_RANGES = {kind: (int(info.min), int(info.max)) for kind in _INTS for info in [ml_dtypes.iinfo(kind.numpy)]}


def _move(bits: Bits, src: DataType, dst: DataType) -> Bits:
    return convert(bits, (src, dst), _MOVE, Inputs())


def _compute(bits: Bits, old: Bits, types: tuple[DataType, DataType], alpha: float, beta: float) -> Bits:
    return convert(bits, types, linear(True, True), _given(old, alpha, beta))


def _given(old: Bits, *factors: float) -> Inputs:
    with np.errstate(all="ignore"):
        return Inputs(old, tuple(float(np.float32(factor)) for factor in factors))


def _values(bits: Bits, data_type: DataType) -> np.ndarray:
    if data_type is _S4:
        return np.where(bits > 7, bits.astype(np.int64) - 16, bits)
    if data_type in (_BOOL, _U4):
        return bits != 0 if data_type is _BOOL else bits
    if data_type is DataType.nf4:
        return np.array(_NF4, float)[bits]
    if data_type in _F4:
        return np.array([*map(float, _F4[data_type]), *(-float(v) for v in _F4[data_type])])[bits]
    return bits.view(data_type.numpy)


def _is_nan(bits: Bits, data_type: DataType) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.isnan(_values(bits, data_type))


def _highest(data_type: DataType, *, wide: bool = False) -> int:
    """Return the value to which floats saturate: the last f32 or double below 2**31 for s32 (N3)."""
    high, kept = _RANGES[data_type][1], 53 if wide else 24
    return high if high < 2**kept else 2 ** high.bit_length() - 2 ** (high.bit_length() - kept)


# --- exact arithmetic --------------------------------------------------------------------------------------


def _exact(bits: int, data_type: DataType) -> Fraction | float:
    """The number that bits stand for, or a float infinity or NaN, from the definition of the format."""
    if data_type is _BOOL:
        return Fraction(bits != 0)
    if data_type in _RANGES:
        return Fraction(bits - (bits >> (data_type.bits - 1) << data_type.bits) * (data_type.kind == "int"))
    if data_type is _E8M0:
        return math.nan if bits == 255 else Fraction(2) ** (bits - 127)
    if data_type is DataType.nf4:
        return _NF4[bits]
    if data_type in _F4:
        return (-1 if bits >> 3 else 1) * _F4[data_type][bits & 7]
    precision, least, _ = _FORMATS[data_type]
    last = (1 << data_type.bits - precision) - 1
    sign = -1 if bits >> (data_type.bits - 1) else 1
    mantissa, exponent = bits & (1 << precision - 1) - 1, (bits >> precision - 1) & last
    if exponent == last and data_type is not _E4M3:
        return math.nan if mantissa else sign * math.inf
    if exponent == last and mantissa == 7:
        return math.nan  # the only codes of f8_e4m3 that are not finite
    if exponent == 0:
        return sign * mantissa * Fraction(2) ** (least - precision + 1)
    return sign * ((1 << precision - 1) + mantissa) * Fraction(2) ** (exponent - 1 + least - precision + 1)


def _rounded(value: Fraction | float, data_type: DataType) -> Fraction | float:
    """The nearest number of a float format, ties to even; overflow to infinity, NaN where there is none."""
    if data_type is _E8M0:
        return _power(value)
    if data_type is DataType.nf4 and isinstance(value, float):
        return Fraction(0) if math.isnan(value) else Fraction(math.copysign(1, value))
    if data_type is DataType.nf4:
        return min(_NF4, key=lambda number: (abs(number - value), number))
    if data_type in _F4:
        return _nearest_of_few(value, _F4[data_type])
    if isinstance(value, float):
        return math.nan if data_type is _E4M3 else value
    if value == 0:
        return value
    precision, least, overflow = _FORMATS[data_type]
    exponent = max(_exponent(abs(value)), least)
    step = Fraction(2) ** (exponent - precision + 1)
    nearest = round(value / step) * step  # round() of a Fraction takes a tie to even
    beyond = math.nan if data_type is _E4M3 else math.inf if value > 0 else -math.inf
    return beyond if abs(nearest) >= overflow else nearest


def _power(value: Fraction | float) -> Fraction | float:
    """The nearest power of two, the greater one at a tie, and next to the least one too."""
    if isinstance(value, float) or value <= 0:
        return math.nan
    least = Fraction(2) ** -127
    if value <= least:
        return least
    low = Fraction(2) ** _exponent(value)
    found = low if value < low * Fraction(3, 2) and low > least else 2 * low
    return math.nan if found > Fraction(2) ** 127 else found


def _nearest_of_few(value: Fraction | float, magnitudes: tuple[Fraction, ...]) -> Fraction:
    """The nearest of the numbers that have codes, the even code at a tie; a NaN is 0."""
    if isinstance(value, float):
        return Fraction(0) if math.isnan(value) else math.copysign(1, value) * magnitudes[-1]
    codes = range(len(magnitudes))
    code = min(codes, key=lambda i: (abs(magnitudes[i] - abs(value)), i % 2))
    return magnitudes[code] if value >= 0 else -magnitudes[code]


def _exponent(value: Fraction) -> int:
    guess = value.numerator.bit_length() - value.denominator.bit_length()
    return guess if Fraction(2) ** guess <= value else guess - 1


def _saturated(value: Fraction | float, data_type: DataType, *, wide: bool) -> int:
    """Saturate, then round half to even (N2); NaN is 0 (N4)."""
    low, high = _RANGES[data_type][0], _highest(data_type, wide=wide)
    if isinstance(value, float):
        return 0 if math.isnan(value) else high if value > 0 else low
    return round(min(max(value, Fraction(low)), Fraction(high)))


def _reference(bits: int, src: DataType, dst: DataType) -> Fraction | float | int:
    value = _exact(bits, src)
    if dst is _BOOL:
        return int(value != 0)
    if src in (*_INTS, _BOOL) and dst in _INTS:
        low, high = _RANGES[dst]
        return min(max(int(value), low), high)
    wide = _F64 in (src, dst)
    through = value if wide else _rounded(value, _F32)
    return _saturated(through, dst, wide=wide) if dst in _INTS else _rounded(through, dst)


_PAIRS = [(src, dst) for src, dst in product(PROVIDED, repeat=2) if src is not dst]


@pytest.mark.parametrize(("src", "dst"), _PAIRS)
def test_conversions_equal_exact_arithmetic(src: DataType, dst: DataType) -> None:
    every = patterns(src)
    bits = np.unique(np.concatenate([every[:: max(every.size // examples(1500), 1)], every[-40:]]))
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
@pytest.mark.parametrize("dst", [*_FLOATS, _E8M0, _E2M1])
def test_floats_equal_ml_dtypes(src: DataType, dst: DataType) -> None:
    """NumPy and ml_dtypes round half to even and keep subnormals (N5), from f32 on."""
    bits = patterns(src)
    if is_wide(src, dst):
        bits = bits[~_rounds_twice(bits, src, dst)]
    with np.errstate(all="ignore"):
        values = _values(bits, src).astype(np.float64 if is_wide(src, dst) else np.float32)
        wanted = values.astype(dst.numpy).view(storage_dtype(dst))
    got = _move(bits, src, dst)
    nan = _is_nan(wanted, dst)
    assert (got[~nan] == wanted[~nan]).all()
    assert _is_nan(got, dst)[nan].all()


def _rounds_twice(bits: Bits, src: DataType, dst: DataType) -> np.ndarray:
    """Values that ml_dtypes 0.6 rounds twice: a double becomes an f32 that is a tie of `dst`."""
    if src is not _F64 or dst not in (_BF16, _E5M2, _E4M3, _E8M0, _E2M1):
        return np.zeros(bits.shape, np.bool_)
    if dst in (_E8M0, _E2M1):
        with np.errstate(all="ignore"):
            value = bits.view(np.float64)
            return (value.astype(np.float32) != value) & ~np.isnan(value)
    with np.errstate(all="ignore"):
        value = bits.view(np.float64)
        near = value.astype(np.float32)
        halves = np.frexp(near)[0] * np.float32(2.0 ** (_FORMATS[dst][0] + 1))
        step = np.float32(2.0 ** (_FORMATS[dst][1] - _FORMATS[dst][0]))
        is_tie = np.where(
            np.abs(near) < step * 2.0 ** _FORMATS[dst][0],
            np.rint(near / step) * step == near,
            np.rint(halves) == halves,
        )
    return is_tie & (near != value) & ~np.isnan(value)


@pytest.mark.parametrize("dst", [_BF16, _F16, _E5M2, _E4M3])
def test_doubles_round_once(dst: DataType) -> None:
    """Just beside a tie of the narrow type, nearer to it than f32 can tell."""
    half = 2.0 ** -_FORMATS[dst][0]
    below, above = 1 + half - 2.0**-40, 1 + half + 2.0**-40
    odd_below, odd_above = 1 + 3 * half - 2.0**-40, 1 + 3 * half + 2.0**-40
    values = np.array([below, above, odd_below, odd_above])
    got = _values(_move(values.view(np.uint64), _F64, dst), dst).astype(np.float64)
    assert got.tolist() == [1, 1 + 2 * half, 1 + 2 * half, 1 + 4 * half]
    with np.errstate(all="ignore"):
        twice = values.astype(np.float32).astype(dst.numpy).astype(np.float64)
    assert twice.tolist() == [1, 1, 1 + 4 * half, 1 + 4 * half]


@pytest.mark.parametrize("src", _FLOATS)
@pytest.mark.parametrize("dst", _INTS)
def test_integers_from_floats_equal_numpy(src: DataType, dst: DataType) -> None:
    bits = patterns(src)
    with np.errstate(all="ignore"):
        value = _values(bits, src).astype(np.float64)
    low, high = _RANGES[dst][0], _highest(dst, wide=src is _F64)
    wanted = np.clip(np.rint(np.nan_to_num(value, nan=0.0)), low, high)
    found = _values(_move(bits, src, dst), dst)
    assert (found == wanted.astype(np.uint64 if low == 0 else np.int64)).all()


@pytest.mark.parametrize("src", PROVIDED)
def test_boolean_is_one_where_there_is_anything(src: DataType) -> None:
    """N7: NaN is something, -0.0 is nothing; a byte of 2 in a boolean is 1 elsewhere and stays in a copy."""
    bits = patterns(src)
    with np.errstate(all="ignore"):
        wanted = (_values(bits, src).astype(np.float64) != 0).astype(np.uint8)
    if src is not _BOOL:
        assert (_move(bits, src, _BOOL) == wanted).all()
    else:
        assert (_move(bits, _BOOL, _BOOL) == bits).all()
    again = convert(bits, (src, _BOOL), linear(scaled=True), Inputs(scalars=(-1.0,)))
    assert (again == wanted).all()


@pytest.mark.parametrize("src", [_F64, _F32, _BF16, _F16, _E5M2, _E4M3, _E8M0])
def test_a_float_of_four_bits_has_no_nan(src: DataType) -> None:
    """A NaN is a zero of the other sign, and what is too large saturates."""
    with np.errstate(all="ignore"):
        values = patterns(src)[~np.isfinite(_values(patterns(src), src).astype(np.float32))]
        high = _values(values, src).astype(np.float64) > 0
    nan = _is_nan(values, src)
    sign = values >> (src.bits - 1) if src is not _E8M0 else np.zeros_like(values)
    for dst in _F4:
        got = _move(values, src, dst)
        assert (got[nan] == np.where(sign[nan], 0, 8)).all()
        assert (got[~nan] == np.where(high[~nan], 7, 15)).all()


@pytest.mark.parametrize("dst", [kind for kind in PROVIDED if kind not in (_BOOL, _E8M0)])
def test_any_nonzero_byte_of_a_boolean_is_one(dst: DataType) -> None:
    got = _values(_move(patterns(_BOOL), _BOOL, dst), dst).astype(np.float64)
    assert got.tolist() == [0.0] + 255 * [1.0]


@pytest.mark.parametrize("src", _INTS)
@pytest.mark.parametrize("dst", _INTS)
def test_integers_saturate_without_floats(src: DataType, dst: DataType) -> None:
    bits = patterns(src)
    low, high = _RANGES[dst]
    wanted = [min(max(value, low), high) for value in _values(bits, src).tolist()]
    assert _values(_move(bits, src, dst), dst).tolist() == wanted
    assert is_integer_move(src, dst, _MOVE)
    assert not is_integer_move(src, dst, linear(scaled=True))


@pytest.mark.parametrize("data_type", PROVIDED)
def test_same_type_copies_bits(data_type: DataType) -> None:
    bits = patterns(data_type)
    assert (_move(bits, data_type, data_type) == bits).all()


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        *((_BF16, _F32), (_F16, _F32), (_S8, _S32), (_U8, _S32), (_U8, _BF16)),
        *((_F32, _F64), (_BF16, _F64), (_F16, _F64), (_E5M2, _F64), (_E4M3, _F64), (_S32, _F64)),
        *((_E5M2, _F16), (_E4M3, _F16), (_E5M2, _BF16), (_E4M3, _BF16)),
    ],
)
def test_widening_and_back_is_the_identity(narrow: DataType, wide: DataType) -> None:
    bits = patterns(narrow)
    back = _move(_move(bits, narrow, wide), wide, narrow)
    nan = _is_nan(bits, narrow)
    assert (back[~nan] == bits[~nan]).all()
    assert _is_nan(back, narrow)[nan].all()


# --- NaN ---------------------------------------------------------------------------------------------------


_QUIET = {
    _F64: 0x7FF8000000000000,
    _F32: 0x7FC00000,
    _BF16: 0x7FC0,
    _F16: 0x7E00,
    _E5M2: 0x7E,
    _E4M3: 0x7F,
}
_PAYLOADS = (_F64, _F32, _BF16, _F16)


@pytest.mark.parametrize(("src", "dst"), [(s, d) for s, d in product(_FLOATS, repeat=2) if s is not d])
def test_a_nan_is_made_quiet_and_keeps_its_sign_and_leading_payload(src: DataType, dst: DataType) -> None:
    bits = patterns(src)
    bits = bits[_is_nan(bits, src)]
    got = _move(bits, src, dst)
    assert _is_nan(got, dst).all()
    assert (got >> (dst.bits - 1) == bits >> (src.bits - 1)).all()
    if (src, dst) == (_BF16, _F32):
        assert (got == bits.astype(np.uint32) << 16).all()  # R19: exact, a signalling NaN included
        return
    quiet = _FORMATS[dst][0] - 2
    assert (got >> quiet & 1 == 1).all()
    if {src, dst} <= set(_PAYLOADS):
        kept = min(_FORMATS[src][0], _FORMATS[dst][0]) - 2
        before, after = (_payload(b, t, kept) for b, t in ((bits, src), (got, dst)))
        assert (before == after).all()


def _payload(bits: Bits, data_type: DataType, kept: int) -> Bits:
    """The leading bits of a NaN's payload, those after the quiet bit."""
    return bits.astype(np.uint64) >> np.uint64(_FORMATS[data_type][0] - 2 - kept) & np.uint64((1 << kept) - 1)


@pytest.mark.parametrize(("src", "dst"), [p for p in product(_FLOATS, repeat=2) if {_E5M2, _E4M3} & {*p}])
def test_a_nan_of_eight_bits_is_all_sign(src: DataType, dst: DataType) -> None:
    """One NaN of each sign comes out of f8 and goes into it, whatever the payload."""
    if src is dst:
        return
    bits = patterns(src)
    nan = bits[_is_nan(bits, src)]
    signs = {_QUIET[dst], _QUIET[dst] | 1 << dst.bits - 1}
    assert set(_move(nan, src, dst).tolist()) == signs


@pytest.mark.parametrize("dst", _INTS)
@pytest.mark.parametrize("src", _FLOATS)
def test_nan_is_zero_as_an_integer(src: DataType, dst: DataType) -> None:
    bits = patterns(src)
    bits = bits[_is_nan(bits, src)]
    assert bits.size > 1
    assert not _move(bits, src, dst).any()
    assert not _compute(bits, np.zeros(bits.shape, storage_dtype(dst)), (src, dst), 2.0, 1.0).any()


@pytest.mark.parametrize("dst", _FLOATS)
@pytest.mark.parametrize("src", [_F32, _F64])
def test_arithmetic_makes_the_one_quiet_nan(src: DataType, dst: DataType) -> None:
    """The NaN that a sum of two keeps differs between machines, so NaNs are canonical."""
    bits, quiet = patterns(src), _QUIET[dst]
    nan = bits[_is_nan(bits, src)]
    old = np.zeros(nan.shape, storage_dtype(dst))
    for alpha, beta in ((1.0, 0.0), (-2.5, 1.0), (math.nan, 0.0), (0.0, 0.0)):
        assert set(_compute(nan, old, (src, dst), alpha, beta).tolist()) == {quiet}
    infinite = np.array([np.inf, -np.inf], src.numpy).view(storage_dtype(src))
    assert set(_compute(infinite, old[:2], (src, dst), 0.0, 0.0).tolist()) == {quiet}


# --- arithmetic --------------------------------------------------------------------------------------------

_ALPHAS = (0.5, -3.7, 0.0, 1e-30, 4294967295.0, 3.0e38)
_BETAS = (0.0, 1.0, -0.25, 2.0**-149)


@pytest.mark.sweep(1)
@pytest.mark.parametrize("real", [_F32, _F64])
@pytest.mark.parametrize("beta", _BETAS)
@pytest.mark.parametrize("alpha", _ALPHAS)
def test_scale_and_sum_round_after_each_step(alpha: float, beta: float, real: DataType) -> None:
    """N1: products in f32 or f64 and their sum, each rounded once. The factors are f32 in both."""
    bits = patterns(real)[::97]
    old = bits[::-1].copy()
    got = _compute(bits, old, (real, real), alpha, beta)
    a, b = _exact_float(alpha), _exact_float(beta)
    for one, was, result in zip(bits.tolist(), old.tolist(), got.tolist(), strict=True):
        products = _times(a, _exact(one, real), real), _times(b, _exact(was, real), real)
        wanted = _added(*products, real)
        assert _same(_exact(result, real), wanted), (alpha, hex(one), beta, hex(was), hex(result))


def _exact_float(value: float) -> Fraction:
    return Fraction(float(np.float32(value)))


def _times(a: Fraction, b: Fraction | float, real: DataType) -> Fraction | float:
    if isinstance(b, float):
        return math.nan if a == 0 or math.isnan(b) else math.copysign(1, a) * b
    return _rounded(a * b, real)


def _added(a: Fraction | float, b: Fraction | float, real: DataType) -> Fraction | float:
    if isinstance(a, float) or isinstance(b, float):
        return float(a) + float(b) if math.isfinite(a) is False or math.isfinite(b) is False else a + b
    return _rounded(a + b, real)


@pytest.mark.parametrize("dst", _INTS)
@pytest.mark.parametrize("src", [_F32, _F64])
def test_a_huge_scale_saturates(src: DataType, dst: DataType) -> None:
    """R36: 4294967295 must not wrap."""
    source = np.array([1.0, -1.0, 0.0, 3e30], src.numpy).view(storage_dtype(src))
    scalars = (float(np.float32(4294967295.0 if dst.bits <= 32 else 1e25)),)
    got = _values(convert(source, (src, dst), linear(scaled=True), Inputs(scalars=scalars)), dst)
    # What f32 does not hold is computed as doubles, but for s32.
    is_double = src is _F64 or (dst.bits > 16 and dst is not _S32)
    low, high = _RANGES[dst][0], _highest(dst, wide=is_double)
    assert got.tolist() == [high, low, 0, high]


def test_integers_of_64_bits_are_scaled_as_doubles() -> None:
    """N1: 53 bits of them count, where 24 of s32 do."""
    source = np.array([2**53 - 1, -(2**40) - 1, 2**53 + 1])
    scaled = linear(scaled=True)
    got = convert(source.view(np.uint64), (DataType.s64, DataType.s64), scaled, Inputs(scalars=(2.0,)))
    assert got.view(np.int64).tolist() == [2**54 - 2, -(2**41) - 2, 2**54]
    got = convert(source[:2].view(np.uint64), (DataType.s64, _S32), scaled, Inputs(scalars=(2.0**-20,)))
    assert got.view(np.int32).tolist() == [2**31 - 1, -(2**20)]


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
        assert (from_real(to_real(bits, half), half) == _move(_move(bits, half, _F32), _F32, half)).all()


def test_documented_values_of_the_other_types() -> None:
    """N3, N5, N7."""
    edge = np.array([2147483646.5, 2147483647.5, 2.0**31, -2147483648.5, np.nan, np.inf]).view(np.uint64)
    low, high = -2147483648, 2147483647
    assert _values(_move(edge, _F64, _S32), _S32).tolist() == [high - 1, high, high, low, 0, high]
    assert _values(_move(edge, _F64, _S8), _S8).tolist() == [127, 127, 127, -128, 0, 127]
    f32 = np.array([448, 464, 464.001, 2**-10, 2**-10 * 1.001, np.inf, -0.0], np.float32).view(np.uint32)
    assert _move(f32, _F32, _E4M3).tolist() == [0x7E, 0x7E, 0x7F, 0x00, 0x01, 0x7F, 0x80]
    f32 = np.array([57344, 61439, 61440, 2**-17, 2**-17 * 1.001, -np.inf], np.float32).view(np.uint32)
    assert _move(f32, _F32, _E5M2).tolist() == [0x7B, 0x7B, 0x7C, 0x00, 0x01, 0xFC]
    zeros = np.array([0.0, -0.0, 1e-45, -3.0, np.nan, np.inf], np.float32).view(np.uint32)
    assert _move(zeros, _F32, _BOOL).tolist() == [0, 0, 1, 1, 1, 1]
    whole = np.array([2147483647, -2147483648], np.int32).view(np.uint32)
    assert _values(_move(whole, _S32, _F64), _F64).tolist() == [2147483647.0, -2147483648.0]
