"""ONNX models of which some nodes run in onnxruntime: results, what runs where and why, and refusals."""

from __future__ import annotations

import pickle
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.graph.importers.onnx import checking
from restride.graph.network import planned_runs
from support.errors import refused

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]
MIDDLE = [
    onnx.helper.make_node("Relu", ["x"], ["a"]),
    onnx.helper.make_node("NonZero", ["a"], ["places"], name="where"),
    onnx.helper.make_node("Cast", ["places"], ["numbers"], to=1),
    onnx.helper.make_node("Shape", ["x"], ["dims"]),
    onnx.helper.make_node("Expand", ["one", "dims"], ["ones"]),
    onnx.helper.make_node("Add", ["a", "ones"], ["b"]),
    onnx.helper.make_node("Mul", ["numbers", "two"], ["y"]),
]


def model(nodes: list[Any], inputs: dict[str, Any], outputs: list[str], constants: dict[str, Array]) -> Any:
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info(name, 1, dims) for name, dims in inputs.items()],
        [onnx.ValueInfoProto(name=name) for name in outputs],
        [onnx.numpy_helper.from_array(values, name) for name, values in constants.items()],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)


def middle(dims: Any = ("n", 4)) -> Any:
    return model(MIDDLE, {"x": dims}, ["y", "b"], {"two": np.full(1, 2, "f4"), "one": np.ones(1, "f4")})


def numbers(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)


def test_an_island_between_two_parts_whose_dims_follow_from_values() -> None:
    net = rs.onnx.load(middle(), fallback="onnxruntime")
    assert isinstance(net, rs.onnx.DividedNetwork)
    assert (net.inputs[0].name, net.inputs[0].dims, net.outputs) == ("x", (None, 4), ("y", "b"))
    for seed, rows in enumerate((3, 3, 5, 3)):
        x = numbers(rows, 4, seed=seed)
        found = net(x)
        np.testing.assert_array_equal(found["y"], 2.0 * np.array(np.nonzero(np.maximum(x, 0))))
        np.testing.assert_array_equal(found["b"], np.maximum(x, 0) + 1)


def test_it_is_told_what_runs_where_why_and_what_crosses() -> None:
    net = rs.onnx.load(middle(), fallback="onnxruntime")
    x = np.array([[1, 0, -1, 2]], np.float32)
    net(x)
    told = net.explain()
    assert told == net.explain((1, 4))
    assert str(told).splitlines() == [
        "restride runs 6 nodes, onnxruntime runs 1 node",
        "1. restride: Add 1, Expand 1, Relu 1, Shape 1",
        "2. onnxruntime: NonZero 1",
        "  NonZero 'where': restride has no such operator",
        "  gets a: float32 1x4, 16 bytes",
        "3. restride: Cast 1, Mul 1",
        "  gets places: int64 2x2, 32 bytes",
        "between them: 2 tensors, 48 bytes, of which 0 are copied",
    ]
    assert "gets places: int64 2x0" in net.explain((7, 4))  # zeros
    assert "int64 2x0" in rs.onnx.load(middle((2, 4)), fallback="onnxruntime").explain()


def test_a_divided_network_is_pickled_prepared_and_timed() -> None:
    net, x = rs.onnx.load(middle(), fallback="onnxruntime"), numbers(3, 4)
    again = pickle.loads(pickle.dumps(net.with_rule("plain")))
    assert again.rule == "plain"
    np.testing.assert_array_equal(again(x)["y"], net(x)["y"])
    again.prepare((5, 4))
    assert "gets places: int64 2x0" in again.explain((5, 4))
    times = net.profile(x)
    assert [(each.kernel, each.operation) for each in times][1] == ("onnxruntime", "NonZero 1")
    for call, words in ((lambda: net.plan((3, 4)), "no plan"), (lambda: net.save("x"), "no file")):
        with refused(words, "may depend on values", kind=rs.Unimplemented):
            call()


def test_it_says_which_extents_it_assumes() -> None:
    assert "unknown extents taken as 1, of 'x'" in str(rs.onnx.check(middle()))
    told = rs.onnx.check(middle(), dims={"x": (2, 4)})
    assert (told.assumed, "unknown" in str(told)) == ((), False)
    assert rs.onnx.check(middle((2, 4))).assumed == ()


def test_a_model_that_runs_whole_is_a_plain_network() -> None:
    made = model(MIDDLE[:1], {"x": (2, 4)}, ["a"], {})
    assert isinstance(rs.onnx.load(made, fallback="onnxruntime"), rs.Network)


def test_nothing_runs_elsewhere_without_being_asked() -> None:
    with pytest.raises(rs.Unimplemented, match="NonZero: 'where'"):
        rs.onnx.load(middle())


