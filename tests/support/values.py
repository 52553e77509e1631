"""Values at which conversions go wrong: every pattern of the narrow types, the borders of the wide ones."""

from __future__ import annotations

import functools

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
    """Bits of `data_type`: all there are for 8 and 16 bits, the interesting ones for 32. Read-only."""
    if data_type.bits == 8:
        found: Bits = np.arange(1 << 8, dtype=np.uint8)
    elif data_type.bits == 16:
        found = np.arange(1 << 16, dtype=np.uint16)
    else:
        found = _floats() if data_type is DataType.f32 else _integers()
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


def _integers() -> Bits:
    """Powers of two and what lies beside them, where f32 begins to round; both signs; a spread of others."""
    powers = [(1 << bit) + d for bit in range(32) for d in (-3, -2, -1, 0, 1, 2, 3)]
    ties = [
        (1 << bit) + k * (1 << (bit - 24)) + d for bit in range(25, 31) for k in (1, 3, 5) for d in (-1, 0, 1)
    ]
    spread = np.random.default_rng(2).integers(-(2**31), 2**31, 2000)
    small = range(-300, 301)
    whole = np.array([*powers, *(-p for p in powers), *ties, *(-t for t in ties), *spread, *small], np.int64)
    return np.unique(whole[(whole >= -(2**31)) & (whole < 2**31)]).astype(np.int32).view(np.uint32)
