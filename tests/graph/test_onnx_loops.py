"""ONNX's `Loop`, `Scan` and `If` beside onnxruntime: unrolled in a plan, and taken in a run."""

from __future__ import annotations

import signal
import threading
from typing import Any

import numpy as np
import pytest

import restride as rs

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

Array = np.ndarray[Any, Any]
Info = tuple[str, int, tuple[Any, ...]]
FLOAT, INT, BOOL = 1, 7, 9


def node(operator: str, reads: str, makes: str, **attributes: Any) -> Any:
    read = ["" if name == "-" else name for name in reads.split()]
    return onnx.helper.make_node(operator, read, makes.split(), **attributes)


def graph(nodes: list[Any], reads: list[Info], makes: list[Info], constants: dict[str, Array]) -> Any:
    infos = ([onnx.helper.make_tensor_value_info(*each) for each in some] for some in (reads, makes))
    known = [onnx.numpy_helper.from_array(values, name) for name, values in constants.items()]
    return onnx.helper.make_graph(nodes, "g", *infos, known)


def model(
    nodes: list[Any], reads: list[Info], makes: list[Info], constants: dict[str, Array], opset: int = 18
) -> Any:
    whole = graph(nodes, reads, makes, constants)
    return onnx.helper.make_model(whole, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=9)


def check(made: Any, net: rs.Network, inputs: dict[str, Array], rtol: float = 1e-5) -> dict[str, Array]:
    """The results, which are those of onnxruntime."""
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    expected = session.run(None, inputs)
    found = net(inputs)
    results = found if isinstance(found, dict) else {net.outputs[0]: found}
    for own, other in zip(results.values(), expected, strict=True):
        assert own.dtype == other.dtype
        np.testing.assert_allclose(own, other, rtol=rtol, atol=1e-6)
    return results


