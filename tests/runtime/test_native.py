"""Calls of native code: the arguments arrive, and Python's lock is free meanwhile or kept."""

import ctypes
import functools
import sys
import threading
import time

import pytest

from restride.emit.python_call import call_ir
from restride.runtime.cpu import native
from restride.runtime.cpu.native import native_call
from restride.targets import jit
from restride.targets.isa import Isa, host_isa

KERNELS = """
define void @store(ptr %dst, i64 %a, i64 %b) {
  store i64 %a, ptr %dst
  %p = getelementptr i64, ptr %dst, i64 1
  store i64 %b, ptr %p
  ret void
}

define void @nothing() {
  ret void
}

define void @await(ptr %flag, i64 %turns) {
entry:
  br label %look
look:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  %x = load atomic i64, ptr %flag monotonic, align 8
  %set = icmp ne i64 %x, 0
  br i1 %set, label %leave, label %again
again:
  %next = add i64 %i, 1
  %over = icmp eq i64 %next, %turns
  br i1 %over, label %leave, label %look
leave:
  store i64 %x, ptr %flag
  %q = getelementptr i64, ptr %flag, i64 1
  store i64 %x, ptr %q
  ret void
}
"""


@functools.cache
def _library():
    return jit.load(jit.compile_ir(KERNELS, host_isa()))


@pytest.mark.parametrize("keep_lock", [False, True])
def test_arguments_arrive(keep_lock):
    words = (ctypes.c_int64 * 2)()
    call = native_call(3, keep_lock=keep_lock)
    assert call(_library().address("store"), ctypes.addressof(words), -7, 2**62) is None
    assert list(words) == [-7, 2**62]
    native_call(0, keep_lock=keep_lock)(_library().address("nothing"))


@pytest.mark.parametrize(
    "arguments", [(), (1,), (0,) * 5, ("x",) * 4, (0, None, 0, 0), (1.5,) * 4, (0, 0, 0, b"")]
)
def test_what_is_not_so_many_integers_is_refused(arguments):
    with pytest.raises(TypeError):
        native_call(3)(*arguments)


def test_integers_of_other_kinds_are_taken():
    class Index:
        def __index__(self):
            return 5

    words = (ctypes.c_int64 * 2)()
    native_call(3)(_library().address("store"), ctypes.addressof(words), True, Index())
    assert list(words) == [1, 5]


def test_lock_is_free_meanwhile():
    flag = (ctypes.c_int64 * 2)()

    def set_soon():
        time.sleep(0.01)
        flag[0] = 9

    thread = threading.Thread(target=set_soon)
    thread.start()
    native_call(2)(_library().address("await"), ctypes.addressof(flag), 2**40)
    thread.join()
    assert list(flag) == [9, 9]


@pytest.mark.parametrize("keep_lock", [False, True])
def test_lock_is_kept_where_asked(keep_lock):
    flag, stop, calling = (ctypes.c_int64 * 2)(), threading.Event(), False

    def take_turns():
        while not stop.is_set():
            flag[0] = calling
            time.sleep(0)

    thread = threading.Thread(target=take_turns)
    call, address = native_call(2, keep_lock=keep_lock), _library().address("await")
    interval = sys.getswitchinterval()
    thread.start()
    try:
        # Nobody is made to give the lock away: only the call itself may.
        sys.setswitchinterval(60)
        # Who waits for it from before has got it then.
        time.sleep(0.05)
        calling = True
        # Where others run, the first of them ends the call, whenever that comes.
        call(address, ctypes.addressof(flag), 30_000_000 if keep_lock else 2**40)
        others_ran = bool(flag[1])
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()
    assert others_ran is not keep_lock


def test_references_are_balanced():
    call, address = native_call(0), _library().address("nothing")
    before = sys.getrefcount(None)
    for _ in range(1000):
        call(address)
    assert abs(sys.getrefcount(None) - before) < 100


def test_same_function_each_time():
    assert native_call(3) is native_call(3)
    assert native_call(3) is not native_call(4)


def test_calls_through_ctypes_do_as_well():
    words = (ctypes.c_int64 * 2)()
    native._call_by_ctypes(3, _library().address("store"), ctypes.addressof(words), 1, 2)
    assert list(words) == [1, 2]


@pytest.mark.parametrize("level", ["avx512", "sse41", "neon", "generic"])
@pytest.mark.parametrize("words", [0, 1, 12])
def test_compiles_for_every_target(level, words):
    isa = Isa.for_name(level)
    assert jit.compile_ir(call_ir(isa.triple, words), isa)
