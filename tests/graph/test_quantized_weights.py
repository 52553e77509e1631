"""Networks whose weights stay quantized up to the product, beside onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import restride as rs

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

Array = np.ndarray
MICROSOFT = "com.microsoft"
NUMBER = onnx.helper.np_dtype_to_tensor_dtype


def node(operator: str, *inputs: str, to: str = "y", domain: str = "", **attributes: Any) -> Any:
    return onnx.helper.make_node(operator, list(inputs), [to], domain=domain, **attributes)


def model(
    nodes: Sequence[Any], x: Array, constants: Mapping[str, Array | Any], dims: Sequence[int | str] = ()
) -> Any:
    """A model of an input "x" whose result is "y"; constants are arrays or ready tensors."""
    given = [
        onnx.numpy_helper.from_array(value, name) if isinstance(value, np.ndarray) else value
        for name, value in constants.items()
    ]
    graph = onnx.helper.make_graph(
        list(nodes),
        "graph",
        [onnx.helper.make_tensor_value_info("x", NUMBER(x.dtype), dims or x.shape)],
        [onnx.helper.make_empty_tensor_value_info("y")],
        given,
    )
    imports = [onnx.helper.make_opsetid("", 21), onnx.helper.make_opsetid(MICROSOFT, 1)]
    return onnx.helper.make_model(graph, opset_imports=imports, ir_version=10)


def nibbles(name: str, values: Array, kind: str = "UINT4") -> Any:
    """A tensor of integers of 4 bits."""
    number = getattr(onnx.TensorProto, kind)
    flat = values.reshape(-1).view(np.uint8) & 15
    flat = np.concatenate([flat, np.zeros(flat.size % 2, np.uint8)])
    packed = flat[::2] | flat[1::2] << 4
    return onnx.helper.make_tensor(name, number, values.shape, packed.tobytes(), raw=True)


def by_runtime(made: Any, x: Array) -> Array:
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(made.SerializeToString(), options, ["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"x": x})[0])


def check(made: Any, x: Array, tolerance: float = 1e-4) -> Any:
    """The network, which gives what the runtime gives."""
    net, wanted = rs.onnx.load(made), by_runtime(made, x)
    found = net(x)
    assert found.shape == wanted.shape
    assert found.dtype == wanted.dtype
    worst = np.abs(found.astype(np.float32) - wanted.astype(np.float32)).max(initial=0)
    assert worst <= tolerance * max(np.abs(wanted.astype(np.float32)).max(initial=0), 1e-30)
    return net


def stored_bytes(net: Any, x: Array) -> int:
    """The bytes of all constants in the formats that runs read."""
    return sum(md.size for _, md in net.plan(x.shape).constants.values())


def products(net: Any, x: Array) -> list[str]:
    return [step.operation for step in net.plan(x.shape).steps]


def bits_model(
    m: int,
    n: int,
    k: int,
    block: int,
    bits: int = 4,
    zeros: str = "",
    bias: bool = False,
    kind: Any = np.float32,
    **more: int,
) -> tuple[Any, Array]:
    random = np.random.default_rng((m, n, k, block, bits))
    blocks = -(-k // block)
    x = random.standard_normal((m, k)).astype(kind)
    constants = {
        "w": random.integers(0, 256, (n, blocks, block * bits // 8), np.uint8),
        "s": (random.random((n, blocks)) + 0.1).astype(kind),
    }
    names = ["x", "w", "s"]
    if zeros == "packed":
        constants["z"] = random.integers(0, 256, (n, -(-blocks * bits // 8)), np.uint8)
    elif zeros:
        constants["z"] = random.integers(0, 16, (n, blocks)).astype(kind) + kind(0.5 * (zeros == "halves"))
    if bias:
        constants["b"] = random.standard_normal(n).astype(kind)
    names += ["z" if zeros else "", "", "b"] if bias else ["z"] if zeros else []
    attributes = {"K": k, "N": n, "bits": bits, "block_size": block, **more}
    return model([node("MatMulNBits", *names, domain=MICROSOFT, **attributes)], x, constants), x


@pytest.mark.parametrize("zeros", ["", "packed", "whole"])
@pytest.mark.parametrize("block", [16, 32, 128])
@pytest.mark.parametrize(("m", "n", "k"), [(1, 19, 256), (7, 64, 384), (7, 30, 400)])
def test_products_by_weights_of_4_bits_read_them_as_they_are(
    m: int, n: int, k: int, block: int, zeros: str
) -> None:
    made, x = bits_model(m, n, k, block, zeros=zeros)
    net = check(made, x)
    assert products(net, x)[-1] == "quantized_matmul"
    assert products(net, x)[:-1] == ["concat"] * (k % block > 0)
    assert "quantized_matmul" in str(net.explain(x.shape))
    # Half a byte an element, scales of floats, and zero points.
    assert stored_bytes(net, x) < n * k * 2


@pytest.mark.parametrize("zeros", ["", "packed"])
@pytest.mark.parametrize("m", [1, 7])
@pytest.mark.parametrize("bits", [2, 8])
def test_weights_of_other_bits_stay_integers(bits: int, m: int, zeros: str) -> None:
    made, x = bits_model(m, 40, 256, 64, bits, zeros)
    net = check(made, x)
    assert products(net, x) == ["quantized_matmul"]
    assert stored_bytes(net, x) < 40 * 256 * 2


def test_a_bias_and_functions_are_of_the_one_product() -> None:
    made, x = bits_model(3, 24, 128, 32, bias=True)
    made.graph.node[0].output[0] = "p"
    made.graph.node.append(node("Relu", "p"))
    net = check(made, x)
    assert products(net, x) == ["quantized_matmul"]


def test_zero_points_that_are_no_integers_are_multiplied_too() -> None:
    made, x = bits_model(3, 24, 128, 32, zeros="halves")
    assert products(check(made, x), x) == ["quantized_matmul"]


def test_halves_are_multiplied_too() -> None:
    made, x = bits_model(5, 24, 128, 32, zeros="packed", kind=np.float16)
    assert products(check(made, x, 4e-3), x) == ["quantized_matmul"]


@pytest.mark.parametrize("level", [0, 1, 4])
@pytest.mark.parametrize(
    ("m", "k", "words"),
    [(1, 256, {}), (7, 400, {"zeros": "packed"}), (3, 256, {"bits": 8}), (3, 256, {"bias": True})],
)
def test_rows_are_bytes_where_the_accuracy_level_allows_it(
    m: int, k: int, words: dict[str, Any], level: int, tmp_path: Path
) -> None:
    made, x = bits_model(m, 64, k, 32, **words, accuracy_level=level)
    net = check(made, x, 1e-2 if level == 4 else 1e-4)
    (step,) = [step for step in net.plan(x.shape).steps if step.operation == "quantized_matmul"]
    name = step.lowered.pd.impl_info_str.rsplit(":", 1)[1].split("+")[-1]
    assert name == ("integer_contraction" if level == 4 else "contraction")
    net.save(tmp_path / "net")
    assert np.array_equal(rs.Network.load(tmp_path / "net")(x), net(x))
    # Without the fusion the weights are floats, and rows too.
    plain = rs.onnx.load(made, without="integers")
    assert "quantized_matmul" not in products(plain, x)
    exact = by_runtime(bits_model(m, 64, k, 32, **words)[0], x)
    assert np.abs(plain(x) - exact).max() <= 1e-4 * np.abs(exact).max()


def with_groups(made: Any, groups: Array) -> None:
    """Give each element of a row its group."""
    made.graph.initializer.append(onnx.numpy_helper.from_array(groups.astype(np.int32), "g"))
    inputs = [*made.graph.node[0].input, "", ""][:4]
    del made.graph.node[0].input[:]
    made.graph.node[0].input.extend([*inputs, "g"])


@pytest.mark.parametrize("zeros", ["", "packed"])
@pytest.mark.parametrize("bits", [2, 4, 8])
@pytest.mark.parametrize("level", [0, 4])
@pytest.mark.parametrize(("m", "k"), [(1, 256), (7, 256), (3, 250)])
def test_groups_may_be_of_elements_anywhere_in_a_row(
    m: int, k: int, level: int, bits: int, zeros: str
) -> None:
    made, x = bits_model(m, 40, k, 32, bits, zeros, accuracy_level=level)
    groups = np.random.default_rng(k).permutation(np.arange(k) // 32)
    with_groups(made, groups)
    known = {each.name: onnx.numpy_helper.to_array(each) for each in made.graph.initializer}
    values, shift = (
        np.stack([each >> at & (1 << bits) - 1 for at in range(0, 8, bits)], -1).reshape(40, -1)
        for each in (known["w"], known.get("z", known["w"]))
    )
    shift = shift[:, groups] if zeros else np.full((), 1 << bits - 1)
    wanted = x @ ((values[:, :k].astype(np.float64) - shift) * known["s"][:, groups]).T
    net = rs.onnx.load(made)
    assert np.abs(net(x) - wanted).max() <= (1e-2 if level else 1e-5) * np.abs(wanted).max()
    assert products(net, x)[-1] == "quantized_matmul"
    assert stored_bytes(net, x) < 40 * k * 2 + 8 * k


@pytest.mark.parametrize("zeros", ["", "halves"])
def test_such_groups_are_those_of_the_runtime(zeros: str) -> None:
    """With a g_idx and zero points in bytes the runtime is wrong, in the usual order too: it is not asked."""
    made, x = bits_model(3, 40, 256, 32, zeros=zeros)
    with_groups(made, np.random.default_rng(1).permutation(np.arange(256) // 32))
    assert products(check(made, x), x)[-1] == "quantized_matmul"


def test_groups_in_order_take_no_gather_and_others_are_named() -> None:
    made, x = bits_model(1, 8, 64, 32)
    with_groups(made, np.arange(64) // 32)
    assert products(check(made, x), x) == ["quantized_matmul"]
    for groups, error, match in (
        (np.arange(64) // 33, rs.Unimplemented, "more than 32"),
        (np.arange(64) // 32 + 1, rs.InvalidArguments, "64 groups"),
        (np.arange(32) // 16, rs.InvalidArguments, "32 groups"),
        (np.arange(64) // 32 - 1, rs.InvalidArguments, "2 blocks"),
    ):
        made, x = bits_model(1, 8, 64, 32)
        with_groups(made, groups)
        with pytest.raises(error, match=match):
            rs.onnx.load(made)(x)


# --- DequantizeLinear ---------------------------------------------------------------------------------------

KINDS = {
    "UINT4": (0, 16, ml_dtypes.uint4), "INT4": (-8, 8, ml_dtypes.int4),
    "UINT8": (0, 256, np.uint8), "INT8": (-128, 128, np.int8),
}  # fmt: skip


def quantized(name: str, dims: Sequence[int], kind: str, seed: int = 0) -> Any:
    low, high, dtype = KINDS[kind]
    values = np.random.default_rng((seed, *dims)).integers(low, high, dims).astype(np.int16)
    if kind in ("UINT4", "INT4"):
        return nibbles(name, values.astype(np.int8), kind)
    return onnx.numpy_helper.from_array(values.astype(dtype), name)


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize("form", ["product", "transposed", "gemm"])
def test_dequantized_blocks_are_multiplied_as_they_are(form: str, kind: str, has_zeros: bool) -> None:
    k, n, block = 96, 20, 32
    x = np.random.default_rng(0).standard_normal((7, k)).astype(np.float32)
    dims, axis = ((k, n), 0) if form == "product" else ((n, k), 1)
    own = tuple(-(-size // block) if at == axis else size for at, size in enumerate(dims))
    scales = np.random.default_rng(1).random(own).astype(np.float32) + np.float32(0.1)
    constants: dict[str, Any] = {"w": quantized("w", dims, kind), "s": scales}
    if has_zeros:
        constants["z"] = quantized("z", own, kind, 1)
    names = ["w", "s", "z"][: 2 + has_zeros]
    nodes = [node("DequantizeLinear", *names, to="d", axis=axis, block_size=block)]
    if form == "transposed":
        nodes += [node("Transpose", "d", to="t", perm=[1, 0]), node("MatMul", "x", "t")]
    elif form == "gemm":
        constants["b"] = scales[:, 0].copy()
        nodes += [node("Gemm", "x", "d", "b", transB=1)]
    else:
        nodes += [node("MatMul", "x", "d")]
    made = model(nodes, x, constants)
    net = check(made, x)
    assert products(net, x) == ["quantized_matmul"]
    assert stored_bytes(net, x) < k * n * 2
    # Without the fusion the weights are floats.
    plain = rs.onnx.load(made, without="integers")
    assert "quantized_matmul" not in products(plain, x)
    assert np.allclose(plain(x), net(x), atol=1e-3 * np.abs(net(x)).max())


@pytest.mark.parametrize(("m", "n"), [(1, 24), (6, 21)])
def test_scales_may_be_those_of_columns(m: int, n: int) -> None:
    x = np.random.default_rng(0).standard_normal((2, m, 40)).astype(np.float32)
    scales = np.random.default_rng(1).random(n).astype(np.float32) + np.float32(0.1)
    constants = {"w": quantized("w", (40, n), "INT4"), "s": scales}
    made = model([node("DequantizeLinear", "w", "s", to="d", axis=1), node("MatMul", "x", "d")], x, constants)
    assert "quantized_matmul" in products(check(made, x), x)


# --- tables -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize("kind", ["UINT4", "INT4", "UINT8"])
def test_of_a_table_those_rows_are_floats_that_are_taken(kind: str, has_zeros: bool) -> None:
    rows, width, block = 500, 64, 32
    x = np.array([[3, 499, 0], [7, -1, 3]], np.int64)
    scales = np.random.default_rng(1).random((rows, width // block)).astype(np.float32) + np.float32(0.1)
    constants = {"w": quantized("w", (rows, width), kind), "s": scales}
    if has_zeros:
        constants["z"] = quantized("z", scales.shape, kind, 1)
    names = ["w", "s", "z"][: 2 + has_zeros]
    nodes = [node("DequantizeLinear", *names, to="d", axis=1, block_size=block), node("Gather", "d", "x")]
    net = check(model(nodes, x, constants), x)
    assert stored_bytes(net, x) < rows * width * 2
    assert "into" in str(net.explain(x.shape))


@pytest.mark.parametrize("has_zeros", [False, True])
@pytest.mark.parametrize(("kind", "bits"), [("UINT4", 4), ("INT4", 4), ("bytes", 4), ("bytes", 8)])
def test_gather_block_quantized(kind: str, bits: int, has_zeros: bool) -> None:
    rows, width, block = 50, 64, 16
    x = np.array([[3, 49, 0]], np.int64)
    scales = np.random.default_rng(1).random((rows, width // block)).astype(np.float32) + np.float32(0.1)
    random = np.random.default_rng(2)
    constants: dict[str, Any]
    if kind == "bytes":
        constants = {"w": random.integers(0, 256, (rows, width * bits // 8), np.uint8), "s": scales}
        zeros: Any = random.integers(0, 256, (rows, width // block * bits // 8), np.uint8)
    else:
        constants = {"w": quantized("w", (rows, width), kind), "s": scales}
        zeros = quantized("z", scales.shape, kind, 1)
    attributes = {"gather_axis": 0, "quantize_axis": 1, "block_size": block} | (
        {} if bits == 4 else {"bits": bits}
    )
    names = ["w", "x", "s", *(["z"] if has_zeros else [])]
    constants |= {"z": zeros} if has_zeros else {}
    made = model([node("GatherBlockQuantized", *names, domain=MICROSOFT, **attributes)], x, constants)
    net = check(made, x)
    assert stored_bytes(net, x) < rows * width * 2


# --- networks -----------------------------------------------------------------------------------------------


def test_a_saved_network_has_weights_of_4_bits(tmp_path: Path) -> None:
    made, x = bits_model(3, 64, 256, 32, zeros="packed")
    net = rs.onnx.load(made)
    wanted = net(x)
    net.save(tmp_path / "net")
    again = rs.Network.load(tmp_path / "net")
    assert np.array_equal(again(x), wanted)
    assert products(again, x) == ["quantized_matmul"]
    assert (tmp_path / "net").stat().st_size < 64 * 256 * 2 + 20_000


def test_elements_of_4_bits_are_never_a_byte_each(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.random.default_rng(0).standard_normal((2, 256)).astype(np.float32)
    scales = np.random.default_rng(1).random((8, 64)).astype(np.float32)
    constants = {"w": quantized("w", (256, 64), "UINT4"), "s": scales}
    nodes = [node("DequantizeLinear", "w", "s", to="d", axis=0, block_size=32), node("MatMul", "x", "d")]
    made = model(nodes, x, constants, ("batch", 256))
    wanted = by_runtime(made, x)
    for module in ("runtime.views", "graph.importers.onnx.tensors"):
        name = f"restride.{module}.unpacked_nibbles"
        monkeypatch.setattr(name, lambda packed: pytest.fail("it is unpacked"))
    net = rs.onnx.load(made)
    for rows in (1, 2):
        assert np.allclose(net(x[:rows]), wanted[:rows], atol=1e-3)
    (weights,) = (
        constant for constant, _ in net.plan((2, 256)).constants.values() if constant.type.dims == (256, 64)
    )
    assert weights.content.nbytes == 256 * 32


def test_a_table_may_be_the_weights_of_a_product_too() -> None:
    x = np.array([[1, 2, 39]], np.int64)
    scales = np.random.default_rng(1).standard_normal((40, 2)).astype(np.float32)
    constants = {"w": quantized("w", (40, 64), "INT4"), "s": scales}
    nodes = [
        node("DequantizeLinear", "w", "s", to="d", axis=1, block_size=32),
        node("Gather", "d", "x", to="e"),
        node("Transpose", "d", to="t", perm=[1, 0]),
        node("MatMul", "e", "t"),
    ]
    net = check(model(nodes, x, constants), x)
    assert products(net, x)[-1] == "quantized_matmul"
    assert stored_bytes(net, x) < 2 * 40 * 64


def test_rows_that_are_known_are_those_of_the_table() -> None:
    x = np.zeros((2, 64), np.float32)
    scales = np.random.default_rng(1).random((50, 4)).astype(np.float32)
    constants = {"w": quantized("w", (50, 64), "UINT4"), "s": scales, "at": np.array([3, 49], np.int64)}
    attributes = {"gather_axis": 0, "quantize_axis": 1, "block_size": 16}
    rows = node("GatherBlockQuantized", "w", "at", "s", to="d", domain=MICROSOFT, **attributes)
    check(model([rows, node("Add", "x", "d")], x, constants), x)


@pytest.mark.parametrize("kind", ["FLOAT8E4M3FN", "FLOAT8E5M2"])
def test_floats_of_8_bits_have_scales_of_blocks_too(kind: str) -> None:
    dtype = {"FLOAT8E4M3FN": ml_dtypes.float8_e4m3fn, "FLOAT8E5M2": ml_dtypes.float8_e5m2}[kind]
    random = np.random.default_rng(5)
    x, values = (
        random.standard_normal((7, 64)).astype(np.float32),
        random.standard_normal((64, 20)).astype(dtype),
    )
    scales = random.random((2, 20)).astype(np.float32)
    number = getattr(onnx.TensorProto, kind)
    known = {"s": scales, "w": onnx.helper.make_tensor("w", number, values.shape, values.tobytes(), raw=True)}
    nodes = [node("DequantizeLinear", "w", "s", to="d", axis=0, block_size=32), node("MatMul", "x", "d")]
    net = rs.onnx.load(model(nodes, x, known))
    wanted = x @ (values.astype(np.float32) * scales.repeat(32, 0))
    assert np.allclose(net(x), wanted, atol=1e-4 * np.abs(wanted).max())
    assert products(net, x) == ["quantized_matmul"]
    assert stored_bytes(net, x) < 64 * 20 * 2


def test_arithmetic_of_blocks_that_come_with_a_run_is_that_of_their_elements() -> None:
    builder = rs.graph.GraphBuilder()
    q = builder.input("q", (4, 6), "u8")
    scales = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    zeros = np.array([[3]], np.uint8)
    reals = builder.add(rs.graph.DequantizeOperation(), q, builder.constant(scales), builder.constant(zeros))
    values = np.arange(24, dtype=np.uint8).reshape(4, 6)
    wanted = (values.astype(np.float32) - 3) * scales.repeat(2, 0).repeat(2, 1)
    assert np.array_equal(rs.Network(builder.graph(reals))(values), wanted)
    with pytest.raises(rs.InvalidArguments, match="groups"):
        builder.add(
            rs.graph.DequantizeOperation(), q, builder.constant(np.ones((3, 4))), builder.constant(zeros)
        )


def test_scales_of_other_blocks_are_refused() -> None:
    x = np.array([1, 2])
    known = {"w": np.zeros((50, 32), np.uint8), "s": np.ones((50, 2), np.float32)}
    attributes = {"gather_axis": 0, "quantize_axis": 1, "block_size": 16}
    rows = node("GatherBlockQuantized", "w", "x", "s", domain=MICROSOFT, **attributes)
    with pytest.raises(rs.InvalidArguments, match="blocks of 16"):
        rs.onnx.load(model([rows], x, known))(x)


@pytest.mark.parametrize("perm", [[0, 1], [1, 0]])
def test_rows_of_a_table_in_blocks_of_rows_are_those_of_floats(perm: Sequence[int]) -> None:
    x = np.array([3, 31, 0], np.int64)
    scales = np.random.default_rng(1).random((2, 32)).astype(np.float32)
    known = {"w": quantized("w", (32, 32), "UINT4"), "s": scales}
    nodes = [
        node("DequantizeLinear", "w", "s", to="d", axis=0, block_size=16),
        node("Transpose", "d", to="t", perm=perm),
        node("Gather", "t", "x"),
    ]
    check(model(nodes, x, known), x)


@pytest.mark.parametrize("dims", [(24, 64), (12, 2, 64), (24, 4, 16), (48, 32), (3, 8, 2, 32)])
def test_moves_of_weights_are_those_of_their_scales(dims: tuple[int, ...]) -> None:
    """Dequantized in some dims, then reshaped to those of a product, and cut."""
    x = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    own = (*dims[:-1], dims[-1] // 16)
    scales = np.random.default_rng(1).random(own).astype(np.float32)
    known = {"w": quantized("w", dims, "INT4"), "s": scales, "z": quantized("z", own, "INT4", 1)}
    known |= {"dims": np.array([24, 64]), "a": np.array([2]), "b": np.array([23]), "axis": np.array([0])}
    nodes = [
        node("DequantizeLinear", "w", "s", "z", to="d", axis=-1, block_size=16),
        node("Reshape", "d", "dims", to="r"),
        node("Slice", "r", "a", "b", "axis", to="p"),
        node("Transpose", "p", to="t", perm=[1, 0]),
        node("MatMul", "x", "t"),
    ]
    assert products(check(model(nodes, x, known), x), x) == ["quantized_matmul"]


@pytest.mark.parametrize("mode", ["strict", "any"])
@pytest.mark.parametrize("kind", ["q4_0", "q4_k", "q8_0"])
def test_packed_weights_are_constants_as_they_lie(kind: str, mode: str) -> None:
    rng = np.random.default_rng(0)
    weights = rng.standard_normal((64, 512), np.float32)
    if kind.endswith("k"):
        q = rs.quantize(weights, kind)
    else:
        q = rs.formats.named(f"gguf.{kind}", (64, 512)).wrap(rs.formats.quantize_blocks(weights, kind))
    packed = rs.pack_weights(q.T, fpmath_mode=mode)
    parts = [part for part in (packed.values, packed.scale, packed.zero_point) if part is not None]
    builder = rs.graph.GraphBuilder()
    x = builder.input("x", (3, 512))
    operation = rs.graph.QuantizedMatmulOperation(packed.zero_point is not None, fpmath_mode=mode)
    net = rs.Network(builder.graph(builder.add(operation, x, *map(builder.constant, parts))))
    source = rng.standard_normal((3, 512), np.float32)
    np.testing.assert_array_equal(net(source), rs.matmul(source, packed, fpmath_mode=mode))
    is_exact = np.abs(net(source) - source @ q.dequantize().to_numpy().T).max() < 1e-3
    assert is_exact == (mode == "strict")
    stored = net.plan().graph.constants.values()
    assert any(constant.memory(rs.Engine("cpu")).desc == packed.values.desc for constant in stored)
