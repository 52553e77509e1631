"""Damaged ONNX models run or are refused with an error of restride, in bounded time and memory.

`RESTRIDE_TEST_EFFORT=25` tries 100,000. A crash ends the process that tries them; here that is a failed test.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from support.effort import examples

_TESTS = Path(__file__).parent.parent
_MOST_SECONDS = 36_000


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="limits the memory of a process")
@pytest.mark.parametrize("part", range(4))
def test_damaged_models(part: int) -> None:
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    count = examples(4000) // 4
    command = [sys.executable, "-m", "support.damaged_models", str(part * count), str(count)]
    done = subprocess.run(command, cwd=_TESTS, capture_output=True, text=True, timeout=_MOST_SECONDS)
    assert done.returncode == 0, done.stderr[-2000:]
    *wrong, counts = done.stdout.splitlines()
    assert not wrong, "\n".join(wrong)
    assert "refused" in counts
    assert "same" in counts
