"""Expected results of graphs of oneDNN's driver, in f64 and without any of restride's code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from .fill import Array
from .formulas import BINARY, eltwise

Json = Mapping[str, Any]
TYPES: Mapping[str, Any] = {
    "f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "u8": np.uint8, "s8": np.int8,
    "s32": np.int32, "boolean": np.bool_,
}  # fmt: skip
"""NumPy's types of the words of a graph."""
# What is above these numbers, a root, a logarithm or a quotient has a value of.
_POSITIVE = {"Divide": 1, "Pow": 0, "Sqrt": 0, "Log": 0, "Reciprocal": 0}


def operations(graph: Json) -> list[Json]:
    """The operations that compute something, in order."""
    return [each for each in graph["graph"] if each["kind"] not in ("End", "Wildcard")]


def positive_inputs(graph: Json) -> frozenset[str]:
    """The tensors that an operation has no value of everywhere, unless they are positive."""
    every = (each for each in operations(graph) if each["kind"] in _POSITIVE)
    return frozenset(str(each["inputs"][_POSITIVE[each["kind"]]]["id"]) for each in every)


def graph_input(tensor: Json, seed: int, is_positive: bool) -> Array:
    """Numbers for an input of a graph, the same for the same seed."""
    rng, dtype, shape = np.random.default_rng(seed), TYPES[tensor["dtype"]], tensor["shape"]
    if dtype is np.bool_:
        return np.asarray(rng.random(shape) > 0.2)
    if np.dtype(dtype).kind in "iu":
        # Not far from the zero points: the largest of hundreds of scores would hang on how they are rounded.
        low = 100 if dtype is np.uint8 else -128
        return np.asarray(rng.integers(low, low + 56, shape).astype(dtype))
    return np.asarray(8.0 * np.ones(shape) if is_positive else rng.uniform(-1, 1, shape)).astype(dtype)


def graph_results(graph: Json, inputs: Mapping[str, Array], is_rounded: bool = False) -> dict[str, Array]:
    """Compute the operations on the inputs; each result may be rounded to its type."""
    values = {name: np.asarray(x, bool if x.dtype == bool else float) for name, x in inputs.items()}
    with np.errstate(all="ignore"):
        for each in operations(graph):
            attrs = {name: attr["value"] for name, attr in each.get("attrs", {}).items()}
            read = [values[str(x["id"])] for x in each["inputs"]]
            (out,) = each["outputs"]
            result = FORMULAS[each["kind"]](attrs, out, *read)
            values[str(out["id"])] = (
                result.astype(TYPES[out["dtype"]]).astype(float) if is_rounded else result
            )
    return values


Attrs = Mapping[str, Any]


def _softmax(attrs: Attrs, out: Json, x: Array) -> Array:
    e = np.exp(x - x.max(attrs["axis"], keepdims=True))
    return np.asarray(e / e.sum(attrs["axis"], keepdims=True))


def _softmax_backward(attrs: Attrs, out: Json, gradient: Array, y: Array) -> Array:
    return np.asarray((gradient - (gradient * y).sum(attrs["axis"], keepdims=True)) * y)


def _matmul(attrs: Attrs, out: Json, a: Array, b: Array, bias: Array | float = 0.0) -> Array:
    a, b = (np.swapaxes(x, -1, -2) if attrs.get(f"transpose_{n}") else x for n, x in (("a", a), ("b", b)))
    return np.asarray(a @ b + bias)


def _factors(attrs: Attrs, x: Array) -> tuple[Array, Array]:
    """Scales and zero points, of all elements or along an axis."""
    scales = np.array(attrs["scales"], np.float32).astype(float)
    points = np.array(attrs.get("zps") or np.zeros(len(scales)), float)
    if attrs.get("qtype", "per_tensor") == "per_tensor":
        return scales[0], points[0]
    behind = x.ndim - 1 - attrs["axis"] % x.ndim
    return scales.reshape(-1, *(1,) * behind), points.reshape(-1, *(1,) * behind)


