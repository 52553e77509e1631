"""ONNX models: every operator against the reference of the package onnx, what is refused, real networks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import restride as rs
from restride.runtime import free_memory
from restride_bench.network_models import randomized

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

Array = np.ndarray
X = (1, 6, 5, 4)
FLOAT, TWO = 1, np.float32(2)


def values(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng((seed, *dims)).standard_normal(dims).astype(np.float32)


def model(
    nodes: Sequence[Any],
    inputs: Mapping[str, Sequence[int | str]],
    constants: Mapping[str, Array] | None = None,
    outputs: Sequence[str] = ("y",),
    opset: int = 17,
) -> Any:
    known = [onnx.numpy_helper.from_array(value, name) for name, value in (constants or {}).items()]
    graph = onnx.helper.make_graph(
        list(nodes),
        "graph",
        [onnx.helper.make_tensor_value_info(name, FLOAT, dims) for name, dims in inputs.items()],
        [onnx.helper.make_tensor_value_info(name, FLOAT, None) for name in outputs],
        known,
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8)


def node(operator: str, *inputs: str, to: Sequence[str] = ("y",), name: str = "", **attributes: Any) -> Any:
    return onnx.helper.make_node(operator, list(inputs), list(to), name, **attributes)


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


def check(made: Any, x: Array, rule: str = "greedy") -> None:
    """The network's outputs are those of the package's own reference."""
    reference = pytest.importorskip("onnx.reference").ReferenceEvaluator(made)
    wanted = reference.run(None, {made.graph.input[0].name: x})
    found = rs.onnx.load(made, rule=rule)(x)
    found = list(found.values()) if isinstance(found, dict) else [found]
    assert len(found) == len(wanted)
    for own, other in zip(found, wanted, strict=True):
        assert own.shape == other.shape
        assert np.abs(own - other).max(initial=0) <= 2e-5 * max(np.abs(other).max(initial=0), 1e-30)


W, G, T = values(8, 6, 3, 3), values(8, 3, 3, 3), values(6, 4, 3, 3)
CHANNELS = {name: values(6, seed=i) for i, name in enumerate(("s", "b", "m"))} | {
    "v": np.abs(values(6)) + 0.5
}

# Operators on one tensor "x" of X and constants: the node, its constants, the operator set.
OPERATORS: dict[str, tuple[Any, Mapping[str, Array], int]] = {
    **{
        word: (node(word, "x"), {}, 17)
        for word in ("Abs", "Elu", "Exp", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Neg", "Relu")
    },
    **{word: (node(word, "x"), {}, 17) for word in ("Sigmoid", "Softplus", "Tanh", "Flatten", "Transpose")},
    **{word: (node(word, "x"), {}, 17) for word in ("GlobalAveragePool", "GlobalMaxPool", "Softmax")},
    "LogSoftmax": (node("LogSoftmax", "x"), {}, 17),
    **{word: (node(word, "x", "c"), {"c": TWO}, 17) for word in ("Add", "Sub", "Mul", "Div", "Pow")},
    **{f"{word} of a constant": (node(word, "c", "x"), {"c": TWO}, 17) for word in ("Sub", "Div")},
    **{
        f"{word} of tensors": (node(word, "x", "c"), {"c": values(6, 1, 4)}, 17)
        for word in ("Add", "Mul", "Max")
    },
    "Conv": (node("Conv", "x", "w", "b", pads=[1, 0, 2, 1], strides=[2, 1]), {"w": W, "b": values(8)}, 17),
    "Conv of groups": (node("Conv", "x", "w", group=2, dilations=[2, 1]), {"w": G}, 17),
    "Conv that keeps sizes": (node("Conv", "x", "w", auto_pad="SAME_UPPER", strides=[2, 2]), {"w": W}, 17),
    "Conv, more in front": (node("Conv", "x", "w", auto_pad="SAME_LOWER"), {"w": values(8, 6, 2, 2)}, 17),
    "ConvTranspose": (
        node("ConvTranspose", "x", "w", strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 0]),
        {"w": T},
        17,
    ),
    "BatchNormalization": (node("BatchNormalization", "x", "s", "b", "m", "v"), CHANNELS, 15),
    "LayerNormalization": (node("LayerNormalization", "x", "s"), {"s": values(4)}, 17),
    "MaxPool": (node("MaxPool", "x", kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 0]), {}, 17),
    "MaxPool up": (node("MaxPool", "x", kernel_shape=[2, 3], strides=[2, 2], ceil_mode=1), {}, 17),
    "AveragePool": (node("AveragePool", "x", kernel_shape=[2, 2], pads=[1, 1, 0, 0]), {}, 17),
    "AveragePool with padding": (
        node("AveragePool", "x", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=1),
        {},
        17,
    ),
    "Clip": (node("Clip", "x", "low", "high"), {"low": np.float32(-0.5), "high": np.float32(1)}, 17),
    "Clip below": (node("Clip", "x", "low"), {"low": np.float32(0)}, 17),
    "PRelu": (node("PRelu", "x", "c"), {"c": values(6, 1, 1)}, 17),
    "Concat": (node("Concat", "x", "c", "x", axis=-3), {"c": values(1, 2, 5, 4)}, 17),
    "Split": (node("Split", "x", "n", to=("y", "z"), axis=1), {"n": ints(2, 4)}, 17),
    "Slice": (
        node("Slice", "x", "a", "b", "c", "d"),
        {"a": ints(1, 0), "b": ints(-1, 9), "c": ints(1, 2), "d": ints(1, 2)},
        17,
    ),
    "Slice backwards": (
        node("Slice", "x", "a", "b", "c", "d"),
        {"a": ints(-1, 3), "b": ints(-99, 0), "c": ints(1, 3), "d": ints(-2, -1)},
        17,
    ),
    "Gather": (node("Gather", "x", "i", axis=1), {"i": ints(2, 3)}, 17),
    "Gather of one": (node("Gather", "x", "i", axis=2), {"i": np.array(-1, np.int64)}, 17),
    "Reshape": (node("Reshape", "x", "n"), {"n": ints(0, 3, -1)}, 17),
    "Squeeze": (node("Squeeze", "x", "n"), {"n": ints(0)}, 17),
    "Unsqueeze": (node("Unsqueeze", "x", "n"), {"n": ints(-1, 0)}, 17),
    "Pad": (node("Pad", "x", "n", "c"), {"n": ints(0, 0, 1, 0, 0, 0, 0, 2), "c": np.float32(3)}, 17),
    "Pad that reflects": (node("Pad", "x", "n", mode="reflect"), {"n": ints(0, 2, 1, 0, 0, 0, 4, 3)}, 17),
    "MatMul": (node("MatMul", "x", "w"), {"w": values(4, 3)}, 17),
    "MatMul of batches": (node("MatMul", "x", "w"), {"w": values(6, 4, 3)}, 17),
    "MatMul by a vector": (node("MatMul", "x", "w"), {"w": values(4)}, 17),
    "ReduceMean": (node("ReduceMean", "x", axes=[2, -1]), {}, 17),
    "ReduceSum": (node("ReduceSum", "x", "n", keepdims=0), {"n": ints(1)}, 17),
    "ReduceMax of all": (node("ReduceMax", "x"), {}, 17),
    "ReduceL2": (node("ReduceL2", "x", axes=[1]), {}, 17),
    "Resize, nearest": (
        node("Resize", "x", "", "n", coordinate_transformation_mode="asymmetric", nearest_mode="floor"),
        {"n": np.array([1, 1, 2, 3], np.float32)},
        17,
    ),
    "Resize, linear": (node("Resize", "x", "", "", "n", mode="linear"), {"n": ints(1, 6, 10, 8)}, 17),
    "Sum": (node("Sum", "x", "c", "x"), {"c": values(*X)}, 17),
    "Dropout": (node("Dropout", "x"), {}, 17),
    "Slice, backwards through all": (
        node("Slice", "x", "s", "e", "a", "t"),
        {"s": ints(-1), "e": ints(-99), "a": ints(3), "t": ints(-1)},
        17,
    ),
    "Slice, one element by a long step": (
        node("Slice", "x", "s", "e", "a", "t"),
        {"s": ints(1), "e": ints(1 << 40), "a": ints(2), "t": ints(1 << 62)},
        17,
    ),
    "Pad of axes": (node("Pad", "x", "n", "v", "a"), {"n": ints(1, 2, 3, 4), "v": TWO, "a": ints(3, -3)}, 18),
    "ReduceMean to a scalar": (node("ReduceMean", "x", keepdims=0), {}, 17),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_gives_what_the_reference_does(name: str) -> None:
    made, constants, opset = OPERATORS[name]
    check(model([made], {"x": X}, constants, tuple(made.output), opset), values(*X))


def test_before_version_13_softmax_takes_all_dims_from_the_axis_on_as_one() -> None:
    found = rs.onnx.load(model([node("Softmax", "x")], {"x": X}, opset=11))(values(*X))
    powers = np.exp(values(*X))
    assert np.allclose(found, powers / powers.sum(), rtol=1e-5)


def test_a_transposed_convolution_of_groups_is_one_for_each_group() -> None:
    evaluator = pytest.importorskip("onnx.reference").ReferenceEvaluator
    parts = []
    for channels in (slice(0, 3), slice(3, 6)):
        alone = model([node("ConvTranspose", "x", "w")], {"x": (1, 3, 5, 4)}, {"w": T[channels]})
        parts += evaluator(alone).run(None, {"x": values(*X)[:, channels]})
    made = model([node("ConvTranspose", "x", "w", group=2)], {"x": X}, {"w": T})
    assert np.allclose(rs.onnx.load(made)(values(*X)), np.concatenate(parts, 1), atol=1e-5)


def test_lrn_sums_over_neighbors() -> None:
    found = rs.onnx.load(model([node("LRN", "x", size=3, alpha=0.3, beta=0.5, bias=2.0)], {"x": X}))(
        values(*X)
    )
    squares = np.pad(values(*X) ** 2, [(0, 0), (1, 1), (0, 0), (0, 0)])
    total = squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:]
    assert np.allclose(found, values(*X) / np.sqrt(2 + 0.1 * total), rtol=1e-5)


@pytest.mark.parametrize("transposed", [0, 1])
@pytest.mark.parametrize("added", [None, values(3), values(1, 3), values(2, 3), np.float32(2).reshape(1)])
def test_products(transposed: int, added: Array | None) -> None:
    constants = {"w": values(3, 4) if transposed else values(4, 3)}
    names = ["x", "w"]
    if added is not None:
        constants["c"] = added
        names.append("c")
    made = node("Gemm", *names, transB=transposed, alpha=0.5, beta=2.0)
    check(model([made], {"x": (2, 4)}, constants), values(2, 4))


def test_tensors_of_a_run_are_multiplied_and_taken_apart() -> None:
    nodes = [
        node("Transpose", "x", to=("t",), perm=[0, 1, 3, 2]),
        node("MatMul", "x", "t", to=("p",)),
        node("Softmax", "p", to=("s",), axis=-1),
        node("MatMul", "s", "x", to=("y",)),
    ]
    check(model(nodes, {"x": X}), values(*X))


def shaped() -> Any:
    """A reshape whose shape the model computes from that of its input, as frameworks save it."""
    nodes = [
        node("Shape", "x", to=("shape",)),
        node("Gather", "shape", "zero", to=("n",)),
        node("Unsqueeze", "n", "axes", to=("n1",)),
        node("Mul", "n1", "two", to=("twice",)),
        node("Concat", "twice", "rest", to=("dims",), axis=0),
        node("Reshape", "x", "dims", to=("flat",)),
        node("Relu", "flat"),
    ]
    constants = {"zero": np.array(0, np.int64), "axes": ints(0), "two": ints(2), "rest": ints(-1)}
    return model(nodes, {"x": ("n", 6, "h", "w")}, constants)


def test_what_computes_shapes_leaves_nothing_in_the_graph() -> None:
    net = rs.onnx.load(shaped())
    for dims in ((1, 6, 2, 2), (3, 6, 1, 5)):
        x = values(*dims)
        assert np.array_equal(net(x), np.maximum(x, 0).reshape(2 * dims[0], -1))
        assert [each.kind for each in net.plan(dims).graph] == ["reshape", "eltwise"]


def test_outputs_are_called_as_the_model_calls_them() -> None:
    nodes = [
        node("Relu", "x", to=("a",)),
        node("Reshape", "a", "n", to=("b",)),
        node("Identity", "b", to=("c",)),
        node("ReduceMean", "x", to=("d",), axes=[1], keepdims=0),
    ]
    net = rs.onnx.load(model(nodes, {"x": X}, {"n": ints(-1), "k": values(3)}, ("b", "c", "d", "x", "k")))
    found = net(values(*X))
    assert tuple(found) == net.outputs == ("b", "c", "d", "x", "k")
    assert np.array_equal(found["b"], np.maximum(values(*X), 0).reshape(-1))
    assert np.array_equal(found["b"], found["c"])
    assert np.allclose(found["d"], values(*X).mean(1), atol=1e-6)
    assert np.array_equal(found["x"], values(*X))
    assert np.array_equal(found["k"], values(3))


# --- branches -----------------------------------------------------------------------------------------------


def branch(nodes: Sequence[Any], output: str) -> Any:
    return onnx.helper.make_graph(
        list(nodes), "branch", [], [onnx.helper.make_tensor_value_info(output, FLOAT, None)]
    )


def branching(missing: bool = False) -> Any:
    """Of rate 2 the doubles, and where there is one row these squared; else what is not there, or -x."""
    inner = [
        node("Shape", "x", to=("shape",)),
        node("Gather", "shape", "zero", to=("rows",)),
        node("Equal", "rows", "one", to=("is_one",)),
        node("Mul", "x", "two", to=("twice",)),
        node(
            "If",
            "is_one",
            to=("inner",),
            then_branch=branch([node("Mul", "twice", "twice", to=("s",))], "s"),
            else_branch=branch([node("Identity", "twice", to=("s",))], "s"),
        ),
    ]
    other = [node("NonMaxSuppression" if missing else "Neg", "x", to=("inner",), name="other")]
    nodes = [
        node("Equal", "rate", "two_i", to=("is_two",)),
        node(
            "If",
            "is_two",
            name="which",
            then_branch=branch(inner, "inner"),
            else_branch=branch(other, "inner"),
        ),
    ]
    constants = {"zero": np.array(0), "one": np.array(1), "two": TWO, "two_i": np.array(2)}
    made = model(nodes, {"x": ("n", 4)}, constants)
    made.graph.input.append(onnx.helper.make_tensor_value_info("rate", 7, []))
    return made


def test_the_branch_that_known_values_and_dims_take_is_the_graph() -> None:
    net = rs.onnx.load(branching(), values={"rate": 2})
    assert [each.name for each in net.inputs] == ["x"]
    assert np.array_equal(net(values(3, 4)), 2 * values(3, 4))
    assert np.allclose(net(values(1, 4)), 4 * values(1, 4) ** 2)
    assert np.array_equal(rs.onnx.load(branching(), values={"rate": 3})(values(3, 4)), -values(3, 4))


def test_a_condition_that_only_a_run_knows_takes_a_branch_in_it() -> None:
    net = rs.onnx.load(branching())
    for rate, rows, expected in ((2, 3, lambda x: 2 * x), (3, 3, lambda x: -x), (2, 1, lambda x: 4 * x * x)):
        x = values(rows, 4)
        assert np.allclose(net({"x": x, "rate": np.array(rate)}), expected(x))


def test_operators_are_missing_only_where_a_branch_is_taken() -> None:
    assert rs.onnx.load(branching(missing=True), values={"rate": 2})(values(3, 4)).shape == (3, 4)
    with pytest.raises(rs.Unimplemented) as caught:
        rs.onnx.load(branching(missing=True), values={"rate": 1})(values(3, 4))
    assert caught.value.where == "NonMaxSuppression: 'other'"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rates": 2}, "no such input"),
        ({"rate": 2.5}, "is not int64"),
        ({"rate": "two"}, "invalid literal"),
        ({"rate": None}, "must be a string"),
        ({"rate": [1, 2]}, "its dims are"),
        ({"rate": 1 << 70}, "too large|is not int64"),
        ({"x": np.zeros((3, 5), np.float32)}, "its dims are"),
    ],
)
def test_values_that_inputs_cannot_have_are_refused(given: Mapping[str, Any], said: str) -> None:
    with pytest.raises(rs.InvalidArguments, match=said):
        rs.onnx.load(branching(), values=given)


@pytest.mark.parametrize("given", [5, [("rate", 2)], "rate"])
def test_values_come_by_name(given: Any) -> None:
    with pytest.raises(rs.InvalidArguments, match="values are"):
        rs.onnx.load(branching(), values=given)


def test_outputs_that_a_node_does_not_give_are_refused_where_they_are_read() -> None:
    nodes = [
        node("Split", "x", "n", to=("a", "b"), axis=1),
        node("LayerNormalization", "a", "s", to=("c",)),
        node("Relu", "x", to=("d",)),
    ]
    nodes[2].output.append("e")
    nodes.append(node("Relu", "e"))
    with pytest.raises(rs.InvalidArguments, match="'e' is not provided by its node"):
        rs.onnx.load(model(nodes, {"x": X}, {"n": ints(2, 4), "s": values(4)}))(values(*X))
    made = branching()
    made.graph.node[1].output.append("more")
    made.graph.node.append(node("Relu", "more", to=("z",)))
    with pytest.raises(rs.InvalidArguments, match="'more' is not provided"):
        rs.onnx.load(made, values={"rate": 3})(values(3, 4))


def test_branches_are_checked_before_anything_runs() -> None:
    made = branching()
    made.graph.node[1].attribute[0].g.node[-1].input[0] = "nowhere"
    with pytest.raises(rs.InvalidArguments, match="no earlier node writes"):
        rs.onnx.load(made, values={"rate": 3})


def test_models_come_as_paths_bytes_and_protos_with_dims_of_the_callers_own(tmp_path: Path) -> None:
    made = model([node("Relu", "x")], {"x": (1, 4)})
    path = tmp_path / "relu.onnx"
    path.write_bytes(made.SerializeToString())
    for source in (path, str(path), made.SerializeToString(), made):
        assert rs.onnx.load(source)(values(1, 4)).shape == (1, 4)
        assert rs.onnx.load(source, dims={"x": (3, 4)})(values(3, 4)).shape == (3, 4)
    with pytest.raises(rs.InvalidArguments, match="no such input"):
        rs.onnx.load(made, dims={"z": (1,)})


# --- what is refused ----------------------------------------------------------------------------------------


def refusal(source: Any, x: Array | None = None) -> rs.Error:
    with pytest.raises(rs.Error) as caught:
        rs.onnx.load(source)(values(*X) if x is None else x)
    return caught.value


def test_all_missing_operators_are_listed_at_once_with_their_nodes() -> None:
    nodes = [
        node("NonMaxSuppression", "x", to=("a",), name="first"),
        node("Relu", "x", to=("b",)),
        node("StringNormalizer", "b", to=("c",), name="second"),
        node("NonMaxSuppression", "c", to=("y",), name="third"),
    ]
    error = refusal(model(nodes, {"x": X}))
    assert isinstance(error, rs.Unimplemented)
    assert error.where == "NonMaxSuppression: 'first', 'third'; StringNormalizer: 'second'"


@pytest.mark.parametrize(
    ("nodes", "constants", "said"),
    [
        ([node("Relu", "z", name="early")], {}, "early"),
        ([node("Add", "x", "b", to=("a",), name="loop"), node("Relu", "a", to=("b",))], {}, "loop"),
        ([node("Relu", "x"), node("Relu", "x", name="again")], {}, "again"),
        ([node("Relu", "x", to=("z",))], {}, "output"),
        ([node("Conv", "x", "w", name="deep")], {"w": values(8, 5, 3, 3)}, "deep"),
        ([node("Conv", "x", "w", name="wide")], {"w": values(8, 6, 9, 9)}, "wide"),
        ([node("Conv", "x", "w", name="short", strides=[1])], {"w": W}, "short"),
        ([node("Conv", "x", "w", name="split", group=4)], {"w": values(9, 2, 1, 1)}, "split"),
        ([node("Conv", "x", name="bare")], {}, "bare"),
        ([node("Add", "x", "c", name="odd")], {"c": values(7)}, "odd"),
        ([node("Reshape", "x", "n", name="bent")], {"n": ints(7, -1)}, "bent"),
        ([node("Concat", "x", "c", name="joint", axis=0)], {"c": values(2, 3)}, "joint"),
        ([node("Transpose", "x", name="turn", perm=[0, 0, 1, 2])], {}, "turn"),
        ([node("Split", "x", "n", to=("y", "z"), name="parts", axis=1)], {"n": ints(2, 2)}, "parts"),
        ([node("Gather", "x", "i", name="far", axis=9)], {"i": ints(0)}, "far"),
        ([node("Gather", "x", "i", name="past", axis=1)], {"i": ints(6)}, "past"),
        ([node("Gather", "x", "i", name="real", axis=1)], {"i": values(1)}, "real"),
        ([node("Transpose", "x", name="few", perm=[0, 1])], {}, "few"),
        ([node("Unsqueeze", "x", "n", name="twice")], {"n": ints(1, 1)}, "twice"),
        ([node("Slice", "x", "n", "n", "a", name="axes")], {"n": ints(1, 2), "a": ints(3, -1)}, "axes"),
        ([node("Conv", "x", "w", name="auto", auto_pad="ROUND")], {"w": W}, "auto"),
        ([node("Conv", "x", "w", name="less", pads=[-1, 0, 0, 0])], {"w": W}, "less"),
        ([node("Conv", "x", "w", name="vast", pads=[1 << 62, 0, 0, 0])], {"w": W}, "vast"),
        ([node("MaxPool", "x", name="none")], {}, "none"),
        ([node("MaxPool", "x", name="edge", kernel_shape=[2, 2], pads=[2, 2, 2, 2])], {}, "edge"),
        ([node("Pad", "x", "n", name="room")], {"n": ints(0, 0, 0, 0, 1 << 60, 0, 0, 0)}, "room"),
        (
            [node("ConstantOfShape", "n", to=("c",), name="huge"), node("Add", "x", "c")],
            {"n": ints(1 << 40)},
            "huge|Add",
        ),
        (
            [node("Mul", "i", "i", to=("c",), name="big"), node("Add", "x", "c", name="long")],
            {"i": ints(1, 2, 3, 4)},
            "long",
        ),
    ],
)
def test_models_that_do_not_hold_are_refused_by_node(
    nodes: Sequence[Any], constants: Mapping[str, Array], said: str
) -> None:
    error = refusal(model(nodes, {"x": X}, constants))
    assert any(word in str(error) for word in said.split("|"))


@pytest.mark.parametrize(
    ("made", "constants"),
    [
        (node("Reshape", "x", "x"), {}),
        (node("Range", "x", "x", "x"), {}),
        (node("Dropout", "x", "r", "t"), {"r": TWO, "t": np.array(True)}),
    ],
)
def test_forms_of_operators_that_are_not_there_are_named(made: Any, constants: Mapping[str, Array]) -> None:
    made.name = "this one"
    error = refusal(model([made], {"x": X}, constants))
    assert isinstance(error, rs.Unimplemented)
    assert "'this one'" in error.what


def test_before_version_7_sums_at_an_axis_are_named() -> None:
    made = model(
        [node("Add", "x", "c", name="old", axis=1, broadcast=1)], {"x": X}, {"c": values(6)}, opset=6
    )
    assert "'old'" in refusal(made).what
    made = model([node("Add", "x", "c", axis=3, broadcast=1)], {"x": X}, {"c": values(4)}, opset=6)
    assert np.array_equal(rs.onnx.load(made)(values(*X)), values(*X) + values(4))


def typed(made: Any, element: int) -> Any:
    """The model, with inputs of another type."""
    for each in made.graph.input:
        each.type.tensor_type.elem_type = element
    return made


INT32, UINT8, INT8, BOOL = 6, 2, 3, 9


@pytest.mark.parametrize(
    ("element", "made"),
    [
        *((INT32, node(name, "x")) for name in ("Sqrt", "Softmax")),
        (INT8, node("ReduceL2", "x")),
    ],
)
def test_what_computes_with_integers_is_named(element: int, made: Any) -> None:
    # Sums of ONNX wrap around, and are exact beyond 2**24.
    made.name = "this one"
    dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
    constants = {"c": np.array(3, dtype), "t": np.array(True)}
    error = refusal(typed(model([made], {"x": X}, constants), element), np.zeros(X, dtype))
    assert isinstance(error, rs.Unimplemented)
    assert "'this one'" in error.what


@pytest.mark.parametrize("element", [UINT8, INT8])
def test_the_largest_and_the_least_of_bytes_are_exact(element: int) -> None:
    dtype = onnx.helper.tensor_dtype_to_np_dtype(element)
    x = np.random.default_rng(0).integers(*np.iinfo(dtype).min + np.array([0, 256]), X).astype(dtype)
    low, high = dtype.type(3), dtype.type(100)
    nodes = [
        node("Max", "x", "low", to=("a",)),
        node("Min", "a", "high", to=("b",)),
        node("ReduceMax", "b", to=("y",), axes=[2]),
    ]
    made = typed(model(nodes, {"x": X}, {"low": low, "high": high}), element)
    made.graph.output[0].type.tensor_type.elem_type = element
    wanted = np.clip(x, low, high).max(axis=2, keepdims=True)
    found = rs.onnx.load(made)(x)
    assert found.dtype == dtype
    assert np.array_equal(found, wanted)


def test_integers_of_32_bits_are_moved_to_the_bit() -> None:
    x = np.random.default_rng(0).integers(-(2**31), 2**31, X, dtype=np.int64).astype(np.int32)
    nodes = [
        node("Transpose", "x", to=("a",), perm=[0, 2, 3, 1]),
        node("Slice", "a", "s", "e", to=("b",)),
        node("Concat", "b", "b", to=("c",), axis=3),
        node("Pad", "c", "p", "v"),
    ]
    made = typed(
        model(
            nodes,
            {"x": X},
            {"s": ints(0, 1), "e": ints(1, 4), "p": ints(0, 0, 0, 1, 0, 0, 0, 2), "v": np.int32(2**24 + 1)},
        ),
        INT32,
    )
    part = x.transpose(0, 2, 3, 1)[:, 1:4]
    wanted = np.pad(
        np.concatenate([part, part], 3), ((0, 0), (0, 0), (0, 0), (1, 2)), constant_values=2**24 + 1
    )
    assert np.array_equal(rs.onnx.load(made)(x), wanted)


def test_pads_of_nothing_move_integers_to_the_bit() -> None:
    x = np.array([2**24 + 1, -(2**31) + 1], np.int32)
    made = typed(model([node("Pad", "x", "n")], {"x": (2,)}, {"n": ints(0, 0)}), INT32)
    assert np.array_equal(rs.onnx.load(made)(x), x)


def test_no_elements_have_no_largest_truth_value() -> None:
    made = typed(model([node("ReduceMax", "x", name="none", axes=[1])], {"x": (2, 0, 4)}), BOOL)
    assert "'none'" in refusal(made, np.zeros((2, 0, 4), np.bool_)).what


@pytest.mark.parametrize(
    ("axes", "is_whole", "wanted"),
    [(None, 0, 10.0), (None, 1, np.arange(5)), ((), 0, 10.0), ((), 1, np.arange(5)), ((0,), 1, 10.0)],
)
def test_sums_of_constants_over_no_axes_are_those_of_the_operator(
    axes: tuple[int, ...] | None, is_whole: int, wanted: Any
) -> None:
    inputs = ("c",) if axes is None else ("c", "a")
    nodes = [
        node("ReduceSum", *inputs, to=("s",), noop_with_empty_axes=is_whole),
        node("Add", "x", "s"),
    ]
    constants = {"c": np.arange(5, dtype=np.float32), "a": ints(*(axes or ()))}
    x = values(2, 5)
    assert np.array_equal(rs.onnx.load(model(nodes, {"x": (2, 5)}, constants))(x), x + np.float32(wanted))


@pytest.mark.parametrize("number", [1e-40, 3.1e38])
def test_quotients_by_numbers_whose_reciprocal_is_no_normal_f32_are_those_of_a_division(
    number: float,
) -> None:
    divisor, x = np.float32(number), np.array([number, number / 3, 0], np.float32)
    found = rs.onnx.load(model([node("Div", "x", "c")], {"x": (3,)}, {"c": divisor}))(x)
    assert np.array_equal(found, x / divisor)


@pytest.mark.parametrize(
    ("start", "end", "step", "wanted"),
    [(-9, -9, -1, [0]), (9, -9, -2, [3, 1]), (2, -9, -1, [2, 1, 0]), (-9, 9, 3, [0, 3]), (3, 0, -2, [3, 1])],
)
@pytest.mark.parametrize("source", ["x", "c"])
def test_slices_begin_and_end_at_the_nearest_element(
    start: int, end: int, step: int, wanted: list[int], source: str
) -> None:
    x = np.arange(4, dtype=np.float32)
    known = {"s": ints(start), "e": ints(end), "a": ints(0), "t": ints(step), "c": x}
    made = model([node("Slice", source, "s", "e", "a", "t")], {"x": (4,)}, known)
    assert rs.onnx.load(made)(x).tolist() == wanted


@pytest.mark.parametrize(
    ("pads", "constant", "reflect"),
    [
        ((-1, 0), [1, 2, 3], [1, 2, 3]),
        ((-1, 2), [1, 2, 3, 9, 9], [1, 2, 3, 2, 1]),
        ((2, -1), [9, 9, 0, 1, 2], [2, 1, 0, 1, 2]),
        ((-5, 3), [9, 9], None),
        ((1, -3), [9, 0], None),
        ((-3, -1), [], []),
        ((-2, -3), None, None),
    ],
)
def test_negative_pads_cut_off(
    pads: tuple[int, int], constant: list[int] | None, reflect: list[int] | None
) -> None:
    x = np.arange(4, dtype=np.float32)
    for mode, wanted in (("constant", constant), ("reflect", reflect)):
        made = model(
            [node("Pad", "x", "n", "c", mode=mode)], {"x": (4,)}, {"n": ints(*pads), "c": np.float32(9)}
        )
        if wanted is None:
            assert "node Pad" in refusal(made, x).what
        else:
            assert rs.onnx.load(made)(x).tolist() == wanted


def test_of_limits_that_cross_the_upper_one_counts() -> None:
    x = np.array([-1, 1.5, 3], np.float32)
    for kind in (np.float32, np.float64):
        limits = {"low": np.array(2, kind), "high": np.array(1, kind)}
        made = typed(
            model([node("Clip", "x", "low", "high")], {"x": (3,)}, limits), 1 if kind is np.float32 else 11
        )
        assert rs.onnx.load(made)(x.astype(kind)).tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    ("operator", "wanted"),
    [
        *(("ReduceL1", np.abs), ("ReduceL2", np.abs), ("ReduceSumSquare", np.square)),
        *((f"Reduce{word}", np.positive) for word in ("Sum", "Mean", "Max", "Min", "Prod")),
    ],
)
@pytest.mark.parametrize("is_known", [True, False])
def test_reductions_over_no_axes_are_of_each_element(operator: str, wanted: Any, is_known: bool) -> None:
    x = values(2, 5)
    for inputs in (("s",), ("s", "a")):
        nodes = [
            node("Identity", "c" if is_known else "x", to=("s",)),
            node(operator, *inputs, to=("r",), noop_with_empty_axes=1),
            node("Sub", "r", "x"),
        ]
        made = model(nodes, {"x": (2, 5)}, {"c": x, "a": ints()}, opset=18)
        assert np.array_equal(rs.onnx.load(made)(x), wanted(x) - x)


def test_an_output_is_a_constant_of_any_type_that_tensors_have() -> None:
    for c in (ints(1, -(2**60)), np.array([2.0]), np.uint16([65535])):
        check(
            model([node("Identity", "c"), node("Relu", "x", to=("z",))], {"x": X}, {"c": c}, ("y", "z")),
            values(*X),
        )


def test_an_output_that_is_a_constant_of_another_type_is_named() -> None:
    c = np.ones(1, ml_dtypes.float8_e4m3fnuz)
    made = model([node("Identity", "c"), node("Relu", "x", to=("z",))], {"x": X}, {"c": c}, ("y", "z"))
    assert "'y'" in refusal(made).what


def test_rows_of_one_dim_are_normalized_and_scalars_combined() -> None:
    nodes = [
        node("ReduceMax", "x", to=("row",), axes=[0, 1, 2], keepdims=0),
        node("LayerNormalization", "row", "s", "b", to=("normal",)),
        node("ReduceSum", "normal", to=("all",), keepdims=0),
        node("Mul", "all", "all", to=("square",)),
        node("Max", "square", "c"),
    ]
    made = model(nodes, {"x": X}, {"s": values(4), "b": values(4, seed=1), "c": TWO}, ("normal", "y"))
    for rule in ("plain", "optimal"):
        check(made, values(*X), rule)


def test_views_that_begin_later_are_padded_and_shuffled() -> None:
    dims = (3, 32, 4, 4)
    nodes = [
        node("LeakyRelu", "x", to=("a",)),
        node("Gather", "a", "i", to=("part",), axis=0),
        node("Reshape", "part", "split", to=("b",)),
        node("Transpose", "b", to=("c",), perm=[0, 2, 1, 3, 4]),
        node("Reshape", "c", "joined", to=("shuffled",)),
        node("Pad", "part", "n"),
    ]
    shapes = {"split": ints(1, 2, 16, 4, 4), "joined": ints(1, 32, 4, 4)}
    known = {"i": ints(2), "n": ints(0, 0, 1, 2, 2, 2, 2, 0), **shapes}
    made = model(nodes, {"x": dims}, known, ("shuffled", "y"))
    for rule in ("plain", "greedy", "optimal"):
        check(made, values(*dims), rule)


@pytest.mark.parametrize(
    ("nodes", "constants", "said"),
    [
        (
            [node("ConstantOfShape", "n", to=("w",), name="large"), node("MatMul", "x", "w", name="product")],
            {"n": ints(4, 1 << 25)},
            "product",
        ),
        ([node("Pad", "x", "n", name="wide")], {"n": ints(0, 0, 0, 0, 1 << 21, 0, 0, 0)}, "node .y. .pad."),
        (
            [
                node("Resize", "x", "", "", "n", to=("a",), name="up"),
                node("GlobalAveragePool", "a", name="mean"),
            ],
            {"n": ints(1, 6, 5000, 4000)},
            "'a'",
        ),
    ],
)
def test_tensors_larger_than_memory_are_refused_by_node(
    nodes: Sequence[Any], constants: Mapping[str, Array], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(free_memory, "free_memory", lambda: free_memory.FreeMemory(1 << 30, 1 << 28))
    with pytest.raises(rs.OutOfMemory, match=said):
        rs.onnx.load(model(nodes, {"x": X}, constants))(values(*X))


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        (
            [node("Range", "a", "n", "b", to=("c",))],
            {"a": np.array(0), "n": np.array(1 << 29), "b": np.array(1)},
        ),
        ([node("Expand", "one", "n", to=("c",))], {"one": ints(1), "n": ints(1 << 29)}),
        ([node("ConstantOfShape", "n", to=("c",))], {"n": ints(1 << 15, 1 << 14)}),
        (
            [node("Add", "a", "b", to=("c",))],
            {"a": ints(*range(1 << 15))[None], "b": ints(*range(1 << 14))[:, None]},
        ),
    ],
)
def test_constants_that_no_network_has_are_refused_by_node(nodes: Sequence[Any], constants: Any) -> None:
    last = node("ReduceMax", "c", to=("d",)), onnx.helper.make_node("Cast", ["d"], ["e"], to=1)
    begin = perf_counter()
    with pytest.raises(rs.Unimplemented, match=f"a constant of {1 << 29} elements"):
        rs.onnx.load(model([*nodes, *last, node("Add", "x", "e")], {"x": X}, constants))(values(*X))
    assert perf_counter() - begin < 3


@pytest.mark.parametrize("source", [b"", b"no model", b"\x08\x07\x12\x00", 3, None, "/no/such/model.onnx"])
def test_what_is_no_model_is_refused(source: object) -> None:
    assert refusal(source).code in ("RS-F04", "RS-V08", "RS-F02")


def test_tensors_of_one_name_are_refused() -> None:
    split = node("Split", "x", to=("y", "y"), axis=1, name="both")
    assert "'both'" in refusal(model([split], {"x": X})).what
    twice = model([node("Relu", "x")], {"x": X})
    twice.graph.input.append(twice.graph.input[0])
    assert "'x'" in refusal(twice).where


def test_every_prefix_of_a_model_is_refused_or_runs() -> None:
    data = shaped().SerializeToString()
    for length in range(0, len(data), 7):
        try:
            rs.onnx.load(data[:length])(values(1, 6, 2, 2))
        except rs.Error:
            continue


def external(location: str, **entries: str) -> Any:
    made = model([node("Add", "x", "c")], {"x": (1, 4)}, {"c": values(4)})
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = tensor.EXTERNAL
    for key, value in {"location": location, **entries}.items():
        tensor.external_data.add(key=key, value=value)
    return made


def test_tensors_beside_the_model_are_read_from_its_folder(tmp_path: Path) -> None:
    (tmp_path / "weights.bin").write_bytes(b"head" + values(4).tobytes() + b"tail")
    path = tmp_path / "model.onnx"
    path.write_bytes(external("weights.bin", offset="4", length="16").SerializeToString())
    assert np.array_equal(rs.onnx.load(path)(values(1, 4)), values(1, 4) + values(4))


@pytest.mark.parametrize(
    ("location", "entries"),
    [
        ("../weights.bin", {}),
        ("/etc/hostname", {}),
        ("link.bin", {}),
        ("missing.bin", {}),
        ("", {}),
        ("weights.bin", {"offset": "8"}),
        ("weights.bin", {"offset": "-4"}),
        ("weights.bin", {"length": "999"}),
        ("weights.bin", {"offset": "far"}),
        ("weights.bin\0", {}),
    ],
)
def test_files_outside_the_folder_or_too_short_are_refused(
    tmp_path: Path, location: str, entries: dict[str, str]
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for path in (tmp_path / "weights.bin", folder / "weights.bin"):
        path.write_bytes(values(4).tobytes())
    (folder / "link.bin").symlink_to(tmp_path / "weights.bin")
    path = folder / "model.onnx"
    path.write_bytes(external(location, **entries).SerializeToString())
    error = refusal(path)
    assert error.code == ("RS-F11" if location == "missing.bin" else "RS-F04")
    assert "'c'" in str(error)
    assert len([line for line in str(error).splitlines() if line.startswith("  hint: ")]) == 1


_OF_BIG_MODELS = """
import resource, sys
import numpy as np
import restride as rs

