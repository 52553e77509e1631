"""The parts of a draft: a file, or an array of Zarr, at its full length from the start."""

from __future__ import annotations

import contextlib
import os
import stat
from typing import Protocol

from ...errors import refuse
from ..places import FilePlace, TensorPlace, write_at
from ..zarr.image import ZarrImage, ZarrPart
from .file_image import FileImage
from .replacement import reserve, shown

Image = FileImage | ZarrImage


class DraftPart(Protocol):
    """What is written to until a draft is whole. System errors are raised as they come."""

    def place(self, start: int) -> TensorPlace:
        """Where a tensor goes that the image has at `start`."""

    def make_safe(self) -> None:
        """Force to the disk what was written so far."""

    def complete(self) -> None:
        """Write what depends on the tensors, and force all to the disk."""

    def forget_cached(self) -> None:
        """Let the next reads come from the disk, where the system can be told so."""

    def close(self) -> None:
        """Let go of it."""


def create_part(path: str, label: str, image: Image) -> DraftPart:
    """Make a part where there is nothing; errors call it `label`."""
    if isinstance(image, ZarrImage):
        return ZarrPart.create(path, label, image)
    return FilePart.create(path, label, image)


def open_part(path: str, label: str, image: Image) -> DraftPart:
    """Take a part up. Raises FileNotFoundError where it is not what it must be, RuntimeFailure where it is
    somebody else's.
    """
    if isinstance(image, ZarrImage):
        check_owner(label, os.lstat(path), is_folder=True)
        return ZarrPart.open(path, label, image)
    return FilePart.open(path, label, image)


class FilePart:
    """A file of a draft."""

    def __init__(self, handle: int, label: str, image: FileImage) -> None:
        self._handle, self._label, self._image = handle, label, image

    @classmethod
    def create(cls, path: str, label: str, image: FileImage) -> FilePart:
        """A new file: a full disk is known at once."""
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        part = cls(handle, label, image)
        try:
            reserve(handle, image.nbytes)
            os.ftruncate(handle, image.nbytes)
            part._write_heads()
        except BaseException:
            part.close()
            raise
        return part

    @classmethod
    def open(cls, path: str, label: str, image: FileImage) -> FilePart:
        """A file that is there."""
        part = cls(os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW), label, image)
        try:
            status = os.fstat(part._handle)
            check_owner(label, status)
            if status.st_size != image.nbytes:
                raise FileNotFoundError
            # No checksum of a tile says whether they are what they were.
            part._write_heads()
        except BaseException:
            part.close()
            raise
        return part

    def _write_heads(self) -> None:
        for start, piece in self._image.pieces:
            write_at(self._handle, start, memoryview(piece))
        os.fdatasync(self._handle)

    def place(self, start: int) -> FilePlace:
        """At a byte of the file."""
        return FilePlace(self._handle, self._label, start)

    def make_safe(self) -> None:
        """The bytes; the length was safe before."""
        os.fdatasync(self._handle)

    def complete(self) -> None:
        """Sums and the like, then all of it."""
        if self._image.finish is not None:
            self._image.finish(self._handle)
        os.fsync(self._handle)

    def forget_cached(self) -> None:
        """By the system's own advice."""
        with contextlib.suppress(OSError, AttributeError):
            os.posix_fadvise(self._handle, 0, 0, os.POSIX_FADV_DONTNEED)

    def close(self) -> None:
        """The handle."""
        with contextlib.suppress(OSError):
            os.close(self._handle)


def check_owner(label: str, status: os.stat_result, *, is_folder: bool = False) -> None:
    """Refuse what somebody else has put in the way."""
    is_kind = stat.S_ISDIR(status.st_mode) if is_folder else stat.S_ISREG(status.st_mode)
    if is_kind and status.st_uid == os.geteuid() and (is_folder or status.st_nlink <= 1):
        return
    raise refuse("RS-F02:file-same-folder", label=shown(label))
