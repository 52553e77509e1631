"""Files of models that decide something by the batch serve the batches that they were saved for alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs

onnx = pytest.importorskip("onnx")
ort = pytest.importorskip("onnxruntime")

Node = tuple[str, str, str]
NUMBERS = {
    "zero": np.int64([0]), "one": np.int64([1]), "two": np.int64([2]), "three": np.int64([3]),
    "seven": np.int64([7]), "rest": np.int64([-1]), "ten": np.float32([10]), "huge": np.int64([5000]),
    "table": np.int64(np.arange(3000) == 7), "twelve": np.int64([12]),
}  # fmt: skip


def model(*nodes: Node) -> Any:
    """Nodes as (operator, inputs, output) that make `y` of `x`, n rows of 12; `n` is the batch."""
    helper, kinds = onnx.helper, onnx.TensorProto
    rows: list[Node] = [("Shape", "x", "shape"), ("Gather", "shape zero", "n"), *nodes]
    made = [helper.make_node(operator, inputs.split(), [output]) for operator, inputs, output in rows]
    for node in made:
        if node.op_type == "Cast":
            node.attribute.append(helper.make_attribute("to", kinds.FLOAT))
        if node.op_type == "Concat":
            node.attribute.append(helper.make_attribute("axis", 0))
    x, y = (
        helper.make_tensor_value_info(*each)
        for each in (("x", kinds.FLOAT, ["n", 12]), ("y", kinds.FLOAT, None))
    )
    known = [onnx.numpy_helper.from_array(np.asarray(value), name) for name, value in NUMBERS.items()]
    graph = helper.make_graph(made, "g", [x], [y], known)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def served(content: bytes, path: Path, sizes: Sequence[int]) -> list[bool]:
    """For each batch, whether a file that was saved for 2 serves it; then what it gives is what ONNX says."""
    rs.onnx.load(content).save(path, (2, 12))
    loaded, oracle, found = rs.Network.load(path), ort.InferenceSession(content), []
    for n in sizes:
        x = np.random.default_rng(n).standard_normal((n, 12)).astype(np.float32)
        try:
            np.testing.assert_allclose(loaded(x), oracle.run(None, {"x": x})[0], rtol=1e-5)
            found.append(True)
        except rs.InvalidArguments:
            found.append(False)
    return found


SCALED = [("Where", "is ten x", "y")]
DECIDING: dict[str, list[Node]] = {
    "a remainder": [("Div", "n three", "q"), ("Mul", "q three", "m"), ("Equal", "m n", "is"), *SCALED],
    "one batch": [("Equal", "n seven", "is"), *SCALED],
    "a table": [("Gather", "table n", "k"), ("Cast", "k", "f"), ("Mul", "x f", "y")],
    "a product that is 0 for some": [
        ("Sub", "n one", "a"), ("Sub", "n two", "b"), ("Mul", "a b", "c"), ("Cast", "c", "f"),
        ("Mul", "x f", "y"),
    ],
    "half of it": [("Div", "n two", "h"), ("Slice", "x zero h", "y")],
}  # fmt: skip

FOLLOWING: dict[str, list[Node]] = {
    "rows": [("Concat", "n rest", "to"), ("Reshape", "x to", "y")],
    "twice the rows": [("Mul", "n two", "m"), ("Concat", "m rest", "to"), ("Reshape", "x to", "y")],
    "a quotient without rest": [
        ("Mul", "n twelve", "m"), ("Div", "m three", "q"), ("Concat", "q rest", "to"),
        ("Reshape", "x to", "y"),
    ],
    "no more than there are": [("Slice", "x zero huge", "y")],
    "dims that may be 1": [
        ("Equal", "shape rest", "is"), ("Where", "is one shape", "to"), ("Reshape", "x to", "y"),
    ],
    "none of it": [("Relu", "x", "y")],
}  # fmt: skip


@pytest.mark.parametrize("name", DECIDING)
def test_what_the_batch_decides_is_saved_for_its_own_batch_alone(name: str, tmp_path: Path) -> None:
    assert served(model(*DECIDING[name]), tmp_path / "a.net", (2, 3, 4, 7, 9)) == [True, *[False] * 4]


@pytest.mark.parametrize("name", FOLLOWING)
def test_numbers_that_follow_the_batch_are_those_of_every_batch(name: str, tmp_path: Path) -> None:
    assert all(served(model(*FOLLOWING[name]), tmp_path / "a.net", (1, 2, 3, 7, 1024)))
