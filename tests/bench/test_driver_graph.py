"""Graphs of oneDNN in the driver: each operation is what its formula says, a wrong answer is found out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import restride as rs
from restride.cli.usage import UsageError
from restride_bench.driver.expand import Test, expand
from restride_bench.driver.graph_formulas import FORMULAS
from restride_bench.driver.result import Outcome
from restride_bench.driver.run import execute, run

_X, _Y = (2, 3, 8), (2, 3, 8)
_TWICE = (_X, _X)
_AXES = {"axes": [1], "keep_dims": True}
# Of each kind what it reads, the dims of what it makes, attributes, and types that are not f32.
_OPERATIONS: dict[str, tuple[tuple[tuple[int, ...], ...], tuple[int, ...], dict[str, Any], str, str]] = {
    **{
        kind: ((_X,), _Y, {}, "f32", "f32")
        for kind in (
            *("Abs", "Exp", "Log", "ReLU", "Round", "Sigmoid", "Sqrt", "Square", "Tanh", "Reciprocal"),
            *("Reorder", "GELU"),
        )
    },
    **{
        kind: (_TWICE, _Y, {}, "f32", "f32")
        for kind in ("Add", "Divide", "Maximum", "Minimum", "Multiply", "Subtract")
    },
    **{
        f"Reduce{name}": ((_X,), (2, 1, 8), _AXES, "f32", "f32")
        for name in ("Sum", "Mean", "Max", "Min", "Prod")
    },
    "TypeCast": ((_X,), _Y, {}, "f32", "bf16"),
    "GreaterEqual": (_TWICE, _Y, {}, "f32", "boolean"),
    "Select": (((2, 1, 8), *_TWICE), _Y, {}, "f32", "f32"),
    "MatMul": (((2, 3, 8), (2, 5, 8), (5,)), (2, 3, 5), {"transpose_b": True}, "f32", "f32"),
    "SoftMax": ((_X,), _Y, {"axis": -1}, "f32", "f32"),
    "LogSoftmax": ((_X,), _Y, {"axis": 1}, "f32", "f32"),
    "SoftMaxBackward": (_TWICE, _Y, {"axis": -1}, "f32", "f32"),
    "Quantize": (
        ((2, 3, 8),),
        _Y,
        {"scales": [0.1, 0.02, 0.3], "zps": [3, 0, 9], "qtype": "per_channel", "axis": 1},
        *("f32", "u8"),
    ),
    "Dequantize": (((2, 3, 8),), _Y, {"scales": [0.1], "zps": [3]}, "u8", "f32"),
    "DynamicDequantize": (
        ((6, 8), (1, 8), (1, 8)),
        (6, 8),
        {"qtype": "per_channel", "axis": 1},
        *("s8", "f32"),
    ),
    "Pow": ((_X,), _Y, {"beta": 1.5}, "f32", "f32"),
    "Concat": ((_X, (2, 4, 8)), (2, 7, 8), {"axis": 1}, "f32", "f32"),
    "StaticReshape": ((_X,), (6, 8), {"shape": [6, 8], "special_zero": False}, "f32", "f32"),
    "StaticTranspose": ((_X,), (8, 2, 3), {"order": [2, 0, 1]}, "f32", "f32"),
}


def _written(folder: Path, kind: str = "Add") -> str:
    """The word that names a file with one operation."""
    dims, result, attrs, source, made = _OPERATIONS[kind]
    kinds = [source, *(["f32", "s8"] if kind == "DynamicDequantize" else ["f32", "f32"])]
    kinds[0] = "boolean" if kind == "Select" else kinds[0]
    operation = {
        "kind": kind,
        "inputs": [{"id": at, "dtype": kinds[at], "shape": n} for at, n in enumerate(dims)],
        "outputs": [{"id": 9, "dtype": made, "shape": result}],
        "attrs": {name: {"type": "", "value": value} for name, value in attrs.items()},
    }
    (folder / "one.json").write_text(json.dumps({"graph": [operation]}), encoding="utf-8")
    return f"--case={folder / 'one.json'}"


def _test(line: str) -> Test:
    (test,) = expand(line.split()).tests
    return test


def test_every_operation_is_tried() -> None:
    assert {*_OPERATIONS} == {*FORMULAS}


@pytest.mark.parametrize("kind", _OPERATIONS)
def test_an_operation_is_what_its_formula_says(kind: str, tmp_path: Path) -> None:
    result = run(_test(f"--graph {_written(tmp_path, kind)}"))
    assert result.status is Outcome.PASSED, result


def test_a_reproducer_line_gives_the_same_test(tmp_path: Path) -> None:
    test = _test(f"--graph {_written(tmp_path)}")
    assert _test(test.repro) == test
    (tmp_path / "batch").write_text("--case=one.json", encoding="utf-8")
    assert _test(f"--graph --batch={tmp_path / 'batch'}") == test


def test_each_case_is_a_test(tmp_path: Path) -> None:
    word = _written(tmp_path)
    assert len(expand(["--graph", "--mode=P", word, word, "--eltwise", "2x3"]).tests) == 3


@pytest.mark.parametrize("mode", ["I", "R", "B", "F"])
def test_a_graph_runs_in_each_mode(mode: str, tmp_path: Path) -> None:
    result = run(_test(f"--mode={mode} --fix-times-per-prb=1 --graph {_written(tmp_path)}"))
    assert not result.status.is_failure, result
    assert result.impl == "binary"
    assert (result.perf is not None) == (mode == "F")


def test_a_wrong_answer_fails(tmp_path: Path) -> None:
    def wrong(primitive: Any, stream: rs.Stream, args: dict[int, rs.Memory]) -> None:
        execute(primitive, stream, args)
        data = args[rs.ARG_DST].data
        assert data is not None
        data[0] = -data[0]

    result = run(_test(f"--graph {_written(tmp_path)}"), wrong)
    assert result.status is Outcome.FAILED
    assert result.errors == 1


def test_attributes_are_skipped(tmp_path: Path) -> None:
    result = run(_test(f"--graph --attr-scales=src:common:2 {_written(tmp_path)}"))
    assert result.status is Outcome.SKIPPED


@pytest.mark.parametrize("text", ["{", '{"graph": [{"kind": "Nonesuch", "inputs": [], "outputs": []}]}'])
def test_what_is_no_graph_is_an_error_of_usage(text: str, tmp_path: Path) -> None:
    path = tmp_path / "no.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError, match="--case"):
        expand(["--graph", f"--case={path}"])
