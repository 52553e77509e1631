"""Files that appear under their name as a whole, or not at all (reliability, point 9).

Content goes to a temporary file in the same folder, is flushed to disk, and is then renamed in one step.
Until that step, an existing file of that name stays unchanged: through errors, a full disk, Ctrl-C or a kill.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
import threading
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from ...errors import Error, refuse

_HINTS = {
    errno.ENOSPC: "free space, or write to another disk",
    errno.EDQUOT: "free space: your quota is used up",
    errno.EFBIG: "files may not be that large here: see ulimit -f, or write to another disk",
    errno.ENOENT: "create the folder first",
    errno.ENOTDIR: "a part of the path is not a folder",
    errno.EACCES: "choose a folder that you can write to",
    errno.EPERM: "choose a folder that you can write to",
    errno.EROFS: "choose a folder that you can write to",
    errno.ENAMETOOLONG: "choose a shorter name",
    errno.EMFILE: "allow more open files: ulimit -n",
    errno.ENFILE: "close other programs: the system has no more open files",
}
_NO_RESERVING = (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS)


def shown(path: str) -> str:
    """Return a file name for a message: quoted if it would break the line or be overlooked."""
    return path if path.isprintable() and path.strip() == path != "" else repr(path)


def system_error(verb: str, path: str, error: OSError, hint: str = "") -> Error:
    """Return the error for an operation on the file at `path` that the system refused."""
    why = os.strerror(error.errno) if error.errno else str(error)
    if error.errno in (errno.EMFILE, errno.ENFILE):
        hint = hint or _HINTS[error.errno]
    return refuse("RS-F02:cannot", verb=verb, path=shown(path), why=why, hint=hint)


@contextlib.contextmanager
def new_file(temporary: str, path: str) -> Iterator[int]:
    """Yield the handle of a new file, which is renamed to `path` when the block ends without an error.

    System errors are raised unchanged; then no file is left.
    """
    handle = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
    try:
        try:
            yield handle
        finally:
            os.close(handle)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


class Replacement:
    """A file that will appear under `path`. Creating one checks the place, so that no work is done in vain.

    A symbolic link is followed, and access rights of an existing file are kept. Raises RuntimeFailure if no
    file can be put there.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.mode: int | None = None
        if not path:
            raise refuse("RS-F02:cannot-write-file")
        try:
            self.target, status = os.path.realpath(path), None
            with contextlib.suppress(FileNotFoundError):
                status = os.stat(self.target)
            folder = os.stat(os.path.dirname(self.target))
        except OSError as error:
            raise cannot_write(path, error) from None
        except ValueError:
            raise refuse("RS-F02:no-file-name", path=shown(path)) from None
        if not stat.S_ISDIR(folder.st_mode):
            raise refuse("RS-F02:folder-no-folder", path=shown(path))
        if status is None:
            return
        self.mode = stat.S_IMODE(status.st_mode)
        if not (stat.S_ISREG(status.st_mode) and os.access(self.target, os.W_OK)):
            raise refuse("RS-F02:folder-device-name", path=shown(path))

    @contextlib.contextmanager
    def open(self, nbytes: int) -> Iterator[BinaryIO]:
        """Yield a file for writing `nbytes` bytes; it is renamed when the block ends without an error.

        Raises RuntimeFailure if the system refuses; for lack of space, before anything is written.
        """
        folder, name = os.path.split(self.target)
        temporary = os.path.join(folder, f".{name[:64]}.{secrets.token_hex(6)}.tmp")
        try:
            with new_file(temporary, self.target) as handle:
                reserve(handle, nbytes)
                if self.mode is not None:
                    os.fchmod(handle, self.mode)
                with os.fdopen(handle, "w+b", closefd=False) as file:
                    yield file
                os.fsync(handle)
            sync_folder(folder)
        except OSError as error:
            raise cannot_write(self.path, error) from None


def reserve(handle: int, nbytes: int) -> None:
    """Reserve the space now, so that a full disk is detected before the work."""
    if not hasattr(os, "posix_fallocate") or not nbytes:
        return
    try:
        os.posix_fallocate(handle, 0, nbytes)
    except OSError as error:
        if error.errno not in _NO_RESERVING:
            raise


def sync_folder(folder: str) -> None:
    """Flush the new name to disk. The content is already safe, so systems without this are not an error."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def cannot_write(path: str, error: OSError) -> Error:
    """Return the error for writing the file at `path`, which the system refused."""
    return system_error("write", path, error, _HINTS.get(error.errno or 0, ""))


class UnsafeFiles:
    """Paths of files written since the last flush. Other threads may add more meanwhile."""

    def __init__(self) -> None:
        self._lock, self._paths = threading.Lock(), set[str]()

    def add(self, paths: Iterable[str]) -> None:
        """Record that files were written."""
        new = set(paths)
        with self._lock:
            self._paths |= new

    def make_safe(self) -> None:
        """Flush them and their names to disk. Raises RuntimeFailure if the system refuses."""
        with self._lock:
            paths, self._paths = self._paths, set()
        for path in paths:
            sync_file(path)
        for folder in {os.path.dirname(path) for path in paths}:
            sync_folder(folder)


def sync_file(path: str) -> None:
    """Flush a file to disk; a missing one, such as a chunk of zeros, needs nothing."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        os.close(handle)


def boot_id() -> str:
    """Return a text that identifies this boot of the system: unflushed data may be lost in the next."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read(64).strip()
    except OSError:
        return ""


def check_owner(label: str, status: os.stat_result, *, is_folder: bool = False) -> None:
    """Reject files of another owner in the place of a draft."""
    is_kind = stat.S_ISDIR(status.st_mode) if is_folder else stat.S_ISREG(status.st_mode)
    if is_kind and status.st_uid == os.geteuid() and (is_folder or status.st_nlink <= 1):
        return
    raise refuse("RS-F02:file-same-folder", label=shown(label))


def files_below(folder: str) -> Iterator[str]:
    """Yield the paths of all files in a folder and its subfolders."""
    return (os.path.join(below, name) for below, _, names in os.walk(folder) for name in names)
