"""ggml blocks unpacked into elements, scales and minima, and packed with ggml's own rounding; NF4.

bitsandbytes' NF4 has codes that represent numbers of a table: `unpack_nf4` puts them in the order of other
4-bit types.

`quantize_blocks` produces the same bits as llama.cpp. `rs.quantize` rounds to nearest even and scales by the
largest magnitude. ggml differs: the element of largest magnitude is mapped to the end of the range, with its
sign; halves are rounded up, or away from zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..arrays.scaling.block_packing import quantize_in_blocks
from ..arrays.scaling.block_scales import quantize_in_groups
from ..arrays.scaling.group import NAMED
from ..arrays.scaling.packed_tensor import PackedTensor
from ..arrays.scaling.quantized_tensor import QuantizedTensor
from ..desc.ggml_blocks import GGML_BLOCKS
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_dims, parse_int, short_repr
from ..dtypes import DataType
from ..errors import refuse
from ..ir.conversion import CODE_VALUES
from ..runtime.alloc import Array
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..verbose import Line
from ..watching import Watch
from . import gguf
from .tensor_format import array_of, misfit_of_bytes

__all__ = ["NF4", "quantize_blocks", "unpack", "unpack_nf4"]

Shape = Sequence[int]

# Blocks processed at a time, so that intermediate results stay in the caches.
_BLOCKS = 4096
_GROUP = 32

NF4 = np.array(CODE_VALUES[DataType.nf4], np.float32)
"""The values of NF4's 16 codes: QLoRA's quantiles of the normal distribution."""


@contextmanager
def _reported(primitive: str, name: str, dims: Sequence[int]) -> Iterator[None]:
    """Write a verbose line with the time of the block, for the implementation `numpy`."""
    text = "x".join(map(str, dims))
    line = Line("exec", "cpu", primitive, "numpy", auxiliary=name, problem_desc=text)
    with Watch("execution", line):
        yield


# --- unpacking -------------------------------------------------------------------------------------------


def unpack(name: str, buffer: object, shape: Shape) -> QuantizedTensor:
    """Return a tensor of ggml blocks with elements in bytes, scales in f32, and minima if the format has
    them.

    name    "iq4_nl", "q2_k", "q3_k", "q4_k", "q5_0", "q5_1", "q5_k", "q6_k" or "q8_k"
    buffer  the bytes: a contiguous array of any type
    shape   of the tensor; rows are multiples of 32, or of 256 for the K quants

    `rs.dequantize` of it returns exactly the numbers of ggml's own code. Raises InvalidArguments for another
    name, rows that are not whole blocks, and buffers of another length.
    """
    word = name.lower() if isinstance(name, str) else ""
    blocks = GGML_BLOCKS.get(word)
    if blocks is None:
        hint = f"rs.formats.gguf.{word}(shape).wrap(buffer) reads it" if word in gguf.__all__ else ""
        raise refuse(
            "RS-A15:no-such-format",
            name=short_repr(name),
            hint=hint or f"use one of {', '.join(GGML_BLOCKS)}",
        )
    dims = parse_dims(shape)
    if not dims or dims[-1] % blocks.elements:
        raise refuse("RS-A15:rows-no-whole", name=name, dims=dims, block=blocks.elements)
    data = _bytes_of(word, buffer, prod(dims) // blocks.elements * blocks.nbytes)
    return PackedTensor(blocks, dims, Memory.from_numpy(data)).unpack()


def unpack_nf4(buffer: object, absmax: object, shape: Shape, block: int = 64) -> QuantizedTensor:
    """Return a tensor of bitsandbytes' NF4: two codes to a byte, the first in the high half, and an f32 for
    `block` codes.

    Elements have the data type nf4. `absmax` is that of each block, dequantized if it was itself quantized.
    Raises InvalidArguments for rows that are not whole blocks, and for other lengths.
    """
    dims, group = parse_dims(shape), parse_int(block, "formats.unpack_nf4: block")
    if not dims or group < 2 or group % 2 or dims[-1] % group:
        raise refuse("RS-A15:rows-no-whole-blocks", dims=dims, group=group)
    count = prod(dims)
    packed = _bytes_of("nf4", buffer, count // 2)
    with _reported("unpack", "nf4", dims):
        codes = packed >> 4 | packed << 4
    try:
        scale = np.ascontiguousarray(absmax, np.float32).reshape(-1)
    except Exception:  # NumPy cannot convert it
        raise refuse("RS-A15:absmax", name="nf4", absmax=short_repr(absmax)) from None
    if scale.size != count // group:
        raise refuse("RS-A15:scales-blocks", size=scale.size, count=count // group)
    counts = (*dims[:-1], dims[-1] // group)
    values = Memory(MemoryDesc(dims, DataType.nf4), Engine("cpu"), codes)
    return QuantizedTensor(values, Memory.from_numpy(scale.reshape(counts)))


def _bytes_of(name: str, buffer: object, nbytes: int) -> Array:
    array: Array = array_of(buffer, f"formats: the buffer of {name}")
    why = misfit_of_bytes(array, nbytes)
    if why:
        raise refuse("RS-A15:buffer-not", name=name, why=why, needed=nbytes)
    return array.reshape(-1).view(np.uint8)


# --- packing ---------------------------------------------------------------------------------------------


class _Rounding(NamedTuple):
    """The size of a block in bytes, and the function that creates blocks from elements."""

    nbytes: int
    pack: Callable[[Array], list[Array]]


def quantize_blocks(x: object, name: str) -> Array:
    """Return the blocks that ggml's own code creates from `x`: an array of u8, (..., bytes of a row).

    x     an array of f32, f16 or bf16; rows are multiples of 32 elements
    name  "q4_0", "q4_1", "q5_0", "q5_1" or "q8_0"

    Pass the bytes to `rs.formats.gguf.q4_0(shape).wrap(...)` and so on, or to `unpack`. Raises
    InvalidArguments for another name, and for arrays of other types and rows.
    """
    rounding = _ROUNDINGS.get(name.lower()) if isinstance(name, str) else None
    if rounding is None:
        raise refuse("RS-A15:no-rounding", name=short_repr(name), formats=", ".join(_ROUNDINGS))
    array = array_of(x, "formats.quantize_blocks: x")
    if not array.ndim or array.dtype.name not in ("float32", "float16", "bfloat16"):
        raise refuse("RS-A15:x-no-array")
    if array.shape[-1] % _GROUP:
        raise refuse("RS-A15:x-other-rows", shape=array.shape, group=_GROUP)
    blocks = array.reshape(-1, _GROUP)
    packed = np.empty((len(blocks), rounding.nbytes), np.uint8)
    with _reported("quantize_blocks", name.lower(), array.shape), np.errstate(all="ignore"):
        for at in range(0, len(blocks), _BLOCKS):
            part = slice(at, at + _BLOCKS)
            np.concatenate(rounding.pack(blocks[part].astype(np.float32)), 1, out=packed[part])
    return packed.reshape(*array.shape[:-1], array.shape[-1] // _GROUP * rounding.nbytes)


def blocks_of(x: Memory, name: str) -> Array:
    """Return the bytes of blocks of any type that is a format, created from real numbers as `rs.quantize`
    does, or as `quantize_blocks` for types that it does not support.
    """
    if blocks := GGML_BLOCKS.get(name):
        packed: Array = np.asarray(quantize_in_blocks(x, blocks).packed)
        return packed
    if name in _ROUNDINGS:
        return quantize_blocks(x.to(MemoryDesc(x.desc.dims, DataType.f32)).to_numpy(), name).reshape(-1)
    plain = x.to(MemoryDesc(x.desc.dims, x.desc.data_type))
    tensor = quantize_in_groups(plain, NAMED[name])
    return bytes_of_blocks(gguf.BLOCK_FORMATS[name.upper()](x.desc.dims).pack(tensor))


def bytes_of_blocks(tensor: QuantizedTensor) -> Array:
    """Return the single buffer of a tensor whose elements and scales are in blocks."""
    data = tensor.values.data
    return np.empty(0, np.uint8) if data is None else np.asarray(data.view(np.uint8))


def _inverse(d: Array) -> Array:
    """Return the reciprocal of a scale, or 0 for 0."""
    return np.asarray(np.where(d == 0, np.float32(0), np.float32(1) / d))


def _half(d: Array) -> Array:
    """Return a number in f16, as two bytes. All NaNs are made identical: processors differ in them."""
    d = np.where(np.isnan(d), np.float32(np.nan), d)
    return np.ascontiguousarray(d.astype(np.float16)).view(np.uint8)


def _whole(codes: Array, dtype: type[np.integer[Any]]) -> Array:
    """Return floats as integers; 0 for NaN, whose conversion depends on the processor."""
    return np.where(np.isfinite(codes), codes, np.float32(0)).astype(dtype)


def _codes(q: Array, bits: int) -> list[Array]:
    """Return the fifth bits, if any, and elements i and i + 16 in a byte."""
    fifth = [np.packbits(q >> np.uint8(4), axis=1, bitorder="little")] if bits > 4 else []
    return [*fifth, np.asarray((q[:, :16] & 15) | (q[:, 16:] & 15) << np.uint8(4))]


def _pack_signed(bits: int, x: Array) -> list[Array]:
    """Return scale and codes, with the element of largest magnitude mapped to the lowest code."""
    middle = 1 << bits - 1
    largest = np.take_along_axis(x, np.abs(x).argmax(1, keepdims=True), 1)
    d = largest / np.float32(-middle)
    codes = np.trunc(x * _inverse(d) + np.float32(middle + 0.5))
    return [_half(d), *_codes(_whole(codes, np.uint8).clip(0, 2 * middle - 1), bits)]


def _pack_ranged(bits: int, x: Array) -> list[Array]:
    """Return scale, minimum and codes, from the smallest element to the largest."""
    least, most = x.min(1, keepdims=True), (1 << bits) - 1
    d = (x.max(1, keepdims=True) - least) / np.float32(most)
    codes = np.trunc((x - least) * _inverse(d) + np.float32(0.5))
    return [_half(d), _half(least), *_codes(_whole(codes, np.uint8).clip(0, most), bits)]


def _pack_q8_0(x: Array) -> list[Array]:
    d = np.abs(x).max(1, keepdims=True) / np.float32(127)
    scaled = x * _inverse(d)
    # Halves are rounded away from zero.
    magnitude = np.abs(scaled)
    whole = np.floor(magnitude)
    rounded = np.copysign(whole + np.floor(2 * (magnitude - whole)), scaled)
    return [_half(d), _whole(rounded, np.int8).view(np.uint8)]


_ROUNDINGS = {
    "q4_0": _Rounding(18, partial(_pack_signed, 4)),
    "q4_1": _Rounding(20, partial(_pack_ranged, 4)),
    "q5_0": _Rounding(22, partial(_pack_signed, 5)),
    "q5_1": _Rounding(24, partial(_pack_ranged, 5)),
    "q8_0": _Rounding(34, _pack_q8_0),
}
