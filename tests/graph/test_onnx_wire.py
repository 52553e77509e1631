"""Messages of ONNX out of bytes, beside what the package onnx writes and reads."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

import restride as rs
from restride.graph.importers.onnx.model import read_model
from restride.graph.importers.onnx.wire import read_message

onnx = pytest.importorskip("onnx")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
KINDS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


def model(*tensors: object) -> object:
    output = helper.make_tensor_value_info("w", 1, None)
    graph = helper.make_graph([], "g", [], [output], initializer=list(tensors))
    return helper.make_model(graph)


@pytest.mark.parametrize("kind", ["bool", "float16", "float32", "float64", *KINDS])
@pytest.mark.parametrize("is_raw", [True, False])
def test_tensors_come_as_the_package_reads_them(kind: str, is_raw: bool) -> None:
    values = np.array([[0, 1, 2], [3, 100, 255]]).astype(kind)
    if kind.startswith("int"):
        values = -values
    number = helper.np_dtype_to_tensor_dtype(values.dtype)
    content = values.tobytes() if is_raw else values.reshape(-1).tolist()
    made = helper.make_tensor("w", number, values.shape, content, raw=is_raw)
    found = read_model(model(made)).tensors["w"]
    assert found.dtype == values.dtype
    assert np.array_equal(found, values)


def test_largest_integers_keep_all_their_bits() -> None:
    wanted = {"int64": [-(2**63), 2**63 - 1], "uint64": [2**64 - 1, 2**63]}
    for kind, numbers in wanted.items():
        made = helper.make_tensor("w", helper.np_dtype_to_tensor_dtype(np.dtype(kind)), (2,), numbers)
        assert read_model(model(made)).tensors["w"].tolist() == numbers


def test_types_that_numpy_has_not_are_read_by_the_package() -> None:
    made = helper.make_tensor("w", onnx.TensorProto.BFLOAT16, (2,), [1.0, -2.5])
    assert read_model(model(made)).tensors["w"].astype(np.float32).tolist() == [1.0, -2.5]


def test_attributes_of_every_kind() -> None:
    inner = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "inner", [], [])
    wanted = {
        "f": 0.1, "i": -3, "s": "é", "fs": [0.5, -2.0], "is": [1, -1, 2**62], "ss": ["a", ""],
        "none": [],
    }  # fmt: skip
    attributes = [helper.make_attribute(name, value) for name, value in wanted.items() if name != "none"]
    attributes += [helper.make_attribute("t", numpy_helper.from_array(np.arange(3.0)))]
    attributes += [helper.make_attribute("g", inner)]
    node = onnx.NodeProto(op_type="Relu", name="n", input=["x", ""], output=["y"], domain="other")
    node.attribute.extend(attributes)
    graph = helper.make_graph([node], "g", [], [helper.make_tensor_value_info("y", 1, None)])
    (found,) = read_model(helper.make_model(graph)).nodes
    assert (found.operator, found.inputs, found.outputs) == ("other.Relu", ("x", ""), ("y",))
    told = found.attributes
    assert told["f"] == np.float32(0.1)
    assert (told["i"], told["s"], told["fs"]) == (-3, "é", (0.5, -2.0))
    assert (told["is"], told["ss"]) == ((1, -1, 2**62), ("a", ""))
    assert told["t"].tolist() == [0, 1, 2]
    assert told["g"].nodes[0].operator == "Relu"


def test_inputs_have_extents_names_and_neither() -> None:
    values = [
        helper.make_tensor_value_info("a", 1, [2, "n", None]),
        helper.make_tensor_value_info("b", 7, None),
        helper.make_tensor_value_info("c", 1, []),
    ]
    graph = helper.make_graph([], "g", values, [helper.make_tensor_value_info("a", 1, None)])
    inputs = read_model(helper.make_model(graph)).inputs
    assert [(each.name, each.dims, each.element) for each in inputs] == [
        ("a", (2, "n", None), 1), ("b", None, 7), ("c", (), 1),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [b"\x3a", b"\x3a\x7f", b"\xff" * 11, b"\0\0", b"\x3b\x3c", b"\x42\x02\x0a\xff", b"\x38\1", b"\x3a\1\x0d"],
    ids=["no size", "too short", "long number", "field 0", "a group", "cut text", "no message", "cut float"],
)  # fmt: skip
def test_bytes_that_are_no_message_are_refused(content: bytes) -> None:
    with pytest.raises((ValueError, IndexError)):
        read_message("model", memoryview(content))
    with pytest.raises(rs.InvalidArguments) as caught:
        rs.onnx.load(content)
    assert caught.value.code == "RS-F04"


def test_graphs_inside_graphs_without_end_are_refused() -> None:
    content = b""
    for _ in range(2000):
        attribute = b"\x32" + varint(len(content)) + content
        node = b"\x2a" + varint(len(attribute)) + attribute
        content = b"\x0a" + varint(len(node)) + node
    with pytest.raises(rs.InvalidArguments):
        rs.onnx.load(b"\x3a" + varint(len(content)) + content)


def varint(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def test_changed_bytes_are_a_model_or_refused() -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"], name="n")
    ends = [[helper.make_tensor_value_info(name, 1, [2, 3])] for name in ("x", "y")]
    weights = numpy_helper.from_array(np.ones((2, 3), np.float32), "w")
    data = helper.make_model(helper.make_graph([node], "g", *ends, [weights])).SerializeToString()
    rng = random.Random(0)
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        try:
            rs.onnx.load(bytes(changed))
        except rs.Error:
            continue


def test_a_file_that_was_written_is_not_read_again(tmp_path: Path) -> None:
    node = helper.make_node("Add", ["x", "w"], ["y"])
    ends = [[helper.make_tensor_value_info(name, 1, ["n", 3])] for name in ("x", "y")]
    weights = numpy_helper.from_array(np.ones((1, 3), np.float32), "w")
    proto = helper.make_model(helper.make_graph([node], "g", *ends, [weights]))
    path = tmp_path / "model.onnx"
    onnx.save(proto, path)
    net = rs.onnx.load(path)
    x = np.zeros((2, 3), np.float32)
    assert net(x).tolist() == np.ones((2, 3)).tolist()
    path.write_bytes(b"")
    # What was planned reads nothing of the file.
    assert net(x).tolist() == np.ones((2, 3)).tolist()
    with pytest.raises(rs.RuntimeFailure) as caught:
        net(np.zeros((4, 3), np.float32))
    assert caught.value.code == "RS-F02"