path, rows = sys.argv[1], int(sys.argv[2])
net = rs.onnx.load(path)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
at = np.array([0, rows - 1, 5, -1])
found = net({"at": at})
assert found.shape == (4, 1024) and found[0, 0] == 1 and found[1, -1] == 7 and found[3, -1] == 7, found
assert not found[2].any()
print(before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "dtype"), [(1, np.float32), (3, np.int8)])
def test_of_a_tensor_above_two_gigabytes_only_what_is_read_comes_to_memory(
    tmp_path: Path, kind: int, dtype: Any
) -> None:
    rows = (5 << 29) // 1024 // np.dtype(dtype).itemsize
    nbytes = rows * 1024 * np.dtype(dtype).itemsize
    with (tmp_path / "table.bin").open("wb") as file:
        file.write(np.array([1], dtype).tobytes())
        file.truncate(nbytes)  # a hole: it takes no room on the disk
        file.seek(nbytes - np.dtype(dtype).itemsize)
        file.write(np.array([7], dtype).tobytes())
    table = onnx.TensorProto(name="table", data_type=kind, dims=(rows, 1024))
    table.data_location = onnx.TensorProto.EXTERNAL
    table.external_data.add(key="location", value="table.bin")
    graph = onnx.helper.make_graph(
        [node("Gather", "table", "at")],
        "g",
        [onnx.helper.make_tensor_value_info("at", 7, (4,))],
        [onnx.helper.make_tensor_value_info("y", kind, (4, 1024))],
        [table],
    )
    path = tmp_path / "model.onnx"
    path.write_bytes(
        onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)]).SerializeToString()
    )
    arguments = [sys.executable, "-c", _OF_BIG_MODELS, str(path), str(rows)]
    run = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr
    peak = int(run.stdout.split()[-1])
    assert peak < 300 << 10, run.stdout  # in KiB; the file has 2.5 GiB
    with (tmp_path / "table.bin").open("r+b") as file:
        file.truncate(nbytes - 1)
    assert "'table' cannot be read" in str(refusal(path))


