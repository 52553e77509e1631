"""No concat and no sum touches a byte outside its memories: forbidden pages on both sides of each.

A stray access kills the process that runs the kernels; here that is a failed test.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.kernels import runnable
from support.sweeps import widest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
_TESTS = Path(__file__).parent.parent


@widest(list(dict.fromkeys(isa.name for isa in runnable())))
def test_primitives_of_several_sources_stay_within_their_memories(level: str) -> None:
    command = [sys.executable, "-m", "support.guarded_several"]
    env = {**os.environ, "RESTRIDE_MAX_CPU_ISA": level}
    done = subprocess.run(command, cwd=_TESTS, env=env, capture_output=True, text=True, timeout=1800)
    last = done.stdout.rstrip().rpartition("\n")[2]
    assert last == "done", f"{last} ended with {done.returncode}\n{done.stderr[-2000:]}"
    assert done.returncode == 0
