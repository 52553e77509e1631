"""Forks, signals and the end of the process, while the pool is idle or busy.

Each case is a program of its own: what is at stake is whether it ends, and how.
"""

import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="fork and signals")

PROLOGUE = """
import ctypes, os, signal, sys, threading, time, warnings
from restride.runtime import pool
from restride.targets import jit
from restride.targets.isa import host_isa

IR = '''
define void @spin(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) {
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
  %y = atomicrmw add ptr %p, i64 1 monotonic
  ret void
}
'''
library = jit.load(jit.compile_ir(IR, host_isa()))
spin = library.address("spin")
PARTS = 64
words = (ctypes.c_int64 * PARTS)()
dst = ctypes.addressof(words)


def run(turns=1000):
    mine = (ctypes.c_int64 * PARTS)()
    pool.default_pool().run(spin, 0, ctypes.addressof(mine), turns, PARTS)
    return list(mine) == [1] * PARTS


def busy(seconds=2.0, turns=20_000):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pool.default_pool().run(spin, 0, dst, turns, PARTS)


def fork(child):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        code = 0 if child() else 3
    finally:
        os._exit(code)


def ended_well(pid, seconds=5.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return status == 0
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return False


pool.set_num_threads(3)
"""


def _program(body):
    return [sys.executable, "-c", PROLOGUE + textwrap.dedent(body)]


def _run(body, seconds=20):
    done = subprocess.run(_program(body), capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.split()


def test_child_of_an_idle_pool_works():
    assert _run("""
        assert run()
        print(ended_well(fork(run)), run())
    """) == ["True", "True"]


def test_child_starts_workers_of_its_own():
    assert _run("""
        def parallel():
            assert run(20_000)
            return len(os.listdir("/proc/self/task")) == 3 if os.path.exists("/proc/self/task") else True
        assert run()
        print(ended_well(fork(parallel)), run())
    """) == ["True", "True"]


def test_children_forked_while_the_pool_is_busy_work():
    assert _run("""
        threads = [threading.Thread(target=busy, args=(0.4,)) for _ in range(2)]
        for thread in threads: thread.start()
        time.sleep(0.05)
        print(all(ended_well(fork(run)) for _ in range(12)))
        for thread in threads: thread.join()
        print(run())
    """) == ["True", "True"]


def test_children_forked_while_the_pool_starts_or_compiles_work():
    assert _run("""
        stop = False
        def restart():
            while not stop:
                pool.set_num_threads(2); run()
                pool.set_num_threads(3); run()
        def compile_():
            while not stop:
                jit.load(jit.compile_ir(IR, host_isa())).address("spin")
        def child():
            return run() and jit.load(jit.compile_ir(IR, host_isa())).address("spin") > 0
        threads = [threading.Thread(target=work) for work in (restart, compile_)]
        for thread in threads: thread.start()
        print(all(ended_well(fork(child)) for _ in range(12)))
        stop = True
        for thread in threads: thread.join()
        print(run())
    """) == ["True", "True"]


def test_grandchildren_work():
    assert _run("""
        run()
        def child():
            return run() and ended_well(fork(lambda: run() and ended_well(fork(run))))
        print(ended_well(fork(child)))
    """) == ["True"]


def test_a_pool_dropped_by_the_child_harms_nobody():
    assert _run("""
        import gc
        mine = pool.ThreadPool(3)
        mine.run(spin, 0, dst, 10, PARTS)
        def child():
            global mine
            del mine
            gc.collect()
            return run()
        print(ended_well(fork(child)))
        mine.run(spin, 0, dst, 10, PARTS)
        print(run())
    """) == ["True", "True"]


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(method, tmp_path):
    script = tmp_path / "program.py"
    main = f"""
def work(_):
    return run()

if __name__ == "__main__":
    import multiprocessing
    run()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        with multiprocessing.get_context("{method}").Pool(2) as processes:
            print(processes.map(work, range(4)) == [True] * 4, run())
"""
    script.write_text(PROLOGUE + main)
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, ["True", "True"]), done.stderr[-2000:]


def test_ctrl_c_ends_a_long_job_within_a_fifth_of_a_second():
    body = """
        run()
        parts = 1_000_000
        words = (ctypes.c_int64 * parts)()
        print("ready", flush=True)
        try:
            pool.default_pool().run_long(spin, 0, ctypes.addressof(words), 20_000, parts)
        except KeyboardInterrupt:
            print(time.monotonic())
        done = sum(words)
        print(0 < done < parts, max(words) == 1, run())
    """
    process = subprocess.Popen(_program(body), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.15)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        words = process.communicate(timeout=20)[0].split()
    finally:
        process.kill()
    assert float(words[0]) - sent < 0.2
    assert words[1:] == ["True", "True", "True"]


def test_a_storm_of_signals_is_survived_and_handled():
    assert _run("""
        caught = []
        main = threading.main_thread()
        signal.signal(signal.SIGALRM, lambda *_: caught.append(threading.current_thread() is main))
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        parts = 3000
        words = (ctypes.c_int64 * parts)()
        for _ in range(2):
            pool.default_pool().run_long(spin, 0, ctypes.addressof(words), 60_000, parts)
        signal.setitimer(signal.ITIMER_REAL, 0)
        print(list(words) == [2] * parts, len(caught) > 3, all(caught))
    """) == ["True", "True", "True"]


