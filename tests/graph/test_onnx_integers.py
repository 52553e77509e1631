"""Integers and truth values in ONNX models, at run time: beside the reference of the package onnx."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper  # noqa: E402
from onnx.reference import ReferenceEvaluator  # noqa: E402

KINDS = {
    "s8": TensorProto.INT8, "s16": TensorProto.INT16, "s32": TensorProto.INT32, "s64": TensorProto.INT64,
    "u8": TensorProto.UINT8, "u16": TensorProto.UINT16, "u32": TensorProto.UINT32, "u64": TensorProto.UINT64,
    "f32": TensorProto.FLOAT, "f64": TensorProto.DOUBLE, "boolean": TensorProto.BOOL,
}  # fmt: skip
ARITHMETIC = ("Add", "Sub", "Mul", "Div", "Max", "Min", "Mod", "BitwiseAnd", "BitwiseOr", "BitwiseXor")


def model(nodes, inputs, output, constants=(), opset=18):
    """A model of nodes; inputs and output as (name, kind, dims)."""
    infos = [helper.make_tensor_value_info(name, KINDS[kind], dims) for name, kind, dims in (*inputs, output)]
    tensors = [onnx.numpy_helper.from_array(values, name) for name, values in dict(constants).items()]
    graph = helper.make_graph(nodes, "graph", infos[:-1], infos[-1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def both(proto, feeds):
    """Return the results of restride and of the reference."""
    (wanted,) = ReferenceEvaluator(proto).run(None, feeds)
    return rs.onnx.load(proto)(feeds), wanted


def numbers(kind, dims, seed=0, low=None):
    dtype = rs.DataType.parse(kind).numpy
    info = np.iinfo(dtype)
    least = info.min if low is None else low
    return np.random.default_rng(seed).integers(least, info.max, dims, dtype, endpoint=True)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind[0] in "su"])
def test_chains_of_integer_arithmetic_wrap(kind):
    random = np.random.default_rng(ord(kind[0]) * 64 + int(kind[1:]))
    for _ in range(4):
        names = [str(name) for name in random.choice(ARITHMETIC, 4)]
        nodes, constants, last = [], {}, "x"
        for at, name in enumerate(names):
            dims = [(), (5,), (3, 1), (2, 3, 5)][random.integers(4)]
            least = 1 if name in ("Div", "Mod") else None
            constants[f"c{at}"] = numbers(kind, dims, int(random.integers(1000)), least)
            nodes.append(helper.make_node(name, [last, f"c{at}"], [f"t{at}"]))
            last = f"t{at}"
        proto = model(nodes, [("x", kind, (2, 3, 5))], (last, kind, (2, 3, 5)), constants)
        made, wanted = both(proto, {"x": numbers(kind, (2, 3, 5), 5)})
        assert made.dtype == wanted.dtype
        # The reference divides by doubles: those of 64 bits are compared with Python's integers elsewhere.
        if kind not in ("s64", "u64") or "Div" not in names:
            np.testing.assert_array_equal(made, wanted, err_msg=str(names))


@pytest.mark.parametrize("kind", KINDS)
def test_truth_values_are_results(kind):
    x = np.arange(12).reshape(3, 4) % 5
    dtype = rs.DataType.parse(kind).numpy
    feeds = {"x": x.astype(dtype), "y": x[:, ::-1].astype(dtype)}
    inputs = [(name, kind, (3, 4)) for name in feeds]
    proto = model([helper.make_node("Equal", ["x", "y"], ["is"])], inputs, ("is", "boolean", (3, 4)))
    made, wanted = both(proto, feeds)
    assert made.dtype == np.bool_
    np.testing.assert_array_equal(made, wanted)


def test_masks_choose_in_a_run():
    nodes = [
        helper.make_node("Greater", ["x", "limit"], ["is"]),
        helper.make_node("Not", ["is"], ["is_not"]),
        helper.make_node("And", ["is_not", "mask"], ["keeps"]),
        helper.make_node("Where", ["keeps", "x", "other"], ["y"]),
    ]
    x = numbers("s64", (4, 6))
    feeds = {"x": x, "mask": np.random.default_rng(1).integers(0, 2, (6,)).astype(np.bool_)}
    proto = model(
        nodes,
        [("x", "s64", (4, 6)), ("mask", "boolean", (6,))],
        ("y", "s64", (4, 6)),
        {"limit": np.array(0), "other": np.array([[2**62 + 1]])},
    )
    np.testing.assert_array_equal(*both(proto, feeds))


@pytest.mark.parametrize("before", KINDS)
@pytest.mark.parametrize("after", KINDS)
def test_casts_are_those_of_c(before, after):
    dtype = rs.DataType.parse(before).numpy
    x = (
        np.array([0, 1, 3, 100, 127, 2])
        if before in ("boolean", "s8", "u8")
        else np.array([0, 1, 300, 70, 255, 2])
    )
    x = (x * 0.75 if before in ("f32", "f64") and after not in ("s8", "u8") else x % 120).astype(dtype)
    to = KINDS[after]
    proto = model([helper.make_node("Cast", ["x"], ["y"], to=to)], [("x", before, (6,))], ("y", after, (6,)))
    made, wanted = both(proto, {"x": x})
    assert made.dtype == wanted.dtype
    np.testing.assert_array_equal(made, wanted)


def test_known_integers_stay_known_behind_functions_of_elements():
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Mod", ["shape", "five"], ["rest"]),
        helper.make_node("Sign", ["rest"], ["signs"]),
        helper.make_node("Mul", ["shape", "signs"], ["dims"]),
        helper.make_node("Reshape", ["x", "dims"], ["y"]),
    ]
    proto = model(nodes, [("x", "f32", (3, 4))], ("y", "f32", (3, 4)), {"five": np.array([5])})
    np.testing.assert_array_equal(*both(proto, {"x": np.ones((3, 4), np.float32)}))


def test_clip_bounds_and_exponents_come_in_a_run():
    nodes = [
        helper.make_node("Clip", ["x", "low", "high"], ["c"]),
        helper.make_node("Pow", ["c", "e"], ["y"]),
    ]
    inputs = [("x", "f32", (3, 4)), ("low", "f32", ()), ("high", "f32", ()), ("e", "s64", (4,))]
    feeds = {
        "x": np.linspace(-3, 3, 12, dtype=np.float32).reshape(3, 4),
        "low": np.array(-1.5, np.float32),
        "high": np.array(2, np.float32),
        "e": np.array([0, 1, 2, 3]),
    }
    made, wanted = both(model(nodes, inputs, ("y", "f32", (3, 4))), feeds)
    np.testing.assert_allclose(made, wanted, rtol=1e-6)


@pytest.mark.parametrize("form", ["half behind", "half in front", "half inside"])
def test_a_gelu_is_found_in_its_formula(form):
    x, half = ("h" if form == "half in front" else "x"), np.array(0.5, np.float32)
    nodes = [
        helper.make_node("Div", ["x", "root"], ["d"]),
        helper.make_node("Erf", ["d"], ["e"]),
        helper.make_node("Add", ["e", "one"], ["a"]),
        helper.make_node("Mul", ["x", "half"], ["h"])
        if x == "h"
        else helper.make_node("Mul", ["a", "half"], ["b"]),
        helper.make_node("Mul", [x, "b" if form == "half inside" else "a"], ["m"]),
        helper.make_node("Mul", ["m", "half" if form == "half behind" else "one"], ["y"]),
    ]
    constants = {"root": np.array(np.sqrt(2), np.float32), "one": np.array(1, np.float32), "half": half}
    proto = model(nodes, [("x", "f32", (3, 40))], ("y", "f32", (3, 40)), constants)
    made, wanted = both(proto, {"x": np.linspace(-6, 6, 120, dtype=np.float32).reshape(3, 40)})
    np.testing.assert_allclose(made, wanted, rtol=1e-4, atol=1e-6)
    (node,) = rs.onnx.load(proto).plan((3, 40)).graph.nodes
    assert node.operation.algorithm == "eltwise_gelu_erf"


# --- elements of four bits ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["s4", "u4", "f4_e2m1"])
def test_elements_of_four_bits_come_and_go_packed(kind: str) -> None:
    twin = rs.DataType.parse(kind).numpy
    x = np.arange(-3, 12).reshape(3, 5).astype(np.int8 if kind[0] != "f" else np.float32).astype(twin)
    builder = rs.graph.GraphBuilder()
    source = builder.input("x", (3, 5), kind)
    wide = builder.add(rs.graph.ReorderOperation(rs.f32), source)
    again = builder.add(rs.graph.ReorderOperation(rs.DataType.parse(kind)), wide)
    net = rs.Network(builder.graph(wide, again))
    target = np.zeros((3, 5), twin)
    found = net(x, out={again: target})
    np.testing.assert_array_equal(found[wide], x.astype(np.float32))
    np.testing.assert_array_equal(target.astype(np.float32), x.astype(np.float32))
    np.testing.assert_array_equal(net(x)[again].to_numpy().astype(np.float32), x.astype(np.float32))


@pytest.mark.parametrize("operator", ["ReduceL1", "ReduceSumSquare", "ReduceSum", "ReduceMax"])
def test_integers_that_are_not_reduced_are_computed_all_the_same(operator: str) -> None:
    node = helper.make_node(operator, ["x"], ["y"], noop_with_empty_axes=1)
    found = rs.onnx.load(model([node], [("x", "s32", (1, 2))], ("y", "s32", (1, 2))))(np.int32([[-3, 2]]))
    wanted = {"ReduceL1": [[3, 2]], "ReduceSumSquare": [[9, 4]]}.get(operator, [[-3, 2]])
    assert found.tolist() == wanted


@pytest.mark.parametrize("kind", ["s8", "s32", "u64", "boolean"])
def test_einsum_and_nearest_resize_move_what_they_do_not_multiply(kind: str) -> None:
    x = np.arange(18).reshape(1, 2, 3, 3).astype(rs.DataType.parse(kind).numpy)
    for equation in ("bcij->cbji", "bcii->bci"):
        node = helper.make_node("Einsum", ["x"], ["y"], equation=equation)
        wanted = np.einsum(equation, x)
        made = rs.onnx.load(model([node], [("x", kind, x.shape)], ("y", kind, wanted.shape)))(x)
        np.testing.assert_array_equal(made, wanted)
    node = helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="nearest")
    constants = {"scales": np.float32([1, 1, 2, 2])}
    made = rs.onnx.load(model([node], [("x", kind, x.shape)], ("y", kind, (1, 2, 6, 6)), constants))(x)
    np.testing.assert_array_equal(made, x.repeat(2, 2).repeat(2, 3))
