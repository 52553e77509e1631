"""Sums: `--sum --sdt=f32:s8 --ddt=s8 --scales=0.25:2 3x17x5x7`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from ..cases import ATTR_KNOB_NAMES, F32_TWICE, ROW_MAJOR, Case, Several
from ..compare import Tolerance, epsilon
from ..driver import Driver
from ..fill import Array
from ..knobs import ATTR_KNOBS, Knob, flag, parse_real, parse_tag, parse_type, several
from ..work import CaseOperand, CaseWork, Formula, Values, attributes, desc_of, why_not_in_place

_RANGE = 16
_ONE = Several((1.0,))


@dataclass(frozen=True, slots=True, kw_only=True)
class SumCase(Case):
    """A sum. There are as many sources as types; one tag, and one scale, stands for all of them."""

    driver: ClassVar[str] = "sum"

    sdt: Several = F32_TWICE
    ddt: str = "f32"
    stag: Several = ROW_MAJOR
    dtag: str = "undef"
    scales: Several = _ONE
    inplace: bool = False

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        return ("sdt", "ddt", "stag", "dtag", "scales", "inplace", *ATTR_KNOB_NAMES)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tag of each source."""
        return tuple(self.stag) * (len(self.sdt) if len(self.stag) == 1 else 1)

    @property
    def factors(self) -> tuple[float, ...]:
        """The scale of each source."""
        return tuple(self.scales) * (len(self.sdt) if len(self.scales) == 1 else 1)

    @property
    def result_type(self) -> str:
        """The type of the destination: that of the first source where it is left out."""
        return str(self.sdt[0]) if self.dtag == "undef" else self.ddt


_KNOBS = {
    "sdt": several("sdt", parse_type),
    "ddt": Knob("ddt", parse_type),
    "stag": several("stag", parse_tag),
    "dtag": Knob("dtag", parse_tag),
    "scales": several("scales", parse_real),
    "inplace": flag("inplace"),
    **ATTR_KNOBS,
}


def _work(case: SumCase) -> CaseWork:
    attr, inputs = attributes(case)
    mds = [rs.MemoryDesc(case.dims, kind, tag) for kind, tag in zip(case.sdt, case.tags, strict=True)]
    dst = desc_of(case.dims, case.result_type, case.dtag)
    sources = [
        CaseOperand(rs.ARG_MULTIPLE_SRC + i, md, tag, values=partial(_values, i, md))
        for i, (md, tag) in enumerate(zip(mds, case.tags, strict=True))
    ]

    def create(engine: rs.Engine, _: rs.Engine) -> Any:
        target = None if case.dtag == "undef" else dst
        return rs.Sum.PrimitiveDesc(engine, case.factors, mds, target, attr)

    def formula(values: Values) -> Values:
        parts = [values[one.arg] * factor for one, factor in zip(sources, case.factors, strict=True)]
        return {rs.ARG_DST: np.sum(parts, axis=0)}

    threshold = epsilon(DataType.parse(case.result_type)) * len(mds)
    return CaseWork(
        create,
        rs.Sum,
        sources[0],
        CaseOperand(rs.ARG_DST, dst, case.dtag),
        (*sources[1:], *inputs),
        formula=Formula(formula, {rs.ARG_DST: Tolerance(threshold)}),
        in_place=rs.ARG_MULTIPLE_SRC if case.inplace else 0,
    )


def _values(index: int, md: rs.MemoryDesc) -> Array:
    """Multiples of a sixteenth, or of one and a quarter, which types of 16 bits and integers round."""
    least = 0 if md.data_type is DataType.u8 else -_RANGE // 2
    places = np.arange(md.nelems, dtype=np.int64)
    whole = least + (97 * places - 17 * (rs.ARG_MULTIPLE_SRC + index) + 101) % _RANGE
    is_short = md.data_type in (DataType.bf16, DataType.f16)
    return np.asarray(whole / _RANGE if is_short else whole * (1 + 4 / _RANGE)).reshape(md.dims)


def _invalid(case: SumCase) -> Iterator[str]:
    for name, count in (("tags", len(case.tags)), ("scales", len(case.factors))):
        if count != len(case.sdt):
            yield f"Invalid case: {count} {name} for {len(case.sdt)} sources"
    if case.inplace:
        dtag = case.tags[0] if case.dtag == "undef" else case.dtag
        yield from why_not_in_place((case.sdt[0], case.tags[0]), (case.result_type, dtag))


SUM = Driver(
    SumCase,
    _KNOBS,
    _work,
    lambda case: (*case.sdt, case.result_type),
    "%sdt%,%ddt%,%stag%,%dtag%,%DESC%",
    _invalid,
)
