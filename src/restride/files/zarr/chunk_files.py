"""Zarr chunks that are plain files: uncompressed elements in row-major order, moved unchanged.

The Zarr library copies a chunk several times between a file and an array. If a chunk's file contains its
elements and nothing else, as in most arrays to be rechunked, its bytes are moved directly.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any

import numpy as np

from ...arrays.calls.carriers import carried
from ...desc.memory_desc import MemoryDesc
from ...desc.tags import MAX_NDIMS
from ...dtypes import DataType
from ...errors import Error, refuse
from ...runtime.alloc import Array
from ..conversion.tiles import Ints, Runs
from ..places import FilePlace, ThreadSpaces, Workspace, write_at
from ..writing.replacement import cannot_write, new_file, shown, system_error


def read_box(array: Any, box: tuple[slice, ...], path: str) -> Array:
    """Read a box of an array with the library; `path` is its name in errors.

    Raises InvalidArguments for damaged chunks, RuntimeFailure if the system refuses access.
    """
    try:
        for chunk in chunk_paths(array, box):
            check_chunk(chunk)
        return np.asarray(array[box])
    except OSError as error:
        raise system_error("read", path, error) from None
    except (Error, MemoryError):
        raise
    except Exception as error:  # any error of a codec
        name = f" of {array.basename[:60]!r}" if array.basename else ""
        raise refuse(
            "RS-F01:chunks", path=shown(path), name=name, reason=str(error)[:200] or type(error).__name__
        ) from None


def write_box(array: Any, box: tuple[slice, ...], content: Array, path: str) -> None:
    """Write a box of whole chunks to an array with the library. Raises RuntimeFailure."""
    try:
        array[box] = content
    except OSError as error:
        raise cannot_write(path, error) from None


def box_slices(start: Ints, size: Ints) -> tuple[slice, ...]:
    """Return a box as slices of an array."""
    return tuple(slice(at, at + n) for at, n in zip(start, size, strict=True))


def array_folder(array: Any) -> str | None:
    """Return the folder of an array; None if it is not local."""
    from zarr.storage import LocalStore

    store = array.store_path.store
    return os.path.join(str(store.root), array.store_path.path) if type(store) is LocalStore else None


def chunk_paths(array: Any, box: tuple[slice, ...]) -> Iterator[str]:
    """Yield the files of the chunks, or shards, that a box touches; none if they are not local."""
    folder = array_folder(array)
    if folder is None:
        return
    units = array.shards or array.chunks
    spans = (part.indices(n) for part, n in zip(box, array.shape, strict=True))
    ranges = (range(first // n, -(-last // n)) for (first, last, _), n in zip(spans, units, strict=True))
    for number in product(*ranges):
        yield os.path.join(folder, array.metadata.encode_chunk_key(number))


def check_chunk(path: str) -> None:
    """Reject anything that exists but is not a file: the library would read fill values, or wait for a pipe.

    System errors are raised unchanged.
    """
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        is_file = not os.path.islink(path)
    if not is_file:
        raise refuse("RS-F01:folder-pipe-broken", path=shown(path))


def new_chunk(path: str) -> AbstractContextManager[int]:
    """Return the handle of a file that is renamed to a chunk's name when the block succeeds.

    System errors are raised unchanged.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    # The name that the Zarr library uses for unfinished chunks.
    return new_file(f"{path}.{secrets.token_hex(16)}.partial", path)


