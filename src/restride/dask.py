"""Dask arrays, reordered chunk by chunk on any cluster."""

from __future__ import annotations

from typing import Any

import numpy as np

from .arrays import reorders as arrays
from .arrays.calls.formats import target_desc
from .desc.memory_desc import MemoryDesc
from .desc.parse import short_repr
from .dtypes import DataType
from .errors import refuse
from .runtime.alloc import Array
from .runtime.memory import Memory

__all__ = ["reorder"]


def reorder(
    array: Any, format: Any, *, dtype: Any = None, scale: float | None = None, zero_point: int | None = None
) -> Any:
    """Return a Dask array with the chunks of `array`, reordered as by `rs.reorder`; nothing is computed yet.

    format  a format tag. A plain one, such as "nhwc", keeps the dims and changes the layout of each chunk. A
            blocked one, such as "nChw16c", gives the physical array: outer axes in memory order, then the
            blocks; chunks must be whole blocks, except the last along an axis
    dtype   the data type of the result, which must be a NumPy type of whole bytes; by default that of `array`
    scale, zero_point  numbers, as in `rs.reorder`

    Raises InvalidArguments for formats of another rank, chunks that split blocks, and unknown chunk sizes;
    RuntimeFailure if Dask is not installed.

    >>> import dask.array as da, numpy as np, restride as rs  # doctest: +SKIP
    >>> rs.dask.reorder(da.ones((8, 48, 32, 32), chunks=(2, 16, 32, 32)), "nChw16c").shape  # doctest: +SKIP
    (8, 3, 32, 32, 16)
    """
    try:
        import dask.array as da
    except ImportError:
        raise refuse("RS-C04:no-dask") from None
    if not isinstance(array, da.Array):
        raise refuse("RS-V08:array-no-array", array=short_repr(array), type=type(array).__name__)
    if any(n != n for axis in array.chunks for n in axis):
        raise refuse("RS-V08:chunks-array-unknown")
    source = MemoryDesc(array.shape, DataType.parse(array.dtype))
    desc = target_desc(source, format, dtype)
    twin = desc.data_type.numpy
    if twin is None or desc.data_type.bits < 8:
        raise refuse("RS-V08:dtype", data_type=desc.data_type)
    options = {"dtype": desc.data_type.name, "scale": scale, "zero_point": zero_point}
    if not desc.inner_blks:
        return array.map_blocks(_plain, format, options, dtype=twin, meta=np.empty((0,) * array.ndim, twin))
    order, blocks = desc.outer_order, desc.layout.blocks
    for axis, (extents, blk) in enumerate(zip(array.chunks, blocks, strict=True)):
        if any(n % blk for n in extents[:-1]):
            raise refuse(
                "RS-M21:chunks-axis-cut",
                axis=axis,
                extents=f"chunks {extents}"[:120],
                blk=blk,
                least=-(-max(extents) // blk) * blk,
            )
    inner = range(array.ndim, array.ndim + len(desc.inner_blks))
    return da.blockwise(
        _physical,
        (*order, *inner),
        array,
        tuple(range(array.ndim)),
        format=format,
        options=options,
        new_axes=dict(zip(inner, desc.inner_blks, strict=True)),
        adjust_chunks={d: (lambda n, blk=blocks[d]: -(-n // blk)) for d in order if blocks[d] > 1},
        dtype=twin,
        meta=np.empty((0,) * (array.ndim + len(desc.inner_blks)), twin),
        align_arrays=False,
    )


def _plain(chunk: Array, format: Any, options: dict[str, Any]) -> Any:
    if not chunk.size:
        return chunk.astype(DataType[options["dtype"]].numpy)
    return arrays.reorder(chunk, format, **options)


def _physical(chunk: Array, format: Any, options: dict[str, Any]) -> Array:
    blocked = arrays.reorder(np.ascontiguousarray(chunk), format, **options)
    assert isinstance(blocked, Memory)
    return blocked.physical()


def __dir__() -> list[str]:
    return sorted(__all__)
