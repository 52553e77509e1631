"""Concats: `--concat --stag=abx:axb --axis=1 2x16x3x4:2x16x3x4`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

import restride as rs

from .. import fill
from ..cases import ATTR_KNOB_NAMES, ROW_MAJOR, Several, SeveralCase
from ..compare import Tolerance
from ..driver import Driver
from ..fill import Array
from ..formulas import scale_of
from ..knobs import ATTR_KNOBS, Knob, parse_axis, parse_several_dims, parse_tag, parse_type, several
from ..work import CaseOperand, CaseWork, Formula, Values, attributes, desc_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcatCase(SeveralCase):
    """A concat. One tag stands for all sources; a destination without a tag is the primitive's to choose."""

    driver: ClassVar[str] = "concat"

    sdt: str = "f32"
    ddt: str = "f32"
    stag: Several = ROW_MAJOR
    dtag: str = "undef"
    axis: int = 1

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        return ("sdt", "ddt", "stag", "dtag", "axis", *ATTR_KNOB_NAMES)

    @property
    def tags(self) -> tuple[str, ...]:
        """The tag of each source."""
        return tuple(self.stag) * (len(self.vdims) if len(self.stag) == 1 else 1)

    @property
    def result(self) -> tuple[int, ...]:
        """The dims of the destination."""
        joined = sum(dims[self.axis] for dims in self.vdims)
        return tuple(joined if i == self.axis else n for i, n in enumerate(self.vdims[0]))

    @property
    def result_type(self) -> str:
        """The type of the destination: that of the sources where it is left out."""
        return self.sdt if self.dtag == "undef" else self.ddt


_KNOBS = {
    "sdt": Knob("sdt", parse_type),
    "ddt": Knob("ddt", parse_type),
    "stag": several("stag", parse_tag),
    "dtag": Knob("dtag", parse_tag),
    "axis": Knob("axis", parse_axis),
    **ATTR_KNOBS,
}


def _work(case: ConcatCase) -> CaseWork:
    attr, inputs = attributes(case)
    mds = [rs.MemoryDesc(dims, case.sdt, tag) for dims, tag in zip(case.vdims, case.tags, strict=True)]
    dst = desc_of(case.result, case.result_type, case.dtag)
    sources = [
        CaseOperand(rs.ARG_MULTIPLE_SRC + i, md, tag, values=partial(_values, case, i, md.dims))
        for i, (md, tag) in enumerate(zip(mds, case.tags, strict=True))
    ]

    def create(engine: rs.Engine, _: rs.Engine) -> Any:
        target = None if case.dtag == "undef" else dst
        return rs.Concat.PrimitiveDesc(engine, case.axis, mds, target, attr)

    def formula(values: Values) -> Values:
        parts = [values[one.arg] * scale_of(case, f"msrc{i}", values) for i, one in enumerate(sources)]
        return {rs.ARG_DST: np.concatenate(parts, case.axis)}

    return CaseWork(
        create,
        rs.Concat,
        sources[0],
        CaseOperand(rs.ARG_DST, dst, case.dtag),
        (*sources[1:], *inputs),
        formula=Formula(formula, {rs.ARG_DST: Tolerance(has_nan=True)}),
    )


def _values(case: ConcatCase, index: int, dims: tuple[int, ...]) -> Array:
    """Whole numbers that both types hold."""
    types = case.sdt, case.result_type
    low = 0 if "u8" in types else -128
    high = 127 if "s8" in types else 255
    return fill.whole_numbers(dims, low, high, seed=index)


def _invalid(case: ConcatCase) -> Iterator[str]:
    ndims = len(case.vdims[0])
    if not 0 <= case.axis < ndims:
        yield f"Invalid case: axis {case.axis} of {ndims} dims"
    elif any(
        n != first
        for dims in case.vdims[1:]
        for i, (n, first) in enumerate(zip(dims, case.vdims[0], strict=True))
        if i != case.axis
    ):
        yield "Invalid case: dims that differ elsewhere than along the axis"
    if len(case.tags) != len(case.vdims):
        yield f"Invalid case: {len(case.tags)} tags for {len(case.vdims)} sources"


CONCAT = Driver(
    ConcatCase,
    _KNOBS,
    _work,
    lambda case: (case.sdt, case.result_type),
    "%sdt%,%ddt%,%stag%,%dtag%,%axis%,%DESC%",
    _invalid,
    parse_several_dims,
)
