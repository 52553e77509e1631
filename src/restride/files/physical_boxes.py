"""Boxes of a tensor as boxes of the array in a file that holds it, which Zarr reads and writes by."""

from __future__ import annotations

from ..desc.memory_desc import MemoryDesc
from .conversion.tiles import Ints
from .stored_tensors import StoredArray, StoredTensor, is_row_major


def physical_box(
    desc: MemoryDesc, shape: Ints, start: Ints, size: Ints
) -> tuple[tuple[int, int], ...] | None:
    """First and last places, along each axis of an array of `shape`, of a box of the tensor that it holds.

    None where the array is not the tensor's physical one, or has no axes: it is read as a whole.
    """
    if not shape:
        return None
    if shape == desc.dims and is_row_major(desc):
        return tuple((at, at + n) for at, n in zip(start, size, strict=True))
    if shape != desc.physical_shape:
        return None
    layout = desc.layout
    blocks = layout.blocks
    outer = [(start[d] // blocks[d], -(-(start[d] + size[d]) // blocks[d])) for d in layout.outer_order]
    return (*outer, *((0, n) for n in layout.inner_blks))


def is_cut_in_boxes(array: StoredArray, desc: MemoryDesc) -> bool:
    """True where boxes of the tensor are boxes of the array that holds it."""
    return physical_box(desc, array.shape, (0,) * desc.ndims, desc.dims) is not None


def box_shape(array: StoredArray, desc: MemoryDesc, size: Ints) -> Ints:
    """The extents of the part of an array that holds a box of `size` from the start."""
    box = physical_box(desc, array.shape, (0,) * desc.ndims, size)
    return array.shape if box is None else tuple(last for _, last in box)


def box_units(tensor: StoredTensor, desc: MemoryDesc) -> Ints:
    """Multiples that boxes keep along each axis, so that each of the tensor's chunks is in one of them."""
    layout, chunks = desc.layout, tensor.chunks
    if is_row_major(desc) and len(chunks) == desc.ndims:
        return tuple(max(n, 1) for n in chunks)
    units = [1] * desc.ndims
    if tensor.array.shape == desc.physical_shape:
        for d, n in zip(layout.outer_order, chunks, strict=False):
            units[d] = max(n, 1) * layout.blocks[d]
    return tuple(units)
