"""Quantisation with the rounding that ggml's own code has, to the bit: what llama.cpp would have written.

`rs.quantize` rounds to nearest even, and takes the largest magnitude for a scale. ggml has its own ways: the
element of largest magnitude takes the end of the range, with its sign; halves are rounded upwards, or away
from zero.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..desc.parse import short_repr
from ..errors import refuse
from ..runtime.alloc import Array
from .reporting import reported
from .tensor_format import array_of

__all__ = ["quantize_blocks"]

# Blocks of 32 elements that are quantised at a time: what lies between stays in the caches.
_BLOCKS = 8192
_GROUP = 32


class _BlockFormat(NamedTuple):
    """Bytes of a block, and what makes them of its elements."""

    nbytes: int
    pack: Callable[[Array], list[Array]]


def quantize_blocks(x: object, name: str) -> Array:
    """Blocks of bytes as ggml's own code makes them of `x`: an array of u8, (..., bytes of a row).

    x     an array of f32, f16 or bf16; rows are whole blocks of 32 elements
    name  "q4_0", "q4_1", "q5_0", "q5_1" or "q8_0"

    The bytes go into `rs.formats.gguf.q4_0(shape).wrap(...)` and the like, or into `unpack`. Raises
    InvalidArguments for another name, and for arrays of other types and rows.
    """
    found = _FORMATS.get(name.lower()) if isinstance(name, str) else None
    if found is None:
        raise refuse("RS-A15:no-rounding", name=short_repr(name), formats=", ".join(_FORMATS))
    array = array_of(x, "formats.quantize_blocks: x")
    if not array.ndim or array.dtype.name not in ("float32", "float16", "bfloat16"):
        raise refuse("RS-A15:x-no-array")
    if array.shape[-1] % _GROUP:
        raise refuse("RS-A15:x-other-rows", shape=array.shape, group=_GROUP)
    blocks = array.reshape(-1, _GROUP)
    made = np.empty((len(blocks), found.nbytes), np.uint8)
    with reported("quantize_blocks", name.lower(), array.shape), np.errstate(all="ignore"):
        for at in range(0, len(blocks), _BLOCKS):
            part = slice(at, at + _BLOCKS)
            np.concatenate(found.pack(blocks[part].astype(np.float32)), 1, out=made[part])
    return made.reshape(*array.shape[:-1], array.shape[-1] // _GROUP * found.nbytes)


def _inverse(d: Array) -> Array:
    """The reciprocal of a scale, 0 of 0."""
    return np.asarray(np.where(d == 0, np.float32(0), np.float32(1) / d))


def _half(d: Array) -> Array:
    """A number in f16, as two bytes. Every NaN is the same: processors differ in what they keep of one."""
    d = np.where(np.isnan(d), np.float32(np.nan), d)
    return np.ascontiguousarray(d.astype(np.float16)).view(np.uint8)


def _whole(codes: Array, dtype: type[np.integer[Any]]) -> Array:
    """Floats as integers; 0 of what is no number, which processors convert to this or that."""
    return np.where(np.isfinite(codes), codes, np.float32(0)).astype(dtype)


def _halves(q: Array) -> Array:
    """Elements i and i + 16 in a byte."""
    return np.asarray((q[:, :16] & 15) | (q[:, 16:] & 15) << np.uint8(4))


def _fifth_bits(q: Array) -> Array:
    return np.packbits(q >> np.uint8(4), axis=1, bitorder="little")


def _signed(x: Array, bits: int) -> tuple[Array, Array]:
    """Scale and codes where the element of largest magnitude becomes the least code."""
    middle = 1 << bits - 1
    largest = np.take_along_axis(x, np.abs(x).argmax(1, keepdims=True), 1)
    d = largest / np.float32(-middle)
    codes = np.trunc(x * _inverse(d) + np.float32(middle + 0.5))
    return d, _whole(codes, np.uint8).clip(0, 2 * middle - 1)


def _ranged(x: Array, bits: int) -> tuple[Array, Array, Array]:
    """Scale, minimum and codes from the least element to the largest."""
    least, most = x.min(1, keepdims=True), (1 << bits) - 1
    d = (x.max(1, keepdims=True) - least) / np.float32(most)
    codes = np.trunc((x - least) * _inverse(d) + np.float32(0.5))
    return d, least, _whole(codes, np.uint8).clip(0, most)


def _q4_0(x: Array) -> list[Array]:
    d, q = _signed(x, 4)
    return [_half(d), _halves(q)]


def _q4_1(x: Array) -> list[Array]:
    d, least, q = _ranged(x, 4)
    return [_half(d), _half(least), _halves(q)]


def _q5_0(x: Array) -> list[Array]:
    d, q = _signed(x, 5)
    return [_half(d), _fifth_bits(q), _halves(q)]


def _q5_1(x: Array) -> list[Array]:
    d, least, q = _ranged(x, 5)
    return [_half(d), _half(least), _fifth_bits(q), _halves(q)]


def _q8_0(x: Array) -> list[Array]:
    d = np.abs(x).max(1, keepdims=True) / np.float32(127)
    scaled = x * _inverse(d)
    # Halves go away from zero.
    magnitude = np.abs(scaled)
    whole = np.floor(magnitude)
    rounded = np.copysign(whole + np.floor(2 * (magnitude - whole)), scaled)
    return [_half(d), _whole(rounded, np.int8).view(np.uint8)]


_FORMATS = {
    "q4_0": _BlockFormat(18, _q4_0),
    "q4_1": _BlockFormat(20, _q4_1),
    "q5_0": _BlockFormat(22, _q5_0),
    "q5_1": _BlockFormat(24, _q5_1),
    "q8_0": _BlockFormat(34, _q8_0),
}
