"""Softmax: `--softmax --dir=BWD_D --alg=LOGSOFTMAX --axis=1 2x19x16x64`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from ..cases import ATTR_KNOB_NAMES, Case
from ..compare import Tolerance, epsilon
from ..driver import Driver
from ..fill import Array, rounded
from ..formulas import finished, scale_of
from ..knobs import (
    ATTR_KNOBS,
    Knob,
    caseless,
    direction,
    flag,
    parse_axis,
    parse_count,
    parse_tag,
    parse_type,
)
from ..work import CaseOperand, CaseWork, Formula, Values, attributes, why_not_in_place

_NAMES = {
    "SOFTMAX": "softmax_accurate",
    "LOGSOFTMAX": "softmax_log",
    "SOFTMAX_INF_AS_ZERO": "softmax_accurate_inf_as_zero",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftmaxCase(Case):
    """A softmax along an axis, or the gradient of its source."""

    driver: ClassVar[str] = "softmax"

    dir: str = "FWD_D"
    sdt: str = "f32"
    ddt: str = "f32"
    stag: str = "abx"
    dtag: str = "any"
    alg: str = "SOFTMAX"
    axis: int = 1
    mb: int = 0
    inplace: bool = False

    def __post_init__(self) -> None:
        if self.mb:
            object.__setattr__(self, "dims", (self.mb, *self.dims[1:]))

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        return ("dir", "sdt", "ddt", "stag", "dtag", "alg", "axis", "mb", "inplace", *ATTR_KNOB_NAMES)

    @property
    def is_forward(self) -> bool:
        """True for the function itself."""
        return self.dir != "BWD_D"

    @property
    def is_log(self) -> bool:
        """True for the logarithm."""
        return self.alg == "LOGSOFTMAX"


_KNOBS = {
    "dir": direction("dir", "FWD_D", "FWD_I", "BWD_D"),
    "sdt": Knob("sdt", parse_type),
    "ddt": Knob("ddt", parse_type),
    "stag": Knob("stag", parse_tag),
    "dtag": Knob("dtag", parse_tag),
    "alg": caseless("alg", *_NAMES, also={name: alg for alg, name in _NAMES.items()}),
    "axis": Knob("axis", parse_axis),
    "mb": Knob("mb", parse_count),
    "inplace": flag("inplace"),
    **ATTR_KNOBS,
}


def _work(case: SoftmaxCase) -> CaseWork:
    return _forward(case) if case.is_forward else _backward(case)


def _source(case: SoftmaxCase, seed: int = 1) -> Array:
    """Numbers about 0, as the source's type has them."""
    values = np.random.default_rng(seed).uniform(-4, 4, case.dims)
    return np.asarray(rounded(values, DataType.parse(case.sdt)).astype(np.float64))


def _softmax(case: SoftmaxCase, src: Array) -> Array:
    shifted = src - src.max(case.axis, keepdims=True)
    total = np.exp(shifted).sum(case.axis, keepdims=True)
    return np.asarray(shifted - np.log(total) if case.is_log else np.exp(shifted) / total)


def _forward_desc(case: SoftmaxCase, engine: rs.Engine, dtag: str, attr: rs.PrimitiveAttr | None) -> Any:
    kind = "forward_inference" if case.dir == "FWD_I" else "forward_training"
    src = rs.MemoryDesc(case.dims, case.sdt, case.stag)
    dst = rs.MemoryDesc(case.dims, case.ddt, dtag)
    return rs.SoftmaxForward.PrimitiveDesc(engine, kind, _NAMES[case.alg], src, dst, case.axis, attr)


def _forward(case: SoftmaxCase) -> CaseWork:
    attr, inputs = attributes(case)
    src = rs.MemoryDesc(case.dims, case.sdt, case.stag)
    dst = rs.MemoryDesc(case.dims, case.ddt, case.dtag)

    def formula(values: Values) -> Values:
        result = _softmax(case, values[rs.ARG_SRC]) * scale_of(case, "src", values)
        return {rs.ARG_DST: finished(case, np.asarray(result), values)}

    return CaseWork(
        lambda engine, _: _forward_desc(case, engine, case.dtag, attr),
        rs.SoftmaxForward,
        CaseOperand(rs.ARG_SRC, src, case.stag, values=partial(_source, case)),
        CaseOperand(rs.ARG_DST, dst, values=partial(_source, case, 2)),
        tuple(inputs),
        sums=any(op.kind == "sum" for op in case.attr_post_ops),
        formula=Formula(formula, {rs.ARG_DST: _tolerance(case, case.ddt)}),
        in_place=rs.ARG_SRC if case.inplace else 0,
    )


