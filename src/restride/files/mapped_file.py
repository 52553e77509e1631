"""A plain file mapped into memory: pages take memory only once read, and can be released afterward."""

from __future__ import annotations

import mmap

import numpy as np

from ..errors import refuse
from ..runtime.alloc import Array, address_of
from .plain_file import opened, state_of
from .writing.replacement import shown, system_error

__all__ = ["MappedFile", "is_mapped", "release_pages"]

# Reading one byte of a file just written can load this much of it, including neighboring tensors.
_FOLIO = 1 << 21


class MappedFile:
    """A view of the bytes of a file. Callers that read them later call `check` first.

    Raises RuntimeFailure if the system refuses access, InvalidArguments for anything but a plain file.
    """

    def __init__(self, path: str, what: str) -> None:
        self.path, self._file = path, opened(path, what)
        self._state = state_of(self._file)
        try:
            self.content = memoryview(
                mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ) if self._state.nbytes else b""
            )
        except OSError as error:
            raise system_error("map", path, error) from None

    def check(self) -> None:
        """Raise RuntimeFailure if the file was written since: truncated parts cannot even be read."""
        # It may have been renamed or removed meanwhile: the content is the same.
        if state_of(self._file)[:-1] != self._state[:-1]:
            raise refuse("RS-F02:written-since", path=shown(self.path))

    def release_pages(self) -> None:
        """Release all pages to the system; they can be read again."""
        if len(self.content):
            release_pages(np.frombuffer(self.content, np.uint8))

    def __del__(self) -> None:
        file = getattr(self, "_file", None)
        if file is not None:
            file.close()


def is_mapped(values: Array) -> bool:
    """Return True for a view of a mapped file, which can be read only while the file is whole."""
    return _mapping(values) is not None


def release_pages(values: Array) -> None:
    """Release the pages of a view of a mapped file to the system; they can be read again."""
    mapped = _mapping(values)
    if mapped is None or not hasattr(mapped, "madvise") or not values.nbytes:
        return
    start = address_of(values) - address_of(np.frombuffer(mapped, np.uint8))
    first, end = start // _FOLIO * _FOLIO, -(-(start + values.nbytes) // _FOLIO) * _FOLIO
    mapped.madvise(mmap.MADV_DONTNEED, first, min(end, len(mapped)) - first)


def _mapping(values: Array) -> mmap.mmap | None:
    base: object = values
    while isinstance(base, np.ndarray):
        base = base.base
    mapped = base.obj if isinstance(base, memoryview) else base
    return mapped if isinstance(mapped, mmap.mmap) else None
