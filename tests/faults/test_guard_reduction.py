"""No reduction touches a byte outside its tensor and its outputs, alone or with the reorder that it sums.

There are forbidden pages on both sides of each.

A stray access kills the process that runs the kernels; here that is a failed test.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.kernels import isa_id, runnable
from support.sweeps import widest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
_TESTS = Path(__file__).parent.parent


@widest([isa_id(isa) for isa in runnable()])
@pytest.mark.parametrize(
    "program", ["support.guarded_reductions", "support.guarded_fused_sums", "support.guarded_trees"]
)
def test_reductions_stay_within_their_buffers(program: str, level: str) -> None:
    command = [sys.executable, "-m", program, level]
    done = subprocess.run(command, cwd=_TESTS, capture_output=True, text=True, timeout=1800)
    last = done.stdout.rstrip().rpartition("\n")[2]
    assert last == "done", f"{last} ended with {done.returncode}\n{done.stderr[-2000:]}"
    assert done.returncode == 0
