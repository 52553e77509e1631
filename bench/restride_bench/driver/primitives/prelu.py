"""PReLU: `--prelu --dir=BWD_DW --sdt=bf16:f32 3x64x8:1x64x1`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from ..cases import ATTR_KNOB_NAMES, F32_TWICE, Several, SeveralCase
from ..compare import Tolerance, epsilon
from ..driver import Driver
from ..fill import Array
from ..knobs import ATTR_KNOBS, direction, parse_several_dims, parse_tag, parse_type, several
from ..work import CaseOperand, CaseWork, Formula, Values, attributes

_FOLLOWING = Several(("abx", "any"))


@dataclass(frozen=True, slots=True, kw_only=True)
class PReLUCase(SeveralCase):
    """Slopes below zero; one type stands for the source and the weights."""

    driver: ClassVar[str] = "prelu"

    dir: str = "FWD_D"
    sdt: Several = F32_TWICE
    stag: Several = _FOLLOWING

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        return ("dir", "sdt", "stag", *ATTR_KNOB_NAMES)

    @property
    def is_forward(self) -> bool:
        """True for the function itself."""
        return self.dir != "BWD_DW"


_KNOBS = {
    "dir": direction("dir", "FWD_D", "FWD_I", "BWD_DW"),
    "sdt": several("sdt", parse_type, least=2),
    "stag": several("stag", parse_tag, least=2),
    **ATTR_KNOBS,
}


def _work(case: PReLUCase) -> CaseWork:
    attr, _ = attributes(case)
    src, weights = (
        rs.MemoryDesc(dims, kind, tag)
        for dims, kind, tag in zip(case.vdims, case.sdt, case.stag, strict=True)
    )
    like, like_weights = (rs.MemoryDesc(md.dims, md.data_type, "any") for md in (src, weights))
    sources = (
        CaseOperand(rs.ARG_SRC, src, case.stag[0], values=partial(_values, rs.ARG_SRC, src)),
        CaseOperand(rs.ARG_WEIGHTS, weights, case.stag[1], values=partial(_values, rs.ARG_WEIGHTS, weights)),
    )
    if case.is_forward:
        kind = "forward_inference" if case.dir == "FWD_I" else "forward_training"
        return CaseWork(
            lambda engine, _: rs.PReLUForward.PrimitiveDesc(engine, kind, src, weights, like, attr),
            rs.PReLUForward,
            sources[0],
            CaseOperand(rs.ARG_DST, like),
            sources[1:],
            formula=Formula(_forward, {rs.ARG_DST: _tolerance(case.sdt[0], 50.0)}),
        )

    def create(engine: rs.Engine, _: rs.Engine) -> Any:
        hint = rs.PReLUForward.PrimitiveDesc(engine, "forward_training", src, weights, like)
        known = hint.weights_desc() if weights.format_kind == "any" else weights
        return rs.PReLUBackward.PrimitiveDesc(
            engine, src, known, like, like_weights, like, attr, hint_pd=hint
        )

    gradient = CaseOperand(rs.ARG_DIFF_DST, like, values=partial(_values, rs.ARG_DIFF_DST, like))
    tolerances = {
        rs.ARG_DIFF_SRC: _tolerance(case.sdt[0], 50.0),
        rs.ARG_DIFF_WEIGHTS: _tolerance(case.sdt[1], 99.0),
    }
    return CaseWork(
        create,
        rs.PReLUBackward,
        sources[0],
        CaseOperand(rs.ARG_DIFF_SRC, like),
        (sources[1], gradient),
        (CaseOperand(rs.ARG_DIFF_WEIGHTS, like_weights),),
        formula=Formula(partial(_backward, case), tolerances),
    )


def _forward(values: Values) -> Values:
    src, weights = values[rs.ARG_SRC], values[rs.ARG_WEIGHTS]
    return {rs.ARG_DST: np.where(src > 0, src, src * weights)}


def _backward(case: PReLUCase, values: Values) -> Values:
    src, weights, gradient = values[rs.ARG_SRC], values[rs.ARG_WEIGHTS], values[rs.ARG_DIFF_DST]
    repeated = tuple(
        dim for dim, (n, of) in enumerate(zip(case.vdims[1], case.vdims[0], strict=True)) if n != of
    )
    terms = np.where(src > 0, 0.0, src * gradient)
    return {
        rs.ARG_DIFF_SRC: np.where(src > 0, gradient, gradient * weights),
        rs.ARG_DIFF_WEIGHTS: terms.sum(repeated, keepdims=True),
    }


def _values(arg: int, md: rs.MemoryDesc) -> Array:
    """Small whole numbers, powers of two for weights, sixteenths for gradients: sums of them are exact."""
    random = np.random.default_rng(arg)
    if md.data_type.is_integral:
        found = random.integers(0, 6, md.dims).astype(np.float64)
    elif arg == rs.ARG_WEIGHTS:
        found = (64 >> random.integers(0, 7, md.dims)) / 8
    else:
        found = random.integers(0, 3, md.dims) / (16 if arg == rs.ARG_DIFF_DST else 1)
    if md.data_type is DataType.u8:
        return np.asarray(found)
    return np.where(random.random(md.dims) < 0.1, -found, found)


def _tolerance(data_type: str, zeros: float) -> Tolerance:
    return Tolerance(2 * epsilon(DataType.parse(data_type)), zeros)


def _invalid(case: PReLUCase) -> Iterator[str]:
    if len(case.vdims) != 2 or len(case.sdt) != 2 or len(case.stag) != 2:
        yield "Invalid case: there are a source and weights"


PRELU = Driver(
    PReLUCase,
    _KNOBS,
    _work,
    lambda case: tuple(case.sdt),
    "%dir%,%sdt%,%stag%,%DESC%",
    _invalid,
    parse_several_dims,
)
