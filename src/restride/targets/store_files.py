"""Files of the object store: read, written and named as a whole."""

from __future__ import annotations

import contextlib
import os
import stat


def take_name(folder: int | None, temporary: str, target: str) -> None:
    """Give a complete file its name. An empty folder of that name is removed, as it would block the name.

    Raises IsADirectoryError for a nonempty one: it is not ours to clear.
    """
    try:
        os.replace(temporary, target, src_dir_fd=folder, dst_dir_fd=folder)
        return
    except OSError:
        if not _is_folder(folder, target):
            raise
    try:
        os.rmdir(target, dir_fd=folder)
    except OSError as error:
        raise IsADirectoryError(error.errno, "a folder has the entry's name") from None
    os.replace(temporary, target, src_dir_fd=folder, dst_dir_fd=folder)


def _is_folder(folder: int | None, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(name, dir_fd=folder).st_mode)
    except OSError:
        return False


def make_private(path: str) -> None:
    """Create the folder with mode 0700, whatever is missing above it with the usual mode."""
    if os.path.isdir(path):
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)


def read_all(handle: int, size: int) -> bytes:
    """Return all bytes of an open file; `size` is its expected length."""
    pieces = []
    while piece := os.read(handle, size + 1):
        pieces.append(piece)
    return b"".join(pieces)


def write_all(handle: int, content: bytes) -> None:
    """Write all bytes, in as many steps as the system needs."""
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(handle, rest) :]
