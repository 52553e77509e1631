"""A Zarr pipeline that moves chunks between files and arrays in pieces that stay in a core's cache.

    import restride.files.zarr_pipeline
    zarr.config.set({"codec_pipeline.path": "restride.files.zarr_pipeline.ReorderPipeline"})

Zarr's own pipeline reads a chunk into new memory and copies it from there to its place; a codec in between
adds one more pass over memory. If a chunk is a file of plain elements, with its axes in any order, this
pipeline needs no such memory: it reads a piece, and a kernel writes that to its place. All other chunks take
the usual path. Files do not change.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
from zarr.codecs import TransposeCodec
from zarr.core.codec_pipeline import BatchedCodecPipeline
from zarr.registry import register_pipeline
from zarr.storage import LocalStore, StorePath

from ..arrays.calls.carriers import carried
from ..arrays.reorders import reorder
from ..desc.tags import MAX_NDIMS
from ..runtime.alloc import Array
from .conversion.tiles import Ints
from .places import ThreadSpaces, write_at
from .zarr.chunk_files import is_little_endian, is_plain_type, new_chunk

__all__ = ["ReorderPipeline"]

# A piece and its result stay in a core's second-level cache.
_PIECE = 512 << 10


@dataclass(frozen=True)
class ReorderPipeline(BatchedCodecPipeline):  # type: ignore[misc]
    """Zarr's pipeline, with a shortcut for chunks that are plain files in a local folder.

    Such a chunk is uncompressed, little endian, with numbers of 1, 2, 4 or 8 bytes, and its axes in any
    order. The shortcut applies to reading a box of it, and to writing it as a whole.
    """

    async def read_batch(self, batch_info: Iterable[Any], out: Any, drop_axes: Ints = ()) -> None:
        """Read chunks to their places in `out`."""
        left = []
        for item in batch_info:
            source, spec, within, place, _ = item
            file = None if drop_axes else self._chunk_file(source, spec)
            into = None if file is None else _box_of(out, place, file)
            if file is None or into is None or not await asyncio.to_thread(file.read, within, into):
                left.append(item)
        if left:
            await super().read_batch(left, out, drop_axes)

    async def write_batch(self, batch_info: Iterable[Any], value: Any, drop_axes: Ints = ()) -> None:
        """Write chunks from their places in `value`."""
        left = []
        for item in batch_info:
            target, spec, _, place, is_whole = item
            file = self._chunk_file(target, spec) if is_whole and not drop_axes else None
            content = None if file is None or target.store.read_only else _box_of(value, place, file)
            if file is None or content is None or not file.is_written(content, spec):
                left.append(item)
            else:
                await asyncio.to_thread(file.write, content)
        if left:
            await super().write_batch(left, value, drop_axes)

    def _chunk_file(self, place: Any, spec: Any) -> _ChunkFile | None:
        """Return the file of a chunk, if its bytes are its elements and nothing else."""
        if type(place) is not StorePath or type(place.store) is not LocalStore:
            return None
        codec, dtype = self.array_bytes_codec, spec.dtype.to_native_dtype()
        turns = all(isinstance(turn, TransposeCodec) for turn in self.array_array_codecs)
        if self.bytes_bytes_codecs or not turns or not is_little_endian(codec, dtype):
            return None
        is_plain = is_plain_type(dtype) and dtype.itemsize <= 8
        if not (is_plain and 0 < len(spec.shape) <= MAX_NDIMS and prod(spec.shape)):
            return None
        order = tuple(range(len(spec.shape)))
        for turn in self.array_array_codecs:
            order = tuple(order[axis] for axis in turn.order)
        return _ChunkFile(os.path.join(str(place.store.root), place.path), tuple(spec.shape), order, dtype)


@dataclass(frozen=True, slots=True)
class _ChunkFile:
    """The file of a chunk, with the order of its axes in the file."""

    path: str
    shape: Ints
    order: Ints
    dtype: np.dtype[Any]

    def read(self, within: Any, into: Array) -> bool:
        """Read a part of the chunk into an array. False if the file is not as expected."""
        if not _is_box(within, len(self.shape)):
            return False
        spans = [part.indices(n) for part, n in zip(within, self.shape, strict=True)]
        if tuple(last - first for first, last, _ in spans) != into.shape:
            return False
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return False
        try:
            status = os.fstat(handle)
            if not stat.S_ISREG(status.st_mode) or status.st_size != self._row * self.shape[self.order[0]]:
                return False
            part = [*within]
            part[self.order[0]] = slice(None)
            for at, rows, place in self._pieces(*spans[self.order[0]][:2]):
                piece = _spaces.mine.bytes("piece", rows * self._row)
                if os.preadv(handle, [piece.data], at * self._row) != piece.size:
                    return False
                reorder(self._as_chunk(piece, rows)[tuple(part)], None, out=into[place])
            return True
        finally:
            os.close(handle)

    def write(self, content: Array) -> None:
        """Write the whole chunk, in one step. System errors are raised unchanged."""
        with new_chunk(self.path) as handle:
            for at, rows, place in self._pieces(0, self.shape[self.order[0]]):
                piece = _spaces.mine.bytes("piece", rows * self._row)
                reorder(content[place], None, out=self._as_chunk(piece, rows))
                write_at(handle, at * self._row, piece.data)

    def is_written(self, content: Array, spec: Any) -> bool:
        """Return True for a whole chunk that needs a file: one of fill values has none."""
        if content.shape != self.shape or spec.config.write_empty_chunks:
            return bool(content.shape == self.shape)
        bits = content.view(f"u{self.dtype.itemsize}")
        fill = np.asarray(spec.fill_value, self.dtype).view(bits.dtype)
        return bool((bits[0] != fill).any() or (bits != fill).any())

    @property
    def _row(self) -> int:
        """Return the bytes for one index of the outermost axis in the file."""
        return prod(self.shape) // self.shape[self.order[0]] * self.dtype.itemsize

    def _pieces(self, first: int, last: int) -> Iterator[tuple[int, int, tuple[slice, ...]]]:
        """Yield the first index, the count and the place of pieces along that axis, from `first` on."""
        ends = [*range(first, last, max(_PIECE // self._row, 1)), last]
        for at, end in pairwise(ends):
            place = [slice(None)] * len(self.shape)
            place[self.order[0]] = slice(at - first, end - first)
            yield at, end - at, tuple(place)

    def _as_chunk(self, piece: Array, rows: int) -> Array:
        """Return the bytes of a piece with axes in the order of the chunk."""
        shape = rows, *(self.shape[axis] for axis in self.order[1:])
        elements = piece.view(carried(self.dtype)).reshape(shape)
        return elements.transpose([self.order.index(axis) for axis in range(len(self.order))])


def _box_of(array: Any, place: Any, file: _ChunkFile) -> Array | None:
    """Return the elements of a chunk in a whole array, as the type they are moved as; None unless a box."""
    whole = array.as_ndarray_like()
    if type(whole) is np.ndarray and whole.dtype == file.dtype and _is_box(place, whole.ndim):
        values: Array = whole[place].view(carried(file.dtype))
        return values
    return None


def _is_box(selection: Any, ndim: int) -> bool:
    """Return True for whole slices along each axis."""
    return (
        isinstance(selection, tuple)
        and len(selection) == ndim
        and all(type(part) is slice and part.step in (None, 1) for part in selection)
    )


_spaces = ThreadSpaces()

register_pipeline(ReorderPipeline)
