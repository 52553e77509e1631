"""Faults of SYCL devices, each in a process of its own: nothing of it may be a crash or a hang."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.sycl import sycl_engine

pytestmark = pytest.mark.sycl
_HEAD = """
import gc, os, sys, threading
import numpy as np
import dpctl
import restride as rs

interop = rs.sycl_interop
engine = rs.Engine("sycl")
context = interop.get_context(engine)
md, turned = rs.MemoryDesc((64, 48), "f32", "ab"), rs.MemoryDesc((64, 48), "f32", "ba")
large, large_turned = (rs.MemoryDesc((16, 256, 56, 56), "f32", tag) for tag in ("nchw", "nhwc"))
x = np.zeros((64, 48), np.float32)

def usm(**changes):
    whole = {"data": (x.ctypes.data, False), "shape": (x.nbytes,), "typestr": "|u1", "version": 1,
             "syclobj": context, "strides": None}
    return type("Usm", (), {"__sycl_usm_array_interface__": {**whole, **changes}})()

def refused(call, text):
    try:
        call()
    except rs.InvalidArguments as error:
        assert text in error.message, error.message
        assert error.hint
        return
    raise SystemExit("not refused: " + text)
"""


@pytest.fixture(scope="module", autouse=True)
def device():
    return sycl_engine()


def check(program: str, **variables: str) -> str:
    """Run a program to its end in a new process; what it printed."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", program],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


NO_USM = {
    "a pointer of the host": "usm()",
    "a pointer to nothing": "usm(data=(12, False))",
    "a context of another library": "usm(syclobj=None)",
    "no dictionary": "type('Usm', (), {'__sycl_usm_array_interface__': 5})()",
    "an empty dictionary": "type('Usm', (), {'__sycl_usm_array_interface__': {}})()",
    "no shape": "type('Usm', (), {'__sycl_usm_array_interface__': {'data': (12, False)}})()",
    "words for numbers": "usm(data=('a', 'b'), shape=('c',))",
    "more bytes than there are": "usm(**{**interop.make_memory(md, engine).__sycl_usm_array_interface__,"
    " 'shape': (1 << 40,), 'strides': None})",
}


@pytest.mark.parametrize("made", NO_USM)
def test_what_is_no_usm_is_refused(made):
    check(f"{_HEAD}\nrefused(lambda: rs.Memory(md, engine, {NO_USM[made]}), 'not USM of this engine')")


@pytest.mark.parametrize("data", ["x", "x.ctypes.data", "bytes(x)", "memoryview(x)", "[1, 2]"])
def test_memory_of_the_host_is_refused(data):
    check(f"{_HEAD}\nrefused(lambda: interop.make_memory(md, engine, {data}), 'in host memory')")


def test_a_bare_pointer_and_another_buffer_are_refused():
    program = """
refused(lambda: rs.Memory.from_pointer(x.ctypes.data, x.nbytes, md, engine), "in host memory")
memory = rs.Memory(md, engine)
refused(lambda: memory.set_data_handle(x), "in host memory")
assert memory.to_numpy().shape == (64, 48)
"""
    check(_HEAD + program)


def test_a_process_may_end_while_work_is_pending():
    program = """
stream = rs.Stream(engine, "out_of_order")
src, dst = rs.Memory(large, engine), rs.Memory(large_turned, engine)
primitive = rs.Reorder(src, dst)
for _ in range(3):
    primitive.execute(stream, src, dst)
del src, dst, stream, primitive
print("ended")
"""
    assert check(_HEAD + program) == "ended\n"


def test_memory_and_stream_may_go_before_the_event():
    program = """
events = []
for _ in range(3):
    src, dst = rs.Memory(large, engine), rs.Memory(large_turned, engine)
    events.append(rs.Reorder(src, dst).execute_sycl(rs.Stream(engine, "out_of_order"), src, dst))
    del src, dst
    gc.collect()
for event in events:
    event.wait()
"""
    check(_HEAD + program)


def test_an_event_of_another_context_is_a_dependency():
    program = """
other = interop.make_engine(interop.get_device(engine), dpctl.SyclContext([interop.get_device(engine)]))
src, dst = rs.Memory(md, other), rs.Memory(turned, other)
event = rs.Reorder(src, dst).execute_sycl(rs.Stream(other), src, dst)
here, there = rs.Memory(md, engine), rs.Memory(turned, engine)
rs.Reorder(here, there).execute_sycl(rs.Stream(engine, "out_of_order"), here, there, deps=[event]).wait()
refused(lambda: rs.Reorder(md and here, there).execute(rs.Stream(engine), src, there), "it is on engine")
"""
    check(_HEAD + program)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_computes_on_the_host():
    program = """
src, dst, stream = rs.Memory(md, engine), rs.Memory(turned, engine), rs.Stream(engine)
rs.Reorder(src, dst).execute(stream, src, dst)
child = os.fork()
if child == 0:
    found = rs.reorder(np.ones((4, 5), np.float32), "ba").sum()
    sys.exit(int(found))
assert os.waitpid(child, 0)[1] >> 8 == 20
stream.wait()
"""
    check(_HEAD + program)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_child_does_not_wait_for_what_its_parent_has_submitted():
    program = """
import atexit

src, dst, stream = rs.Memory(large, engine), rs.Memory(large_turned, engine), rs.Stream(engine)
for _ in range(20):
    rs.Reorder(src, dst).execute(stream, src, dst)
child = os.fork()
if child == 0:
    atexit._run_exitfuncs()
    os._exit(20)
assert os.waitpid(child, 0)[1] >> 8 == 20
"""
    check(_HEAD + program)


def test_memory_of_what_is_done_makes_room_for_more():
    program = """
from restride.runtime.sycl.pending import pending

stream = rs.Stream(engine)
for _ in range(5):
    src, dst = rs.Memory(large, engine), rs.Memory(large_turned, engine)
    assert len(pending._running) == 0
    rs.Reorder(src, dst).execute_sycl(stream, src, dst).wait()
    del src, dst
"""
    check(_HEAD + program)


def test_threads_share_a_device():
    program = """
x = np.random.default_rng(0).random((8, 64, 30, 30), np.float32)
blocked, wanted = rs.MemoryDesc(x.shape, "s8", "nChw16c"), np.rint(x * np.float32(3))
attr, wrong = rs.PrimitiveAttr(), []
attr.set_output_scales(0, [3.0])

def work():
    for _ in range(5):
        host, dst, stream = rs.Memory.from_numpy(x), rs.Memory(blocked, engine), rs.Stream(engine)
        rs.Reorder(host, dst, attr).execute(stream, host, dst)
        wrong.extend([1] * int((dst.to_numpy() != wanted).any()))

threads = [threading.Thread(target=work) for _ in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert not wrong
"""
    check(_HEAD + program)


def test_without_a_driver_the_hint_says_which_variable_to_set():
    program = """
import restride as rs

assert rs.Engine.get_count("sycl") == 0
try:
    rs.Engine("sycl")
except rs.InvalidArguments as error:
    print(error.message)
"""
    said = check(program, OCL_ICD_FILENAMES="/nowhere/libnothing.so", ONEAPI_DEVICE_SELECTOR="opencl:cpu")
    assert "no driver offers such a device" in said
    assert "OCL_ICD_FILENAMES=<path of libintelocl.so>" in said
