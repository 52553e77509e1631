"""Fusions: the graph after is the graph before, computed in NumPy; each does what it says, and can be off."""

from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.graph.nodes.operations import PrimitiveOperation
from restride.graph.rewrites.fusions import FUSIONS, fuse
from restride.graph.rewrites.moves import Permutation
from support.graph_values import graph_values, random_inputs

RELU = rs.graph.EltwiseOperation("eltwise_relu")
ADD = rs.graph.BinaryOperation("binary_add")
MUL = rs.graph.BinaryOperation("binary_mul")


class Network:
    """A graph that is being built, with random constants."""

    def __init__(self, *dims):
        self.builder = rs.graph.GraphBuilder()
        self.rng = np.random.default_rng(len(dims))
        self.x = self.builder.input("x", dims or (2, 8, 6, 6))

    def constant(self, *dims, values=None):
        values = self.rng.normal(size=dims) if values is None else values
        return self.builder.constant(np.asarray(values, np.float32))

    def add(self, operation, *inputs, name=""):
        return self.builder.add(operation, *inputs, name=name)

    def dims(self, name):
        return self.builder.type(name).dims

    def eltwise(self, algorithm, x, alpha=0.0, beta=0.0):
        return self.add(rs.graph.EltwiseOperation(f"eltwise_{algorithm}", alpha, beta), x)

    def scalar(self, algorithm, x, value, is_left=True):
        sides = (x, self.constant(values=np.full([1] * len(self.dims(x)), value)))
        return self.add(rs.graph.BinaryOperation(f"binary_{algorithm}"), *(sides if is_left else sides[::-1]))

    def convolution(self, x, outputs, kernel=3, groups=1, has_bias=True, stride=1, pad=1):
        window = rs.graph.ConvolutionOperation((stride,) * 2, (0, 0), (pad,) * 2, (pad,) * 2, groups)
        weights = self.weights(outputs, self.dims(x)[1], kernel, groups)
        return self.add(window, x, weights, *[self.constant(outputs)] * has_bias)

    def weights(self, outputs, inputs, kernel, groups=1):
        each = (outputs // groups, inputs // groups, kernel, kernel)
        return self.constant(*each) if groups == 1 else self.constant(groups, *each)

    def batch_norm(self, x):
        n = self.dims(x)[1]
        variance = self.constant(values=self.rng.uniform(0.5, 2.0, n))
        others = self.constant(n), self.constant(n), self.constant(n), variance
        return self.add(rs.graph.BatchNormalizationOperation(1e-5), x, *others)

    def graph(self, *outputs):
        return self.builder.graph(*outputs)


def _checked(graph, without=()):
    """The fused graph, after its outputs have been compared."""
    found = fuse(graph, without)
    inputs = random_inputs(graph)
    before, after = graph_values(graph, inputs), graph_values(found.graph, inputs)
    assert found.graph.outputs == graph.outputs
    for name in graph.outputs:
        assert found.graph.tensors[name] == graph.tensors[name]
        np.testing.assert_allclose(after[name], before[name], rtol=1e-5, atol=1e-5)
    return found


def _kinds(found):
    return [node.kind for node in found.graph.nodes]


def _by(found, name):
    return [each for each in found.applied if each.fusion == name]


# --- weights ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 2, 8])
@pytest.mark.parametrize("has_bias", [True, False])
def test_a_batch_norm_goes_into_the_convolution_before_it(groups, has_bias):
    net = Network()
    found = _checked(net.graph(net.batch_norm(net.convolution(net.x, 16, groups=groups, has_bias=has_bias))))
    assert _kinds(found) == ["convolution"]
    assert str(_by(found, "batch_norm")[0]) == "batch_norm: batch_normalization into convolution"


def test_a_batch_norm_goes_into_weights_of_halves_which_become_f32():
    net = Network(2, 3, 4, 4)
    x = net.builder.input("halves", (2, 3, 4, 4), "f16")
    weights = net.builder.constant(net.rng.normal(size=(5, 3, 1, 1)).astype(np.float16))
    window = rs.graph.ConvolutionOperation((1, 1), (0, 0), (0, 0), (0, 0))
    graph = net.graph(net.batch_norm(net.add(window, x, weights)))
    found = fuse(graph)
    assert _kinds(found) == ["convolution"]
    assert {str(each.type.data_type) for each in found.graph.constants.values()} == {"f32"}
    values = net.rng.normal(size=(2, 3, 4, 4)).astype(np.float16)
    inputs = {"x": values.astype(np.float32), "halves": values}
    made = [rs.Network(graph, without=off)(inputs) for off in ((), rs.graph.FUSIONS)]
    assert made[0].dtype == np.float16
    np.testing.assert_allclose(*made, rtol=4e-3, atol=4e-3)


def test_a_batch_norm_goes_into_a_deconvolution_and_an_inner_product():
    net = Network()
    up = rs.graph.DeconvolutionOperation((2, 2), (0, 0), (1, 1), (0, 1))
    y = net.batch_norm(net.add(up, net.x, net.weights(4, 8, 3)))
    z = net.add(rs.graph.InnerProductOperation(), net.x, net.constant(5, 8, 6, 6))
    found = _checked(net.graph(y, net.batch_norm(z)))
    assert sorted(_kinds(found)) == ["deconvolution", "inner_product"]


def test_a_batch_norm_stays_where_others_read_what_it_reads():
    net = Network()
    y = net.convolution(net.x, 8)
    found = _checked(net.graph(net.add(ADD, net.batch_norm(y), net.eltwise("tanh", y))))
    assert "batch_normalization" in _kinds(found)
    net = Network()
    y = net.convolution(net.x, 8)
    assert "batch_normalization" in _kinds(_checked(net.graph(net.batch_norm(y), y)))


def test_a_scale_and_a_shift_for_each_channel_go_into_weights_and_bias():
    net = Network()
    y = net.convolution(net.x, 16, groups=2, has_bias=False)
    y = net.add(ADD, net.add(MUL, y, net.constant(1, 16, 1, 1)), net.constant(1, 16, 1, 1))
    found = _checked(net.graph(y))
    assert _kinds(found) == ["convolution"]
    assert [each.fusion for each in found.applied] == ["scale", "bias"]
    assert len(found.graph.nodes[0].sources) == 3


def test_a_scale_and_a_shift_go_into_a_batch_norm_that_stays():
    net = Network()
    y = net.add(ADD, net.add(MUL, net.batch_norm(net.x), net.constant(1, 8, 1, 1)), net.constant(1, 8, 1, 1))
    found = _checked(net.graph(net.scalar("mul", net.add(RELU, net.scalar("add", y, 2.0)), 3.0)))
    assert _kinds(found) == ["batch_normalization"]
    assert len(found.graph.nodes[0].epilogues) == 2


def test_a_scale_of_the_width_stays():
    net = Network()
    found = _checked(net.graph(net.add(MUL, net.convolution(net.x, 8), net.constant(1, 1, 1, 6))))
    assert not _by(found, "scale")


def test_a_row_that_is_added_to_a_product_of_matrices_becomes_its_bias():
    net = Network(2, 3, 4)
    y = net.add(rs.graph.MatmulOperation(), net.x, net.constant(1, 4, 5))
    found = _checked(net.graph(net.add(ADD, net.constant(1, 1, 5), net.scalar("mul", y, 0.5))))
    assert _kinds(found) == ["matmul"]
    assert found.graph.nodes[0].epilogues == ()
    column = net.add(ADD, y, net.constant(1, 3, 1))
    assert not _by(_checked(net.graph(column)), "bias")


def test_weights_that_two_convolutions_share_keep_their_values():
    net = Network()
    weights, window = net.weights(8, 8, 1), rs.graph.ConvolutionOperation((1, 1), (0, 0), (0, 0), (0, 0))
    y = net.batch_norm(net.add(window, net.x, weights))
    found = _checked(net.graph(net.add(window, y, weights)))
    assert _kinds(found) == ["convolution", "convolution"]


# --- epilogues ----------------------------------------------------------------------------------------------


def test_a_residual_block_becomes_its_convolutions():
    net = Network()
    y = net.add(RELU, net.batch_norm(net.convolution(net.x, 8)))
    y = net.batch_norm(net.convolution(y, 8))
    found = _checked(
        net.graph(net.add(RELU, net.add(ADD, y, net.batch_norm(net.convolution(net.x, 8, 1, pad=0)))))
    )
    assert _kinds(found) == ["convolution"] * 3
    assert [len(node.epilogues) for node in found.graph.nodes] == [1, 0, 2]


@pytest.mark.parametrize("algorithm", ["add", "mul", "max", "min", "sub", "div"])
@pytest.mark.parametrize("is_left", [True, False])
def test_combinations_go_into_the_node_before_them_from_both_sides(algorithm, is_left):
    net = Network()
    y = net.convolution(net.x, 8)
    other = net.builder.input("w", (1, 8, 6, 1))
    sides = (y, other) if is_left else (other, y)
    found = _checked(net.graph(net.add(rs.graph.BinaryOperation(f"binary_{algorithm}"), *sides)))
    goes = is_left or algorithm != "div"
    assert len(found.graph.nodes) == (1 if goes else 2)


def test_a_sum_of_many_goes_into_the_last_of_what_it_sums():
    net = Network()
    parts = [net.convolution(net.x, 8) for _ in range(3)]
    found = _checked(net.graph(net.add(rs.graph.SumOperation((1.0,) * 4), *parts, net.x)))
    assert _kinds(found) == ["convolution"] * 3
    assert found.graph.nodes[2].operands == (*parts[:2], "x")
    scaled = net.add(rs.graph.SumOperation((1.0, 2.0)), *parts[:2])
    assert "sum" in _kinds(_checked(net.graph(scaled)))


def test_what_is_read_twice_or_given_away_gets_no_epilogue():
    net = Network()
    y = net.convolution(net.x, 8)
    assert _kinds(_checked(net.graph(net.add(RELU, y), y))) == ["convolution", "eltwise"]
    assert _kinds(_checked(net.graph(net.add(ADD, y, y)))) == ["convolution", "binary"]


def test_a_result_that_is_repeated_to_a_larger_one_gets_no_epilogue():
    net = Network()
    small = net.add(rs.graph.ReductionOperation("reduction_mean", (2, 3)), net.convolution(net.x, 8))
    found = _checked(net.graph(net.add(MUL, net.x, small)))
    assert _kinds(found)[-1] == "binary"


@pytest.mark.parametrize("kind", ["pooling", "batch_normalization", "binary", "softmax"])
def test_other_nodes_have_epilogues_too(kind):
    net = Network()
    window = rs.graph.PoolingOperation("pooling_max", (2, 2), (2, 2), (0, 0), (0, 0), (0, 0))
    made = {
        "pooling": lambda: net.add(window, net.x),
        "batch_normalization": lambda: net.batch_norm(net.x),
        "binary": lambda: net.add(MUL, net.x, net.builder.input("w", (2, 8, 6, 6))),
        "softmax": lambda: net.add(rs.graph.SoftmaxOperation("softmax_accurate", 1), net.x),
    }[kind]()
    assert _kinds(_checked(net.graph(net.eltwise("tanh", made)))) == [kind]


# --- functions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "value"), [("add", 2.0), ("sub", 0.5), ("mul", 3.0), ("div", 4.0), ("max", 0.0)]
)
@pytest.mark.parametrize("is_left", [True, False])
def test_arithmetic_with_a_number_is_a_function(algorithm, value, is_left):
    net = Network()
    found = _checked(net.graph(net.scalar(algorithm, net.x, value, is_left)))
    assert _kinds(found) == ["eltwise"]


