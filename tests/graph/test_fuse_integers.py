"""Nodes between integers: what computes with bytes, what is left in floats, and that both give the same."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs

Array = np.ndarray
G = rs.graph
RELU = G.EltwiseOperation("eltwise_relu")


class Quantized:
    """A graph that grows, and what its tensors are for some input, in NumPy and doubles."""

    def __init__(self, *dims: int) -> None:
        self.builder, self.rng = G.GraphBuilder(), np.random.default_rng(0)
        self.x = self.builder.input("x", dims)
        self.array = self.rng.standard_normal(dims).astype(np.float32)

    def number(self, value: float, rank: int = 4) -> str:
        return self.builder.constant(np.full((1,) * rank, value, np.float32))

    def bytes(self, name: str, scale: float, zero: int = 0, kind: rs.DataType = rs.u8) -> str:
        numbers = self.number(scale), self.number(zero)
        q = self.builder.add(G.QuantizeOperation(kind), name, *numbers)
        return self.builder.add(G.DequantizeOperation(), q, *numbers)

    def convolution(self, name: str, outputs: int, pad: int = 0, groups: int = 1) -> str:
        channels = self.builder.type(name).dims[1] // groups
        dims = (outputs, channels, 1 + 2 * pad, 1 + 2 * pad)
        dims = dims if groups == 1 else (groups, outputs // groups, *dims[1:])
        weights = self.builder.constant(self.rng.integers(-127, 128, dims).astype(np.int8))
        scale = self.rng.uniform(0.001, 0.003, dims[: 1 + (groups > 1)])
        shaped = scale.reshape(*scale.shape, *(1,) * (len(dims) - scale.ndim)).astype(np.float32)
        w = self.builder.add(
            G.DequantizeOperation(), weights, self.builder.constant(shaped), self.number(0, len(dims))
        )
        bias = self.builder.constant(self.rng.standard_normal(outputs).astype(np.float32))
        window = G.ConvolutionOperation((1, 1), (0, 0), (pad, pad), (pad, pad), groups)
        return self.builder.add(window, name, w, bias)

    def add(self, operation: G.Operation, *names: str) -> str:
        return self.builder.add(operation, *names)


def types_of(net: rs.Network, operation: str) -> list[tuple[str, str]]:
    steps = [each for each in net.plan().steps if each.operation == operation]
    return [(str(each.reads[0].md.data_type), str(each.writes[0].md.data_type)) for each in steps]


def check(made: Quantized, output: str, step: float) -> rs.Network:
    """Integers give what floats between the same roundings do, but for single steps; under every rule."""
    graph = made.builder.graph(output)
    wanted = rs.Network(graph, without=["integers"])(made.array)
    for rule in ("plain", "greedy", "optimal"):
        net = rs.Network(graph, rule=rule)
        steps = np.abs(net(made.array).astype(np.float64) - wanted) / step
        assert steps.max() < 1.01
        assert (steps > 0.5).mean() < 0.02
    return net


@pytest.mark.sweep(1)
@pytest.mark.parametrize("kind", [rs.u8, rs.s8])
@pytest.mark.parametrize("zero", [0, 7, -128, 100])
@pytest.mark.parametrize(("pad", "groups"), [(0, 1), (1, 1), (1, 4), (0, 32)])
def test_a_convolution_reads_and_writes_bytes(kind: rs.DataType, zero: int, pad: int, groups: int) -> None:
    zero = max(zero, 0) if kind is rs.u8 else min(zero, 90)
    made = Quantized(2, 32, 5, 6)
    y = made.convolution(made.bytes(made.x, 0.03, zero, kind), 64, pad, groups)
    y = made.bytes(made.add(RELU, y), 0.05, 0 if kind is rs.u8 else -128, kind)
    net = check(made, y, 0.05)
    stored = "s8" if kind is rs.s8 and zero == 0 else "u8"
    assert types_of(net, "convolution") == [(stored, "u8")]


def test_a_sum_of_what_a_convolution_gives_is_a_post_op_that_rounds() -> None:
    made = Quantized(1, 32, 6, 6)
    first = made.bytes(made.x, 0.03, 128)
    y = made.bytes(made.convolution(first, 32, 1), 0.1, 120)
    y = made.bytes(made.add(RELU, made.add(G.SumOperation((1.0, 1.0)), y, first)), 0.07)
    net = check(made, made.bytes(made.convolution(y, 16), 0.2, 90), 0.2)
    assert types_of(net, "convolution") == [("u8", "u8")] * 2
    assert not types_of(net, "binary") + types_of(net, "sum")


@pytest.mark.parametrize("word", ["add", "mul"])
def test_sums_and_products_of_bytes_are_one_step(word: str) -> None:
    made = Quantized(1, 32, 6, 6)
    left = made.bytes(made.x, 0.03, 0)
    right = made.bytes(made.add(G.EltwiseOperation("eltwise_linear", 0.5, 0.1), made.x), 0.02, 0)
    y = made.bytes(made.add(G.BinaryOperation(f"binary_{word}"), left, right), 0.05)
    net = check(made, y, 0.05)
    assert ("u8", "u8") in types_of(net, "eltwise")


def test_moves_maxima_and_concats_keep_bytes() -> None:
    made = Quantized(1, 32, 6, 6)
    x = made.bytes(made.x, 0.03, 128)
    largest = made.add(G.PoolingOperation("pooling_max", (2, 2), (2, 2), (0, 0), (0, 0), (0, 0)), x)
    part = made.add(G.SliceOperation((0, 8, 0, 0), (1, 16, 3, 3), (1, 1, 1, 1)), largest)
    whole = made.add(G.ConcatOperation(1), largest, part)
    net = check(made, made.bytes(made.convolution(made.bytes(whole, 0.03, 128), 16), 0.1, 128), 0.1)
    assert (
        types_of(net, "pooling") == types_of(net, "concat") == types_of(net, "convolution") == [("u8", "u8")]
    )


@pytest.mark.parametrize(
    "operation",
    [
        G.PoolingOperation("pooling_avg_exclude_padding", (2, 2), (2, 2), (0, 0), (1, 1), (1, 1)),
        G.PoolingOperation("pooling_avg_include_padding", (2, 2), (2, 2), (0, 0), (1, 1), (1, 1)),
        G.ReductionOperation("reduction_mean", (2, 3)),
    ],
)
def test_means_are_of_bytes(operation: G.Operation) -> None:
    made = Quantized(1, 32, 6, 6)
    net = check(made, made.bytes(made.add(operation, made.bytes(made.x, 0.03, 128)), 0.0173, 128), 0.0173)
    includes = "include" in getattr(operation, "algorithm", "")
    # A border of zeros is no border of zero points.
    assert types_of(net, operation.kind) == [("f32", "f32") if includes else ("u8", "u8")]


def test_products_of_matrices_are_of_bytes() -> None:
    made = Quantized(1, 1, 8, 48)
    weights = made.builder.constant(made.rng.integers(-127, 128, (1, 1, 48, 20)).astype(np.int8))
    w = made.add(G.DequantizeOperation(), weights, made.number(0.002), made.number(0))
    y = made.add(G.MatmulOperation(), made.bytes(made.x, 0.03, 128), w)
    net = check(made, made.bytes(y, 0.05, 100), 0.05)
    assert types_of(net, "matmul") == [("u8", "u8")]


def test_a_normalization_behind_a_convolution_is_in_its_factors() -> None:
    made = Quantized(1, 16, 5, 5)
    y = made.convolution(made.bytes(made.x, 0.03, 128), 16, 1)
    numbers = [made.builder.constant(made.rng.uniform(0.5, 2, 16).astype(np.float32)) for _ in range(4)]
    y = made.bytes(made.add(RELU, made.add(G.BatchNormalizationOperation(1e-5), y, *numbers)), 0.05)
    net = check(made, y, 0.05)
    (step,) = (each for each in net.plan().graph.nodes if each.kind == "convolution")
    assert [each.operation.algorithm for each in step.epilogues] == ["binary_mul", "binary_add"]


def test_weights_of_u8_with_zero_points_become_s8() -> None:
    made = Quantized(1, 16, 5, 5)
    weights = made.builder.constant(made.rng.integers(0, 256, (16, 16, 1, 1)).astype(np.uint8))
    w = made.add(G.DequantizeOperation(), weights, made.number(0.01), made.number(128))
    window = G.ConvolutionOperation((1, 1), (0, 0), (0, 0), (0, 0))
    net = check(made, made.bytes(made.add(window, made.bytes(made.x, 0.03, 128), w), 0.1, 128), 0.1)
    assert types_of(net, "convolution") == [("u8", "u8")]


def test_what_several_read_is_stored_as_the_model_says() -> None:
    made = Quantized(1, 16, 5, 5)
    y = made.bytes(made.convolution(made.bytes(made.x, 0.03, 128), 16), 0.05, 128)
    both = made.add(G.BinaryOperation("binary_add"), made.add(RELU, y), y)
    check(made, both, 0.05)


def test_bytes_that_are_an_output_stay_as_they_are() -> None:
    made = Quantized(1, 16, 5, 5)
    y = made.convolution(made.bytes(made.x, 0.03, 0, rs.s8), 16)
    q = made.add(G.QuantizeOperation(rs.s8), y, made.number(0.05), made.number(-28))
    graph = made.builder.graph(q)
    found, wanted = (rs.Network(graph, without=off)(made.array) for off in ((), ("integers",)))
    assert found.dtype == np.int8
    assert np.abs(found.astype(int) - wanted).max() <= 1


def test_scales_that_no_constant_gives_are_left_as_arithmetic() -> None:
    made = Quantized(1, 16, 5, 5)
    scale = made.add(G.ReductionOperation("reduction_max", (0, 1, 2, 3)), made.x)
    q = made.add(G.QuantizeOperation(rs.s8), made.x, scale, made.number(0))
    y = made.add(G.DequantizeOperation(), q, scale, made.number(0))
    found = rs.Network(made.builder.graph(y))(made.array)
    step = made.array.max()
    assert np.allclose(found, np.rint(made.array / step) * step)


def test_a_network_of_bytes_is_saved_and_loaded(tmp_path) -> None:
    made = Quantized(1, 32, 6, 6)
    y = made.bytes(made.add(RELU, made.convolution(made.bytes(made.x, 0.03, 3), 32, 1)), 0.05)
    net = rs.Network(made.builder.graph(y))
    wanted = net(made.array)
    net.save(tmp_path / "bytes.net")
    loaded = rs.Network.load(tmp_path / "bytes.net")
    assert np.array_equal(loaded(made.array), wanted)
    assert types_of(loaded, "convolution") == [("u8", "u8")]


def test_the_fusion_is_listed_and_can_be_off() -> None:
    made = Quantized(1, 16, 5, 5)
    y = made.bytes(made.convolution(made.bytes(made.x, 0.03, 128), 16), 0.1, 128)
    graph = made.builder.graph(y)
    assert any(each.fusion == "integers" for each in G.fuse(graph).applied)
    off = G.fuse(graph, without=["integers"])
    assert not any(each.fusion == "integers" for each in off.applied)
    assert [str(off.graph.tensors[each.output]) for each in off.graph if each.kind == "convolution"] == [
        "f32 1x16x5x5"
    ]


def test_products_are_exact_beside_numpy() -> None:
    made = Quantized(1, 64, 3, 3)
    weights = made.rng.integers(-127, 128, (32, 64, 1, 1)).astype(np.int8)
    w = made.add(
        G.DequantizeOperation(), made.builder.constant(weights), made.number(2.0**-9), made.number(0)
    )
    window = G.ConvolutionOperation((1, 1), (0, 0), (0, 0), (0, 0))
    y = made.add(window, made.bytes(made.x, 2.0**-5, 128), w)
    q = np.clip(np.rint(made.array.astype(np.float64) * 32) + 128, 0, 255) - 128
    sums = np.einsum("nchw,oc->nohw", q, weights[:, :, 0, 0].astype(np.float64)) * 2.0**-14
    found = rs.Network(made.builder.graph(y))(made.array)
    assert np.array_equal(found, sums.astype(np.float32))
