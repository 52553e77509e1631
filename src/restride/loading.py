"""Loads modules on first use, completely, whatever signal handlers do meanwhile.

A signal handler runs in the main thread between any two instructions, even while that thread is loading a
module. If the handler then calls restride, it finds incomplete modules, and the code that would complete them
is suspended below it on the stack. So if there are handlers, another thread loads and the main thread waits
for it: a handler that needs the module also waits, and finds it complete.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the module signal costs half a millisecond of the import
import importlib
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from .forks import is_loading, is_running


def load_whole(name: str) -> ModuleType:
    """Return the module of this dotted name, loading it if necessary. Raises whatever loading it raises.

    In a function, write `load_whole("restride.a.b")` before `from .a.b import c`.
    """
    module = sys.modules.get(name)
    if (module is None or is_running(module)) and _may_be_interrupted():
        _load_apart(name)
    return importlib.import_module(name)


def lazy_attributes(
    package: str, modules: Mapping[str, str], nearest: Callable[[str, Iterable[str]], str]
) -> tuple[list[str], Callable[[str], Any]]:
    """Return the public names of the module `package`, and its `__getattr__` (PEP 562), which loads them on
    first use.

    `modules` maps the name of a module below `restride` to its names, separated by spaces; those of "" are
    modules themselves. `nearest` returns the known name most similar to an unknown one, or "".
    """
    origins = {name: module for module, names in modules.items() for name in names.split()}

    def no_attribute(name: str) -> AttributeError:
        module, what = sys.modules[package], f"module {package!r} has no attribute {name!r}"
        near = "" if name.startswith("_") else nearest(name[:80], dir(module))
        if not near:
            return AttributeError(what, name=name, obj=module)
        # Part of the message, because notebooks do not show Python's own suggestion; `obj` prevents that one.
        shown = package.replace("restride", "rs", 1)
        return AttributeError(f"{what}: did you mean {shown}.{near}?", name=name, obj=None)

    def load(name: str) -> Any:
        if name not in origins:
            raise no_attribute(name)
        module = load_whole(f"restride.{origins[name] or name}")
        value = getattr(module, name) if origins[name] else module
        setattr(sys.modules[package], name, value)
        return value

    return sorted(origins), load


def _may_be_interrupted() -> bool:
    """Return True if another thread must load the module: handlers can run in this thread, which is not
    itself loading a module that the other thread would wait for.
    """
    return threading.current_thread() is threading.main_thread() and _has_handlers() and not is_loading()


def _has_handlers() -> bool:
    """Return True if a signal runs code of the program; a Ctrl-C that raises KeyboardInterrupt does not."""
    handlers = map(_signal.getsignal, range(1, _signal.NSIG))
    return any(callable(handler) and handler is not _signal.default_int_handler for handler in handlers)


def _load_apart(name: str) -> None:
    """Load in another thread if one can be started. An exception there is raised again here."""
    thread = threading.Thread(target=_load_quietly, args=(name,), name="restride-loading", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # no more threads, or the interpreter is shutting down
        return
    thread.join()


def _load_quietly(name: str) -> None:
    try:
        importlib.import_module(name)
    except BaseException:
        return
