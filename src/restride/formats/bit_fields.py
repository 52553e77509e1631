"""Formats whose elements are spread over bits: unpacked into a tensor of bytes, with the scales that it has.

Elements of Q5_0, Q5_1 and the K quants of ggml lie in two or three places each, and their scales in 6 bits or
less: neither is where a descriptor could say. NF4 of bitsandbytes has codes that stand for the numbers of a
table. `unpack` reads them in their order, bit by bit, with NumPy; what comes out is dequantised by a kernel,
like any other tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from ..arrays.scaling.quantized_tensor import QuantizedTensor
from ..desc.parse import parse_dims, parse_int, short_repr
from ..errors import refuse
from ..runtime.alloc import Array
from ..runtime.memory import Memory
from . import gguf
from .reporting import reported
from .tensor_format import array_of, misfit_of_bytes

__all__ = ["NF4", "unpack", "unpack_nf4"]

Shape = Sequence[int]

# Blocks that are unpacked at a time: what lies between stays in the caches.
_BLOCKS = 4096

NF4 = np.array(
    [
        *(-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453),
        *(-0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0),
        *(0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224),
        *(0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0),
    ],
    np.float32,
)
"""What the 16 codes of NF4 stand for: QLoRA's quantiles of the normal distribution."""


class _UnpackedBlocks(NamedTuple):
    """Elements of some blocks, and for each group of them a scale, and what is added in the end."""

    values: Array
    scale: Array
    minimum: Array | None = None


class _BitFormat(NamedTuple):
    """Elements and bytes of a block, how many elements share a scale, and how blocks are unpacked."""

    block: int
    nbytes: int
    group: int
    unpacked: Callable[[Array], _UnpackedBlocks]


