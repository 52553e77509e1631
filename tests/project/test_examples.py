"""The short programs of examples/: each runs as a user would run it, in seconds, and prints results."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_EXAMPLES = _ROOT / "examples"
# The library that a program needs, and lines of what it prints.
_PROGRAMS = {
    "reorder": ("", r"nChw16c +restride\.Memory\(bf16 8x64x56x56", r"time +[\d.]+ ms; NumPy"),
    "quantize": ("", r"mxfp4 +557,056 +4\.25 +1\d\.\d\d%", r"s8, groups of 64 .* 0\.\d\d%"),
    "network": ("", r"scores \(1, 64\), sum 1\.000", r"convolution +abcd -> ", r"the same scores: True"),
    "torch_compile": ("torch", r"largest difference to eager: \d\.\de-0[6-9]", r"0 operators of torch"),
    "convert": ("", r"q_proj\.weight .* s8 256x256 BA16a64b4a, largest", r"float32 \(1, 1024\)"),
    "llm": ("", r"tokens:( \d+){32}$", r"weights: 8\.3 MB"),
    "laboratory": (
        "",
        r"lies at 81; at it lies \(0, 17, 1, 0\)",
        r"^Sw<5,0,5> .*: 1 lanes",
        r"did you mean 'nChw16c'",
    ),
}
# Tests of their own run these: they are long, or need a device.
_OTHERS = {"language_model", "sycl_queue"}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.peer] if library else [])
        for name, (library, *_) in _PROGRAMS.items()
    ],
)
def test_an_example_runs(name: str, tmp_path: Path) -> None:
    library, *wanted = _PROGRAMS[name]
    if library and importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    done = subprocess.run(
        [sys.executable, str(_EXAMPLES / f"{name}.py")],
        cwd=tmp_path,
        env=os.environ | {"RESTRIDE_CACHE_DIR": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for line in wanted:
        assert re.search(line, done.stdout, re.MULTILINE), f"no line {line!r} in\n{done.stdout}"
    assert [path.name for path in tmp_path.iterdir() if path.name != "cache"] == []


def test_every_example_is_short_and_in_the_list() -> None:
    texts = {path.stem: path.read_text("utf-8") for path in _EXAMPLES.glob("*.py")}
    assert set(texts) == {*_PROGRAMS, *_OTHERS}
    page = (_EXAMPLES / "README.md").read_text("utf-8")
    for name, text in texts.items():
        assert f"python examples/{name}.py" in text
        assert f"]({name}.py)" in page
        assert name in _OTHERS or len(text.splitlines()) <= 60
