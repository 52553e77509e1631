"""Handlers of signals that call restride while modules are loaded late: they find none half made."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import restride as rs

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals")

_CALLS = """
import os, signal, sys, threading, time, traceback
import numpy as np
import restride as rs

x = np.arange(2 * 48 * 5 * 7, dtype=np.float32).reshape(2, 48, 5, 7)
rows = x.reshape(-1, 7)

def calls():
    assert (rs.reorder(x, "nhwc") == x).all()
    assert (rs.concat([rows, rows], axis=0) == np.concatenate([rows, rows])).all()
    assert (rs.add_n([rows, rows]) == rows + rows).all()
    assert rs.shuffle(x, group_size=4, axis=1).shape == x.shape
    assert rs.quantize(rows)[0].dtype == np.int8
    assert rs.MemoryDesc(x.shape, "f32", "nhwc").explain()
    assert rs.MemoryDesc.from_json(rs.MemoryDesc((2, 3), "f32").to_json()).dims == (2, 3)
    try:
        rs.MemoryDesc((2, 3), "f23")
    except rs.InvalidArguments as error:
        assert "f32" in error.hint

errors, count = [], 0

def handle(*_):
    global count
    count += 1
    try:
        calls()
    except BaseException as error:
        errors.append("".join(traceback.format_exception(error)[-4:]))
"""
# A signal at the begin of an import of ours, while the modules that asked for it are half made.
_AT_AN_IMPORT = """
seen, ours = 0, {{"restride", "llvmlite", "json", "difflib", "numpy"}}

def watch(event, args):
    global seen
    if event == "import" and args[0].split(".")[0] in ours:
        seen += 1
        if seen == {number}:
            signal.raise_signal(signal.SIGUSR1)
            # The handler is the main thread's: it has its chance.
            time.sleep(0.005)

signal.signal(signal.SIGUSR1, handle)
sys.addaudithook(watch)
calls()
print(count == 1, errors[:3], flush=True)
"""
_STORM = """
def handle_again(*_):
    handle()
    signal.setitimer(signal.ITIMER_REAL, 0.0005)

signal.signal(signal.SIGALRM, handle_again)
signal.setitimer(signal.ITIMER_REAL, {delay})
calls()
# The handler may set the timer once more after it is stopped: a signal of then must not end the program.
signal.signal(signal.SIGALRM, signal.SIG_IGN)
signal.setitimer(signal.ITIMER_REAL, 0)
print(True, errors[:3], flush=True)
"""
# A module of ours is being loaded by the main thread itself: no other thread must wait for it.
_BY_THE_PROGRAM = """
done = []

def handle_once(*_):
    done.append(True)
    try:
        rs.reorder(x, "nhwc")
    except Exception:
        pass  # as half made as the program's own import has it

def watch(event, args):
    if event == "import" and args[0] == "restride.targets.isa" and not done:
        signal.raise_signal(signal.SIGUSR1)

signal.signal(signal.SIGUSR1, handle_once)
sys.addaudithook(watch)
for name in [name for name in sys.modules if name.startswith("restride.targets")]:
    del sys.modules[name]
import restride.targets.cpu
print(bool(done), [], flush=True)
"""


def printed(body: str, tmp_path: Path) -> str:
    environment = os.environ | {
        "PYTHONPATH": str(Path(rs.__file__).resolve().parents[1]),
        "RESTRIDE_CACHE_DIR": str(tmp_path),
    }
    done = subprocess.run(
        [sys.executable, "-c", _CALLS + textwrap.dedent(body)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


@pytest.mark.parametrize(
    "number", [1, 29, *(pytest.param(n, marks=pytest.mark.slow) for n in (3, 57, *range(2, 86, 3)))]
)
def test_a_handler_finds_no_module_half_made_whatever_is_being_loaded(tmp_path: Path, number: int) -> None:
    assert printed(_AT_AN_IMPORT.format(number=number), tmp_path) == "True []"


@pytest.mark.parametrize(
    "delay", [0.001, *(pytest.param(delay, marks=pytest.mark.slow) for delay in (0.0001, 0.004, 0.01))]
)
def test_a_storm_of_signals_finds_no_module_half_made(tmp_path: Path, delay: float) -> None:
    assert printed(_STORM.format(delay=delay), tmp_path) == "True []"


def test_a_handler_within_an_import_of_the_program_ends(tmp_path: Path) -> None:
    assert printed(_BY_THE_PROGRAM, tmp_path) == "True []"
