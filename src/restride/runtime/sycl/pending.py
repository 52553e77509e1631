"""Work that has been submitted to SYCL devices and may still run.

It is independent of devices, so that streams and memories can query it without one.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Sequence
from enum import Enum
from typing import Protocol


class SubmittedEvent(Protocol):
    """The part of dpctl's events that is used."""

    execution_status: Enum

    def wait(self) -> object:
        """Block until it is done."""


# Events, with the objects that must live until they are done.
Work = list[tuple[SubmittedEvent, tuple[object, ...]]]


class Pending:
    """Submitted work that may still run: each event, with the objects that must live until it is done."""

    def __init__(self) -> None:
        # Reentrant: a signal handler may submit while the interrupted code reads the list.
        self._lock = threading.RLock()
        self._running: Work = []
        self._abandoned: list[object] = []
        self._look_at = 16

    def add(self, event: SubmittedEvent, owners: Sequence[object]) -> None:
        """Keep `owners` alive until `event` is done."""
        with self._lock:
            self._running.append((event, tuple(owners)))
            if len(self._running) >= self._look_at:
                self._release_finished()
                self._look_at = max(16, 2 * len(self._running))

    def wait_for(self, owner: object) -> None:
        """Block until no submitted work uses a byte of `owner`."""
        low, high = _span(owner)
        with self._lock:
            running = list(self._running)
        for event, owners in running:
            if any(start < high and low < end for start, end in map(_span, owners)):
                event.wait()

    def wait_all(self) -> None:
        """Block until all submitted work has ended, and release everything."""
        with self._lock:
            running, self._running = self._running, []
        for event, _ in running:
            event.wait()

    def release_finished(self) -> None:
        """Release what is done."""
        with self._lock:
            self._release_finished()

    def _release_finished(self) -> None:
        running, self._running = self._running, []
        try:
            running = _still_running(running)
        finally:
            # Before anything that a handler has submitted meanwhile.
            self._running[:0] = running

    def abandon(self) -> None:
        """Detach in the child of a fork: the parent's work never ends here; its memory must not be freed."""
        self._lock = threading.RLock()
        self._abandoned, self._running = [*self._abandoned, *self._running], []


def _span(owner: object) -> tuple[int, int]:
    """Return the addresses of USM, first and one past the last; empty for anything else."""
    start = getattr(owner, "_pointer", None)
    return (0, 0) if start is None else (start, start + int(getattr(owner, "nbytes", 0)))


pending = Pending()
# A kernel must not outlive memory that the interpreter frees at exit.
atexit.register(pending.wait_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pending.abandon)


def _still_running(work: Work) -> Work:
    """Return work that has not ended. The status name is a plain attribute, cheap to read for every event."""
    return [one for one in work if one[0].execution_status._name_ != "complete"]
