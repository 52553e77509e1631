"""Compressed .npz archives: expanded into a file without a name, in which tensors lie as in any other.

What is compressed can only be read from its start. So the whole archive is expanded once, in pieces, and
from then on read, mapped and cut into tiles as one that `np.savez` has written. The system forgets the
expanded file when it is closed, whatever happens.
"""

from __future__ import annotations

import os
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Sequence
from typing import IO, BinaryIO

from ...errors import Error, refuse
from ..writing.file_image import PIECE
from ..writing.replacement import shown, system_error

# Not LZMA: a small file may ask for a dictionary of gigabytes.
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)
_DAMAGED = (zipfile.BadZipFile, zlib.error, struct.error, EOFError, ValueError, RuntimeError, OverflowError)


def is_compressed(members: Sequence[zipfile.ZipInfo]) -> bool:
    """True where a member has no bytes of its own in the archive."""
    return any(member.compress_type != zipfile.ZIP_STORED for member in members)


def expanded(file: BinaryIO, path: str, members: Sequence[zipfile.ZipInfo], folder: str | None) -> BinaryIO:
    """An archive of the same members, uncompressed, in a file without a name in `folder`.

    `folder`: where there is room for it; where there is none, or it cannot be written to, the system's own
    folder for temporary files.

    Raises InvalidArguments for damaged members and those of a method that is not known, RuntimeFailure where
    there is no room, or the system refuses.
    """
    for member in members:
        if member.compress_type not in _METHODS or member.flag_bits & 1:
            raise refuse(
                "RS-F01:member-encrypted-compressed", path=shown(path), filename=member.filename[:60]
            )
    try:
        # Of no name: nothing is left, whatever happens.
        is_usable = folder is not None and os.access(folder, os.W_OK | os.X_OK)
        copy = tempfile.TemporaryFile(dir=folder if is_usable else None)  # noqa: SIM115
    except OSError as error:
        raise system_error("expand", path, error, "set TMPDIR to a folder with room") from None
    try:
        _check_room(copy.fileno(), path, sum(member.file_size for member in members))
        with zipfile.ZipFile(file) as archive, zipfile.ZipFile(copy, "w", allowZip64=True) as target:
            for member in members:
                plain = zipfile.ZipInfo(member.filename)
                with archive.open(member) as read, target.open(plain, "w", force_zip64=True) as written:
                    _copy(read, written, path, member)
    except Error:
        copy.close()
        raise
    except _DAMAGED as error:
        copy.close()
        raise refuse("RS-F01:damaged", path=shown(path), why=f"a member is damaged: {error}"[:200]) from None
    except OSError as error:
        copy.close()
        if error.errno is None:  # of bzip2
            raise refuse(
                "RS-F01:damaged", path=shown(path), why=f"a member is damaged: {error}"[:200]
            ) from None
        raise system_error("expand", path, error, "free space, or set TMPDIR to a folder with room") from None
    except BaseException:
        copy.close()
        raise
    return copy


def _copy(read: IO[bytes], written: IO[bytes], path: str, member: zipfile.ZipInfo) -> None:
    """All of a member, of the length that the directory says: no more than that is ever expanded."""
    left = member.file_size
    while piece := read.read(min(PIECE, left + 1)):
        left -= len(piece)
        if left < 0:
            break
        written.write(piece)
    if left:
        raise refuse("RS-F01:member-another-length", path=shown(path), filename=member.filename[:60])


def _check_room(handle: int, path: str, nbytes: int) -> None:
    """Refuse what cannot fit: a small archive may say that it expands to any length."""
    space = os.fstatvfs(handle)
    if nbytes > space.f_bavail * space.f_frsize:
        raise refuse("RS-F02:cannot-expand", path=shown(path), nbytes=nbytes)
