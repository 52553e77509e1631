"""Networks whose convolutions take Winograd's algorithm: errors, files, and who wants none."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs
from restride.graph import ConvolutionOperation, EltwiseOperation, WinogradConvolutionOperation, fuse
from restride.graph.rewrites import precision
from support.convolved import Case, forward

ONES, ZEROS = (1, 1), (0, 0)


def chain_of(layers: int, channels: int = 32, size: int = 20):
    """So many convolutions with a relu behind each, and what they compute in doubles."""
    draw, builder = np.random.default_rng(layers), rs.graph.GraphBuilder()
    case = Case(1, 1, channels, channels, (size, size), (3, 3), ONES, ZEROS, ONES)
    x = draw.standard_normal(case.dims[0]).astype(np.float32)
    y, wanted = builder.input("x", x.shape), x.astype(np.float64)
    for _ in range(layers):
        w = (draw.standard_normal(case.dims[1]) * np.sqrt(2 / (9 * channels))).astype(np.float32)
        y = builder.add(ConvolutionOperation(ONES, ZEROS, ONES, ONES), y, builder.constant(w))
        y = builder.add(EltwiseOperation("eltwise_relu"), y)
        wanted = np.maximum(forward(case, wanted, w), 0)
    return builder.graph(y), x, wanted


def count_of(graph) -> int:
    return sum(isinstance(node.operation, WinogradConvolutionOperation) for node in graph.nodes)


def test_a_network_takes_it_says_so_and_stays_near_the_exact_result():
    graph, x, wanted = chain_of(12)
    net = rs.Network(graph)
    error = np.abs(net(x) - wanted).max() / np.abs(wanted).max()
    assert error < 1e-5
    text = str(net.plan(x.shape))
    assert text.count("winograd_convolution") == 12
    assert "winograd4x4" in text
    assert {each.fusion for each in fuse(graph).applied} == {"epilogues", "winograd"}


def test_it_is_switched_off_by_its_name():
    graph, x, wanted = chain_of(2)
    net = rs.Network(graph, without=("winograd",))
    assert "winograd" not in str(net.plan(x.shape))
    assert np.abs(net(x) - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_not_all_layers_of_a_deep_network_take_it():
    graph, _, _ = chain_of(30, size=16)
    assert 0 < count_of(fuse(graph).graph) < 30


def test_weights_that_a_call_brings_and_narrow_layers_stay_direct():
    builder = rs.graph.GraphBuilder()
    x, w = builder.input("x", (1, 32, 20, 20)), builder.input("w", (32, 32, 3, 3))
    graph = builder.graph(builder.add(ConvolutionOperation(ONES, ZEROS, ONES, ONES), x, w))
    assert count_of(fuse(graph).graph) == count_of(fuse(chain_of(1, channels=4)[0]).graph) == 0


@pytest.mark.parametrize("has_pairs", [True, False])
def test_with_lower_precision_pairs_of_bf16_are_multiplied_instead(has_pairs, monkeypatch):
    monkeypatch.setattr(precision, "has_dots_of_bf16", lambda: has_pairs)
    graph, x, wanted = chain_of(2)
    net = rs.Network(graph, precision="bf16")
    assert ("winograd" in str(net.plan(x.shape))) is not has_pairs
    assert np.abs(net(x) - wanted).max() < 2e-2 * np.abs(wanted).max()


def test_a_saved_network_has_the_same_bits(tmp_path):
    graph, x, _ = chain_of(3)
    net = rs.Network(graph)
    wanted = net(x)
    net.save(tmp_path / "net", x.shape)
    np.testing.assert_array_equal(rs.Network.load(tmp_path / "net")(x), wanted)


@pytest.mark.parametrize("rule", ["plain", "greedy", "optimal"])
def test_every_rule_of_formats_knows_it(rule):
    graph, x, wanted = chain_of(2)
    assert np.abs(rs.Network(graph, rule=rule)(x) - wanted).max() < 1e-5 * np.abs(wanted).max()


def test_an_onnx_model_that_is_to_be_exact_takes_none():
    onnx = pytest.importorskip("onnx")
    dims = [onnx.helper.make_tensor_value_info(name, 1, (1, 32, 20, 20)) for name in "xy"]
    w = np.random.default_rng(0).standard_normal((32, 32, 3, 3)).astype(np.float32)
    node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])
    graph = onnx.helper.make_graph([node], "g", dims[:1], dims[1:], [onnx.numpy_helper.from_array(w, "w")])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    data = model.SerializeToString()
    assert "winograd" in str(rs.onnx.load(data).plan((1, 32, 20, 20)))
    assert "winograd" not in str(rs.onnx.load(data, exact=True).plan((1, 32, 20, 20)))
