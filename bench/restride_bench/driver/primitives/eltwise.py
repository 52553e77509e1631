"""Eltwise functions: `--eltwise --dir=BWD_D --alg=relu --alpha=0.5 2x17x5x3`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from ..attr_text import ELTWISE_NAMES, OF_DST
from ..cases import Case, why_not_in_place
from ..compare import Points, Tolerance, epsilon
from ..fill import Array, eltwise_values
from ..formulas import eltwise, eltwise_gradient, erf, finished
from ..knobs import Count, Flag, Inference, Real, Tag, TypeName, caseless
from ..operands import CaseOperand, Values, desc_of, operand

_NAMES = {spelt: alg for spelt, alg in ELTWISE_NAMES.items() if alg != "nan_to_zero"}
_ROUGHER = ("gelu_tanh", "elu", "swish", "tanh", "soft_relu", "mish", "log")
_ROUGHER_FORWARD = ("elu_dst", "tanh_dst")
_GIVING_NAN = ("exp", "exp_dst", "log", "pow", "sqrt", "sqrt_dst", "square")


@dataclass(frozen=True, slots=True, kw_only=True)
class EltwiseCase(Case):
    """A function of every element, or its gradient."""

    driver: ClassVar[str] = "eltwise"
    primitive: ClassVar[str] = "Eltwise"
    template: ClassVar[str] = "%dir%,%dt%,%tag%,%alg%,%DESC%"

    dir: Inference = "FWD_D"
    dt: TypeName = "f32"
    tag: Tag = "abx"
    alg: Annotated[str, caseless(*dict.fromkeys(_NAMES.values()), also=_NAMES)] = "relu"
    alpha: Real = 0.0
    beta: Real = 0.0
    mb: Count = 0
    inplace: Flag = False

    @property
    def data_name(self) -> str:
        """What the gradient is computed from: the source, or of some functions the result."""
        return "dst" if self.alg in OF_DST and not self.is_forward else "src"

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        """Tensors and numbers."""
        how = {"algorithm": OF_DST.get(self.alg, self.alg), "alpha": self.alpha, "beta": self.beta}
        known, like = rs.MemoryDesc(self.dims, self.dt, self.tag), desc_of(self.dims, self.dt)
        if is_forward:
            return {**how, "src": known, "dst": like}
        return {**how, "data": known, "diff_src": like, "diff_dst": like}

    def reads(self) -> list[CaseOperand]:
        """The source; or what the gradient is computed from, and the gradient of the result."""
        known, like = rs.MemoryDesc(self.dims, self.dt, self.tag), desc_of(self.dims, self.dt)
        gradient = [] if self.is_forward else [operand("diff_dst", like, partial(self.source, 3))]
        return [operand(self.data_name, known, self.data), *gradient]

    def writes(self) -> list[CaseOperand]:
        """The result, or the gradient of the source."""
        like = desc_of(self.dims, self.dt)
        return [
            operand("dst", like, partial(self.source, 2)) if self.is_forward else operand("diff_src", like)
        ]

    def source(self, seed: int = 1) -> Array:
        """Values of a source, or of a gradient."""
        kind, has_infinities = DataType.parse(self.dt), self.alg == "log"
        return eltwise_values(self.dims, kind, self.alpha, self.beta, has_infinities, seed)

    def data(self) -> Array:
        """The source, or what forward makes of it."""
        source = self.source()
        return source if self.data_name == "src" else eltwise(self.alg, source, self.alpha, self.beta)

    def formula(self, values: Values) -> Values:
        """The function, or the gradient times its derivative."""
        numbers = self.alpha, self.beta
        if not self.is_forward:
            data = values[rs.ARG_DST if self.data_name == "dst" else rs.ARG_SRC]
            with np.errstate(all="ignore"):
                return {rs.ARG_DIFF_SRC: values[rs.ARG_DIFF_DST] * eltwise_gradient(self.alg, data, *numbers)}
        result = eltwise(self.alg, values[rs.ARG_SRC], *numbers)
        with np.errstate(over="ignore"):
            # What is larger than an f32 holds is infinite, and stays so: times 0 it is NaN.
            is_over = np.isinf(result.astype(np.float64 if self.dt == "f64" else np.float32))
        held = np.where(is_over, np.copysign(np.inf, result), result)
        return {rs.ARG_DST: finished(self, held, values)}

    def tolerance(self, arg: int) -> Tolerance:
        """More where functions cancel."""
        data_type, is_wide = DataType.parse(self.dt), self.dt in ("f32", "f64")
        threshold = 4e-6 if is_wide else epsilon(data_type)
        if is_wide and (self.alg in _ROUGHER or (self.is_forward and self.alg in _ROUGHER_FORWARD)):
            threshold = 4e-5
        is_flat = (
            data_type.is_integral
            or (self.alg == "linear" and self.alpha == 0)
            or (self.alg.startswith("clip") and (not self.is_forward or self.alpha == self.beta == 0))
            or (self.alg == "pow" and (self.alpha == 0 or (not self.is_forward and self.beta == 0)))
        )
        zeros = 100.0 if is_flat else 65.0
        return Tolerance(threshold, zeros, self.alg in _GIVING_NAN, partial(self.is_near, threshold))

    def is_near(self, threshold: float, points: Points) -> Array:
        """True where a formula cancels, and the absolute difference is small."""
        if not threshold:
            return np.zeros(points.index.shape, np.bool_)
        source = self.data().reshape(-1)[points.index]
        with np.errstate(all="ignore"):
            cancels = _CANCELS.get(self.alg, _never)(source, self, 2 * epsilon(DataType.f32) / threshold)
        if any(op.kind == "binary" for op in self.attr_post_ops):
            cancels = np.ones(source.shape, np.bool_)
        return np.asarray(cancels & (points.diff <= threshold))

    def invalid(self) -> Iterator[str]:
        """Why the case makes no sense."""
        if self.alg.startswith("clip") and self.beta < self.alpha:
            yield "Invalid case: a clip to an empty range"
        if self.alg in ("elu_dst", "relu_dst") and self.alpha < 0:
            yield f"Invalid case: {self.alg} with a slope below 0"
        if self.alg == "round" and not self.is_forward:
            yield "Invalid case: round has no gradient"
        if self.inplace and not self.is_forward and self.alg not in OF_DST:
            yield "Invalid case: in place forward, and the source is needed backward"
        if self.inplace:
            yield from why_not_in_place((self.dt, self.tag), (self.dt, "any"))


Cancels = Callable[[Array, EltwiseCase, float], Array]


def _never(s: Array, case: EltwiseCase, limit: float) -> Array:
    return np.zeros(s.shape, np.bool_)


def _elu_cancels(s: Array, case: EltwiseCase, limit: float) -> Array:
    return np.asarray(case.is_forward & np.signbit(s) & (np.abs(np.expm1(s)) <= limit))


def _gelu_tanh_cancels(s: Array, case: EltwiseCase, limit: float) -> Array:
    root = math.sqrt(2 / math.pi)
    v = np.tanh(root * s * (1 + 0.044715 * s * s))
    slope = root * (1 + 3 * 0.044715 * s * s)
    at_root = np.signbit(s) & (np.abs(1 + s * (1 - v) * slope) <= 4 * limit)
    return np.asarray((np.abs(1 + v) <= limit) | ((not case.is_forward) & at_root))


def _gelu_erf_cancels(s: Array, case: EltwiseCase, limit: float) -> Array:
    v = s / math.sqrt(2)
    if case.is_forward:
        return np.asarray(np.abs(1 + erf(v)) <= limit)
    return np.asarray(np.abs(1 + erf(v) + v * 2 / math.sqrt(math.pi) * np.exp(-v * v)) <= 2 * limit)


def _swish_cancels(s: Array, case: EltwiseCase, limit: float) -> Array:
    y = case.alpha * s
    return np.asarray((not case.is_forward) & (y * (1 - 1 / (1 + np.exp(-y))) <= limit))


def _soft_relu_cancels(s: Array, case: EltwiseCase, limit: float) -> Array:
    y = case.alpha * s
    return np.asarray(case.is_forward & np.signbit(y) & (np.log1p(np.exp(y)) <= 10 * limit))


def _mish_cancels(s: Array, case: EltwiseCase, limit: float) -> Array:
    return np.asarray(case.is_forward & np.signbit(s) & (s * np.tanh(np.logaddexp(0, s)) <= 10 * limit))


def _backward_of(near: Callable[[Array], Array]) -> Cancels:
    return lambda s, case, limit: np.asarray((not case.is_forward) & (near(s) <= limit))


_CANCELS: dict[str, Cancels] = {
    "elu": _elu_cancels,
    "elu_dst": _elu_cancels,
    "gelu_tanh": _gelu_tanh_cancels,
    "gelu_erf": _gelu_erf_cancels,
    "tanh": _backward_of(lambda s: 1 - np.tanh(np.abs(s))),
    "tanh_dst": _backward_of(lambda d: 1 - d * d),
    "soft_relu": _soft_relu_cancels,
    "mish": _mish_cancels,
    "logistic": _backward_of(lambda s: np.where(np.signbit(s), np.inf, 1 / (1 + np.exp(s)))),
    "logistic_dst": _backward_of(lambda d: np.minimum(1 - d, d)),
    "swish": _swish_cancels,
}