def test_keyboard_interrupts_at_any_moment_leave_the_pool_usable():
    assert _run("""
        main = threading.main_thread().ident
        stop = inside = False
        def on_signal(*_):
            # Only where it is awaited: never in the lines that handle the last one.
            global inside
            if inside:
                inside = False
                raise KeyboardInterrupt
        signal.signal(signal.SIGINT, on_signal)
        def interrupt():
            while not stop:
                time.sleep(0.002)
                signal.pthread_kill(main, signal.SIGINT)
        thread = threading.Thread(target=interrupt)
        thread.start()
        interrupted, end = 0, time.monotonic() + 1.0
        while time.monotonic() < end:
            try:
                inside = True
                pool.set_num_threads(2 + interrupted % 3)
                assert run(2_000)
                inside = False
            except KeyboardInterrupt:
                interrupted += 1
        stop = True
        thread.join()
        print(interrupted > 10, run())
    """) == ["True", "True"]


@pytest.mark.parametrize(
    ("state", "ending"),
    [
        ("unused", "pass"),
        ("idle", "pass"),
        ("asleep", "sys.exit(0)"),
        ("busy", "pass"),
        ("busy", "sys.exit(0)"),
        ("busy", "os._exit(0)"),
    ],
)
def test_the_process_ends_promptly(state, ending):
    bodies = {
        "unused": "pool.get_num_threads()",
        "idle": "run()",
        "asleep": "run(); time.sleep(0.01)",
        "busy": "run(); threading.Thread(target=busy, args=(30,), daemon=True).start(); time.sleep(0.05)",
    }
    start = time.monotonic()
    _run(f"{bodies[state]}\n{ending}\n")
    assert time.monotonic() - start < 5


def test_a_fault_in_a_worker_prints_a_traceback():
    body = """
        import faulthandler
        faulthandler.enable()
        crash = jit.load(jit.compile_ir('''
        define void @crash(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) {
          %last = icmp eq i64 %part, 7
          br i1 %last, label %fault, label %leave
        fault:
          store volatile i8 1, ptr null
          br label %leave
        leave:
          ret void
        }''', host_isa()))
        run()
        pool.default_pool().run(crash.address("crash"), 0, 0, 0, 8)
    """
    done = subprocess.run(_program(body), capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == -signal.SIGSEGV
    assert "Segmentation fault" in done.stderr


@pytest.mark.parametrize("use", ["rs.reorder(x, 'nhwc')", "rs.concat([x, x], 1)", "rs.quantize(x)"])
@pytest.mark.parametrize("delay", [0.02, 0.12])
def test_children_forked_while_another_thread_loads_a_module_work(use: str, delay: float):
    assert _run(f"""
        import importlib.abc
        import numpy as np, restride as rs
        class Slow(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name.startswith("restride."): time.sleep(0.03)
                return None
        sys.meta_path.insert(0, Slow())
        x = np.zeros((2, 3, 4, 5), "f4")
        def use():
            {use}
            return True
        thread = threading.Thread(target=use); thread.start()
        time.sleep({delay})
        print(ended_well(fork(use)))
        thread.join()
    """) == ["True"]


def test_children_forked_while_another_thread_loads_a_module_of_python_work():
    assert _run("""
        import importlib.abc
        import restride
        class Slow(importlib.abc.MetaPathFinder):
            def find_spec(self, name, path, target=None):
                if name in ("colorsys", "encodings.cp037"): time.sleep(0.2)
                return None
        sys.meta_path.insert(0, Slow())
        def use():
            import colorsys
            return "a".encode("cp037") == b"\\x81"
        thread = threading.Thread(target=use); thread.start()
        time.sleep(0.1)
        print(ended_well(fork(use)))
        thread.join()
        thread = threading.Thread(target=use); thread.start()
        time.sleep(0.3)
        print(ended_well(fork(use)))
        thread.join()
    """) == ["True", "True"]


def test_children_forked_while_another_thread_prepares_a_concat_work():
    assert _run("""
        import numpy as np, restride as rs
        from restride.primitives import concat_problem
        window_moves = concat_problem.window_moves
        def slow(*args):
            time.sleep(0.3)
            return window_moves(*args)
        concat_problem.window_moves = slow
        x = np.zeros((2, 3, 4, 5), "f4")
        def use():
            return rs.concat([x, x], 1).shape == (2, 6, 4, 5)
        thread = threading.Thread(target=use); thread.start()
        time.sleep(0.1)
        print(ended_well(fork(use)))
        thread.join()
    """) == ["True"]


def test_forks_while_another_thread_sets_up_logging_end():
    # dictConfig holds the lock of logging while it loads the classes of handlers; forks wait for that lock.
    assert _run("""
        import importlib, logging, logging.config, restride
        stop = False
        def set_up():
            while not stop:
                for name in [name for name in sys.modules if name.startswith("logging.handlers")]:
                    del sys.modules[name]
                logging.config.dictConfig({"version": 1, "handlers": {
                    "one": {"class": "logging.handlers.MemoryHandler", "capacity": 1}}})
        thread = threading.Thread(target=set_up); thread.start()
        time.sleep(0.05)
        print(all(ended_well(fork(run)) for _ in range(40)))
        stop = True
        thread.join()
    """) == ["True"]