def test_bytes_have_no_folder() -> None:
    assert "folder" in str(refusal(external("weights.bin").SerializeToString()))


# --- real networks ------------------------------------------------------------------------------------------


LIGHT_NETWORKS = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("rule", ["plain", "greedy", "optimal"])
@pytest.mark.parametrize("name", sorted(path.stem for path in LIGHT_NETWORKS.glob("*.onnx")))
def test_light_networks_give_what_onnx_runtime_does(name: str, rule: str) -> None:
    runtime = pytest.importorskip("onnxruntime")
    made = randomized(LIGHT_NETWORKS / f"{name}.onnx")
    x = values(1, 3, 224, 224)
    session = runtime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    (wanted,) = session.run(None, {session.get_inputs()[0].name: x})
    found = rs.onnx.load(made, rule=rule)(x)
    assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max()


def test_attributes_of_earlier_versions_and_without_effect_are_no_obstacle() -> None:
    x = values(2, 3)
    power = model(
        [node("Pow", "x", "e", broadcast=1)], {"x": x.shape}, {"e": np.array(2.0, np.float32)}, opset=6
    )
    assert np.allclose(rs.onnx.load(power)(x), x * x)
    assert np.allclose(
        rs.onnx.load(model([node("Relu", "x", unknown=0)], {"x": x.shape}))(x), np.maximum(x, 0)
    )


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (node("MaxPool", "x", kernel_shape=[2.5, 2.5]), "2.5 is not an integer"),
        (node("MaxPool", "x", kernel_shape=["2", "2"]), "is not a number"),
        (node("Transpose", "x", perm=[0.9, 2.2, 3.3, 1.9]), "0.89.* is not an integer"),
        (node("ReduceMean", "x", axes=[1], keepdims="no"), "neither true nor false"),
    ],
)
def test_attributes_that_are_no_integers_are_refused(made: Any, said: str) -> None:
    with pytest.raises(rs.Error, match=said):
        rs.onnx.load(model([made], {"x": (1, 2, 4, 4)}))(values(1, 2, 4, 4))


