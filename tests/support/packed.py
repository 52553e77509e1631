"""Elements of any type as bits, one to a place: those of four bits are taken out of their bytes."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from restride.dtypes import DataType

Array = npt.NDArray[np.generic]

F4_MAGNITUDES = {
    DataType.f4_e2m1: (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0),
    DataType.f4_e3m0: (0.0, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0),
}
"""The values of the codes of 4-bit floats without a sign."""
NF4_NUMBERS = """
    -1 -0.6961928009986877 -0.5250730514526367 -0.39491748809814453 -0.28444138169288635 -0.18477343022833334
    -0.09105003625154495 0 0.07958029955625534 0.16093020141124725 0.24611230194568634 0.33791524171829224
    0.44070982933044434 0.5626170039176941 0.7229568362236023 1
"""
NF4 = np.array(NF4_NUMBERS.split(), np.float64).astype(np.float32)
"""The values of the codes of nf4 in bitsandbytes."""


def elements_of(data: Array, data_type: DataType) -> Array:
    """The bits of all elements in some bytes: a view, but of 4-bit types a copy, the low half first."""
    raw = data.view(np.uint8)
    if data_type.bits == 4:
        return np.stack([raw & 15, raw >> 4], axis=1).reshape(-1)
    return raw.view(f"u{data_type.bits // 8}")


def bytes_of(elements: Array, data_type: DataType) -> Array:
    """The bytes of elements, the inverse of `elements_of`; an odd 4-bit one has zero beside it."""
    if data_type.bits != 4:
        return np.ascontiguousarray(elements).view(np.uint8)
    even = np.append(elements, np.zeros(elements.size % 2, np.uint8)).astype(np.uint8)
    return even[::2] | even[1::2] << 4


def values_of(elements: Array, data_type: DataType) -> Array:
    """The numbers that bits stand for, in a type that holds each of them."""
    if data_type is DataType.s4:
        return (elements.astype(np.int8) ^ 8) - 8
    if data_type is DataType.boolean:
        return (elements != 0).astype(np.uint8)
    if data_type is DataType.u4:
        return elements
    if data_type in F4_MAGNITUDES:
        return np.array([*F4_MAGNITUDES[data_type], *(-m for m in F4_MAGNITUDES[data_type])], "f4")[elements]
    return NF4[elements] if data_type is DataType.nf4 else elements.view(data_type.numpy)
