"""Networks of f32 as networks of bytes: what computes with bytes, what is lost, what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.graph.network.inputs import NetworkInput
from restride.graph.quantization.quantize import QuantizedNetwork, QuantizedSource
from restride.graph.quantization.recipe import prepared

G = rs.graph
Array = np.ndarray
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
RELU = G.EltwiseOperation("eltwise_relu")
SWISH = G.EltwiseOperation("eltwise_swish", 1.0)


def window(pad: int, stride: int = 1, groups: int = 1) -> Any:
    return G.ConvolutionOperation((stride, stride), (0, 0), (pad, pad), (pad, pad), groups)


def graph_of(batch: int = 1, activation: Any = RELU, spread: float = 1.0) -> Any:
    """Convolutions, a depthwise one with a residual sum among them, a maximum, a mean, and a classifier.

    `spread`: how much larger some channels are than others.
    """
    rng, builder = np.random.default_rng(0), G.GraphBuilder()

    def layer(x: str, operation: Any, *dims: int, name: str) -> str:
        fan = np.prod(dims[1:]) if len(dims) < 5 else np.prod(dims[2:])
        weights = rng.standard_normal(dims) / np.sqrt(fan)
        weights *= np.exp(np.log(spread) * rng.uniform(-1, 1, (dims[0], *(1,) * (len(dims) - 1))))
        outputs = dims[0] if len(dims) < 5 else dims[0] * dims[1]
        bias = rng.standard_normal(outputs) * 0.1
        names = [builder.constant(array.astype(np.float32)) for array in (weights, bias)]
        return builder.add(operation, x, *names, name=name)

    x = builder.input("x", (batch, 3, 16, 16))
    x = builder.add(activation, layer(x, window(1), 16, 3, 3, 3, name="first"))
    maximum = G.PoolingOperation("pooling_max", (2, 2), (2, 2), (0, 0), (0, 0), (0, 0))
    skip = x = builder.add(maximum, x)
    x = builder.add(activation, layer(x, window(1, groups=16), 16, 1, 1, 3, 3, name="depthwise"))
    x = layer(x, window(0), 16, 16, 1, 1, name="pointwise")
    x = builder.add(activation, builder.add(G.BinaryOperation("binary_add"), x, skip))
    x = builder.add(activation, layer(x, window(1), 32, 16, 3, 3, name="wide"))
    x = builder.add(G.ReductionOperation("reduction_mean", (2, 3)), x)
    x = builder.add(G.ReshapeOperation((batch, 32)), x)
    return builder.graph(layer(x, G.InnerProductOperation(), 10, 32, name="classes"))


def network(**choices: Any) -> rs.Network:
    """The same for any batch."""
    inputs = [NetworkInput("x", (None, 3, 16, 16), rs.f32)]
    return rs.Network.of_source(inputs, ["classes"], _Source(choices))


class _Source:
    def __init__(self, choices: dict[str, Any]) -> None:
        self.choices = choices

    def __call__(self, dims: Any) -> Any:
        return graph_of(dims["x"][0], **self.choices)


def images(count: int, seed: int = 0, batch: int = 1) -> list[Array]:
    rng = np.random.default_rng(seed)
    return [rng.standard_normal((batch, 3, 16, 16)).astype(np.float32) for _ in range(count)]


def change(made: Callable[[Array], Array], net: Callable[[Array], Array], samples: list[Array]) -> float:
    """The relative change of the outputs."""
    exact, values = (np.concatenate([np.asarray(f(x), np.float64) for x in samples]) for f in (net, made))
    return float(np.linalg.norm(values - exact) / np.linalg.norm(exact))


def source_of(made: QuantizedNetwork) -> QuantizedSource:
    return made._quantized


# --- what computes with bytes -------------------------------------------------------------------------------


def test_every_layer_reads_and_writes_bytes_but_for_the_outputs() -> None:
    made = rs.quantize_network(graph_of(), images(4))
    types = [[str(each.md.data_type) for each in (*s.reads[:2], *s.writes)] for s in made.plan().steps]
    kinds = [step.operation for step in made.plan().steps]
    assert kinds == ["eltwise", "convolution", "pooling", *["convolution"] * 3, "reduction", "inner_product"]
    assert types[0][::2] == ["f32"]
    assert [t[-1] for t in types] == ["s8", "u8", "u8", "u8", "u8", "u8", "u8", "f32"]
    assert all(layer.is_quantized for layer in made.report.layers)
    assert 0 < made.report.error < 0.02
    assert change(made, rs.Network(graph_of()), images(4, seed=1)) < 0.02


@pytest.mark.parametrize("activation", [RELU, SWISH, G.EltwiseOperation("eltwise_relu", 0.1)])
@pytest.mark.parametrize("calibration", ["minmax", "percentile", "mse"])
def test_outputs_change_little_whatever_the_functions_and_the_ranges(
    activation: Any, calibration: str
) -> None:
    made = rs.quantize_network(graph_of(activation=activation), images(8), calibration)
    exact = rs.Network(graph_of(activation=activation))
    assert change(made, exact, images(4, seed=1)) < 0.04
    # What computes with bytes says what floats between the same roundings do.
    floats = rs.Network(source_of(made)({"x": (1, 3, 16, 16)}), without=["integers"])
    assert change(made, floats, images(2, seed=1)) < 0.01


@pytest.mark.parametrize(
    ("operation", "source", "weights"),
    [
        (window(1, stride=2), (2, 6, 9, 9), (8, 6, 3, 3)),
        (window(1, groups=2), (1, 8, 7, 7), (2, 4, 4, 3, 3)),
        (window(1, groups=6), (1, 6, 7, 7), (6, 2, 1, 3, 3)),
        (G.ConvolutionOperation((1, 1), (1, 1), (2, 2), (0, 1)), (1, 5, 9, 9), (3, 5, 3, 3)),
        (G.ConvolutionOperation((1,), (0,), (1,), (1,)), (1, 5, 9), (3, 5, 3)),
        (
            G.ConvolutionOperation((1, 1, 1), (0, 0, 0), (0, 0, 0), (0, 0, 0)),
            (1, 2, 4, 4, 4),
            (3, 2, 2, 2, 2),
        ),
        (G.InnerProductOperation(), (3, 4, 2, 2), (5, 4, 2, 2)),
        (G.MatmulOperation(), (7, 5), (5, 6)),
    ],
)
def test_layers_that_a_report_says_compute_with_bytes_do(
    operation: Any, source: tuple[int, ...], weights: tuple[int, ...]
) -> None:
    rng, builder = np.random.default_rng(0), G.GraphBuilder()
    x = builder.input("x", source)
    w = builder.constant(rng.standard_normal(weights).astype(np.float32))
    graph = builder.graph(builder.add(operation, x, w, name="y"))
    has_rows = not isinstance(operation, G.ConvolutionOperation)
    # All above 0, and lopsided: bytes with a zero point, and a border of it.
    for low, calibration in ((0.0, "minmax"), (-0.3, "minmax"), *[(-1.0, "dynamic")] * has_rows):
        samples = [rng.uniform(low, 1, source).astype(np.float32) for _ in range(3)]
        made = rs.quantize_network(graph, samples, calibration, refine=())
        (step,) = (step for step in made.plan().steps if step.operation == operation.kind)
        assert {str(each.md.data_type) for each in step.reads[:2]} <= {"u8", "s8"}
        assert change(made, rs.Network(graph), samples) < 0.03


def test_ranges_that_clip_lose_less_beside_rare_large_numbers() -> None:
    rng, builder = np.random.default_rng(0), G.GraphBuilder()
    weights = builder.constant(rng.standard_normal((16, 64)).astype(np.float32))
    graph = builder.graph(builder.add(G.InnerProductOperation(), builder.input("x", (64, 64)), weights))
    samples = [rng.laplace(size=(64, 64)).astype(np.float32) for _ in range(8)]
    samples[0][0, 0] = 40
    losses = {}
    for calibration in ("minmax", "percentile", "mse"):
        made = rs.quantize_network(graph, samples, calibration, refine=(), layer_error=10)
        losses[calibration] = [change(made, rs.Network(graph), part) for part in (samples, samples[1:])]
    assert losses["mse"][0] < losses["minmax"][0]
    assert losses["percentile"][1] < losses["minmax"][1] / 2


def test_other_batches_than_those_of_the_samples_run() -> None:
    net = network()
    made = rs.quantize_network(net, images(2))
    batch = np.concatenate(images(5, seed=2))
    assert np.array_equal(made(batch), np.concatenate([made(x[None]) for x in batch]))
    mixed = rs.quantize_network(net, [*images(2), *images(1, seed=1, batch=3)])
    assert change(mixed, net, [batch]) < 0.02


def test_rows_have_scales_of_their_own_where_a_run_finds_them() -> None:
    rng, builder = np.random.default_rng(0), G.GraphBuilder()
    x = builder.input("x", (6, 64))
    for at, (rows, columns) in enumerate(((64, 96), (96, 32))):
        weights, bias = rng.standard_normal((rows, columns)), rng.standard_normal((1, columns))
        names = [builder.constant(each.astype(np.float32)) for each in (weights, bias)]
        x = builder.add(RELU, builder.add(G.MatmulOperation(), x, *names, name=f"matmul{at}"))
    graph = builder.graph(x)
    sample = rng.standard_normal((6, 64)).astype(np.float32)
    made, exact = rs.quantize_network(graph, [sample], "dynamic", refine=()), rs.Network(graph)
    kinds = [[str(e.md.data_type) for e in s.reads[:2]] for s in made.plan().steps if s.operation == "matmul"]
    assert kinds == [["s8", "s8"]] * 2
    sizes = np.float32(10.0) ** np.arange(-3, 3).astype(np.float32)[:, None]
    for row, wanted in zip(made(sample * sizes), exact(sample * sizes), strict=True):
        assert np.linalg.norm(row - wanted) < 0.03 * np.linalg.norm(wanted)
    assert np.isfinite(made(np.zeros((6, 64), np.float32))).all()


def test_convolutions_stay_f32_where_a_run_finds_scales() -> None:
    made = rs.quantize_network(graph_of(), images(1), "dynamic")
    reasons = {layer.name: layer.reason for layer in made.report.layers}
    assert reasons.pop("classes") == ""
    assert set(reasons.values()) == {"a convolution has no rows"}
    assert change(made, rs.Network(graph_of()), images(2)) < 0.02


# --- what is lost -------------------------------------------------------------------------------------------


def test_layers_that_lose_more_than_they_may_stay_f32() -> None:
    every = rs.quantize_network(graph_of(), images(4)).report
    errors = {layer.name: layer.error or 0.0 for layer in every.layers}
    limit = sorted(errors.values())[2]
    made = rs.quantize_network(graph_of(), images(4), layer_error=limit)
    assert {x.name for x in made.report.layers if x.is_quantized} == {n for n in errors if errors[n] <= limit}
    assert "error exceeds" in str(made.report)
    assert made.report.error < every.error


def test_outputs_lose_no_more_than_they_may() -> None:
    every = rs.quantize_network(graph_of(), images(4)).report
    made = rs.quantize_network(graph_of(), images(4), output_error=0.7 * every.error)
    left = [layer for layer in made.report.layers if layer.is_quantized]
    assert made.report.error <= 0.7 * every.error
    assert 0 < len(left) < len(every.layers)
    assert max(x.error or 0 for x in left) <= min(x.error or 0 for x in made.report.layers if x.reason)
    exact = rs.quantize_network(graph_of(), images(1), output_error=0.0)
    assert np.allclose(exact(images(1)[0]), rs.Network(graph_of())(images(1)[0]), atol=1e-5)


def test_layers_that_are_kept_stay_f32() -> None:
    made = rs.quantize_network(graph_of(), images(2), keep=["first", "classes"])
    reasons = {layer.name: layer.reason for layer in made.report.layers}
    assert (reasons["first"], reasons["classes"], reasons["wide"]) == ("it is in keep", "it is in keep", "")
    assert all(layer.error is None for layer in made.report.layers if layer.reason)
    lines = str(made.report).splitlines()
    assert lines[0].split() == ["layer", "operation", "weights", "error", "computes", "with"]
    assert lines[1].split()[:4] == ["first", "convolution", "16x3x3x3", "-"]
    assert lines[-1].startswith("3 of 5 layers, outputs change by ")


def chain_of(kind: str) -> Any:
    """Three layers, each of which reads the one before it, or its sum with another, and nothing between."""
    rng, builder = np.random.default_rng(0), G.GraphBuilder()
    is_flat = kind in ("inner products", "matmuls")
    x = builder.input("x", (2, 16) if is_flat else (2, 16, 6, 6))
    add, tensors = G.BinaryOperation("binary_add"), [x]
    for number in range(3):
        is_deep = kind == "depthwise" and number == 1
        dims = (16, 16) if is_flat else (16, 1, 1, 3, 3) if is_deep else (16, 16, 1, 1)
        weights = rng.standard_normal(dims) / np.sqrt(9 if is_deep else 16)
        names = [builder.constant(array.astype(np.float32)) for array in (weights, rng.standard_normal(16))]
        operation = window(1, groups=16) if is_deep else window(0)
        if kind == "matmuls":
            operation, names = G.MatmulOperation(), names[:1]
        elif is_flat:
            operation = G.InnerProductOperation()
        x = builder.add(operation, x, *names, name=f"layer{number}")
        if kind == "residual" and number < 2:
            x = builder.add(add, x, tensors[-1])
        if kind == "functions":
            x = builder.add(RELU, x)
        tensors.append(x)
    return builder.graph(x)


KEPT = [names for n in range(3) for names in combinations(["layer0", "layer1", "layer2"], n)]


@pytest.mark.parametrize("keep", KEPT, ids="+".join)
@pytest.mark.parametrize(
    "kind", ["convolutions", "residual", "depthwise", "functions", "inner products", "matmuls"]
)
def test_any_layers_may_stay_f32_between_those_of_bytes(kind: str, keep: tuple[str, ...]) -> None:
    graph, rng = chain_of(kind), np.random.default_rng(1)
    dims = graph.tensors["x"].dims
    samples = [rng.standard_normal(dims).astype(np.float32) for _ in range(4)]
    made = rs.quantize_network(graph, samples, keep=keep, layer_error=1.0)
    assert {layer.name for layer in made.report.layers if not layer.is_quantized} == {*keep}
    assert change(made, rs.Network(graph), samples) < 0.05
    # The same in floats: what is rounded to bytes is a float again before anything reads it.
    in_floats = rs.Network(source_of(made)({"x": dims}), without=["integers"])
    assert change(made, in_floats, samples) < 0.01


def test_biases_make_up_for_the_mean_of_the_error() -> None:
    samples, exact = images(16), rs.Network(graph_of(spread=4.0))
    means = []
    for refine in ((), ("bias",)):
        made = rs.quantize_network(graph_of(spread=4.0), samples, refine=refine)
        means.append(np.abs(np.mean([made(x) - exact(x) for x in samples], 0)).mean())
    assert means[1] < means[0]


def test_channels_that_are_equalized_change_nothing_in_f32_and_lose_less_in_bytes() -> None:
    samples, exact = images(8), rs.Network(graph_of(spread=30.0))
    plain, even = (
        rs.quantize_network(graph_of(spread=30.0), samples, refine=refine)
        for refine in ("bias", ["bias", "equalization"])
    )
    recipe = source_of(even).recipe
    assert recipe.balances
    balanced = rs.Network(recipe.balanced(prepared(graph_of(spread=30.0))))
    assert change(balanced, exact, samples[:2]) < 1e-5
    assert change(even, exact, samples) < change(plain, exact, samples)


def test_channels_of_a_norm_are_equalized_with_all_products_that_read_it() -> None:
    rng, builder = np.random.default_rng(0), G.GraphBuilder()

    def constant(*dims: int) -> str:
        return builder.constant(
            (rng.standard_normal(dims) * np.exp(rng.uniform(-3, 3, dims[-1:]))).astype("f4")
        )

    x = builder.add(
        G.LayerNormalizationOperation(1e-5), builder.input("x", (2, 6, 32)), constant(32), constant(32)
    )
    rows = [builder.add(G.ReshapeOperation((12, 32)), x) for _ in range(2)]
    graph = builder.graph(*(builder.add(G.MatmulOperation(), each, constant(32, 16)) for each in rows))
    samples = [rng.standard_normal((2, 6, 32)).astype(np.float32) for _ in range(4)]
    plain, even = (rs.quantize_network(graph, samples, refine=words) for words in ((), ("equalization",)))
    balanced = rs.Network(source_of(even).recipe.balanced(prepared(graph)))(samples[0])
    for name, exact in rs.Network(graph)(samples[0]).items():
        assert np.allclose(balanced[name], exact, rtol=1e-4, atol=1e-4 * np.abs(exact).max())
    assert even.report.error < 0.9 * plain.report.error


# --- a network as any other ---------------------------------------------------------------------------------


@pytest.mark.parametrize("calibration", ["minmax", "dynamic"])
def test_a_saved_network_of_bytes_gives_the_same_bits(tmp_path: Path, calibration: str) -> None:
    made = rs.quantize_network(network(), images(2), calibration)
    x = images(1, seed=3)[0]
    made.save(tmp_path / "made.net")
    assert np.array_equal(rs.Network.load(tmp_path / "made.net")(x), made(x))
    again = pickle.loads(pickle.dumps(made))
    assert np.array_equal(again(x), made(x))
    assert again.report == made.report
    assert np.array_equal(made.with_rule("plain")(x), made(x)) or calibration == "dynamic"


def test_a_trained_network_keeps_its_accuracy_as_that_of_onnxruntime_does(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("onnxruntime")
    net, model, (x, labels) = _trained(torch)
    made = rs.quantize_network(net, [each[None] for each in x[:64]])
    assert all(layer.is_quantized for layer in made.report.layers)
    theirs = _onnxruntime_bytes(model, x[:64], tmp_path)
    right = {
        name: float((np.argmax(logits, 1) == labels[64:]).mean())
        for name, logits in {"f32": net(x[64:]), "bytes": made(x[64:]), "theirs": theirs(x[64:])}.items()
    }
    assert right["f32"] > 0.8
    assert right["bytes"] >= right["f32"] - 0.01
    assert right["bytes"] >= right["theirs"] - 0.01


def test_the_model_of_a_network_of_bytes_computes_the_same_elsewhere(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")
    net, _, (x, _) = _trained(torch, steps=0)
    made = rs.quantize_network(net, [each[None] for each in x[:8]])
    model = made.to_onnx()
    onnx.checker.check_model(model)
    options = onnxruntime.SessionOptions()
    # Its kernels of bytes saturate between products where there is no VNNI: floats between the same bytes.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    exact = session.run(None, {"x": x[:16]})[0]
    assert change(made, lambda _: exact, [x[:16]]) < made.report.error / 2
    assert change(rs.onnx.load(model), lambda _: exact, [x[:16]]) < 1e-5
    bytes_ = [node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    assert len(bytes_) >= len(made.report.layers)
    with pytest.raises(rs.InvalidArguments, match="already quantized"):
        rs.quantize_network(rs.onnx.load(model), [x[:1]])


def _trained(torch: Any, steps: int = 300) -> tuple[rs.Network, bytes, tuple[Array, Array]]:
    """A network that tells ten noisy patterns apart, its model, and pictures with their labels."""
    import io

    rng = np.random.default_rng(0)
    patterns = rng.standard_normal((10, 1, 12, 12)).astype(np.float32)
    labels = rng.integers(0, 10, 1664)
    shifts = rng.integers(-1, 2, (1664, 2))
    moved = [np.roll(patterns[k], tuple(s), (1, 2)) for k, s in zip(labels, shifts, strict=True)]
    x = np.stack(moved) + 0.9 * rng.standard_normal((1664, 1, 12, 12)).astype(np.float32)
    torch.manual_seed(0)
    nn = torch.nn
    module = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
        *(nn.Conv2d(16, 32, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten()),
        *(nn.Linear(288, 32), nn.ReLU(), nn.Linear(32, 10)),
    )
    optimizer = torch.optim.Adam(module.parameters(), 3e-3)
    for step in range(steps):
        at = 64 + step * 32 % 1024
        picked = torch.from_numpy(x[at : at + 32]), torch.from_numpy(labels[at : at + 32])
        loss = nn.functional.cross_entropy(module(picked[0]), picked[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    file, axes = io.BytesIO(), {"x": {0: "n"}, "y": {0: "n"}}
    names: dict[str, Any] = {"input_names": ["x"], "output_names": ["y"], "dynamic_axes": axes}
    example = torch.from_numpy(x[:1])
    torch.onnx.export(module.eval(), (example,), file, dynamo=False, opset_version=17, **names)
    seen = np.r_[0:64, 1088:1664] if steps else np.r_[0:128]
    return rs.onnx.load(file.getvalue()), file.getvalue(), (x[seen], labels[seen])


def _onnxruntime_bytes(model: bytes, samples: Array, folder: Path) -> Callable[[Array], Array]:
    """The same by ONNX Runtime's quantizer, whose weights are of 7 bits, as machines without VNNI need it."""
    import onnxruntime
    from onnxruntime import quantization

    class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
        def __init__(self) -> None:
            self.rows = iter(samples)

        def get_next(self) -> dict[str, Array] | None:
            row = next(self.rows, None)
            return None if row is None else {"x": row[None]}

    (folder / "f32.onnx").write_bytes(model)
    quantization.quantize_static(
        folder / "f32.onnx", folder / "bytes.onnx", Reader(), per_channel=True, reduce_range=True
    )
    session = onnxruntime.InferenceSession(folder / "bytes.onnx", providers=["CPUExecutionProvider"])
    return lambda x: np.asarray(session.run(None, {"x": x})[0])


