"""New results of calls: empty arrays and memory objects, and the address of their elements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ...desc.build import Format
from ...desc.memory_desc import MemoryDesc
from ...desc.parse import parse_ints
from ...desc.tags import Tag
from ...errors import raises_at_the_call
from ...runtime.alloc import address_of, extent
from ...runtime.engine import Engine
from ...runtime.memory import allocated_memory
from ...runtime.memory_checks import checked_desc
from ...runtime.result_pool import POOLED_BYTES, allocate, block_size, new_array, new_buffer
from ...runtime.views import element_type
from .carriers import NumpyType, as_type
from .formats import parse_type

_CPU = Engine("cpu")
# Bound to a name here, for calls that take a microsecond.
_empty = np.empty

Make = Callable[[], tuple[int, Any]]
"""Creates an empty result; returns the address of element offset 0 and the result."""


@raises_at_the_call
def empty(dims: Sequence[int], dtype: Any = "f32", format: Format = None) -> Any:
    """Return a new array with undefined content, in the memory used for results: for `out=`, and for sources.

    `dims`: logical, as in `MemoryDesc`. `format`: the layout; None is row-major. A plain format gives an
    array of shape `dims`; a blocked one, and elements of 4 bits, a `Memory`. From 256 KB up, the bytes are
    page-aligned, on huge pages if the system has them; once nothing refers to them, the next result of that
    size can reuse them.

    Raises InvalidArguments if no descriptor can be created, OutOfMemory if the system refuses the memory.

    >>> import restride as rs
    >>> rs.empty((8, 64, 56, 56), "bf16", "nhwc").strides
    (401408, 2, 7168, 128)
    """
    extents = parse_ints(dims, "empty: dims")
    rows = Tag(tuple(range(len(extents)))) if format is None else format
    md = checked_desc(MemoryDesc(extents, parse_type(dtype), rows))
    return maker_of(md)()[1]


def maker_of(md: MemoryDesc, dtype: NumpyType | None = None, *, is_memory: bool = False) -> Make:
    """Return a function that creates results: arrays if NumPy can express them, unless `is_memory`.

    `dtype`: the type of arrays whose bits are moved as another type.
    """
    if not is_memory and not md.inner_blks and md.data_type.bits >= 8:
        return _array_maker(md) if dtype is None else as_type(_array_maker(md), dtype)
    nbytes = extent(md).needed
    if nbytes >= POOLED_BYTES and md.data_type.bits >= 8:
        size = block_size(nbytes)
        return lambda: ((memory := allocated_memory(md, _CPU, new_buffer(size, nbytes)))._address, memory)
    return lambda: ((memory := allocated_memory(md, _CPU))._address, memory)


def _array_maker(md: MemoryDesc) -> Make:
    twin = element_type(md)
    if not md.nelems:
        return lambda: ((memory := allocated_memory(md, _CPU))._address, np.asarray(memory))
    nbytes = extent(md).needed
    if nbytes >= POOLED_BYTES:
        steps = tuple(stride * twin.itemsize for stride in md.strides)
        return partial(new_array, block_size(nbytes), md.dims, twin, md.offset0 * twin.itemsize, steps)
    order = sorted(range(md.ndims), key=lambda d: (-md.strides[d], -md.dims[d], d))
    dense = [prod(md.dims[inner] for inner in order[i + 1 :]) for i in range(md.ndims)]
    if md.offset0 or dense != [md.strides[d] for d in order]:  # with gaps
        return lambda: (
            (buffer := allocate(nbytes)).address,
            buffer.view(twin, md.dims, md.strides, md.offset0),
        )
    shape = tuple(md.dims[d] for d in order)
    back = tuple(order.index(d) for d in range(md.ndims))
    if back == tuple(range(md.ndims)):
        return lambda: (address_of(result := _empty(shape, twin)), result)
    return lambda: (address_of(result := _empty(shape, twin).transpose(back)), result)
