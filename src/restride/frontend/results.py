"""New results of calls: empty arrays and memories of a descriptor, and where their elements begin."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..runtime.alloc import Array, address_of, allocate, extent
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.views import element_type
from .carriers import NumpyType, as_type

# Outputs from here on are aligned to a page, as streaming stores like it.
_LARGE = 1 << 18
_CPU = Engine("cpu")

Make = Callable[[], tuple[int, Any]]
"""Makes an empty result: the address of element offset 0, and the result."""


def maker_of(md: MemoryDesc, dtype: NumpyType | None = None, *, is_memory: bool = False) -> Make:
    """What makes results of a descriptor: arrays where NumPy has such, unless `is_memory`, else memories.

    `dtype`: the type of arrays whose bits go as another type.
    """
    if is_memory or md.inner_blks or md.data_type.bits < 8:
        return partial(_new_memory, md)
    return _array_maker(md) if dtype is None else as_type(_array_maker(md), dtype)


def _array_maker(md: MemoryDesc) -> Make:
    twin = element_type(md)
    if not md.nelems:
        return lambda: _viewed(md)
    if md.size >= _LARGE or not _is_dense(md):
        return lambda: _new_aligned(md, twin)
    order = _outermost_first(md)
    shape = tuple(md.dims[d] for d in order)
    back = tuple(order.index(d) for d in range(md.ndims))
    if back == tuple(range(md.ndims)):
        return lambda: _addressed(np.empty(shape, twin))
    return lambda: _addressed(np.empty(shape, twin).transpose(back))


def _outermost_first(md: MemoryDesc) -> list[int]:
    return sorted(range(md.ndims), key=lambda d: (-md.strides[d], -md.dims[d], d))


def _is_dense(md: MemoryDesc) -> bool:
    expected = 1
    for d in reversed(_outermost_first(md)):
        if md.strides[d] != expected:
            return False
        expected *= md.dims[d]
    return md.offset0 == 0


def _viewed(md: MemoryDesc) -> tuple[int, Array]:
    address, memory = _new_memory(md)
    return address, np.asarray(memory)


def _addressed(array: Array) -> tuple[int, Array]:
    return address_of(array), array


def _new_aligned(md: MemoryDesc, twin: NumpyType) -> tuple[int, Array]:
    buffer = allocate(extent(md).needed)
    return buffer.address, buffer.view(twin, md.dims, md.strides, md.offset0)


def _new_memory(md: MemoryDesc) -> tuple[int, Memory]:
    memory = Memory.allocated(md, _CPU)
    return memory._address, memory
