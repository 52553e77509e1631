"""ONNX's operators as functions: values, kinds of arrays, formats, `out`, and every wrong call."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import restride as rs
from support.errors import refused

RNG = np.random.default_rng(35)
X = RNG.standard_normal((2, 20, 6, 5), np.float32)
Y = RNG.standard_normal((2, 20, 6, 5), np.float32)
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


def test_zeros_of_both_signs_are_not_one_number() -> None:
    signs = [np.signbit(rs.ops.Elu(np.float32([-1]), alpha=alpha)).all() for alpha in (0.0, -0.0, 0.0)]
    assert signs == [True, False, True]


def test_a_tensor_of_torch_comes_back_as_one() -> None:
    torch = pytest.importorskip("torch")
    x = torch.from_numpy(X)
    assert torch.equal(rs.ops.Tanh(x), torch.from_numpy(rs.ops.Tanh(X)))
    parts = rs.ops.Split(x, (5, 15), axis=1, outputs=2)
    assert all(isinstance(each, torch.Tensor) for each in parts)
    with refused("gradients would not flow through"):
        rs.ops.Tanh(x.clone().requires_grad_())


@pytest.mark.parametrize(
    ("call", "words"),
    {
        "no tensor": (lambda: rs.ops.Relu(), "none of its inputs is a tensor"),
        "numbers alone": (lambda: rs.ops.Add(1, 2), "none of its inputs is a tensor"),
        "more inputs": (lambda: rs.ops.Relu(X, X), "it has 1 inputs, not 2"),
        "an attribute": (lambda: rs.ops.Relu(X, alpha=1), "it has no attribute 'alpha'"),
        "a word": (lambda: rs.ops.Softmax(X, axis="last"), "cannot be translated"),
        "a dict": (lambda: rs.ops.Elu(X, alpha={}), "could not convert string to float"),
        "an axis": (lambda: rs.ops.ReduceSum(X, (4,)), "there is no axis 4"),
        "a fraction": (lambda: rs.ops.Reshape(X, (2.5, 1)), "2.5 is no integer"),
        "dims": (lambda: rs.ops.Add(X, Y[:, :3]), "dims that differ are not 1"),
        "out": (lambda: rs.ops.Relu(X, out=np.empty((2, 2), np.float32)), "tensors of different shapes"),
        "integers": (lambda: rs.ops.Relu(np.ones(3, np.int64)), "its elements are int64"),
        "text": (lambda: rs.ops.Relu("x"), "str is no NumPy array"),
        "an object": (lambda: rs.ops.Add(X, object()), "object is no NumPy array"),
        "a count": (lambda: rs.ops.Relu(X, outputs="two"), "must be an integer"),
        "no count": (lambda: rs.ops.Relu(X, outputs=0), "it cannot write 0 outputs"),
        "outputs": (lambda: rs.ops.Relu(X, outputs=2), "output 'y1'"),
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
    with pytest.raises(AttributeError, match="Gelus"):
        _ = rs.ops.Gelus


def test_no_operator_of_several_primitives_runs_on_the_host_in_place_of_a_device(engine: rs.Engine) -> None:
    if engine.device.is_host:
        pytest.skip("this engine is the host")
    from support.engines import memory_over, storage

    md = rs.MemoryDesc((4, 3), "f32", "ab")
    x = memory_over(md, engine, storage(rs.Memory(md, rs.Engine("cpu"), X[0, 0, :4, :3].copy()).data, engine))
    with refused("runs on the CPU alone", kind=rs.Unimplemented):
        rs.ops.ReduceSum(x, (1,), keepdims=False)
