"""Normalizations and logarithms of sums of ONNX, beside NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import restride as rs

pytest.importorskip("onnx")

Array = np.ndarray
X = np.random.default_rng(11).standard_normal((2, 6, 5, 4)).astype(np.float32) + 1
SCALE, SHIFT = (np.random.default_rng(n).standard_normal(6).astype(np.float32) for n in (1, 2))
EPSILON = 1e-5


def normalized(x: Array, axes: tuple[int, ...], epsilon: float = EPSILON) -> Array:
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def by_channels(x: Array, scale: Array, shift: Array) -> Array:
    shape = (-1, *(1,) * (x.ndim - 2))
    return x * scale.reshape(shape) + shift.reshape(shape)


def close(found: Array, wanted: Array, tolerance: float = 2e-5) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("shape", [(2, 6, 5), (2, 6, 5, 4), (2, 6, 2, 3, 2), (1, 6, 2, 2, 3, 2)], ids=str)
def test_instances(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(shape).standard_normal(shape).astype(np.float32)
    wanted = by_channels(normalized(x, tuple(range(2, x.ndim))), SCALE, SHIFT)
    close(rs.ops.InstanceNormalization(x, SCALE, SHIFT), wanted)


@pytest.mark.parametrize("groups", [1, 2, 6])
def test_groups(groups: int) -> None:
    rows = normalized(X.reshape(2, groups, -1), (2,), 1e-3).reshape(X.shape)
    of_groups = np.arange(1, groups + 1, dtype=np.float32)
    spread = np.repeat(of_groups, 6 // groups)
    options = {"num_groups": groups, "epsilon": 1e-3}
    found = run("GroupNormalization", [X, SCALE, SHIFT], 21, **options)
    close(found, by_channels(rows, SCALE, SHIFT))
    close(
        run("GroupNormalization", [X, of_groups, -of_groups], 18, **options),
        by_channels(rows, spread, -spread),
    )


def run(
    operator: str, inputs: list[Array], opset: int, outputs: int = 1, known: int = 0, **attributes: object
) -> Array:
    """The results of a model of one operator; the last `known` inputs are constants."""
    import onnx

    names, results = [f"x{i}" for i in range(len(inputs))], [f"y{i}" for i in range(outputs)]
    node = onnx.helper.make_node(operator, names, results, **attributes)
    number = onnx.helper.np_dtype_to_tensor_dtype
    info = onnx.helper.make_tensor_value_info
    pairs = list(zip(names, inputs, strict=True))
    free, constants = pairs[: len(pairs) - known], pairs[len(pairs) - known :]
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [info(name, number(x.dtype), x.shape) for name, x in free],
        [info(name, 1, None) for name in results],
        [onnx.numpy_helper.from_array(x, name) for name, x in constants],
    )
    made = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=9)
    found = rs.onnx.load(made)(dict(free))
    return found if outputs == 1 else tuple(found[name] for name in results)


@pytest.mark.parametrize("known", [0, 2])
@pytest.mark.parametrize("axis", [-4, -3, 2, -1])
def test_layers_over_any_axes_with_their_statistics(axis: int, known: int) -> None:
    own = X.shape[axis:]
    scale, shift = (np.random.default_rng(n).standard_normal(own).astype(np.float32) for n in (3, 4))
    axes = tuple(range(axis % 4, 4))
    found, mean, inverse = run("LayerNormalization", [X, scale, shift], 17, 3, known, axis=axis)
    close(found, normalized(X, axes) * scale + shift)
    close(mean, X.mean(axes, keepdims=True))
    close(inverse, 1 / np.sqrt(X.var(axes, keepdims=True) + EPSILON))
    # A scale that is repeated, in a version of the operators before that of this one.
    found = run("LayerNormalization", [X, scale[..., :1]], 14, 1, known // 2, axis=axis)
    close(found, normalized(X, axes) * scale[..., :1])


@pytest.mark.parametrize("axis", [-3, -1])
def test_means_of_squares(axis: int) -> None:
    axes, scale = tuple(range(axis % 4, 4)), np.ones(X.shape[axis:], np.float32) * 3
    root = np.sqrt((X.astype(np.float64) ** 2).mean(axes, keepdims=True) + EPSILON)
    close(run("RMSNormalization", [X, scale], 23, axis=axis), X / root * scale)


def test_batches_in_training() -> None:
    mean, variance = SCALE, np.abs(SHIFT)
    own = X.mean((0, 2, 3)), X.var((0, 2, 3))
    inputs = [X, SCALE, SHIFT, mean, variance]
    found = run("BatchNormalization", inputs, 15, 3, training_mode=1, momentum=0.75)
    close(found[0], by_channels(normalized(X, (0, 2, 3)), SCALE, SHIFT))
    close(found[1], mean * 0.75 + own[0] * 0.25)
    close(found[2], variance * 0.75 + own[1] * 0.25)


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rows_by_their_norms(p: int, dtype: type) -> None:
    x = X.astype(dtype)
    x[:, :, 2] = 0
    norm = np.linalg.norm(x.astype(np.float64), p, 2, keepdims=True)
    wanted = np.divide(x, norm, out=np.zeros(x.shape), where=norm != 0)
    close(rs.ops.LpNormalization(x, axis=2, p=p), wanted, 1e-5 if dtype is np.float32 else 1e-3)


def test_means_and_variances() -> None:
    close(rs.ops.MeanVarianceNormalization(X), normalized(X, (0, 2, 3), 0))
    close(rs.ops.MeanVarianceNormalization(X, axes=(1,)), normalized(X, (1,), 0), 1e-4)


@pytest.mark.parametrize("axes", [None, (1,), (0, -1)])
@pytest.mark.parametrize("keepdims", [0, 1])
def test_logarithms_of_sums(axes: tuple[int, ...] | None, keepdims: int) -> None:
    wide = (X * 200).astype(np.float64)
    wanted = np.logaddexp.reduce(wide.transpose(3, 0, 1, 2).reshape(4, -1)) if axes is None else None
    found = rs.ops.ReduceLogSumExp(X * 200, axes, keepdims=keepdims)
    total = wide - wide.max(axes, keepdims=True)
    wanted = np.log(np.exp(total).sum(axes, keepdims=True)) + wide.max(axes, keepdims=True)
    close(found, wanted if keepdims else wanted.reshape(found.shape), 1e-4)
    positive = np.abs(X)
    found = rs.ops.ReduceLogSum(positive, axes, keepdims=keepdims)
    close(found, np.log(positive.sum(axes, keepdims=bool(keepdims))), 1e-4)


def test_logarithms_of_infinite_sums() -> None:
    x = np.array([[-np.inf, -np.inf], [np.inf, 1], [-np.inf, 2]], np.float32)
    assert rs.ops.ReduceLogSumExp(x, (1,), keepdims=0).tolist() == [-np.inf, np.inf, 2]
