"""LLVM IR text of a CPython function that calls native code: like ctypes, in a tenth of the time.

restride_call(fn, *words)   calls void fn(i64, ...) in the default floating-point mode, returns None
"""

from __future__ import annotations

from restride.emit.pool_system import mode_ir

# CPython's vectorcall, METH_FASTCALL; `self` is None. The module needs Python's own symbols in the process.
_CALL = """
declare i64 @PyLong_AsUnsignedLongLongMask(ptr)
declare ptr @PyErr_Occurred()
declare i32 @PyErr_BadArgument()
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)

define ptr @restride_call(ptr %self, ptr %args, i64 %n) {{
  %right = icmp eq i64 %n, {count}
  br i1 %right, label %take, label %refuse
refuse:
  %bad = call i32 @PyErr_BadArgument()
  br label %fail
fail:
  ret ptr null
take:
{words}
  %error = call ptr @PyErr_Occurred()
  %wrong = icmp ne ptr %error, null
  br i1 %wrong, label %fail, label %run
run:
  %fn = inttoptr i64 %w0 to ptr
{release}
  %mode = call i64 @default_mode()
  call void %fn({passed})
  call void @restore_mode(i64 %mode)
{acquire}
  call void @Py_IncRef(ptr %self)
  ret ptr %self
}}
"""
_WORD = """  %p{0} = getelementptr inbounds ptr, ptr %args, i64 {0}
  %o{0} = load ptr, ptr %p{0}
  %w{0} = call i64 @PyLong_AsUnsignedLongLongMask(ptr %o{0})
"""
_RELEASE = "  %thread = call ptr @PyEval_SaveThread()"
_ACQUIRE = "  call void @PyEval_RestoreThread(ptr %thread)"


def call_ir(triple: str, words: int, *, keep_lock: bool = False) -> str:
    """Return a module with `restride_call` for native functions of `words` integers or pointers.

    Python's lock is released meanwhile unless `keep_lock`. Measured for eight words: 0.08 us; ctypes: 0.8.
    """
    text = _CALL.format(
        count=words + 1,
        words="".join(_WORD.format(index) for index in range(words + 1)),
        passed=", ".join(f"i64 %w{index}" for index in range(1, words + 1)),
        release="" if keep_lock else _RELEASE,
        acquire="" if keep_lock else _ACQUIRE,
    )
    return mode_ir(triple) + text
