"""The programs of the page on SYCL, and of examples/, run where there is a device."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.sycl import sycl_engine

pytestmark = pytest.mark.sycl
_ROOT = Path(__file__).parents[2]
_PAGE = _ROOT / "docs" / "sycl.md"
_EXAMPLE = _ROOT / "examples" / "sycl_queue.py"


def _blocks():
    return re.findall(r"^```py\n(.*?)^```", _PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def test_the_programs_of_the_page_run():
    sycl_engine()
    names: dict[str, object] = {}
    first, second = _blocks()
    for block in (first, second):
        exec(block, names)
    names["stream"].wait()


def test_the_example_prints_what_it_says():
    sycl_engine()
    done = subprocess.run(
        [sys.executable, str(_EXAMPLE)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout.splitlines()
    wanted = re.findall(
        r"^    (\w.*: .*)$", _EXAMPLE.read_text(encoding="utf-8").split('"""')[1], re.MULTILINE
    )
    assert (
        said[2:]
        == wanted[2:]
        == ["quantized: complete, 262144 bytes of s8 nChw16c", "back on the host: right"]
    )
    assert [line.split(":")[0] for line in said] == [line.split(":")[0] for line in wanted]