def _quantize(attrs: Attrs, out: Json, x: Array) -> Array:
    info, (scales, points) = np.iinfo(TYPES[out["dtype"]]), _factors(attrs, x)
    return np.asarray(np.clip(np.rint(x / scales) + points, info.min, info.max))


def _dequantize(attrs: Attrs, out: Json, x: Array) -> Array:
    scales, points = _factors(attrs, x)
    return np.asarray((x - points) * scales)


def _by_groups(attrs: Attrs, out: Json, x: Array, scales: Array, points: Array | float = 0.0) -> Array:
    def spread(factors: Array | float) -> Array:
        factors = np.asarray(factors, float)
        if attrs.get("qtype") == "per_channel":
            factors = factors.reshape(-1, *(1,) * (x.ndim - 1 - attrs.get("axis", 1) % x.ndim))
        for axis, n in enumerate(x.shape if factors.ndim == x.ndim else ()):
            factors = np.repeat(factors, n // factors.shape[axis], axis)
        return factors

    return np.asarray((x - spread(points)) * spread(scales))


def _fold(reduce: Callable[..., Any]) -> Callable[..., Array]:
    return lambda attrs, out, x: np.asarray(
        reduce(x, axis=tuple(attrs["axes"]), keepdims=bool(attrs.get("keep_dims")))
    )


def _each(function: Callable[..., Any]) -> Callable[..., Array]:
    return lambda attrs, out, *xs: np.asarray(function(*xs))


def _gelu(attrs: Attrs, out: Json, x: Array) -> Array:
    return np.asarray(eltwise(attrs.get("mode", "gelu_erf"), x, 0.0, 0.0))


_SAME = ("TypeCast", "Reorder")
_ELTWISE = {
    "Abs": "abs", "Exp": "exp", "Log": "log", "ReLU": "relu", "Round": "round", "Sigmoid": "logistic",
    "Sqrt": "sqrt", "Square": "square", "Tanh": "tanh",
}  # fmt: skip
_BINARY = {
    "Add": "add", "Subtract": "sub", "Multiply": "mul", "Divide": "div", "Maximum": "max", "Minimum": "min",
    "GreaterEqual": "ge",
}  # fmt: skip
_FOLDS: Mapping[str, Callable[..., Any]] = {
    "Sum": np.sum,
    "Mean": np.mean,
    "Max": np.max,
    "Min": np.min,
    "Prod": np.prod,
}

FORMULAS: Mapping[str, Callable[..., Array]] = {
    **{kind: lambda attrs, out, x: x for kind in _SAME},
    **{kind: _each(lambda x, alg=alg: eltwise(alg, x, 0.0, 0.0)) for kind, alg in _ELTWISE.items()},
    **{kind: _each(BINARY[alg]) for kind, alg in _BINARY.items()},
    **{f"Reduce{name}": _fold(function) for name, function in _FOLDS.items()},
    "Reciprocal": _each(np.reciprocal),
    "Select": _each(np.where),
    "MatMul": _matmul,
    "SoftMax": _softmax,
    "LogSoftmax": lambda attrs, out, x: np.log(_softmax(attrs, out, x)),
    "SoftMaxBackward": _softmax_backward,
    "Quantize": _quantize,
    "Dequantize": _dequantize,
    "DynamicDequantize": _by_groups,
    "GELU": _gelu,
    "Pow": lambda attrs, out, x: x ** attrs["beta"],
    "Concat": lambda attrs, out, *xs: np.concatenate(xs, attrs["axis"]),
    "StaticReshape": lambda attrs, out, x: x.reshape(attrs["shape"]),
    "StaticTranspose": lambda attrs, out, x: x.transpose(attrs["order"]),
}
"""The operations by their kinds: of attributes, the type of the result, and what is read."""
