"""Networks that may compute with bf16 or f16: what becomes so, how far results are, what is refused."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import restride as rs
from restride.graph import (
    BatchNormalizationOperation,
    BinaryOperation,
    ConcatOperation,
    ConvolutionOperation,
    EltwiseOperation,
    GraphBuilder,
    InnerProductOperation,
    LayerNormalizationOperation,
    LrnOperation,
    MatmulOperation,
    PadOperation,
    PoolingOperation,
    PReluOperation,
    PrimitiveOperation,
    ReductionOperation,
    ReorderOperation,
    ResamplingOperation,
    ReshapeOperation,
    ShuffleOperation,
    SliceOperation,
    SoftmaxOperation,
    SumOperation,
    TransposeOperation,
)
from restride.graph.graph import Graph
from restride.graph.rewrites import precision as module
from restride.graph.rewrites.precision import lowered
from restride.targets import jit
from restride.targets.cpu_kernels import lower_contraction
from restride.targets.isa import CacheSizes, Isa

Array = np.ndarray
_RNG = np.random.default_rng(0)
_RELU, _ADD = EltwiseOperation("eltwise_relu"), BinaryOperation("binary_add")
_OF_BF16 = Isa(
    "avx512", 64, "x86_64-unknown-linux-gnu", "x86-64-v4", "-prefer-256-bit,+fast-dpwssd,+avx512bf16"
)


def values(*dims: int) -> Array:
    """Numbers of a size that sums of products keep."""
    scale = np.float32(np.prod(dims[1:]) ** -0.5)
    return np.random.default_rng(dims).standard_normal(dims).astype(np.float32) * scale


@pytest.fixture
def has_dots(monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor that multiplies pairs of bf16, as far as rewrites know: kernels do the same without."""
    monkeypatch.setattr(module, "has_dots_of_bf16", lambda: True)