def test_a_chain_of_linear_functions_is_one_or_none():
    net = Network()
    y = net.scalar("add", net.scalar("mul", net.scalar("sub", net.x, 1.5), 3.0), 4.0)
    found = _checked(net.graph(y))
    assert [node.operation for node in found.graph.nodes] == [
        rs.graph.EltwiseOperation("eltwise_linear", 3.0, -0.5)
    ]
    nothing = net.eltwise("tanh", net.scalar("div", net.scalar("mul", net.x, 6.0), 6.0))
    assert [node.operation.algorithm for node in _checked(net.graph(nothing)).graph.nodes] == ["eltwise_tanh"]


def _paddle(net, x):
    return net.scalar("div", net.add(MUL, x, net.eltwise("clip", net.scalar("add", x, 3.0), 0.0, 6.0)), 6.0)


def _gate(net, x):
    return net.add(MUL, net.eltwise("clip", net.scalar("div", net.scalar("add", x, 3.0), 6.0), 0.0, 1.0), x)


@pytest.mark.parametrize(
    ("written", "function"),
    [
        (lambda net, x: net.add(MUL, x, net.eltwise("hardsigmoid", x, 0.2, 0.5)), "hardswish"),
        (lambda net, x: net.add(MUL, net.eltwise("logistic", x), x), "swish"),
        (lambda net, x: net.add(MUL, x, net.eltwise("logistic", net.scalar("mul", x, 1.7))), "swish"),
        (lambda net, x: net.add(MUL, x, net.eltwise("tanh", net.eltwise("soft_relu", x, 1.0))), "mish"),
        (
            lambda net, x: net.scalar("div", net.eltwise("clip", net.scalar("add", x, 3.0), 0.0, 6.0), 6.0),
            "hardsigmoid",
        ),
        (_paddle, "hardswish"),
        (_gate, "hardswish"),
    ],
)
def test_functions_that_are_written_as_several_nodes_are_one(written, function):
    net = Network()
    found = _checked(net.graph(written(net, net.x)))
    (node,) = found.graph.nodes
    assert (node.operation.algorithm, node.epilogues) == (f"eltwise_{function}", ())
    after = Network()
    made = _checked(after.graph(written(after, after.convolution(after.x, 8)))).graph.nodes
    assert [node.kind for node in made] == ["convolution"]


