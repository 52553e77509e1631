"""Modules that are loaded when first asked for: whole, whatever handlers of signals do meanwhile.

A handler of a signal runs in the main thread between any two instructions, also while a module is being
loaded there. If it calls restride then, it finds modules that are half made, and what would finish them waits
below it on the stack. So where there are handlers, another thread loads, and the main thread waits for it: a
handler that needs the module waits in its turn, and finds it whole.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the module signal costs half a millisecond of the import
import importlib
import sys
import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from .forks import is_loading, is_running


def load_whole(name: str) -> ModuleType:
    """The module of this dotted name, loaded now where it is not yet. Raises what its loading raises.

    Write `load_whole("restride.a.b")` before `from .a.b import c` in a function.
    """
    module = sys.modules.get(name)
    if (module is None or is_running(module)) and _may_be_interrupted():
        _load_apart(name)
    return importlib.import_module(name)


def lazy_attributes(package: str, modules: Mapping[str, str]) -> tuple[list[str], Callable[[str], Any]]:
    """The public names of the module `package`, and its `__getattr__` (PEP 562), which loads them when they
    are first asked for.

    `modules` has, by the name of a module below `restride`, its names with spaces between them; those of ""
    are modules themselves.
    """
    origins = {name: module for module, names in modules.items() for name in names.split()}

    def load(name: str) -> Any:
        """The public name `name`, from its module, which is loaded now."""
        if name not in origins:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}", name=name, obj=sys.modules[package]
            )
        module = load_whole(f"restride.{origins[name] or name}")
        value = getattr(module, name) if origins[name] else module
        setattr(sys.modules[package], name, value)
        return value

    return sorted(origins), load


def _may_be_interrupted() -> bool:
    """True where another thread must load: handlers may run in this one, and it loads nothing itself, which
    the other would wait for.
    """
    return threading.current_thread() is threading.main_thread() and _has_handlers() and not is_loading()


def _has_handlers() -> bool:
    """True where a signal runs code of the program; Ctrl-C that only raises KeyboardInterrupt does not."""
    handlers = map(_signal.getsignal, range(1, _signal.NSIG))
    return any(callable(handler) and handler is not _signal.default_int_handler for handler in handlers)


def _load_apart(name: str) -> None:
    """Load in another thread, where one is to be had. What goes wrong there goes wrong again here."""
    thread = threading.Thread(target=_load_quietly, args=(name,), name="restride-loading", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no more threads, or the interpreter is about to end
        return
    thread.join()


def _load_quietly(name: str) -> None:
    try:
        importlib.import_module(name)
    except BaseException:
        return
