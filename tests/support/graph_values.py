"""Graphs by their definition: every operation in NumPy, in doubles, node after node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from restride.graph import Graph, Node

Array = npt.NDArray[Any]

_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "select": lambda x, y, condition: np.where(condition, x, y),
}


def _hard_sigmoid(x: Array, alpha: float, beta: float) -> Array:
    return np.clip(alpha * x + beta, 0, 1)


def _logistic(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


_ELTWISE: dict[str, Callable[[Array, float, float], Array]] = {
    "relu": lambda x, a, _: np.where(x > 0, x, a * x),
    "linear": lambda x, a, b: a * x + b,
    "clip": lambda x, a, b: np.clip(x, a, b),
    "clip_v2": lambda x, a, b: np.clip(x, a, b),
    "logistic": lambda x, *_: _logistic(x),
    "tanh": lambda x, *_: np.tanh(x),
    "soft_relu": lambda x, *_: np.log1p(np.exp(x)),
    "mish": lambda x, *_: x * np.tanh(np.log1p(np.exp(x))),
    "swish": lambda x, a, _: x * _logistic(a * x),
    "hardsigmoid": _hard_sigmoid,
    "hardswish": lambda x, a, b: x * _hard_sigmoid(x, a, b),
    "sqrt": lambda x, *_: np.sqrt(x),
    "square": lambda x, *_: x * x,
    "exp": lambda x, *_: np.exp(x),
    "pow": lambda x, a, b: a * x**b,
}


def graph_values(graph: Graph, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The values of all tensors."""
    values = {
        name: x if np.asarray(x).dtype == np.bool_ else np.asarray(x, np.float64)
        for name, x in inputs.items()
    }
    values |= {
        name: each.values if each.values.dtype == np.bool_ else np.asarray(each.values, np.float64)
        for name, each in graph.constants.items()
    }
    for node in graph.nodes:
        values[node.output] = _node_values(node, values)
    return values


def random_inputs(graph: Graph, seed: int = 0) -> dict[str, Array]:
    """Normal numbers for all inputs."""
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=graph.tensors[name].dims).astype(np.float32) for name in graph.inputs}


def _node_values(node: Node, values: Mapping[str, Array]) -> Array:
    result = _OPERATIONS[node.kind](node.operation, *(values[name] for name in node.sources))
    operands = iter(node.operands)
    for epilogue in node.epilogues:
        others = [values[next(operands)]] if epilogue.has_operand else []
        result = _OPERATIONS[epilogue.operation.kind](epilogue.operation, result, *others)
    return result


def _eltwise(op: Any, x: Array) -> Array:
    return _ELTWISE[op.algorithm.removeprefix("eltwise_")](x, op.alpha, op.beta)


def _windows(op: Any, x: Array, kernel: tuple[int, ...], fill: float) -> list[tuple[tuple[int, ...], Array]]:
    """Each tap of a window, and what all windows have under it."""
    pads = [(0, 0), (0, 0), *zip(op.padding_l, op.padding_r, strict=True)]
    padded = np.pad(x, pads, constant_values=fill)
    steps = [d + 1 for d in op.dilates]
    sizes = [
        (n - (k - 1) * d - 1) // s + 1
        for n, k, d, s in zip(padded.shape[2:], kernel, steps, op.strides, strict=True)
    ]
    found = []
    for tap in product(*map(range, kernel)):
        cut = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, steps, sizes, op.strides, strict=True)
        ]
        found.append((tap, padded[(slice(None), slice(None), *cut)]))
    return found


def _convolution(op: Any, x: Array, w: Array, bias: Array | None = None) -> Array:
    groups = op.groups
    w = w.reshape(groups, -1, *w.shape[-len(op.strides) - 1 :])
    total: Any = 0
    for tap, under in _windows(op, x, w.shape[3:], 0.0):
        parts = under.reshape(under.shape[0], groups, -1, *under.shape[2:])
        total = total + np.einsum("ngc...,goc->ngo...", parts, w[(..., *tap)])
    total = total.reshape(total.shape[0], -1, *total.shape[3:])
    return total if bias is None else total + bias.reshape(-1, *[1] * (total.ndim - 2))


def _deconvolution(op: Any, x: Array, w: Array, bias: Array | None = None) -> Array:
    rank, groups = len(op.strides), op.groups
    w = w.reshape(groups, -1, *w.shape[-rank - 1 :])
    kernel, spatial = w.shape[3:], x.shape[2:]
    steps = [d + 1 for d in op.dilates]
    sizes = [
        (n - 1) * s + (k - 1) * d + 1 for n, s, k, d in zip(spatial, op.strides, kernel, steps, strict=True)
    ]
    whole = np.zeros((x.shape[0], groups, w.shape[1], *sizes))
    parts = x.reshape(x.shape[0], groups, -1, *spatial)
    for tap in product(*map(range, kernel)):
        spans = zip(tap, steps, spatial, op.strides, strict=True)
        cut = [slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in spans]
        whole[(..., *cut)] += np.einsum("ngc...,goc->ngo...", parts, w[(..., *tap)])
    ends = zip(op.padding_l, op.padding_r, sizes, strict=True)
    total = whole.reshape(x.shape[0], -1, *sizes)[(..., *(slice(a, n - b) for a, b, n in ends))]
    return total if bias is None else total + bias.reshape(-1, *[1] * rank)


