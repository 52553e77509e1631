"""Graphs of oneDNN's graph driver, beside NumPy in doubles."""

from __future__ import annotations

import io
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import restride as rs

CASES = Path(__file__).parents[3] / "shared" / "cases" / "graph_mha"
FILES = sorted(CASES.glob("*.json"))
TYPES = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "u8": np.uint8, "s8": np.int8,
    "s32": np.int32, "boolean": np.bool_,
}  # fmt: skip


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


def filled(x: dict[str, Any], seed: int, divides: bool) -> np.ndarray[Any, Any]:
    rng, dtype, shape = np.random.default_rng(seed), TYPES[x["dtype"]], x["shape"]
    if dtype is np.bool_:
        return rng.random(shape) > 0.2
    if np.dtype(dtype).kind in "iu":
        # Not far from the zero points: the largest of hundreds of scores would hang on how they are rounded.
        low = 100 if dtype is np.uint8 else -128
        return rng.integers(low, low + 56, shape).astype(dtype)
    return (8.0 * np.ones(shape) if divides else rng.uniform(-1, 1, shape)).astype(dtype)


def doubles(graph: dict[str, Any], inputs: dict[str, Any], is_rounded: bool) -> dict[str, Any]:
    """What the operations make of the inputs, in doubles; each result may be rounded to its type."""
    values = {name: np.asarray(x, bool if x.dtype == bool else float) for name, x in inputs.items()}
    for op in graph["graph"]:
        if op["kind"] == "End":
            continue
        attrs = {name: each["value"] for name, each in op["attrs"].items()}
        read = [values[str(x["id"])] for x in op["inputs"]]
        (out,) = op["outputs"]
        result = FORMULAS[op["kind"]](attrs, out, *read)
        values[str(out["id"])] = result.astype(TYPES[out["dtype"]]).astype(float) if is_rounded else result
    return values


def softmax(attrs, out, x):
    e = np.exp(x - x.max(attrs["axis"], keepdims=True))
    return e / e.sum(attrs["axis"], keepdims=True)


def matmul(attrs, out, a, b):
    a, b = (np.swapaxes(x, -1, -2) if attrs.get(f"transpose_{n}") else x for n, x in (("a", a), ("b", b)))
    return a @ b


def quantize(attrs, out, x):
    info = np.iinfo(TYPES[out["dtype"]])
    return np.clip(np.rint(x / np.float32(attrs["scales"][0])) + attrs["zps"][0], info.min, info.max)