def test_a_long_attribute_is_shortened_in_its_refusal() -> None:
    with pytest.raises(rs.Unimplemented, match="it has unknown=") as caught:
        rs.onnx.load(model([node("Relu", "x", unknown=list(range(100000)))], {"x": (2, 3)}))(values(2, 3))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize("opset", [0, 29, 99, None])
def test_opsets_that_are_not_known_are_refused(opset: int | None) -> None:
    made = model([node("Relu", "x")], {"x": X})
    del made.opset_import[:]
    if opset is not None:
        made.opset_import.append(onnx.helper.make_opsetid("", opset))
    assert refusal(made).code == "RS-G02"


@pytest.mark.parametrize(
    ("operator", "attributes", "opset", "code"),
    [
        ("Gelu", {}, 17, "RS-G01"),
        ("Gelu", {}, 20, ""),
        ("ReduceMean", {"axes": [1]}, 18, "RS-G01"),
        ("ReduceMean", {"axes": [1]}, 17, ""),
        ("Unsqueeze", {"axes": [0]}, 13, "RS-G01"),
        ("Unsqueeze", {"axes": [0]}, 12, ""),
    ],
)
def test_what_an_opset_does_not_have_is_refused(
    operator: str, attributes: dict[str, Any], opset: int, code: str
) -> None:
    made = model([node(operator, "x", **attributes)], {"x": X})
    del made.opset_import[:]
    made.opset_import.append(onnx.helper.make_opsetid("", opset))
    if code:
        assert refusal(made).code == code
    else:
        rs.onnx.load(made)


