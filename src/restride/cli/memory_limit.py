"""Refuse what this machine can never hold: the system would grant the memory, and kill the process later."""

from __future__ import annotations

import os

from ..errors import OutOfMemory


def check_fits(what: str, nbytes: int, where: str) -> None:
    """Raise OutOfMemory where `nbytes` bytes are more than all of this machine's memory."""
    whole = _physical_bytes()
    if nbytes > whole > 0:
        raise OutOfMemory(
            what,
            code="RS-D01",
            where=where,
            why=f"{nbytes} bytes are needed at once, padding included; this machine has {whole}",
            hint="choose smaller blocks or a smaller type, or reorder in parts",
        )


def _physical_bytes() -> int:
    """The memory of this machine; 0 where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return 0
