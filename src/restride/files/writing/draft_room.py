"""Where a draft lies, and whether there is room for it."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat

_LONG_NAME = 200
# In which stat counts, whatever the disk.
_STAT_BLOCK = 512


def draft_paths(target: str) -> tuple[str, str]:
    """Where the draft of a file or folder is, and its journal."""
    parent, name = os.path.split(target)
    if len(os.fsencode(name)) > _LONG_NAME:
        name = hashlib.sha256(os.fsencode(name)).hexdigest()
    hidden = os.path.join(parent, f".{name}.restride-")
    return f"{hidden}part", f"{hidden}journal"


def room_for(path: str) -> int | None:
    """Bytes that a draft of `path` may take: what is free, and what an older draft of it holds.

    None where the system does not say.
    """
    part, _ = draft_paths(os.path.realpath(path))
    try:
        space = os.statvfs(os.path.dirname(part))
        return space.f_bavail * space.f_frsize + _held_bytes(part)
    except (OSError, AttributeError):
        return None


def _held_bytes(part: str) -> int:
    """Bytes on the disk of a file, or of all files of a folder; 0 where there is nothing."""
    with contextlib.suppress(FileNotFoundError):
        status = os.lstat(part)
        if not stat.S_ISDIR(status.st_mode):
            return status.st_blocks * _STAT_BLOCK
    return sum(
        os.lstat(os.path.join(folder, name)).st_blocks * _STAT_BLOCK
        for folder, _, names in os.walk(part)
        for name in names
    )
