"""Files that were written and may be lost in a power cut, until the disk says that it has them."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable

from .replacement import cannot_write, sync_folder

_BOOT = "/proc/sys/kernel/random/boot_id"


class UnsafeFiles:
    """Paths of files that were written since they were last made safe. Threads may add meanwhile."""

    def __init__(self) -> None:
        self._lock, self._paths = threading.Lock(), set[str]()

    def add(self, paths: Iterable[str]) -> None:
        """Files were written."""
        found = set(paths)
        with self._lock:
            self._paths |= found

    def make_safe(self) -> None:
        """Force them to the disk, and their names. Raises RuntimeFailure where the system refuses."""
        with self._lock:
            written, self._paths = self._paths, set()
        for path in written:
            sync_file(path)
        for folder in {os.path.dirname(path) for path in written}:
            sync_folder(folder)


def sync_file(path: str) -> None:
    """Force a file to the disk; one that is not there, as a chunk of zeros, needs nothing."""
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
    """What tells one run of the system from another: what one has written the next may not find."""
    try:
        with open(_BOOT, encoding="ascii") as file:
            return file.read(64).strip()
    except OSError:
        return ""
