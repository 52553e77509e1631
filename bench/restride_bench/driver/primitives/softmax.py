"""Softmax: `--softmax --dir=BWD_D --alg=LOGSOFTMAX --axis=1 2x19x16x64`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from .. import fill
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


_TOPS = ((1, 2), (2, 5), (5, 8))
_TOPS_OF_BYTES = ((1, 1), (1, 1), (0, 4))
_LARGE = 88  # an f32 holds no exp of more
_CHUNK = 64


def _source(case: SoftmaxCase) -> Array:
    """A few large numbers in each row, one or two of them a little larger, and next to nothing beside them.

    All are positive or all negative; what is left of a row are few different results, none near another.
    """
    outer, size, inner = prod(case.dims[: case.axis]), case.dims[case.axis], prod(case.dims[case.axis + 1 :])
    random, rows = np.random.default_rng(1), outer * inner
    kinds = DataType.parse(case.sdt), DataType.parse(case.ddt)
    ranges = _TOPS_OF_BYTES if kinds[1].bits == 8 else _TOPS
    counts = np.stack([random.integers(low, high, rows, endpoint=True) for low, high in ranges])
    ends = np.minimum(np.cumsum(counts, 0), size)
    starts = random.integers(0, size - ends[-1], endpoint=True)
    chunks = np.repeat(np.arange(outer) // _CHUNK, inner)
    sign = np.where((chunks % 2 == 1) & (kinds[0] is not DataType.u8), -1, 1)
    places = np.arange(size)[:, None] - starts
    rank = (places >= ends[:, None]).sum(0)
    lowest = max(fill.limits(kind)[0] for kind in kinds)
    values = np.where((places >= 0) & (rank < 3), sign * _LARGE + 2 - rank, lowest)
    values = rounded(values.reshape(size, outer, inner).swapaxes(0, 1).astype(np.float64), kinds[0])
    return np.asarray(values.astype(np.float64).reshape(case.dims))


def _given(case: SoftmaxCase, is_gradient: bool) -> Array:
    """A result or its gradient. One is negative, so that nothing cancels; of a logarithm the other one."""
    is_negative = is_gradient == case.is_log
    span = 128 if is_negative and case.ddt != "f16" else 8
    values = (11.0 * np.arange(prod(case.dims)) + 37 + 19 * is_negative) % span
    return (values * (-1 if is_negative else 1) / (1 if is_gradient else span)).reshape(case.dims)


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
        CaseOperand(rs.ARG_DST, dst, values=partial(fill.whole_numbers, case.dims, -8, 8, 2)),
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
        CaseOperand(rs.ARG_DST, result, case.stag, values=partial(_given, case, False)),
        CaseOperand(rs.ARG_DIFF_SRC, gradient),
        (CaseOperand(rs.ARG_DIFF_DST, diff_dst, values=partial(_given, case, True)),),
        formula=Formula(formula, {rs.ARG_DIFF_SRC: _tolerance(case, case.sdt)}),
        in_place=rs.ARG_DIFF_DST if case.inplace else 0,
    )


def _tolerance(case: SoftmaxCase, kind: str) -> Tolerance:
    """Floats of 16 bits are exact, unless accumulation is relaxed. A logarithm is five times, a gradient four
    times as rough.
    """
    data_type = DataType.parse(kind)
    is_wide, step = kind in ("f32", "f64"), max(epsilon(data_type), epsilon(DataType.f32))
    is_relaxed = kind in ("f16", "bf16") and case.attr_acc_mode not in ("strict", "f32")
    rough = (5 if case.is_log else 1) * (1 if case.is_forward else 4) * (10 if is_wide else 1)
    size = case.dims[case.axis]
    zeros = 100 * (size - 1 if DataType.parse(case.ddt).is_integral else max(0, size - 8)) / max(size, 1)
    if case.is_log and (size == 1 or case.ddt == "u8"):
        zeros = 100
    return Tolerance(
        rough * step if is_wide or is_relaxed else 0.0,
        zeros if case.is_forward else 30.0,
        allows=lambda points: np.asarray(points.diff < epsilon(DataType.f32)),
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
