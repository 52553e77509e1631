"""Operators of com.microsoft, and quantized ones, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import restride as rs

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

Array = np.ndarray
MICROSOFT = "com.microsoft"
RANDOM = np.random.default_rng(37)


def reals(*dims: int, size: float = 1.0) -> Array:
    return (RANDOM.standard_normal(dims) * size).astype(np.float32)


def integers(kind: Any, *dims: int) -> Array:
    limits = np.iinfo(kind)
    return RANDOM.integers(limits.min, limits.max, dims, endpoint=True).astype(kind)


def weights(kind: Any, *dims: int) -> Array:
    """Half of the range of s8: on some processors the runtime sums pairs in 16 bits, which saturate."""
    return integers(kind, *dims) // 2 if kind is np.int8 else integers(kind, *dims)


class Case(NamedTuple):
    """A node, and what it reads: `known` are constants, None is left out. `outputs`: empty where unasked."""

    operator: str
    inputs: Mapping[str, Array | None]
    attributes: Mapping[str, Any] = {}
    known: Sequence[str] = ()
    outputs: Sequence[str] = ("y",)
    domain: str = MICROSOFT
    opset: int = 17


def model(case: Case) -> Any:
    names = [name if x is not None else "" for name, x in case.inputs.items()]
    node = onnx.helper.make_node(
        case.operator, names, list(case.outputs), domain=case.domain, **case.attributes
    )
    there = {name: x for name, x in case.inputs.items() if x is not None}
    number = onnx.helper.np_dtype_to_tensor_dtype
    graph = onnx.helper.make_graph(
        [node],
        "graph",
        [
            onnx.helper.make_tensor_value_info(name, number(x.dtype), x.shape)
            for name, x in there.items()
            if name not in case.known
        ],
        [onnx.helper.make_empty_tensor_value_info(name) for name in case.outputs if name],
        [onnx.numpy_helper.from_array(x, name) for name, x in there.items() if name in case.known],
    )
    imports = [onnx.helper.make_opsetid("", case.opset), onnx.helper.make_opsetid(MICROSOFT, 1)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)


def check(case: Case, *, off_by: int = 0, tolerance: float = 1e-5, rows: int | None = None) -> None:
    """The network gives what the runtime gives: integers that differ by so much at most. `rows`: so many of
    the third dim hold something.
    """
    made = model(case)
    brought = {name: x for name, x in case.inputs.items() if x is not None and name not in case.known}
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
    wanted = session.run(None, brought)
    found = rs.onnx.load(made)(brought)
    found = [found[name] for name in case.outputs if name] if isinstance(found, dict) else [found]
    for own, other in zip(found, wanted, strict=True):
        assert (own.dtype, own.shape) == (other.dtype, other.shape)
        if rows is not None and other.ndim == 4:
            own, other = own[:, :, :rows], other[:, :, :rows]
        if other.dtype.kind in "iu":
            assert np.abs(own.astype(np.int64) - other.astype(np.int64)).max(initial=0) <= off_by
        else:
            limit = tolerance * max(np.abs(other).max(initial=0), 1)
            assert np.allclose(own, other, rtol=0, atol=limit), np.abs(own - other).max()


# --- sums of products of integers ---------------------------------------------------------------------------


@pytest.mark.parametrize("known", [(), ("w", "wz"), ("xz", "w", "wz")], ids=str)
@pytest.mark.parametrize("kinds", [(np.uint8, np.int8), (np.uint8, np.uint8), (np.int8, np.int8)], ids=str)
def test_products_of_integers_are_exact(kinds: tuple[Any, Any], known: tuple[str, ...]) -> None:
    x, w = integers(kinds[0], 2, 3, 70), integers(kinds[1], 70, 5)
    zeros = {"xz": np.array(7, kinds[0]), "wz": integers(kinds[1], 5)}
    made = model(Case("MatMulInteger", {"x": x, "w": w, **zeros}, known=known, domain=""))
    found = rs.onnx.load(made)(
        {name: each for name, each in {"x": x, "w": w, **zeros}.items() if name not in known}
    )
    wanted = (x.astype(np.int64) - zeros["xz"]) @ (w.astype(np.int64) - zeros["wz"])
    assert found.dtype == np.int32
    assert np.array_equal(found, wanted)


@pytest.mark.parametrize("known", [(), ("w", "wz")], ids=str)
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions_of_integers_are_exact(groups: int, known: tuple[str, ...]) -> None:
    x, w = integers(np.uint8, 2, 4, 7, 6), integers(np.uint8, 6, 4 // groups, 3, 3)
    zeros = {"xz": np.array(200, np.uint8), "wz": np.array(99, np.uint8)}
    attributes = {"pads": [1, 0, 2, 1], "group": groups, "strides": [2, 1]}
    check(Case("ConvInteger", {"x": x, "w": w, **zeros}, attributes, known, domain=""))


SCALES = {"x": np.float32(0.02), "w": np.float32(0.03), "y": np.float32(0.7)}


def quantized(word: str, x: Array, zero: int, scale: Any = 0.02) -> dict[str, Array | None]:
    scales = {f"{word}s": np.asarray(scale, np.float32), f"{word}z": np.asarray(zero).astype(x.dtype)}
    return {word: x, **scales}


def result(kind: Any, scale: float, zero: int) -> dict[str, Array | None]:
    return {"ys": np.array(scale, np.float32), "yz": np.array(zero, kind)}


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("kinds", [(np.uint8, np.int8), (np.int8, np.int8), (np.uint8, np.uint8)], ids=str)
def test_quantized_products(kinds: tuple[Any, Any], is_known: bool) -> None:
    x, w = integers(kinds[0], 3, 40), weights(kinds[1], 40, 6)
    of_weights = quantized("w", w, np.zeros(6, int) + 3, 2.0 ** -np.arange(3, 9))
    inputs = quantized("x", x, 11) | of_weights | result(kinds[0], 0.75, 5)
    known = [name for name in inputs if name != "x"] if is_known else []
    check(Case("QLinearMatMul", inputs, known=known, domain="", opset=21), off_by=1)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("groups", [1, 2])
def test_quantized_convolutions(groups: int, is_known: bool) -> None:
    x, w = integers(np.uint8, 2, 4, 7, 6), weights(np.int8, 6, 4 // groups, 3, 3)
    of_weights = quantized("w", w, np.zeros(6, int), 2.0 ** -np.arange(3, 9))
    bias = RANDOM.integers(-9999, 9999, 6).astype(np.int32)
    inputs = quantized("x", x, 100) | of_weights | result(np.uint8, 0.5, 128) | {"b": bias}
    known = [name for name in inputs if name != "x"] if is_known else []
    check(Case("QLinearConv", inputs, {"pads": [1, 1, 1, 1], "group": groups}, known, domain=""), off_by=1)


@pytest.mark.parametrize(
    "x", [reals(3, 20), np.abs(reals(5)) + 1, -np.abs(reals(2, 2, 3)) - 1, np.zeros(4, "f4")]
)
def test_tensors_are_quantized_by_their_extremes(x: Array) -> None:
    check(Case("DynamicQuantizeLinear", {"x": x}, outputs=("y", "s", "z"), domain=""), off_by=1)


@pytest.mark.parametrize("is_known", [True, False])
def test_products_of_what_is_quantized_in_a_run(is_known: bool) -> None:
    inputs = {
        "x": reals(2, 3, 40), "w": weights(np.int8, 40, 6), "ws": np.abs(reals(6)) / 50,
        "wz": integers(np.int8, 6), "b": reals(6),
    }  # fmt: skip
    known = [name for name in inputs if name != "x"] if is_known else []
    check(Case("DynamicQuantizeMatMul", inputs, known=known), tolerance=1e-4)


def test_products_of_integers_become_reals() -> None:
    inputs = {
        "x": integers(np.uint8, 3, 40), "w": weights(np.int8, 40, 6), "xs": np.array([0.02], np.float32),
        "ws": np.abs(reals(6)) / 50, "xz": np.array([5], np.uint8), "wz": integers(np.int8, 6), "b": reals(6),
    }  # fmt: skip
    check(Case("MatMulIntegerToFloat", inputs))


# --- functions of what integers stand for -------------------------------------------------------------------

IMAGE = integers(np.uint8, 2, 4, 6, 6)
ROWS = integers(np.int8, 3, 10)
FUNCTIONS = [
    Case(
        "QLinearAdd", quantized("a", IMAGE, 9) | quantized("b", IMAGE[:1], 99, 0.05) | result("u1", 0.06, 70)
    ),
    Case("QLinearMul", quantized("a", ROWS, 9) | quantized("b", ROWS, -9, 0.05) | result("i1", 0.06, 7)),
    Case("QLinearSigmoid", quantized("x", ROWS, 9) | result("i1", 1 / 256, -128)),
    Case("QLinearLeakyRelu", quantized("x", ROWS, 9) | result("i1", 0.02, 3), {"alpha": 0.2}),
    Case("QLinearAveragePool", quantized("x", IMAGE, 9) | result("u1", 0.02, 3), {"kernel_shape": [3, 2]}),
    Case("QLinearGlobalAveragePool", quantized("x", IMAGE, 9) | result("u1", 0.01, 3), {"channels_last": 0}),
    Case("QLinearSoftmax", quantized("x", IMAGE, 9) | result("u1", 1 / 256, 0), {"axis": -1, "opset": 13}),
    Case(
        "QLinearConcat",
        result("u1", 0.05, 3) | quantized("a", IMAGE, 9) | quantized("b", IMAGE[:1], 99, 0.05),
        {"axis": 0},
    ),
]


@pytest.mark.parametrize("case", FUNCTIONS, ids=lambda case: case.operator)
def test_functions_of_quantized_tensors(case: Case) -> None:
    check(case._replace(known=[name for name in case.inputs if len(name) == 2]), off_by=1)


# --- functions, products, normalizations --------------------------------------------------------------------

X = reals(2, 5, 12)
ROW = reals(12)
PLANE = reals(1, 3, 6, 6)
LEFT, RIGHT = reals(2, 5, 12), reals(2, 12, 4)
TABLES = {"words": reals(20, 12), "places": reals(8, 12), "parts": reals(2, 12)}
WORDS = {
    "ids": RANDOM.integers(0, 20, (2, 5)).astype(np.int32),
    "of": RANDOM.integers(0, 2, (2, 5)).astype(np.int32),
}
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 0]], np.int32)
PLAIN = [
    Case("Gelu", {"x": X}),
    Case("BiasGelu", {"x": X, "b": ROW}),
    Case("FastGelu", {"x": X}),
    Case("FastGelu", {"x": X, "b": ROW}),
    Case("QuickGelu", {"x": X}, {"alpha": 1.5}),
    Case("SkipLayerNormalization", {"x": X, "s": reals(2, 5, 12), "g": ROW, "b": ROW}),
    Case("SkipLayerNormalization", {"x": X, "s": X, "g": ROW, "b": None, "o": ROW}, {"epsilon": 0.1}),
    Case("SkipLayerNormalization", {"x": X, "s": X, "g": ROW, "b": ROW}, outputs=("y", "", "", "sum")),
    Case("SkipSimplifiedLayerNormalization", {"x": X, "s": X, "g": ROW, "o": ROW}, {"epsilon": 0.1}),
    Case("SkipSimplifiedLayerNormalization", {"x": X, "s": X, "g": ROW}, outputs=("y", "", "", "sum")),
    Case("SimplifiedLayerNormalization", {"x": X, "g": ROW}, {"epsilon": 0.1}, domain=""),
    Case("EmbedLayerNormalization", {**WORDS, **TABLES, "g": ROW, "b": ROW, "m": MASK}, outputs=("y", "n")),
    Case(
        "EmbedLayerNormalization",
        {**WORDS, "of": None, **TABLES, "parts": None, "g": ROW, "b": ROW},
        outputs=("y", "", "sum"),
    ),
    Case("FusedMatMul", {"a": LEFT, "b": RIGHT}, {"alpha": 0.3}),
    Case("FusedMatMul", {"a": LEFT, "b": RIGHT.transpose(0, 2, 1).copy()}, {"transB": 1}),
    Case("TransposeMatMul", {"a": LEFT.transpose(0, 2, 1).copy(), "b": RIGHT}, {"transA": 1, "alpha": 2.0}),
    Case("FusedGemm", {"a": LEFT[0], "b": RIGHT[0], "c": reals(4)}, {"activation": "Relu", "alpha": 0.5}),
    Case(
        "FusedGemm",
        {"a": LEFT[0], "b": RIGHT[0]},
        {"activation": "LeakyRelu", "activation_alpha": 0.5},
    ),
    Case("FusedConv", {"x": PLANE, "w": reals(4, 3, 3, 3), "b": reals(4)}, {"activation": "Tanh"}),
    Case(
        "FusedConv",
        {"x": PLANE, "w": reals(4, 3, 3, 3), "b": reals(4), "z": reals(1, 4, 6, 6)},
        {"activation": "Relu", "pads": [1, 1, 1, 1]},
    ),
    Case(
        "FusedConv",
        {"x": PLANE, "w": reals(4, 3, 3, 3)},
        {"activation": "Clip", "activation_params": [-0.5, 0.5]},
    ),
]  # fmt: skip


@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.operator)
def test_operators_of_optimized_models(case: Case) -> None:
    check(case)


@pytest.mark.parametrize("zeros", ["none", "bytes", "reals"])
@pytest.mark.parametrize("bits", [4, 8])
def test_weights_of_few_bits(bits: int, zeros: str) -> None:
    k, n, block = 70, 6, 32
    blocks = -(-k // block)
    packed, scales = integers(np.uint8, n, blocks, block * bits // 8), np.abs(reals(n * blocks))
    offset = integers(np.uint8, n * -(-blocks * bits // 8)) if zeros == "bytes" else reals(n * blocks)
    inputs = {"x": reals(3, k), "w": packed, "s": scales} | ({} if zeros == "none" else {"z": offset})
    if zeros == "reals" and bits == 8:
        pytest.skip("the runtime has none")
    attributes = {"K": k, "N": n, "bits": bits, "block_size": block}
    check(Case("MatMulNBits", inputs, attributes, [*inputs][1:]), tolerance=1e-4)


# --- attention ----------------------------------------------------------------------------------------------

HEADS = 3
QKV = {"w": reals(12, 36, size=0.3), "b": reals(36)}
COUNTS = np.array([3, 5], np.int32)
ENDS = np.array([3, 5, 1, 0], np.int32)
SQUARES = (RANDOM.random((2, 5, 5)) > 0.3).astype(np.int32) | np.eye(5, dtype=np.int32)
OTHER = {"k": reals(2, 7, 12), "v": reals(2, 7, 12)}
ATTENTION = {
    "plain": Case("Attention", {"x": X, **QKV}),
    "causal": Case("Attention", {"x": X, **QKV}, {"unidirectional": 1}),
    "scale": Case("Attention", {"x": X, **QKV}, {"scale": 0.3}),
    "counts": Case("Attention", {"x": X, **QKV, "m": COUNTS}),
    "ends": Case("Attention", {"x": X, **QKV, "m": ENDS}),
    "mask": Case("Attention", {"x": X, **QKV, "m": MASK}),
    "squares": Case("Attention", {"x": X, **QKV, "m": SQUARES}),
    "added": Case("Attention", {"x": X, **QKV, "m": None, "p": None, "a": reals(2, HEADS, 5, 5)}),
    "sizes": Case(
        "Attention", {"x": X, "w": reals(12, 42), "b": reals(42)}, {"qkv_hidden_sizes": [12, 12, 18]}
    ),
    "heads": Case("MultiHeadAttention", {"x": X, **OTHER}),
    "heads with bias": Case("MultiHeadAttention", {"x": X, **OTHER, "b": reals(36)}),
    "heads with mask": Case(
        "MultiHeadAttention",
        {"x": X, **OTHER, "b": None, "m": (np.arange(7) < np.array([[4], [7]])).astype(np.int32)},
    ),
    "heads with more": Case(
        "MultiHeadAttention", {"x": X, **OTHER, "b": None, "m": None, "a": reals(1, HEADS, 5, 7)}
    ),
    "keys of heads": Case("MultiHeadAttention", {"x": X, "k": reals(2, 3, 7, 4), "v": reals(2, 3, 7, 4)}),
    "causal heads": Case("MultiHeadAttention", {"x": X, "k": X, "v": X}, {"unidirectional": 1}),
}


@pytest.mark.parametrize("name", ATTENTION)
def test_attention(name: str) -> None:
    case = ATTENTION[name]
    check(case._replace(attributes={"num_heads": HEADS, **case.attributes}))


def test_packed_attention_is_that_of_its_parts() -> None:
    # The runtime has no packed form on a CPU.
    parts = [reals(2, 5, 12) for _ in range(3)]
    apart = Case("MultiHeadAttention", dict(zip("qkv", parts, strict=True)), {"num_heads": HEADS})
    packed = np.stack([part.reshape(2, 5, HEADS, 4) for part in parts], 3)
    first = rs.onnx.load(model(apart))(apart.inputs)
    second = rs.onnx.load(model(apart._replace(inputs={"q": packed})))({"q": packed})
    pair = np.stack([part.reshape(2, 5, HEADS, 4) for part in parts[1:]], 3)
    third = rs.onnx.load(model(apart._replace(inputs={"q": parts[0], "k": pair})))({"q": parts[0], "k": pair})
    assert np.allclose(first, second, atol=1e-6)
    assert np.allclose(first, third, atol=1e-6)


PAST = {"pk": reals(2, HEADS, 6, 4), "pv": reals(2, HEADS, 6, 4)}
GROUPS = {"num_heads": 4, "kv_num_heads": 2}
TABLES = {"cos": np.cos(reals(16, 8)), "sin": np.sin(reals(16, 8))}
STEP = {"q": reals(2, 1, 64), "k": reals(2, 1, 32), "v": reals(2, 1, 32)}
CALL = {"q": reals(2, 5, 64), "k": reals(2, 5, 32), "v": reals(2, 5, 32)}
ROOM = {"pk": reals(2, 2, 9, 16), "pv": reals(2, 2, 9, 16)}


def counted(lasts: Sequence[int], total: int) -> dict[str, Array]:
    return {"last": np.array(lasts, np.int32), "total": np.array(total, np.int32)}


WITH_PAST = {
    "attention": Case(
        "Attention", {"x": X, **QKV, "m": None, "p": reals(2, 2, HEADS, 6, 4)}, outputs=("y", "t")
    ),
    "causal": Case(
        "Attention",
        {"x": X, **QKV, "m": None, "p": reals(2, 2, HEADS, 6, 4)},
        {"unidirectional": 1},
        outputs=("y", "t"),
    ),
    "heads": Case(
        "MultiHeadAttention",
        {"x": X, "k": X, "v": X, "b": None, "m": None, "a": None, **PAST},
        outputs=("y", "tk", "tv"),
    ),
}


@pytest.mark.parametrize("name", WITH_PAST)
def test_attention_with_a_past(name: str) -> None:
    case = WITH_PAST[name]
    check(case._replace(attributes={"num_heads": HEADS, **case.attributes}))


OF_GROUPS = {
    "a beginning": ({**CALL, "pk": None, "pv": None, **counted([4, 4], 5)}, {}),
    "a beginning with room": ({**CALL, **ROOM, **counted([4, 4], 5)}, {}),
    "a step": ({**STEP, **ROOM, **counted([6, 6], 7)}, {}),
    "steps of two lengths": ({**STEP, **ROOM, **counted([3, 6], 7)}, {}),
    "a step that needs more room": ({**STEP, **ROOM, **counted([9, 9], 10)}, {}),
    "turned": ({**CALL, "pk": None, "pv": None, **counted([4, 4], 5), **TABLES}, {"do_rotary": 1}),
    "a turned step": ({**STEP, **ROOM, **counted([3, 6], 7), **TABLES}, {"do_rotary": 1}),
    "neighbors turned": (
        {**STEP, **ROOM, **counted([6, 6], 7), **TABLES},
        {"do_rotary": 1, "rotary_interleaved": 1},
    ),
    "a window": ({**CALL, "pk": None, "pv": None, **counted([4, 4], 5)}, {"local_window_size": 2}),
    "a step in a window": ({**STEP, **ROOM, **counted([6, 6], 7)}, {"local_window_size": 3}),
    "capped": ({**CALL, "pk": None, "pv": None, **counted([4, 4], 5)}, {"softcap": 2.0, "scale": 0.7}),
    "smooth": ({**CALL, "pk": None, "pv": None, **counted([4, 4], 5)}, {"smooth_softmax": 1}),
    "packed": (
        {"q": reals(2, 5, 128), "k": None, "v": None, "pk": None, "pv": None, **counted([4, 4], 5)},
        {},
    ),
}


@pytest.mark.parametrize("name", OF_GROUPS)
def test_attention_of_groups(name: str) -> None:
    inputs, attributes = OF_GROUPS[name]
    outputs = ("y", "tk", "tv") if inputs["pk"] is not None else ("y",)
    case = Case("GroupQueryAttention", inputs, {**GROUPS, **attributes}, ("total",), outputs)
    check(case, rows=int(inputs["last"].min()) + 1)


TURNS = {"cos": np.cos(reals(9, 2)), "sin": np.sin(reals(9, 2))}
PLACES = RANDOM.integers(0, 9, (2, 5))


@pytest.mark.parametrize("interleaved", [0, 1])
@pytest.mark.parametrize("x", [X, reals(2, 3, 5, 4)], ids=["rows", "heads"])
@pytest.mark.parametrize("places", [PLACES, np.array([3])], ids=["places", "start"])
def test_rotary_embedding(interleaved: int, x: Array, places: Array) -> None:
    check(Case("RotaryEmbedding", {"x": x, "p": places, **TURNS}, {"interleaved": interleaved}))


def test_rotary_embedding_of_the_first_channels() -> None:
    attributes = {"rotary_embedding_dim": 4, "num_heads": 2}
    check(Case("RotaryEmbedding", {"x": X, "p": PLACES, **TURNS}, attributes))


def test_operators_of_two_domains_are_apart() -> None:
    """Attention of ONNX has queries, keys and values, and no weights."""
    query = reals(2, 3, 5, 4)
    inputs = {"q": query, "k": query, "v": query}
    check(Case("Attention", inputs, domain="", opset=23))
    with pytest.raises(rs.Unimplemented, match=r"other\.domain\.Gelu"):
        rs.onnx.load(model(Case("Gelu", {"x": X}, domain="other.domain")))