def test_a_gate_that_others_read_stays():
    net = Network()
    gate = net.eltwise("logistic", net.x)
    assert "binary" in str(fuse(net.graph(net.add(MUL, net.x, gate), gate)).graph)


def test_a_gate_of_another_tensor_stays():
    net = Network()
    found = _checked(
        net.graph(net.add(MUL, net.x, net.eltwise("logistic", net.builder.input("w", (2, 8, 6, 6)))))
    )
    assert not _by(found, "functions")


# --- layer norm and reshaped products -----------------------------------------------------------------------


def _mean(net, x):
    return net.add(rs.graph.ReductionOperation("reduction_mean", (len(net.dims(x)) - 1,)), x)


def _layer_norm(net, x, square, has_scale=True, has_shift=True):
    difference = net.add(rs.graph.BinaryOperation("binary_sub"), x, _mean(net, x))
    variance = net.scalar("add", _mean(net, square(net, difference)), 1e-3)
    y = net.add(rs.graph.BinaryOperation("binary_div"), difference, net.eltwise("sqrt", variance))
    y = net.add(MUL, net.constant(1, 1, 5), y) if has_scale else y
    return net.add(ADD, y, net.constant(1, 1, 5)) if has_shift else y


@pytest.mark.parametrize("has_scale", [True, False])
@pytest.mark.parametrize("has_shift", [True, False])
@pytest.mark.parametrize(
    "square",
    [
        lambda net, x: net.eltwise("square", x),
        lambda net, x: net.eltwise("pow", x, 1.0, 2.0),
        lambda net, x: net.add(MUL, x, x),
    ],
)
def test_a_layer_norm_is_found_in_its_formula(square, has_scale, has_shift):
    net = Network(2, 3, 5)
    found = _checked(net.graph(net.eltwise("tanh", _layer_norm(net, net.x, square, has_scale, has_shift))))
    assert _kinds(found) == ["layer_normalization"]
    assert found.graph.nodes[0].operation.epsilon == pytest.approx(1e-3)


