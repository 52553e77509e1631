"""Graphs of oneDNN's graph driver, beside NumPy in doubles."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride_bench.driver.graph_formulas import FORMULAS, TYPES, graph_input, graph_results
from restride_bench.driver.result import Outcome
from restride_bench.driver.run import run_problem

CASES = Path(__file__).parents[3] / "shared" / "cases" / "graph_mha"
FILES = sorted(CASES.glob("*.json"))
# No single step: powers that are quantized, scores that a run compares with a number or chooses one for, a
# softmax of what is not summed, and a gradient.
PRODUCTS = (
    *("MHA-GPT-inf-int8-bs1", "MHA-LLaMa-inf-int8-bs1", "MHA-distill_bert-inf-int8-bs1"),
    *("sdpa-plain-wo-scale-int8-bs1", "MHA-GPT-inf-fp32-bs1", "MHA-LLaMa-inf-fp32-bs1"),
    *("JAX-MQA-inf-fp32", "MHA_backward-Bert_large-train-fp32-bs4"),
)


def tensor(number: int, *shape: int, dtype: str = "f32") -> dict[str, Any]:
    return {"id": number, "dtype": dtype, "shape": list(shape)}


def graph(*operations: tuple[str, list[Any], list[Any], dict[str, Any]], **more: Any) -> io.StringIO:
    listed = [
        {
            "kind": kind,
            "name": f"op{at}",
            "inputs": inputs,
            "outputs": outputs,
            "attrs": {name: {"type": "", "value": value} for name, value in attrs.items()},
        }
        for at, (kind, inputs, outputs, attrs) in enumerate(operations)
    ]
    return io.StringIO(json.dumps({"graph": listed, **more}))


@pytest.mark.skipif(not FILES, reason="the graphs of oneDNN's driver are not here")
@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_graphs_of_attention_are_as_in_doubles(path: Path):
    result = run_problem(f"--graph --case={path}")
    assert result.status is Outcome.PASSED, result
    assert ("attention" in result.impl) == (path.stem not in PRODUCTS)


def test_sums_and_products_of_a_graph():
    text = graph(
        ("MatMul", [tensor(7, 2, 3), tensor(3, 4, 3)], [tensor(9, 2, 4)], {"transpose_b": 1}),
        ("Add", [tensor(9, 2, 4), tensor(1, 4)], [tensor(5, 2, 4)], {"auto_broadcast": "numpy"}),
        ("End", [tensor(5, 2, 4)], [], {}),
        input_ports=[1, 7, 3],
    )
    net = rs.onednn_graph.load(text)
    a, b, c = (np.random.default_rng(i).random(n, np.float32) for i, n in enumerate(((2, 3), (4, 3), (4,))))
    assert [each.name for each in net.inputs] == ["1", "7", "3"]
    np.testing.assert_allclose(net({"1": c, "7": a, "3": b}), a @ b.T + c, rtol=1e-6)


@pytest.mark.parametrize("groups", [(1, 4), (2, 1), (1, 1), (6, 4)])
def test_dynamic_dequantization_by_groups(groups: tuple[int, int]):
    shape, counts = (6, 8), (6 // groups[0], 8 // groups[1])
    text = graph(
        (
            "DynamicDequantize",
            [tensor(0, *shape, dtype="s8"), tensor(1, *counts), tensor(2, *counts, dtype="s8")],
            [tensor(3, *shape)],
            {"qtype": "per_group", "group_shape": list(groups)},
        )
    )
    rng = np.random.default_rng(0)
    x, zps = rng.integers(-128, 128, shape).astype(np.int8), rng.integers(-9, 9, counts).astype(np.int8)
    scales = rng.random(counts, np.float32)
    expected = FORMULAS["DynamicDequantize"]({}, {}, x.astype(float), scales.astype(float), zps.astype(float))
    np.testing.assert_allclose(
        rs.onednn_graph.load(text)({"0": x, "1": scales, "2": zps}), expected, rtol=1e-6
    )


def test_attention_whose_scale_and_mask_a_run_makes_is_one_step():
    """As JSON files of models have it: numbers are inputs, and a mask of keys a condition."""
    q, k, v = (tensor(at, 2, 4, n, 8, dtype="bf16") for at, n in ((0, 5), (1, 7), (2, 7)))
    scores = [tensor(at, 2, 4, 5, 7, dtype="bf16") for at in range(10, 13)]
    wide, powers = (tensor(at, 2, 4, 5, 7) for at in (16, 13))
    result = tensor(15, 2, 4, 5, 8, dtype="bf16")
    text = graph(
        ("MatMul", [q, k], [scores[0]], {"transpose_b": 1}),
        ("Divide", [scores[0], tensor(3, dtype="bf16")], [scores[1]], {}),
        (
            "Select",
            [tensor(4, 2, 1, 1, 7, dtype="boolean"), tensor(5, 1, dtype="bf16"), scores[1]],
            [scores[2]],
            {},
        ),
        ("TypeCast", [scores[2]], [wide], {}),
        ("SoftMax", [wide], [powers], {"axis": -1}),
        ("TypeCast", [powers], [tensor(14, 2, 4, 5, 7, dtype="bf16")], {}),
        ("MatMul", [tensor(14, 2, 4, 5, 7, dtype="bf16"), v], [result], {}),
    )
    whole, net = json.loads(text.getvalue()), rs.onednn_graph.load(text)
    inputs = {str(x["id"]): graph_input(x, x["id"], is_positive=False) for x in (q, k, v)}
    inputs |= {"3": np.array(2.5, TYPES["bf16"]), "5": np.array([-60], TYPES["bf16"])}
    inputs["4"] = np.random.default_rng(4).random((2, 1, 1, 7)) > 0.6
    wanted = graph_results(whole, inputs)["15"]
    np.testing.assert_allclose(np.asarray(net(inputs), float), wanted, rtol=0, atol=0.02)
    lines = str(net.explain()).splitlines()
    assert "1 attention" in lines[0]
    assert "  attention: 14, 13, 16, 12, 11, matmul into 15" in lines


ONE = [tensor(0, 2)], [tensor(1, 2)]


@pytest.mark.parametrize(
    ("text", "error", "why"),
    [
        ("[]", rs.InvalidArguments, "cannot read the graph of oneDNN"),
        ("{", rs.InvalidArguments, "cannot read the graph of oneDNN"),
        ('{"graph": 1}', rs.InvalidArguments, "cannot read the graph of oneDNN"),
        ('{"graph": [{}]}', rs.InvalidArguments, "operation 0\n.*'kind' is missing in {}"),
        ('{"graph": [{"kind": "Add"}]}', rs.InvalidArguments, "cannot read the graph of oneDNN"),
        (graph(("Nonesuch", *ONE, {})), rs.Unimplemented, "Nonesuch"),
        (graph(("SoftMax", *ONE, {"axis": 0, "mode": "inf_as_zero"})), rs.Unimplemented, "inf_as_zero"),
        (graph(("SoftMax", *ONE, {"axis": 7})), rs.InvalidArguments, "axis"),
        (graph(("Add", *ONE, {})), rs.Error, "Add"),
        (graph(("ReLU", [tensor(0, 2, dtype="f7")], [tensor(1, 2)], {})), rs.Error, "type"),
        (graph(("ReLU", *ONE, {}), output_ports=[8]), rs.InvalidArguments, "8"),
        (
            graph(("ReLU", *ONE, {}), output_ports=["1"]),
            rs.InvalidArguments,
            "its 'output_ports' contains '1'",
        ),
        (graph(("ReLU", *ONE, {}), input_ports=5), rs.InvalidArguments, "its 'input_ports' is 5"),
        (
            graph(("ReLU", [tensor(0, 1e999)], ONE[1], {})),
            rs.InvalidArguments,
            "ReLU 'op0'\n.*inf",
        ),
        (graph(("ReLU", [tensor(1e999, 2)], ONE[1], {})), rs.InvalidArguments, "its 'id' is inf"),
        (graph(("ReLU", [tensor(0, 2.5)], ONE[1], {})), rs.InvalidArguments, "2.5, which is not an integer"),
        (graph(("ReLU", [tensor(True, 2)], ONE[1], {})), rs.InvalidArguments, "its 'id' is True"),
        (graph(("Add", [tensor(0, 2), tensor(0, 1)], ONE[1], {})), rs.InvalidArguments, "a different shape"),
        (graph(("ReLU", *ONE, {}), ("Abs", *ONE, {})), rs.InvalidArguments, "existing tensor"),
        (graph(("ReLU", ONE[0], ONE[0], {})), rs.InvalidArguments, "without cycles"),
        (graph(("ReLU", ONE[0], [*ONE[1], tensor(2, 2)], {})), rs.Unimplemented, "it has 2 outputs"),
        # What is said of a result is true, and what an attribute says is not left out.
        (graph(("ReLU", ONE[0], [tensor(1, 3)], {})), rs.InvalidArguments, "the graph says"),
        (graph(("ReLU", ONE[0], [tensor(1, 2, dtype="s8")], {})), rs.Unimplemented, "restride's is f32"),
        (graph(("ReLU", *ONE, {"slope": 0.5})), rs.Unimplemented, "it has slope=0.5"),
        (graph(("GELU", *ONE, {"mode": "nonesuch"})), rs.Unimplemented, "its mode is 'nonesuch'"),
        (
            graph(("Quantize", ONE[0], [tensor(1, 2, dtype="s8")], {"scales": [1.0], "qtype": "nonesuch"})),
            rs.Unimplemented,
            "its qtype is 'nonesuch'",
        ),
        (
            graph(("Quantize", ONE[0], [tensor(1, 2, dtype="s8")], {"scales": [1.0, 2.0]})),
            rs.InvalidArguments,
            "2 scales and 2 zero points",
        ),
    ],
)
def test_what_is_no_graph_is_refused(text: Any, error: type[Exception], why: str):
    source = io.StringIO(text) if isinstance(text, str) else io.StringIO(text.getvalue())
    with pytest.raises(error, match=why):
        rs.onednn_graph.load(source)(np.zeros(2, np.float32))


def test_operations_that_there_are_not_are_refused_before_a_run():
    text = graph(("Nonesuch", *ONE, {}), ("ReLU", [tensor(1, 2)], [tensor(2, 2)], {}))
    with pytest.raises(rs.Unimplemented, match="Nonesuch op0 1"):
        rs.onednn_graph.load(text)


def test_operations_stand_in_any_order():
    chain = [("ReLU", [tensor(at, 2)], [tensor(at + 1, 2)], {}) for at in range(2000)]
    chain[0] = "Subtract", [tensor(0, 2), tensor(9999, 2)], chain[0][2], {}
    found = rs.onednn_graph.load(graph(*chain[::-1]))
    assert [each.name for each in found.inputs] == ["0", "9999"]
    few = rs.onednn_graph.load(graph(*chain[3::-1]))
    result = few({"0": np.array([1, 2], np.float32), "9999": np.array([3, 1], np.float32)})
    np.testing.assert_array_equal(result, [0, 1])


@pytest.mark.skipif(not FILES, reason="the graphs of oneDNN's driver are not here")
def test_damaged_graphs_are_refused_or_read():
    rng, wholes = np.random.default_rng(0), [path.read_text("utf-8") for path in FILES]
    for _ in range(300):
        text = wholes[rng.integers(len(wholes))]
        at = int(rng.integers(len(text)))
        put = ["", "1e999", "NaN", "[", "-1", '"', "{}", "null", "9" * 40][rng.integers(9)]
        with suppress(rs.Error):
            rs.onednn_graph.load(io.StringIO(text[:at] + put + text[at + int(rng.integers(3)) :]))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(rs.RuntimeFailure, match="No such file"):
        rs.onednn_graph.load(tmp_path / "no.json")
