"""Reductions: `--reduction --alg=norm_lp_sum --p=2 --eps=0.5 5x3x2x9:1x3x2x9`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from ..cases import ATTR_KNOB_NAMES, SeveralCase
from ..compare import Tolerance, epsilon
from ..driver import Driver
from ..fill import Array, whole_numbers
from ..formulas import finished
from ..knobs import ATTR_KNOBS, Knob, caseless, parse_real, parse_several_dims, parse_tag, parse_type
from ..work import CaseOperand, CaseWork, Formula, Values, attributes, desc_of

_FOLDS: dict[str, Callable[..., Array]] = {
    "sum": np.sum,
    "mul": np.prod,
    "max": np.max,
    "min": np.min,
    "mean": np.mean,
}
_NORMS = ("norm_lp_max", "norm_lp_sum", "norm_lp_power_p_max", "norm_lp_power_p_sum")
_ALGORITHMS = (*_FOLDS, *_NORMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionCase(SeveralCase):
    """A reduction. `dims` are those of the destination."""

    driver: ClassVar[str] = "reduction"

    sdt: str = "f32"
    ddt: str = "f32"
    stag: str = "abx"
    dtag: str = "any"
    alg: str = "sum"
    p: float = 1.0
    eps: float = 0.0

    def __post_init__(self) -> None:
        if len(self.vdims) == 2:
            object.__setattr__(self, "dims", self.vdims[1])

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        return ("sdt", "ddt", "stag", "dtag", "alg", "p", "eps", *ATTR_KNOB_NAMES)

    @property
    def over(self) -> tuple[int, ...]:
        """The dims that are folded."""
        pairs = enumerate(zip(*self.vdims, strict=True))
        return tuple(i for i, (n, out) in pairs if n != out)


_KNOBS = {
    "sdt": Knob("sdt", parse_type),
    "ddt": Knob("ddt", parse_type),
    "stag": Knob("stag", parse_tag),
    "dtag": Knob("dtag", parse_tag),
    "alg": caseless("alg", *_ALGORITHMS, also={f"reduction_{alg}": alg for alg in _ALGORITHMS}),
    "p": Knob("p", parse_real),
    "eps": Knob("eps", parse_real),
    **ATTR_KNOBS,
}


def _work(case: ReductionCase) -> CaseWork:
    attr, inputs = attributes(case)
    src = rs.MemoryDesc(case.vdims[0], case.sdt, case.stag)
    dst = desc_of(case.dims, case.ddt, case.dtag)

    def create(engine: rs.Engine, _: rs.Engine) -> Any:
        return rs.Reduction.PrimitiveDesc(engine, case.alg, src, dst, case.p, case.eps, attr)

    def formula(values: Values) -> Values:
        return {rs.ARG_DST: finished(case, _folded(case, values[rs.ARG_SRC]), values)}

    return CaseWork(
        create,
        rs.Reduction,
        CaseOperand(rs.ARG_SRC, src, case.stag, values=partial(_source, case)),
        CaseOperand(rs.ARG_DST, dst, case.dtag, values=lambda: whole_numbers(case.dims, 0, 4, 2)),
        tuple(inputs),
        sums=any(op.kind == "sum" for op in case.attr_post_ops),
        formula=Formula(formula, {rs.ARG_DST: _tolerance(case)}),
    )


def _source(case: ReductionCase) -> Array:
    """Small whole numbers; for products ones, and a few twos."""
    is_unsigned = DataType.parse(case.sdt).kind == "uint"
    if case.alg == "mul":
        found = np.ones(case.vdims[0])
        found.reshape(-1)[::37] = 2
        return found if is_unsigned else found * np.where(whole_numbers(case.vdims[0], 0, 1, 1), 1, -1)
    return whole_numbers(case.vdims[0], 0 if is_unsigned else -4, 4, 1)


def _folded(case: ReductionCase, x: Array) -> Array:
    if case.alg in _FOLDS:
        return np.asarray(_FOLDS[case.alg](x, case.over, keepdims=True) if case.over else x)
    powers = np.abs(x) ** case.p
    total = powers.sum(case.over, keepdims=True) if case.over else powers
    total = np.maximum(total, case.eps) if case.alg.endswith("_max") else total + case.eps
    return np.asarray(total if "power" in case.alg else total ** (1 / case.p))


def _tolerance(case: ReductionCase) -> Tolerance:
    return Tolerance((5 if case.alg in _NORMS else 1) * epsilon(DataType.parse(case.ddt)), 100.0)


def _invalid(case: ReductionCase) -> Iterator[str]:
    if len(case.vdims) != 2:
        yield "Invalid case: there are a source and a destination"
    elif any(out not in (1, n) for n, out in zip(*case.vdims, strict=True)):
        yield "Invalid case: a dim of the destination is neither that of the source nor 1"
    if case.alg in _NORMS and case.p < 1:
        yield f"Invalid case: a norm of p {case.p:g}"


REDUCTION = Driver(
    ReductionCase,
    _KNOBS,
    _work,
    lambda case: (case.sdt, case.ddt),
    "%sdt%,%ddt%,%stag%,%dtag%,%alg%,%DESC%",
    _invalid,
    parse_several_dims,
)