def test_a_layer_norm_whose_parts_are_read_elsewhere_stays_a_formula():
    net = Network(2, 3, 5)
    y = _layer_norm(net, net.x, lambda net, x: net.eltwise("square", x))
    parts = [node.output for node in net.graph(y).nodes]
    for part in parts[:-3]:
        assert not _by(_checked(net.graph(y, part)), "layer_norm"), part


def test_a_mean_over_another_dim_is_no_layer_norm():
    net = Network(2, 5, 5)
    mean = rs.graph.ReductionOperation("reduction_mean", (1,))
    difference = net.add(rs.graph.BinaryOperation("binary_sub"), net.x, net.add(mean, net.x))
    variance = net.scalar("add", net.add(mean, net.eltwise("square", difference)), 1e-3)
    y = net.add(rs.graph.BinaryOperation("binary_div"), difference, net.eltwise("sqrt", variance))
    assert not _by(_checked(net.graph(y)), "layer_norm")


def _product(net, x):
    flat = net.add(rs.graph.ReshapeOperation((6, 4)), x)
    y = net.add(rs.graph.MatmulOperation(), flat, net.constant(4, 5))
    return net.add(rs.graph.ReshapeOperation((2, 3, 5)), y)


def test_rows_and_functions_go_into_a_product_that_is_reshaped():
    net = Network(2, 3, 4)
    y = net.add(ADD, net.constant(1, 1, 5), _product(net, net.x))
    found = _checked(net.graph(net.add(MUL, y, net.eltwise("logistic", y))))
    assert _kinds(found) == ["reshape", "matmul", "reshape"]
    (matmul,) = (node for node in found.graph.nodes if node.kind == "matmul")
    assert (len(matmul.sources), len(matmul.epilogues)) == (3, 1)


def test_two_products_that_are_reshaped_alike_are_added_in_front_of_it():
    net = Network(2, 3, 4)
    found = _checked(net.graph(net.add(ADD, _product(net, net.x), _product(net, net.x))))
    assert _kinds(found).count("matmul") == 2
    assert "binary" not in _kinds(found)


def test_a_column_is_not_brought_in_front_of_a_reshape():
    net = Network(2, 3, 4)
    found = _checked(net.graph(net.add(ADD, net.constant(1, 3, 1), _product(net, net.x))))
    assert not _by(found, "lifts")
    net = Network(2, 3, 4)
    y = _product(net, net.x)
    assert not _by(_checked(net.graph(net.add(RELU, y), y)), "lifts")


