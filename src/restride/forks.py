"""Locks held by other threads when this one forks: the child must not inherit a lock that nobody can release.

Rarely needed modules are loaded on first use, by whichever thread needs them. Python holds a lock for each
module meanwhile; in a forked child that thread is gone and its lock stays held forever. So a fork waits until
no other thread is loading a module of restride, of its dependencies, or of Python's standard library, and
holds the lock that every import starts with. Other locks that a child needs are held as well: see `hold`.

Any code can run under any of these locks (a garbage collector's callback, a signal handler) and can need
another of them. So a fork waits only briefly for each, releases all of them if one is not available, and
tries again. Only the import lock is waited for without a limit, as in Python itself, while holding nothing:
not even the lock of logging, which Python's own hook may already have taken. The whole procedure has a time
limit.
"""

from __future__ import annotations

import _imp
import _signal  # type: ignore[import-not-found]  # the module signal costs half a millisecond of the import
import contextlib
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Protocol

_OURS = frozenset({"restride", "numpy", "ml_dtypes", "llvmlite"})
_LIBRARY = os.path.join(os.path.dirname(os.__file__), "")
# How long to wait for one lock; how long other threads may proceed after a failed try; how long after the
# fork a Ctrl-C that ended the wait is raised.
_TURN_S, _PAUSE_S, _TOLD_AFTER_S = 0.005, 0.001, 0.02
# A fork proceeds after waiting this long: modules and kernels take seconds at most, even from a cold disk.
_LIMIT_S = 30.0
_REENTRANT = type(threading.RLock())


class Lock(Protocol):
    """A reentrant lock, such as `threading.RLock`."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Wait for the lock; return whether it was acquired."""

    def release(self) -> None:
        """Release it; raise RuntimeError if this thread does not own it."""


class _Forking(threading.local):
    """Locks held by the forking thread; whether Ctrl-C only sets a flag meanwhile, and whether it has."""

    held = ExitStack()
    is_quiet = False
    is_interrupted = False


_holders: list[Callable[[], Lock | None]] = []
_forking = _Forking()


def hold(lock: Callable[[], Lock | None]) -> None:
    """Hold the lock that `lock` returns, unless it is None, during every fork."""
    _holders.append(lock)


def _before() -> None:
    # A KeyboardInterrupt raised between taking a lock and recording it would leave the lock held forever; and
    # Python discards what a hook raises, and forks. So Ctrl-C only ends the wait and is raised afterward.
    with contextlib.suppress(ValueError):  # not the main thread: no Ctrl-C there
        if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
            _signal.signal(_signal.SIGINT, _interrupt)
            _forking.is_quiet = True
    end = time.monotonic() + _LIMIT_S
    with _logging_let_go():
        while not _hold_all() and not _forking.is_interrupted and time.monotonic() < end:
            _forking.held.close()
            time.sleep(_PAUSE_S)


def _interrupt(*_: object) -> None:
    _forking.is_interrupted = True


def _after_in_parent() -> None:
    if _let_go():
        # An exception raised here would be discarded too: it is raised once Python is back in the program.
        me = threading.get_ident()
        timer = threading.Timer(_TOLD_AFTER_S, _signal.pthread_kill, (me, _signal.SIGINT))
        timer.daemon = True
        timer.start()


def _let_go() -> bool:
    """Release all locks; return whether Ctrl-C ended the wait for them."""
    _forking.held.close()
    if _forking.is_quiet:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    was_interrupted = _forking.is_interrupted
    _forking.is_interrupted = _forking.is_quiet = False
    return was_interrupted


def _hold_all() -> bool:
    """Return True if all locks are held and nothing is loading; otherwise some may be held."""
    # Recorded before any of them is held, for the code that runs after the fork.
    locks = _forking.held = ExitStack()
    locks.enter_context(_no_loads())
    for holder in (*_holders, logging_lock):
        lock = holder()
        if lock is None:
            continue
        if not lock.acquire(timeout=_TURN_S):
            return False
        locks.callback(_release, lock)
    return not _loading()


def _release(lock: Lock) -> None:
    # In a child, another hook may have released it already.
    with contextlib.suppress(RuntimeError):
        lock.release()


@contextlib.contextmanager
def _no_loads() -> Iterator[None]:
    _imp.acquire_lock()
    try:
        yield
    finally:
        # In a child, Python may have released it already.
        with contextlib.suppress(RuntimeError):
            _imp.release_lock()


def logging_lock() -> Lock | None:
    """The lock of Python's logging: handlers are loaded under it, and modules being loaded need it."""
    return reentrant(getattr(sys.modules.get("logging"), "_lock", None))


def reentrant(lock: object) -> Lock | None:
    """Return the lock if it is reentrant, else None."""
    return lock if isinstance(lock, _REENTRANT) else None


@contextlib.contextmanager
def _logging_let_go() -> Iterator[None]:
    """Release this thread's holds on the logging lock for the duration, and take them again at the end."""
    lock, depth = logging_lock(), 0
    with contextlib.suppress(RuntimeError):
        # RuntimeError says that none is left.
        while lock is not None:
            lock.release()
            depth += 1
    try:
        yield
    finally:
        for _ in range(depth):
            assert lock is not None
            lock.acquire()


def is_loading() -> bool:
    """Return True if this thread is importing a module that a fork in another thread would wait for."""
    locks = dict(getattr(importlib._bootstrap, "_module_locks", ()))
    return any(_is_own(lock) and _is_waited_for(name) for name, lock in locks.items())


def _loading() -> set[str]:
    """Return the names of the modules that other threads are finding or running and that a fork waits for."""
    # The locks exist from the search for a module until it is loaded; Python has no public list of them.
    locks = dict(getattr(importlib._bootstrap, "_module_locks", ()))
    running = {name for name, module in list(sys.modules.items()) if is_running(module)}
    return {name for name in {*locks, *running} if _is_waited_for(name) and not _is_own(locks.get(name))}


def _is_waited_for(name: str) -> bool:
    package = name.partition(".")[0]
    if package in _OURS or package not in sys.stdlib_module_names:
        return package in _OURS
    # The program may have a module of the same name, which can run for any length of time.
    origin = getattr(getattr(sys.modules.get(package), "__spec__", None), "origin", None)
    return not isinstance(origin, str) or not os.path.isabs(origin) or origin.startswith(_LIBRARY)


def is_running(module: object) -> bool:
    """Return True if a module is being run for the first time and so is incomplete."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _is_own(lock: Callable[[], object] | None) -> bool:
    """Return True if this thread itself loads the module of a lock, and so would wait for itself."""
    return lock is not None and getattr(lock(), "owner", None) == threading.get_ident()


# The package loads this module first, so that a fork waits for the rest of the package too.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_let_go)
