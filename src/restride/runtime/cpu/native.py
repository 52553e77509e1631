"""Calls of native code from Python, without ctypes on CPython."""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Callable

from restride.emit.python_call import call_ir
from restride.targets import jit, store
from restride.targets.isa import host_isa

NativeCall = Callable[..., None]

_METH_FASTCALL = 0x80


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("meth", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


# Machine code and method definitions that functions point to: they must outlive every one of them.
_KEPT: list[object] = []


@functools.cache
def native_call(words: int, *, keep_lock: bool = False) -> NativeCall:
    """Return a function (fn, *words) that calls void fn(i64, ...), with integers `fn` and words.

    The native function runs in the default floating-point mode. Python's lock is released during the call,
    unless `keep_lock`: for work of a few microseconds, where reacquiring the lock can take a thousand times
    as long. The only checks are that the arguments are integers and that their number is right (TypeError).
    """
    if sys.implementation.name != "cpython":
        return functools.partial(_call_by_ctypes, words)
    isa = host_isa()
    library = jit.load(store.object_code(call_ir(isa.triple, words, keep_lock=keep_lock), isa))
    method = _MethodDef(b"restride_call", library.address("restride_call"), _METH_FASTCALL, None)
    _KEPT.append((library, method))
    # It is not freed at exit either: a function reads its definition once more when it is deallocated.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
    function: NativeCall = make(("PyCFunction_NewEx", ctypes.pythonapi))(ctypes.addressof(method), None, None)
    return function


def _call_by_ctypes(words: int, fn: int, *arguments: int) -> None:
    ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * words)(fn)(*arguments)
