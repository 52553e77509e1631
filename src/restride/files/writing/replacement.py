"""Files that appear whole under their name, or not at all (reliability, point 9).

Content goes to a temporary file in the same folder, is forced to the disk, and then takes the name in one
step. Until that step whatever had the name stays as it was: through errors, a full disk, Ctrl-C or a kill.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Iterator
from typing import BinaryIO

from ...errors import Error, refuse

_HINTS = {
    errno.ENOSPC: "free space, or write to another disk",
    errno.EDQUOT: "free space: your quota is used up",
    errno.EFBIG: "files may not be that large here: see ulimit -f, or write to another disk",
    errno.ENOENT: "make the folder first",
    errno.ENOTDIR: "a part of the path is no folder",
    errno.EACCES: "choose a folder that you may write to",
    errno.EPERM: "choose a folder that you may write to",
    errno.EROFS: "choose a folder that you may write to",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "allow more open files: ulimit -n",
    errno.ENFILE: "close other programs: the system has no more open files",
}
_NO_RESERVING = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)


def shown(path: str) -> str:
    """A file name for a message: quoted where it would break the line or be overlooked."""
    return path if path.isprintable() and path.strip() == path != "" else repr(path)


def system_error(verb: str, path: str, error: OSError, hint: str = "") -> Error:
    """The error for what the system refused to do with the file at `path`."""
    why = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        hint = hint or _HINTS[error.errno]
    return refuse("RS-F02:cannot", verb=verb, path=shown(path), why=why, hint=hint)


class Replacement:
    """What will stand under `path`. Making one checks the place, so that no work is done for nothing.

    A symbolic link is followed, the access rights of a file that is there are kept. Raises RuntimeFailure
    where no file can be put there.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        if not path:
            raise refuse("RS-F02:cannot-write-file")
        try:
            self.target = os.path.realpath(path)
            self.mode = _mode_of(self.target)
            folder = os.stat(os.path.dirname(self.target))
        except OSError as error:
            raise cannot_write(path, error) from None
        except ValueError:
            raise refuse("RS-F02:no-file-name", path=shown(path)) from None
        if not stat.S_ISDIR(folder.st_mode):
            raise refuse("RS-F02:folder-no-folder", path=shown(path))
        if self.mode is not None and not _may_replace(self.target):
            raise refuse("RS-F02:folder-device-name", path=shown(path))

    @contextlib.contextmanager
    def open(self, nbytes: int) -> Iterator[BinaryIO]:
        """A file to write `nbytes` bytes to; it takes the name when the block ends without an error.

        Raises RuntimeFailure where the system refuses, for lack of space before anything is written.
        """
        try:
            yield from self._open(nbytes)
        except OSError as error:
            raise cannot_write(self.path, error) from None

    def _open(self, nbytes: int) -> Iterator[BinaryIO]:
        folder, name = os.path.split(self.target)
        temporary = os.path.join(folder, f".{name[:64]}.{secrets.token_hex(6)}.tmp")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
        handle = os.open(temporary, flags, 0o666)
        try:
            with os.fdopen(handle, "w+b") as file:
                reserve(file.fileno(), nbytes)
                if self.mode is not None:
                    os.fchmod(file.fileno(), self.mode)
                yield file
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.target)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        sync_folder(folder)


def _mode_of(path: str) -> int | None:
    """The access rights of the file at `path`; None where there is none."""
    try:
        return stat.S_IMODE(os.stat(path).st_mode)
    except FileNotFoundError:
        return None


def _may_replace(path: str) -> bool:
    return stat.S_ISREG(os.stat(path).st_mode) and os.access(path, os.W_OK)


def reserve(handle: int, nbytes: int) -> None:
    """Take the space now: a full disk is known before the work of filling it."""
    if not hasattr(os, "posix_fallocate") or not nbytes:
        return
    try:
        os.posix_fallocate(handle, 0, nbytes)
    except OSError as error:
        if error.errno not in _NO_RESERVING:
            raise


def sync_folder(folder: str) -> None:
    """Force the new name to the disk. The content is safe already, so a system that cannot is no error."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def cannot_write(path: str, error: OSError) -> Error:
    """The error for what the system refused while the file at `path` was written."""
    return system_error("write", path, error, _HINTS.get(error.errno or 0, ""))