def _pooling(op: Any, x: Array) -> Array:
    is_max = op.algorithm == "pooling_max"
    under = np.stack([each for _, each in _windows(op, x, op.kernel, -np.inf if is_max else 0.0)])
    if is_max:
        return np.asarray(under.max(0))
    if op.algorithm == "pooling_avg_include_padding":
        return np.asarray(under.mean(0))
    counts = np.stack([each for _, each in _windows(op, np.ones_like(x), op.kernel, 0.0)])
    return np.asarray(under.sum(0) / counts.sum(0))


def _channels(values: Array, x: Array) -> Array:
    return values.reshape(-1, *[1] * (x.ndim - 2))


def _batch_normalization(op: Any, x: Array, *others: Array) -> Array:
    scale, shift, mean, variance = (_channels(each, x) for each in others)
    return (x - mean) / np.sqrt(variance + op.epsilon) * scale + shift


def _layer_normalization(op: Any, x: Array, scale: Array, shift: Array) -> Array:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + op.epsilon) * scale + shift


def _softmax(op: Any, x: Array) -> Array:
    e = np.exp(x - x.max(op.axis, keepdims=True))
    return e / e.sum(op.axis, keepdims=True)


def _shuffle(op: Any, x: Array) -> Array:
    a = op.axis
    split = x.reshape(*x.shape[:a], op.groups, -1, *x.shape[a + 1 :])
    return np.swapaxes(split, a, a + 1).reshape(x.shape)


def _slice(op: Any, x: Array) -> Array:
    spans = zip(op.starts, op.sizes, op.steps, strict=True)
    return x[tuple(slice(at, at + (n - 1) * step + 1, step) for at, n, step in spans)]


def _attention(op: Any, query: Array, key: Array, value: Array, mask: Array | None = None) -> Array:
    """Of floats that are added, or of truth as 0 and 1 where all of a mask is one of these."""
    words = dict(op.parameters)
    key, value = (np.repeat(x, query.shape[1] // x.shape[1], 1) for x in (key, value))
    scores = query @ key.swapaxes(2, 3) * words["scale"]
    if mask is not None:
        scores = scores + (np.where(mask, 0, -np.inf) if mask.dtype == np.bool_ else mask)
    shift = {"none": None, "top_left": 0, "bottom_right": scores.shape[3] - scores.shape[2]}[words["causal"]]
    if shift is not None:
        scores = np.where(np.tri(*scores.shape[2:], shift), scores, -np.inf)
    top = np.maximum(scores.max(-1, keepdims=True), -1e300)
    powers = np.exp(scores - top)
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total > 0, total, 1) @ value


_OPERATIONS: dict[str, Callable[..., Array]] = {
    "convolution": _convolution,
    "deconvolution": _deconvolution,
    "inner_product": lambda op, x, w, b=0.0: x.reshape(len(x), -1) @ w.reshape(len(w), -1).T + b,
    "matmul": lambda op, x, w, b=0.0: x @ w + b,
    "pooling": _pooling,
    "batch_normalization": _batch_normalization,
    "layer_normalization": _layer_normalization,
    "softmax": _softmax,
    "eltwise": _eltwise,
    "binary": lambda op, *xs: _BINARY[op.algorithm.removeprefix("binary_")](*xs),
    "reorder": lambda op, x: x,
    "sum": lambda op, *xs: sum(s * x for s, x in zip(op.scales, xs, strict=True)),
    "concat": lambda op, *xs: np.concatenate(xs, op.axis),
    "shuffle": _shuffle,
    "reshape": lambda op, x: x.reshape(op.dims),
    "transpose": lambda op, x: x.transpose(op.order),
    "slice": _slice,
    "gather": lambda op, x, at: np.take(x, at.astype(np.int64), dict(op.parameters)["axis"]),
    "elementwise": lambda op, *xs: {"elementwise_gt": np.greater, "elementwise_is_nan": np.isnan}[
        dict(op.parameters)["algorithm"]
    ](*xs),
    "tile": lambda op, x: np.tile(x, dict(op.parameters)["repeats"]),
    "attention": _attention,
    "pad": lambda op, x: np.pad(x, list(zip(op.low, op.high, strict=True)), constant_values=op.value),
    "reduction": lambda op, x: x.mean(tuple(op.axes), keepdims=True),
}
