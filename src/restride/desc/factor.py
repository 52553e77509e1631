"""The scales or the zero points of one argument, as a frozen value (R22–R27)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..dtypes import DataType

Array = np.ndarray[Any, np.dtype[Any]]

ARG_SRC, ARG_DST = 1, 17
"""The arguments of a reorder (P14). Only they have zero points, and in a reorder scales (R26)."""
ARG_MULTIPLE_SRC, MOST_SOURCES = 1024, 1024
"""Source i of a concat or a sum is argument `ARG_MULTIPLE_SRC + i`; those of a concat have scales."""

SCALE_TYPES = (
    DataType.f32,
    DataType.bf16,
    DataType.f16,
    DataType.e8m0,
    DataType.f8_e5m2,
    DataType.f8_e4m3,
)
ZERO_POINT_TYPES = (DataType.s32, DataType.s8, DataType.u8, DataType.s4, DataType.u4)


@dataclass(frozen=True, slots=True)
class Factor:
    """One value for each index of the masked dims.

    `mask`: bit i stands for dim i; 0 is one value for the whole tensor. `data_type`: of the memory that
    holds them, one of SCALE_TYPES or ZERO_POINT_TYPES. `groups`: empty, or how many elements of each of the
    last two dims share a value (R25). `values`: None where a memory is passed at execution; else
    little-endian f32 (scales) or s32 (zero points), row-major over the masked dims in logical order (R23).
    `shape`: the extents above 1 of an array of several dims that gave the values, which must be those of the
    masked dims; empty for lists and other runs of values, and once it has been checked.
    """

    mask: int
    data_type: DataType
    groups: tuple[int, ...] = ()
    values: bytes | None = None
    shape: tuple[int, ...] = ()

    def extents(self, dims: Sequence[int]) -> tuple[int, ...]:
        """How many values there are along each dim of a tensor of `dims`; 1 along those not masked."""
        shared = (1,) * (len(dims) - len(self.groups)) + self.groups
        pairs = enumerate(zip(dims, shared, strict=True))
        return tuple(n // size if self.mask >> i & 1 else 1 for i, (n, size) in pairs)

    def count(self, dims: Sequence[int]) -> int:
        """How many values there are for a tensor of `dims`."""
        return prod(self.extents(dims))

    def to_numpy(self) -> Array | None:
        """The values as a flat read-only array of f32 or s32; None where they come at execution."""
        kind = "<i4" if self.data_type.is_integral else "<f4"
        return None if self.values is None else np.frombuffer(self.values, kind)

    def verbose_str(self) -> str:
        """Mask, type and groups in a verbose line: `2:f32`, `3:bf16:8x1` (spec 1.6)."""
        shared = f":{'x'.join(map(str, self.groups))}" if self.groups else ""
        return f"{self.mask}:{self.data_type}{shared}"


def fits_extents(shape: Sequence[int], extents: Sequence[int]) -> bool:
    """True for a run of values, and for a shape with these extents; a 1 says nothing about order."""
    given = above_one(shape)
    return len(given) < 2 or given == above_one(extents)


def above_one(extents: Sequence[int]) -> tuple[int, ...]:
    """The extents that are not 1."""
    return tuple(n for n in extents if n != 1)


def common_scale(value: float) -> Factor:
    """One scale, an f32 value, for the whole tensor."""
    # All NaNs are one, so that equal attributes are equal values.
    return Factor(0, DataType.f32, values=np.array(value if value == value else np.nan, "<f4").tobytes())


def common_zero_point(value: int) -> Factor:
    """One zero point of 32 bits for the whole tensor."""
    return Factor(0, DataType.s32, values=np.array(value, "<i4").tobytes())


_NEUTRAL = (common_scale(1.0).values, common_zero_point(0).values)


def is_neutral(factor: Factor | None) -> bool:
    """True for what changes nothing: no factor, one scale of exactly 1, one zero point of 0."""
    if factor is None:
        return True
    return factor.mask == 0 and factor.values == _NEUTRAL[factor.data_type.is_integral]
