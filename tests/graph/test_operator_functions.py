"""ONNX's operators as functions: values, kinds of arrays, formats, `out`, and every wrong call."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.graph import operator_functions
from support.errors import refused

RNG = np.random.default_rng(35)
X = RNG.standard_normal((2, 20, 6, 5), np.float32)
Y = RNG.standard_normal((2, 20, 6, 5), np.float32)
BYTES = RNG.integers(0, 9, (3, 7), np.uint8)
WEIGHTS = RNG.standard_normal((8, 20, 3, 3), np.float32)


def _softmax(x: np.ndarray, axis: int) -> np.ndarray:
    powers = np.exp(x - x.max(axis, keepdims=True))
    return powers / powers.sum(axis, keepdims=True)


def _convolved(x: np.ndarray) -> np.ndarray:
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (2, 3))
    return np.einsum("nchwij,ocij->nohw", windows, WEIGHTS)


# Each is one primitive, a primitive and a reshape, a product, or a move.
CASES: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "function": (rs.ops.Tanh, np.tanh),
    "function with a number": (
        lambda x: rs.ops.LeakyRelu(x, alpha=0.5),
        lambda x: np.where(x > 0, x, x * np.float32(0.5)),
    ),
    "two tensors": (lambda x: rs.ops.Mul(x, Y), lambda x: x * Y),
    "three tensors": (lambda x: rs.ops.Add(x, Y, Y), lambda x: x + Y + Y),
    "a number": (lambda x: rs.ops.Sub(x, 2), lambda x: x - 2),
    "a number first": (lambda x: rs.ops.Sub(2.0, x), lambda x: 2 - x),
    "a smaller rank": (lambda x: rs.ops.Max(x, Y[0, 0]), lambda x: np.maximum(x, Y[0, 0])),
    "slopes": (
        lambda x: rs.ops.PRelu(x, Y[0, :, :1, :1]),
        lambda x: np.where(x > 0, x, x * Y[0, :, :1, :1]),
    ),
    "folded axes": (lambda x: rs.ops.ReduceMax(x, (1, 3)), lambda x: x.max((1, 3), keepdims=True)),
    "folded axes go": (
        lambda x: rs.ops.ReduceMean(x, [1], keepdims=False),
        lambda x: x.mean(1),
    ),
    "an axis": (lambda x: rs.ops.Softmax(x, axis=1), lambda x: _softmax(x, 1)),
    "windows": (
        lambda x: rs.ops.MaxPool(x, kernel_shape=(2, 2)),
        lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2), (2, 3)).max((4, 5)),
    ),
    "a product": (lambda x: rs.ops.MatMul(x, Y[0, 0].T), lambda x: x @ Y[0, 0].T),
    "a convolution": (lambda x: rs.ops.Conv(x, WEIGHTS), _convolved),
    "other dims": (lambda x: rs.ops.Reshape(x, (20, -1)), lambda x: x.reshape(20, -1)),
    "another order": (lambda x: rs.ops.Transpose(x, perm=(3, 1, 0, 2)), lambda x: x.transpose(3, 1, 0, 2)),
    "a part": (lambda x: rs.ops.Slice(x, (1,), (5,), (2,), (2,)), lambda x: x[:, :, 1:5:2]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("tag", ["array", "abcd", "acdb", "aBcd16b"])
def test_an_operator_is_what_numpy_says(name: str, tag: str) -> None:
    function, formula = CASES[name]
    x = X if tag == "array" else rs.reorder(X, tag, engine=rs.Engine("cpu"))
    wanted = formula(X)
    for _ in range(2):  # the second call takes what the first has found
        result = function(x)
        assert isinstance(result, type(x))
        found = result.to_numpy() if isinstance(result, rs.Memory) else result
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def test_a_memory_keeps_its_format_where_one_primitive_computes() -> None:
    x = rs.reorder(X, "aBcd16b")
    assert rs.ops.Exp(x).desc == x.desc
    assert rs.ops.ReduceSum(x, (2, 3)).desc.inner_blks == (16,)


@pytest.mark.parametrize(
    "name", ["function", "folded axes", "folded axes go", "two tensors", "a convolution"]
)
def test_a_result_is_written_where_it_is_asked_for(name: str) -> None:
    function, formula = CASES[name]
    operator = {
        "function": lambda out: rs.ops.Tanh(X, out=out),
        "folded axes": lambda out: rs.ops.ReduceMax(X, (1, 3), out=out),
        "folded axes go": lambda out: rs.ops.ReduceMean(X, (1,), keepdims=False, out=out),
        "two tensors": lambda out: rs.ops.Mul(X, Y, out=out),
        "a convolution": lambda out: rs.ops.Conv(X, WEIGHTS, out=out),
    }[name]
    wanted = formula(X)
    strided = np.full((*wanted.shape[:-1], 2 * wanted.shape[-1]), 7, np.float32)[..., ::2]
    for out in (np.empty_like(wanted), np.asfortranarray(wanted) * 0, strided):
        assert operator(out) is out
        np.testing.assert_array_equal(out, function(X))
    assert (strided.base.reshape(-1)[1::2] == 7).all()
    memory = rs.Memory(rs.MemoryDesc(wanted.shape, "f32", "abcd"[: wanted.ndim]), rs.Engine("cpu"))
    assert operator(memory) is memory
    np.testing.assert_array_equal(memory.to_numpy(), function(X))


def test_a_function_may_write_over_what_it_reads() -> None:
    x = X.copy()
    assert rs.ops.Tanh(x, out=x) is x
    np.testing.assert_array_equal(x, rs.ops.Tanh(X))
    with refused("overlap"):
        rs.ops.MaxPool(x, kernel_shape=(1, 1), out=x)


def test_several_results_are_a_tuple() -> None:
    first, second = rs.ops.Split(X, (5, 15), axis=1, outputs=2)
    np.testing.assert_array_equal(first, X[:, :5])
    np.testing.assert_array_equal(second, X[:, 5:])
    memories = rs.ops.Split(rs.reorder(X, "aBcd16b"), (5, 15), axis=1, outputs=2)
    assert [type(each) for each in memories] == [rs.Memory, rs.Memory]
    np.testing.assert_array_equal(memories[1].to_numpy(), X[:, 5:])


def test_numbers_have_the_type_of_the_tensor_beside_them() -> None:
    for kind in (np.float64, np.float32, np.float16):
        result = rs.ops.Mul(np.ones(3, kind), 0.1)
        assert result.dtype == kind
        np.testing.assert_array_equal(result, np.full(3, 0.1, kind))
    assert (rs.ops.Max([[1.5, -2]], 0) == [[1.5, 0]]).all()


def test_numbers_are_exact_or_refused() -> None:
    zeros = np.zeros(2**24 + 5, np.int8)
    assert rs.ops.Slice(zeros, 0, 2**24 + 1).shape == (2**24 + 1,)
    assert rs.ops.Reshape(zeros, zeros.size).shape == zeros.shape
    np.testing.assert_array_equal(rs.ops.Clip(np.array([0.0, 1.0]), 0.1, 0.7), [0.1, 0.7])
    np.testing.assert_array_equal(rs.ops.Pad(np.ones((1, 1)), (0, 0, 0, 1), 0.1), [[1, 0.1]])
    np.testing.assert_array_equal(rs.ops.Gather(X[0, 0], -1), X[0, 0, -1])
    np.testing.assert_array_equal(rs.ops.Max(np.ones(1, np.int8), 3), [3])
    for number in (2.5, 200):
        with refused("which is not a value of int8"):
            rs.ops.Max(np.ones(1, np.int8), number)
    doubles = np.array([1.0, -2.0])
    np.testing.assert_array_equal(rs.ops.Where(doubles > 0, doubles, 0.0), [1, 0])
    np.testing.assert_array_equal(rs.ops.Add(np.ones(3, np.float32), [1.0, 2.0, 3.0]), [2, 3, 4])


VECTORS = {
    "batch": (rs.ops.BatchNormalization, np.ones((3, 4), np.float32), 4),
    "layer": (rs.ops.LayerNormalization, X[0, 0, :3, :4], 2),
}


@pytest.mark.parametrize("layout", ["step 2", "reversed", "repeated"])
@pytest.mark.parametrize("name", VECTORS)
def test_vectors_lie_as_they_may(name: str, layout: str) -> None:
    operator, x, count = VECTORS[name]
    dense = [np.array([1, 2, 3, 4], np.float32) + i for i in range(count)]
    wanted = [operator(x, *dense[:at], dense[at] * 0 + 2, *dense[at + 1 :]) for at in range(count)]
    for at in range(count):
        vector = {
            "step 2": np.array([2, 9, 2, 9, 2, 9, 2, 9], np.float32)[::2],
            "reversed": np.array([7, 2, 2, 2, 2], np.float32)[:0:-1],
            "repeated": np.broadcast_to(np.float32(2), (4,)),
        }[layout]
        for _ in range(2):
            result = operator(x, *dense[:at], vector, *dense[at + 1 :])
            np.testing.assert_array_equal(result, wanted[at])


def test_tensors_of_no_axes_are_taken_and_given() -> None:
    mean = rs.ops.ReduceMean(X, keepdims=False)
    assert mean.shape == ()
    np.testing.assert_allclose(rs.ops.Sub(X, mean), X - X.mean(), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(rs.ops.Add(X, np.float32(2)), X + 2)
    np.testing.assert_allclose(rs.ops.Exp(mean), np.exp(X.mean()), rtol=1e-5)
    out = np.zeros((), np.float32)
    assert rs.ops.ReduceMean(X, keepdims=False, out=out) is out
    assert out == mean


def test_parts_are_as_many_as_there_are() -> None:
    assert [part.shape[1] for part in rs.ops.Split(X, (1, 2, 17), axis=1)] == [1, 2, 17]
    assert [part.shape[1] for part in rs.ops.Split(X, axis=1, num_outputs=4)] == [5, 5, 5, 5]


def test_attributes_are_read_at_each_call() -> None:
    class Order:
        def __iter__(self) -> Any:
            return iter((1, 0))

    with refused("not a number, a word"):
        rs.ops.Transpose(X[0, 0], perm=Order())
    alpha = np.array(0.5)
    first = rs.ops.LeakyRelu(-np.ones(1, np.float32), alpha=alpha)
    alpha[...] = 0.25
    assert first == -0.5
    assert rs.ops.LeakyRelu(-np.ones(1, np.float32), alpha=alpha) == -0.25
    axes: list[Any] = [1]
    assert rs.ops.ReduceSum(X, axes).shape == (2, 1, 6, 5)
    axes[0] = 2
    assert rs.ops.ReduceSum(X, axes).shape == (2, 20, 1, 5)
    axes[0] = axes
    with refused("rs.ops.Transpose does not take"):
        rs.ops.Transpose(X, perm=axes)
    assert rs.ops.Transpose(X[0, 0], perm=np.array([1, 0])).shape == (5, 6)
    assert rs.ops.Transpose(X[0, 0], perm=range(1, -1, -1)).shape == (5, 6)


def test_places_in_lists_are_those_of_their_own_call() -> None:
    for places in ((0, 1), [2, 3], (0, 1), (3, 0), [3]):
        assert np.array_equal(rs.ops.Gather(X, places, axis=1), X[:, list(places)])
    assert np.array_equal(rs.ops.Gather(X, -1), X[-1])


def test_what_is_kept_can_be_let_go() -> None:
    rs.ops.Gather(X, np.arange(20), axis=1)
    assert operator_functions._network_of.cache_info().currsize > 0
    rs.empty_cache()
    assert operator_functions._network_of.cache_info().currsize == 0
    assert rs.ops.Gather(X, np.arange(20), axis=1).shape == X.shape


SCALED = np.float32(0.5), np.uint8(4)

# What an operator takes beside one tensor of four dims.
MORE: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "Attention": ((X[:, :4, ::2], X[:, 4:8, ::2]), {"is_causal": 1}),
    "AveragePool": ((), {"kernel_shape": (2, 2)}),
    "BitShift": ((BYTES,), {"direction": "RIGHT"}),
    "BatchNormalization": ((X[0, :, 0, 0], X[1, :, 0, 0], X[0, :, 1, 1], np.abs(X[0, :, 0, 1])), {}),
    "Cast": ((), {"to": 11}),
    "Concat": ((Y,), {"axis": 1}),
    "Conv": ((WEIGHTS,), {}),
    "ConvInteger": ((BYTES.reshape(1, 1, 3, 7),), {}),
    "Compress": ((np.array([True, False, True, True, False]),), {"axis": 3}),
    "CumProd": ((np.array(1),), {}),
    "CumSum": ((np.array(1),), {}),
    "DFT": ((np.array(5),), {}),
    "DepthToSpace": ((), {"blocksize": 2}),
    "GatherElements": ((np.zeros((1, 20, 6, 5), np.int64),), {}),
    "GatherND": ((np.array([[0, 3], [1, 19]]),), {}),
    "ConvTranspose": ((WEIGHTS.reshape(20, 8, 3, 3),), {}),
    "DequantizeLinear": ((np.float32(0.5),), {}),
    "Einsum": ((Y[0, 0].T,), {"equation": "bcij,jk->bcik"}),
    "Expand": (((3, 2, 20, 6, 5),), {}),
    "GridSample": ((X[:, :4, :, :2] / 2,), {}),
    "GroupNormalization": ((X[0, :4, 0, 0], X[1, :4, 0, 0]), {"num_groups": 4}),
    "InstanceNormalization": ((X[0, :, 0, 0], X[1, :, 0, 0]), {}),
    "LpPool": ((), {"kernel_shape": (2, 2)}),
    "Gather": (((0, 1),), {}),
    "Gemm": ((Y[0, 0].T,), {}),
    "CastLike": ((Y.astype(np.float64),), {}),
    "LRN": ((), {"size": 3}),
    "LayerNormalization": ((Y[0, 0, 0], Y[0, 0, 1]), {}),
    "MatMul": ((Y[0, 0].T,), {}),
    "MatMulInteger": ((BYTES.T,), {}),
    "MaxPool": ((), {"kernel_shape": (2, 2)}),
    "Mod": ((Y,), {"fmod": 1}),
    "MaxUnpool": (
        (np.arange(2 * 20 * 6 * 5).reshape(X.shape) * 4,),
        {"kernel_shape": (2, 2), "strides": (2, 2)},
    ),
    "OneHot": ((np.array(4), np.float32([0, 1])), {}),
    "PRelu": ((Y,), {}),
    "Pad": (((0, 0, 1, 1, 0, 0, 1, 1),), {}),
    "Pow": ((2.0,), {}),
    "QuantizeLinear": ((np.float32(0.5), np.int8(0)), {}),
    "QLinearConv": (
        (*SCALED, BYTES.reshape(1, 1, 3, 7), *SCALED, np.float32(4), np.uint8(2)),
        {},
    ),
    "QLinearMatMul": ((*SCALED, BYTES.T, *SCALED, np.float32(4), np.uint8(2)), {}),
    "RMSNormalization": ((Y[0, 0, 0],), {}),
    "Reshape": (((2, -1),), {}),
    "Resize": ((None, None, (2, 20, 12, 10)), {}),
    "ReverseSequence": ((np.array([1, 2] * 10),), {}),
    "RotaryEmbedding": ((X[0, :3, :2, 0], X[0, :3, 2:4, 0], np.arange(12).reshape(2, 6) % 3), {}),
    "ScatterElements": ((np.zeros((1, 20, 6, 5), np.int64), Y[:1]), {}),
    "ScatterND": ((np.array([[0, 3], [1, 19]]), Y[:, 0]), {}),
    "Slice": (((1,), (5,), (2,)), {}),
    "STFT": ((np.array(2), np.float32([1, 2, 1])), {}),
    "SpaceToDepth": ((), {"blocksize": 1}),
    "Split": (((5, 15),), {"axis": 1}),
    "Squeeze": ((), {}),
    "Tile": (((1, 2, 1, 3),), {}),
    "TopK": (((2,),), {}),
    "Unsqueeze": (((0,),), {}),
    "Upsample": (((1.0, 1.0, 2.0, 2.0),), {}),
}
TWO = (
    *("Add", "Sub", "Mul", "Div", "Max", "Min", "Sum"),
    *("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
)
OF_BYTES = ("BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor")
OF_INTEGERS = ("ConvInteger", "MatMulInteger", "QLinearConv", "QLinearMatMul")
OF_TRUTH = ("And", "Not", "Or", "Xor")


# The package has no reference of these, or their dims depend on values.
ALONE = ("GlobalLpPool", "NonZero", "Scatter", "SimplifiedLayerNormalization", "Unique")


@pytest.mark.parametrize("name", sorted({*dir(rs.ops)} - {*ALONE}))
def test_every_operator_runs(name: str) -> None:
    inputs, attributes = MORE.get(name, ((Y,), {}) if name in TWO else ((), {}))
    x: Any = X[0, 0] if name == "Gemm" else np.int8([[1, 2]]) if name == "DequantizeLinear" else X
    if name in ("Acosh", "Log", "Sqrt"):
        x = np.abs(X) + (name == "Acosh")
    if name in ("Acos", "Asin", "Atanh"):
        x = X / 8
    if name in (*OF_BYTES, *OF_TRUTH):
        x, y = (np.uint8(200) - BYTES, BYTES) if name in OF_BYTES else (X > 0, Y > 0)
        inputs = () if "Not" in name else (y,)
    if name in OF_INTEGERS:
        x = BYTES if "MatMul" in name else RNG.integers(0, 9, (2, 1, 8, 9), np.uint8)
    if name == "EyeLike":
        x = X[0, 0]
    if name in ("Attention", "RotaryEmbedding"):
        x = X[:, :8] if name == "Attention" else X[..., :4]
    if name in ("DFT", "STFT"):
        x = X[:, 0, :, :2] if name == "DFT" else X[0, 0, :, :, np.newaxis]
    if name == "OneHot":
        x = BYTES
    if name == "Where":
        x, inputs = X > 0, (X, Y)
    wanted = _by_onnx(name, (x, *inputs), attributes)
    found = getattr(rs.ops, name)(x, *inputs, **attributes)
    for mine, theirs in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
        assert mine.shape == theirs.shape
        assert mine.dtype == theirs.dtype
        # The package's LRN is 4e-4 off, as its own runtime and torch say.
        np.testing.assert_allclose(mine, theirs, rtol=1e-3 if name == "LRN" else 2e-4, atol=2e-4)


def _by_onnx(name: str, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> list[np.ndarray]:
    onnx, reference = pytest.importorskip("onnx"), pytest.importorskip("onnx.reference")
    opset = {"Upsample": 9, "Gelu": 20, "DequantizeLinear": 21, "Attention": 24, "RotaryEmbedding": 23}.get(
        name, 18
    )
    arrays = {
        f"i{at}": np.asarray(value, None if isinstance(value, np.ndarray | np.generic) else _kind_of(value))
        for at, value in enumerate(inputs)
        if value is not None
    }
    names = [f"i{at}" if value is not None else "" for at, value in enumerate(inputs)]
    outputs = ["o", "o2"] if name == "Split" else ["o"]
    node = onnx.helper.make_node(name, names, outputs, **attributes)
    values = [
        onnx.helper.make_tensor_value_info(
            key, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
        )
        for key, array in arrays.items()
    ]
    results = [onnx.helper.make_tensor_value_info(key, 0, None) for key in outputs]
    graph = onnx.helper.make_graph([node], "g", values, results)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    return list(reference.ReferenceEvaluator(model).run(None, arrays))


def _kind_of(value: Any) -> type:
    return (
        np.float32
        if isinstance(value, float) or (isinstance(value, tuple) and isinstance(value[0], float))
        else np.int64
    )


def test_zeros_of_both_signs_are_not_one_number() -> None:
    signs = [np.signbit(rs.ops.Elu(np.float32([-1]), alpha=alpha)).all() for alpha in (0.0, -0.0, 0.0)]
    assert signs == [True, False, True]


def test_a_tensor_of_torch_comes_back_as_one() -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X)
    assert torch.equal(rs.ops.Tanh(x), torch.from_numpy(rs.ops.Tanh(X)))
    parts = rs.ops.Split(x, (5, 15), axis=1, outputs=2)
    assert all(isinstance(each, torch.Tensor) for each in parts)
    with refused("gradients would not be propagated"):
        rs.ops.Tanh(x.clone().requires_grad_())


@pytest.mark.parametrize(
    ("call", "words"),
    {
        "no tensor": (lambda: rs.ops.Relu(), "it needs a tensor among its inputs"),
        "numbers alone": (lambda: rs.ops.Add(1, 2), "it needs a tensor among its inputs"),
        "more inputs": (lambda: rs.ops.Relu(X, X), "it has 1 inputs, not 2"),
        "an attribute": (lambda: rs.ops.Relu(X, alpha=1), "it has no attribute 'alpha'"),
        "a word": (lambda: rs.ops.Softmax(X, axis="last"), "cannot be translated"),
        "a dict": (lambda: rs.ops.Elu(X, alpha={}), "not a number, a word"),
        "an axis": (lambda: rs.ops.ReduceSum(X, (4,)), "axis 4 is out of range"),
        "a fraction": (lambda: rs.ops.Reshape(X, (2.5, 1)), "2.5 is not an integer"),
        "dims": (lambda: rs.ops.Add(X, Y[:, :3]), "dims that differ are not 1"),
        "out": (lambda: rs.ops.Relu(X, out=np.empty((2, 2), np.float32)), "tensors have different shapes"),
        "integers": (lambda: rs.ops.Relu(np.ones(3, np.complex64)), "its elements are complex64"),
        "text": (lambda: rs.ops.Relu("x"), "str is not a NumPy array"),
        "an object": (lambda: rs.ops.Add(X, object()), "object is not a NumPy array"),
        "objects": (lambda: rs.ops.Reshape(X, np.array([3, 2], object)), "which is not a number"),
        "ragged": (lambda: rs.ops.Reshape(X, [[1], [1, 2]]), "inhomogeneous"),
        "huge": (lambda: rs.ops.Add(X, 10**400), "int too large"),
        "a word that is none": (lambda: rs.ops.Gelu(X, approximate="Tanh"), "cannot be translated"),
        "an axis too many": (lambda: rs.ops.Softmax(X, axis=7), "rs.ops.Softmax cannot be translated"),
        "a count": (lambda: rs.ops.Relu(X, outputs="two"), "must be an integer"),
        "no count": (lambda: rs.ops.Relu(X, outputs=0), "it cannot write 0 outputs"),
        "outputs": (lambda: rs.ops.Relu(X, outputs=2), "output 'result 1'"),
        "outputs and out": (lambda: rs.ops.Split(X, (1, 19), axis=1, outputs=2, out=X), "into out"),
        "an empty memory": (lambda: rs.ops.Relu(rs.Memory()), "the memory is empty"),
    }.values(),
)
def test_a_wrong_call_is_refused(call: Callable[[], Any], words: str) -> None:
    with refused(words):
        call()


def test_names_are_those_of_onnx() -> None:
    assert set(dir(rs.ops)) < rs.onnx.operators()
    assert rs.ops.Gelu is rs.ops.Gelu
    assert pickle.loads(pickle.dumps(rs.ops.Gelu)) is rs.ops.Gelu
    assert list(inspect.signature(rs.ops.Gelu).parameters) == ["x", "approximate", "out", "outputs"]
    from restride.ops import softmax

    assert softmax.__name__ == "restride.ops.softmax"
    for name, words in {
        "Gelus": "no attribute 'Gelus'",
        "Shape": "an array has",
        "LSTM": "rs.onednn",
    }.items():
        with pytest.raises(AttributeError, match=words):
            getattr(rs.ops, name)


def test_no_operator_of_several_primitives_runs_on_the_host_in_place_of_a_device(engine: rs.Engine) -> None:
    if engine.device.is_host:
        pytest.skip("this engine is the host")
    from support.engines import memory_over, storage

    md = rs.MemoryDesc((4, 3), "f32", "ab")
    x = memory_over(md, engine, storage(rs.Memory(md, rs.Engine("cpu"), X[0, 0, :4, :3].copy()).data, engine))
    with refused("runs only on the CPU", kind=rs.Unimplemented):
        rs.ops.ReduceSum(x, (1,), keepdims=False)