# --- what is refused ----------------------------------------------------------------------------------------


def with_nan() -> Array:
    x = images(1)[0]
    x[0, 1, 2, 3] = np.nan
    return x


def sums_nothing() -> Any:
    builder = G.GraphBuilder()
    return builder.graph(builder.add(RELU, builder.input("x", (1, 3, 16, 16))))


def of_halves() -> Any:
    builder = G.GraphBuilder()
    x, w = builder.input("x", (1, 4), "bf16"), builder.constant(np.ones((4, 4), rs.bf16.numpy))
    return builder.graph(builder.add(G.InnerProductOperation(), x, w))


@pytest.mark.parametrize(
    ("net", "samples", "choices", "text"),
    [
        (graph_of, list, {}, "there are no samples"),
        (graph_of, lambda: None, {}, "there are no samples"),
        (graph_of, lambda: images(1), {"refine": None}, "refine"),
        (graph_of, lambda: [images(1)[0], with_nan()], {}, "sample 1 has values that are not finite"),
        (graph_of, lambda: [{"y": images(1)[0]}], {}, "the inputs are 'x'"),
        (graph_of, lambda: [images(1)[0][:, :2]], {}, "1x2x16x16"),
        (graph_of, lambda: images(1)[0], {}, "3x16x16"),
        (graph_of, lambda: [images(1)[0].astype(np.float64)], {}, "x is float64|it is float64"),
        (graph_of, lambda: images(1), {"calibration": "best"}, "best"),
        (graph_of, lambda: images(1), {"refine": ["weights"]}, "weights"),
        (graph_of, lambda: images(1), {"keep": ["frist"]}, "first"),
        (graph_of, lambda: images(1), {"keep": "first", "layer_error": "much"}, "layer_error"),
        (graph_of, lambda: images(1), {"output_error": np.nan}, "output_error is nan"),
        (graph_of, lambda: images(1), {"layer_error": -1.0}, "relative error"),
        (sums_nothing, lambda: images(1), {}, "it sums no products"),
        (of_halves, lambda: [np.ones((1, 4), rs.bf16.numpy)], {}, "computes with bf16"),
        (lambda: "net.onnx", lambda: images(1), {}, "neither rs.Network nor rs.graph.Graph"),
    ],
)
def test_what_becomes_no_network_of_bytes_is_refused(
    net: Callable[[], Any], samples: Callable[[], Any], choices: dict[str, Any], text: str
) -> None:
    with pytest.raises(rs.InvalidArguments, match=text):
        rs.quantize_network(net(), samples(), **choices)


