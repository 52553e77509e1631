"""Arrays of Dask, reordered chunk by chunk, on whatever cluster computes them."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np

from . import arrays
from .desc.memory_desc import MemoryDesc
from .desc.parse import short_repr
from .dtypes import DataType
from .errors import InvalidArguments, RuntimeFailure
from .frontend.formats import target_desc
from .runtime.alloc import Array, NumpyType
from .runtime.memory import Memory

__all__ = ["reorder"]


def reorder(array: Any, format: Any, *, dtype: Any = None, scale: Any = None, zero_point: Any = None) -> Any:
    """An array of Dask with the chunks of `array`, reordered as `rs.reorder` does; nothing is computed yet.

    format  a format tag. A plain one, as "nhwc", keeps dims and changes how chunks lie in memory. A blocked
            one, as "nChw16c", gives the physical array: outer axes in the order of memory, then the blocks;
            chunks must be whole blocks, but for the last along an axis
    dtype   the data type of the result, which NumPy must have in whole bytes; that of `array`, unless given
    scale, zero_point  as of `rs.reorder`, numbers

    Raises InvalidArguments for formats of another rank, chunks that cut blocks, and unknown chunks, and
    RuntimeFailure where Dask is not installed.

    >>> import dask.array as da, numpy as np, restride as rs  # doctest: +SKIP
    >>> rs.dask.reorder(da.ones((8, 48, 32, 32), chunks=(2, 16, 32, 32)), "nChw16c").shape  # doctest: +SKIP
    (8, 3, 32, 32, 16)
    """
    da = _library()
    _check_array(array, da)
    source = MemoryDesc(array.shape, DataType.parse(array.dtype))
    desc = target_desc(source, format, dtype)
    twin = _numpy_type(desc.data_type)
    options = {"dtype": desc.data_type.name, "scale": scale, "zero_point": zero_point}
    if not desc.inner_blks:
        return array.map_blocks(_plain, format, options, dtype=twin, meta=np.empty((0,) * array.ndim, twin))
    _check_chunks(array.chunks, desc)
    order, blocks = desc.outer_order, desc.layout.blocks
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


def _library() -> ModuleType:
    """The arrays of Dask. Raises RuntimeFailure that says how to get them."""
    try:
        import dask.array
    except ImportError:
        raise RuntimeFailure(
            "dask.reorder: there is no Dask",
            code="RS-C04",
            why="its arrays are read and made by its own library",
            hint="pip install 'restride[dask]'",
        ) from None
    found: ModuleType = dask.array
    return found


def _check_array(array: Any, da: ModuleType) -> None:
    if not isinstance(array, da.Array):
        raise InvalidArguments(
            "dask.reorder: array is no array of Dask",
            code="RS-V08",
            where=short_repr(array),
            why=f"it is {type(array).__name__}",
            hint="dask.array.from_array makes one; rs.reorder takes arrays themselves",
        )
    if any(n != n for axis in array.chunks for n in axis):
        raise InvalidArguments(
            "dask.reorder: the chunks of array have unknown extents",
            code="RS-V08",
            why="formats need them",
            hint="call array.compute_chunk_sizes() first",
        )


def _numpy_type(data_type: DataType) -> NumpyType:
    found = data_type.numpy
    if found is not None and data_type.bits >= 8:
        return found
    raise InvalidArguments(
        f"dask.reorder: dtype is {data_type}",
        code="RS-V08",
        why="NumPy has no elements of that type in whole bytes",
        hint="name a type of 8 bits or more",
    )


def _check_chunks(chunks: tuple[tuple[int, ...], ...], desc: MemoryDesc) -> None:
    for axis, (extents, blk) in enumerate(zip(chunks, desc.layout.blocks, strict=True)):
        if any(n % blk for n in extents[:-1]):
            raise InvalidArguments(
                f"dask.reorder: chunks of axis {axis} cut blocks",
                code="RS-M21",
                where=f"chunks {extents}"[:120],
                why=f"all but the last must be multiples of {blk}",
                hint=f"array.rechunk({{{axis}: {-(-max(extents) // blk) * blk}}})",
            )


def _plain(chunk: Array, format: Any, options: dict[str, Any]) -> Any:
    return arrays.reorder(chunk, format, **options) if chunk.size else chunk.astype(_twin(options))


def _physical(chunk: Array, format: Any, options: dict[str, Any]) -> Array:
    made = arrays.reorder(np.ascontiguousarray(chunk), format, **options)
    assert isinstance(made, Memory)
    return made.physical()


def _twin(options: dict[str, Any]) -> Any:
    return DataType[options["dtype"]].numpy


def __dir__() -> list[str]:
    """The public names, and nothing else."""
    return sorted(__all__)
