"""The thread pool: every part once, on any number of threads, whatever others do meanwhile."""

import ctypes
import functools
import math
import os
import pathlib
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest

from restride.emit.thread_pool_ir import POOL_BYTES, pool_ir
from restride.errors import InvalidArguments
from restride.runtime.cpu import thread_pool, workers
from restride.runtime.cpu.thread_pool import ThreadPool
from restride.targets import jit
from restride.targets.isa import Isa, host_isa

# count: adds one to dst[part], and part to dst[parts]. work: turns a loop params times, then sets dst[part]
# to the thread's number. halve: halves dst[part], a double.
KERNELS = """
declare i64 @pthread_self()

define void @count(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) {
  %p = getelementptr i64, ptr %dst, i64 %part
  %x = atomicrmw add ptr %p, i64 1 monotonic
  %q = getelementptr i64, ptr %dst, i64 %parts
  %y = atomicrmw add ptr %q, i64 %part monotonic
  ret void
}

define void @work(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) {
entry:
  %n = ptrtoint ptr %params to i64
  %word = alloca i8
  br label %loop
loop:
  %i = phi i64 [ %n, %entry ], [ %less, %loop ]
  %x = load volatile i8, ptr %word
  %less = sub i64 %i, 1
  %more = icmp sgt i64 %less, 0
  br i1 %more, label %loop, label %done
done:
  %p = getelementptr i64, ptr %dst, i64 %part
  %me = call i64 @pthread_self()
  store i64 %me, ptr %p
  ret void
}

define void @halve(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) {
  %p = getelementptr double, ptr %dst, i64 %part
  %x = load double, ptr %p
  %y = fmul double %x, 5.0e-1
  store double %y, ptr %p
  ret void
}
"""

posix = pytest.mark.skipif(os.name != "posix", reason="native workers")
linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@functools.cache
def _library():
    return jit.load(jit.compile_ir(KERNELS, host_isa()))


def _kernel(name):
    return _library().address(name)


def _words(count):
    return (ctypes.c_int64 * count)()


def _address(array):
    return ctypes.addressof(array)


def _use(some):
    words = _words(9)
    some.run(_kernel("count"), 0, _address(words), 0, 8)
    assert list(words)[:8] == [1] * 8


def _teams(name, count):
    if name == "native":
        return workers.NativeTeam(count, spin=True)
    if name == "native, never spinning":
        return workers.NativeTeam(count, spin=False)
    return workers.PythonTeam(count)


TEAMS = ["native", "native, never spinning", "python"]


@pytest.fixture(params=TEAMS)
def team(request):
    opened = _teams(request.param, 2)
    yield opened
    opened.close()


@pytest.mark.parametrize("parts", [0, 1, 2, 3, 7, 64, 1000])
def test_every_part_runs_once(team, parts):
    words = _words(parts + 1)
    for _ in range(20):
        team.run(_kernel("count"), 0, _address(words), 0, parts, 0, parts)
    assert list(words) == [20] * parts + [20 * sum(range(parts))]


@pytest.mark.parametrize(("first", "count"), [(0, 0), (0, 1), (3, 5), (9, 1), (0, 10), (5, 0), (2, -1)])
def test_a_range_of_parts_runs_only_those(team, first, count):
    words = _words(11)
    team.run(_kernel("count"), 0, _address(words), 0, 10, first, count)
    expected = [int(first <= part < first + count) for part in range(10)]
    assert list(words)[:10] == expected


def test_many_short_regions(team):
    words = _words(5)
    for _ in range(3000):
        team.run(_kernel("count"), 0, _address(words), 0, 4, 0, 4)
    assert list(words) == [3000] * 4 + [3000 * 6]


def test_regions_after_sleep(team):
    words = _words(9)
    for _ in range(20):
        time.sleep(0.002)
        team.run(_kernel("count"), 0, _address(words), 0, 8, 0, 8)
    assert list(words)[:8] == [20] * 8


def test_many_python_threads_share_a_team(team):
    arrays = [_words(9) for _ in range(8)]

    def storm(words):
        for _ in range(300):
            team.run(_kernel("count"), 0, _address(words), 0, 8, 0, 8)

    _together([functools.partial(storm, words) for words in arrays])
    assert [list(words)[:8] for words in arrays] == [[300] * 8] * 8


