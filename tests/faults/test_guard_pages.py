"""No kernel touches a byte outside its buffers: forbidden pages on both sides, the source read-only.

A stray access kills the process that runs the kernels; here that is a failed test.
"""

from __future__ import annotations

import os
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
_NAMES = list(dict.fromkeys(isa.name for isa in runnable()))
_FAMILIES = ("copies", "rows", "transposes", "channels", "channels_last", "blocks", "plain", "strides")


def _run(program: str, *arguments: object, level: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"support.{program}", *map(str, arguments)]
    env = {**os.environ, "RESTRIDE_MAX_CPU_ISA": level or "DEFAULT"}
    return subprocess.run(command, cwd=_TESTS, env=env, capture_output=True, text=True, timeout=1800)


def _check(program: str, *arguments: object, level: str = "") -> None:
    done = _run(program, *arguments, level=level)
    last = done.stdout.rstrip().rpartition("\n")[2]
    assert (done.returncode, last) == (0, "done"), f"{last}\n{done.stderr[-2000:]}"


@pytest.mark.parametrize("level", _LEVELS)
def test_each_family_of_kernels_stays_within_its_buffers(level: str) -> None:
    _check("guarded", "fast", level)


@widest(_LEVELS)
@pytest.mark.parametrize(
    "words",
    [
        *(
            "guarded shuffles",
            "guarded staged",
            "guarded_reductions",
            "guarded_fused_sums",
            "guarded_gathers",
        ),
        "guarded_groups",
        "guarded_blocks",
    ],
)
def test_kernels_stay_within_their_buffers(words: str, level: str) -> None:
    _check(*words.split(), level)


@pytest.mark.slow
@pytest.mark.parametrize("level", _LEVELS)
@pytest.mark.parametrize("family", ["all", *_FAMILIES])
def test_every_tail_stays_within_its_buffers(family: str, level: str) -> None:
    _check("guarded", family, level)


@widest(_NAMES)
@pytest.mark.parametrize("seeds", [(0, 12), pytest.param((12, 400), marks=pytest.mark.slow)])
def test_kernels_with_attributes_stay_within_their_buffers(level: str, seeds: tuple[int, int]) -> None:
    _check("guarded_attributes", level, *seeds)


# Those that once went wrong, and random ones: which is the first, and how many.
_SHARES = [(), (0, 60), *(pytest.param((n, 500), marks=pytest.mark.slow) for n in range(10_000, 20_000, 500))]


@widest(_NAMES)
@pytest.mark.parametrize("share", _SHARES, ids=str)
def test_random_primitives_touch_their_tensors_alone_and_equal_the_reference(
    share: tuple[int, ...], level: str
) -> None:
    _check("guarded_primitives", *share, level=level)


def test_the_guards_catch_one_stray_byte() -> None:
    ends = dict(line.rsplit(" ", 1) for line in _run("guarded", "strays", "generic").stdout.splitlines())
    assert ends.pop("the last byte") == "0"
    assert ends.keys() == {"read after", "read before", "write after", "write before", "write source"}
    assert {int(end) for end in ends.values()} <= {-signal.SIGSEGV, -signal.SIGBUS}


@pytest.mark.parametrize("level", _NAMES)
def test_lanes_behind_the_end_are_left_out_where_guards_leave_out_others(level: str) -> None:
    _check("guarded_tails", level=level)
