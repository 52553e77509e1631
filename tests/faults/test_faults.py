"""Faults around a reorder: threads, forks, a system that refuses, processors, kernels on disk.

The numbers are those of the list of thirty that restride promises to stand.
"""

import itertools
import multiprocessing
import os
import stat
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import restride as rs

CPU, REF = rs.Engine("cpu"), rs.Engine("reference")
STREAM = rs.Stream(CPU)
DIMS = (2, 17, 3, 5)


def run(code, timeout=600, **env):
    """A program of its own: what it prints. It must end well, with no word on stderr."""
    program = [sys.executable, "-W", "error", "-c", PROLOGUE + textwrap.dedent(code)]
    done = subprocess.run(program, env=os.environ | env, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.strip()


PROLOGUE = """
import ctypes, os, resource, signal, sys, threading, time, warnings
import numpy as np
import restride as rs

x = np.arange(4 * 33 * 40 * 41, dtype=np.float32).reshape(4, 33, 40, 41)

def right(dst="nhwc", dtype=None):
    return bool((rs.reorder(x, dst, dtype=dtype) == x).all())
"""


@pytest.fixture
def threads():
    before = rs.get_num_threads()
    yield
    rs.set_num_threads(before)


# 19: threads

STORM = 64


def storm(work):
    """`work(i)` in 64 threads at once; none hangs."""
    gate = threading.Barrier(STORM)

    def start(i):
        gate.wait(120)
        return work(i)

    with ThreadPoolExecutor(STORM) as pool:
        return [done.result(300) for done in [pool.submit(start, i) for i in range(STORM)]]


def test_19_64_threads_execute_one_primitive():
    for dims in (DIMS, (4, 33, 40, 41)):
        x = np.random.default_rng(0).standard_normal(dims, np.float32)
        src = rs.Memory.from_numpy(x)
        r = rs.Reorder(src, rs.Memory(rs.MemoryDesc(dims, "bf16", "nChw16c"), CPU))
        wanted = rs.reorder(x, "nChw16c", dtype="bf16").data.view(np.uint16)

        def work(_, r=r, src=src, dims=dims):
            outs = [rs.Memory(rs.MemoryDesc(dims, "bf16", "nChw16c"), CPU) for _ in range(3)]
            mine = [rs.Memory(r.get_primitive_desc().dst_desc(), CPU, out) for out in outs]
            for out in mine:
                r.execute(STREAM, src, out)
            return [out.data.view(np.uint16) for out in mine]

        for results in storm(work):
            for got in results:
                np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("capacity", [1024, 1, 0])
def test_19_64_threads_want_kernels_from_a_cache_of_any_size(capacity):
    rs.set_primitive_cache_capacity(capacity)
    try:

        def work(i):
            x = np.arange(7 * (5 + i % 3), dtype=np.float32).reshape(7, -1)
            return all((rs.reorder(x, "ba", dtype="f16") == x).all() for _ in range(3))

        assert all(storm(work))
    finally:
        rs.set_primitive_cache_capacity(1024)


def test_19_the_number_of_threads_changes_meanwhile(threads):
    x = np.random.default_rng(0).standard_normal((4, 33, 40, 41), np.float32)
    wanted = rs.reorder(x, "nhwc")
    ended = threading.Event()

    def change():
        count = 0
        while not ended.is_set():
            rs.set_num_threads(1 + count % 5)
            count += 1

    changer = threading.Thread(target=change)
    changer.start()
    try:
        results = storm(lambda _: rs.reorder(x, "nhwc"))
    finally:
        ended.set()
        changer.join(120)
    assert not changer.is_alive()
    for got in results:
        np.testing.assert_array_equal(got, wanted)


# 20: forks

FORKED = """
def busy():
    while not ended.is_set():
        rs.reorder(x, "nhwc")

assert right()
rs.set_num_threads(3)
ended = threading.Event()
workers = [threading.Thread(target=busy, daemon=True) for _ in range(3)]
for worker in workers:
    worker.start()
for round in range(5):
    time.sleep(0.05)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        signal.alarm(120)
        # kernels of the parent, one that is new, and the primitive
        fine = right() and right("cdba") and rs.reorder(x, "nChw16c").to_numpy().sum() == x.sum()
        os._exit(0 if fine else 3)
    assert os.waitpid(pid, 0)[1] == 0, round
ended.set()
for worker in workers:
    worker.join()
assert right()
print("right")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
def test_20_a_child_forked_while_all_threads_work_reorders_too():
    assert run(FORKED) == "right"


SPAWNED = """
import multiprocessing, sys
import numpy as np
import restride as rs

x = np.arange(4 * 33 * 40 * 41, dtype=np.float32).reshape(4, 33, 40, 41)

def work(task):
    md, pd, dtype = task
    assert pd.dst_desc() == md
    out = rs.reorder(x, md)
    return (np.asarray(out) == x).all(), rs.onednn.Reorder(pd).get_primitive_desc().dst_desc() == md

if __name__ == "__main__":
    md = rs.MemoryDesc(x.shape, "f32", "nhwc")
    cpu = rs.Engine("cpu")
    pd = rs.onednn.Reorder.PrimitiveDesc(cpu, rs.MemoryDesc(x.shape, "f32"), cpu, md)
    rs.reorder(x, md)
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        print(all(all(pair) for pair in pool.map(work, [(md, pd, rs.f32)] * 4)))
"""


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_20_processes_started_any_way_reorder_too(method, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(SPAWNED)
    command = [sys.executable, str(path), method]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (done.stdout.strip(), done.returncode) == ("True", 0), done.stderr


# 22: the system refuses

FEW_THREADS = """
large = np.zeros((64, 64, 56, 56), np.float32)
out = np.empty((64, 56, 56, 64), np.float32).transpose(0, 3, 1, 2)
rs.set_num_threads(1)
rs.reorder(large, None, out=out)
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (3 << 20), resource.RLIM_INFINITY))
out[:] = 1
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    for count in (4, 3, 8):
        rs.set_num_threads(count)
        rs.reorder(large, None, out=out)
