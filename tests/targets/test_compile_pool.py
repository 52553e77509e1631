"""Compiles in workers: same code, given up in time, and a way back wherever no worker can be had."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from restride.errors import RuntimeFailure
from restride.targets import compile_pool, compile_worker, jit
from restride.targets.compile_pool import _Pool
from restride.targets.isa import Isa
from support.compiling import long_text
from support.interrupts import words_after_interrupt

pytestmark = pytest.mark.skipif(os.name != "posix", reason="workers need POSIX")

_ISA = Isa.for_name("avx2")
_TESTS = str(Path(__file__).parents[1])
# What all programs here begin with.
_BEGIN = f"""
import os, signal, sys, threading, time
sys.path.append({_TESTS!r})
from restride.targets import compile_pool, jit
from restride.targets.isa import Isa
from support.compiling import long_text
ISA = Isa.for_name("avx2")
# A program that a shell starts in the background ignores Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
def text(number):
    return "define i32 @f() {{ ret i32 %d }}" % number
def workers():
    return [worker.process for worker in compile_pool._pool.workers()]
"""


def _text(number: int) -> str:
    return f"define i32 @f() {{ ret i32 {number} }}"


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Iterator[_Pool]:
    """A pool of its own, whose workers are gone afterward."""
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("given-up")))
    made = _Pool()
    monkeypatch.setattr(compile_pool, "_pool", made)
    yield made
    for worker in made.workers():
        worker.end()


def _run(program: str, environment: dict[str, str] | None = None) -> list[str]:
    """The words that a program prints, which begins with what all of these need."""
    command = [sys.executable, "-W", "error", "-c", _BEGIN + textwrap.dedent(program)]
    pipe = subprocess.PIPE
    done = subprocess.run(command, env=environment, stdout=pipe, text=True, timeout=300, check=True)
    return done.stdout.split()


def test_a_worker_makes_the_same_code(pool: _Pool) -> None:
    for number in range(3):
        assert compile_pool.compile_ir(_text(number), _ISA) == jit.compile_ir(_text(number), _ISA)
    assert compile_pool.assembly(_text(4), _ISA) == jit.assembly(_text(4), _ISA)
    assert len(pool.workers()) == 1


def test_a_refusal_reads_as_it_does_in_this_process(pool: _Pool) -> None:
    messages = []
    for compiler in (compile_pool.compile_ir, jit.compile_ir):
        with pytest.raises(RuntimeFailure) as raised:
            compiler("nonsense", _ISA)
        messages.append(raised.value.message)
    assert messages[0] == messages[1]
    assert compile_pool.compile_ir(_text(1), _ISA)


def test_a_worker_that_is_expected_is_the_one_that_compiles(pool: _Pool) -> None:
    compile_pool.expect()
    (worker,) = pool.workers()
    compile_pool.expect()
    assert compile_pool.compile_ir(_text(1), _ISA)
    assert pool.workers() == [worker]


def test_none_is_expected_where_this_process_compiles(pool: _Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTRIDE_COMPILE_LIMIT", "0")
    compile_pool.expect()
    assert pool.workers() == []


@pytest.mark.parametrize(
    "call", ["rs.reorder(x, 'ba')", "rs.reorder(x, 'ba', scale=0.5)", "rs.plan(x, 'ba').asm"]
)
def test_the_limit_holds_for_the_first_kernel_of_a_program(call: str, tmp_path: Path) -> None:
    """The commonest kinds of kernels, whose text takes LLVM far longer."""
    program = f"""
        import numpy as np
        import restride as rs
        from restride.targets.lowered import Lowered
        Lowered.ir = lambda nest: long_text()
        x = np.zeros((64, 64), np.float32)
        begin = time.monotonic()
        try:
            {call}
        except rs.Error as error:
            print(error.code, time.monotonic() - begin)
    """
    limits = {"RESTRIDE_COMPILE_LIMIT": "1", "RESTRIDE_CACHE_DIR": "off", "RESTRIDE_JIT_DUMP": "0"}
    code, took = _run(program, os.environ | limits | {"TMPDIR": str(tmp_path)})
    assert code == "RS-D06"
    assert 1.0 < float(took) < 20.0


def test_what_does_not_end_is_given_up_and_its_text_is_kept(
    pool: _Pool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RESTRIDE_JIT_DUMP", str(tmp_path))
    monkeypatch.setenv("RESTRIDE_COMPILE_LIMIT", "1")
    text = long_text()
    compile_pool.compile_ir(_text(1), _ISA)
    for _ in range(2):
        begin = time.monotonic()
        with pytest.raises(RuntimeFailure, match="RESTRIDE_COMPILE_LIMIT") as raised:
            compile_pool.compile_ir(text, _ISA)
        took = time.monotonic() - begin
        (file,) = tmp_path.iterdir()
        assert str(file) in raised.value.where
    assert took < 1.0
    assert file.read_text("utf-8").endswith(text)
    assert file.stat().st_mode & 0o777 == 0o600
    assert compile_pool.compile_ir(_text(2), _ISA)


def test_a_limit_of_zero_compiles_in_this_process(pool: _Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTRIDE_COMPILE_LIMIT", "0")
    assert compile_pool.compile_ir(_text(1), _ISA) == jit.compile_ir(_text(1), _ISA)
    assert pool.workers() == []


def test_a_worker_that_is_killed_at_work_costs_another_try(pool: _Pool) -> None:
    compile_pool.compile_ir(_text(1), _ISA)
    (worker,) = pool.workers()
    os.kill(worker.process, signal.SIGSTOP)
    threading.Timer(0.2, os.kill, (worker.process, signal.SIGKILL)).start()
    assert compile_pool.compile_ir(_text(2), _ISA) == jit.compile_ir(_text(2), _ISA)
    assert [other.process for other in pool.workers()] != [worker.process]


def test_an_idle_worker_that_is_gone_is_replaced(pool: _Pool) -> None:
    compile_pool.compile_ir(_text(1), _ISA)
    (worker,) = pool.workers()
    os.kill(worker.process, signal.SIGKILL)
    time.sleep(0.1)
    assert compile_pool.compile_ir(_text(2), _ISA)
    assert len(pool.workers()) == 1


def test_a_crash_of_the_compiler_is_an_error_that_says_how(
    pool: _Pool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RESTRIDE_JIT_DUMP", str(tmp_path))
    crashing = "from restride.targets import jit\njit.compile_ir = lambda *_: os.abort()\nserve(0)"
    monkeypatch.setattr(compile_worker, "_BEGIN", compile_worker._BEGIN.replace("serve(0)", crashing))
    with pytest.raises(RuntimeFailure, match="abandoned") as raised:
        compile_pool.compile_ir(_text(1), _ISA)
    assert "SIGABRT" in raised.value.why
    assert len(list(tmp_path.iterdir())) == 1
    assert pool.workers() == []
    assert not pool.is_unusable


@pytest.mark.parametrize("name", ["", "/nowhere/python3", "/bin/true", "/bin/false"])
def test_without_an_interpreter_this_process_compiles(
    pool: _Pool, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(sys, "executable", name)
    assert compile_pool.compile_ir(_text(1), _ISA) == jit.compile_ir(_text(1), _ISA)
    assert pool.workers() == []


def test_an_interpreter_that_does_not_start_is_tried_once(
    pool: _Pool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "python3"
    broken.write_text(f"#!/bin/sh\necho x >> {tmp_path}/tries\nexit 3\n")
    broken.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(broken))
    for number in range(3):
        assert compile_pool.compile_ir(_text(number), _ISA) == jit.compile_ir(_text(number), _ISA)
    assert (tmp_path / "tries").read_text() == "x\n"
    assert pool.workers() == []


@pytest.mark.parametrize("error", [OSError(11, "no more processes"), RuntimeError("a hook forbids it")])
def test_where_no_process_may_be_started_this_one_compiles(
    pool: _Pool, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise error

    monkeypatch.setattr(os, "posix_spawn", refuse)
    assert compile_pool.compile_ir(_text(1), _ISA) == jit.compile_ir(_text(1), _ISA)
    assert pool.is_unusable


def test_a_frozen_program_compiles_by_itself(pool: _Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert compile_pool.compile_ir(_text(1), _ISA)
    assert pool.is_unusable


def test_many_threads_share_a_few_workers(pool: _Pool) -> None:
    wrong: list[int] = []

    def compile_some(first: int) -> None:
        for number in range(first, first + 4):
            if compile_pool.compile_ir(_text(number), _ISA) != jit.compile_ir(_text(number), _ISA):
                wrong.append(number)

    threads = [threading.Thread(target=compile_some, args=(100 * i,)) for i in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert 1 <= len(pool.workers()) <= max(os.cpu_count() or 1, 1)


def test_others_compile_while_one_is_stuck(pool: _Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RESTRIDE_COMPILE_LIMIT", "3")
    pool._most = 2
    errors: list[RuntimeFailure] = []
    text = long_text()

    def stuck() -> None:
        try:
            compile_pool.compile_ir(text, _ISA)
        except RuntimeFailure as error:
            errors.append(error)

    compile_pool.compile_ir(_text(1), _ISA)
    thread = threading.Thread(target=stuck)
    thread.start()
    time.sleep(0.5)
    compile_pool.compile_ir(_text(2), _ISA)
    assert thread.is_alive()
    thread.join()
    assert len(errors) == 1


def test_a_handler_of_a_signal_may_compile_while_its_thread_waits(pool: _Pool) -> None:
    pool._most = 1
    compile_pool.compile_ir(_text(1), _ISA)
    (worker,) = pool.workers()
    seen = []

    def handle(*_: object) -> None:
        seen.append(compile_pool.compile_ir(_text(2), _ISA))
        os.kill(worker.process, signal.SIGCONT)

    before = signal.signal(signal.SIGALRM, handle)
    try:
        os.kill(worker.process, signal.SIGSTOP)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        compile_pool.compile_ir(_text(3), _ISA)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert seen == [jit.compile_ir(_text(2), _ISA)]


def test_ctrl_c_ends_the_wait_at_once() -> None:
    program = _BEGIN + textwrap.dedent("""
        compile_pool.compile_ir(text(1), ISA)
        long = long_text()
        print("ready", flush=True)
        try:
            compile_pool.compile_ir(long, ISA)
        except KeyboardInterrupt:
            print(time.monotonic(), flush=True)
        print(len(compile_pool.compile_ir(text(2), ISA)) > 100)
    """)
    sent, (seen, well) = words_after_interrupt([sys.executable, "-c", program], rest=1.0)
    assert float(seen) - sent < 0.2
    assert well == "True"


def test_a_child_of_a_fork_has_workers_of_its_own() -> None:
    words = _run("""
        compile_pool.compile_ir(text(1), ISA)
        mine = workers()
        child = os.fork()
        if not child:
            assert workers() == []
            assert compile_pool.compile_ir(text(2), ISA) == jit.compile_ir(text(2), ISA)
            os._exit(0 if workers() and workers() != mine else 1)
        assert os.waitpid(child, 0)[1] == 0
        compile_pool.compile_ir(text(3), ISA)
        print(workers() == mine)
    """)
    assert words == ["True"]


def _has_ended(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
@pytest.mark.sweep(1)
@pytest.mark.parametrize("end", ["", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
@pytest.mark.parametrize("is_busy", [False, True])
def test_no_worker_outlives_its_parent(end: str, is_busy: bool) -> None:
    busy = """
        threading.Thread(target=compile_pool.compile_ir, args=(long_text(), ISA), daemon=True).start()
        while not compile_pool._pool._busy:
            time.sleep(0.01)
        time.sleep(0.2)
    """
    program = f"""
        compile_pool.compile_ir(text(1), ISA)
        print(*workers(), flush=True)
        {busy if is_busy else ""}
        {end}
    """
    command = [sys.executable, "-c", _BEGIN + textwrap.dedent(program)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=120, check=False)
    (process,) = map(int, done.stdout.split())
    limit = time.monotonic() + 10
    while not _has_ended(process) and time.monotonic() < limit:
        time.sleep(0.01)
    assert _has_ended(process)


def test_the_program_is_not_run_again(tmp_path: Path) -> None:
    script = tmp_path / "not_safe_to_import.py"
    script.write_text(
        f"open({str(tmp_path / 'runs')!r}, 'a').write('x')\n{_BEGIN}\n"
        "assert compile_pool.compile_ir(text(1), ISA)\nassert len(workers()) == 1\n"
    )
    # Modules of the folder that the program runs in must not be taken for those that a worker needs.
    for name in ("struct", "queue", "llvmlite", "restride"):
        (tmp_path / "elsewhere" / name).mkdir(parents=True)
        (tmp_path / "elsewhere" / name / "__init__.py").write_text("raise SystemExit(9)\n")
    subprocess.run([sys.executable, str(script)], check=True, timeout=120, cwd=tmp_path / "elsewhere")
    assert (tmp_path / "runs").read_text() == "x"


@pytest.mark.parametrize("closed", ["0", "1", "0 1", "1 2", "0 1 2"])
def test_standard_files_may_be_closed(closed: str, tmp_path: Path) -> None:
    program = f"""
        for handle in {closed.split()}:
            os.close(int(handle))
        good = compile_pool.compile_ir(text(1), ISA) == jit.compile_ir(text(1), ISA) and len(workers()) == 1
        with open({str(tmp_path / "out")!r}, "w") as file:
            file.write(str(good))
        os._exit(0)
    """
    _run(program)
    assert (tmp_path / "out").read_text() == "True"


@pytest.mark.parametrize(
    "variables",
    [
        {"PYTHONHOME": f"{sys.base_prefix}:{sys.base_exec_prefix}"},
        {"PYTHONWARNINGS": "error", "PYTHONDEVMODE": "1"},
        {"PYTHONVERBOSE": "1"},
        {"PYTHONINSPECT": "1"},
        {"PYTHONSAFEPATH": "1", "PYTHONNOUSERSITE": "1"},
    ],
    ids=lambda variables: next(iter(variables)),
)
def test_the_interpreter_may_be_set_up_in_any_way(variables: dict[str, str]) -> None:
    # Where the environment has no site-packages of its own, the parent's path is spelled out.
    path = os.pathsep.join(entry for entry in sys.path if entry)
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    program = """
        compile_pool.compile_ir(text(1), ISA)
        print(len(workers()), flush=True)
        os._exit(0)
    """
    command = [sys.executable, "-c", _BEGIN + textwrap.dedent(program)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.split() == ["1"], done.stderr[-2000:]


def test_files_of_the_parent_do_not_stay_open_in_a_worker() -> None:
    words = _run("""
        reader, writer = os.pipe()
        os.set_inheritable(writer, True)
        compile_pool.compile_ir(text(1), ISA)
        os.close(writer)
        print(os.read(reader, 1) == b"")
    """)
    assert words == ["True"]


def test_a_program_that_lets_broken_pipes_end_it_goes_on() -> None:
    words = _run("""
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        compile_pool.compile_ir(text(1), ISA)
        gone = compile_pool._pool.workers()[0]
        gone.has_exited = lambda: False
        os.kill(gone.process, signal.SIGKILL)
        time.sleep(0.2)
        print(len(compile_pool.compile_ir(text(2), ISA)) > 100)
    """)
    assert words == ["True"]


def test_who_waits_for_all_children_takes_none_from_us() -> None:
    words = _run("""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        compile_pool.compile_ir(text(1), ISA)
        os.kill(workers()[0], signal.SIGKILL)
        time.sleep(0.2)
        print(len(compile_pool.compile_ir(text(2), ISA)) > 100)
    """)
    assert words == ["True"]


def test_kernels_from_the_store_start_no_worker(tmp_path: Path) -> None:
    program = """
        import numpy as np
        import restride as rs
        x = np.arange(10 * 8 * 6 * 6, dtype=np.float32).reshape(10, 8, 6, 6)
        for tag in ("nhwc", "nChw8c", "nChw16c", "chwn", "hwcn", "wnch"):
            rs.reorder(x, tag, dtype="u8")
        rs.add_n([x, x, x])
        print(len(workers()))
    """
    environment = {**os.environ, "RESTRIDE_CACHE_DIR": str(tmp_path / "store")}
    _run(program, environment)
    assert _run(program, environment) == ["0"]


def test_an_idle_worker_ends_by_itself(pool: _Pool) -> None:
    short = "from restride.targets import compile_server\ncompile_server._IDLE_S = 0.2\nserve(0)"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compile_worker, "_BEGIN", compile_worker._BEGIN.replace("serve(0)", short))
        compile_pool.compile_ir(_text(1), _ISA)
    (worker,) = pool.workers()
    limit = time.monotonic() + 30
    while not worker.has_exited() and time.monotonic() < limit:
        time.sleep(0.05)
    assert worker.has_exited()
    assert compile_pool.compile_ir(_text(2), _ISA)


# --- a program that is stopped for a while ------------------------------------------------------------------


def test_what_is_stopped_for_longer_than_the_limit_has_not_waited() -> None:
    # Ctrl-Z stops the program and its workers, `fg` lets them go on.
    found = _run("""
        from restride.targets.compile_worker import Deadline
        import socket
        near, far = socket.socketpair()
        parent = os.getpid()
        if os.fork() == 0:
            time.sleep(0.1)
            os.kill(parent, signal.SIGSTOP)
            time.sleep(1.5)
            os.kill(parent, signal.SIGCONT)
            time.sleep(0.1)
            far.sendall(b"done")
            os._exit(0)
        before = time.monotonic()
        with near, far:
            print(Deadline(1.0).receive(near, 4).decode(), time.monotonic() - before > 1.5)
        """)
    assert found == ["done", "True"]


def test_patience_ends() -> None:
    near, far = socket.socketpair()
    with near, far, pytest.raises(TimeoutError):
        compile_worker.Deadline(0.3).receive(near, 1)
