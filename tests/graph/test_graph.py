"""Graphs: what is refused, what follows from nodes, and rewrites."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import restride as rs
from restride.dtypes import DataType
from restride.graph import (
    BatchNormalizationOperation,
    BinaryOperation,
    ConcatOperation,
    Constant,
    ConvolutionOperation,
    DeconvolutionOperation,
    EltwiseOperation,
    Epilogue,
    Graph,
    GraphBuilder,
    InnerProductOperation,
    LayerNormalizationOperation,
    MatmulOperation,
    Node,
    Operation,
    PadOperation,
    PoolingOperation,
    ReductionOperation,
    ReshapeOperation,
    ShuffleOperation,
    SliceOperation,
    SoftmaxOperation,
    TensorType,
    TransposeOperation,
)

RELU = EltwiseOperation("eltwise_relu")
ADD = BinaryOperation("binary_add")


def tensors(*dims: tuple[int, ...]) -> list[TensorType]:
    return [TensorType(each) for each in dims]


def chain(length: int) -> Graph:
    builder = GraphBuilder()
    name = builder.input("x", (2, 4))
    for _ in range(length):
        name = builder.add(RELU, name)
    return builder.graph(name)


# --- dims ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "dims", "wanted"),
    [
        (
            ConvolutionOperation((2, 2), (0, 0), (3, 3), (3, 3)),
            [(1, 3, 224, 224), (64, 3, 7, 7)],
            (1, 64, 112, 112),
        ),
        (ConvolutionOperation((1,), (1,), (2,), (2,), 2), [(2, 4, 9), (2, 3, 2, 3), (6,)], (2, 6, 9)),
        (
            DeconvolutionOperation((2, 2), (0, 0), (0, 0), (0, 0)),
            [(1, 8, 5, 7), (3, 8, 2, 2)],
            (1, 3, 10, 14),
        ),
        (
            PoolingOperation("pooling_max", (3, 3), (2, 2), (0, 0), (1, 1), (1, 1)),
            [(1, 4, 7, 8)],
            (1, 4, 4, 4),
        ),
        (InnerProductOperation(), [(2, 3, 4, 4), (5, 3, 4, 4), (5,)], (2, 5)),
        (MatmulOperation(), [(7, 1, 2, 3), (1, 5, 3, 4)], (7, 5, 2, 4)),
        (ADD, [(1, 4, 1), (3, 1, 5)], (3, 4, 5)),
        (ADD, [(0, 4), (1, 4)], (0, 4)),
        (ConcatOperation(1), [(2, 3), (2, 0), (2, 4)], (2, 7)),
        (ReductionOperation("reduction_sum", (0, 2)), [(2, 3, 4)], (1, 3, 1)),
        (ReshapeOperation(()), [(1, 1)], ()),
        (ReshapeOperation((0, 5)), [(3, 0)], (0, 5)),
        (TransposeOperation((1, 2, 0)), [(2, 3, 4)], (3, 4, 2)),
        (SliceOperation((1, 0), (2, 0), (3, 1)), [(5, 4)], (2, 0)),
        (PadOperation((1, 0), (0, 2)), [(2, 3)], (3, 5)),
    ],
)
def test_dims_follow_from_the_operation(
    operation: Operation, dims: list[tuple[int, ...]], wanted: tuple[int, ...]
) -> None:
    assert [each.dims for each in operation.results(tensors(*dims))] == [wanted]


@pytest.mark.parametrize(
    ("operation", "dims"),
    [
        (ConvolutionOperation((1, 1), (0, 0), (0, 0), (0, 0)), [(1, 3, 8, 8), (4, 5, 3, 3)]),
        (ConvolutionOperation((1, 1), (0, 0), (0, 0), (0, 0)), [(1, 3, 2, 2), (4, 3, 3, 3)]),
        (ConvolutionOperation((0, 1), (0, 0), (0, 0), (0, 0)), [(1, 3, 8, 8), (4, 3, 3, 3)]),
        (ConvolutionOperation((1, 1), (0, 0), (0,), (0, 0)), [(1, 3, 8, 8), (4, 3, 3, 3)]),
        (ConvolutionOperation((1, 1), (0, 0), (0, 0), (0, 0)), [(1, 3, 8, 8), (4, 3, 3, 3), (5,)]),
        (ConvolutionOperation((1, 1), (0, 0), (0, 0), (0, 0)), [(1, 3, 8, 8)]),
        (PoolingOperation("pooling_max", (3, 3), (2, 2), (0, 0), (0, 0), (0, 0)), [(1, 4, 2, 8)]),
        (MatmulOperation(), [(2, 3), (4, 5)]),
        (InnerProductOperation(), [(2, 3), (4, 5)]),
        (ADD, [(2, 3), (3,)]),
        (ADD, [(2, 3), (4, 3)]),
        (BatchNormalizationOperation(1e-5), [(1, 4, 2), (4,), (4,), (4,), (5,)]),
        (ConcatOperation(2), [(2, 3), (2, 3)]),
        (ConcatOperation(1), [(2, 3), (3, 3)]),
        (SoftmaxOperation("softmax_accurate", -1), [(2, 3)]),
        (ShuffleOperation(1, 2), [(2, 3)]),
        (ReshapeOperation((7,)), [(2, 3)]),
        (ReshapeOperation((-1, -6)), [(2, 3)]),
        (TransposeOperation((0, 0)), [(2, 3)]),
        (SliceOperation((1, 0), (2, 3), (1, 1)), [(2, 3)]),
        (SliceOperation((0, 0), (2, 3), (0, 1)), [(2, 3)]),
        (PadOperation((-1, 0), (0, 0)), [(2, 3)]),
    ],
)
def test_what_does_not_fit_is_refused(operation: Operation, dims: list[tuple[int, ...]]) -> None:
    with pytest.raises(rs.InvalidArguments, match="fit"):
        operation.results(tensors(*dims))


@pytest.mark.parametrize("kind", [DataType.f16, DataType.f64])
@pytest.mark.parametrize(
    ("operation", "count"), [(BatchNormalizationOperation(1e-5), 5), (LayerNormalizationOperation(1e-5), 3)]
)
def test_what_normalizes_is_f32(operation: Operation, count: int, kind: DataType) -> None:
    for place in range(1, count):
        types = [TensorType((4, 4), kind), *[TensorType((4,))] * (count - 1)]
        assert operation.results(types) == (types[0],)
        types[place] = TensorType((4,), kind)
        with pytest.raises(rs.InvalidArguments, match="fit"):
            operation.results(types)


# --- graphs -------------------------------------------------------------------------------------------------


def test_an_error_names_the_node() -> None:
    builder = GraphBuilder()
    x, y = builder.input("x", (2, 3)), builder.input("y", (4, 5))
    with pytest.raises(rs.InvalidArguments, match=r"node 'wrong' \(binary\)"):
        builder.add(ADD, x, y, name="wrong")


def _cycle() -> Graph:
    kind = TensorType((2,))
    nodes = (Node("a", ADD, ("x", "b"), ("a",)), Node("b", RELU, ("a",), ("b",)))
    return Graph(("x",), ("b",), dict.fromkeys("xab", kind), {}, nodes)


def _twice() -> Graph:
    nodes = (Node("a", RELU, ("x",), ("a",)), Node("b", RELU, ("x",), ("a",)))
    return Graph(("x",), ("a",), dict.fromkeys("xa", TensorType((2,))), {}, nodes)


def _other_type() -> Graph:
    types = {"x": TensorType((2,)), "a": TensorType((3,))}
    return Graph(("x",), ("a",), types, {}, (Node("a", RELU, ("x",), ("a",)),))


def _unknown_output() -> Graph:
    return Graph(("x",), ("z",), {"x": TensorType((2,))})


def _unknown_input() -> Graph:
    return Graph(("x",), (), {})


def _two_outputs() -> Graph:
    nodes = (Node("a", RELU, ("x",), ("a", "b")),)
    return Graph(("x",), ("a",), dict.fromkeys("xab", TensorType((2,))), {}, nodes)


def _wrong_constant() -> Graph:
    return Graph((), ("c",), {"c": TensorType((3,))}, {"c": Constant(np.zeros(2, np.float32))})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (_cycle, "node 'a'"),
        (_twice, "node 'b'.*twice"),
        (_other_type, "node 'a'.*wrong type"),
        (_unknown_output, "output"),
        (_unknown_input, "input"),
        (_two_outputs, "node 'a'"),
        (_wrong_constant, "constant"),
    ],
)
def test_graphs_that_do_not_hold_are_refused(make: Callable[[], Graph], said: str) -> None:
    with pytest.raises(rs.InvalidArguments, match=said):
        make()


def test_names_are_made_and_never_taken_twice() -> None:
    builder = GraphBuilder()
    x = builder.input("eltwise", (2,))
    assert [builder.add(RELU, x), builder.add(RELU, x)] == ["eltwise_2", "eltwise_3"]
    with pytest.raises(rs.InvalidArguments, match="eltwise_3"):
        builder.add(RELU, x, name="eltwise_3")


def test_what_no_output_needs_is_left_out() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (2,))
    unread = builder.constant(np.zeros(2, np.float32))
    builder.add(ADD, x, unread)
    y = builder.add(RELU, x)
    graph = builder.graph(y)
    assert [node.name for node in graph] == [y]
    assert not graph.constants
    assert set(graph.tensors) == {x, y}


def test_consumers_and_producers() -> None:
    graph = chain(3)
    first, second, last = graph.nodes
    assert graph.producer(first.output) == first
    assert graph.producer("x") is None
    assert graph.consumers(first.output) == (second,) == graph.readers()[first.output]
    assert graph.readers()[last.output] == ()


def test_a_tensor_read_twice_has_one_consumer() -> None:
    builder = GraphBuilder()
    x = builder.input("x", (2,))
    graph = builder.graph(builder.add(ADD, x, x))
    assert graph.consumers("x") == graph.readers()["x"] == graph.nodes


def test_operands_of_epilogues_are_the_last_inputs() -> None:
    epilogues = (Epilogue(ADD), Epilogue(RELU), Epilogue(BinaryOperation("binary_mul")))
    builder = GraphBuilder()
    x, y, z = (builder.input(name, (1, 4, 2, 2)) for name in "xyz")
    name = builder.add(RELU, x, y, z, epilogues=epilogues)
    node = builder.graph(name).nodes[0]
    assert (node.sources, node.operands) == (("x",), ("y", "z"))
    large = builder.input("large", (2, 4, 2, 2))
    with pytest.raises(rs.InvalidArguments, match="larger than the result"):
        builder.add(RELU, x, large, epilogues=epilogues[:1])


def test_graphs_of_equal_parts_are_equal_and_copies_too() -> None:
    def make(value: float) -> Graph:
        builder = GraphBuilder()
        x, w = builder.input("x", (2,)), builder.constant(np.full(2, value, np.float32))
        return builder.graph(builder.add(ADD, x, w))

    assert make(1.0) == make(1.0) == pickle.loads(pickle.dumps(make(1.0)))
    assert hash(make(1.0)) == hash(make(1.0))
    assert make(1.0) != make(2.0)


def test_constants_cannot_be_written() -> None:
    constant = Constant(np.zeros((2, 3), np.float32).T)
    assert constant.type == TensorType((3, 2))
    with pytest.raises(ValueError, match="read-only"):
        constant.values[0] = 1


def test_a_rewrite_gives_another_graph() -> None:
    graph = chain(2)
    first, second = graph.nodes
    fused = graph.replaced([replace(first, outputs=second.outputs, epilogues=(Epilogue(RELU),))])
    assert (
        str(fused).splitlines()[1] == "eltwise_2 = eltwise[eltwise_relu, 0.0, 0.0](x) + eltwise_relu: f32 2x4"
    )
    assert graph == chain(2)
    assert graph.renamed({first.output: "x"})[1].inputs == ("x",)


def test_long_chains_need_no_recursion() -> None:
    assert len(chain(3000).nodes) == 3000