assert not out.any()
assert len(told) == 1, told
print(told[0].message)
try:
    rs.reorder(large, "cdba")
except rs.OutOfMemory as error:
    assert isinstance(error, MemoryError)
    assert error.status == rs.onednn.Status.out_of_memory
    print("no memory")
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of the address space")
def test_22_without_threads_it_runs_on_one_and_without_memory_it_says_so():
    told = run(FEW_THREADS).splitlines()
    assert "refused more threads" in told[0]
    assert told[1:] == ["no memory"]


# 23: the processor


def test_23_an_instruction_set_that_does_not_exist_is_told_by_name():
    told = run(
        """
        try:
            rs.reorder(x, "nhwc")
        except rs.InvalidArguments as error:
            print(error.message)
        """,
        RESTRIDE_MAX_CPU_ISA="bogus",
    )
    assert "MAX_CPU_ISA" in told
    assert "bogus" in told
    assert "AVX512_CORE" in told


@pytest.mark.parametrize("level", ["AVX10_2_512_AMX_2", "avx2", ""])
def test_23_a_level_that_the_processor_may_not_have_is_taken_as_the_next_lower(level):
    assert run("print(right(), right('cdba'))", RESTRIDE_MAX_CPU_ISA=level) == "True True"


def test_23_a_processor_that_llvm_does_not_know_gets_plain_code():
    told = run(
        """
        import dataclasses
        from restride.targets import llvm_facts
        told = dataclasses.replace(llvm_facts.llvm_facts(), features={})
        llvm_facts.llvm_facts = lambda: told
        print(right(), rs.plan(x, "nhwc").impl.split(":")[1])
        """
    )
    assert told == "True generic"


# 28: the kernels on disk

STORED = """
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    results = [right(), right("cdba"), right("nchw", "s32")]
print(results, len(told), *[str(t.message).split(": ", 1)[1][:60] for t in told], sep="|")
"""
RIGHT = "[True, True, True]"


def stored(folder):
    return run(STORED, RESTRIDE_CACHE_DIR=str(folder)).split("|")


@pytest.mark.skipif(os.name != "posix", reason="owners and modes")
def test_28_kernels_are_kept_on_disk_and_damaged_ones_made_again_with_one_warning(tmp_path):
    folder = tmp_path / "cache"
    assert stored(folder) == [RIGHT, "0"]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    entries = sorted(folder.glob("*.o"))
    assert len(entries) >= 3
    assert stored(folder) == [RIGHT, "0"]
    damages = [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: os.urandom(len(data)),
    ]
    for path, damage in zip(entries, itertools.cycle(damages), strict=False):
        path.write_bytes(damage(path.read_bytes()))
    found = stored(folder)
    assert found[:2] == [RIGHT, "1"], found
    assert "damaged" in found[2]
    assert stored(folder) == [RIGHT, "0"]


@pytest.mark.skipif(os.name != "posix", reason="owners and modes")
@pytest.mark.parametrize("mode", [0o777, 0o750])
def test_28_a_folder_that_others_may_write_or_read_is_not_used(tmp_path, mode):
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(mode)
    found = stored(folder)
    assert found[:2] == [RIGHT, "1"], found
    assert not list(folder.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="owners and modes")
def test_28_what_others_put_there_is_not_loaded(tmp_path):
    folder = tmp_path / "cache"
    stored(folder)
    entries = sorted(folder.glob("*.o"))
    entries[0].chmod(0o666)
    target = tmp_path / "elsewhere"
    entries[1].rename(target)
    entries[1].symlink_to(target)
    os.link(entries[2], tmp_path / "hard link")
    assert stored(folder)[:2] == [RIGHT, "1"]


@pytest.mark.parametrize("folder", ["", "/dev/null/x"])
def test_28_without_a_folder_everything_is_compiled(folder):
    assert stored(folder)[0] == RIGHT
