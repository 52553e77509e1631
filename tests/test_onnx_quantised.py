"""Models of integers: QuantizeLinear and DequantizeLinear beside the reference of the package onnx."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import restride as rs
from test_onnx import LIGHT_NETWORKS, model, node, randomised, values

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

Array = np.ndarray
X = (2, 6, 5, 4)


def reference(made: Any, x: Array) -> Array:
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
    (found,) = evaluator(made).run(None, {made.graph.input[0].name: x})
    return np.asarray(found)


def pair(zero: Any, scale: Any = 0.05, axis: int = 1) -> Any:
    """A tensor to integers and back."""
    constants = {"s": np.asarray(scale, np.float32), "z": np.asarray(zero)}
    nodes = [
        node("QuantizeLinear", "x", "s", "z", to=["q"], axis=axis),
        node("DequantizeLinear", "q", "s", "z", axis=axis),
    ]
    return model(nodes, {"x": X}, constants, opset=19)


@pytest.mark.parametrize("zero", [np.uint8(0), np.uint8(128), np.int8(0), np.int8(-7)])
def test_a_tensor_goes_to_integers_and_back_saturated(zero: Any) -> None:
    # Halves between two integers, where 0.0625 divides without rounding, and numbers past both ends.
    x = (np.arange(240, dtype=np.float32).reshape(X) - 120) / 32
    x[0, 0] *= 100
    made = pair(zero, 0.0625)
    assert np.array_equal(rs.onnx.load(made)(x), reference(made, x))


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scales_of_an_axis_are_those_of_its_places(axis: int) -> None:
    n = X[axis]
    made = pair(np.arange(n, dtype=np.int8), 2.0 ** -np.arange(2, 2 + n), axis)
    x = values(*X)
    assert np.array_equal(rs.onnx.load(made)(x), reference(made, x))


def test_the_integers_may_be_the_output() -> None:
    constants = {"s": np.float32(0.0625), "z": np.uint8(3)}
    made = model([node("QuantizeLinear", "x", "s", "z")], {"x": X}, constants, opset=19)
    made.graph.output[0].type.tensor_type.elem_type = 2
    found, wanted = rs.onnx.load(made)(values(*X)), reference(made, values(*X))
    assert found.dtype == np.uint8
    assert np.array_equal(found, wanted)


def test_a_convolution_of_integers_gives_what_the_reference_does() -> None:
    weights = np.random.default_rng(0).integers(-127, 127, (8, 6, 3, 3)).astype(np.int8)
    bias = np.random.default_rng(1).integers(-999, 999, 8).astype(np.int32)
    constants = {
        "xs": np.float32(0.03125), "xz": np.uint8(120), "w": weights,
        "ws": np.float32(2.0 ** -np.arange(8) / 64),
        "wz": np.zeros(8, np.int8), "b": bias, "bs": np.float32(2.0 ** -np.arange(8) / 2048),
        "bz": np.zeros(8, np.int32), "ys": np.float32(0.25), "yz": np.uint8(0),
    }  # fmt: skip
    nodes = [
        node("QuantizeLinear", "x", "xs", "xz", to=["xq"]),
        node("DequantizeLinear", "xq", "xs", "xz", to=["xd"]),
        node("DequantizeLinear", "w", "ws", "wz", to=["wd"], axis=0),
        node("DequantizeLinear", "b", "bs", "bz", to=["bd"], axis=0),
        node("Conv", "xd", "wd", "bd", to=["c"], pads=[1, 1, 1, 1]),
        node("Relu", "c", to=["r"]),
        node("QuantizeLinear", "r", "ys", "yz", to=["yq"]),
        node("DequantizeLinear", "yq", "ys", "yz"),
    ]
    made, x = model(nodes, {"x": X}, constants, opset=19), values(*X)
    for rule in ("plain", "greedy", "optimal"):
        found, wanted = rs.onnx.load(made, rule=rule)(x), reference(made, x)
        steps = np.abs(found - wanted) / 0.25
        # Sums that end at a half may be rounded to either side.
        assert steps.max() <= 1
        assert (steps > 0).mean() < 0.01


@pytest.mark.parametrize(
    ("constants", "attributes"),
    [
        ({"s": np.float32(0), "z": np.uint8(0)}, {}),
        ({"s": np.ones(5, np.float32), "z": np.zeros(5, np.uint8)}, {}),
        ({"s": np.ones(6, np.float32), "z": np.zeros(3, np.uint8)}, {}),
        ({"s": np.float32(1), "z": np.int16(0)}, {}),
        ({"s": np.float32(1), "z": np.uint8(0)}, {"block_size": 2}),
    ],
)
def test_numbers_that_do_not_fit_are_refused_with_the_name_of_the_node(
    constants: dict[str, Array], attributes: dict[str, int]
) -> None:
    made = model([node("QuantizeLinear", "x", "s", "z", name="first", **attributes)], {"x": X}, constants)
    with pytest.raises(rs.Error, match="first"):
        rs.onnx.load(made)(values(*X))


def quantised(made: Any, scale_of: dict[str, float]) -> Any:
    """A model whose convolutions read quantised tensors: weights by channel, sources by static scales."""
    graph, nodes = made.graph, []
    known = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}

    def constant(name: str, array: Array) -> str:
        graph.initializer.append(onnx.numpy_helper.from_array(array, name))
        return name

    for each in graph.node:
        if each.op_type == "Conv":
            source, weights = each.input[0], known[each.input[1]]
            name = each.output[0]
            s, z = constant(f"{name}.s", np.float32(scale_of[source])), constant(f"{name}.z", np.int8(0))
            steps = np.abs(weights).reshape(len(weights), -1).max(1) / 127
            shape = (-1,) + (1,) * (weights.ndim - 1)
            q = constant(f"{name}.w", np.rint(weights / steps.reshape(shape)).astype(np.int8))
            ws = constant(f"{name}.ws", steps.astype(np.float32))
            wz = constant(f"{name}.wz", np.zeros(len(weights), np.int8))
            nodes += [
                node("QuantizeLinear", source, s, z, to=[f"{name}.q"]),
                node("DequantizeLinear", f"{name}.q", s, z, to=[f"{name}.d"]),
                node("DequantizeLinear", q, ws, wz, to=[f"{name}.wd"], axis=0),
            ]
            each.input[0], each.input[1] = f"{name}.d", f"{name}.wd"
        nodes.append(each)
    del graph.node[:]
    graph.node.extend(nodes)
    used = {name for each in nodes for name in each.input} | {each.name for each in graph.input}
    stored = [each for each in graph.initializer if each.name in used]
    del graph.initializer[:]
    graph.initializer.extend(stored)
    made.opset_import[0].version = 13
    return made


@pytest.mark.peer
@pytest.mark.slow
def test_resnet50_of_integers_gives_what_onnx_runtime_does() -> None:
    runtime = pytest.importorskip("onnxruntime")
    path, x = LIGHT_NETWORKS / "light_resnet50.onnx", values(1, 3, 224, 224)
    made = randomised(path)
    # The largest value of each source of a convolution, as calibration finds it.
    sources = sorted({each.input[0] for each in made.graph.node if each.op_type == "Conv"})
    probe = onnx.ModelProto()
    probe.CopyFrom(made)
    named = [name for name in sources if name != made.graph.input[0].name]
    probe.graph.output.extend(onnx.helper.make_tensor_value_info(name, 1, None) for name in named)
    session = runtime.InferenceSession(probe.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_outputs()]
    found = dict(zip(names, session.run(None, {session.get_inputs()[0].name: x}), strict=True))
    found[session.get_inputs()[0].name] = x
    made = quantised(made, {name: float(np.abs(found[name]).max()) / 127 for name in sources})
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
    (wanted,) = session.run(None, {session.get_inputs()[0].name: x})
    made_here = rs.onnx.load(made)(x)
    assert np.abs(made_here - wanted).max() <= 2e-2 * np.abs(wanted).max()