def test_lists_that_cross_are_made_elsewhere() -> None:
    nodes = [
        onnx.helper.make_node("SequenceConstruct", ["x", "x"], ["pair"]),
        onnx.helper.make_node("SequenceAt", ["pair", "first"], ["again"]),
        onnx.helper.make_node("Neg", ["again"], ["low"]),
        onnx.helper.make_node("SequenceInsert", ["pair", "low"], ["three"]),
        onnx.helper.make_node("ConcatFromSequence", ["three"], ["y"], axis=0),
    ]
    first = {"first": np.zeros((), np.int64)}
    x = numbers(2, 2)
    whole = rs.onnx.load(model(nodes, {"x": ("n", 2)}, ["y"], first), fallback="onnxruntime")
    assert type(whole) is rs.Network
    np.testing.assert_array_equal(whole(x), np.concatenate([x, x, -x]))
    net = rs.onnx.load(model(nodes, {"x": ("n", 2)}, ["y", "three"], first), fallback="onnxruntime")
    found = net(x)
    np.testing.assert_array_equal(found["y"], np.concatenate([x, x, -x]))
    np.testing.assert_array_equal(found["three"], [x, x, -x])
    told = net.explain((2, 2)).splitlines()
    assert [line.split()[1] for line in told if line[0].isdigit()] == ["restride:", "onnxruntime:"]


