"""The work that has been submitted to SYCL devices and may still run.

It knows nothing of devices, so that streams and memories can ask without one.
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


# Events, and what must live until they are done.
Work = list[tuple[SubmittedEvent, tuple[object, ...]]]


class Pending:
    """The work that has been submitted and may still run: each event, and what must live until it is done."""

    def __init__(self) -> None:
        # Reentrant: a signal's handler may submit while the code it interrupts looks at what is running.
        self._lock = threading.RLock()
        self._running: Work = []
        self._abandoned: list[object] = []
        self._look_at = 16

    def add(self, event: SubmittedEvent, owners: Sequence[object]) -> None:
        """Keep `owners` until `event` is done."""
        with self._lock:
            self._running.append((event, tuple(owners)))
            if len(self._running) >= self._look_at:
                self._release_finished()
                self._look_at = max(16, 2 * len(self._running))

    def wait_for(self, owner: object) -> None:
        """Block until nothing submitted works on a byte of `owner` any more."""
        low, high = _span(owner)
        with self._lock:
            running = list(self._running)
        for event, owners in running:
            if any(start < high and low < end for start, end in map(_span, owners)):
                event.wait()

    def wait_all(self) -> None:
        """Block until nothing submitted runs any more, and let go of everything."""
        with self._lock:
            running, self._running = self._running, []
        for event, _ in running:
            event.wait()

    def release_finished(self) -> None:
        """Let go of what is done."""
        with self._lock:
            self._release_finished()

    def _release_finished(self) -> None:
        running, self._running = self._running, []
        try:
            running = _still_running(running)
        finally:
            # In front of what a handler has submitted meanwhile.
            self._running[:0] = running

    def abandon(self) -> None:
        """In the child of a fork: work of the parent never ends here, nor may what it works on be freed."""
        self._lock = threading.RLock()
        self._abandoned, self._running = [*self._abandoned, *self._running], []


def _span(owner: object) -> tuple[int, int]:
    """The addresses of USM, first and one past the last; none of anything else."""
    start = getattr(owner, "_pointer", None)
    return (0, 0) if start is None else (start, start + int(getattr(owner, "nbytes", 0)))


pending = Pending()
# A kernel must not run on into memory that the interpreter takes down.
atexit.register(pending.wait_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=pending.abandon)


def _still_running(work: Work) -> Work:
    """Work that has not ended. The name of a status is read as a plain attribute: every event is asked."""
    return [one for one in work if one[0].execution_status._name_ != "complete"]
