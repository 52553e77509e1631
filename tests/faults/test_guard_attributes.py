"""No kernel reads past its scales, zero points and operands, or writes beside its destination.

All memories lie between forbidden pages; a stray access kills the process that runs the kernels.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.attributed import LEVELS
from support.kernels import runnable
from support.sweeps import widest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect")
_TESTS = Path(__file__).parent.parent
_FEW, _MANY = (0, 12), (12, 400)
_RUNNABLE = [level for level in reversed(LEVELS) if level in {isa.name for isa in runnable()}]


def _check(level: str, first: int, last: int) -> None:
    command = [sys.executable, "-m", "support.guarded_attributes", level, str(first), str(last)]
    done = subprocess.run(command, cwd=_TESTS, capture_output=True, text=True, timeout=1800, check=False)
    reached = done.stdout.rstrip().rpartition("\n")[2]
    assert reached == "done", f"{reached} ended with {done.returncode}\n{done.stderr[-2000:]}"


@widest(_RUNNABLE)
def test_kernels_with_attributes_stay_within_their_buffers(level: str) -> None:
    _check(level, *_FEW)


@pytest.mark.slow
@pytest.mark.parametrize("level", _RUNNABLE)
def test_many_kernels_with_attributes_stay_within_their_buffers(level: str) -> None:
    _check(level, *_MANY)
