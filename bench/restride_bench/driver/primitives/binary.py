"""Binary operations: `--binary --alg=MUL --sdt=s8:f32 --ddt=s8 3x5x6:1x5x6`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType
from restride.plan.conversion import INTEGER_LIMITS

from ..attr_text import BINARY_NAMES
from ..cases import ATTR_KNOB_NAMES, F32_TWICE, NO_STRIDES_OF_THREE, Several, SeveralCase, Strides
from ..compare import Points, Tolerance, epsilon
from ..driver import Driver
from ..fill import Array, whole_numbers
from ..formulas import BINARY, finished, scale_of
from ..knobs import (
    ATTR_KNOBS,
    Knob,
    caseless,
    flag,
    parse_several_dims,
    parse_tag,
    parse_type,
    several,
    strides,
)
from ..work import CaseOperand, CaseWork, Formula, Values, attributes, why_not_in_place

_COMPARISONS = ("ge", "gt", "le", "lt", "eq", "ne")
_FOLLOWING = Several(("abx", "any"))
_ARGS = (rs.ARG_SRC_0, rs.ARG_SRC_1, rs.ARG_SRC_2)


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryCase(SeveralCase):
    """An operation of two tensors. The condition of a select lies as the first source does."""

    driver: ClassVar[str] = "binary"

    sdt: Several = F32_TWICE
    ddt: str = "f32"
    stag: Several = _FOLLOWING
    dtag: str = "any"
    strides: Strides = NO_STRIDES_OF_THREE
    alg: str = "ADD"
    inplace: bool = False

    @classmethod
    def order(cls) -> tuple[str, ...]:
        """Names of the knobs as a reproducer line has them."""
        return ("sdt", "ddt", "stag", "dtag", "strides", "alg", "inplace", *ATTR_KNOB_NAMES)

    @property
    def formats(self) -> tuple[Any, ...]:
        """Tags or strides of both sources and of the result."""
        return self.strides.formats(*self.stag, self.dtag)

    @property
    def operation(self) -> str:
        """The algorithm in small letters."""
        return self.alg.lower()


_KNOBS = {
    "sdt": several("sdt", parse_type, least=2),
    "ddt": Knob("ddt", parse_type),
    "stag": several("stag", parse_tag, least=2),
    "dtag": Knob("dtag", parse_tag),
    "strides": strides("SRC0", "SRC1", "DST"),
    "alg": caseless("alg", also={spelt: name.upper() for spelt, name in BINARY_NAMES.items()}),
    "inplace": flag("inplace"),
    **ATTR_KNOBS,
}


def _work(case: BinaryCase) -> CaseWork:
    attr, inputs = attributes(case)
    *formats, dst_format = case.formats
    mds = [
        rs.MemoryDesc(dims, kind, format)
        for dims, kind, format in zip(case.vdims, case.sdt, formats, strict=True)
    ]
    if case.operation == "select":
        mds.append(rs.MemoryDesc(case.vdims[0], "s8", formats[0]))
    dst = rs.MemoryDesc(case.dims, case.ddt, dst_format)
    sources = [
        CaseOperand(arg, md, format, values=partial(_values, arg, md))
        for arg, md, format in zip(_ARGS, mds, (*formats, formats[0]), strict=False)
    ]

    def create(engine: rs.Engine, _: rs.Engine) -> Any:
        return rs.Binary.PrimitiveDesc(engine, f"binary_{case.operation}", *mds, dst, attr)

    def formula(values: Values) -> Values:
        first = values[rs.ARG_SRC_0] * scale_of(case, "src", values)
        second = values[rs.ARG_SRC_1] * scale_of(case, "src1", values)
        with np.errstate(all="ignore"):
            if case.operation == "select":
                result = np.where(values[rs.ARG_SRC_2] != 0, first, second)
            else:
                result = BINARY[case.operation](first, second)
        return {rs.ARG_DST: finished(case, np.asarray(result), values)}

    return CaseWork(
        create,
        rs.Binary,
        sources[0],
        CaseOperand(rs.ARG_DST, dst, dst_format, values=partial(_values, rs.ARG_DST, dst)),
        (*sources[1:], *inputs),
        sums=any(op.kind == "sum" for op in case.attr_post_ops),
        formula=Formula(formula, {rs.ARG_DST: _tolerance(case)}),
        in_place=rs.ARG_SRC_0 if case.inplace else 0,
    )


def _values(arg: int, md: rs.MemoryDesc) -> Array:
    """Whole numbers about 0; of the first source halves, of the second none that is 0."""
    limits = INTEGER_LIMITS.get(md.data_type, (-8, 8))
    low = 0 if arg == rs.ARG_SRC_2 else max(-8, limits[0])
    found = whole_numbers(md.dims, low, 8, seed=7 * arg)
    if arg == rs.ARG_SRC_0:
        return found * 0.5
    return np.where(found == 0, 1.0, found) if arg == rs.ARG_SRC_1 else found


def _tolerance(case: BinaryCase) -> Tolerance:
    step = epsilon(DataType.parse(case.ddt))

    def allows(points: Points) -> Array:
        """Of quotients the last place."""
        return np.asarray((case.operation == "div") & (points.diff < step))

    names = (case.operation, *(op.name for op in case.attr_post_ops))
    zeros = 99.0 if any(name in _COMPARISONS for name in names) else 30.0
    return Tolerance(step, zeros, allows=allows)


def _invalid(case: BinaryCase) -> Iterator[str]:
    first, second = case.vdims[:2]
    if len(case.vdims) != 2 or len(case.sdt) != 2 or len(case.stag) != 2:
        yield "Invalid case: there are two sources"
        return
    yield from case.strides.why_invalid(src0=case.stag[0], src1=case.stag[1], dst=case.dtag)
    is_summed = any(op.kind == "sum" for op in case.attr_post_ops)
    is_repeated = any(n == 1 != of for n, of in zip(first, second, strict=True))
    if is_repeated and (case.inplace or is_summed):
        yield "Invalid case: in place of a source that is repeated"
    if case.inplace and is_summed:
        yield "Invalid case: in place, and the old destination is summed"
    if case.inplace:
        yield from why_not_in_place((case.sdt[0], case.formats[0]), (case.ddt, case.formats[2]))


BINARY_DRIVER = Driver(
    BinaryCase,
    _KNOBS,
    _work,
    lambda case: (*case.sdt, case.ddt),
    "%sdt%,%ddt%,%stag%,%dtag%,%alg%,%DESC%",
    _invalid,
    parse_several_dims,
)
