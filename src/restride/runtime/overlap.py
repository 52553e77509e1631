"""Test for overlap of two tensors in memory: exact if that is cheap."""

from __future__ import annotations

from math import prod

import numpy as np

from ..desc.layout import block_products
from ..desc.memory_desc import MemoryDesc
from .alloc import Array, extent

# Limit on NumPy's search for a shared element: some microseconds up to a millisecond.
_MOST_WORK = 4096


def share_bytes_at(one: MemoryDesc, address: int, other: MemoryDesc, other_address: int) -> bool:
    """True if elements or padding of the two share a byte, or if that cannot be excluded.

    Addresses are those of element offset 0. Interleaved tensors, such as every other column, do not overlap.
    """
    first, second = extent(one), extent(other)
    starts = address + first.low, other_address + second.low
    ends = address + first.high, other_address + second.high
    if starts[0] >= ends[0] or starts[0] >= ends[1] or starts[1] >= ends[0]:
        return False
    if min(one.data_type.bits, other.data_type.bits) < 8:
        return True
    ours, others = _places(one, address), _places(other, other_address)
    # If the search would take longer, NumPy returns True. Its stubs do not allow max_work.
    return np.may_share_memory(ours, others, max_work=_MOST_WORK)  # type: ignore[arg-type]


class _ArrayInterface:
    """Describes the location of an array that nobody reads."""

    def __init__(self, interface: dict[str, object]) -> None:
        self.__array_interface__ = interface


def _places(md: MemoryDesc, address: int) -> Array:
    """Return the elements and the padding of a tensor as an array: outer dims, then inner blocks."""
    layout, width = md.layout, md.data_type.bits // 8
    products = block_products(md.ndims, layout.inner_blks, layout.inner_idxs)
    outer = [padded // block for padded, block in zip(layout.padded_dims, products, strict=True)]
    steps = [prod(layout.inner_blks[i + 1 :]) for i in range(len(layout.inner_blks))]
    interface = {
        "version": 3,
        "typestr": f"|V{width}",
        "data": (address + layout.offset0 * width, False),
        "shape": (*outer, *layout.inner_blks),
        "strides": tuple(step * width for step in (*layout.strides, *steps)),
    }
    return np.asarray(_ArrayInterface(interface))
