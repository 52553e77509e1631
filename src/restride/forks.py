"""What other threads hold while this one forks: the child must not find it held, with nobody to let it go.

Modules that few programs need are loaded when first asked for, by whichever thread asks. Python holds a lock
for each module meanwhile; in a child of fork that thread is gone, and its lock is held for ever. So a fork
waits until no other thread loads a module of restride, of what it needs, or of Python's own library, and
holds the lock that every load begins with. Other locks that a child would miss are held as well: see `hold`.

The order is what keeps this from a deadlock. Locks under which modules may be loaded come first, that of the
loads last, and nothing is held while a fork waits for a module: not even the lock of logging, which Python's
own hook may have taken before ours. Hooks of others may hold what a module that is being loaded wants, so
that the wait has a limit.
"""

from __future__ import annotations

import _imp
import contextlib
import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

_Lock = AbstractContextManager[object]

_WAITED_FOR = frozenset({"restride", "numpy", "ml_dtypes", "llvmlite"}) | sys.stdlib_module_names
_POLL_S = 0.0005
# A fork that has waited this long goes on: modules take seconds at most, even from a cold disk.
_LIMIT_S = 30.0
_REENTRANT = type(threading.RLock())

_holders: list[Callable[[], _Lock | None]] = []


class _Forking(threading.local):
    """What the thread that forks holds."""

    held = ExitStack()


_forking = _Forking()


def hold(lock: Callable[[], _Lock | None]) -> None:
    """Hold what `lock` returns, unless that is None, over every fork: those named first are taken first."""
    _holders.append(lock)


def _before() -> None:
    with _logging_let_go():
        end = time.monotonic() + _LIMIT_S
        while not _hold_all() and time.monotonic() < end:
            _forking.held.close()
            time.sleep(_POLL_S)


def _after() -> None:
    _forking.held.close()


def _hold_all() -> bool:
    """Whether all is held and nothing is being loaded; if not, some may be held."""
    # Known to `_after` before any of it is held: where Ctrl-C ends the wait, Python forks all the same.
    held = _forking.held = ExitStack()
    for holder in (_logging_lock, *_holders):
        lock = holder()
        if lock is not None:
            held.enter_context(_kept(lock))
    # Whoever finds a module has this one, and may want another of these: it is not waited for.
    if _imp.lock_held():
        return False
    held.enter_context(_no_loads())
    return not _loading()


@contextlib.contextmanager
def _kept(lock: _Lock) -> Iterator[None]:
    lock.__enter__()
    try:
        yield
    finally:
        # In a child another hook may have let go of it already.
        with contextlib.suppress(RuntimeError):
            lock.__exit__(None, None, None)


@contextlib.contextmanager
def _no_loads() -> Iterator[None]:
    _imp.acquire_lock()
    try:
        yield
    finally:
        # In a child Python may have let go of it already.
        with contextlib.suppress(RuntimeError):
            _imp.release_lock()


def _logging_lock() -> _Lock | None:
    """The lock of Python's logging: it loads handlers under it, and modules that are loaded ask for it."""
    lock = getattr(sys.modules.get("logging"), "_lock", None)
    return lock if isinstance(lock, _REENTRANT) else None


@contextlib.contextmanager
def _logging_let_go() -> Iterator[None]:
    """Whatever this thread has of the lock of logging is free meanwhile, and taken again at the end."""
    lock, taken = _logging_lock() or contextlib.nullcontext(), 0
    with contextlib.suppress(RuntimeError):
        # None is owned, and that is told by an error, when all of it is free.
        while isinstance(lock, _REENTRANT):
            lock.release()
            taken += 1
    try:
        yield
    finally:
        for _ in range(taken):
            lock.__enter__()


def _loading() -> set[str]:
    """The names of the modules that other threads are finding or running, and that we wait for."""
    # Locks are there from before a module is found until it is loaded; Python has no public list of them.
    locks = dict(getattr(importlib._bootstrap, "_module_locks", ()))
    running = {name for name, module in list(sys.modules.items()) if _is_running(module)}
    waited_for = {name for name in {*locks, *running} if name.partition(".")[0] in _WAITED_FOR}
    return {name for name in waited_for if not _is_own(locks.get(name))}


def _is_running(module: object) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _is_own(lock: Callable[[], object] | None) -> bool:
    """Whether this thread loads the module of a lock: it would wait for itself."""
    return lock is not None and getattr(lock(), "owner", None) == threading.get_ident()


# The package loads this module first, so that a fork waits for the rest of the package, too.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)
