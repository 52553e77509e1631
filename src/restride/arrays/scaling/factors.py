"""Quantized tensors as matrix products use them: scales and zero points row by row, no minima."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...errors import refuse
from ...ir.nest_rewrites import wide_type
from ...runtime.memory import Memory
from ...runtime.transfer import from_host
from .grouped import groups_of
from .quantized_tensor import QuantizedTensor

# A scale smaller than a minimum by this factor is negligible.
_FAR = np.float32(2.0**40)


def as_factor(q: QuantizedTensor) -> QuantizedTensor:
    """Return the same numbers without minima: `scale * q + minimum` as `scale * (q - zero_point)`."""
    scale, zero = q.scale, q.zero_point
    if q.minimum is not None:
        scale, zero = _without_minimum(q)
    scale, zero = row_major(scale), None if zero is None else row_major(zero)
    if q.minimum is None and scale is q.scale and zero is q.zero_point:
        return q
    return QuantizedTensor(q.values, scale, zero, q.tensor_scale)


def by_columns(q: QuantizedTensor) -> QuantizedTensor:
    """Return the same numbers with scales and zero points for each column, as blocks of columns need them."""

    def spread(part: Memory) -> Memory:
        n, kind = q.dims[-1] // max(part.desc.dims[-1], 1), wide_type(part.desc.data_type)
        part = part if kind is part.desc.data_type else part.to(None, kind)
        return (
            part if n < 2 else Memory.from_numpy(np.repeat(part.to_numpy(), n, axis=-1), engine=part.engine)
        )

    zero = None if q.zero_point is None else spread(q.zero_point)
    return QuantizedTensor(q.values, spread(q.scale), zero, q.tensor_scale)


def _without_minimum(q: QuantizedTensor) -> tuple[Memory, Memory]:
    """Return the scales, and f32 zero points that include the minima.

    If a group's scale is negligible compared with its minimum, its elements have no effect: the zero point is
    so large that they are rounded away.
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


def row_major(memory: Memory) -> Memory:
    """Return the memory, or a row-major copy of it."""
    plain = _plain(memory.desc)
    return memory if plain is None else memory.to(plain)


@lru_cache(maxsize=256)
def _plain(md: MemoryDesc) -> MemoryDesc | None:
    """Return the row-major descriptor; None if it already is row-major."""
    plain = MemoryDesc(md.dims, md.data_type)
    return None if plain == md else plain