def test_networks_without_a_graph_and_with_bytes_are_refused(tmp_path: Path) -> None:
    made = rs.quantize_network(network(), images(1))
    with pytest.raises(rs.InvalidArguments, match="already quantized"):
        rs.quantize_network(made, images(1))
    made.save(tmp_path / "made.net")
    with pytest.raises(rs.Unimplemented, match="loaded from a file"):
        rs.quantize_network(rs.Network.load(tmp_path / "made.net"), images(1))
    with pytest.raises(rs.Unimplemented, match="not loaded by"):
        made.to_onnx()


def test_a_network_that_was_not_quantized_here_has_no_report() -> None:
    with pytest.raises(rs.InvalidArguments, match="has no report"):
        print(QuantizedNetwork(graph_of()).report)


def test_dims_with_other_layers_than_the_samples_ran_are_refused() -> None:
    inputs = [NetworkInput("x", (None, 3, 16, 16), rs.f32)]

    def source(dims: Any) -> Any:
        batch = dims["x"][0]
        return graph_of() if batch == 1 else prepared(sums_nothing_of(batch))

    made = rs.quantize_network(rs.Network.of_source(inputs, ["classes"], source), images(1))
    with pytest.raises(rs.InvalidArguments, match="other layers"):
        made(np.concatenate(images(2)))


def sums_nothing_of(batch: int) -> Any:
    builder = G.GraphBuilder()
    x = builder.input("x", (batch, 3, 16, 16))
    return builder.graph(builder.add(G.ReshapeOperation((batch, 768)), x, name="classes"))