def unpack(name: str, buffer: object, shape: Shape) -> QuantizedTensor:
    """A tensor of ggml's blocks with elements in bytes, scales in f32, and minima where the format has them.

    name    "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k" or "q6_k"
    buffer  the bytes: a contiguous array of any type
    shape   of the tensor; rows are whole blocks of 32, or of 256 for the K quants

    `rs.dequantize` of it gives the very numbers that ggml's own code gives. Raises InvalidArguments for
    another name, rows that are no whole blocks, and buffers of another length.
    """
    found = _FORMATS.get(name.lower()) if isinstance(name, str) else None
    if found is None:
        is_layout = isinstance(name, str) and name.lower() in gguf.__all__
        hint = f"rs.formats.gguf.{name.lower()}(shape).wrap(buffer) reads it" if is_layout else ""
        hint = hint or f"use one of {', '.join(_FORMATS)}"
        raise refuse("RS-A15:no-such-format", name=short_repr(name), hint=hint)
    dims = parse_dims(shape)
    if not dims or dims[-1] % found.block:
        raise refuse("RS-A15:rows-no-whole", name=name, dims=dims, block=found.block)
    count = prod(dims) // found.block
    blocks = _bytes_of(name, buffer, count * found.nbytes).reshape(count, found.nbytes)
    groups = found.block // found.group
    first = found.unpacked(blocks[:0])
    values = np.empty((count, found.block), first.values.dtype)
    scale = np.empty((count, groups), np.float32)
    minimum = None if first.minimum is None else np.empty((count, groups), np.float32)
    with reported("unpack", name.lower(), dims):
        for at in range(0, count, _BLOCKS):
            part = slice(at, at + _BLOCKS)
            made = found.unpacked(blocks[part])
            values[part], scale[part] = made.values, made.scale
            if minimum is not None:
                minimum[part] = made.minimum
    counts = (*dims[:-1], dims[-1] // found.group)
    return QuantizedTensor(
        Memory.from_numpy(values.reshape(dims)),
        Memory.from_numpy(scale.reshape(counts)),
        minimum=None if minimum is None else Memory.from_numpy(minimum.reshape(counts)),
    )


def unpack_nf4(buffer: object, absmax: object, shape: Shape, block: int = 64) -> QuantizedTensor:
    """A tensor of bitsandbytes' NF4: two codes to a byte, the first in the high half, an f32 for `block` of
    them.

    Elements are the numbers of `NF4`, in f32. `absmax` is that of each block, dequantised where it was
    quantised itself. Raises InvalidArguments where rows are no whole blocks, and for other lengths.
    """
    dims, group = parse_dims(shape), parse_int(block, "formats.unpack_nf4: block")
    if not dims or group < 2 or dims[-1] % group:
        raise refuse("RS-A15:rows-no-whole-blocks", dims=dims, group=group)
    count = prod(dims)
    packed = _bytes_of("nf4", buffer, count // 2)
    values = np.empty((count // 2, 2), np.float32)
    with reported("unpack", "nf4", dims):
        np.take(NF4, packed >> 4, out=values[:, 0])
        np.take(NF4, packed & 15, out=values[:, 1])
    scale = _numbers("nf4", absmax)
    if scale.size != count // group:
        raise refuse("RS-A15:scales-blocks", size=scale.size, count=count // group)
    counts = (*dims[:-1], dims[-1] // group)
    return QuantizedTensor(Memory.from_numpy(values.reshape(dims)), Memory.from_numpy(scale.reshape(counts)))


def _numbers(name: str, absmax: object) -> Array:
    """Scales as f32, in a row."""
    try:
        return np.ascontiguousarray(absmax, np.float32).reshape(-1)
    except Exception:  # NumPy makes no array of it
        raise refuse("RS-A15:absmax", name=name, absmax=short_repr(absmax)) from None


def _bytes_of(name: str, buffer: object, needed: int) -> Array:
    array: Array = array_of(buffer, f"formats: the buffer of {name}")
    why = misfit_of_bytes(array, needed)
    if why:
        raise refuse("RS-A15:buffer-not", name=name, why=why, needed=needed)
    return array.reshape(-1).view(np.uint8)


# --- fields ----------------------------------------------------------------------------------------------


def _floats(raw: Array) -> Array:
    """Columns of two bytes each as f16, in f32."""
    return np.ascontiguousarray(raw).view(np.float16).astype(np.float32)


def _fields(raw: Array, bits: int, run: int) -> Array:
    """Fields of so many bits: of each `run` bytes first the lowest of all, then those above, and so on."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)[:, None]
    rows, columns = raw.shape
    runs = raw.reshape(rows, columns // run, 1, run)
    found: Array = (runs >> shifts & np.uint8((1 << bits) - 1)).reshape(rows, columns * 8 // bits)
    return found


def _fifth_bits(raw: Array) -> Array:
    """32 bits of 4 bytes, in order, as the fifth bits of elements."""
    found: Array = np.unpackbits(raw, axis=1, bitorder="little") << np.uint8(4)
    return found


def _q5_0(raw: Array) -> _UnpackedBlocks:
    q = _fields(raw[:, 6:], 4, 16) | _fifth_bits(raw[:, 2:6])
    return _UnpackedBlocks(q.view(np.int8) - np.int8(16), _floats(raw[:, :2]))


def _q5_1(raw: Array) -> _UnpackedBlocks:
    q = _fields(raw[:, 8:], 4, 16) | _fifth_bits(raw[:, 4:8])
    return _UnpackedBlocks(q, _floats(raw[:, :2]), _floats(raw[:, 2:4]))


def _q2_k(raw: Array) -> _UnpackedBlocks:
    scales = raw[:, :16]
    d, m = _floats(raw[:, 80:82]), _floats(raw[:, 82:84])
    q = _fields(raw[:, 16:80], 2, 32)
    return _UnpackedBlocks(q, d * (scales & 15), -(m * (scales >> 4)))


def _q3_k(raw: Array) -> _UnpackedBlocks:
    # A bit that is not set takes 4 off.
    high = _fields(raw[:, :32], 1, 32) << np.uint8(2)
    q = (_fields(raw[:, 32:96], 2, 32) | high).view(np.int8) - np.int8(4)
    scales = _fields(raw[:, 96:104], 4, 8) | _fields(raw[:, 104:108], 2, 4) << np.uint8(4)
    return _UnpackedBlocks(q, _floats(raw[:, 108:110]) * (scales.view(np.int8) - np.int8(32)))


def _six_bits(raw: Array) -> tuple[Array, Array]:
    """8 scales and 8 minima of 6 bits in 12 bytes: four of each whole, of the others the low halves together
    and the two high bits above the first.
    """
    first, second, halves = raw[:, 0:4], raw[:, 4:8], raw[:, 8:12]
    scales = np.concatenate([first & 63, halves & 15 | first >> 6 << 4], 1)
    minima = np.concatenate([second & 63, halves >> 4 | second >> 6 << 4], 1)
    return scales, minima


def _scaled_by_six_bits(raw: Array, values: Array) -> _UnpackedBlocks:
    scales, minima = _six_bits(raw[:, 4:16])
    return _UnpackedBlocks(values, _floats(raw[:, :2]) * scales, -(_floats(raw[:, 2:4]) * minima))


def _q4_k(raw: Array) -> _UnpackedBlocks:
    return _scaled_by_six_bits(raw, _fields(raw[:, 16:], 4, 32))


def _q5_k(raw: Array) -> _UnpackedBlocks:
    high = _fields(raw[:, 16:48], 1, 32) << np.uint8(4)
    return _scaled_by_six_bits(raw, _fields(raw[:, 48:], 4, 32) | high)


def _q6_k(raw: Array) -> _UnpackedBlocks:
    q = _fields(raw[:, :128], 4, 64) | _fields(raw[:, 128:192], 2, 32) << np.uint8(4)
    return _UnpackedBlocks(
        q.view(np.int8) - np.int8(32), _floats(raw[:, 208:210]) * raw[:, 192:208].view(np.int8)
    )


_FORMATS = {
    "q5_0": _BitFormat(32, 22, 32, _q5_0),
    "q5_1": _BitFormat(32, 24, 32, _q5_1),
    "q2_k": _BitFormat(256, 84, 16, _q2_k),
    "q3_k": _BitFormat(256, 110, 16, _q3_k),
    "q4_k": _BitFormat(256, 144, 32, _q4_k),
    "q5_k": _BitFormat(256, 176, 32, _q5_k),
    "q6_k": _BitFormat(256, 210, 16, _q6_k),
}
