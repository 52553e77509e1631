"""Counting instructions: callgrind is read right, and a kernel that is stepped through is counted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from restride_bench import instructions
from restride_bench.instructions import CountedKernel, Uncounted, own_costs
from restride_bench.rows import kernels

# Two functions known by address: one calls the other, whose cost is not its own; then a named one.
CALLGRIND = """
positions: line
events: Ir
fn=(1) 0x0000000000001000
0 7
cfn=(2) 0x0000000000002000'2
calls=3 0
0 900
* 5

fn=(2)
+4 300
fn=(3) main
12 40
cfn=(1)
calls=1 0
13 1212
fn=(1)
0 1
"""


def test_costs_are_of_functions_without_names_and_without_their_callees() -> None:
    assert own_costs(CALLGRIND.splitlines()) == {0x1000: 13, 0x2000: 300}


def test_only_what_lies_in_a_kernel_is_its_own() -> None:
    kernel = CountedKernel("f32", "jit", 64, 8, [(0x0FF0, 0x20), (0x3000, 8)])
    assert instructions.within(kernel, {0x1000: 13, 0x2000: 300, 0x3008: 9}) == 13


def _counted(instructions: int) -> CountedKernel:
    return CountedKernel("f32", "jit", 1000, 100, [], instructions)


def test_levels_without_one_counter_have_the_other() -> None:
    (both,) = instructions.rows_of({"stepping": [_counted(50)], "callgrind": [_counted(51)]})
    (one,) = instructions.rows_of({"callgrind": [_counted(100)]})
    assert both.about == {"elements": 100, "stepping": 50, "callgrind": 51}
    assert [instructions.instructions_of(row) for row in (both, one)] == [50, 100]
    assert instructions.rows_of({}) == []
    page = instructions.page([both, one])
    assert "| f32 | jit | 1000 | 50 | 51 | 20.0 | 0.500 |" in page
    assert "| f32 | jit | 1000 | – | 100 | 10.0 | 1.000 |" in page


def test_what_cannot_be_run_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(instructions.shutil, "which", lambda _: "valgrind")
    monkeypatch.setattr(instructions, "_CHILD", [sys.executable, "-c", "raise SystemExit('no such thing')"])
    with pytest.raises(Uncounted, match="no such thing"):
        instructions.by_callgrind("avx2", tmp_path)
    monkeypatch.setattr(instructions.shutil, "which", lambda _: None)
    with pytest.raises(Uncounted, match="valgrind is not installed"):
        instructions.by_callgrind("avx2", tmp_path)
    monkeypatch.setattr(instructions.sys, "platform", "plan9")
    with pytest.raises(Uncounted, match="only on Linux"):
        instructions.by_stepping("avx2", tmp_path)


def test_the_five_are_of_different_kinds() -> None:
    chosen = kernels((1, 64, 28, 28))
    assert len({problem.name for problem in chosen}) == len(chosen) == 5
    assert {problem.src_type for problem in chosen} == {"f32", "u8"}


_STEPPED = """
from restride_bench import instructions
first = instructions.kernels((1, 16, 4, 8))[:2]
instructions.kernels = lambda dims: first
instructions.main(["step"])
"""


@pytest.mark.skipif(
    sys.platform != "linux" or os.uname().machine != "x86_64", reason="ptrace of x86-64 Linux"
)
def test_a_kernel_is_stepped_through() -> None:
    environment = {**os.environ, "RESTRIDE_JIT_PROFILE": "2", "RESTRIDE_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", _STEPPED], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    copy, transpose = json.loads(done.stdout)
    # A vector of at most 64 bytes takes a load and a store; a transpose shuffles besides.
    assert copy["moved"] / 64 <= copy["instructions"] < copy["moved"]
    assert transpose["instructions"] > copy["instructions"]
