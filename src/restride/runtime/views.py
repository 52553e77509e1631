"""The bytes of a memory as NumPy arrays: in physical and in logical order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..desc.layout import axis_offset, layout_digits
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import refuse
from .alloc import Array, Buffer, NumpyType, address_of


def flat(md: MemoryDesc, buffer: Buffer) -> Array:
    """Return all whole elements of the buffer in one axis, without a copy; 4-bit types two per byte."""
    twin = md.data_type.numpy
    if twin is None or md.data_type.bits < 8:
        return buffer.bytes()
    return buffer.view(twin, (buffer.nbytes // twin.itemsize,), (1,))


def physical(md: MemoryDesc, buffer: Buffer) -> Array:
    """Return the storage as an array of `md.physical_shape`, without a copy: outer, then inner blocks."""
    shape, strides = md.physical_shape, md.physical_strides
    twin = element_type(md)
    if _reach(shape, strides, md.offset0) > buffer.nbytes // twin.itemsize:
        raise refuse("RS-M21:last-block-cut", md=md, nbytes=buffer.nbytes)
    return buffer.view(twin, shape, strides, md.offset0)


def strided(md: MemoryDesc, buffer: Buffer) -> Array:
    """Return a plain layout as an array of the logical dims, without a copy."""
    return buffer.view(element_type(md), md.dims, md.strides, md.offset0)


def logical(md: MemoryDesc, buffer: Buffer) -> Array:
    """Return a copy in logical, row-major order, without padding."""
    if md.format_kind == "opaque":
        raise refuse("RS-M15:opaque", what="Memory.to_numpy")
    if md.data_type.bits < 8:
        return _logical_nibbles(md, buffer)
    twin = element_type(md)
    digits = sorted(layout_digits(md.layout), key=lambda level: (level.axis, -level.weight))
    shape, strides = [level.extent for level in digits], [level.stride for level in digits]
    if _reach(shape, strides, md.offset0) > buffer.nbytes // twin.itemsize:
        return _gathered(md, buffer)
    whole = [blocks * blk for blocks, blk in zip(md.layout.outer_extents, md.layout.blocks, strict=True)]
    copied = np.empty(whole, twin)
    copied.reshape(shape)[...] = buffer.view(twin, shape, strides, md.offset0)
    return np.ascontiguousarray(copied[tuple(slice(n) for n in md.dims)])


def _logical_nibbles(md: MemoryDesc, buffer: Buffer) -> Array:
    """Return a logical copy of packed elements, one to a byte as in NumPy; the low half is first."""
    packed = buffer.bytes()
    twin = md.data_type.numpy
    if twin is None:
        raise refuse("RS-A16:elements-numpy-array", md=md)
    spread = unpacked_nibbles(packed)
    whole = Buffer(address_of(spread), spread.nbytes, True, spread)
    as_bytes = md.as_type(DataType.u8)
    nibbles = logical(as_bytes, whole)
    return of_nibbles(nibbles, md.data_type)


def unpacked_nibbles(packed: Array) -> Array:
    """Unpack elements of 4 bits, one to a byte; the low half is first."""
    return np.stack([packed & 15, packed >> 4], axis=-1).reshape(-1)


def packed_nibbles(x: Array) -> Array:
    """Pack elements of 4 bits, which NumPy keeps one to a byte, two per byte."""
    nibbles = np.zeros(x.size + x.size % 2, np.uint8)
    nibbles[: x.size] = x.reshape(-1).view(np.uint8) & 15
    return nibbles[::2] | nibbles[1::2] << 4


def of_nibbles(nibbles: Array, data_type: DataType) -> Array:
    """Return bytes with 4 bits each as elements of a 4-bit type."""
    if data_type.numpy is None or not data_type.is_integral:
        return nibbles if data_type.numpy is None else nibbles.view(data_type.numpy)
    signed = (nibbles ^ np.uint8(8)).view(np.int8) - np.int8(8) if data_type is DataType.s4 else nibbles
    return signed.astype(data_type.numpy)


def element_type(md: MemoryDesc) -> NumpyType:
    """Return the NumPy type of the elements. Raises Unimplemented for types that share a byte."""
    twin = md.data_type.numpy
    if twin is None or md.data_type.bits < 8:
        raise refuse("RS-A16:elements-numpy-array", md=md)
    return twin


def _reach(shape: Sequence[int], strides: Sequence[int], offset0: int) -> int:
    """Return one past the highest element offset of such an array; 0 for an empty one."""
    if 0 in shape:
        return 0
    return offset0 + sum(max(0, (n - 1) * stride) for n, stride in zip(shape, strides, strict=True)) + 1


def _gathered(md: MemoryDesc, buffer: Buffer) -> Array:
    """Return a logical copy element by element: for a submemory and a buffer that end inside a block."""
    offsets = np.full((1,) * md.ndims, md.offset0)
    for axis, n in enumerate(md.dims):
        along = [axis_offset(md.layout, axis, i) for i in range(n)]
        offsets = offsets + np.array(along).reshape([n if d == axis else 1 for d in range(md.ndims)])
    return flat(md, buffer).take(offsets)