def test_a_closed_team_works_alone(team):
    team.close()
    team.close()
    words = _words(101)
    team.run(_kernel("count"), 0, _address(words), 0, 100, 0, 100)
    assert list(words)[:100] == [1] * 100


def _together(jobs):
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert not any(thread.is_alive() for thread in threads)


def test_workers_take_part():
    parallel = ThreadPool(3)
    words = _words(64)

    def both_worked():
        parallel.run(_kernel("work"), 0, _address(words), 300_000, 64)
        return len(set(words)) > 1

    assert _eventually(both_worked)


@posix
def test_no_region_waits_for_a_worker_that_sleeps():
    team = workers.NativeTeam(64, spin=False)
    words, rounds = _words(3), []

    def quick():
        start = time.perf_counter()
        for _ in range(100):
            team.run(_kernel("count"), 0, _address(words), 0, 2, 0, 2)
        rounds.append(time.perf_counter() - start)
        return rounds[-1] < 2

    assert _at_last(quick), rounds
    assert list(words)[:2] == [100 * len(rounds)] * 2


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_pool_of_any_size(threads):
    any_size = ThreadPool(threads)
    words = _words(31)
    for _ in range(50):
        any_size.run(_kernel("count"), 0, _address(words), 0, 30)
    assert list(words)[:30] == [50] * 30
    assert any_size.threads == threads


def test_default_range_is_all_parts_from_first():
    words = _words(11)
    ThreadPool(2).run(_kernel("count"), 0, _address(words), 0, 10, 4)
    assert list(words)[:10] == [0] * 4 + [1] * 6


def test_long_job_runs_every_part_once():
    words = _words(501)
    ThreadPool(2).run_long(_kernel("count"), 0, _address(words), 0, 500)
    assert list(words)[:500] == [1] * 500
    ThreadPool(2).run_long(_kernel("count"), 0, _address(words), 0, 0)


def test_pieces_of_a_long_job_are_short():
    assert _at_last(lambda: _longest_piece() < 0.2)


def _longest_piece():
    longest = 0.0

    class Timed(ThreadPool):
        def run(self, *arguments):
            nonlocal longest
            start = time.perf_counter()
            super().run(*arguments)
            longest = max(longest, time.perf_counter() - start)

    words = _words(2000)
    begun = Timed(2)
    begun.run_long(_kernel("work"), 0, _address(words), 100_000, 2000)
    assert all(words)
    return longest


def test_pieces_grow_and_shrink():
    assert thread_pool._next_piece(4, 1e-6, 2) == 16
    assert thread_pool._next_piece(4, 0.0, 2) == 16
    assert thread_pool._next_piece(400, 0.03, 2) == 40
    assert thread_pool._next_piece(4, 10.0, 2) == 2


def test_resizing_while_others_run():
    shared, stop = ThreadPool(2), threading.Event()
    arrays = [_words(9) for _ in range(3)]
    rounds = [0] * 3

    def storm(index):
        while not stop.is_set():
            shared.run(_kernel("count"), 0, _address(arrays[index]), 0, 8)
            rounds[index] += 1

    def resize():
        for count in range(40):
            shared.resize(1 + count % 4)
        stop.set()

    _together([resize, *[functools.partial(storm, index) for index in range(3)]])
    assert [list(words)[:8] for words in arrays] == [[count] * 8 for count in rounds]


@linux
def test_workers_leave_when_the_pool_does():
    before = _native_threads()
    some = ThreadPool(6)
    _use(some)
    assert _eventually(lambda: len(_native_threads() - before) == 5)
    some.resize(2)
    _use(some)
    assert _eventually(lambda: len(_native_threads() - before) == 1)
    del some
    assert _eventually(lambda: not _native_threads() - before)


def _native_threads():
    return set(os.listdir("/proc/self/task"))


def _at_last(attempt):
    """True if one of ten attempts goes well: other programs may hold some of them up."""
    return any(attempt() for _ in range(10))


