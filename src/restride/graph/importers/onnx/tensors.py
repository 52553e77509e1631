"""Values of a tensor of an ONNX file: views of its bytes if NumPy has the type."""

from __future__ import annotations

from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from ....desc.memory_desc import MemoryDesc
from ....dtypes import DataType
from ....errors import refuse
from ....runtime.alloc import Array
from ....runtime.views import of_nibbles, unpacked_nibbles
from ...stored_constant import StoredConstant
from .wire import Message

__all__ = ["ELEMENTS", "NUMBERS", "tensor_values"]

# NumPy types of ONNX's element types, by number.
ELEMENTS: dict[int, np.dtype[Any]] = {
    number: np.dtype(word)
    for number, word in {
        1: "f4", 2: "u1", 3: "i1", 4: "u2", 5: "i2", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8",
        12: "u4", 13: "u8",
    }.items()
} | {
    16: np.dtype(ml_dtypes.bfloat16),
    17: np.dtype(ml_dtypes.float8_e4m3fn),
    19: np.dtype(ml_dtypes.float8_e5m2),
    21: np.dtype(ml_dtypes.uint4),
    22: np.dtype(ml_dtypes.int4),
    23: np.dtype(ml_dtypes.float4_e2m1fn),
    24: np.dtype(ml_dtypes.float8_e8m0fnu),
}  # fmt: skip

NUMBERS: dict[np.dtype[Any] | None, int] = {dtype: number for number, dtype in ELEMENTS.items()}

# Types of 4 bits: a byte holds two elements, the first in its low half.
_PACKED = (21, 22, 23)
_MOST_UNPACKED = 4096
_FLOAT, _INT64, _HALF, _DOUBLE, _UINT32, _UINT64 = 1, 7, 10, 11, 12, 13


def tensor_values(
    tensor: Message, content: memoryview | None, *, may_be_packed: bool = False
) -> Array | StoredConstant:
    """Return a tensor whose elements are `content`, or, if that is None, in lists of numbers. A large tensor
    of 4 bits stays as stored if it `may_be_packed`.

    Raises ValueError if their number does not match the dims; RuntimeFailure for types that only the package
    onnx reads, if that is missing.
    """
    dtype = ELEMENTS.get(tensor.data_type)
    if dtype is None:
        return _by_package(tensor, content)
    if tensor.data_type in _PACKED:
        packed = (
            np.array(tensor.int32_data, np.uint8) if content is None else np.frombuffer(content, np.uint8)
        )
        if may_be_packed and prod(tensor.dims) > _MOST_UNPACKED:
            return StoredConstant(packed, MemoryDesc(tensor.dims, dtype))
        nibbles = unpacked_nibbles(packed)[: prod(tensor.dims)]
        return of_nibbles(nibbles, DataType.parse(dtype)).reshape(tensor.dims)
    if content is None:
        return _from_lists(tensor, dtype).reshape(tensor.dims)
    values = np.frombuffer(content, dtype.newbyteorder("<"))
    return values.astype(dtype, copy=False).reshape(tensor.dims)


def _from_lists(tensor: Message, dtype: np.dtype[Any]) -> Array:
    kind = tensor.data_type
    if kind == _FLOAT:
        return np.asarray(tensor.float_data, dtype)
    if kind == _DOUBLE:
        return np.asarray(tensor.double_data, dtype)
    if kind == _INT64:
        return np.array(tensor.int64_data, dtype)
    if kind in (_UINT32, _UINT64):
        return np.array(tensor.uint64_data, np.int64).astype(np.uint64).astype(dtype)
    values = np.array(tensor.int32_data, np.int64)
    is_of_bits = kind == _HALF or kind > _UINT64
    return values.astype(f"u{dtype.itemsize}").view(dtype) if is_of_bits else values.astype(dtype)


def _by_package(tensor: Message, content: memoryview | None) -> Array:
    """Read a tensor of a type that NumPy lacks, with the package onnx."""
    try:
        import onnx
        from onnx import numpy_helper
    except ImportError:
        raise refuse("RS-G04:tensor-onnx-model", tensor=tensor) from None
    proto = onnx.TensorProto.FromString(bytes(tensor.content))
    if content is not None:
        proto.raw_data = bytes(content)
        proto.data_location = onnx.TensorProto.DEFAULT
    return np.asarray(numpy_helper.to_array(proto))
