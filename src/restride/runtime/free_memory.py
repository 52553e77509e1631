"""Total and free memory for this process: the machine's, or its control group's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from ..errors import OutOfMemory, refuse

_PROC, _GROUPS = "/proc", "/sys/fs/cgroup"
# Default if neither the system nor a control group says.
_UNKNOWN = 8 << 30
# Smaller sizes are not checked: the query costs as much as writing some hundred kilobytes.
_ASKED = 1 << 28


class FreeMemory(NamedTuple):
    """In bytes: the total that this process can use, and the available part."""

    total: int
    free: int


def free_memory(proc: str = _PROC, groups: str = _GROUPS) -> FreeMemory:
    """Return the tightest of the limits that apply to this process, with the remainder of it.

    `proc` and `groups`: where Linux reports them. Missing or malformed files set no limit.
    """
    limits = [_of_machine(proc), *_of_groups(proc, groups)]
    return FreeMemory(min(limit.total for limit in limits), min(limit.free for limit in limits))


def check_room(nbytes: int) -> None:
    """Raise OutOfMemory for more bytes than are available.

    The system would grant them nevertheless, and end the process when they are written.
    """
    if nbytes < _ASKED or nbytes <= free_memory().free:
        return
    raise refuse("RS-D01:bytes-wanted", nbytes=nbytes)


def no_room(nbytes: int) -> OutOfMemory:
    """Return the error of more bytes than are available."""
    return OutOfMemory(
        f"{nbytes} bytes are needed",
        code="RS-D01",
        why="that is more than the free memory",
        hint="free memory, or make the tensors smaller",
    )


def _of_machine(proc: str) -> FreeMemory:
    table = _table(f"{proc}/meminfo")
    if "MemTotal:" in table:
        total = table["MemTotal:"] << 10
        return FreeMemory(total, table.get("MemAvailable:", table["MemTotal:"]) << 10)
    try:
        page, total = os.sysconf("SC_PAGE_SIZE"), os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return FreeMemory(_UNKNOWN, _UNKNOWN)
    return FreeMemory(page * total, page * total) if total > 0 else FreeMemory(_UNKNOWN, _UNKNOWN)


def _of_groups(proc: str, groups: str) -> Iterator[FreeMemory]:
    """Yield the limits of the control groups of this process, from its own up to the root."""
    for line in _text(f"{proc}/self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            yield from _limits(groups, path, ("memory.max", "memory.current", "inactive_file"))
        elif "memory" in controllers.split(","):
            words = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"
            yield from _limits(f"{groups}/memory", path, words)


def _limits(root: str, path: str, words: tuple[str, str, str]) -> Iterator[FreeMemory]:
    most, used, cached = words
    parts = path.strip("/").split("/")
    for length in range(len(parts), -1, -1):
        folder = "/".join((root, *parts[:length]))
        limit = _text(f"{folder}/{most}").strip()
        if limit.isdecimal():
            # The page cache of files counts as used, but is reclaimed when memory is needed.
            spent = int(_text(f"{folder}/{used}") or 0) - _table(f"{folder}/memory.stat").get(cached, 0)
            yield FreeMemory(int(limit), max(int(limit) - max(spent, 0), 0))


def _table(path: str) -> dict[str, int]:
    """Return the first two words of each line whose second word is a number."""
    rows = (line.split() for line in _text(path).splitlines())
    return {row[0]: int(row[1]) for row in rows if len(row) > 1 and row[1].isdecimal()}


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