def _eventually(condition):
    deadline = time.monotonic() + 60
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.001)
    return met


@posix
def test_idle_workers_use_no_processor_time():
    some = ThreadPool(2)
    _use(some)

    def idle():
        time.sleep(0.01)
        before = resource.getrusage(resource.RUSAGE_SELF)
        time.sleep(0.1)
        after = resource.getrusage(resource.RUSAGE_SELF)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 0.05

    assert _at_last(idle)


@linux
def test_workers_take_no_signals_but_faults():
    before, blocked = _native_threads(), signal.pthread_sigmask(signal.SIG_BLOCK, ())
    some = ThreadPool(2)
    _use(some)
    (worker,) = _native_threads() - before
    # A thread is born with all signals blocked; the C library then sets the mask that it inherits.
    assert _eventually(lambda: not _blocks(worker, signal.SIGSEGV))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGUSR1, signal.SIGCHLD):
        assert _blocks(worker, number)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == blocked


def _blocks(thread, number):
    status = pathlib.Path(f"/proc/self/task/{thread}/status").read_text(encoding="ascii")
    line = next(line for line in status.splitlines() if line.startswith("SigBlk"))
    return int(line.split()[1], 16) >> (number - 1) & 1


@posix
def test_refused_threads_leave_fewer_and_one_warning(monkeypatch):
    real, calls = workers._create_thread, []

    def refuse_the_second(*arguments):
        calls.append(arguments)
        return real(*arguments) if len(calls) == 1 else None

    monkeypatch.setattr(workers, "_create_thread", refuse_the_second)
    monkeypatch.setattr(workers, "_REFUSALS", iter(range(10)))
    refused, words = ThreadPool(4), _words(9)
    with pytest.warns(RuntimeWarning, match="2 of 4"):
        refused.run(_kernel("count"), 0, _address(words), 0, 8)
    refused.run(_kernel("count"), 0, _address(words), 0, 8)
    again = ThreadPool(4)  # refused at once, and silent
    again.run(_kernel("count"), 0, _address(words), 0, 8)
    assert list(words)[:8] == [3] * 8
    assert len(calls) == 3


@pytest.mark.skipif(host_isa().triple.split("-")[0] != "x86_64", reason="sets MXCSR")
@pytest.mark.parametrize("threads", [1, 3])
def test_results_do_not_depend_on_the_callers_floating_point_mode(threads):
    set_mode = """
    declare void @llvm.x86.sse.ldmxcsr(ptr)
    define void @set_mode(ptr %value) {
      call void @llvm.x86.sse.ldmxcsr(ptr %value)
      ret void
    }
    declare void @llvm.x86.sse.stmxcsr(ptr)
    define void @get_mode(ptr %value) {
      call void @llvm.x86.sse.stmxcsr(ptr %value)
      ret void
    }
    """
    library = jit.load(jit.compile_ir(set_mode, host_isa()))
    set_mode, get_mode = (
        ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.address(name)) for name in ("set_mode", "get_mode")
    )
    flush_to_zero, usual, seen = ctypes.c_uint32(0x9FC0), ctypes.c_uint32(0x1F80), ctypes.c_uint32()
    tiny = 1e-310
    values = (ctypes.c_double * 64)(*[tiny] * 64)
    some = ThreadPool(threads)
    set_mode(_address(flush_to_zero))
    try:
        some.run(_kernel("halve"), 0, _address(values), 0, 64)
        get_mode(_address(seen))
    finally:
        set_mode(_address(usual))
    assert list(values) == [tiny / 2] * 64
    assert math.ldexp(tiny, -1) > 0
    assert seen.value & 0x8040 == 0x8040  # the caller's own mode is back


@pytest.mark.parametrize("threads", [0, -1, 1025, 2**70, 1.0, "2", None, True, [2]])
def test_bad_numbers_of_threads(threads):
    before = thread_pool.get_num_threads()
    with pytest.raises(InvalidArguments, match="1 to 1024"):
        thread_pool.set_num_threads(threads)
    with pytest.raises(InvalidArguments):
        ThreadPool(threads)
    assert thread_pool.get_num_threads() == before


