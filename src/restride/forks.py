"""Forks while another thread loads a module: the child must not find it half loaded, with nobody to end that.

Modules that few programs need are loaded when first asked for, by whichever thread asks. Python holds a lock
for each module meanwhile; in a child of fork that thread is gone, and its lock is held for ever. So a fork
waits until no module of restride, or of what it needs, is being loaded, and holds the lock that every load
begins with.
"""

from __future__ import annotations

import _imp
import contextlib
import importlib
import os
import sys

_OURS = ("restride", "numpy", "ml_dtypes", "llvmlite")
# Each round waits for all that is being loaded; a thread that loads one after the other ends some day.
_ROUNDS = 100


def settle() -> None:
    """Wait for the modules that other threads are loading now, and keep threads from beginning with more."""
    for _ in range(_ROUNDS):
        _imp.acquire_lock()
        names = _loading()
        if not names:
            return
        _imp.release_lock()
        for name in names:
            # Waits for the thread that loads it; what is wrong with the module is that thread's to tell.
            with contextlib.suppress(Exception):
                importlib.import_module(name)
    _imp.acquire_lock()


def _go_on() -> None:
    """Let threads load modules again; in a child Python may have done so already."""
    with contextlib.suppress(RuntimeError):
        _imp.release_lock()


def _loading() -> list[str]:
    """The names of our modules that are being found or run."""
    # Locks are there from before a module is found until it is loaded; Python has no public list of them.
    locked = list(getattr(importlib._bootstrap, "_module_locks", ()))
    running = [name for name, module in list(sys.modules.items()) if _is_running(module)]
    return sorted({name for name in (*locked, *running) if name.partition(".")[0] in _OURS})


def _is_running(module: object) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def watch() -> None:
    """Let every fork from now on wait."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=settle, after_in_parent=_go_on, after_in_child=_go_on)
