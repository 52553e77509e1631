"""Reorders of arrays with more axes than a tensor can have, up to NumPy's limit, as in tensor networks.

Axes that move together are merged. More than 12 axes may still remain; these get a descriptor that callers
never see.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ..desc.build import check_range
from ..desc.layout import BlockedLayout
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_strides
from ..desc.tags import MAX_NDIMS
from ..dtypes import DataType
from ..errors import refuse
from ..foreign import is_masked
from ..runtime.alloc import Array
from ..runtime.describe import Described, in_elements
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from .calls.carriers import bits_of, unnamed_type

_CPU = Engine("cpu")


def has_many_axes(x: object) -> bool:
    """Return True for a non-empty NumPy array that has more axes than a tensor can have."""
    return isinstance(x, np.ndarray) and not is_masked(x) and x.ndim > MAX_NDIMS and x.size > 0


def result_of(call: str, x: Array, strides: tuple[int, ...] | None, out: Array | None) -> Array:
    """Return the destination: `out`, or a new array with the given strides in elements, or ordered as `x`.

    Raises InvalidArguments for an `out` of another shape or type, and for strides that are negative or do not
    match the number of axes.
    """
    if out is not None:
        is_alike = isinstance(out, np.ndarray) and (out.shape, out.dtype) == (x.shape, x.dtype)
        if not (is_alike and out.flags.writeable and strides is None):
            raise refuse("RS-A07:beyond-axes-writable", call=call, x=x, max_ndims=MAX_NDIMS)
        return out
    if strides is None:
        order = sorted(range(x.ndim), key=lambda d: (-abs(x.strides[d]), d))
        steps = {d: prod(x.shape[after] for after in order[place + 1 :]) for place, d in enumerate(order)}
        strides = tuple(steps[d] for d in range(x.ndim))
    if any(step < 0 for step in parse_strides(strides, x.ndim, f"{call}: dst")):
        raise refuse("RS-A05:no-layout", dst=strides, type="tuple")
    count = 1 + sum((n - 1) * step for n, step in zip(x.shape, strides, strict=True))
    memory = Memory(MemoryDesc((count * x.itemsize,), "u8"), _CPU)
    flat = np.asarray(memory).view(x.dtype)
    return np.lib.stride_tricks.as_strided(flat, x.shape, [step * x.itemsize for step in strides])


def joined(x: Array, out: Array) -> tuple[Memory, Memory]:
    """Return both as memory objects over the same bytes, with as few axes as possible.

    (2, 3, 4) of strides (12, 4, 1) and (4, 8, 1)  ->  (2, 3, 4); of (12, 4, 1) on both sides  ->  (24,).
    Raises InvalidArguments if strides are not multiples of the element size.
    """
    if unnamed_type([x, out]) is not None:
        x, out = bits_of(x), bits_of(out)
    sides = [in_elements(each.shape, each.strides, each.dtype.itemsize) for each in (x, out)]
    axes = list[tuple[int, int, int]]()
    for extent, src, dst in sorted(zip(x.shape, *sides, strict=True), key=lambda a: (-abs(a[2]), -abs(a[1]))):
        if axes and axes[-1][1:] == (extent * src, extent * dst):
            extent *= axes.pop()[0]
        if extent > 1:
            axes.append((extent, src, dst))
    dims, *steps = zip(*(axes or [(1, 1, 1)]), strict=True)
    src, dst = (_memory(each, dims, to) for each, to in zip((x, out), steps, strict=True))
    return src, dst


def _memory(x: Array, dims: tuple[int, ...], steps: tuple[int, ...]) -> Memory:
    start = -sum(min(0, (n - 1) * step) for n, step in zip(dims, steps, strict=True))
    layout, data_type = BlockedLayout(dims, dims, steps, offset0=start), DataType.parse(x.dtype)
    check_range(layout, data_type)
    described = Described(MemoryDesc._make("blocked", data_type, layout), start * x.dtype.itemsize)
    return Memory(described.desc, _CPU, described.buffer_of(x))