# --- batches ------------------------------------------------------------------------------------------------


def _heads(net, x, joined):
    """Attention with 3 heads in 2 sequences; for each product batch dims are `joined`, as torch has it."""
    reshape, turn = rs.graph.ReshapeOperation, rs.graph.TransposeOperation

    def head(at):
        part = net.add(rs.graph.SliceOperation((at, 0, 0, 0, 0), (1, 2, 3, 7, 8), (1,) * 5), parts)
        return net.add(reshape((2, 3, 7, 8)), part)

    def product(left, right):
        dims = net.dims(left), net.dims(right)
        if joined:
            left, right = (
                net.add(reshape((6, *own[2:])), each) for each, own in zip((left, right), dims, strict=True)
            )
        y = net.add(rs.graph.MatmulOperation(), left, right)
        return net.add(reshape((*dims[0][:3], dims[1][3])), y) if joined else y

    parts = net.add(turn((2, 0, 3, 1, 4)), net.add(reshape((2, 7, 3, 3, 8)), x))
    q, k, v = map(head, range(3))
    scores = product(q, net.add(turn((0, 1, 3, 2)), k))
    y = product(net.add(rs.graph.SoftmaxOperation("softmax_accurate", 3), scores), v)
    return net.add(reshape((2, 7, 24)), net.add(turn((0, 2, 1, 3)), y))


def test_products_keep_batch_dims_that_were_joined_for_them():
    for joined in (True, False):
        net = Network(2, 7, 72)
        found = _checked(net.graph(_heads(net, net.x, joined)), without=["attention"])
        assert len(_by(found, "batches")) == 2 * joined
        products = [node.output for node in found.graph.nodes if node.kind == "matmul"]
        assert [found.graph.tensors[name].dims for name in products] == [(2, 3, 7, 7), (2, 3, 7, 8)]


def test_a_tensor_that_others_read_in_joined_dims_stays_so():
    net = Network(2, 3, 7, 8)
    joined = net.add(rs.graph.ReshapeOperation((6, 7, 8)), net.x)
    y = net.add(rs.graph.MatmulOperation(), joined, net.add(rs.graph.ReshapeOperation((6, 8, 7)), net.x))
    z = net.add(rs.graph.ReshapeOperation((2, 3, 7, 7)), y)
    found = _checked(net.graph(z, net.eltwise("relu", joined)))
    assert len(_by(found, "batches")) == 1
    net = Network(6, 7, 8)
    y = net.add(rs.graph.MatmulOperation(), net.x, net.add(rs.graph.ReshapeOperation((6, 8, 7)), net.x))
    assert not _by(_checked(net.graph(net.add(rs.graph.ReshapeOperation((2, 3, 7, 7)), y))), "batches")


def test_attention_between_heads_copies_nothing():
    """Heads are read where they lie, and written side by side."""
    net = Network(2, 7, 72)
    graph = net.graph(_heads(net, net.x, True))
    network = rs.Network(graph)
    assert network.plan().reorders == 0
    inputs = random_inputs(graph)
    wanted = graph_values(graph, inputs)[graph.outputs[0]]
    np.testing.assert_allclose(network(inputs["x"]), wanted, rtol=1e-5, atol=1e-5)


# --- moves --------------------------------------------------------------------------------------------------


def _turn(net, x, split, order, dims):
    y = net.add(rs.graph.TransposeOperation(order), net.add(rs.graph.ReshapeOperation(split), x))
    return net.add(rs.graph.ReshapeOperation(dims), y)


@pytest.mark.parametrize(
    ("split", "order", "shuffle"),
    [
        ((2, 4, 2, 6, 6), (0, 2, 1, 3, 4), (1, 4)),
        ((2, 2, 4, 36), (0, 2, 1, 3), (1, 2)),
        ((2, 8, 2, 3, 6), (0, 1, 3, 2, 4), (2, 2)),
        ((2, 8, 3, 2, 6, 1), (5, 0, 1, 3, 2, 4), (2, 3)),
    ],
)
def test_a_shuffle_is_found_in_reshapes_and_a_transpose(split, order, shuffle):
    net = Network()
    found = _checked(net.graph(_turn(net, net.x, split, order, (2, 8, 6, 6))))
    assert [node.operation for node in found.graph.nodes] == [rs.graph.ShuffleOperation(*shuffle)]


