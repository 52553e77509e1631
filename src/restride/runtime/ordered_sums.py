"""Sums of a tensor whose outputs would not be written one after the other.

Outputs lie row-major over the kept dims, whatever the tensor's layout. Where the two orders differ, each
output is a cache line of its own, and they are what takes the time. So where every element has an output of
its own they are **products**, a reorder to s32 with a scale; and where the kept dims of a plain tensor lie in
another order they are **turned**: found in the order of the tensor, then reordered.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..plan.compute import Compute, linear
from ..plan.reorder import reorder_nest
from .alloc import address_of
from .cpu import Params, Program
from .reduction import SumProgram

# Types whose products with -128 an f32 holds exactly.
_EXACT = (DataType.s8, DataType.u8)
# From here on so many outputs take longer out of order than a second pass over them.
_MANY_OUTPUTS = 1 << 12


class ProductProgram:
    """`factor` times each element of an s8 or u8 tensor, over its padded dims, as s32 row-major."""

    def __init__(self, md: MemoryDesc, factor: int) -> None:
        whole = MemoryDesc._make("blocked", md.data_type, replace(md.layout, dims=md.padded_dims))
        out = MemoryDesc(whole.dims, "s32", _row_major(whole.ndims))
        nest = reorder_nest(whole, out, linear(scaled=True))
        self._program = Program(nest, whole.size + out.size)
        self._params = Params([factor])

    def run(self, src_address: int, out_address: int) -> None:
        """Overwrite the s32 array at `out_address`."""
        self._program.run(src_address, out_address, self._params.address)


class TurnedProgram:
    """Sums over the dims whose bits `keep_mask` lacks; `order` are all dims as they lie in memory."""

    def __init__(self, md: MemoryDesc, keep_mask: int, factor: int, order: tuple[int, ...]) -> None:
        to = np.argsort(order).tolist()
        mask = sum(1 << to[d] for d in range(md.ndims) if keep_mask >> d & 1)
        self._sums = SumProgram(md.permute_axes(to), mask, factor, padded=True)
        self._held = prod(self._sums.shape)
        kept = [d for d in order if keep_mask >> d & 1]
        self._turn = _turning(self._sums.shape, np.argsort(kept).tolist())
        self._params = Params()

    def run(self, src_address: int, out_address: int) -> None:
        """Overwrite the s32 array, row-major over the kept dims, at `out_address`."""
        held = np.empty(self._held, np.int32)
        self._sums.run(src_address, address_of(held))
        self._turn.run(address_of(held), out_address, self._params.address)


def ordered_sums(md: MemoryDesc, keep_mask: int, factor: int) -> ProductProgram | TurnedProgram | None:
    """Sums over padded dims of a concrete descriptor where order matters; None where `SumProgram` is best."""
    outputs = prod(n for d, n in enumerate(md.padded_dims) if keep_mask >> d & 1)
    if outputs < _MANY_OUTPUTS:
        return None
    if outputs == prod(md.padded_dims) and md.data_type in _EXACT:
        return ProductProgram(md, factor)
    order = _memory_order(md)
    kept = [d for d in order if keep_mask >> d & 1 and md.padded_dims[d] > 1]
    if md.inner_blks or kept == sorted(kept):
        return None
    return TurnedProgram(md, keep_mask, factor, order)


def _memory_order(md: MemoryDesc) -> tuple[int, ...]:
    """The dims, the farthest apart in memory first."""
    return tuple(sorted(range(md.ndims), key=lambda d: (-md.strides[d], d)))


def _turning(shape: tuple[int, ...], perm: list[int]) -> Program:
    """What copies an s32 array to one whose dim i is dim `perm[i]` of it."""
    held = MemoryDesc(shape, "s32", _row_major(len(shape)))
    to = np.argsort(perm).tolist()
    src = held.permute_axes(to)
    out = MemoryDesc(src.dims, "s32", _row_major(len(shape)))
    return Program(reorder_nest(src, out, Compute()), src.size + out.size)


def _row_major(ndims: int) -> str:
    return "abcdefghijkl"[:ndims]