@pytest.fixture
def has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not."""
    monkeypatch.setattr(module, "has_dots_of_bf16", lambda: False)


# --- networks -----------------------------------------------------------------------------------------------


def window(size: int, groups: int = 1, stride: int = 1) -> ConvolutionOperation:
    half = (size // 2,) * 2
    return ConvolutionOperation((stride, stride), (0, 0), half, half, groups)


def images() -> Graph:
    """Residuals, a pooling, a depthwise convolution, a concat and a norm between convolutions."""
    b = GraphBuilder()
    x = b.input("x", (2, 3, 16, 16))
    y = b.add(
        _RELU, b.add(window(3), x, b.constant(values(32, 3, 3, 3)), b.constant(values(32))), name="first"
    )
    z = b.add(window(3), y, b.constant(values(32, 32, 3, 3)))
    z = b.add(_RELU, b.add(_ADD, z, y), name="residual")
    maximum = PoolingOperation("pooling_max", (2, 2), (2, 2), (0, 0), (0, 0), (0, 0))
    z = b.add(maximum, z, name="pool")
    d = b.add(window(3, 32), z, b.constant(values(32, 1, 1, 3, 3)), name="depthwise")
    z = b.add(ConcatOperation(1), b.add(window(1), d, b.constant(values(32, 32, 1, 1))), z, name="joined")
    channels = (b.constant(np.full(64, n, np.float32)) for n in (1.5, 0.1, 0.2, 0.9))
    z = b.add(_RELU, b.add(BatchNormalizationOperation(1e-5), z, *channels))
    z = b.add(window(1), z, b.constant(values(48, 64, 1, 1)), name="last")
    z = b.add(ResamplingOperation("resampling_linear", (4, 4)), z)
    z = b.add(ReshapeOperation((2, 48)), b.add(ReductionOperation("reduction_mean", (2, 3)), z))
    return b.graph(b.add(InnerProductOperation(), z, b.constant(values(10, 48)), name="scores"))


def words() -> Graph:
    """A block of a transformer: attention, its norms, and a perceptron."""
    b = GraphBuilder()
    x = b.input("x", (2, 12, 64))

    def product(x: str, n: int, k: int, name: str) -> str:
        return b.add(
            MatmulOperation(), x, b.constant(values(1, k, n)), b.constant(values(1, 1, n)), name=name
        )

    def norm(x: str) -> str:
        return b.add(
            LayerNormalizationOperation(1e-5), x, *(b.constant(np.full(64, n, np.float32)) for n in (1.2, 0))
        )

    heads = []
    for name in "qkv":
        apart = b.add(ReshapeOperation((2, 12, 4, 16)), product(x, 64, 64, name))
        heads.append(b.add(TransposeOperation((0, 2, 1, 3)), apart))
    parameters = ("causal", "none"), ("window", (-1, -1)), ("soft_cap", 0.0)
    y = b.add(PrimitiveOperation("ScaledDotProductAttention", parameters), *heads, name="attention")
    y = b.add(ReshapeOperation((2, 12, 64)), b.add(TransposeOperation((0, 2, 1, 3)), y))
    y = norm(b.add(_ADD, x, product(y, 64, 64, "out")))
    z = b.add(EltwiseOperation("eltwise_gelu_erf"), product(y, 128, 64, "up"))
    y = norm(b.add(_ADD, y, product(z, 64, 128, "down")))
    scores = b.add(MatmulOperation(), y, b.add(TransposeOperation((0, 2, 1)), y), name="scores")
    return b.graph(b.add(SoftmaxOperation("softmax_accurate", 2), scores))


def rows(count: int, size: int = 2100) -> Graph:
    """So many rows, times weights of 17 MB."""
    b = GraphBuilder()
    x = b.add(InnerProductOperation(), b.input("x", (count, size)), b.constant(values(size, size)), name="y")
    return b.graph(b.add(_RELU, x))


NETWORKS = images, words


def types(graph: Graph) -> dict[str, str]:
    return {name: str(graph.tensors[name].data_type) for node in graph for name in node.outputs}


def run(graph: Graph, precision: str, x: Array | None = None) -> Array:
    return rs.Network(graph, precision=precision)(values(*graph.tensors["x"].dims) if x is None else x)


# --- what becomes of tensors --------------------------------------------------------------------------------


@pytest.mark.usefixtures("has_dots")
def test_what_lies_between_products_is_bf16_where_the_processor_multiplies_it() -> None:
    graph = rs.Network(images(), precision="bf16").plan().graph
    found = types(graph)
    narrow = {name for name, kind in found.items() if kind == "bf16"}
    assert {"first", "residual", "pool", "joined"} <= narrow
    assert found["scores"] == "f32"
    assert str(graph.tensors["x"].data_type) == "f32"
    # Of three channels, and of one: pairs would be empty.
    few = [
        node for node in graph if node.kind == "convolution" and graph.tensors[node.inputs[1]].dims[-3] < 16
    ]
    assert [str(graph.tensors[node.inputs[1]].data_type) for node in few] == ["f32", "f32"]
    weights = {
        str(graph.tensors[node.inputs[1]].data_type)
        for node in graph
        if node.kind in ("convolution", "inner_product") and node not in few
    }
    assert weights == {"bf16"}
    biases = [node.sources[2] for node in graph if node.kind == "convolution" and len(node.sources) > 2]
    assert {str(graph.tensors[name].data_type) for name in biases} == {"f32"}


@pytest.mark.usefixtures("has_dots")
def test_norms_and_softmax_read_f32_and_what_nothing_makes_is_converted_once() -> None:
    graph = rs.Network(words(), precision="bf16").plan().graph
    found = types(graph)
    assert [found[name] for name in ("q", "k", "v", "attention", "scores")] == ["bf16"] * 4 + ["f32"]
    for node in graph:
        kinds = [str(graph.tensors[name].data_type) for name in (*node.inputs, *node.outputs)]
        if node.kind == "softmax":
            assert kinds == ["f32", "f32"]
        if node.kind == "layer_normalization":
            assert set(kinds[:3]) == {"f32"}
        if node.kind == "matmul":
            assert kinds[:2] == ["bf16", "bf16"]
    copies = [node.inputs for node in graph if isinstance(node.operation, ReorderOperation)]
    assert copies == [("x",)]


@pytest.mark.usefixtures("has_none")
@pytest.mark.parametrize(("count", "kinds"), [(1, "f32 bf16 f32"), (8, "f32 bf16 f32"), (9, "f32 f32 f32")])
def test_weights_that_few_rows_read_are_narrow_elsewhere(count: int, kinds: str) -> None:
    net = rs.Network(rows(count), precision="bf16")
    (step,) = [step for step in net.plan().steps if step.operation == "inner_product"]
    assert " ".join(str(place.md.data_type) for place in (*step.reads, *step.writes)) == kinds
    a, b, c = kinds.split()
    assert f": inner_product of {a} x {b} to {c}, jit" in str(net.explain())
    assert f"precision: bf16, of which {int(count < 9)} of 1 steps have tensors" in str(net.explain())


@pytest.mark.usefixtures("has_none")
def test_weights_that_a_cache_holds_stay_f32() -> None:
    graph = images()
    assert lowered(graph, "bf16") is lowered(graph, "f32") is graph


@pytest.mark.parametrize("has", [True, False])
@pytest.mark.parametrize("make", [*NETWORKS, lambda: rows(2)])
def test_what_is_lowered_again_stays_as_it_is(
    make: Callable[[], Graph], monkeypatch: pytest.MonkeyPatch, *, has: bool
) -> None:
    monkeypatch.setattr(module, "has_dots_of_bf16", lambda: has)
    once = lowered(make(), "bf16")
    assert lowered(once, "bf16") == once


def test_weights_that_f16_does_not_hold_stay_f32() -> None:
    b, weights = GraphBuilder(), values(2100, 2100)
    weights[7, 7] = 70000
    b.add(InnerProductOperation(), b.input("x", (1, 2100)), b.constant(weights), name="y")
    x = np.ones((1, 2100), np.float32)
    graph = b.graph("y")
    assert lowered(graph, "f16") is graph
    np.testing.assert_array_equal(run(graph, "f16", x), run(graph, "f32", x))


@pytest.mark.usefixtures("has_dots")
def test_a_network_of_integers_stays_as_it_is() -> None:
    b = GraphBuilder()
    x = b.add(ReorderOperation(rs.u8), b.input("x", (4, 64)))
    x = b.add(MatmulOperation(), x, b.constant(np.ones((64, 64), np.int8)))
    x = b.add(ReorderOperation(rs.f32), x)
    graph = b.graph(b.add(MatmulOperation(), x, b.constant(values(64, 32))))
    assert lowered(graph, "bf16") is graph


# --- results ------------------------------------------------------------------------------------------------


def exact(graph: Graph) -> Array:
    """Return the results in f32, which are exact enough to check 16 bits."""
    return run(graph, "f32").astype(np.float64)


@pytest.mark.parametrize("rule", ["plain", "optimal"])
@pytest.mark.parametrize("make", NETWORKS)
@pytest.mark.usefixtures("has_dots")
def test_results_of_bf16_are_within_two_hundredths(make: Callable[[], Graph], rule: str) -> None:
    graph = make()
    x, wanted = values(*graph.tensors["x"].dims), exact(graph)
    found = rs.Network(graph, precision="bf16", rule=rule)(x)
    assert found.dtype == np.float32
    assert 1e-5 < np.abs(found - wanted).max() / np.abs(wanted).max() < 2e-2


_SPLIT = values(1, 16, 1, 1)
_BETWEEN: dict[str, Callable[[GraphBuilder, str], str]] = {
    "function": lambda b, x: b.add(EltwiseOperation("eltwise_gelu_tanh"), x),
    "clip": lambda b, x: b.add(EltwiseOperation("eltwise_clip", -0.5, 0.5), x),
    "own square": lambda b, x: b.add(BinaryOperation("binary_mul"), x, x),
    "constant": lambda b, x: b.add(BinaryOperation("binary_max"), x, b.constant(_SPLIT)),
    "condition": lambda b, x: b.add(
        BinaryOperation("binary_select"), x, x, b.add(BinaryOperation("binary_gt"), x, b.constant(_SPLIT))
    ),
    "sum": lambda b, x: b.add(SumOperation((1.0, 2.0)), x, b.add(_RELU, x)),
    "slopes": lambda b, x: b.add(PReluOperation(), x, b.constant(_SPLIT)),
    "softmax": lambda b, x: b.add(SoftmaxOperation("softmax_accurate", 1), x),
    "average": lambda b, x: b.add(
        PoolingOperation("pooling_avg_exclude_padding", (3, 3), (1, 1), (0, 0), (1, 1), (1, 1)), x
    ),
    "larger": lambda b, x: b.add(ResamplingOperation("resampling_nearest", (8, 8)), x),
    "mean": lambda b, x: b.add(ReductionOperation("reduction_mean", (2, 3)), x),
    "shuffle": lambda b, x: b.add(ShuffleOperation(1, 4), x),
    "slice": lambda b, x: b.add(SliceOperation((0, 0, 1, 3), (2, 16, 3, 2), (1, 1, 1, -1)), x),
    "pad": lambda b, x: b.add(PadOperation((0, 0, 1, 0), (0, 0, 1, 2), 0.5), x),
    "gather": lambda b, x: b.add(
        PrimitiveOperation("Gather", (("algorithm", "axis"), ("axis", 2))), x, b.constant(np.array([3, 0, 1]))
    ),
    "lrn": lambda b, x: b.add(LrnOperation("lrn_across_channels", 3, 1e-4, 0.75, 1.0), x),
    "another type": lambda b, x: b.add(ReorderOperation(rs.f32), b.add(ReorderOperation(rs.f16), x)),
}


@pytest.mark.usefixtures("has_dots")
@pytest.mark.parametrize("without", ["", "epilogues"])
@pytest.mark.parametrize("word", _BETWEEN)
def test_what_lies_between_products_may_be_anything(word: str, without: str) -> None:
    b = GraphBuilder()
    x = b.add(window(1), b.input("x", (2, 16, 4, 4)), b.constant(values(16, 16, 1, 1)))
    graph = b.graph(b.add(window(1), _BETWEEN[word](b, x), b.constant(values(24, 16, 1, 1))))
    x, off = values(2, 16, 4, 4), [without] if without else []
    wanted = rs.Network(graph)(x)
    net = rs.Network(graph, precision="bf16", without=off)
    assert np.abs(net(x) - wanted).max() < 2e-2 * np.abs(wanted).max()
    assert "precision: bf16, of which 0 " not in str(net.explain())


@pytest.mark.usefixtures("has_dots")
def test_tables_that_products_read_rows_of_are_narrow() -> None:
    b = GraphBuilder()
    gather = PrimitiveOperation("Gather", (("algorithm", "axis"), ("axis", 0)))
    x = b.add(gather, b.constant(values(50, 32)), b.input("x", (6,), "s64"), name="rows")
    graph = b.graph(b.add(MatmulOperation(), x, b.constant(values(32, 8))))
    x = np.arange(6) * 7
    wanted = values(50, 32)[x].astype(np.float64) @ values(32, 8)
    assert np.abs(run(graph, "bf16", x) - wanted).max() < 1e-2 * np.abs(wanted).max()
    assert types(rs.Network(graph, precision="bf16").plan().graph)["rows"] == "bf16"


@pytest.mark.usefixtures("has_dots")
def test_what_a_residual_reads_has_the_type_that_products_want() -> None:
    """Though moves of their own lead there."""
    b = GraphBuilder()
    y = b.add(InnerProductOperation(), b.input("x", (6, 32)), b.constant(values(32, 32)), name="first")
    views = [b.add(ReshapeOperation((2, 3, 32)), y), b.add(ReshapeOperation((3, 2, 32)), y)]
    z = b.add(MatmulOperation(), views[0], b.constant(values(1, 32, 32)))
    z = b.add(_ADD, b.add(ReshapeOperation((3, 2, 32)), z), views[1])
    graph = rs.Network(b.graph(z), precision="bf16").plan().graph
    assert types(graph)["first"] == "bf16"
    assert [node.inputs for node in graph if isinstance(node.operation, ReorderOperation)] == [("x",)]


@pytest.mark.usefixtures("has_none")
@pytest.mark.parametrize(("precision", "least", "most"), [("bf16", 1e-4, 1e-2), ("f16", 1e-6, 2e-3)])
@pytest.mark.parametrize("count", [1, 5])
def test_results_of_narrow_weights_are_as_near_as_these(
    precision: str, least: float, most: float, count: int
) -> None:
    graph = rows(count)
    x = values(count, 2100)
    weights = next(iter(graph.constants.values())).values
    wanted = np.maximum(x.astype(np.float64) @ weights.T.astype(np.float64), 0)
    error = np.abs(run(graph, precision, x) - wanted).max() / np.abs(wanted).max()
    assert least < error < most


def _glyphs(count: int, seed: int) -> tuple[Array, Array]:
    """Images of ten figures of strokes with noise, and which each is."""
    rng = np.random.default_rng(seed)
    figures = np.random.default_rng(7).random((10, 8, 8)) > 0.5
    kinds = rng.integers(0, 10, count)
    noisy = figures[kinds].reshape(count, 64) + 0.6 * rng.standard_normal((count, 64))
    return noisy.astype(np.float32), kinds


@pytest.mark.parametrize("precision", ["bf16", "f16"])
@pytest.mark.parametrize("has", [True, False])
def test_a_trained_network_chooses_the_same(
    precision: str, monkeypatch: pytest.MonkeyPatch, *, has: bool
) -> None:
    monkeypatch.setattr(module, "has_dots_of_bf16", lambda: has)
    x, kinds = _glyphs(512, 1)
    first, second = values(96, 64) * 2, values(10, 96)
    for _ in range(150):  # gradient descent on a softmax of a perceptron
        hidden = np.maximum(x @ first.T, 0)
        scores = hidden @ second.T
        share = np.exp(scores - scores.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        share[np.arange(512), kinds] -= 1
        back = (share @ second) * (hidden > 0)
        second -= 1e-3 * share.T @ hidden
        first -= 1e-3 * back.T @ x
    b = GraphBuilder()
    y = b.add(_RELU, b.add(InnerProductOperation(), b.input("x", (256, 64)), b.constant(first)))
    graph = b.graph(b.add(InnerProductOperation(), y, b.constant(second)))
    x, kinds = _glyphs(256, 2)
    chosen = run(graph, "f32", x).argmax(1)
    assert (chosen == kinds).mean() > 0.9
    assert (run(graph, precision, x).argmax(1) == chosen).mean() >= 0.99


# --- kernels ------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("has_dots")
@pytest.mark.parametrize("make", NETWORKS)
def test_products_are_of_pairs_where_the_processor_has_an_instruction(make: Callable[[], Graph]) -> None:
    """Planned here, and written for such a processor."""
    plan = rs.Network(make(), precision="bf16").plan()
    weights = {name for name, constant in plan.graph.constants.items() if constant.type.data_type is rs.bf16}
    places = {node.name: node.inputs[1:2] for node in plan.graph}
    products = [step for step in plan.steps if weights.issuperset(places.get(step.node, ("",)) or ("",))]
    assert len(products) == len(weights) >= 4
    for step in products:
        assert "bf16_contraction" in step.lowered.pd.impl_info_str
        trees = [getattr(part, "tree", None) for part in step.lowered.pd._impl.problem.program().steps]
        (tree,) = (tree for tree in trees if tree is not None)
        written = lower_contraction(tree, _OF_BF16, CacheSizes())
        assert "vdpbf16ps" in jit.assembly(written.ir(), _OF_BF16), step


# --- files and doors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("has", [True, False])
def test_a_saved_network_has_its_precision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has: bool
) -> None:
    monkeypatch.setattr(module, "has_dots_of_bf16", lambda: has)
    net, x = rs.Network(rows(2), precision="bf16"), values(2, 2100)
    wanted = net(x)
    net.save(tmp_path / "m.net")
    again = rs.Network.load(tmp_path / "m.net")
    assert again.precision == "bf16"
    np.testing.assert_array_equal(again(x), wanted)
    assert [str(step) for step in again.plan().steps] == [str(step) for step in net.plan().steps]
    for other in (pickle.loads(pickle.dumps(net)), net.with_rule("plain"), again.with_rule("plain")):
        assert other.precision == "bf16"
        np.testing.assert_allclose(other(x), wanted, rtol=0, atol=1e-2)


@pytest.mark.usefixtures("has_none")
def test_a_file_serves_batches_that_compute_with_other_types(tmp_path: Path) -> None:
    size = 2100

    def graph(dims: dict[str, tuple[int, ...]]) -> Graph:
        return rows(*dims["x"])

    inputs = [rs.graph.NetworkInput("x", (None, size), rs.f32)]
    net = rs.Network.of_source(
        inputs, [*graph({"x": (1, size)}).outputs], graph, is_linear=lambda batches: True, precision="bf16"
    )
    net.save(tmp_path / "m.net", (1, size))
    again = rs.Network.load(tmp_path / "m.net")
    for count, kind in ((1, "bf16"), (16, "f32")):
        x = values(count, size)
        np.testing.assert_array_equal(again(x), net(x))
        assert f"inner_product of f32 x {kind} to f32" in str(again.explain((count, size)))


def test_other_precisions_are_refused() -> None:
    with pytest.raises(rs.InvalidArguments, match="precision"):
        rs.Network(images(), precision="fp8")
    with pytest.raises(rs.InvalidArguments, match="precision"):
        rs.onnx.load(b"", precision="half")
    b = GraphBuilder()
    wide = b.graph(b.add(_RELU, b.input("x", (4, 4), "f64")))
    with pytest.raises(rs.Unimplemented, match="f64"):
        rs.Network(wide, precision="bf16")(np.ones((4, 4)))
    assert rs.Network(wide)(np.ones((4, 4))).sum() == 16


@pytest.mark.usefixtures("has_dots")
def test_models_of_onnx_take_a_precision() -> None:
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    weights = onnx.numpy_helper.from_array(values(64, 32), "w")
    x, y = (helper.make_tensor_value_info(name, 1, ["n", size]) for name, size in (("x", 64), ("y", 32)))
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    model = helper.make_model(helper.make_graph(nodes, "g", [x], [y], [weights]))
    net = rs.onnx.load(model.SerializeToString(), precision="bf16")
    assert net.precision == "bf16"
    x = values(4, 64)
    assert 1e-4 < np.abs(net(x) - x @ values(64, 32)).max() < 2e-2
    assert "matmul of bf16 x bf16 to f32" in str(net.explain((4, 64)))
