"""What other threads hold while this one forks: the child must not find it held, with nobody to let it go.

Modules that few programs need are loaded when first asked for, by whichever thread asks. Python holds a lock
for each module meanwhile; in a child of fork that thread is gone, and its lock is held for ever. So a fork
waits until no module of restride, of what it needs, or of Python's own library is being loaded, and holds the
lock that every load begins with. Other locks that a child would miss are held as well: see `hold`.

The order is what keeps this from a deadlock. Locks under which modules may be loaded come first, that of the
loads last, and nothing is held while a fork waits for a module.
"""

from __future__ import annotations

import _imp
import contextlib
import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

_Lock = AbstractContextManager[object]

_WAITED_FOR = frozenset({"restride", "numpy", "ml_dtypes", "llvmlite"}) | sys.stdlib_module_names
# Each round waits for all that is being loaded; a thread that loads one after the other ends some day.
_ROUNDS = 100

_holders: list[Callable[[], _Lock | None]] = []
_held: list[ExitStack] = []


def hold(lock: Callable[[], _Lock | None]) -> None:
    """Hold what `lock` returns, unless that is None, over every fork: those named first are taken first."""
    _holders.append(lock)


def watch() -> None:
    """Let every fork from now on wait."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_before, after_in_parent=_after, after_in_child=_after)


def _before() -> None:
    for _ in range(_ROUNDS):
        held = _hold_all()
        names = _loading()
        if not names:
            break
        held.close()
        for name in names:
            # Waits for the thread that loads it; what is wrong with the module is that thread's to tell.
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    else:
        held = _hold_all()
    _held.append(held)


def _after() -> None:
    # A fork of another thread waits for the locks that are held here: there is one entry at most.
    _held.pop().close()


def _hold_all() -> ExitStack:
    with ExitStack() as held:
        for holder in (_logging_lock, *_holders):
            lock = holder()
            if lock is not None:
                held.enter_context(lock)
        held.enter_context(_no_loads())
        return held.pop_all()


def _logging_lock() -> _Lock | None:
    """The lock of Python's logging: it loads handlers under it, and its own hook takes it after ours."""
    lock = getattr(sys.modules.get("logging"), "_lock", None)
    return lock if isinstance(lock, AbstractContextManager) else None


@contextlib.contextmanager
def _no_loads() -> Iterator[None]:
    _imp.acquire_lock()
    try:
        yield
    finally:
        # In a child Python may have let go of it already.
        with contextlib.suppress(RuntimeError):
            _imp.release_lock()


def _loading() -> list[str]:
    """The names of the modules that are being found or run and that we wait for."""
    # Locks are there from before a module is found until it is loaded; Python has no public list of them.
    locked = list(getattr(importlib._bootstrap, "_module_locks", ()))
    running = [name for name, module in list(sys.modules.items()) if _is_running(module)]
    return sorted({name for name in (*locked, *running) if name.partition(".")[0] in _WAITED_FOR})


def _is_running(module: object) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))
