"""Data for a case: the same for the same case in every run, with the values that conversions get wrong.

A reorder reads in turn a value at a limit of its type or at a tie, and one that tells its place; a shuffle
reads bits that count the places.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from restride import DataType, MemoryDesc
from restride.formats import NF4
from restride.ir.conversion import INTEGER_LIMITS, storage_dtype

Array = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

POISON = 0xA5
OTHER_POISON = 0x5A
_PERIOD = 1018  # elements; twice a prime, so that no power of two meets the same values again soon
_SPECIAL = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 16.0, 64.0, -0.5, -2.5, 300.0)
_SCALES = (0.25, 2.0, 0.5, 4.0, 1.0)
_SHIFTS = (1, 0, 3, 2)
_OPERANDS = (0.5, 2.0, -1.0, 4.0, 1.0, 0.25)


def values_for(data_type: DataType, nbytes: int) -> Bytes:
    """Storage of a reorder's source, or of what is in a destination before it is summed."""
    return _repeated(_pattern(data_type), nbytes)


def bits_for(data_type: DataType, nbytes: int) -> Bytes:
    """Storage of a shuffle's source: words that differ from place to place, whatever they mean."""
    word = storage_dtype(data_type)
    count = -(-nbytes // word.itemsize)
    # Narrow words repeat themselves, after as many as there are.
    places = np.arange(min(count, 1 << 8 * word.itemsize), dtype=word)
    places *= word.type(97)
    places += word.type(101)
    return np.resize(places, count).view(np.uint8)[:nbytes]


def scales_for(count: int, data_type: DataType, given: Sequence[float] = ()) -> Bytes:
    """So many scales, powers of two unless they are given."""
    values: Array = np.resize(np.array(given or _SCALES), count).astype(data_type.numpy)
    return values.view(np.uint8)


def zero_points_for(count: int, data_type: DataType) -> Bytes:
    """So many zero points; those of 4 bits by two in a byte, the first in the low half."""
    values = np.resize(np.array(_SHIFTS), count + count % 2)
    if data_type.bits == 4:
        return np.asarray(values[::2] | values[1::2] << 4, np.uint8)
    stored: Array = values[:count].astype(data_type.numpy)
    return stored.view(np.uint8)


def operand_for(md: MemoryDesc) -> Bytes:
    """Storage of the other operand of a binary post-op."""
    values = np.array(_OPERANDS)
    return _repeated(np.clip(values, *limits(md.data_type)).astype(md.data_type.numpy), md.size)


def whole_numbers(dims: Sequence[int], low: int, high: int, seed: int) -> Array:
    """Whole numbers from `low` to `high` for each element, in logical order."""
    return np.random.default_rng(seed).integers(low, high, dims, endpoint=True).astype(np.float64)


def eltwise_values(
    dims: Sequence[int], data_type: DataType, alpha: float, beta: float, has_infinities: bool, seed: int
) -> Array:
    """Inputs of functions of one value: values of all sizes, the points where exp and mish overflow, and
    the numbers alpha and beta; as the type has them, none -0.0.
    """
    count, kinds = int(np.prod(dims)), 15 if has_infinities else 13
    random = np.random.default_rng(seed)
    whole, part = random.integers(0, 11, count).astype(np.float64), random.uniform(0, 0.09, count)
    sizes = [whole, -whole, part, -part, 10 * whole, -10 * whole, 10 * part, -10 * part]
    large = [base + 10 * part for base in (88.0, 22.0, 44.0)]
    same = [np.full(count, number) for number in (alpha, beta, np.inf, -np.inf)]
    every: list[Array] = [*sizes, *large, *same]
    chosen = np.select([np.arange(count) % kinds == i for i in range(kinds)], every[:kinds])
    return np.asarray(rounded(chosen, data_type).astype(np.float64) + 0.0).reshape(tuple(dims))


# What floats of three bits of exponent and none behind the point hold.
_E3M0 = np.array([0.0, *(2.0**exponent for exponent in range(-2, 5))])


def rounded(values: Array, data_type: DataType) -> Array:
    """Numbers as a type holds them: half to even; integers saturated, and 0 for NaN."""
    if data_type is DataType.f4_e3m0:  # which NumPy's types lack
        nearest = np.abs(np.abs(values)[..., np.newaxis] - _E3M0).argmin(-1)
        found: Array = np.copysign(_E3M0[nearest], values)
        return found
    if data_type is DataType.nf4:
        nearest = np.abs(np.nan_to_num(values).clip(-1, 1)[..., np.newaxis] - NF4).argmin(-1)
        return np.asarray(NF4[nearest])
    assert data_type.numpy is not None
    if values.dtype == data_type.numpy:
        return np.ascontiguousarray(values)
    with np.errstate(all="ignore"):
        if data_type not in INTEGER_LIMITS:
            return np.ascontiguousarray(np.asarray(values).astype(data_type.numpy))
        limited = np.rint(np.clip(values, *INTEGER_LIMITS[data_type]))
        return np.ascontiguousarray(np.where(np.isnan(limited), 0.0, limited).astype(data_type.numpy))


def _repeated(pattern: Array, nbytes: int) -> Bytes:
    return np.resize(pattern.view(np.uint8), nbytes)


@cache
def _pattern(data_type: DataType) -> Array:
    """One period of values: special ones at even places, numbers that tell their place at odd ones."""
    places = np.arange(_PERIOD)
    if data_type is DataType.boolean:
        return np.asarray(places % 3 == 0)
    if data_type.bits == 4:
        return np.asarray((97 * places + 101) % 256, np.uint8)
    low, high = limits(data_type)
    special = np.resize(np.array([high, low, *_SPECIAL], np.float64), _PERIOD)
    telling = ((97 * places + 101) % 509 - 254) / 4
    chosen = np.where(places % 2 == 0, special[places // 2], telling)
    with np.errstate(all="ignore"):
        values: Array = np.clip(chosen, low, high).astype(data_type.numpy)
    return values


def limits(data_type: DataType) -> tuple[float, float]:
    """The least and the largest number of a type."""
    if data_type in INTEGER_LIMITS:
        return INTEGER_LIMITS[data_type]
    if data_type is DataType.boolean:
        return 0, 1
    limits = ml_dtypes.finfo(data_type.numpy)
    return float(limits.min), float(limits.max)
