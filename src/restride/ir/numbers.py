"""The numbers that a loop tree computes with: reals of one precision, or integers that wrap.

| numbers | a load gives | a store writes |
| --- | --- | --- |
| f32, f64 | the value of an element, rounded to it | the value, converted to the type of the tensor |
| i8, i16, i32, i64 | an integer unchanged, 1 for a set boolean, the bits of a float | the lowest bits |

Comparisons treat integers as signed; arithmetic wraps modulo 2**bits.
"""

from __future__ import annotations

import enum

import numpy as np

from ..dtypes import DataType
from .conversion import Array, from_real, integers_of, storage_dtype, to_real


class Number(enum.Enum):
    """The type of all values of a tree."""

    f32 = DataType.f32
    f64 = DataType.f64
    i8 = DataType.s8
    i16 = DataType.s16
    i32 = DataType.s32
    i64 = DataType.s64

    @classmethod
    def real(cls, *, is_wide: bool) -> Number:
        """Return f64 if `is_wide`, else f32."""
        return cls.f64 if is_wide else cls.f32

    @classmethod
    def integer(cls, bits: int) -> Number:
        """Return the integers with this many bits."""
        return cls[f"i{bits}"]

    @property
    def is_integer(self) -> bool:
        """True if these are integers."""
        return self.name.startswith("i")

    @property
    def bits(self) -> int:
        """The width in bits."""
        return int(self.name[1:])

    @property
    def storage(self) -> DataType:
        """The type of local tensors and temporaries."""
        held: DataType = self.value
        return held

    @property
    def dtype(self) -> np.dtype[np.generic]:
        """The NumPy type."""
        return np.dtype(f"{self.name[0]}{self.bits // 8}")

    def constant(self, number: float) -> float | int:
        """Return a number in this type; for integers, infinities are the limits."""
        if not self.is_integer:
            return number
        end = 1 << self.bits - 1
        return {float("-inf"): -end, float("inf"): end - 1}.get(number) or int(number)


def numbers_of(bits: Array, data_type: DataType, number: Number) -> Array:
    """Return what a load gives for stored elements."""
    if not number.is_integer:
        return to_real(bits, data_type, np.float64 if number is Number.f64 else np.float32)
    if data_type.kind == "float":
        return np.asarray(bits.view(f"i{bits.itemsize}").astype(number.dtype))
    return np.asarray(integers_of(bits, data_type).astype(number.dtype))


def elements_of(values: Array, data_type: DataType, number: Number) -> Array:
    """Return what a store writes, as stored elements."""
    if number.is_integer:
        bits = np.asarray(values.astype(storage_dtype(data_type)))
        # The other half of a byte belongs to another element.
        return bits & bits.dtype.type(15) if data_type.bits == 4 else bits
    return from_real(np.where(np.isnan(values), values.dtype.type(np.nan), values), data_type)
