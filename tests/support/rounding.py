"""Bits as numbers and numbers as bits, by definitions of their own: what N2 to N7 say of every type.

The narrow floats are rounded by a table of all their values: the nearest one, of two the even one.
"""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from restride.dtypes import DataType
from support.packed import F4_MAGNITUDES, NF4, values_of

Bits = npt.NDArray[np.unsignedinteger[Any]]
Reals = npt.NDArray[np.floating[Any]]

QUIET = {
    DataType.f64: 0x7FF8000000000000,
    DataType.f32: 0x7FC00000,
    DataType.bf16: 0x7FC0,
    DataType.f16: 0x7E00,
    DataType.f8_e5m2: 0x7E,
    DataType.f8_e4m3: 0x7F,
    DataType.e8m0: 0xFF,
    DataType.f4_e2m1: 8,
    DataType.f4_e3m0: 8,
    DataType.nf4: 7,
}
"""The one NaN that arithmetic gives, in each type (N1)."""

_LIMITS = {
    kind: (int(info.min), int(info.max))
    for kind in DataType
    if kind.is_integral
    for info in [ml_dtypes.iinfo(kind.numpy)]
}
# How many patterns of the type are finite and not negative; the next one is what overflow gives.
_FINITE = {
    DataType.bf16: 0x7F80,
    DataType.f16: 0x7C00,
    DataType.f8_e5m2: 0x7C,
    DataType.f8_e4m3: 127,
}


def reals_of(bits: Bits, data_type: DataType, real: type[np.floating[Any]]) -> Reals:
    """Return the values of bits, as f32 or f64; s32 and f64 are rounded if f32 cannot hold them."""
    with np.errstate(all="ignore"):
        return values_of(bits, data_type).astype(real)


def bits_of(values: Reals, data_type: DataType) -> Bits:
    """f32 or f64 results of arithmetic as the bits of a type, 4-bit ones in the low half of a byte."""
    if data_type is DataType.boolean:
        return (values != 0).astype(np.uint8)
    if data_type in _LIMITS:
        return _integers(values, data_type)
    word = np.dtype(f"u{max(data_type.bits // 8, 1)}")
    return np.where(np.isnan(values), word.type(QUIET[data_type]), _floats(values, data_type)).astype(word)


def _integers(values: Reals, data_type: DataType) -> Bits:
    low, high = _LIMITS[data_type]
    # The largest value that is no more than that (N3): of s32 an f32 below 2**31.
    kept = 24 if values.dtype == np.float32 else 53
    most = high if high < 2**kept else 2 ** high.bit_length() - 2 ** (high.bit_length() - kept)
    exact = np.where(np.isnan(values), 0, values).astype(np.float64)
    whole = np.rint(np.clip(exact, low, most))
    whole = whole.astype(np.uint64) if low == 0 else whole.astype(np.int64).view(np.uint64)
    return (whole & np.uint64(2**data_type.bits - 1)).astype(f"u{max(data_type.bits // 8, 1)}")


def _floats(values: Reals, data_type: DataType) -> Bits:
    with np.errstate(all="ignore"):
        if data_type is DataType.f64:
            return values.astype(np.float64).view(np.uint64)
        if data_type is DataType.f32:
            return values.astype(np.float32).view(np.uint32)
        if data_type is DataType.e8m0:
            return _powers(values.astype(np.float64))
        if data_type is DataType.nf4:
            away = np.abs(np.clip(np.nan_to_num(values.astype(np.float64)), -1, 1)[..., None] - NF4)
            return away.argmin(-1)
        return _nearest(values.astype(np.float64), data_type)


def _powers(values: npt.NDArray[np.float64]) -> Bits:
    """The exponents of the nearest powers of two; 255, NaN, where there are none."""
    mantissas, exponents = np.frexp(values)
    # A value is mantissa * 2**exponent, from 1/2 on; past 2**-127 the next power is taken, at a tie too.
    codes = np.where(mantissas >= 0.75, exponents + 127, exponents + 126)
    codes = np.where(values < 2.0**-126, values > 2.0**-127, np.clip(codes, 0, 255))
    return np.where((values > 0) & (values < np.inf), codes, 255)


def _nearest(values: npt.NDArray[np.float64], data_type: DataType) -> Bits:
    table = _magnitudes(data_type)
    size = np.where(np.isnan(values), 0, np.abs(values))
    below = np.searchsorted(table, size, side="right") - 1
    last = table.size - 1
    above = np.minimum(below + 1, last)
    middle = (table[below] + table[above]) / 2
    up = (size > middle) | ((size == middle) & (below % 2 == 1))
    return np.where(up, above, below) | np.signbit(values).astype(np.int64) << data_type.bits - 1


@functools.cache
def _magnitudes(data_type: DataType) -> npt.NDArray[np.float64]:
    """All finite values from 0 up, and the one that would come next, where that is no number."""
    if data_type in F4_MAGNITUDES:
        return np.array(F4_MAGNITUDES[data_type], np.float64)
    count = _FINITE[data_type]
    bits = np.arange(count, dtype=f"u{data_type.bits // 8}")
    finite = bits.view(data_type.numpy).astype(np.float64)
    return np.append(finite, 2 * finite[-1] - finite[-2])
