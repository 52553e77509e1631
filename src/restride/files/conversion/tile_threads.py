"""Runs tiles on several threads, in order of their numbers, while the main thread reports progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..places import Workspace

_WATCH_S = 0.1
_NOTE_S = 0.5
_SAFE_S = 5.0


@dataclass(slots=True)
class TileProgress:
    """Tiles that were taken and that are done. All tiles below `done` are done."""

    total: int
    taken: int
    done: int
    weight: int = 0
    tile: int = 0
    error: BaseException | None = None
    _ahead: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> int | None:
        """Return the next tile; None if there is none, or work has stopped."""
        with self._lock:
            if self.error is not None or self.taken >= self.total:
                return None
            self.taken += 1
            return self.taken - 1

    def finish(self, tile: int, weight: int) -> None:
        """Record that a tile is done."""
        with self._lock:
            self._ahead.add(tile)
            while self.done in self._ahead:
                self._ahead.remove(self.done)
                self.done += 1
            self.weight += weight
            self.tile = tile

    def fail(self, error: BaseException) -> None:
        """Stop all threads; the first error is kept."""
        with self._lock:
            self.error = self.error or error


def do_tiles(
    total: int,
    first: int,
    jobs: int,
    run: Callable[[int, Workspace], int],
    note: Callable[[int, bool], None] | None = None,
    watch: Callable[[TileProgress], None] | None = None,
) -> None:
    """Run the tiles from `first` on, each by `run`, which returns its weight.

    `note` is called by a separate thread with the number of finished tiles, and with True when they should be
    flushed to disk; `watch` is called by this thread several times a second. Raises the first error of any of
    them once all threads have ended.
    """
    tally = TileProgress(total, first, first)
    threads = [
        _EndingThread(target=_work, args=(tally, run), name="restride-convert", daemon=True)
        for _ in range(min(jobs, max(total - first, 1)))
    ]
    ended = threading.Event()
    noting = None if note is None else _EndingThread(target=_note, args=(tally, note, ended), daemon=True)
    try:
        for thread in (*threads, *([noting] if noting else [])):
            thread.start()
        for thread in threads:
            while not thread.ended.is_set():
                thread.ended.wait(_WATCH_S)
                if watch is not None:
                    watch(tally)
    except BaseException as error:
        tally.fail(error)
    for thread in threads:
        thread.wait(tally)
    ended.set()
    if noting is not None:
        noting.wait(tally)
    if note is not None and tally.done > first:
        note(tally.done, False)
    if tally.error is not None:
        raise tally.error
    if watch is not None:
        watch(tally)


class _EndingThread(threading.Thread):
    """A thread that signals its own end: up to Python 3.12, a running thread is considered ended if Ctrl-C
    arrives while it is joined.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.ended = threading.Event()

    def run(self) -> None:
        """Run, and signal the end."""
        try:
            super().run()
        finally:
            self.ended.set()

    def wait(self, tally: TileProgress) -> None:
        """Wait for its end, whatever is raised meanwhile, for example by a second Ctrl-C: otherwise the files
        that it writes to would be closed, and their handles reused. A thread that never started has ended.
        """
        while not self.ended.is_set() and self in threading.enumerate():
            try:
                self.ended.wait()
            except BaseException as error:
                tally.fail(error)
        try:
            if self.ended.is_set():
                self.join()
        except BaseException as error:
            tally.fail(error)


def _work(tally: TileProgress, run: Callable[[int, Workspace], int]) -> None:
    space = Workspace()
    try:
        while (tile := tally.take()) is not None:
            tally.finish(tile, run(tile, space))
    except BaseException as error:
        tally.fail(error)


def _note(tally: TileProgress, note: Callable[[int, bool], None], ended: threading.Event) -> None:
    noted = tally.done
    safe_at = time.monotonic() + _SAFE_S
    try:
        while not ended.wait(_NOTE_S):
            done, is_time = tally.done, time.monotonic() >= safe_at
            if done > noted:
                note(done, is_time)
                noted = done
                if is_time:
                    safe_at = time.monotonic() + _SAFE_S
    except BaseException as error:
        tally.fail(error)