def by_groups(attrs, out, x, scales, zps):
    for axis, n in enumerate(x.shape):
        scales, zps = (np.repeat(f, n // f.shape[axis], axis) for f in (scales, zps))
    return (x - zps) * scales


FORMULAS = {
    "MatMul": matmul,
    "SoftMax": softmax,
    "Quantize": quantize,
    "Dequantize": lambda attrs, out, x: (x - attrs["zps"][0]) * np.float32(attrs["scales"][0]),
    "DynamicDequantize": by_groups,
    "TypeCast": lambda attrs, out, x: x,
    "Reorder": lambda attrs, out, x: x,
    "Add": lambda attrs, out, a, b: a + b,
    "Subtract": lambda attrs, out, a, b: a - b,
    "Multiply": lambda attrs, out, a, b: a * b,
    "Divide": lambda attrs, out, a, b: a / b,
    "Maximum": lambda attrs, out, a, b: np.maximum(a, b),
    "Select": lambda attrs, out, c, a, b: np.where(c, a, b),
    "ReduceSum": lambda attrs, out, x: x.sum(tuple(attrs["axes"]), keepdims=bool(attrs["keep_dims"])),
    "StaticReshape": lambda attrs, out, x: x.reshape(attrs["shape"]),
    "StaticTranspose": lambda attrs, out, x: x.transpose(attrs["order"]),
}


@pytest.mark.skipif(not FILES, reason="the graphs of oneDNN's driver are not here")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_graphs_of_attention_are_as_in_doubles(path: Path):
    whole = json.loads(path.read_text("utf-8"))
    net = rs.onednn_graph.load(path)
    tensors = {str(x["id"]): x for op in whole["graph"] for x in op["inputs"]}
    divisors = {str(op["inputs"][1]["id"]) for op in whole["graph"] if op["kind"] == "Divide"}
    inputs = {
        name: filled(tensors[name], at, name in divisors)
        for at, name in enumerate(each.name for each in net.inputs)
    }
    results = net(inputs)
    results = results if isinstance(results, dict) else {net.outputs[0]: results}
    expected, rounded = (doubles(whole, inputs, each) for each in (False, True))
    is_wide = all(x["dtype"] in ("f32", "boolean") for x in tensors.values())
    for name, result in results.items():
        wanted, got = expected[name], np.asarray(result, float)
        assert got.shape == wanted.shape
        # What is fused is not rounded between; what is not may be as far off as the types of the graph say.
        steps = 2 if result.dtype.kind in "iu" else (1e-4 if is_wide else 2e-2) * np.abs(wanted).max()
        assert np.abs(got - wanted).max() <= max(steps, 2 * np.abs(rounded[name] - wanted).max())


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
    expected = by_groups({}, {}, x.astype(float), scales.astype(float), zps.astype(float))
    np.testing.assert_allclose(
        rs.onednn_graph.load(text)({"0": x, "1": scales, "2": zps}), expected, rtol=1e-6
    )


ONE = [tensor(0, 2)], [tensor(1, 2)]


@pytest.mark.parametrize(
    ("text", "error", "why"),
    [
        ("[]", rs.InvalidArguments, "cannot read the graph of oneDNN"),
        ("{", rs.InvalidArguments, "cannot read the graph of oneDNN"),
        ('{"graph": 1}', rs.InvalidArguments, "cannot read the graph of oneDNN"),
        ('{"graph": [{}]}', rs.InvalidArguments, "operation 0\n.*there is no 'kind' in {}"),
        ('{"graph": [{"kind": "Add"}]}', rs.InvalidArguments, "cannot read the graph of oneDNN"),
        (graph(("Nonesuch", *ONE, {})), rs.Unimplemented, "Nonesuch"),
        (graph(("SoftMax", *ONE, {"axis": 0, "mode": "inf_as_zero"})), rs.Unimplemented, "inf_as_zero"),
        (graph(("SoftMax", *ONE, {"axis": 7})), rs.InvalidArguments, "axis"),
        (graph(("Add", *ONE, {})), rs.Error, "Add"),
        (graph(("ReLU", [tensor(0, 2, dtype="f7")], [tensor(1, 2)], {})), rs.Error, "type"),
        (graph(("ReLU", *ONE, {}), output_ports=[8]), rs.InvalidArguments, "8"),
        (graph(("ReLU", *ONE, {}), output_ports=["1"]), rs.InvalidArguments, "in its 'output_ports' is '1'"),
        (graph(("ReLU", *ONE, {}), input_ports=5), rs.InvalidArguments, "its 'input_ports' is 5"),
        (
            graph(("ReLU", [tensor(0, 1e999)], ONE[1], {})),
            rs.InvalidArguments,
            "ReLU 'op0'\n.*inf",
        ),
        (graph(("ReLU", [tensor(1e999, 2)], ONE[1], {})), rs.InvalidArguments, "its 'id' is inf"),
        (graph(("ReLU", [tensor(0, 2.5)], ONE[1], {})), rs.InvalidArguments, "2.5, no integer"),
        (graph(("ReLU", [tensor(True, 2)], ONE[1], {})), rs.InvalidArguments, "its 'id' is True"),
        (graph(("Add", [tensor(0, 2), tensor(0, 1)], ONE[1], {})), rs.InvalidArguments, "another shape"),
        (graph(("ReLU", *ONE, {}), ("Abs", *ONE, {})), rs.InvalidArguments, "there is already"),
        (graph(("ReLU", ONE[0], ONE[0], {})), rs.InvalidArguments, "a cycle has none"),
        (graph(("ReLU", ONE[0], [*ONE[1], tensor(2, 2)], {})), rs.Unimplemented, "it has 2 outputs"),
        # What is said of a result is true, and what an attribute says is not left out.
        (graph(("ReLU", ONE[0], [tensor(1, 3)], {})), rs.InvalidArguments, "the graph says"),
        (graph(("ReLU", ONE[0], [tensor(1, 2, dtype="s8")], {})), rs.Unimplemented, "restride makes f32"),
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
