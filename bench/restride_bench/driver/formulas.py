"""Expected results of primitives, in f64, without restride's code: post-ops, scales, functions, windows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np

import restride as rs

from .attr_text import FactorText
from .cases import Case
from .fill import Array
from .operands import Values
from .problems import Dims
from .work import ARGS, factor_extents, post_op_extents

_ROOT = math.sqrt(2 / math.pi)
erf = np.vectorize(math.erf, otypes=[np.float64])
"""The error function."""


def _logistic(s: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-s)))


def _soft_relu(s: Array) -> Array:
    return np.logaddexp(0.0, s)


Function = Callable[[Array, float, float], Array]

ELTWISE: dict[str, Function] = {
    "abs": lambda s, alpha, beta: np.abs(s),
    "clip": lambda s, alpha, beta: np.clip(s, alpha, beta),
    "clip_v2": lambda s, alpha, beta: np.clip(s, alpha, beta),
    "elu": lambda s, alpha, beta: np.where(s > 0, s, alpha * np.expm1(np.minimum(s, 0))),
    "exp": lambda s, alpha, beta: np.exp(s),
    "gelu_erf": lambda s, alpha, beta: 0.5 * s * (1 + erf(s / math.sqrt(2))),
    "gelu_tanh": lambda s, alpha, beta: 0.5 * s * (1 + np.tanh(_ROOT * (s + 0.044715 * s**3))),
    "hardsigmoid": lambda s, alpha, beta: np.clip(alpha * s + beta, 0, 1),
    "hardswish": lambda s, alpha, beta: s * np.clip(alpha * s + beta, 0, 1),
    "linear": lambda s, alpha, beta: alpha * s + beta,
    "log": lambda s, alpha, beta: np.log(s),
    "logistic": lambda s, alpha, beta: _logistic(s),
    "mish": lambda s, alpha, beta: s * np.tanh(_soft_relu(s)),
    "pow": lambda s, alpha, beta: alpha * s**beta,
    "relu": lambda s, alpha, beta: np.where(s > 0, s, alpha * s),
    "round": lambda s, alpha, beta: np.rint(s),
    "soft_relu": lambda s, alpha, beta: _soft_relu(alpha * s) / alpha,
    "sqrt": lambda s, alpha, beta: np.sqrt(s),
    "square": lambda s, alpha, beta: s * s,
    "swish": lambda s, alpha, beta: s * _logistic(alpha * s),
    "tanh": lambda s, alpha, beta: np.tanh(s),
}
"""The functions of oneDNN by name, without `eltwise_`; those with `_dst` at their end are the same."""

BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "min": np.minimum,
    "max": np.maximum,
    "ge": lambda a, b: (a >= b) * 1.0,
    "gt": lambda a, b: (a > b) * 1.0,
    "le": lambda a, b: (a <= b) * 1.0,
    "lt": lambda a, b: (a < b) * 1.0,
    "eq": lambda a, b: (a == b) * 1.0,
    "ne": lambda a, b: (a != b) * 1.0,
}


def eltwise(alg: str, s: Array, alpha: float, beta: float) -> Array:
    """A function of oneDNN."""
    with np.errstate(all="ignore"):
        return ELTWISE[alg.removesuffix("_dst")](s, alpha, beta)


def _within(s: Array, low: float, high: float) -> Array:
    return ((s > low) & (s < high)) * 1.0


def _hardswish_gradient(s: Array, alpha: float, beta: float) -> Array:
    v = alpha * s + beta
    return np.where(v >= 1, 1.0, np.where(v <= 0, 0.0, v + alpha * s))


def _gelu_tanh_gradient(s: Array, alpha: float, beta: float) -> Array:
    v = np.tanh(_ROOT * (s + 0.044715 * s**3))
    return np.asarray(0.5 * (1 + v) * (1 + s * (1 - v) * _ROOT * (1 + 3 * 0.044715 * s * s)))


def _gelu_erf_gradient(s: Array, alpha: float, beta: float) -> Array:
    bell = np.exp(-0.5 * s * s) / math.sqrt(2 * math.pi)
    return np.asarray(0.5 * (1 + erf(s / math.sqrt(2))) + s * bell)


def _mish_gradient(s: Array, alpha: float, beta: float) -> Array:
    t = np.tanh(_soft_relu(s))
    return np.asarray(t + s * (1 - t * t) * _logistic(s))


def _swish_gradient(s: Array, alpha: float, beta: float) -> Array:
    weight = _logistic(alpha * s)
    return np.asarray(weight + s * alpha * weight * (1 - weight))


def _pow_gradient(s: Array, alpha: float, beta: float) -> Array:
    return np.zeros_like(s) if beta == 0 else np.asarray(alpha * beta * s ** (beta - 1))


GRADIENTS: dict[str, Function] = {
    "abs": lambda s, alpha, beta: np.sign(s),
    "clip": lambda s, alpha, beta: ((s > alpha) & (s <= beta)) * 1.0,
    "clip_v2": _within,
    "clip_v2_dst": _within,
    "elu": lambda s, alpha, beta: np.where(s > 0, 1.0, alpha * np.exp(np.minimum(s, 0))),
    "elu_dst": lambda d, alpha, beta: np.where(d > 0, 1.0, d + alpha),
    "exp": lambda s, alpha, beta: np.exp(s),
    "exp_dst": lambda d, alpha, beta: d,
    "gelu_erf": _gelu_erf_gradient,
    "gelu_tanh": _gelu_tanh_gradient,
    "hardsigmoid": lambda s, alpha, beta: alpha * _within(alpha * s + beta, 0, 1),
    "hardswish": _hardswish_gradient,
    "linear": lambda s, alpha, beta: np.full_like(s, alpha),
    "log": lambda s, alpha, beta: 1 / s,
    "logistic": lambda s, alpha, beta: _logistic(s) * _logistic(-s),
    "logistic_dst": lambda d, alpha, beta: d * (1 - d),
    "mish": _mish_gradient,
    "pow": _pow_gradient,
    "relu": lambda s, alpha, beta: np.where(s > 0, 1.0, alpha),
    "relu_dst": lambda d, alpha, beta: np.where(d > 0, 1.0, alpha),
    "soft_relu": lambda s, alpha, beta: _logistic(alpha * s),
    "sqrt": lambda s, alpha, beta: 0.5 / np.sqrt(s),
    "sqrt_dst": lambda d, alpha, beta: 0.5 / d,
    "square": lambda s, alpha, beta: 2 * s,
    "swish": _swish_gradient,
    "tanh": lambda s, alpha, beta: 1 - np.tanh(s) ** 2,
    "tanh_dst": lambda d, alpha, beta: 1 - d * d,
}
"""Their derivatives; those with `_dst` at their end are of the result."""


def eltwise_gradient(alg: str, s: Array, alpha: float, beta: float) -> Array:
    """The derivative of a function of oneDNN, at a source or at a result."""
    with np.errstate(all="ignore"):
        return GRADIENTS[alg](s, alpha, beta)


def scale_of(case: Case, arg: str, values: Values) -> Array | float:
    """The scales of an argument, ready to be multiplied with it; 1 for none."""
    factor = next((factor for factor in case.attr_scales if factor.arg == arg), None)
    return 1.0 if factor is None else _spread(rs.onednn.Arg.ATTR_SCALES, factor, case, values)


def zero_point_of(case: Case, arg: str, values: Values) -> Array | float:
    """The zero points of an argument, ready to be subtracted from it; 0 for none."""
    factor = next((factor for factor in case.attr_zero_points if factor.arg == arg), None)
    return 0.0 if factor is None else _spread(rs.onednn.Arg.ATTR_ZERO_POINTS, factor, case, values)


def _spread(kind: int, factor: FactorText, case: Case, values: Values) -> Array | float:
    """One value for all, or values in the shape of their tensor, with 1 where they are repeated."""
    if factor.value is not None:
        return factor.value
    found = values[kind | ARGS[factor.arg]].reshape(factor_extents(case, factor))
    for back, group in enumerate(reversed(factor.groups), 1):
        if found.shape[-back] > 1:
            found = np.repeat(found, group, axis=-back)
    return found


def finished(case: Case, t: Array, values: Values) -> Array:
    """A result after the post-ops, and the scales and zero points of the destination."""
    t = after_post_ops(case, t, values, range(len(case.attr_post_ops)))
    with np.errstate(all="ignore"):
        return np.asarray(t / scale_of(case, "dst", values) + zero_point_of(case, "dst", values))


def after_post_ops(case: Case, t: Array, values: Values, places: Iterable[int]) -> Array:
    """A result after the post-ops at these places."""
    with np.errstate(all="ignore"):
        for index in places:
            op, arg = case.attr_post_ops[index], rs.onednn.arg_attr_multiple_post_op(index)
            if op.kind == "prelu":
                weights = values[arg | rs.onednn.Arg.WEIGHTS].reshape(post_op_extents(case, index))
                t = np.where(t > 0, t, t * weights)
            elif op.kind == "sum":
                t = np.asarray(t + op.number(0, 1.0) * (values["dst"] - op.number(1, 0)))
            elif op.kind == "eltwise":
                t = op.number(2, 1.0) * eltwise(op.name, t, op.number(0, 0.0), op.number(1, 0.0))
            else:
                t = BINARY[op.name](t, values[arg | rs.onednn.Arg.SRC_1])
    return t


Slices = tuple[slice, ...]


def taps(
    points: Dims, elements: Dims, kernel: Dims, strides: Dims, dilation: Dims, padding: Dims
) -> Iterator[tuple[Dims, Slices, Slices]]:
    """For each tap of a kernel: which elements under windows meet which points, one for each window."""
    for tap in itertools.product(*map(range, kernel)):
        found = [
            _along(*each) for each in zip(tap, points, elements, strides, dilation, padding, strict=True)
        ]
        yield tap, tuple(element for element, _ in found), tuple(point for _, point in found)


def _along(tap: int, points: int, elements: int, stride: int, dilation: int, padding: int) -> Slices:
    first = tap * (dilation + 1) - padding
    low = max(0, -(first // stride))
    high = min(points, (elements - 1 - first) // stride + 1)
    if high <= low:
        return slice(0, 0), slice(0, 0)
    return slice(first + low * stride, first + (high - 1) * stride + 1, stride), slice(low, high)
