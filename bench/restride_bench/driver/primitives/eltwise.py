"""Eltwise functions: `--eltwise --dir=BWD_D --alg=relu --alpha=0.5 2x17x5x3`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from ..attr_text import ELTWISE_NAMES, OF_DST
from ..cases import ATTR_KNOB_NAMES, Case
from ..compare import Points, Tolerance, epsilon
from ..driver import Driver
from ..fill import Array, eltwise_values
from ..formulas import eltwise, eltwise_gradient, erf, finished
from ..knobs import (
    ATTR_KNOBS,
    Knob,
    caseless,
    direction,
    flag,
    parse_count,
    parse_real,
    parse_tag,
    parse_type,
)
from ..work import CaseOperand, CaseWork, Formula, Values, attributes, why_not_in_place

_NAMES = {spelt: alg for spelt, alg in ELTWISE_NAMES.items() if alg != "nan_to_zero"}
_ALGORITHMS = tuple(dict.fromkeys(_NAMES.values()))
_ROUGHER = ("gelu_tanh", "elu", "swish", "tanh", "soft_relu", "mish", "log")
_ROUGHER_FORWARD = ("elu_dst", "tanh_dst")
_GIVING_NAN = ("exp", "exp_dst", "log", "pow", "sqrt", "sqrt_dst", "square")


@dataclass(frozen=True, slots=True, kw_only=True)
class EltwiseCase(Case):
    """A function of every element, or its gradient."""

    driver: ClassVar[str] = "eltwise"

    dir: str = "FWD_D"
    dt: str = "f32"
    tag: str = "abx"
    alg: str = "relu"
    alpha: float = 0.0
    beta: float = 0.0
    mb: int = 0
    inplace: bool = False

    def __post_init__(self) -> None:
        if self.mb:
            object.__setattr__(self, "dims", (self.mb, *self.dims[1:]))

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        return ("dir", "dt", "tag", "alg", "alpha", "beta", "mb", "inplace", *ATTR_KNOB_NAMES)

    @property
    def is_forward(self) -> bool:
        """True for the function itself."""
        return self.dir != "BWD_D"

    @property
    def is_of_dst(self) -> bool:
        """True where the gradient is computed from the result."""
        return self.alg in OF_DST


_KNOBS = {
    "dir": direction("dir", "FWD_D", "FWD_I", "BWD_D"),
    "dt": Knob("dt", parse_type),
    "tag": Knob("tag", parse_tag),
    "alg": caseless("alg", *_ALGORITHMS, also=_NAMES),
    "alpha": Knob("alpha", parse_real),
    "beta": Knob("beta", parse_real),
    "mb": Knob("mb", parse_count),
    "inplace": flag("inplace"),
    **ATTR_KNOBS,
}


def _work(case: EltwiseCase) -> CaseWork:
    return _forward(case) if case.is_forward else _backward(case)


def _mds(case: EltwiseCase) -> tuple[rs.MemoryDesc, rs.MemoryDesc]:
    """The tensor whose format is known, and one of format any."""
    return rs.MemoryDesc(case.dims, case.dt, case.tag), rs.MemoryDesc(case.dims, case.dt, "any")


def _source(case: EltwiseCase, seed: int = 1) -> Array:
    return eltwise_values(case.dims, DataType.parse(case.dt), case.alpha, case.beta, case.alg == "log", seed)


def _forward(case: EltwiseCase) -> CaseWork:
    attr, inputs = attributes(case)
    src, dst = _mds(case)

    def create(engine: rs.Engine, _: rs.Engine) -> Any:
        kind = "forward_inference" if case.dir == "FWD_I" else "forward_training"
        alg, alpha, beta = OF_DST.get(case.alg, case.alg), case.alpha, case.beta
        return rs.EltwiseForward.PrimitiveDesc(engine, kind, alg, src, dst, alpha, beta, attr)

    def formula(values: Values) -> Values:
        result = eltwise(case.alg, values[rs.ARG_SRC], case.alpha, case.beta)
        with np.errstate(over="ignore"):
            # What is larger than an f32 holds is infinite, and stays so: times 0 it is NaN.
            is_over = np.isinf(result.astype(np.float64 if case.dt == "f64" else np.float32))
        held = np.where(is_over, np.copysign(np.inf, result), result)
        return {rs.ARG_DST: finished(case, held, values)}

    return CaseWork(
        create,
        rs.EltwiseForward,
        CaseOperand(rs.ARG_SRC, src, case.tag, values=partial(_source, case)),
        CaseOperand(rs.ARG_DST, dst, values=partial(_source, case, 2)),
        tuple(inputs),
        sums=any(op.kind == "sum" for op in case.attr_post_ops),
        formula=Formula(formula, {rs.ARG_DST: _tolerance(case)}),
        in_place=rs.ARG_SRC if case.inplace else 0,
    )


def _backward(case: EltwiseCase) -> CaseWork:
    attr, _ = attributes(case)
    data, gradient = _mds(case)
    data_arg = rs.ARG_DST if case.is_of_dst else rs.ARG_SRC

    def create(engine: rs.Engine, _: rs.Engine) -> Any:
        kind, known = "forward_training", (case.alpha, case.beta)
        hint = rs.EltwiseForward.PrimitiveDesc(
            engine, kind, OF_DST.get(case.alg, case.alg), data, gradient, *known
        )
        return rs.EltwiseBackward.PrimitiveDesc(
            engine, OF_DST.get(case.alg, case.alg), gradient, gradient, data, *known, attr, hint_pd=hint
        )

    def formula(values: Values) -> Values:
        slope = eltwise_gradient(case.alg, values[data_arg], case.alpha, case.beta)
        with np.errstate(all="ignore"):
            return {rs.ARG_DIFF_SRC: values[rs.ARG_DIFF_DST] * slope}

    return CaseWork(
        create,
        rs.EltwiseBackward,
        CaseOperand(data_arg, data, case.tag, values=partial(_data, case)),
        CaseOperand(rs.ARG_DIFF_SRC, gradient),
        (CaseOperand(rs.ARG_DIFF_DST, gradient, values=partial(_source, case, 3)),),
        formula=Formula(formula, {rs.ARG_DIFF_SRC: _tolerance(case)}),
        in_place=rs.ARG_DIFF_DST if case.inplace else 0,
    )


def _data(case: EltwiseCase) -> Array:
    """The source, or what forward makes of it."""
    source = _source(case)
    return eltwise(case.alg, source, case.alpha, case.beta) if case.is_of_dst else source


def _tolerance(case: EltwiseCase) -> Tolerance:
    data_type, is_wide = DataType.parse(case.dt), case.dt in ("f32", "f64")
    threshold = 4e-6 if is_wide else epsilon(data_type)
    if is_wide and (case.alg in _ROUGHER or (case.is_forward and case.alg in _ROUGHER_FORWARD)):
        threshold = 4e-5
    return Tolerance(
        threshold,
        _trusted_zeros(case),
        case.alg in _GIVING_NAN,
        partial(_allows, case, threshold),
    )


def _trusted_zeros(case: EltwiseCase) -> float:
    """Which part of a result, in percent, may be zero."""
    is_backward = not case.is_forward
    is_flat = (
        DataType.parse(case.dt).is_integral
        or (case.alg == "linear" and case.alpha == 0)
        or (case.alg.startswith("clip") and (is_backward or case.alpha == case.beta == 0))
        or (case.alg == "pow" and (case.alpha == 0 or (is_backward and case.beta == 0)))
    )
    return 100.0 if is_flat else 65.0


def _allows(case: EltwiseCase, threshold: float, points: Points) -> Array:
    """True where a formula cancels, and the absolute difference is small."""
    if not threshold:
        return np.zeros(points.index.shape, np.bool_)
    source = (_source(case) if case.is_forward else _data(case)).reshape(-1)[points.index]
    with np.errstate(all="ignore"):
        cancels = _CANCELS.get(case.alg, _never)(source, case, 2 * epsilon(DataType.f32) / threshold)
    if any(op.kind == "binary" for op in case.attr_post_ops):
        cancels = np.ones(source.shape, np.bool_)
    return np.asarray(cancels & (points.diff <= threshold))


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


def _invalid(case: EltwiseCase) -> Iterator[str]:
    if case.alg.startswith("clip") and case.beta < case.alpha:
        yield "Invalid case: a clip to an empty range"
    if case.alg in ("elu_dst", "relu_dst") and case.alpha < 0:
        yield f"Invalid case: {case.alg} with a slope below 0"
    if case.alg == "round" and not case.is_forward:
        yield "Invalid case: round has no gradient"
    if case.inplace and not case.is_forward and not case.is_of_dst:
        yield "Invalid case: in place forward, and the source is needed backward"
    if case.inplace:
        yield from why_not_in_place((case.dt, case.tag), (case.dt, "any"))


ELTWISE_DRIVER = Driver(
    EltwiseCase,
    _KNOBS,
    _work,
    lambda case: (case.dt,),
    "%dir%,%dt%,%tag%,%alg%,%DESC%",
    _invalid,
)
