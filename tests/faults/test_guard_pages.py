"""No kernel touches a byte outside its buffers: forbidden pages on both sides, the source read-only.

A stray access kills the process that runs the kernels; here that is a failed test.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from support.kernels import isa_id, runnable
from support.sweeps import widest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
_TESTS = Path(__file__).parent.parent
_LEVELS = [isa_id(isa) for isa in runnable()]
_levels = pytest.mark.parametrize("level", _LEVELS)
_FAMILIES = ("copies", "rows", "transposes", "channels", "channels_last", "blocks", "plain", "strides")


def _run(family: str, level: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "support.guarded", family, level]
    return subprocess.run(command, cwd=_TESTS, capture_output=True, text=True, timeout=1800)


def _check(family: str, level: str) -> None:
    done = _run(family, level)
    last = done.stdout.rstrip().rpartition("\n")[2]
    assert last == "done", f"{last} ended with {done.returncode}\n{done.stderr[-2000:]}"
    assert done.returncode == 0


@_levels
def test_each_kernel_family_stays_within_its_buffers(level: str) -> None:
    _check("fast", level)


@widest(_LEVELS)
def test_shuffles_stay_within_their_buffers(level: str) -> None:
    _check("shuffles", level)


@widest(_LEVELS)
def test_work_in_stages_stays_within_its_buffers(level: str) -> None:
    _check("staged", level)


@pytest.mark.slow
@_levels
@pytest.mark.parametrize("family", ["all", *_FAMILIES])
def test_every_tail_stays_within_its_buffers(family: str, level: str) -> None:
    _check(family, level)


def test_the_guards_catch_one_stray_byte() -> None:
    ends = dict(line.rsplit(" ", 1) for line in _run("strays", "generic").stdout.splitlines())
    assert ends.pop("the last byte") == "0"
    assert ends.keys() == {"read after", "read before", "write after", "write before", "write source"}
    assert {int(end) for end in ends.values()} <= {-signal.SIGSEGV, -signal.SIGBUS}