@pytest.mark.parametrize(
    ("split", "order", "dims"),
    [
        ((2, 4, 2, 36), (1, 0, 2, 3), (2, 8, 6, 6)),
        ((2, 4, 2, 36), (0, 2, 1, 3), (2, 8, 36)),
        ((16, 6, 6), (0, 2, 1), (2, 8, 6, 6)),
        ((2, 4, 2, 6, 6), (0, 2, 1, 4, 3), (2, 8, 6, 6)),
    ],
)
def test_other_turns_are_no_shuffle(split, order, dims):
    net = Network()
    assert "shuffle" not in _kinds(_checked(net.graph(_turn(net, net.x, split, order, dims))))


def test_moves_that_undo_each_other_go():
    net = Network()
    y = net.add(rs.graph.TransposeOperation((0, 2, 3, 1)), net.add(RELU, net.x))
    y = net.add(rs.graph.TransposeOperation((0, 3, 1, 2)), y)
    assert _kinds(_checked(net.graph(net.eltwise("tanh", y)))) == ["eltwise"]
    found = _checked(net.graph(y))
    assert found.graph.outputs == (y,)
    assert _kinds(found) == ["eltwise"]


def test_a_move_between_an_input_and_an_output_stays():
    net = Network()
    y = net.add(rs.graph.ReshapeOperation((2, 8, 6, 6)), net.x)
    assert _kinds(_checked(net.graph(y))) == ["reshape"]


def test_a_transpose_of_dims_of_1_is_a_reshape():
    net = Network(2, 1, 5, 1)
    y = net.add(rs.graph.ReshapeOperation((10,)), net.add(rs.graph.TransposeOperation((0, 2, 3, 1)), net.x))
    assert [str(node.operation) for node in _checked(net.graph(y)).graph.nodes] == [
        str(rs.graph.ReshapeOperation((10,)))
    ]


@given(
    st.lists(st.integers(1, 3), min_size=1, max_size=5).flatmap(
        lambda d: st.tuples(st.just(tuple(d)), st.permutations(range(len(d))))
    )
)
@settings(max_examples=60)
def test_the_shortest_permutation_moves_elements_as_the_long_one(case):
    dims, order = case
    found = Permutation.of(dims, tuple(order))
    wanted = np.arange(np.prod(dims)).reshape(dims).transpose(order).reshape(-1)
    made = np.arange(np.prod(dims)).reshape(found.dims).transpose(found.order).reshape(-1)
    assert (made == wanted).all()
    assert found.moves_nothing == bool((wanted == np.arange(wanted.size)).all())


@pytest.mark.parametrize(
    ("algorithm", "value", "goes"),
    [
        ("convolution", 0.0, True),
        ("convolution", 1.0, False),
        ("pooling_max", 0.0, False),
        ("pooling_max", -inf, True),
        ("pooling_avg_include_padding", 0.0, True),
        ("pooling_avg_exclude_padding", 0.0, False),
    ],
)
def test_pads_go_into_windows_that_would_see_the_same(algorithm, value, goes):
    net = Network()
    padded = net.add(rs.graph.PadOperation((0, 0, 1, 0), (0, 0, 2, 1), value), net.x)
    if algorithm == "convolution":
        y = net.convolution(padded, 8, stride=2)
    else:
        y = net.add(rs.graph.PoolingOperation(algorithm, (3, 3), (2, 2), (0, 0), (0, 0), (0, 0)), padded)
    assert bool(_by(_checked(net.graph(y)), "pads")) == goes


def test_a_pad_of_channels_stays():
    net = Network()
    padded = net.add(rs.graph.PadOperation((0, 1, 0, 0), (0, 0, 0, 0)), net.x)
    assert "pad" in _kinds(_checked(net.graph(net.convolution(padded, 4))))


# --- constants and all together -----------------------------------------------------------------------------


def test_nodes_of_constants_are_computed_once():
    net = Network()
    c = net.add(rs.graph.TransposeOperation((1, 0, 2, 3)), net.constant(8, 1, 6, 6))
    c = net.add(
        rs.graph.SliceOperation((0,) * 4, (1, 8, 3, 6), (1, 1, 2, 1)), net.eltwise("linear", c, 2.0, 1.0)
    )
    c = net.add(
        rs.graph.ConcatOperation(2),
        c,
        net.add(rs.graph.PadOperation((0,) * 4, (0, 0, 0, 1), 3.0), net.constant(1, 8, 3, 5)),
    )
    c = net.add(MUL, c, net.add(rs.graph.ReshapeOperation((1, 8, 1, 1)), net.constant(8)))
    found = _checked(net.graph(net.add(ADD, net.x, c)))
    assert _kinds(found) == ["binary"]
    assert len(_by(found, "constants")) == 7


