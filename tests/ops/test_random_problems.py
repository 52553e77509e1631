"""Random problems, each a function of its number; their bits; and what an emulated machine runs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from restride.dtypes import DataType
from support.attributed import LEVELS, capped
from support.packed import elements_of
from support.problem_bits import frozen_problems, line_of, problem_of, raw_bytes
from support.random_problems import random_problem

_TESTS = Path(__file__).parents[1]
_FIVE = (
    "reorder s64:bacd:1x9x1x129 s32:-1177,129,1177,1:1x9x1x129 "
    "scales_mask(17;6) binary(sub;f32:cDAb8d16a:1x1x1x129) caches:16384,65536"
)
_PRIMITIVES = (
    *("binary", "concat", "convolution", "eltwise_primitive", "inner_product", "lrn", "matmul"),
    *("normalization", "pooling", "prelu", "reduction_primitive", "reorder_primitive", "resampling", "rnn"),
    *("shuffle_primitive", "softmax", "sum"),
)
_FIRST = len(frozen_problems())


def test_a_number_is_one_problem_on_every_machine() -> None:
    assert random_problem(5).name == _FIVE
    assert problem_of(_FIRST) == random_problem(_FIRST)
    assert len({random_problem(number).name for number in range(300)}) > 290


def test_problems_are_of_every_kind() -> None:
    kinds = {random_problem(number).kind for number in range(100)}
    assert kinds == {"reorder", "shuffle_forward", "shuffle_backward", "concat", "sum"}


@pytest.mark.parametrize("name", ["f64", "f32", "bf16", "f16"])
def test_raw_bytes_hold_signalling_nans(name: str) -> None:
    data_type = DataType[name]
    words = elements_of(raw_bytes(data_type, 40_000, np.random.default_rng(1)), data_type)
    mantissa = {"f64": 52, "f32": 23, "bf16": 7, "f16": 10}[name]
    exponent = ((1 << data_type.bits - 1 - mantissa) - 1) << mantissa
    is_nan = ((words & exponent) == exponent) & ((words & ((1 << mantissa) - 1)) != 0)
    is_quiet = (words >> (mantissa - 1)) & 1 == 1
    assert (is_nan & ~is_quiet).any()
    assert (is_nan & is_quiet).any()


def test_levels_print_the_same_lines() -> None:
    numbers = range(_FIRST, _FIRST + 12)
    wanted = [line_of(number) for number in numbers]
    for level in list(LEVELS)[-1:]:
        with capped(level):
            assert [line_of(number) for number in numbers] == wanted


def _runner() -> ModuleType:
    folder = _TESTS / "arm"
    spec = importlib.util.spec_from_file_location("arm_run", folder / "run.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["arm_run"] = module
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    return module


@pytest.mark.parametrize("is_part", [False, True])
def test_the_files_that_an_emulated_machine_runs_exist(*, is_part: bool) -> None:
    jobs = list(_runner().jobs("python", is_part=is_part))
    assert len({job.name for job in jobs}) == len(jobs)
    files = [word for job in jobs for word in job.command if word.endswith(".py")]
    assert files
    assert not [file for file in files if not (_TESTS.parent / file).is_file()]


def test_an_emulated_machine_runs_the_tests_of_every_primitive() -> None:
    words = {word for job in _runner().jobs("python", is_part=False) for word in job.command}
    assert {f"tests/ops/test_{name}.py" for name in _PRIMITIVES} <= words
    assert "tests/conformance/test_operations.py" in words


_FAKE = """#!/bin/sh
case "$*" in
  *test_kernel*) echo "..F.  [ 20%]"; exec sleep 60;;
  *pytest*) echo "....  [ 20%]"; exec sleep 60;;
esac
"""


def test_a_failure_that_was_told_before_the_limit_is_one(tmp_path: Path) -> None:
    (tmp_path / "python").write_text(_FAKE)
    (tmp_path / "python").chmod(0o700)
    command = (sys.executable, _TESTS / "arm" / "run.py", tmp_path, "--part", "--seconds=2")
    ends = {}
    for name in ("kernels", "reorder"):
        done = subprocess.run(
            (*command, f"--only=check,{name}"), capture_output=True, text=True, timeout=120, check=False
        )
        ends[name] = done.returncode, done.stdout.split()
    assert ends["kernels"][0] == 1
    assert "FAILED" in ends["kernels"][1]
    assert ends["reorder"][0] == 3
    assert "stopped" in ends["reorder"][1]
