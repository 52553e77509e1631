"""Locks of other threads while this one forks: the child must not find one held, with nobody to let it go.

Modules that few programs need are loaded when first asked for, by whichever thread asks. Python holds a lock
for each module meanwhile; in a child of fork that thread is gone, and its lock is held for ever. So a fork
waits until no other thread loads a module of restride, of what it needs, or of Python's own library, and
holds the lock that every load begins with. Other locks that a child would miss are held as well: see `hold`.

Any code may run under any of these locks (a collector's callback, a handler of a signal), and may want
another of them. So a fork takes each for a moment's wait only, lets go of all where one is not to be had, and
tries again. Only the lock of the loads is waited for, as Python itself does, and nothing is held then: not
even the lock of logging, which Python's own hook may have taken before. All this has a limit.
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
# A lock is waited for so long at a time; after a try in vain the others may go on for so long; Ctrl-C that
# ended the wait is told so long after the fork.
_TURN_S, _PAUSE_S, _TOLD_AFTER_S = 0.005, 0.001, 0.02
# A fork that has waited this long goes on: modules and kernels take seconds at most, even from a cold disk.
_LIMIT_S = 30.0
_REENTRANT = type(threading.RLock())


class Lock(Protocol):
    """A lock that its owner may take again, as `threading.RLock` is."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Wait for the lock; whether it was to be had."""

    def release(self) -> None:
        """Let go of it; RuntimeError where it is not owned."""


class _Forking(threading.local):
    """The locks that the thread which forks holds; whether Ctrl-C only sets a flag meanwhile, and has."""

    held = ExitStack()
    is_quiet = False
    is_interrupted = False


_holders: list[Callable[[], Lock | None]] = []
_forking = _Forking()


def hold(lock: Callable[[], Lock | None]) -> None:
    """Hold what `lock` returns, unless that is None, over every fork."""
    _holders.append(lock)


def _before() -> None:
    # Raised between taking a lock and noting that it is held, KeyboardInterrupt would leave it held for ever;
    # and Python drops what a hook raises, and forks. So Ctrl-C only ends the wait, and is told afterwards.
    with contextlib.suppress(ValueError):  # another thread than the main one: Ctrl-C is not raised there
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
        # What is raised in here is dropped, too: it comes when Python is back in the program.
        me = threading.get_ident()
        timer = threading.Timer(_TOLD_AFTER_S, _signal.pthread_kill, (me, _signal.SIGINT))
        timer.daemon = True
        timer.start()


def _let_go() -> bool:
    """Release all locks; whether Ctrl-C ended the wait for them."""
    _forking.held.close()
    if _forking.is_quiet:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    was_interrupted = _forking.is_interrupted
    _forking.is_interrupted = _forking.is_quiet = False
    return was_interrupted


def _hold_all() -> bool:
    """True where all is held and nothing is being loaded; if not, some may be held."""
    # Known to what runs after the fork before any of it is held.
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
    # In a child another hook may have let go of it already.
    with contextlib.suppress(RuntimeError):
        lock.release()


@contextlib.contextmanager
def _no_loads() -> Iterator[None]:
    _imp.acquire_lock()
    try:
        yield
    finally:
        # In a child Python may have let go of it already.
        with contextlib.suppress(RuntimeError):
            _imp.release_lock()


def logging_lock() -> Lock | None:
    """The lock of Python's logging: it loads handlers under it, and modules that are loaded ask for it."""
    return reentrant(getattr(sys.modules.get("logging"), "_lock", None))


def reentrant(lock: object) -> Lock | None:
    """A possible lock, if it is one that its owner may take again."""
    return lock if isinstance(lock, _REENTRANT) else None


@contextlib.contextmanager
def _logging_let_go() -> Iterator[None]:
    """Whatever this thread has of the lock of logging is free meanwhile, and taken again at the end."""
    lock, depth = logging_lock(), 0
    with contextlib.suppress(RuntimeError):
        # None is owned, and that is told by an error, when all of it is free.
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
    """True where this thread is finding or running a module that a fork would wait for in another one."""
    locks = dict(getattr(importlib._bootstrap, "_module_locks", ()))
    return any(_is_own(lock) and _is_waited_for(name) for name, lock in locks.items())


def _loading() -> set[str]:
    """The names of the modules that other threads are finding or running, and that we wait for."""
    # Locks are there from before a module is found until it is loaded; Python has no public list of them.
    locks = dict(getattr(importlib._bootstrap, "_module_locks", ()))
    running = {name for name, module in list(sys.modules.items()) if is_running(module)}
    return {name for name in {*locks, *running} if _is_waited_for(name) and not _is_own(locks.get(name))}


def _is_waited_for(name: str) -> bool:
    package = name.partition(".")[0]
    if package in _OURS or package not in sys.stdlib_module_names:
        return package in _OURS
    # A program may have a module of the same name, which may run for as long as it likes.
    origin = getattr(getattr(sys.modules.get(package), "__spec__", None), "origin", None)
    return not isinstance(origin, str) or not os.path.isabs(origin) or origin.startswith(_LIBRARY)


def is_running(module: object) -> bool:
    """True where a module is being run for the first time, and so is half made."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _is_own(lock: Callable[[], object] | None) -> bool:
    """True where this thread loads the module of a lock: it would wait for itself."""
    return lock is not None and getattr(lock(), "owner", None) == threading.get_ident()


# The package loads this module first, so that a fork waits for the rest of the package, too.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after_in_parent, after_in_child=_let_go)
