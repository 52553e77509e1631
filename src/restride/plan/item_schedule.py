"""Loop nest + facts about a device -> scheduled nest, of which each work-item runs one step."""

from __future__ import annotations

from dataclasses import replace

from .loop_order import Grid, Order, order_loops
from .machine import DeviceFacts, Machine
from .nest import LoopNest
from .rewrites import normalise, split_read
from .schedule import Schedule, schedule
from .square import Square, square_of
from .tiling import contiguous


def schedule_items(nest: LoopNest, device: DeviceFacts, tiles: bool = True) -> tuple[Schedule, ...]:
    """Schedule a normalised nest without bounds for work-items; each runs one step of the grid.

    Where an item has registers to itself it runs `tiles` as a thread does if vectors will do, else loops over
    elements. Items that run in step have one element each, the contiguous axis of the destination innermost,
    so that neighbours write neighbours; a transpose goes by squares through the memory of a group.
    """
    if device.vector_bytes and tiles and _suits_vectors(nest):
        plans = schedule(nest, Machine(vector_bytes=device.vector_bytes))
        return tuple(replace(plan, streams=False, prefetch=0) for plan in plans)
    for index, axis in enumerate(nest.axes):
        if not axis.is_whole and not nest.is_zero:
            parts = map(normalise, split_read(nest, index))
            return tuple(plan for part in parts for plan in schedule_items(part, device, tiles))
    along_src, along_dst = contiguous(nest, "src")[:1], contiguous(nest, "dst")[:1]
    square = square_of(nest, device, *along_src, *along_dst) if along_src and along_dst else None
    chunks = tuple(_shared_byte(nest, index, along_dst) for index in range(len(nest.axes)))
    order = Order(tuple(Grid(index, 1) for index in range(len(nest.axes))), ())
    if device.vector_bytes:
        order = order_loops(nest, chunks, Machine(vector_bytes=device.vector_bytes))
    kind, why = _kind_of_items(nest, square, along_src, along_dst)
    return (
        Schedule(nest, chunks, order.grid, order.inner, nest.src_type, kind, why, late=True, square=square),
    )


def _suits_vectors(nest: LoopNest) -> bool:
    """True where compilers for devices do well with vectors: elements of 32 bits or more, moved as they are.

    For vectors of bytes they take up to a minute, and LLVM does not make SPIR-V of all that computes in
    vectors (measured: Intel's for CPUs, 2026; LLVM 22).
    """
    is_move = nest.src_type is nest.dst_type and nest.compute.is_move
    return nest.dst_type.bits >= 32 and (is_move or nest.is_zero)


def _shared_byte(nest: LoopNest, index: int, along_dst: list[int]) -> int:
    """Positions of an axis that one item takes: two where they share a byte."""
    pairs = nest.has_nibbles and along_dst[:1] == [index]
    return min(2, nest.axes[index].extent) if pairs else 1


def _kind_of_items(
    nest: LoopNest, square: Square | None, along_src: list[int], along_dst: list[int]
) -> tuple[str, str]:
    if nest.is_zero:
        return "zero", "padding"
    if not nest.axes:
        return "copy", "there is one element"
    if square is not None:
        return "transpose", "the contiguous axes of the two sides differ: through local memory"
    if along_src and along_src == along_dst:
        return "copy", "one axis is contiguous on both sides"
    return "strided", "neighbours of the destination lie apart in the source"
