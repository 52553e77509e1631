"""No recurrent network touches a byte outside its tensors, forward and backward.

There are forbidden pages on both sides of each; what is read lies in pages that are read-only. A stray access
kills the process that runs the networks; here that is a failed test.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.kernels import isa_id, runnable
from support.sweeps import widest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
_TESTS = Path(__file__).parent.parent


@widest([isa_id(isa) for isa in runnable()])
def test_networks_stay_within_their_buffers(level: str) -> None:
    command = [sys.executable, "-m", "support.guarded_networks"]
    environment = os.environ | {"RESTRIDE_MAX_CPU_ISA": level.removesuffix("+")}
    done = subprocess.run(command, cwd=_TESTS, env=environment, capture_output=True, text=True, timeout=1800)
    last = done.stdout.rstrip().rpartition("\n")[2]
    assert last == "done", f"{last} ended with {done.returncode}\n{done.stderr[-2000:]}"
    assert done.returncode == 0
