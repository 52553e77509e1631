"""Values at which conversions go wrong: every pattern of the narrow types, the borders of the wide ones."""

from __future__ import annotations

import functools
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from restride.dtypes import DataType

Bits = npt.NDArray[np.unsignedinteger[npt.NBitBase]]

# Added to an f32's leading 16, 19 or 9 bits: below, at and above a tie of bf16, f16 and the exponent itself.
_LOW_BITS = (0, 1, 2, 0x7F, 0xFFF, 0x1000, 0x1001, 0x2000, 0x3000, 0x7FFF, 0x8000, 0x8001, 0xFFFF)
_HIGH_BITS = (
    0,
    0x10000,
    0x18000,
    0x3F0000,
    0x3FE000,
    0x3FF000,
    0x400000,
    0x555555,
    0x7F0000,
    0x7FE000,
    0x7FF000,
)


@functools.cache
def patterns(data_type: DataType) -> Bits:
    """Bits of `data_type`: all there are for up to 16 bits, the interesting ones for 32 and 64. Read-only."""
    if data_type.bits == 4:
        found: Bits = np.arange(16, dtype=np.uint8)
    elif data_type.bits == 8:
        found = np.arange(1 << 8, dtype=np.uint8)
    elif data_type.bits == 16:
        found = np.arange(1 << 16, dtype=np.uint16)
    else:
        makers = {DataType.f64: _doubles, DataType.f32: _floats}
        found = makers[data_type]() if data_type in makers else _integers(data_type.bits)
    found.flags.writeable = False
    return found


def _floats() -> Bits:
    """Each sign and exponent with mantissas at and beside every tie; NaN payloads; all halves up to 1024."""
    mantissas = {(high + low) & 0x7FFFFF for high in _HIGH_BITS for low in _LOW_BITS}
    mantissas |= {high - 1 & 0x7FFFFF for high in _HIGH_BITS} | {1 << bit for bit in range(23)}
    heads = np.arange(1 << 9, dtype=np.uint32) << 23
    grid = (heads[:, None] | np.array(sorted(mantissas), np.uint32)[None, :]).ravel()
    halves = np.arange(-1024, 1024.5, 0.5, dtype=np.float32)
    beside = np.concatenate([np.nextafter(halves, np.float32(sign)) for sign in (-np.inf, np.inf)])
    limits = np.array([2.0**31, 2.0**31 - 128, -(2.0**31), -(2.0**31) - 256, 4294967295.0, 1e30], np.float32)
    return np.concatenate([grid, *(v.view(np.uint32) for v in (halves, beside, limits, -limits))])


# Bits of a mantissa, the hidden one among them: f8_e5m2, f8_e4m3, bf16, f16, f32.
_PRECISIONS = (3, 4, 8, 11, 24)
# Exponents of doubles at which subnormals of f8_e4m3, of f8_e5m2 and f16, and of bf16 and f32 begin and end.
_SUBNORMAL = (*range(-12, -5), *range(-27, -13), *range(-152, -125))


def _doubles() -> Bits:
    """Each sign and exponent; beside the ties of every narrower float, nearer than f32 can tell; halves."""
    ends = [0, 1, 1 << 51, (1 << 51) + 1, (1 << 52) - 1]
    ties = [k << 52 - p for p in _PRECISIONS for k in (1, 3)]
    beside = [t + d & (1 << 52) - 1 for t in ties for d in (-(1 << 28), -1, 0, 1, 1 << 28)]
    single = [(1 << bit) + d for bit in range(52) for d in (0, 1)]
    grids = (_grid(range(-1023, 1025), ends), _grid(range(-152, 130), beside), _grid(_SUBNORMAL, single))
    halves = np.arange(-1024, 1024.5, 0.5)
    around = [np.nextafter(halves, sign) for sign in (-np.inf, np.inf)]
    limits = np.array([2.0**31 + d for d in (-129, -128, -2, -1.5, -1, -0.5, 0, 0.5, 1)])
    positive = np.concatenate(grids)
    values = (halves, *around, limits, -limits, np.nextafter(limits, 0))
    return np.concatenate([positive, positive | np.uint64(1 << 63), *(v.view(np.uint64) for v in values)])


def _grid(exponents: Iterable[int], mantissas: Iterable[int]) -> Bits:
    """Doubles, as bits, of all exponents with all mantissas."""
    heads = np.array([exponent + 1023 for exponent in exponents], np.uint64) << np.uint64(52)
    return (heads[:, None] | np.array(sorted(set(mantissas)), np.uint64)[None, :]).ravel()


def _integers(bits: int) -> Bits:
    """Powers of two and what lies beside them, where f32 and f64 begin to round; both signs; others."""
    powers = [(1 << bit) + d for bit in range(bits) for d in (-3, -2, -1, 0, 1, 2, 3)]
    ties = [
        (1 << bit) + k * (1 << (bit - kept)) + d
        for kept in (24, 53)
        for bit in range(kept + 1, bits)
        for k in (1, 3, 5)
        for d in (-1, 0, 1)
    ]
    spread = np.random.default_rng(2).integers(0, 2**bits - 1, 2000, np.uint64)
    whole = {*powers, *(-p for p in powers), *ties, *(-t for t in ties), *spread.tolist(), *range(-300, 301)}
    return np.array(sorted({each % (1 << bits) for each in whole}), f"u{bits // 8}")