def test_what_the_planner_refuses_runs_elsewhere_too(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = planned_runs.plan_network

    def refusing(graph: Any, *args: Any, **named: Any) -> Any:
        if any(node.kind == "lrn" for node in graph.nodes):
            raise rs.Unimplemented("no such windows", why="they are too wide")
        return plan(graph, *args, **named)

    monkeypatch.setattr(planned_runs, "plan_network", refusing)
    monkeypatch.setattr(checking, "plan_network", refusing)
    nodes = [
        onnx.helper.make_node("Relu", ["x"], ["a"]),
        onnx.helper.make_node("LRN", ["a"], ["b"], size=3),
        onnx.helper.make_node("Neg", ["b"], ["y"]),
    ]
    made = model(nodes, {"x": (1, 4, 3, 3)}, ["y"], {})
    found = rs.onnx.check(made)
    assert [(each.operator, each.why) for each in found.refused] == [("LRN", "they are too wide")]
    net = rs.onnx.load(made, fallback="onnxruntime")
    x = numbers(1, 4, 3, 3)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(net(x), session.run(None, {"x": x})[0], rtol=1e-5)
    assert "LRN 'b': they are too wide" in net.explain()


def test_a_branch_that_only_a_run_decides_is_a_network_of_its_own() -> None:
    def branch(operator: str) -> Any:
        made = onnx.helper.make_node(operator, ["a"], [f"of_{operator}"])
        return onnx.helper.make_graph([made], operator, [], [onnx.ValueInfoProto(name=made.output[0])])

    branches = {"then_branch": branch("Neg"), "else_branch": branch("Abs")}
    nodes = [
        onnx.helper.make_node("Mul", ["x", "two"], ["a"]),
        onnx.helper.make_node("ReduceSum", ["a"], ["sum"], keepdims=0),
        onnx.helper.make_node("Greater", ["sum", "zero"], ["is_high"]),
        onnx.helper.make_node("If", ["is_high"], ["b"], **branches),
        onnx.helper.make_node("Add", ["b", "two"], ["y"]),
    ]
    constants = {"two": np.full(1, 2, "f4"), "zero": np.zeros((), "f4")}
    net = rs.onnx.load(model(nodes, {"x": (2, 3)}, ["y"], constants), fallback="onnxruntime")
    high = np.arange(6, dtype=np.float32).reshape(2, 3)
    for x in (high, -high, high + 1):
        np.testing.assert_array_equal(net(x), (-2 * x if x.sum() > 0 else abs(2 * x)) + 2)
        assert net.explain().splitlines()[0] == "restride runs 5 nodes"


def test_constants_and_inputs_that_are_outputs_are_the_callers_own() -> None:
    nodes = [onnx.helper.make_node("NonZero", ["x"], ["y"]), onnx.helper.make_node("Shape", ["x"], ["dims"])]
    net = rs.onnx.load(
        model(nodes, {"x": ("n",)}, ["x", "y", "dims", "one"], {"one": np.ones(1, "f4")}),
        fallback="onnxruntime",
    )
    x = np.array([0, 3], np.float32)
    first = net(x)
    assert first["x"] is not x
    assert first["dims"].tolist() == [2]
    first["x"][:], first["one"][:], first["dims"][:] = 7, 7, 7
    again = net(x)
    assert (again["x"].tolist(), again["one"].tolist(), again["dims"].tolist()) == ([0, 3], [1], [2])


def test_tensors_beside_the_model_and_fixed_values(tmp_path: Path) -> None:
    nodes = [
        onnx.helper.make_node("Add", ["x", "w"], ["a"]),
        onnx.helper.make_node("Compress", ["a", "chosen"], ["b"], axis=1),
        onnx.helper.make_node("Mul", ["b", "k"], ["y"]),
    ]
    w = numbers(2, 600)
    made = model(nodes, {"x": (2, 600), "k": (1,)}, ["y"], {"w": w, "chosen": np.arange(600) % 2 == 0})
    path = tmp_path / "model.onnx"
    onnx.save(made, path, save_as_external_data=True, location="weights", size_threshold=1)
    x = numbers(2, 600, seed=1)
    net = rs.onnx.load(path, fallback="onnxruntime", values={"k": np.full(1, 3, "f4")})
    np.testing.assert_allclose(net(x), (x + w)[:, ::2] * 3, rtol=1e-6)


def test_threads_call_one_network() -> None:
    net, results = rs.onnx.load(middle(), fallback="onnxruntime"), {}

    def call(rows: int) -> None:
        results[rows] = net(np.ones((rows, 4), np.float32))["y"].shape

    threads = [threading.Thread(target=call, args=(rows,)) for rows in range(1, 13)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {rows: (2, 4 * rows) for rows in range(1, 13)}


# --- what is refused ----------------------------------------------------------------------------------------


def test_other_fallbacks_and_inputs_are_refused() -> None:
    with pytest.raises(rs.InvalidArguments, match="it is the only fallback"):
        rs.onnx.load(middle(), fallback="elsewhere")
    net = rs.onnx.load(middle(), fallback="onnxruntime")
    for x in (numbers(2, 5), numbers(2, 4).astype(np.float64), {"z": numbers(2, 4)}, numbers(4)):
        with pytest.raises(rs.InvalidArguments):
            net(x)
    with pytest.raises(rs.InvalidArguments):
        net.explain((2, 4), (2, 4))
    with pytest.raises(rs.InvalidArguments, match="dynamic dims"):
        net.explain()


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_a_missing_package_is_one_error(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    content = middle().SerializeToString()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(rs.RuntimeFailure, match=f"pip install {package};") as caught:
        rs.onnx.load(content, fallback="onnxruntime")
    assert caught.value.code == "RS-G04"


def test_what_onnxruntime_refuses_too_is_one_error() -> None:
    made = model([onnx.helper.make_node("Twist", ["x"], ["y"], domain="far")], {"x": (2,)}, ["y"], {})
    made.opset_import.append(onnx.helper.make_opsetid("far", 1))
    net = rs.onnx.load(made, fallback="onnxruntime")
    with pytest.raises(rs.RuntimeFailure, match=r"far\.Twist 'y'") as caught:
        net(np.ones(2, np.float32))
    assert caught.value.code == "RS-G06"


# --- ONNX's own cases ---------------------------------------------------------------------------------------

CASES = [
    "test_nonzero_example",
    "test_loop11",
    "test_loop13_seq",
    "test_loop16_seq_none",
    "test_scan_sum",
    "test_scan9_sum",
    "test_if",
    "test_if_seq",
    "test_if_opt",
    "test_identity_sequence",
    "test_sequence_insert_at_back",
    "test_sequence_map_add_2_sequences",
    "test_split_to_sequence_2",
    "test_string_split_basic",
    "test_nonmaxsuppression_two_classes",
    "test_unique_sorted_with_axis",
]


@pytest.mark.filterwarnings("ignore")
def test_cases_of_control_flow_sequences_strings_and_values() -> None:
    from onnx.backend.test.case import node

    cases = {case.name: case for case in node.collect_testcases(None) if case.name in CASES}
    assert sorted(cases) == sorted(CASES)
    for case in cases.values():
        net = rs.onnx.load(case.model, fallback="onnxruntime")
        for inputs, expected in case.data_sets:
            names = [info.name for info in case.model.graph.input]
            found = net(dict(zip(names, inputs, strict=True)))
            results = list(found.values()) if isinstance(found, dict) else [found]
            for own, other in zip(results, expected, strict=True):
                assert isinstance(own, list) == isinstance(other, list), case.name
                pairs = zip(own, other, strict=True) if isinstance(own, list) else [(own, other)]
                for mine, reference in pairs:
                    np.testing.assert_array_equal(mine, reference, err_msg=case.name)
