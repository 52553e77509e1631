"""Primitives that compute, on random problems between guard pages: what they read, write, and mean."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.sweeps import widest

_TESTS = Path(__file__).parent


_LEVELS = widest(["sse41", "avx2", "default"])


def _run(level: str, *arguments: int) -> None:
    environment = {**os.environ, "RESTRIDE_MAX_CPU_ISA": level}
    command = [sys.executable, "-m", "support.guarded_primitives", *map(str, arguments)]
    ended = subprocess.run(command, cwd=_TESTS, env=environment, capture_output=True, text=True)
    last = (ended.stdout.splitlines() or ["nothing was run"])[-1]
    assert (ended.returncode, last) == (0, "done"), f"{last}\n{ended.stderr[-2000:]}"


@_LEVELS
def test_what_once_went_wrong_is_right(level):
    _run(level)


@_LEVELS
def test_primitives_touch_their_tensors_alone_and_equal_the_reference(level):
    _run(level, 0, 60)


@pytest.mark.slow
@_LEVELS
@pytest.mark.parametrize("first", range(10_000, 20_000, 500))
def test_ever_more_primitives_touch_their_tensors_alone_and_equal_the_reference(first, level):
    _run(level, first, 500)