def test_a_constant_output_stays_an_output():
    net = Network()
    y = net.add(rs.graph.ReshapeOperation((4,)), net.constant(2, 2))
    assert _checked(net.graph(y, net.add(RELU, net.x))).graph.outputs[0] == y


def test_what_no_output_needs_goes_and_is_told():
    net = Network()
    y = net.add(RELU, net.x)
    net.add(RELU, net.x, name="unused")
    parts = net.builder.graph(y)
    graph = rs.graph.Graph(
        parts.inputs, parts.outputs, {**parts.tensors, "unused": parts.tensors[y]}, {},
        (*parts.nodes, rs.graph.Node("unused", RELU, ("x",), ("unused",))),
    )  # fmt: skip
    found = fuse(graph)
    assert [str(each) for each in found.applied] == ["dead: unused"]
    assert len(found.graph.nodes) == 1


def _rolled(net, x, axis, shift):
    """The tensor whose first `shift` positions along an axis come last, as torch.roll is exported."""
    dims = net.dims(x)
    parts = []
    for start, size in ((shift, dims[axis] - shift), (0, shift)):
        starts, sizes = [0] * len(dims), list(dims)
        starts[axis], sizes[axis] = start, size
        move = rs.graph.SliceOperation(tuple(starts), tuple(sizes), (1,) * len(dims))
        parts.append(net.add(move, x))
    return net.add(rs.graph.ConcatOperation(axis), *parts)


