"""The meaning of a loop nest: a slow but readable interpreter in plain NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..dtypes import DataType
from .conversion import Array, Inputs, convert
from .nest import LoopNest, Stride
from .nest_rewrites import slice_axis

# Positions interpreted at once; limits the memory of index arrays.
_BLOCK = 1 << 20


class _Operands(NamedTuple):
    """Scalars and tensors of the computation."""

    scalars: tuple[float, ...]
    tensors: tuple[Array, ...]


def interpret(
    nest: LoopNest, src: Array, dst: Array, scalars: Sequence[float] = (), tensors: Sequence[Array] = ()
) -> None:
    """Run `nest` on flat arrays of storage dtypes, writing into `dst`; offset 0 is the first of each.

    `scalars` and `tensors` are the inputs of the computation, in order.
    """
    _interpret(nest, src, dst, _Operands(tuple(scalars), tuple(tensors)))


def _interpret(nest: LoopNest, src: Array, dst: Array, given: _Operands) -> None:
    if nest.is_empty:
        return
    if nest.positions > _BLOCK and any(a.extent > 1 for a in nest.axes):
        for part in _halves(nest):
            _interpret(part, src, dst, given)
        return
    _interpret_block(nest, src, dst, given)


def _halves(nest: LoopNest) -> tuple[LoopNest, LoopNest]:
    index = max(range(len(nest.axes)), key=lambda i: nest.axes[i].extent)
    axis = nest.axes[index]
    if axis.bound >= 0:
        return _halves_bounded(nest, index)
    half = axis.extent // 2
    return slice_axis(nest, index, 0, half), slice_axis(nest, index, half, axis.extent - half)


def _halves_bounded(nest: LoopNest, index: int) -> tuple[LoopNest, LoopNest]:
    """Halve an axis of a bounded dimension; the upper half's limits are lowered by the skipped extent."""
    axis = nest.axes[index]
    half = axis.extent // 2
    low = slice_axis(nest, index, 0, half)
    high = slice_axis(nest, index, half, axis.extent - half)
    skipped = half * axis.step
    bound = nest.bounds[axis.bound]
    moved = replace(bound, size=max(bound.size - skipped, 0), padded=max(bound.padded - skipped, 0))
    bounds = tuple(moved if i == axis.bound else b for i, b in enumerate(nest.bounds))
    return low, replace(high, bounds=bounds)


def _interpret_block(nest: LoopNest, src: Array, dst: Array, given: _Operands) -> None:
    to = _offsets(nest, nest.dst_base, [a.dst for a in nest.axes])
    reads, writes = _read_and_written(nest)
    scatter(dst, nest.dst_type, to[writes & ~reads], np.zeros((), dst.dtype))
    chosen = reads & writes
    if not chosen.any():
        return
    at = _offsets(nest, nest.src_base, [a.src for a in nest.axes])[chosen]
    places = to[chosen]
    inputs = Inputs(
        gather(dst, nest.dst_type, places) if nest.compute.reads_destination else None,
        given.scalars,
        tuple(_tensor(nest, index, given.tensors[index], chosen) for index in range(len(nest.operands))),
        tuple(operand.data_type for operand in nest.operands),
    )
    types = nest.src_type, nest.dst_type
    values = convert(gather(src, nest.src_type, at), types, nest.compute, inputs)
    scatter(dst, nest.dst_type, places, values)


def _tensor(nest: LoopNest, index: int, tensor: Array, chosen: Array) -> Array:
    operand = nest.operands[index]
    at = _offsets(nest, operand.base, [a.more[index] for a in nest.axes])
    return gather(tensor, operand.data_type, at[chosen])


def _offsets(nest: LoopNest, base: int, strides: list[Stride]) -> Array:
    """Return the offset of every position in one operand, in the order of the loops."""
    at = np.array([base], np.int64)
    # From the inside out: then NumPy adds to long arrays, and the last additions dominate the work.
    for axis, stride in zip(reversed(nest.axes), reversed(strides), strict=True):
        steps = np.arange(axis.extent) * stride if isinstance(stride, int) else np.array(stride, np.int64)
        at = np.add.outer(steps, at).reshape(-1)
    return at


def _read_and_written(nest: LoopNest) -> tuple[Array, Array]:
    """Return which positions are read, and which are written, in the order of the loops."""
    reads = np.ones(1, np.bool_)
    for axis in reversed(nest.axes):
        reads = np.logical_and.outer(np.arange(axis.extent) < axis.valid, reads).reshape(-1)
    writes = np.ones_like(reads)
    for place, bound in enumerate(nest.bounds):
        index = _offsets(nest, 0, [a.step if a.bound == place else 0 for a in nest.axes])
        reads &= index < bound.size
        writes &= index < bound.padded
    return reads, writes


def gather(data: Array, data_type: DataType, at: Array) -> Array:
    """Return the bits of the elements at the offsets; each 4-bit element in its own byte."""
    if data_type.bits != 4:
        return np.asarray(data[at])
    return np.asarray(data[at >> 1] >> ((at & 1) << 2).astype(np.uint8) & np.uint8(15))


def scatter(data: Array, data_type: DataType, at: Array, bits: Array) -> None:
    """Write the bits of the elements at the offsets; the other half of a shared byte is preserved."""
    if data_type.bits != 4:
        data[at] = bits
        return
    wide = np.broadcast_to(bits, at.shape)
    for half, kept in ((0, 0xF0), (1, 0x0F)):
        mine = (at & 1) == half
        places = at[mine] >> 1
        data[places] = (data[places] & np.uint8(kept)) | (wide[mine] << np.uint8(4 * half))
