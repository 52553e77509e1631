"""Quantized tensors as products take them: scales and zero points row-major, no minima, narrow elements."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...errors import refuse
from ...runtime.alloc import Array
from ...runtime.memory import Memory
from ...runtime.transfer import from_host
from ..reorders import reorder
from .grouped import groups_of, over
from .quantized_tensor import QuantizedTensor

# Types of 4 bits, and the values that they have.
_FAR = np.float32(2.0**40)
_NARROW = ((DataType.u4, 0, 15), (DataType.s4, -8, 7))
_COLUMNS = 64
_INTEGERS = DataType.u4, DataType.s4, DataType.u8, DataType.s8


def as_factor(q: QuantizedTensor, *, packs: bool = False) -> QuantizedTensor:
    """The same numbers without minima: `scale * q + minimum` is `scale * (q - zero_point)`.

    `packs`: elements become 4-bit integers where they all are, which takes a pass over them.
    """
    scale, zero, values = q.scale, q.zero_point, q.values
    if q.minimum is not None:
        scale, zero = _without_minimum(q)
    scale, zero = _row_major(scale), None if zero is None else _row_major(zero)
    if not packs and q.minimum is None and scale is q.scale and zero is q.zero_point:
        return q
    if packs:
        values, zero = _narrowed(values, zero)
    return QuantizedTensor(values, scale, zero, q.tensor_scale)


def _narrowed(values: Memory, zero: Memory | None) -> tuple[Memory, Memory | None]:
    """Elements less the zero point that all of them have, in 4 bits where all fit."""
    kind, is_one = values.desc.data_type, zero is not None and zero.desc.nelems == 1
    if kind not in _INTEGERS or not (is_one or kind.bits == 8):
        return values, zero
    shift = 0 if zero is None or not is_one else int(zero.to_numpy().reshape(-1)[0])
    *rows, columns = values.desc.dims
    # Of tensors that need 8 bits the first columns say so.
    begin = values.desc.submemory_desc((*rows, min(columns, _COLUMNS)), (0,) * values.desc.ndims)
    for part in (over(values, begin), values):
        numbers = _bytes(part)
        low, high = (int(numbers.min()) - shift, int(numbers.max()) - shift) if numbers.size else (0, 0)
        narrow = next((kind for kind, least, most in _NARROW if least <= low and high <= most), None)
        if narrow is None:
            return values, zero
    assert narrow is not None
    moved = (numbers.view(np.uint8) - np.uint8(shift % 256)).view(np.int8)
    result = Memory(MemoryDesc(values.desc.dims, narrow), values.engine)
    reorder(from_host(result.desc.as_type("s8"), values.engine, moved), None, out=result)
    return result, None if is_one else zero


def _bytes(values: Memory) -> Array:
    """Integers, row-major, each in a byte."""
    wide = DataType.s8 if values.desc.data_type.kind == "int" else DataType.u8
    return values.to(MemoryDesc(values.desc.dims, wide)).physical()


def _without_minimum(q: QuantizedTensor) -> tuple[Memory, Memory]:
    """The scales, and zero points of f32 that stand for the minima too.

    Of groups whose scale is nothing beside their minimum, elements do not count: such a zero point is so
    large that they are rounded away.
    """
    assert q.minimum is not None
    groups = [groups_of(q.dims, part.desc) for part in (q.scale, q.minimum, q.zero_point) if part is not None]
    if len(set(groups)) > 1:
        raise refuse("RS-X02:weights-minimum", q=q.values.desc, minimum=q.minimum.desc)
    whole = np.float32(q.tensor_scale)
    scale, minimum = (np.asarray(part.to_numpy(), np.float32) for part in (q.scale, q.minimum))
    minimum = minimum / whole
    is_small = np.abs(scale) < np.abs(minimum) / _FAR
    scale = np.where(is_small, np.abs(minimum) / _FAR, scale)
    with np.errstate(all="ignore"):
        zero = np.where(minimum == 0, np.float32(0), -minimum / scale)
    if q.zero_point is not None:
        zero = zero + np.where(is_small, 0, np.asarray(q.zero_point.to_numpy(), np.float32))
    md = MemoryDesc(q.scale.desc.dims, DataType.f32)
    parts = (from_host(md, q.scale.engine, np.ascontiguousarray(part)) for part in (scale, zero))
    first, second = parts
    return first, second


def _row_major(memory: Memory) -> Memory:
    plain = _plain(memory.desc)
    return memory if plain is None else memory.to(plain)


@lru_cache(maxsize=256)
def _plain(md: MemoryDesc) -> MemoryDesc | None:
    """The row-major descriptor; None for one that is."""
    plain = MemoryDesc(md.dims, md.data_type)
    return None if plain == md else plain