def test_setting_and_getting_the_number_of_threads():
    before = thread_pool.get_num_threads()
    try:
        thread_pool.set_num_threads(3)
        assert thread_pool.get_num_threads() == 3
        assert thread_pool.default_pool().threads == 3
    finally:
        thread_pool.set_num_threads(before)


def test_environment_sets_the_number_of_threads(monkeypatch):
    monkeypatch.setattr(thread_pool, "_pool", None)
    monkeypatch.setenv("RESTRIDE_NUM_THREADS", "5")
    assert thread_pool.get_num_threads() == 5


@pytest.mark.parametrize("text", ["0", "many", "-2", "1e9", "99999"])
def test_a_bad_environment_is_an_error(monkeypatch, text):
    monkeypatch.setattr(thread_pool, "_pool", None)
    monkeypatch.setenv("RESTRIDE_NUM_THREADS", text)
    with pytest.raises(InvalidArguments, match="RESTRIDE_NUM_THREADS"):
        thread_pool.get_num_threads()


def test_default_is_one_thread_per_available_processor(monkeypatch):
    monkeypatch.setattr(thread_pool, "_pool", None)
    for prefix in ("RESTRIDE", "ONEDNN", "DNNL"):
        monkeypatch.delenv(f"{prefix}_NUM_THREADS", raising=False)
    assert thread_pool.get_num_threads() == thread_pool.available_processors()


def test_python_team_waits_for_its_helpers_when_interrupted():
    done, started, begun = [], threading.Event(), threading.Event()

    def kernel(part, parts):
        if threading.current_thread() is not threading.main_thread():
            started.set()
            # Else it might be through with all parts before the caller takes one.
            begun.wait(60)
            time.sleep(0.02)
            done.append(part)
            return
        begun.set()
        if started.wait(60):
            raise KeyboardInterrupt

    region = workers._Region(kernel, 0, 6, 6)
    helper = threading.Thread(target=region.help)
    helper.start()
    with pytest.raises(KeyboardInterrupt):
        region.finish()
    assert len(done) >= 5
    helper.join()
    region.help()  # too late: nothing happens


@pytest.mark.parametrize(
    "triple",
    ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "arm64-apple-darwin", "riscv64-linux-gnu"],
)
@pytest.mark.parametrize("futex", [True, False])
def test_pool_compiles_for_every_system(triple, futex):
    text = pool_ir(triple, futex=futex)
    assert jit.compile_ir(text, Isa("x", 16, triple, "", ""))
    assert ("@pthread_cond_wait" in text) == (
        not futex or ("aarch64-unknown" not in triple and "x86" not in triple)
    )


@posix
def test_posix_conditions_do_as_well_as_futexes(monkeypatch):
    text = pool_ir(host_isa().triple, futex=False)
    monkeypatch.setattr(workers, "pool_ir", lambda triple: text)
    monkeypatch.setattr(workers, "_native", functools.cache(workers._native.__wrapped__))
    team, words = workers.NativeTeam(2, spin=False), _words(65)
    for count in range(200):
        if count % 20 == 0:
            time.sleep(0.001)
        team.run(_kernel("count"), 0, _address(words), 0, 64, 0, 64)
    team.close()
    assert list(words)[:64] == [200] * 64


def test_memory_of_a_team_holds_its_layout():
    text = pool_ir(host_isa().triple) + (
        "define i64 @size() {\n"
        "  %end = getelementptr %region, ptr null, i32 1\n"
        "  %size = ptrtoint ptr %end to i64\n"
        "  ret i64 %size\n}\n"
    )
    library = jit.load(jit.compile_ir(text, host_isa()))
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(library.address("size"))() == POOL_BYTES


@posix
def test_a_team_goes_without_a_word_where_its_module_is_emptied_first():
    """Modules are emptied at exit, those loaded last first: this one before whoever holds the team."""
    code = (
        "import atexit; from restride.runtime.cpu import workers; team = workers.NativeTeam(1, spin=False); "
        "atexit.register(lambda: vars(workers).update(dict.fromkeys(vars(workers))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert (done.stderr, done.returncode) == ("", 0)
