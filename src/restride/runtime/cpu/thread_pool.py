"""The thread pool: runs a region of parts on the calling thread and on workers (see `workers`).

    default_pool().run(fn, src, dst, params, parts)

calls void fn(ptr src, ptr dst, ptr params, i64 part, i64 parts) once for each part in 0..parts-1 and returns
when all are done, with Python's lock released. Any number of threads can run regions: one at a time gets the
workers, the others work alone. Workers start with the first region.

Python handles signals only between native calls: `run_long` cuts a long job so that Ctrl-C takes effect.
"""

from __future__ import annotations

import operator
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING

from restride import settings
from restride.desc.parse import short_repr
from restride.loading import load_whole

from ...errors import refuse

if TYPE_CHECKING:
    from restride.runtime.cpu.workers import NativeTeam, Team

MOST_THREADS = 1024
# Target duration of a piece of a long job: far above the cost of a region, and below 0.2 s even if fresh
# pages make the next piece fifty times as slow as the last.
_PIECE_S = 0.003
# Limit on pages requested at once, however fast the last ones were: the system may have to find and clear the
# next ones first, which takes some milliseconds for each.
_PIECE_PAGES = 8
# Touching present pages takes a thousandth of this: then one thread does all, and no other is woken.
_FRESH_S = 0.0002


def available_processors() -> int:
    """Return how many processors this process can use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0)) or 1
    return os.cpu_count() or 1


class ThreadPool:
    """`threads` threads, including the calling one. Supports forks and resizing at any time."""

    def __init__(self, threads: int) -> None:
        self._threads = _parse_threads(threads)
        self._team: Team | None = None
        # Reentrant: a signal handler may need the workers that the interrupted code is starting.
        self._starting = threading.RLock()
        _POOLS.add(self)

    @property
    def threads(self) -> int:
        """The number of threads that a region can use."""
        return self._threads

    def run(
        self,
        fn: int,
        src: int,
        dst: int,
        params: int,
        parts: int,
        first: int = 0,
        count: int | None = None,
    ) -> None:
        """Run parts first..first+count-1 of `parts` (all of them by default) of the kernel at address `fn`.

        The parts are taken in order, each by the next free thread: a few parts per thread balance the load. A
        call cannot be interrupted: make it short (0.1 s), or use `run_long`. Addresses are not checked.
        """
        # The local name keeps the team's memory alive while another thread resizes the pool.
        team = self._team or self._start()
        team.run(fn, src, dst, params, parts, first, parts - first if count is None else count)

    def native_team(self) -> NativeTeam | None:
        """Return the team, for native code that opens regions itself; None if the workers are Python's."""
        return (self._team or self._start()).native

    def run_long(self, fn: int, src: int, dst: int, params: int, parts: int) -> None:
        """Run all parts, in pieces short enough for Ctrl-C to take effect within 0.2 s.

        A part must take less than about 0.1 s. After KeyboardInterrupt some parts are done and some are not.
        """
        # Threads beyond the processors take turns: no piece waits for more than one round of them.
        least = min(self._threads, available_processors())
        piece, first = least, 0
        while first < parts:
            count = min(piece, parts - first)
            start = time.perf_counter()
            self.run(fn, src, dst, params, parts, first, count)
            piece = _next_piece(count, time.perf_counter() - start, least)
            first += count

    def prefault(self, dst: int, offsets: int, count: int) -> None:
        """Touch the pages of a destination that is about to be written, without changing it.

        `offsets` is the address of `count` int64: offsets of bytes that may be written, one for each page. A
        long job on fresh pages needs this first if a part writes to many of them. Ctrl-C takes effect.
        """
        team = self._team or self._start()
        if not team.prefault:
            return
        least = min(self._threads, available_processors())
        pages, parts, first = _PIECE_PAGES, 1, 0
        while first < count:
            pages = min(pages, count - first)
            start = time.perf_counter()
            self.run(team.prefault, pages, dst, offsets + 8 * first, min(parts, pages))
            seconds = time.perf_counter() - start
            first += pages
            pages = min(_next_piece(pages, seconds, least), _PIECE_PAGES)
            parts = _PIECE_PAGES if seconds > _FRESH_S else 1

    def resize(self, threads: int) -> None:
        """Use `threads` threads from the next region on. Running regions finish as they began."""
        count = _parse_threads(threads)
        with self._starting:
            if count == self._threads:
                return
            self._threads = count
            team, self._team = self._team, None
        if team is not None:
            team.close()

    def _start(self) -> Team:
        with self._starting:
            if self._team is None:
                load_whole("restride.runtime.cpu.workers")
                from restride.runtime.cpu.workers import open_team

                spin = self._threads <= available_processors()
                self._team = open_team(self._threads - 1, spin=spin)
            return self._team

    def _forget(self) -> None:
        """Discard the team in the child of a fork, which has no workers and no other threads."""
        self._team = None
        self._starting = threading.RLock()


_POOLS: weakref.WeakSet[ThreadPool] = weakref.WeakSet()


def _next_piece(count: int, seconds: float, least: int) -> int:
    """Return how many parts the next piece of a long job has, after `count` of them took `seconds`."""
    fitting = int(count * _PIECE_S / max(seconds, 1e-9))
    # At most four times as many: the first parts may have been easy.
    return max(least, min(fitting, 4 * count))


def _parse_threads(threads: int) -> int:
    try:
        number = None if isinstance(threads, bool) else operator.index(threads)
    except Exception:  # a foreign __index__ can raise anything
        number = None
    if number is None or not 1 <= number <= MOST_THREADS:
        raise refuse("RS-V05:not-number-threads", threads=short_repr(threads), most_threads=MOST_THREADS)
    return number


_creating = threading.RLock()
_pool: ThreadPool | None = None


def default_pool() -> ThreadPool:
    """Return the pool of this process, initially with RESTRIDE_NUM_THREADS threads, or one per processor."""
    return _pool or _create_default()


def _create_default() -> ThreadPool:
    global _pool
    with _creating:
        if _pool is None:
            usual = min(available_processors(), MOST_THREADS)
            _pool = ThreadPool(settings.lookup_int("NUM_THREADS", usual, low=1, high=MOST_THREADS))
        return _pool


def get_num_threads() -> int:
    """Return how many threads restride uses."""
    return default_pool().threads


def set_num_threads(threads: int) -> None:
    """Use `threads` threads from now on, in the whole process; InvalidArguments unless 1 to 1024."""
    default_pool().resize(threads)


def _after_fork_in_child() -> None:
    global _creating
    _creating = threading.RLock()
    for pool in list(_POOLS):
        pool._forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
