"""File names, and opening files for reading: only plain ones, whose changes can be detected."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

from ..desc.parse import short_repr
from ..errors import Error, refuse
from .writing.replacement import shown, system_error


class FileState(NamedTuple):
    """Facts that distinguish two states of a file, without reading it.

    The modification time can be set back by whoever writes a file, but not the time of the status change; the
    latter also changes when a file is renamed.
    """

    nbytes: int
    modified_ns: int
    inode: int
    status_ns: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileState:
        """Return the state according to the system."""
        return cls(status.st_size, status.st_mtime_ns, status.st_ino, status.st_ctime_ns)


def path_text(path: object, what: str, hint: str) -> str:
    """Return the file name passed by a caller; `what` describes it in the error for anything else."""
    try:
        text = os.fspath(path)  # type: ignore[call-overload]
    except Exception:  # a foreign __fspath__ can raise anything
        text = None
    if isinstance(text, str):
        return text
    raise refuse("RS-V08:no-name-file", what=what, path=short_repr(path), type=type(path).__name__, hint=hint)


def check_link(folder: str, path: str) -> None:
    """Refuse a link that leads out of the folder. Raises InvalidArguments that names it."""
    if leads_out(folder, path):
        hint = "convert follows such links with --follow-links (follow_links=True); else "
        raise link_error(path, hint)


def link_error(path: str, hint: str = "") -> Error:
    """Return the error for a link that leads out of its folder; `hint`: what else the caller can do."""
    target = shown(os.path.realpath(path))[:200]
    return refuse("RS-F01:link-not-folder", path=shown(path), target=target, hint=hint)


def leads_out(folder: str, path: str) -> bool:
    """Return True for a link that leads out of the folder.

    In the cache of Hugging Face, snapshots of a model link to the adjacent folder `blobs`.
    """
    root, target = os.path.realpath(folder), os.path.realpath(path)
    model, mark, _ = root.rpartition(f"{os.sep}snapshots{os.sep}")
    roots = (root, os.path.join(model, "blobs")) if mark else (root,)
    return not any(os.path.commonpath((one, target)) == one for one in roots)


def about_file(path: str, function: Callable[..., Any], *args: Any, hint: str = "") -> Any:
    """Return `function(*args)`, adding the file's name to its errors."""
    try:
        return function(*args)
    except Error as error:
        why = f"{error.what}: {error.why}" if error.why else error.what
        raise refuse(
            "RS-F01:link", path=shown(path), where=error.where, why=why, hint=error.hint or hint
        ) from None


def opened(path: str, what: str = "a file of tensors") -> BinaryIO:
    """Open the plain file at `path`. Opening a pipe would wait for its writer, and a device has no length.

    Raises RuntimeFailure if the system refuses access, InvalidArguments for anything but a plain file.
    """
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        raise system_error(
            "read", path, error, "check the name" if error.errno == errno.ENOENT else ""
        ) from None
    except ValueError:
        raise refuse("RS-F01:no-file-name", path=shown(path), what=what) from None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise refuse("RS-F01:folder-pipe-device", path=shown(path), what=what)


@contextlib.contextmanager
def close_on_error(file: BinaryIO) -> Iterator[None]:
    """Close the file if the block raises, since nobody receives it then."""
    try:
        yield
    except BaseException:
        file.close()
        raise


def state_of(file: BinaryIO) -> FileState:
    """Return the state of an open file."""
    return FileState.of(os.fstat(file.fileno()))


def read_at(file: BinaryIO, path: str, start: int, nbytes: int) -> bytes:
    """Read exactly `nbytes` bytes from `start` on. Raises InvalidArguments for a truncated file."""
    try:
        content = os.pread(file.fileno(), nbytes, start)
        while len(content) < nbytes:
            more = os.pread(file.fileno(), nbytes - len(content), start + len(content))
            if not more:
                break
            content += more
    except OSError as error:
        raise system_error("read", path, error) from None
    if len(content) == nbytes:
        return content
    raise refuse("RS-F01:ends-byte", path=shown(path), start=start + len(content))
