"""Formats of nodes: what a node may read and write, as its primitive has it; views are the same bytes."""

from itertools import product

import numpy as np
import pytest

import restride as rs
from restride.graph.formats.node_formats import VIEWS, format_problem, is_same_memory, view_of
from restride.graph.formats.propagation import propagate
from restride.graph.formats.step_cost import CostModel, order_of_channels
from restride.ops.product import kernel_block

ENGINE = rs.Engine("cpu")
BLOCKED = f"aBcd{kernel_block()}b"
RELU = rs.graph.EltwiseOperation("eltwise_relu")


def _window(kernel, stride=1, groups=1):
    return rs.graph.ConvolutionOperation(
        (stride,) * 2, (0, 0), (kernel // 2,) * 2, (kernel // 2,) * 2, groups
    )


def _pool(kernel, stride):
    pads = (kernel // 2,) * 2
    return rs.graph.PoolingOperation("pooling_max", (kernel,) * 2, (stride,) * 2, (0, 0), pads, pads)


def _zeros(builder, *dims):
    return builder.constant(np.zeros(dims, np.float32))


def _convolution(builder, x, outputs, kernel, stride=1):
    weights = _zeros(builder, outputs, builder.type(x).dims[1], kernel, kernel)
    return builder.add(_window(kernel, stride), x, weights, _zeros(builder, outputs))


def _every_kind():
    """A graph with a node of each kind of operation."""
    b = rs.graph.GraphBuilder()
    x = b.input("x", (2, 24, 12, 12))
    y = b.add(RELU, _convolution(b, x, 32, 3))
    y = b.add(_window(1, groups=4), y, _zeros(b, 4, 8, 8, 1, 1))
    y = b.add(rs.graph.DeconvolutionOperation((1, 1), (0, 0), (0, 0), (0, 0)), y, _zeros(b, 40, 32, 1, 1))
    y = b.add(rs.graph.BatchNormalizationOperation(1e-5), y, *(_zeros(b, 40) for _ in range(4)))
    y = b.add(
        rs.graph.ShuffleOperation(1, 4),
        b.add(rs.graph.LrnOperation("lrn_across_channels", 5, 1e-4, 0.75, 1.0), y),
    )
    z = b.add(rs.graph.PReluOperation(), y, _zeros(b, 1, 40, 1, 1))
    z = b.add(rs.graph.BinaryOperation("binary_mul"), z, b.input("w", (2, 40, 1, 1)))
    y = b.add(rs.graph.SumOperation((1.0, 2.0)), y, z)
    y = b.add(
        rs.graph.ConcatOperation(1),
        y,
        b.add(rs.graph.SliceOperation((0, 8, 0, 0), (2, 16, 12, 12), (1,) * 4), y),
    )
    y = b.add(_pool(3, 2), b.add(rs.graph.PadOperation((0,) * 4, (0, 0, 1, 1)), y))
    y = b.add(rs.graph.ResamplingOperation("resampling_nearest", (8, 8)), y)
    y = b.add(rs.graph.SliceOperation((0,) * 4, (2, 56, 4, 4), (1, 1, 2, 2)), y)
    y = b.add(rs.graph.ReductionOperation("reduction_mean", (2,)), y)
    y = b.add(rs.graph.ReshapeOperation((2, 4, 56)), b.add(rs.graph.TransposeOperation((0, 3, 2, 1)), y))
    y = b.add(rs.graph.LayerNormalizationOperation(1e-5), y, _zeros(b, 56), _zeros(b, 56))
    y = b.add(rs.graph.MatmulOperation(), y, b.add(rs.graph.TransposeOperation((0, 2, 1)), y))
    y = b.add(
        rs.graph.InnerProductOperation(), b.add(rs.graph.ReshapeOperation((2, 16)), y), _zeros(b, 10, 16)
    )
    return b.graph(b.add(rs.graph.SoftmaxOperation("softmax_accurate", 1), y))


def test_every_alternative_has_the_dims_and_types_of_its_tensors():
    graph = _every_kind()
    problem = format_problem(graph)
    assert [step.name for step in problem.steps] == [node.name for node in graph.nodes]
    for step, node in zip(problem.steps, graph.nodes, strict=True):
        assert (step.inputs, step.outputs) == (node.inputs, node.outputs)
        assert len(set(step.alternatives)) == len(step.alternatives)
        for way in step.alternatives:
            names = [*zip(node.inputs, way.inputs, strict=True), *zip(node.outputs, way.outputs, strict=True)]
            for name, md in names:
                assert (md.dims, md.data_type) == (graph.tensors[name].dims, graph.tensors[name].data_type)
                assert md.format_kind == "blocked"


@pytest.mark.parametrize("rule", ["plain", "greedy", "optimal"])
def test_every_rule_finds_formats_for_every_kind_of_node(rule):
    graph = _every_kind()
    found = propagate(format_problem(graph), rule)
    assert all(each.cost.seconds > 0 for each in found.reorders if not each.is_constant)
    if rule == "plain":
        moved = {each.tensor for each in found.reorders if not each.is_constant}
        assert moved <= {node.output for node in graph.nodes if isinstance(node.operation, VIEWS)}


def test_the_eager_rule_gives_what_primitives_give_with_any():
    # Primitives that are made one after the other, each for what the last one writes, are the oracle.
    b = rs.graph.GraphBuilder()
    conv = _convolution(b, b.input("x", (1, 3, 16, 16)), 64, 3)
    relu = b.add(RELU, conv)
    pool = b.add(_pool(3, 2), relu)
    mixed = b.add(rs.graph.ShuffleOperation(1, 4), pool)
    graph = b.graph(mixed)
    found = propagate(format_problem(graph), "greedy").formats

    def anything(name):
        return rs.MemoryDesc(graph.tensors[name].dims, "f32", "any")

    ones, zeros = [1, 1], [0, 0]
    weights, bias = rs.MemoryDesc((64, 3, 3, 3), "f32", "any"), rs.MemoryDesc((64,), "f32", "a")
    kind = "forward_inference"
    first = rs.ConvolutionForward.PrimitiveDesc(
        ENGINE,
        kind,
        "convolution_direct",
        anything("x"),
        weights,
        bias,
        anything(conv),
        ones,
        zeros,
        ones,
        ones,
    )
    second = rs.EltwiseForward.PrimitiveDesc(
        ENGINE, kind, "eltwise_relu", first.dst_desc(), anything(relu), 0.0, 0.0
    )
    third = rs.PoolingForward.PrimitiveDesc(
        ENGINE, kind, "pooling_max", second.dst_desc(), anything(pool), [2, 2], [3, 3], zeros, ones, ones
    )
    fourth = rs.ShuffleForward.PrimitiveDesc(ENGINE, kind, third.dst_desc(), anything(mixed), 1, 16)
    made = [each.dst_desc() for each in (first, second, third, fourth)]
    assert [found[name] for name in (conv, relu, pool, mixed)] == made
    step = format_problem(graph).steps[0].alternatives[0]
    assert step.inputs[:2] == (first.src_desc(), first.weights_desc())


def test_a_chain_of_convolutions_keeps_one_format():
    b = rs.graph.GraphBuilder()
    y = b.input("x", (1, 64, 28, 28))
    for _ in range(4):
        y = b.add(RELU, _convolution(b, y, 64, 3))
    problem = format_problem(b.graph(y))
    for rule in ("greedy", "optimal"):
        found = propagate(problem, rule)
        assert len([each for each in found.reorders if not each.is_constant]) <= 2
    assert propagate(problem).seconds <= propagate(problem, "plain").seconds


def _gradient(builder, primitive, *inputs, **parameters):
    operation = rs.graph.PrimitiveOperation(primitive, tuple(parameters.items()))
    return builder.add_all(operation, *inputs)


def test_a_step_of_training_reorders_nothing_between_forward_and_backward():
    b, dims, channels = rs.graph.GraphBuilder(), (4, 64, 28, 28), (64,)
    window = dict.fromkeys(("strides", "padding_l", "padding_r"), (1, 1)) | {"dilates": (0, 0)}
    x, change = b.input("x", dims), b.input("change", dims)
    first, second = (b.input(name, (64, 64, 3, 3)) for name in ("first", "second"))
    scale, shift = b.input("scale", channels), b.input("shift", channels)
    y = b.add(_window(3), x, first)
    training = {"epsilon": 1e-5, "prop_kind": "forward_training"}
    normal, mean, variance = _gradient(b, "BatchNormalizationForward", y, scale, shift, **training)
    above = b.add(RELU, normal)
    z = b.add(_window(3), above, second)
    (of_second,) = _gradient(b, "ConvolutionBackwardWeights", above, change, dims=(64, 64, 3, 3), **window)
    (g,) = _gradient(b, "ConvolutionBackwardData", change, second, dims=dims, **window)
    (g,) = _gradient(b, "EltwiseBackward", g, above, algorithm="eltwise_relu", alpha=0.0, beta=0.0)
    read = g, y, mean, variance, scale
    g, of_scale, of_shift = _gradient(b, "BatchNormalizationBackward", *read, epsilon=1e-5)
    (of_first,) = _gradient(b, "ConvolutionBackwardWeights", x, g, dims=(64, 64, 3, 3), **window)
    (of_x,) = _gradient(b, "ConvolutionBackwardData", g, first, dims=dims, **window)
    graph = b.graph(z, of_second, of_scale, of_shift, of_first, of_x)
    found = propagate(format_problem(graph), "optimal")
    moved = {each.tensor for each in found.reorders}
    assert not moved & {y, normal, above}
    assert order_of_channels(found.formats[y]) == order_of_channels(found.formats[g]) != "last"


def test_inputs_and_outputs_have_the_formats_that_are_named():
    b = rs.graph.GraphBuilder()
    y = b.add(RELU, b.input("x", (1, 32, 8, 8)))
    last = rs.MemoryDesc((1, 32, 8, 8), "f32", "nhwc")
    found = propagate(format_problem(b.graph(y), {"x": last, y: last}))
    assert (found.reorders, found.formats[y]) == ((), last)


@pytest.mark.parametrize("tag", ["abcd", "acdb", BLOCKED])
@pytest.mark.parametrize(
    "operation",
    [
        rs.graph.TransposeOperation((0, 2, 3, 1)),
        rs.graph.TransposeOperation((3, 1, 0, 2)),
        rs.graph.ReshapeOperation((2, 4, 8, 12)),
        rs.graph.ReshapeOperation((64, 3, 4)),
        rs.graph.SliceOperation((1, 16, 1, 0), (1, 16, 2, 4), (1, 1, 1, 1)),
        rs.graph.SliceOperation((0, 3, 0, 0), (2, 4, 3, 4), (1, 1, 1, 1)),
        rs.graph.SliceOperation((0, 0, 0, 0), (2, 16, 3, 4), (1, 2, 1, 1)),
    ],
)
def test_a_view_has_its_elements_where_the_source_has_them(tag, operation):
    source = rs.MemoryDesc((2, 32, 3, 4), "f32", tag)
    kind = rs.graph.TensorType(source.dims, source.data_type)
    result = operation.result(kind)
    view = view_of(operation, source, result)
    if view is None:
        assert tag != "abcd"
        return
    # NumPy says which element of the source stands where in the result.
    places = np.array([source.offset(*index) for index in np.ndindex(source.dims)]).reshape(source.dims)
    if isinstance(operation, rs.graph.TransposeOperation):
        places = places.transpose(operation.order)
    elif isinstance(operation, rs.graph.ReshapeOperation):
        places = places.reshape(operation.dims)
    else:
        spans = zip(operation.starts, operation.sizes, operation.steps, strict=True)
        places = places[tuple(slice(a, a + (n - 1) * step + 1, step) for a, n, step in spans)]
    assert view.dims == places.shape == result.dims
    assert all(view.offset(*index) == places[index] for index in np.ndindex(places.shape))


def test_tensors_without_elements_have_formats():
    b = rs.graph.GraphBuilder()
    y = b.add(RELU, b.input("x", (0, 32, 8, 8)))
    y = b.add(rs.graph.ReshapeOperation((0, 2048)), b.add(rs.graph.TransposeOperation((0, 2, 3, 1)), y))
    found = propagate(format_problem(b.graph(y)))
    assert found.formats[y].dims == (0, 2048)


def test_costs_grow_with_the_work_and_prefer_the_formats_of_kernels():
    costs = CostModel()
    small, large = (rs.MemoryDesc((1, 64, n, n), "f32", BLOCKED) for n in (14, 28))
    weights = rs.MemoryDesc((64, 64, 3, 3), "f32")
    terms = 14 * 14 * 64 * 64 * 9
    assert costs.convolution(terms, 1, small, weights, small) < costs.convolution(
        4 * terms, 1, large, weights, large
    )
    plain = rs.MemoryDesc((1, 64, 14, 14), "f32")
    ways = {
        pair: costs.convolution(terms, 1, *pair[:1], weights, *pair[1:])
        for pair in product((plain, small), repeat=2)
    }
    assert min(ways, key=ways.__getitem__) == (small, small)
    for kind in ("pooling", "eltwise", "concat", "softmax"):
        assert costs.moving(kind, [small], [small]) < costs.moving(kind, [large], [large])


@pytest.mark.parametrize(
    ("dims", "first", "second", "is_same"),
    [
        ((1, 32, 1, 1), "abcd", "aBcd16b", True),
        ((1, 32, 1, 1), "acdb", "aBcd16b", True),
        ((3, 16, 1, 1), "abcd", "aBcd16b", True),
        ((1, 24, 1, 1), "abcd", "aBcd16b", False),
        ((1, 32, 2, 1), "abcd", "aBcd16b", False),
        ((1, 1, 5, 5), "abcd", "acdb", True),
        ((2, 16, 3, 1), "acdb", "aBcd16b", True),
    ],
)
def test_formats_that_have_all_elements_in_one_place_are_the_same_memory(dims, first, second, is_same):
    mds = [rs.MemoryDesc(dims, "f32", tag) for tag in (first, second)]
    places = [[md.offset(*index) for index in np.ndindex(dims)] for md in mds]
    assert is_same == (places[0] == places[1] and mds[0].size == mds[1].size)
    assert is_same_memory(*mds) == is_same_memory(*mds[::-1]) == is_same


def test_nothing_is_reordered_between_two_descriptors_of_one_memory():
    b = rs.graph.GraphBuilder()
    y = b.add(rs.graph.ReductionOperation("reduction_mean", (2, 3)), b.input("x", (1, 32, 8, 8)))
    for _ in range(2):
        y = b.add(_window(1), y, _zeros(b, 32, 32, 1, 1))
    for rule in ("plain", "greedy", "optimal"):
        found = propagate(format_problem(b.graph(y)), rule)
        assert not [each for each in found.reorders if not each.is_constant]
    x = np.random.default_rng(0).standard_normal((1, 32, 8, 8)).astype(np.float32)
    assert not rs.Network(b.graph(y), rule="greedy")(x).any()
    assert rs.Network(b.graph(y), rule="greedy").plan().reorders == 0


def test_the_order_of_channels_is_read_off_the_descriptor():
    tags = {"abcd": "plain", "acdb": "last", BLOCKED: "blocked"}
    assert {tag: order_of_channels(rs.MemoryDesc((1, 32, 4, 4), "f32", tag)) for tag in tags} == tags
    assert order_of_channels(rs.MemoryDesc((1, 32, 1, 1), "f32", "acdb")) == "plain"
