"""What is written of a file besides the tensors: bytes at fixed places, and where each tensor goes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ..stored_tensors import StoredArray

PIECE = 8 << 20
"""Bytes that are read or written in one call: Python sees Ctrl-C between pieces."""

Finish = Callable[[int], None]
"""Completes a file whose tensors are written, by the handle of the file."""


@dataclass(frozen=True, slots=True)
class FileImage:
    """A file of `nbytes` bytes: `pieces` of fixed bytes, and the starts of `arrays` in it.

    `finish` is for formats that say something of the tensors' bytes, such as sums.
    """

    arrays: tuple[StoredArray, ...]
    starts: tuple[int, ...]
    pieces: tuple[tuple[int, bytes], ...]
    nbytes: int
    finish: Finish | None = None

    @property
    def digest(self) -> str:
        """A hash of all but the tensors."""
        found = hashlib.sha256(repr((self.starts, self.nbytes)).encode())
        for start, piece in self.pieces:
            found.update(start.to_bytes(8, "little") + piece)
        return found.hexdigest()


def packed_starts(arrays: Sequence[StoredArray], start: int, align: int = 1) -> Iterator[int]:
    """Where each array starts, one behind the other, each at a multiple of `align`; and the end of all."""
    for array in arrays:
        start = -(-start // align) * align
        yield start
        start += array.nbytes
    yield start
