"""Bytes between files and memory: boxes gathered from their runs, and scattered to them.

Files are read and written, not mapped: what another program cuts short is an error then, and kills nobody;
and memory is what is asked for, whatever the size of the files.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from ..runtime.alloc import Array
from ..runtime.result_pool import allocate
from .image import PIECE
from .opening import bad_file
from .tiles import Runs
from .whole import cannot_write, system_error


class FilePlace(NamedTuple):
    """Where a tensor lies: an open file, its path for messages, and the byte where the tensor starts."""

    handle: int
    path: str
    start: int


class Workspace:
    """Memory of one thread for its tiles, used again for each."""

    def __init__(self) -> None:
        self._held: dict[str, Array] = {}

    def bytes(self, name: str, nbytes: int) -> Array:
        """So many bytes under a name, of undefined content; they are the same as last time, or larger."""
        found = self._held.get(name)
        if found is None or found.size < nbytes:
            self._held.pop(name, None)
            found = self._held[name] = allocate(nbytes).bytes()
        return found[:nbytes]


def gather(place: FilePlace, runs: Runs, into: Array) -> None:
    """Fill `into` with a box. Raises InvalidArguments for a file that ends before, RuntimeFailure."""
    view = into.data
    for i, start in enumerate((runs.starts + place.start).tolist()):
        _read(place, start, view[i * runs.nbytes : (i + 1) * runs.nbytes])


def scatter(place: FilePlace, runs: Runs, content: Array) -> None:
    """Write a box. Raises RuntimeFailure where the system refuses, as on a full disk."""
    view = content.data
    for i, start in enumerate((runs.starts + place.start).tolist()):
        _write(place, start, view[i * runs.nbytes : (i + 1) * runs.nbytes])


def copy_bytes(source: FilePlace, target: FilePlace, first: int, nbytes: int, space: Workspace) -> None:
    """Copy bytes from `first` on, counted from the start of both places."""
    at, end = first, first + nbytes
    while at < end:
        into = space.bytes("copy", min(PIECE, end - at))
        _read(source, source.start + at, into.data)
        _write(target, target.start + at, into.data)
        at += into.size


def whole_run(nbytes: int) -> Runs:
    """One run, from the start on."""
    return Runs(np.zeros(1, np.int64), nbytes)


def _read(place: FilePlace, start: int, into: memoryview) -> None:
    at = 0
    while at < len(into):
        try:
            count = os.preadv(place.handle, [into[at : at + PIECE]], start + at)
        except OSError as error:
            raise system_error("read", place.path, error) from None
        if not count:
            hint = "wait for its writer, then try again"
            raise bad_file(place.path, "it got shorter while it was read", hint)
        at += count


def _write(place: FilePlace, start: int, content: memoryview) -> None:
    at = 0
    while at < len(content):
        try:
            at += os.pwrite(place.handle, content[at : at + PIECE], start + at)
        except OSError as error:
            raise cannot_write(place.path, error) from None
