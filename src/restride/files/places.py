"""Transfer of bytes between files and memory: boxes are gathered from their runs, and scattered to them.

Files are read and written, not mapped: a file truncated by another program then causes an error instead of a
crash, and memory use is independent of the size of the files.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..errors import refuse
from ..runtime.alloc import Array
from ..runtime.memory import Memory
from ..runtime.result_pool import allocate
from .conversion.tiles import Ints, Runs, runs_of
from .stored_tensors import PIECE
from .writing.replacement import cannot_write, shown, system_error

# Runs of this length are flushed to disk as soon as they are written; shorter ones wait for their neighbors.
_LONG_RUN = 64 << 10
_WRITE_NOW = 2
# Data that is only copied stays in a core's cache between reading and writing.
_COPIED = 1 << 20


class TensorPlace(Protocol):
    """The place of a tensor, of which several threads read and write boxes."""

    def read(self, desc: MemoryDesc, start: Ints, size: Ints, into: Array) -> None:
        """Fill `into` with the box of `size` at `start`, gathered.

        Raises InvalidArguments for a truncated file, RuntimeFailure if the system refuses access.
        """

    def write(self, desc: MemoryDesc, start: Ints, size: Ints, content: Array) -> None:
        """Write a gathered box. Raises RuntimeFailure if the system refuses, for example on a full disk."""


class FilePlace(NamedTuple):
    """A tensor in a file: an open file, its path for messages, and the start of the tensor in bytes."""

    handle: int
    path: str
    start: int

    def read(self, desc: MemoryDesc, start: Ints, size: Ints, into: Array) -> None:
        """Read run after run."""
        self.read_runs(runs_of(desc, start, size), into)

    def read_runs(self, runs: Runs, into: Array) -> None:
        """Fill `into` with those runs of the tensor."""
        for at, piece in self._pieces(runs, into):
            self.read_piece(at, piece)

    def write(self, desc: MemoryDesc, start: Ints, size: Ints, content: Array) -> None:
        """Write run after run."""
        self.write_runs(runs_of(desc, start, size), content)

    def write_runs(self, runs: Runs, content: Array) -> None:
        """Write bytes to those runs of the tensor."""
        for at, piece in self._pieces(runs, content):
            self.write_piece(at, piece)

    def _pieces(self, runs: Runs, content: Array) -> Iterator[tuple[int, memoryview]]:
        """Yield each run's place in the file, and its part of the bytes."""
        view, n = content.data, runs.nbytes
        return ((at, view[i * n : (i + 1) * n]) for i, at in enumerate((runs.starts + self.start).tolist()))

    def read_piece(self, start: int, into: memoryview) -> None:
        """Fill `into` with bytes from a place in the file."""
        at = 0
        while at < len(into):
            try:
                count = os.preadv(self.handle, [into[at : at + PIECE]], start + at)
            except OSError as error:
                raise system_error("read", self.path, error) from None
            if not count:
                raise refuse("RS-F01:got-shorter-while", path=shown(self.path))
            at += count

    def write_piece(self, start: int, content: memoryview) -> None:
        """Write bytes to a place in the file."""
        try:
            write_at(self.handle, start, content)
        except OSError as error:
            raise cannot_write(self.path, error) from None

    def copy_to(self, target: FilePlace, first: int, nbytes: int, space: Workspace) -> None:
        """Copy bytes of the tensor, beginning at `first`, to the same place of another."""
        at, end = first, first + nbytes
        while at < end:
            into = space.bytes("copy", min(_COPIED, end - at))
            self.read_piece(self.start + at, into.data)
            target.write_piece(target.start + at, into.data)
            at += into.size


@dataclass(slots=True)
class Checksum:
    """The CRC-32 of consecutive pieces of bytes."""

    value: int = 0


@dataclass(frozen=True, slots=True)
class SummedPlace:
    """A place that computes a checksum of everything written and read."""

    place: TensorPlace
    checksum: Checksum

    def read(self, desc: MemoryDesc, start: Ints, size: Ints, into: Array) -> None:
        """Read from the place."""
        self.place.read(desc, start, size, into)
        self.checksum.value = zlib.crc32(into.data, self.checksum.value)

    def write(self, desc: MemoryDesc, start: Ints, size: Ints, content: Array) -> None:
        """Write to the place."""
        self.place.write(desc, start, size, content)
        self.checksum.value = zlib.crc32(content.data, self.checksum.value)


def bytes_of(memory: Memory) -> Array:
    """Return all bytes of a non-empty memory as an array."""
    data = memory.data
    assert data is not None
    return np.asarray(data.view(np.uint8)[: memory.desc.size])


class Workspace:
    """One thread's memory for tiles, reused for each."""

    def __init__(self) -> None:
        self._held: dict[str, Array] = {}

    def bytes(self, name: str, nbytes: int) -> Array:
        """Return a buffer of this size under a name, with undefined content; reused if large enough."""
        buffer = self._held.get(name)
        if buffer is None or buffer.size < nbytes:
            self._held.pop(name, None)
            buffer = self._held[name] = allocate(nbytes).bytes()
        return buffer[:nbytes]


class ThreadSpaces(threading.local):
    """A separate workspace for each thread."""

    def __init__(self) -> None:
        self.mine = Workspace()


def write_at(handle: int, start: int, content: memoryview) -> None:
    """Write bytes to a file from byte `start` on. System errors are raised unchanged.

    Where the system has a call for it, writing long runs to disk is started at once, without waiting: the
    disk works while the next bytes are computed, and the final sync, which alone guarantees safety and
    reports errors, has little left to do.
    """
    at, begin = 0, _range_writer()
    while at < len(content):
        count = os.pwrite(handle, content[at : at + PIECE], start + at)
        if count >= _LONG_RUN and begin is not None:
            begin(handle, start + at, count, _WRITE_NOW)
        at += count


@functools.cache
def _range_writer() -> Callable[[int, int, int, int], int] | None:
    """Return Linux's call for that, or None."""
    if sys.platform != "linux" or sys.maxsize < 2**32:
        return None
    call = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if call is not None:
        call.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
        call.restype = ctypes.c_int
    return call
