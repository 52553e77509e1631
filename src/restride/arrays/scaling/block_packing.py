"""Packs real numbers into blocks of bit fields: scales from the range of each group, values rounded to
nearest.

If elements have minima, a group's range is from its smallest number to its largest; otherwise the number of
largest magnitude is mapped, with its sign, to the end of the range that is farther from 0. Integer scales are
the group scales divided by one factor for the block, rounded; values are computed with the rounded scales.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...desc.packed_blocks import BitNumbers, PackedBlocks
from ...dtypes import DataType
from ...errors import refuse
from ...runtime.alloc import Array
from ...runtime.memory import Memory
from .packed_tensor import PackedTensor

# Blocks processed at a time, so that intermediate results stay in the caches.
_TOGETHER = 1024


def quantize_in_blocks(x: Memory, blocks: PackedBlocks) -> PackedTensor:
    """Quantize floats to blocks. Raises InvalidArguments for rows that are not a whole number of blocks."""
    dims = x.desc.dims
    if dims[-1] % blocks.elements:
        raise refuse("RS-A15:last-dim", name=blocks.name, dims=dims[-1], dims2=dims, group=blocks.elements)
    count = prod(dims) // blocks.elements
    packed = np.zeros((count, blocks.nbytes), np.uint8)
    if count:
        rows = x.to(MemoryDesc(dims, DataType.f32)).to_numpy().reshape(count, blocks.elements)
        with np.errstate(all="ignore"):
            for at in range(0, count, _TOGETHER):
                _pack(rows[at : at + _TOGETHER], blocks, packed[at : at + _TOGETHER])
    return PackedTensor(blocks, dims, Memory.from_numpy(packed.reshape(-1)))


def _pack(x: Array, blocks: PackedBlocks, packed: Array) -> None:
    """Write the bytes of some blocks. Only finite numbers determine the ranges; NaN becomes 0."""
    x = np.nan_to_num(x.reshape(len(x), -1, blocks.group), nan=0.0, posinf=np.inf, neginf=-np.inf)
    finite = np.where(np.isfinite(x), x, np.float32(0))
    low, high = finite.min(2), finite.max(2)
    least, most = blocks.values.ends
    minimum = None
    if blocks.minimum_at is None:
        # -128 is not used in 8 bits.
        end = np.float32(-127 if least == -128 else least)
        scale = np.where(-low >= high, low, high) / end
    else:
        low = low if blocks.minima is None else np.minimum(low, 0)
        scale, low = (high - low) / np.float32(most), low if blocks.minima is None else -low
        minimum = _store(low, DataType.f16, blocks.minimum_at, blocks.minima, packed)
        minimum = minimum if blocks.minima is None else -minimum
    scale = _store(scale, blocks.scale_type, blocks.scale_at, blocks.scales, packed)
    centered = x if minimum is None else x - minimum[..., None]
    values = np.nan_to_num(centered / np.where(scale == 0, np.float32(1), scale)[..., None])
    values = np.where(scale[..., None] == 0, np.float32(0), values).reshape(len(x), -1)
    codes = _write(values, blocks.values, packed)
    if blocks.sums_at is not None:
        sums = codes.astype(np.int8).reshape(len(x), -1, 16).sum(2, dtype=np.int16)
        packed[:, blocks.sums_at :] = sums.view(np.uint8)


def _store(reals: Array, data_type: DataType, at: int, numbers: BitNumbers | None, packed: Array) -> Array:
    """Write scales or minima of groups, as integers with one factor if needed; return the stored values."""
    kind: Any = np.float32 if data_type is DataType.f32 else np.float16
    top = np.float32(np.finfo(kind).max)
    if numbers is None:
        factor = reals
    else:
        least, most = numbers.ends
        farthest = np.take_along_axis(reals, np.abs(reals).argmax(1, keepdims=True), 1)
        factor = farthest / np.float32(most if least == 0 else least)
    held = np.ascontiguousarray(factor.clip(-top, top).astype(kind))
    nbytes = held.itemsize
    packed[:, at : at + nbytes] = held.view(np.uint8)
    factor = held.astype(np.float32)
    if numbers is None:
        return factor
    codes = _write(np.nan_to_num(reals / np.where(factor == 0, np.float32(1), factor)), numbers, packed)
    return np.asarray(factor * (codes - np.float32(numbers.zero_point)), np.float32)


def _write(reals: Array, numbers: BitNumbers, packed: Array) -> Array:
    """Write the nearest integers; return their codes."""
    least, most = numbers.ends
    if numbers.table:
        table = np.array(numbers.table, np.float32)
        codes = np.searchsorted((table[1:] + table[:-1]) / 2, reals).astype(np.int16)
    else:
        codes = (np.rint(reals.clip(least, most)) + np.float32(numbers.zero_point)).astype(np.int16)
    below = 0
    for field in numbers.fields:
        places = np.array([field.bit(i) for i in range(field.count)])
        bits = ((codes >> below) & ((1 << field.bits) - 1)).astype(np.uint8) << (places % 8).astype(np.uint8)
        # Numbers that share a byte have different shifts, and are stored one set of shifts after the other.
        for shift in np.unique(places % 8):
            chosen = places % 8 == shift
            packed[:, places[chosen] // 8] |= bits[:, chosen]
        below += field.bits
    return codes
