"""Functions of ONNX: those of a model, bodies of the package onnx, and what neither can be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.graph.importers.onnx import functions
from support.errors import refused

onnx = pytest.importorskip("onnx")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

Array = np.ndarray
OPSETS = [onnx.helper.make_opsetid("", 17), onnx.helper.make_opsetid("own", 1)]


def values(*dims: int) -> Array:
    return np.random.default_rng(dims).standard_normal(dims).astype(np.float32)


def function(
    name: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    nodes: Sequence[Any],
    attributes: Sequence[str] = (),
    defaults: Sequence[Any] = (),
) -> Any:
    return onnx.helper.make_function(
        "own", name, inputs, outputs, nodes, OPSETS, attributes, attribute_protos=defaults
    )


def model(nodes: Sequence[Any], made: Sequence[Any], outputs: Sequence[str] = ("y",)) -> Any:
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes, "graph", [info("x", 1, ("n", 3))], [info(name, 1, None) for name in outputs]
    )
    return onnx.helper.make_model(graph, opset_imports=OPSETS, functions=made, ir_version=10)


def node(
    operator: str, *inputs: str, to: Sequence[str] = ("y",), own: bool = False, **attributes: Any
) -> Any:
    return onnx.helper.make_node(operator, inputs, to, domain="own" if own else "", **attributes)


def referring(made: Any, attribute: str, name: str, kind: int) -> Any:
    """The node with an attribute that is one of the function around it."""
    made.attribute.add(name=attribute, ref_attr_name=name, type=kind)
    return made


SCALED = function(
    "Scaled",
    ["a", "b"],
    ["c", "d"],
    [
        referring(node("LeakyRelu", "a", to=("t",)), "alpha", "slope", onnx.AttributeProto.FLOAT),
        node("Add", "t", "b", to=("c",)),
        node("Neg", "c", to=("d",)),
    ],
    [],
    [onnx.helper.make_attribute("slope", 0.5)],
)


def test_a_function_stands_for_its_nodes_with_attributes_and_defaults() -> None:
    x = values(4, 3)
    made = model(
        [
            node("Scaled", "x", "x", to=("t", ""), own=True, slope=0.25),
            node("Scaled", "t", "x", to=("", "y"), own=True),
        ],
        [SCALED],
    )
    first = np.where(x > 0, x, x * np.float32(0.25)) + x
    wanted = -(np.where(first > 0, first, first * np.float32(0.5)) + x)
    np.testing.assert_allclose(rs.onnx.load(made)(x), wanted, rtol=1e-6)


def test_names_inside_are_apart_from_those_around() -> None:
    # The tensor "t" is another one in the function, and "c" the other's input.
    x = values(2, 3)
    made = model(
        [
            node("Exp", "x", to=("t",)),
            node("Neg", "x", to=("c",)),
            node("Scaled", "c", "t", to=("d", "y"), own=True, slope=0.0),
            node("Add", "t", "c", to=("z",)),
        ],
        [SCALED],
        ("y", "z", "d"),
    )
    found = rs.onnx.load(made)(x)
    inner = np.maximum(-x, 0) + np.exp(x)
    np.testing.assert_allclose(found["y"], -inner, rtol=1e-5)
    np.testing.assert_allclose(found["d"], inner, rtol=1e-5)
    np.testing.assert_allclose(found["z"], np.exp(x) - x, rtol=1e-5)


def test_functions_call_functions_and_inputs_may_be_left_out_or_passed_on() -> None:
    swap = function("Swap", ["a", "b"], ["b", "a"], [])
    shifted = function(
        "Shifted",
        ["a", "b"],
        ["e"],
        [node("Swap", "b", "a", to=("p", "q"), own=True), node("Sub", "p", "q", to=("e",))],
    )
    x = values(5, 3)
    made = model([node("Exp", "x", to=("t",)), node("Shifted", "t", "x", own=True)], [swap, shifted])
    np.testing.assert_allclose(rs.onnx.load(made)(x), np.exp(x) - x, rtol=1e-5, atol=1e-6)
    clipped = function("Clipped", ["a", "low"], ["b"], [node("Clip", "a", "low", to=("b",))])
    made = model([node("Clipped", "x", own=True)], [clipped])
    assert np.array_equal(rs.onnx.load(made)(x), x)


def test_functions_and_names_in_them_are_there_once() -> None:
    plain = function("Twice", ["a"], ["b"], [node("Neg", "a", to=("b",))])
    other = function("Twice", ["a"], ["b"], [node("Exp", "a", to=("b",))])
    inputs = function("Twice", ["a", "a"], ["b"], [node("Neg", "a", to=("b",))])
    outputs = function("Twice", ["a"], ["b", "b"], [node("Neg", "a", to=("b",))])
    cases = {"defined twice": [plain, other], "an input 'a'": [inputs], "an output 'b'": [outputs]}
    for words, functions_of_model in cases.items():
        made = model([node("Twice", "x", own=True)], functions_of_model)
        with pytest.raises(onnx.checker.ValidationError):
            onnx.checker.check_model(made)
        with refused(words):
            rs.onnx.load(made)


def test_shapes_are_computed_in_functions_as_around_them() -> None:
    flat = function(
        "Flat",
        ["a"],
        ["b"],
        [
            node("Shape", "a", to=("s",), end=1),
            node("Constant", to=("one",), value_ints=[-1]),
            node("Concat", "one", "s", to=("dims",), axis=0),
            node("Reshape", "a", "dims", to=("b",)),
        ],
    )
    net = rs.onnx.load(model([node("Flat", "x", own=True)], [flat]))
    for n in (2, 6):
        x = values(n, 3)
        assert np.array_equal(net(x), x.reshape(-1, n))


def test_branches_in_functions_read_what_is_around_them() -> None:
    info = onnx.helper.make_tensor_value_info

    def branch(operator: str) -> Any:
        inner = [
            referring(node("Constant", to=("k",)), "value_float", "k", 1),
            node(operator, "t", "k", to=("r",)),
        ]
        return onnx.helper.make_graph(inner, operator, [], [info("r", 1, None)])

    chosen = function(
        "Chosen",
        ["a"],
        ["b"],
        [
            node("Neg", "a", to=("t",)),
            node("Size", "a", to=("n",)),
            node("Constant", to=("six",), value_int=6),
            node("Equal", "n", "six", to=("c",)),
            node("If", "c", to=("b",), then_branch=branch("Add"), else_branch=branch("Mul")),
        ],
        ["k"],
    )
    net = rs.onnx.load(model([node("Chosen", "x", own=True, k=3.0)], [chosen]))
    for n, wanted in ((2, lambda x: 3 - x), (4, lambda x: -3 * x)):
        np.testing.assert_allclose(net(values(n, 3)), wanted(values(n, 3)), rtol=1e-6)


def test_wrong_functions_are_refused() -> None:
    missing = function("F", ["a"], ["b"], [node("StringNormalizer", "a", to=("b",), name="deep")])
    with refused("'y/deep'", kind=rs.Unimplemented):
        rs.onnx.load(model([node("F", "x", own=True)], [missing]))
    with refused("no earlier node writes"):
        rs.onnx.load(
            model([node("F", "x", own=True)], [function("F", ["a"], ["b"], [node("Exp", "z", to=("b",))])])
        )
    circle = [
        function("F", ["a"], ["b"], [node("G", "a", to=("b",), own=True)]),
        function("G", ["a"], ["b"], [node("F", "a", to=("b",), own=True)]),
    ]
    with refused("is recursive"):
        rs.onnx.load(model([node("F", "x", own=True)], circle))
    deep = [
        function(f"F{i}", ["a"], ["b"], [node(f"F{i + 1}", "a", to=("b",), own=True)]) for i in range(500)
    ]
    with refused("levels deep"):
        rs.onnx.load(model([node("F0", "x", own=True)], deep))
    # 2**40 nodes in a file of 40 functions.
    tower = [function("F0", ["a"], ["b"], [node("Exp", "a", to=("b",))])]
    for i in range(40):
        twice = [node(f"F{i}", "a", to=("t",), own=True), node(f"F{i}", "t", to=("b",), own=True)]
        tower.append(function(f"F{i + 1}", ["a"], ["b"], twice))
    with refused("more than 262144 nodes"):
        rs.onnx.load(model([node("F40", "x", own=True)], tower))


# --- bodies of the package ----------------------------------------------------------------------------------


def test_operators_without_an_entry_are_their_bodies() -> None:
    x = values(4, 3)
    labels = np.array([2, 0, 1, 1])
    made = model([node("SoftmaxCrossEntropyLoss", "x", "l")], [])
    made.graph.initializer.append(onnx.numpy_helper.from_array(labels, "l"))
    scores = x - np.log(np.exp(x).sum(1, keepdims=True))
    wanted = -scores[np.arange(4), labels].mean()
    np.testing.assert_allclose(rs.onnx.load(made)(x), wanted, rtol=1e-5)


def test_without_the_package_the_error_says_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "_schema", lambda operator, opset: None)
    monkeypatch.setattr(functions, "find_spec", lambda name: None)
    functions._plain_body.cache_clear()
    made = model([node("SoftmaxCrossEntropyLoss", "x", "x")], [])
    with refused("SoftmaxCrossEntropyLoss", "pip install onnx", kind=rs.Unimplemented):
        rs.onnx.load(made)
    functions._plain_body.cache_clear()


# --- what of a model runs -----------------------------------------------------------------------------------


def test_check_lists_what_runs_what_is_missing_and_what_follows() -> None:
    nodes = [
        node("Exp", "x", to=("a",), name="power"),
        node("StringNormalizer", "a", to=("b",), name="first"),
        node("Relu", "b", to=("c",), name="late"),
        node("Reshape", "a", "x", to=("d",), name="bent"),
        node("Neg", "x", name="other"),
    ]
    found = rs.onnx.check(model(nodes, []))
    assert dict(found.runs) == {"Exp": 1, "Neg": 1}
    assert found.missing == {"StringNormalizer": ("first",)}
    assert [(each.operator, each.name) for each in found.refused] == [("Reshape", "bent")]
    assert (found.dependent, found.is_whole) == (("late",), False)
    assert "missing: StringNormalizer 1: 'first'" in str(found)
    whole = rs.onnx.check(model([node("Scaled", "x", "x", own=True)], [SCALED]), dims={"x": (7, 3)})
    assert whole.is_whole
    assert str(whole) == "1 node runs: 1 own.Scaled"
    with refused("no such input"):
        rs.onnx.check(model(nodes, []), dims={"z": (1,)})