@pytest.mark.parametrize("opset", [17, 99])
def test_a_check_lists_what_an_opset_does_not_have_with_all_other_problems(opset: int) -> None:
    nodes = [
        node("Gelu", "x", name="first", to=["a"]),
        node("Squeeze", "a", name="second", to=["b"], axes=[0]),
        node("NonZero", "x", name="third", to=["c"]),
        node("Relu", "a", name="last", to=["y"]),
    ]
    made = model(nodes, {"x": (1, 4)})
    made.opset_import[0].version = opset
    found = rs.onnx.check(made)
    refused = {(each.operator, each.name) for each in found.refused}
    assert found.missing == {"NonZero": ("third",)}
    if opset == 17:
        assert refused == {("Gelu", "first"), ("Squeeze", "second")}
        assert found.runs == {"Relu": 1}
        assert "since opset 20, the model is of opset 17" in str(found)
    else:
        assert ("opset", "the ONNX model is of opset 99") in refused
        assert found.runs["Relu"] == 1
    assert not found.is_whole


def test_the_table_of_versions_is_that_of_onnx() -> None:
    from restride.graph.importers.onnx.versions import _ENDED, _FIRST, NEWEST

    schemas = [each for each in onnx.defs.get_all_schemas_with_history() if not each.domain]
    first: dict[str, int] = {}
    for each in schemas:
        first[each.name] = min(first.get(each.name, NEWEST), each.since_version)
    here = rs.onnx.operators()
    later = {name: n for name, n in first.items() if n > 1 and name in here}
    assert later.pop("LayerNormalization") == 17  # ONNX Runtime writes it into models of any version
    assert later == dict(_FIRST)
    for (operator, name), ended in _ENDED.items():
        own = {each.since_version: each for each in schemas if each.name == operator}
        assert name not in own[ended].attributes
        assert name in own[max(n for n in own if n < ended)].attributes