def _windows(net, x, size):
    n, h, w, c = net.dims(x)
    split = (n, h // size, size, w // size, size, c)
    return _turn(net, x, split, (0, 1, 3, 2, 4, 5), (n * h * w // size**2, size**2, c))


def test_a_roll_along_two_axes_and_its_windows_are_one_gather_of_rows():
    net = Network(2, 6, 9, 16)
    x = net.add(RELU, net.x)
    y = _windows(net, _rolled(net, _rolled(net, x, 1, 2), 2, 4), 3)
    found = _checked(net.graph(net.add(RELU, y)))
    kinds = [kind for kind in _kinds(found) if kind != "reshape"]
    assert kinds == ["eltwise", "gather", "eltwise"]
    assert len(_by(found, "gathers")) == 1


def test_every_second_pixel_side_by_side_is_one_gather_of_rows():
    net = Network(1, 6, 8, 32)
    parts = [
        net.add(rs.graph.SliceOperation((0, i, j, 0), (1, 3, 4, 32), (1, 2, 2, 1)), net.x)
        for j in range(2)
        for i in range(2)
    ]
    found = _checked(net.graph(net.add(RELU, net.add(rs.graph.ConcatOperation(3), *parts))))
    assert [kind for kind in _kinds(found) if kind != "reshape"] == ["gather", "eltwise"]


@pytest.mark.parametrize(
    ("dims", "axis", "why"),
    [
        ((2, 6, 8, 8), 1, "rows are short"),
        ((2, 6, 8, 32), 3, "rows are cut"),
    ],
)
def test_what_does_not_move_whole_long_rows_stays(dims, axis, why):
    net = Network(*dims)
    found = _checked(net.graph(net.add(RELU, _rolled(net, net.x, axis, 2))))
    assert "gather" not in _kinds(found), why


def test_parts_of_several_tensors_stay_a_concat():
    net = Network(2, 6, 8, 32)
    other = net.add(RELU, net.x)
    found = _checked(net.graph(net.add(rs.graph.ConcatOperation(1), net.x, other)))
    assert _kinds(found) == ["eltwise", "concat"]


def test_a_gather_that_an_output_is_part_of_leaves_the_output():
    net = Network(1, 6, 6, 16)
    rolled = _rolled(net, net.x, 1, 2)
    found = _checked(net.graph(rolled, net.add(RELU, _rolled(net, rolled, 2, 1))))
    assert _kinds(found).count("gather") == 2


def test_pads_and_slices_that_change_nothing_go():
    net = Network(2, 3, 4, 5)
    y = net.add(rs.graph.PadOperation((0,) * 4, (0,) * 4), net.x)
    y = net.add(rs.graph.SliceOperation((0,) * 4, (2, 3, 4, 5), (1,) * 4), net.add(RELU, y))
    backwards = rs.graph.SliceOperation((0, 2, 0, 0), (2, 3, 4, 5), (1, -1, 1, 1))
    found = _checked(net.graph(net.add(RELU, net.add(backwards, y))))
    assert _kinds(found) == ["eltwise", "slice", "eltwise"]


def test_a_sum_of_a_reshaped_product_with_a_tensor_of_the_same_dims_goes_into_the_product():
    net = Network(2, 4, 16)
    other = net.add(RELU, net.x)
    x = net.add(rs.graph.ReshapeOperation((8, 16)), net.x)
    y = net.add(rs.graph.MatmulOperation(), x, net.constant(16, 16))
    y = net.add(rs.graph.ReshapeOperation((2, 4, 16)), y)
    found = _checked(net.graph(net.add(ADD, other, y)))
    assert [kind for kind in _kinds(found) if kind != "reshape"] == ["eltwise", "matmul"]


def test_a_mask_beside_dims_of_1_goes_into_the_product():
    net = Network(4, 3, 5, 8)
    scores = net.add(rs.graph.MatmulOperation(), net.x, net.constant(4, 3, 8, 5))
    scores = net.add(ADD, scores, net.constant(1, 3, 5, 5))
    y = net.add(rs.graph.ReshapeOperation((1, 4, 3, 5, 5)), scores)
    y = net.add(ADD, y, net.constant(1, 4, 1, 5, 5))
    found = _checked(net.graph(net.add(rs.graph.ReshapeOperation((4, 3, 5, 5)), y)))
    assert _kinds(found) == ["matmul"]


def test_a_mask_that_is_computed_of_constants_is_a_constant():
    net = Network(2, 5)
    where = PrimitiveOperation("Elementwise", (("algorithm", "elementwise_gt"),))
    is_large = net.add(where, net.constant(1, 5), net.constant(1, 5))
    mask = net.add(
        rs.graph.BinaryOperation("binary_select"), net.constant(1, 5), net.constant(1, 5), is_large
    )
    found = _checked(net.graph(net.add(ADD, net.x, mask)))
    assert _kinds(found) == ["binary"]


def _network():
    """Something of everything."""
    net = Network()
    y = net.add(rs.graph.PadOperation((0, 0, 1, 1), (0, 0, 1, 1)), net.x)
    y = _paddle(net, net.batch_norm(net.convolution(y, 16, pad=0)))
    y = _turn(net, y, (2, 4, 4, 36), (0, 2, 1, 3), (2, 16, 6, 6))
    z = net.add(MUL, net.convolution(y, 16, groups=4), net.constant(1, 16, 1, 1))
    y = net.add(RELU, net.add(ADD, z, y))
    y = net.add(
        rs.graph.TransposeOperation((0, 3, 1, 2)), net.add(rs.graph.TransposeOperation((0, 2, 3, 1)), y)
    )
    return net.graph(net.add(ADD, y, net.add(rs.graph.ReshapeOperation((1, 16, 1, 1)), net.constant(16))))


def test_a_network_is_left_with_what_computes():
    found = _checked(_network())
    assert _kinds(found) == ["convolution", "shuffle", "convolution"]
    assert {each.fusion for each in found.applied} == set(FUSIONS) - {
        *("dead", "integers", "bias", "layer_norm", "attention", "batches", "lifts", "gathers"),
        "winograd",
    }


@pytest.mark.parametrize("name", FUSIONS)
def test_each_fusion_can_be_off_alone(name):
    found = _checked(_network(), (name,))
    assert not _by(found, name)


@pytest.mark.parametrize(("first", "second"), list(product(FUSIONS[1::3], FUSIONS[2::3])))
def test_two_fusions_can_be_off(first, second):
    found = _checked(_network(), (first, second))
    assert not _by(found, first) + _by(found, second)


def test_all_fusions_off_is_the_graph_itself():
    graph = _network()
    assert fuse(graph, FUSIONS).graph is graph


def test_a_fused_graph_has_nothing_left_to_fuse():
    found = fuse(_network())
    assert fuse(found.graph) == type(found)(found.graph)


@pytest.mark.parametrize("data_type", ["s32", "f64"])
def test_integers_and_doubles_keep_their_arithmetic(data_type):
    # 2**24 + 1 is no f32, and a sixth in f32 is none in f64.
    dtype = {"s32": np.int32, "f64": np.float64}[data_type]
    b = rs.graph.GraphBuilder()
    x, z = (b.input(name, (2, 4), data_type) for name in "xz")
    y = b.add(rs.graph.BinaryOperation("binary_div"), x, b.constant(np.full((1, 1), 6, dtype)))
    y = b.add(ADD, b.add(MUL, y, b.constant(np.full((1, 1), 6, dtype))), z)
    graph = b.graph(b.add(RELU, y))
    assert fuse(graph).applied == ()


def test_a_fusion_that_there_is_not_is_refused():
    with pytest.raises(rs.InvalidArguments, match="batch_norm"):
        fuse(_network(), ["batchnorm"])