def _backward(case: SoftmaxCase) -> CaseWork:
    attr, _ = attributes(case)
    result, gradient = (
        rs.MemoryDesc(case.dims, kind, tag) for kind, tag in ((case.ddt, case.stag), (case.sdt, "any"))
    )

    def create(engine: rs.Engine, _: rs.Engine) -> Any:
        hint = _forward_desc(case, engine, case.stag, None)
        diff_dst = rs.MemoryDesc(case.dims, case.ddt, "any")
        return rs.SoftmaxBackward.PrimitiveDesc(
            engine, _NAMES[case.alg], gradient, diff_dst, result, case.axis, attr, hint_pd=hint
        )

    def formula(values: Values) -> Values:
        y, dy = values[rs.ARG_DST], values[rs.ARG_DIFF_DST]
        if case.is_log:
            return {rs.ARG_DIFF_SRC: dy - np.exp(y) * dy.sum(case.axis, keepdims=True)}
        return {rs.ARG_DIFF_SRC: y * (dy - (y * dy).sum(case.axis, keepdims=True))}

    diff_dst = rs.MemoryDesc(case.dims, case.ddt, "any")
    return CaseWork(
        create,
        rs.SoftmaxBackward,
        CaseOperand(rs.ARG_DST, result, case.stag, values=lambda: _softmax(case, _source(case))),
        CaseOperand(rs.ARG_DIFF_SRC, gradient),
        (CaseOperand(rs.ARG_DIFF_DST, diff_dst, values=partial(_source, case, 3)),),
        formula=Formula(formula, {rs.ARG_DIFF_SRC: _tolerance(case, case.sdt)}),
        in_place=rs.ARG_DIFF_DST if case.inplace else 0,
    )


def _tolerance(case: SoftmaxCase, kind: str) -> Tolerance:
    """The logarithm forward, and gradients, are four times as rough; f32 ten times."""
    data_type = DataType.parse(kind)
    step = max(epsilon(data_type), epsilon(DataType.f32)) if not data_type.is_integral else 0.0
    threshold = step * (10 if step <= epsilon(DataType.f32) else 1)
    threshold *= (4 if case.is_log and case.is_forward else 1) * (1 if case.is_forward else 4)
    zeros = 100.0 if data_type.is_integral or not case.is_forward else 65.0
    cancels = case.is_log or not case.is_forward
    scales = {each.arg: each.value or 1.0 for each in case.attr_scales}
    size = max(1.0, scales.get("src", 1.0) / scales.get("dst", 1.0))
    return Tolerance(
        threshold,
        zeros,
        # Where results are differences, those near 0 have no last places; scales make more of them.
        allows=lambda points: np.asarray(points.diff <= (1e-6 * size if cancels else 0.0)),
        post_ops=case.attr_post_ops,
        has_dst_scale=bool(case.attr_scales),
    )


def _invalid(case: SoftmaxCase) -> Iterator[str]:
    if case.alg == "SOFTMAX_INF_AS_ZERO":
        yield f"Case not supported: --alg={case.alg}"
    if not 0 <= case.axis < len(case.dims):
        yield f"Invalid case: there is no axis {case.axis}"
    if case.inplace:
        yield from why_not_in_place((case.sdt, case.stag), (case.ddt, case.dtag))
    if not case.is_forward and (DataType.parse(case.sdt).is_integral or DataType.parse(case.ddt).is_integral):
        yield "Invalid case: a gradient of integers"


SOFTMAX = Driver(
    SoftmaxCase,
    _KNOBS,
    _work,
    lambda case: (case.sdt, case.ddt),
    "%dir%,%sdt%,%ddt%,%stag%,%dtag%,%alg%,%axis%,%DESC%",
    _invalid,
)
