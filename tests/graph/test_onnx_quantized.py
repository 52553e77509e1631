"""Models of integers: QuantizeLinear and DequantizeLinear beside the reference of the package onnx."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_onnx import LIGHT_NETWORKS, model, node, randomized, values

import restride as rs
from support.quantized_models import QUANTIZED, quantized_model, with_norms_in_weights

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


def test_a_number_of_integers_is_added_as_what_it_stands_for() -> None:
    constants = {"q": np.uint8(7), "s": np.float32(0.25), "z": np.uint8(3)}
    nodes = [node("DequantizeLinear", "q", "s", "z", to=["one"]), node("Add", "x", "one")]
    made = model(nodes, {"x": X}, constants, opset=19)
    assert np.array_equal(rs.onnx.load(made)(values(*X)), values(*X) + 1)


def test_functions_of_primitives_stay_beside_integers() -> None:
    constants = {"s": np.float32(0.0625), "z": np.uint8(128)}
    nodes = [
        *(node("QuantizeLinear", "x", "s", "z", to=["q"]), node("DequantizeLinear", "q", "s", "z", to=["r"])),
        node("Sinh", "r"),
    ]
    made = model(nodes, {"x": X}, constants, opset=19)
    assert np.allclose(rs.onnx.load(made)(values(*X)), reference(made, values(*X)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("zero", [np.uint16(32768), np.int16(-7)])
def test_integers_of_16_bits_are_saturated(zero: Any) -> None:
    made = model(
        [node("QuantizeLinear", "x", "s", "z")], {"x": X}, {"s": np.float32(2.0**-14), "z": zero}, opset=21
    )
    found, wanted = rs.onnx.load(made)(values(*X)), reference(made, values(*X))
    assert found.dtype == zero.dtype
    assert np.array_equal(found, wanted)


def test_scales_may_be_those_of_blocks() -> None:
    scale = 2.0 ** -np.arange(2 * 2 * 5 * 4).reshape(2, 2, 5, 4) % 7 + 1
    constants = {"s": scale.astype(np.float32), "z": np.arange(80, dtype=np.int8).reshape(2, 2, 5, 4)}
    nodes = [
        node("QuantizeLinear", "x", "s", "z", to=["q"], axis=1, block_size=3),
        node("DequantizeLinear", "q", "s", "z", axis=1, block_size=3),
    ]
    made = model(nodes, {"x": X}, constants, opset=21)
    assert np.array_equal(rs.onnx.load(made)(values(*X)), reference(made, values(*X)))


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
        ({"s": np.float32(1), "z": np.int32(0)}, {}),
        ({"s": np.float32(1), "z": np.uint8(0)}, {"block_size": 2}),
    ],
)
def test_numbers_that_do_not_fit_are_refused_with_the_name_of_the_node(
    constants: dict[str, Array], attributes: dict[str, int]
) -> None:
    made = model([node("QuantizeLinear", "x", "s", "z", name="first", **attributes)], {"x": X}, constants)
    with pytest.raises(rs.Error, match="first"):
        rs.onnx.load(made)(values(*X))


@pytest.mark.parametrize(("kind", "attributes"), [(np.float16, {}), (np.float32, {"output_dtype": 10})])
def test_integers_may_stand_for_halves(kind: Any, attributes: dict[str, int]) -> None:
    nodes = [
        node("DequantizeLinear", "q", "s", name="first", to=["d"], **attributes),
        node("Concat", "d", "d", axis=0),
    ]
    made = model(nodes, {"x": X}, {"q": np.arange(4, dtype=np.int8), "s": np.array(0.5, kind)}, opset=23)
    found = rs.onnx.load(made)(values(*X))
    assert found.dtype == np.float16
    assert found.tolist() == [0, 0.5, 1, 1.5] * 2


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["u8", "s8"])
def test_resnet50_of_integers_gives_what_onnx_runtime_does(kind: str) -> None:
    runtime = pytest.importorskip("onnxruntime")

    def run(of: Any, x: Array, *, as_it_stands: bool = False) -> dict[str, Array]:
        options = runtime.SessionOptions()
        if as_it_stands:
            options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = runtime.InferenceSession(of.SerializeToString(), options, ["CPUExecutionProvider"])
        names = [each.name for each in session.get_outputs()]
        return dict(zip(names, session.run(None, {session.get_inputs()[0].name: x}), strict=True))

    x = values(1, 3, 224, 224)
    made = with_norms_in_weights(randomized(LIGHT_NETWORKS / "light_resnet50.onnx"))
    (exact,) = run(made, x).values()
    # The least and the largest value of each tensor, as calibration finds them.
    known = {each.name for each in made.graph.initializer}
    (source,) = (each.name for each in made.graph.input)
    names = {name for each in made.graph.node if each.op_type in QUANTIZED for name in each.input} - known
    probe = onnx.ModelProto()
    probe.CopyFrom(made)
    probe.graph.output.extend(
        onnx.helper.make_tensor_value_info(name, 1, None) for name in sorted(names - {source})
    )
    found = {**run(probe, x), source: x}
    ranges = {name: (float(found[name].min()), float(found[name].max())) for name in names}
    made = quantized_model(made, ranges, kind)
    (wanted,) = run(made, x, as_it_stands=True).values()
    (theirs,) = run(made, x).values()
    net = rs.onnx.load(made)
    own = net(x)
    largest = np.abs(exact).max()
    # Single steps of single sums: as far as ONNX Runtime is from itself, with and without its fusions.
    assert np.abs(own - wanted).max() <= max(2 * np.abs(theirs - wanted).max(), 2e-3 * largest)
    assert np.abs(own - exact).max() <= 0.1 * largest
    assert own.argmax() == exact.argmax()
    types = [str(each.writes[0].md.data_type) for each in net.plan().steps if each.operation == "convolution"]
    assert len(types) == 53
    assert not {"f32", "bf16"} & set(types)