def numbers(*dims: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(dims).astype(np.float32)


def summing(steps: Any, extent: Any = 3) -> Any:
    """`a` grows by the captured `w` in each step, and gives its square; steps end where a sum is high."""
    body = graph(
        [
            node("Add", "a w", "b"),
            node("Mul", "b b", "square"),
            node("ReduceSum", "b", "sum", keepdims=0),
            node("Less", "sum limit", "goes_on"),
        ],
        [("i", INT, ()), ("cond", BOOL, ()), ("a", FLOAT, ("n",))],
        [("goes_on", BOOL, ()), ("b", FLOAT, ("n",)), ("square", FLOAT, ("n",))],
        {},
    )
    nodes = [
        node("Mul", "x two", "w"),
        node("Loop", "most - x", "y squares", body=body),
        node("Neg", "y", "z"),
    ]
    made = [("y", FLOAT, ("n",)), ("squares", FLOAT, ("m", "n")), ("z", FLOAT, ("n",))]
    constants = {"two": np.full(1, 2, "f4"), "limit": np.full((), 100, "f4")}
    reads: list[Info] = [("x", FLOAT, (extent,))]
    if steps is None:
        return model(nodes, [*reads, ("most", INT, ())], made, constants)
    return model(nodes, reads, made, {**constants, "most": np.array(steps)})


def test_a_loop_ends_by_its_count_or_its_condition_in_a_run() -> None:
    made = summing(None, "n")
    net = rs.onnx.load(made)
    for extent, most in ((3, 5), (3, 2), (4, 100)):
        results = check(made, net, {"x": np.ones(extent, "f4"), "most": np.array(most)})
        assert len(results["squares"]) == min(most, -(-(100 - extent) // (2 * extent)))
    assert net({"x": np.ones(3, "f4"), "most": np.array(0)})["squares"].shape == (0, 3)


def test_explain_tells_of_the_body() -> None:
    net = rs.onnx.load(summing(None))
    net({"x": np.ones(3, "f4"), "most": np.array(4)})
    told = net.explain().splitlines()
    assert told[0] == "restride runs 3 nodes"
    assert told[1:5] == [
        "1. restride: Mul 1",
        "2. restride: Loop 1",
        "  restride runs 4 nodes",
        "  1. restride: Add 1, Less 1, Mul 1, ReduceSum 1",
    ]
    with pytest.raises(rs.Error, match="of several parts has no plan"):
        net.plan()
    net.prepare((3,), ())


def counting(steps: int) -> Any:
    body = graph(
        [node("Cast", "i", "at", to=1), node("Add", "a at", "b"), node("Identity", "c", "d")],
        [("i", INT, ()), ("c", BOOL, ()), ("a", FLOAT, (2,))],
        [("d", BOOL, ()), ("b", FLOAT, (2,))],
        {},
    )
    known = {"most": np.array(steps), "yes": np.array(True)}
    return model(
        [node("Loop", "most yes x", "y", body=body)], [("x", FLOAT, (2,))], [("y", FLOAT, (2,))], known
    )


@pytest.mark.parametrize("steps", [0, 1, 7, 64, 65, 1000])
def test_few_steps_that_are_known_are_one_plan(steps: int) -> None:
    made = counting(steps)
    net = rs.onnx.load(made)
    assert isinstance(net, rs.onnx.DividedNetwork) == (steps > 64)
    check(made, net, {"x": numbers(2)})


def scan(directions: tuple[int, int], axes: tuple[int, int], extent: Any) -> Any:
    body = graph(
        [node("Mul", "h half", "low"), node("Add", "low part", "g"), node("Relu", "g", "out")],
        [("h", FLOAT, (3,)), ("part", FLOAT, (3,))],
        [("g", FLOAT, (3,)), ("out", FLOAT, (3,))],
        {"half": np.full(1, 0.5, "f4")},
    )
    options = {"scan_input_axes": [axes[0]], "scan_output_axes": [axes[1]]}
    options |= {"scan_input_directions": [directions[0]], "scan_output_directions": [directions[1]]}
    nodes = [node("Scan", "h0 x", "last all", body=body, num_scan_inputs=1, **options)]
    dims = (extent, 3) if axes[0] == 0 else (3, extent)
    makes: list[Info] = [("last", FLOAT, (3,)), ("all", FLOAT, (None, None))]
    return model(nodes, [("h0", FLOAT, (3,)), ("x", FLOAT, dims)], makes, {})


@pytest.mark.parametrize("directions", [(0, 0), (1, 0), (0, 1)])
@pytest.mark.parametrize("axes", [(0, 0), (1, 1), (1, -1)])
def test_scans_along_axes_forwards_and_backwards(directions: tuple[int, int], axes: tuple[int, int]) -> None:
    for extent in (4, "n"):
        made = scan(directions, axes, extent)
        net = rs.onnx.load(made)
        for count in (4,) if extent == 4 else (1, 5, 70):
            x = numbers(count, 3) if axes[0] == 0 else numbers(3, count)
            check(made, net, {"h0": numbers(3, seed=1), "x": x})


def test_carried_values_that_grow_have_a_plan_for_each_of_their_dims() -> None:
    body = graph(
        [node("Concat", "a x", "b", axis=0), node("Identity", "c", "d")],
        [("i", INT, ()), ("c", BOOL, ()), ("a", FLOAT, ("k",))],
        [("d", BOOL, ()), ("b", FLOAT, ("j",))],
        {},
    )
    known = {"none": np.zeros(0, "f4")}
    made = model(
        [node("Loop", "most - none", "y", body=body)],
        [("x", FLOAT, (2,)), ("most", INT, ())],
        [("y", FLOAT, ("n",))],
        known,
    )
    net = rs.onnx.load(made)
    for most in (1, 3, 12):
        assert check(made, net, {"x": numbers(2), "most": np.array(most)})["y"].shape == (2 * most,)


def test_what_decides_on_dims_in_a_body_is_a_plan_for_each_value() -> None:
    body = graph(
        [
            node("Add", "i one", "end"),
            node("Slice", "x zero end", "front"),
            node("ReduceSum", "front", "sum", keepdims=1),
            node("Add", "a sum", "b"),
            node("Identity", "c", "d"),
        ],
        [("i", INT, ()), ("c", BOOL, ()), ("a", FLOAT, (1,))],
        [("d", BOOL, ()), ("b", FLOAT, (1,))],
        {"one": np.ones(1, np.int64), "zero": np.zeros(1, np.int64)},
    )
    made = model(
        [node("Loop", "most - start", "y", body=body)],
        [("x", FLOAT, (5,)), ("most", INT, ())],
        [("y", FLOAT, (1,))],
        {"start": np.zeros(1, "f4")},
    )
    check(made, rs.onnx.load(made), {"x": numbers(5), "most": np.array(5)})


def test_a_shape_that_a_call_brings_is_a_plan_for_each_value() -> None:
    nodes = [node("Mul", "shape two", "twice"), node("Expand", "x twice", "wide"), node("Neg", "wide", "y")]
    made = model(
        nodes,
        [("x", FLOAT, (1, 3)), ("shape", INT, (2,))],
        [("y", FLOAT, ("n", "m"))],
        {"two": np.array([2, 1])},
    )
    net = rs.onnx.load(made)
    for rows in (2, 3, 2):
        check(made, net, {"x": numbers(1, 3), "shape": np.array([rows, 3])})
    assert net.explain().splitlines()[-1] == "one plan for each value of 'twice'"
    assert type(rs.onnx.load(made, values={"shape": [2, 3]})) is rs.Network


def test_branches_in_branches_and_loops_in_branches() -> None:
    def branch(nodes: list[Any], constants: dict[str, Array]) -> Any:
        return graph(nodes, [], [(nodes[-1].output[0], FLOAT, (2,))], constants)

    body = graph(
        [node("Add", "a x", "b"), node("Identity", "c", "d")],
        [("i", INT, ()), ("c", BOOL, ()), ("a", FLOAT, (2,))],
        [("d", BOOL, ()), ("b", FLOAT, (2,))],
        {},
    )
    low = branch([node("Loop", "most - x", "u", body=body)], {})
    high = branch([node("Mul", "x k", "v")], {"k": np.full(2, 3, "f4")})
    inner = branch(
        [
            node("ReduceMax", "x", "top", keepdims=0),
            node("Greater", "top zero", "is_high"),
            node("If", "is_high", "w", then_branch=high, else_branch=low),
        ],
        {},
    )
    other = branch([node("Neg", "x", "minus")], {})
    nodes = [
        node("ReduceSum", "x", "sum", keepdims=0),
        node("Greater", "sum limit", "far"),
        node("If", "far", "z", then_branch=other, else_branch=inner),
        node("Add", "z x", "y"),
    ]
    made = model(
        nodes,
        [("x", FLOAT, (2,)), ("most", INT, ())],
        [("y", FLOAT, (2,))],
        {"limit": np.full((), 9, "f4"), "zero": np.zeros((), "f4")},
    )
    net = rs.onnx.load(made)
    for x in ((8, 8), (1, -1), (-1, -2), (8, 8)):
        check(made, net, {"x": np.array(x, "f4"), "most": np.array(3)})


def test_a_loop_in_a_loop_and_threads() -> None:
    inner = graph(
        [node("Add", "p a", "q"), node("Identity", "e", "f")],
        [("j", INT, ()), ("e", BOOL, ()), ("p", FLOAT, (2,))],
        [("f", BOOL, ()), ("q", FLOAT, (2,))],
        {},
    )
    outer = graph(
        [node("Loop", "i - a", "b", body=inner), node("Identity", "c", "d")],
        [("i", INT, ()), ("c", BOOL, ()), ("a", FLOAT, (2,))],
        [("d", BOOL, ()), ("b", FLOAT, (2,))],
        {},
    )
    made = model(
        [node("Loop", "most - x", "y", body=outer)],
        [("x", FLOAT, (2,)), ("most", INT, ())],
        [("y", FLOAT, (2,))],
        {},
    )
    net = rs.onnx.load(made)
    expected = check(made, net, {"x": numbers(2), "most": np.array(4)})["y"]
    found: list[Array] = []

    def call() -> None:
        found.append(net({"x": numbers(2), "most": np.array(4)}))

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(np.array_equal(each, expected) for each in found)


def test_a_loop_that_never_ends_is_stopped() -> None:
    body = graph(
        [node("Neg", "a", "b"), node("Identity", "c", "d")],
        [("i", INT, ()), ("c", BOOL, ()), ("a", FLOAT, (2,))],
        [("d", BOOL, ()), ("b", FLOAT, (2,))],
        {},
    )
    made = model([node("Loop", "- - x", "y", body=body)], [("x", FLOAT, (2,))], [("y", FLOAT, (2,))], {})
    net = rs.onnx.load(made)
    timer = threading.Timer(1.0, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        net(numbers(2))
    timer.join()


# --- what is refused ----------------------------------------------------------------------------------------


def test_parts_of_other_dims_and_bodies_that_do_not_fit() -> None:
    body = graph(
        [node("Concat", "a a", "b", axis=0), node("Identity", "c", "d"), node("Neg", "a", "e")],
        [("i", INT, ()), ("c", BOOL, ()), ("a", FLOAT, ("n",))],
        [("d", BOOL, ()), ("b", FLOAT, ("m",)), ("e", FLOAT, ("n",))],
        {},
    )
    reads: list[Info] = [("x", FLOAT, (2,)), ("most", INT, ())]
    makes: list[Info] = [("y", FLOAT, ("n",)), ("z", FLOAT, ("m", "n"))]
    net = rs.onnx.load(model([node("Loop", "most - x", "y z", body=body)], reads, makes, {}))
    with pytest.raises(rs.InvalidArguments, match="parts of different dims"):
        net({"x": numbers(2), "most": np.array(3)})
    with pytest.raises(rs.InvalidArguments, match="its body"):
        rs.onnx.load(model([node("Loop", "most - x x", "y z", body=body)], reads, makes, {}))(
            {"x": numbers(2), "most": np.array(3)}
        )


def test_what_a_body_has_that_there_is_not_is_refused_with_its_name() -> None:
    body = graph(
        [node("NonZero", "a", "places", name="where"), node("Identity", "c", "d"), node("Neg", "a", "b")],
        [("i", INT, ()), ("c", BOOL, ()), ("a", FLOAT, (2,))],
        [("d", BOOL, ()), ("b", FLOAT, (2,)), ("places", INT, (1, "m"))],
        {},
    )
    makes: list[Info] = [("y", FLOAT, (2,)), ("z", INT, (None, None, None))]
    made = model(
        [node("Loop", "most - x", "y z", body=body)], [("x", FLOAT, (2,)), ("most", INT, ())], makes, {}
    )
    with pytest.raises(rs.Unimplemented, match=r"NonZero: '.*where'"):
        rs.onnx.load(made)
    found = rs.onnx.load(made, fallback="onnxruntime")({"x": np.ones(2, "f4"), "most": np.array(2)})
    np.testing.assert_array_equal(found["z"], [[[0, 1]], [[0, 1]]])


@pytest.mark.parametrize("most", [np.array([1, 2]), np.array([], np.int64)])
def test_a_count_that_is_no_number_is_refused(most: Array) -> None:
    made = summing(None)
    made.graph.input[1].type.tensor_type.ClearField("shape")
    with pytest.raises(rs.InvalidArguments, match="Loop"):
        rs.onnx.load(made)({"x": numbers(3), "most": most})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("scan_input_axes", [5]),
        ("scan_input_axes", [0, 0]),
        ("scan_output_axes", [7]),
        ("num_scan_inputs", 9),
        ("num_scan_inputs", 0),
    ],
)
@pytest.mark.parametrize("extent", [4, "n"])
def test_scans_that_do_not_hold_are_refused(name: str, value: Any, extent: Any) -> None:
    made = scan((0, 0), (0, 0), extent)
    (attribute,) = (each for each in made.graph.node[0].attribute if each.name == name)
    attribute.CopyFrom(onnx.helper.make_attribute(name, value))
    for count in (4, 70):
        with pytest.raises(rs.InvalidArguments):
            rs.onnx.load(made)({"h0": numbers(3), "x": numbers(count, 3)})


def test_what_is_behind_a_loop_that_a_run_decides_is_checked() -> None:
    told = rs.onnx.check(summing(None))
    assert told.is_whole
    assert told.runs == {"Mul": 1, "Loop": 1, "Neg": 1}


def deciding(within: str, behind: str) -> Any:
    """A branch that a run decides: an operator is in it, and another one behind it."""
    branches = {
        name: graph([node(operator, "x", "b")], [], [("b", FLOAT, None)], {})
        for name, operator in (("then_branch", within), ("else_branch", "Neg"))
    }
    nodes = [node("If", "c", "y", name="way", **branches), node(behind, "y", "z", name="last")]
    return model(nodes, [("x", FLOAT, (2, 3)), ("c", BOOL, ())], [("z", FLOAT, None)], {})


@pytest.mark.parametrize(
    ("within", "behind", "runs", "refused"),
    [
        ("Relu", "Abs", {"If": 1, "Abs": 1}, ()),
        ("Relu", "Det", {"If": 1}, ()),
        ("Det", "Abs", {}, ()),
        ("Relu", "MaxPool", {"If": 1}, ("last",)),
        ("MaxPool", "Abs", {}, ("way",)),
    ],
)
def test_nodes_in_branches_and_behind_them_are_checked(
    within: str, behind: str, runs: dict[str, int], refused: tuple[str, ...]
) -> None:
    told = rs.onnx.check(deciding(within, behind))
    assert told.runs == runs
    assert tuple(each.name for each in told.refused) == refused
    assert set(told.missing) == {within, behind} & {"Det"}
    assert told.is_whole == (within != "Det" and behind != "Det" and not refused)


def test_an_output_without_a_name_is_refused() -> None:
    made = summing(3)
    made.graph.output[0].name = ""
    with pytest.raises(rs.InvalidArguments, match="no node writes an output"):
        rs.onnx.load(made)