@dataclass(frozen=True, slots=True)
class ChunkFiles:
    """The chunks of an array in a local folder, each a file of `extents` elements.

    A chunk that consists of fill values has no file, unless `keeps_empty`. `name` returns the name of a
    chunk's file in the folder, from its number along each axis.
    """

    folder: str
    shape: Ints
    extents: Ints
    dtype: np.dtype[Any]
    fill: Any
    keeps_empty: bool
    name: Callable[[Ints], str]

    @property
    def nbytes(self) -> int:
        """The size of a chunk."""
        return prod(self.extents) * self.dtype.itemsize

    def within(self, start: Ints, size: Ints) -> Iterator[Ints]:
        """Yield the numbers of the chunks that a box touches."""
        ranges = (
            range(at // c, -(-(at + n) // c)) for at, n, c in zip(start, size, self.extents, strict=True)
        )
        return product(*ranges)

    def first(self, number: Ints) -> Ints:
        """Return the first index of a chunk."""
        return tuple(i * c for i, c in zip(number, self.extents, strict=True))

    def read(self, number: Ints, rows: slice, buffer: Array) -> Array | None:
        """Read rows of a chunk, as an array over `buffer`, which fits a whole chunk; None if it has no file.

        Raises InvalidArguments for a file of another length, RuntimeFailure if the system refuses access.
        """
        row = self.nbytes // self.extents[0]
        shape = (rows.stop - rows.start, *self.extents[1:])
        into = buffer[: shape[0] * row]
        with self._opened(number) as place:
            if place is None:
                return None
            place.read_runs(Runs(np.array([rows.start * row]), into.size), into)
        return into.view(self.dtype).reshape(shape)

    def gather(self, start: Ints, size: Ints, into: Array) -> None:
        """Fill `into`, of the shape of a box, with its elements; nothing else is read. Errors as `read`."""
        chunk = MemoryDesc(self.extents, DataType.parse(carried(self.dtype)))
        for number in self.within(start, size):
            first = self.first(number)
            low, high = _overlap(first, self.extents, start, size)
            part = into[_slices_from(low, high, start)]
            with self._opened(number) as place:
                if place is None:
                    part[...] = self.fill
                    continue
                at = tuple(a - b for a, b in zip(low, first, strict=True))
                buffer = part if part.flags.c_contiguous else np.empty(part.shape, self.dtype)
                place.read(chunk, at, part.shape, buffer.reshape(-1).view(np.uint8))
                if buffer is not part:
                    part[...] = buffer

    @contextlib.contextmanager
    def _opened(self, number: Ints) -> Iterator[FilePlace | None]:
        """Yield the open file of a chunk, or None."""
        path = os.path.join(self.folder, self.name(number))
        try:
            check_chunk(path)
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            yield None
            return
        except OSError as error:
            raise system_error("read", path, error) from None
        try:
            if os.fstat(handle).st_size != self.nbytes:
                raise refuse("RS-F01:chunk-bytes-another", path=shown(path), nbytes=self.nbytes)
            yield FilePlace(handle, path, 0)
        finally:
            os.close(handle)

    def write(self, number: Ints, chunk: Array) -> None:
        """Write a whole chunk in one step. Raises RuntimeFailure if the system refuses access."""
        path = os.path.join(self.folder, self.name(number))
        try:
            if not self.keeps_empty and self._is_empty(chunk):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
                return
            with new_chunk(path) as handle:
                write_at(handle, 0, chunk.reshape(-1).view(np.uint8).data)
        except OSError as error:
            raise cannot_write(path, error) from None

    def _is_empty(self, chunk: Array) -> bool:
        """Return True if every element has the bits of the fill value: -0 and 0 differ."""
        bits = np.dtype(f"u{min(self.dtype.itemsize, 8)}")
        elements = chunk.reshape(-1).view(bits).reshape(-1, self.dtype.itemsize // bits.itemsize)
        fill = np.array([self.fill], self.dtype).view(bits)
        return bool((elements[0] == fill).all() and (elements == fill).all())


def is_plain_type(dtype: np.dtype[Any]) -> bool:
    """Return True for numbers whose bytes are the same in a file and in memory."""
    return dtype.kind in "biufc" and dtype.isnative and dtype.newbyteorder("<") == dtype


def is_little_endian(codec: Any, dtype: np.dtype[Any]) -> bool:
    """Return True for the codec that stores elements unchanged in little-endian order."""
    from zarr.codecs import BytesCodec

    if type(codec) is not BytesCodec:
        return False
    return dtype.itemsize == 1 or getattr(codec.endian, "value", codec.endian) == "little"


def chunk_files(array: Any) -> ChunkFiles | None:
    """Return the files of an array's chunks; None if they are not plain elements."""
    folder, about, dtype = array_folder(array), array.metadata, np.dtype(array.dtype)
    if folder is None or not array.shape or 0 in array.shape or array.shards is not None:
        return None
    if about.zarr_format == 3:
        codecs = tuple(about.codecs)
        is_bare = len(codecs) == 1 and is_little_endian(codecs[0], dtype)
    else:
        is_bare = about.compressor is None and not about.filters and about.order == "C"
    if not is_bare or not is_plain_type(dtype):
        return None
    return ChunkFiles(
        folder,
        tuple(array.shape),
        tuple(array.chunks),
        dtype,
        # Zarr 2 allows none, and reads zeros.
        0 if about.fill_value is None else about.fill_value,
        bool(array.config.write_empty_chunks),
        about.encode_chunk_key,
    )


def part_files(array: Any) -> ChunkFiles | None:
    """Return the files of an array's chunks if `gather` can read parts of them; None if the library must."""
    direct = chunk_files(array)
    if direct is None or direct.dtype.itemsize > 8 or len(direct.shape) > MAX_NDIMS or 0 in direct.extents:
        return None
    return direct


class ChunkMover:
    """Moves boxes from the files of one array's chunks to those of another, with `jobs` threads.

    A box is whole chunks of the target. Each source chunk that it touches is read once, and its parts are
    copied to their places in chunks of the target.
    """

    def __init__(self, source: ChunkFiles, target: ChunkFiles, jobs: int) -> None:
        self._source, self._target = source, target
        self._threads = ThreadPoolExecutor(jobs, "restride-rechunk")
        self._spaces = ThreadSpaces()

    def move(self, start: Ints, size: Ints, space: Workspace) -> None:
        """Move a box, through buffers of `space`."""
        target = self._target
        numbers = list(target.within(start, size))
        buffer = space.bytes("box", len(numbers) * target.nbytes)
        pieces = buffer.reshape(len(numbers), target.nbytes).view(target.dtype)
        chunks = {
            number: piece.reshape(target.extents) for number, piece in zip(numbers, pieces, strict=True)
        }
        for number, chunk in chunks.items():
            last = (at + n for at, n in zip(target.first(number), target.extents, strict=True))
            if any(at > n for at, n in zip(last, target.shape, strict=True)):
                chunk[...] = target.fill
        self._map(lambda number: self._spread(number, start, size, chunks), self._source.within(start, size))
        self._map(lambda number: target.write(number, chunks[number]), numbers)

    def close(self) -> None:
        """End the threads."""
        self._threads.shutdown()

    def _map(self, work: Callable[[Ints], None], numbers: Iterable[Ints]) -> None:
        """Apply `work` to all numbers; raise the first error."""
        for _ in self._threads.map(work, numbers):
            pass

    def _spread(self, number: Ints, start: Ints, size: Ints, chunks: Mapping[Ints, Array]) -> None:
        """Copy a chunk of the source to the chunks of a box."""
        source, target = self._source, self._target
        first = source.first(number)
        low, high = _overlap(first, source.extents, start, size)
        shape = tuple(b - a for a, b in zip(low, high, strict=True))
        rows = slice(low[0] - first[0], high[0] - first[0])
        chunk = source.read(number, rows, self._spaces.mine.bytes("chunk", source.nbytes))
        base = (low[0], *first[1:])
        for place in target.within(low, shape):
            begin = target.first(place)
            one, two = _overlap(begin, target.extents, low, shape)
            into = chunks[place][_slices_from(one, two, begin)]
            into[...] = source.fill if chunk is None else chunk[_slices_from(one, two, base)]


def _slices_from(low: Ints, high: Ints, base: Ints) -> tuple[slice, ...]:
    """Return a box as slices of an array that begins at `base`."""
    return tuple(slice(a - at, b - at) for a, b, at in zip(low, high, base, strict=True))


def _overlap(first: Ints, extents: Ints, start: Ints, size: Ints) -> tuple[Ints, Ints]:
    """Return the first and the last position along each axis of the intersection of both boxes."""
    sides = zip(first, extents, start, size, strict=True)
    low, high = zip(*((max(f, a), min(f + c, a + n)) for f, c, a, n in sides), strict=True)
    return low, high
