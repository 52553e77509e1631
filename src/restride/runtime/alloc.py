"""Buffers: ranges of bytes, with their owner, of checked length."""

from __future__ import annotations

import ctypes
import enum
import operator
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_bool
from ..dtypes import DataType
from ..errors import Error, refuse
from ..foreign import has_attribute, is_masked

_ADDRESSES = 2**63
_BYTES = (np.dtype(np.uint8), np.dtype(np.int8), np.dtype("S1"), np.dtype("V1"))

NumpyType = np.dtype[Any]
Array = np.ndarray[Any, NumpyType]


class _Sentinel(enum.Enum):
    NO_DATA = "no buffer yet"

    def __repr__(self) -> str:
        return f"restride.{self.name}"


NO_DATA: Final = _Sentinel.NO_DATA
""""No buffer yet", as the data of a memory (`DNNL_MEMORY_NONE`)."""


class Buffer(NamedTuple):
    """`nbytes` bytes from `address` on; they stay valid while `owner` lives."""

    address: int
    nbytes: int
    readonly: bool
    owner: object

    def bytes(self) -> Array:
        """All bytes as a flat u8 array, without a copy; it keeps the owner alive."""
        return np.asarray(_Exporter(self)) if self.nbytes else np.empty(0, np.uint8)

    def behind(self, nbytes: int) -> Buffer:
        """Return the same memory from `nbytes` bytes after its start on."""
        return Buffer(self.address + nbytes, max(self.nbytes - nbytes, 0), self.readonly, self.owner)

    def view(self, dtype: NumpyType, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Array:
        """Return the bytes as an array of `shape` without a copy; `strides` and `offset` count elements of
        `dtype`.

        NumPy refuses (ValueError) any view that would leave the buffer.
        """
        if 0 in shape:
            return np.empty(tuple(shape), dtype)
        steps = tuple(stride * dtype.itemsize for stride in strides)
        return np.ndarray(tuple(shape), dtype, self.bytes(), offset * dtype.itemsize, steps)


NOTHING = Buffer(0, 0, False, None)
"""No bytes, for tensors without elements."""


class _Exporter:
    """Exports a buffer to NumPy, which keeps this object, and thus the owner, as the array's base."""

    __slots__ = ("__array_interface__", "_owner")

    def __init__(self, buffer: Buffer) -> None:
        self._owner = buffer.owner
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (buffer.nbytes,),
            "data": (buffer.address, buffer.readonly),
        }


class Extent(NamedTuple):
    """In bytes from a buffer's start: lowest and one past the highest touched; the length to allocate."""

    low: int
    high: int
    needed: int


@lru_cache(maxsize=1024)
def extent(md: MemoryDesc) -> Extent:
    """Return the bytes that `md` touches, as Python integers; trailing gaps are allocated, not touched."""
    if not md.nelems:
        return Extent(0, 0, 0)
    low, high = md.extent_range()
    first, last = md.data_type.bits * low // 8, md.data_type.nbytes(high)
    return Extent(first, last, max(last, md.data_type.nbytes(low) + md.size))


def _interface_address(array: Array) -> int:
    return array.__array_interface__["data"][0]  # type: ignore[no-any-return]


def _read_address(array: Array) -> int:
    return _word(id(array) + _DATA_AT).value


def _is_as_expected() -> bool:
    """True if an array's object is Python's header followed by the address of its data (NumPy's C API)."""
    if sys.implementation.name != "cpython":
        return False
    probe = np.zeros(8, np.uint8)
    return all(_read_address(part) == _interface_address(part) for part in (probe, probe[3:], probe[::-1]))


_word = ctypes.c_size_t.from_address
_DATA_AT = object.__basicsize__

# NumPy's own interface builds a dict of six entries, which takes five times as long.
address_of: Callable[[Array], int] = _read_address if _is_as_expected() else _interface_address
"""Return the address of an array's first element."""


def at_pointer(address: object, nbytes: object, owner: object, readonly: bool) -> Buffer:
    """Return a buffer at a bare address. Nothing can check it: the caller guarantees all `nbytes` bytes."""
    start, length = _integer(address, "address"), _integer(nbytes, "nbytes")
    if start + length > _ADDRESSES or (length and not start):
        raise refuse("RS-M37:no-buffer-can", length=length, start=start)
    return Buffer(start, length, parse_bool("Memory.from_pointer: readonly", readonly), owner)


def _integer(value: object, name: str) -> int:
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        # A plain int, even if a subclass overrides comparisons.
        number = operator.index(value)
        if 0 <= number < _ADDRESSES:
            return number
    raise refuse("RS-M37:not-number-bytes", name=name, type=type(value).__name__)


def wrap(data: object, data_type: DataType) -> Buffer:
    """Return the bytes of an array, or of any object with the buffer protocol, without a copy; read-only
    stays so.

    An array's elements must be dense, and of `data_type`, of an unsigned type of that width, or bytes (4-bit
    types: two per byte, the first in the low half). Raises InvalidArguments that says what to pass instead.
    """
    array = data if isinstance(data, np.ndarray) else _exported(data)
    _check_elements(array, data_type)
    _check_dense(array)
    return Buffer(address_of(array), array.nbytes, not array.flags.writeable, array)


def _exported(data: Any) -> Array:
    """Return `data` as an array. It holds the export, so that the owner cannot be resized meanwhile."""
    try:
        return np.asarray(memoryview(data))
    except Exception as error:  # a foreign __buffer__ can raise anything
        raise _no_buffer(data) from error


def _no_buffer(data: object) -> Error:
    none = "rs.onednn.NO_DATA for no buffer yet"
    hint = f"pass an array, bytes, bytearray, memoryview, mmap or array.array; or {none}"
    if isinstance(data, int):
        hint = "a bare address needs a length: rs.Memory.from_pointer(address, nbytes, md, engine)"
    elif data is None or has_attribute(data, "__dlpack__"):
        hint = f"pass an array, rs.Memory.from_dlpack(x) for another library's, or {none}"
    return refuse("RS-M37:data-no-buffer", type=type(data).__name__, hint=hint)


def _check_elements(array: Array, data_type: DataType) -> None:
    dtype = array.dtype
    unsigned = dtype.kind == "u" and dtype.isnative and dtype.itemsize * 8 == data_type.bits
    if dtype in _BYTES or unsigned or (dtype == data_type.numpy and data_type.bits >= 8):
        return
    twin = "uint8" if data_type.bits < 8 else str(data_type.numpy)
    raise refuse("RS-M37:data-another-type", data_type=data_type, found=str(dtype)[:60], twin=twin)


def _check_dense(array: Array) -> None:
    if is_masked(array):
        raise refuse("RS-M37:masked-array-no")
    if array.flags.c_contiguous or array.flags.f_contiguous or _fills_its_span(array):
        return
    raise refuse("RS-M37:array-not-stretch", array=array)


def _fills_its_span(array: Array) -> bool:
    """True if an array's elements, in some order, fill the bytes from its pointer on."""
    steps = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
    return min(steps) >= 0 and bool(array.nbytes == sum(steps) + array.itemsize)
