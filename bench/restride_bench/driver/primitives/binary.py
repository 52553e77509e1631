"""Binary operations: `--binary --alg=MUL --sdt=s8:f32 --ddt=s8 3x5x6:1x5x6`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType
from restride.plan.conversion import INTEGER_LIMITS

from ..attr_text import BINARY_NAMES
from ..cases import Case, why_not_in_place
from ..compare import Points, Tolerance, epsilon
from ..fill import Array, whole_numbers
from ..formulas import BINARY, finished, scale_of
from ..knobs import (
    F32_TWICE,
    FOLLOWING,
    NO_STRIDES_OF_THREE,
    Flag,
    Several,
    Strides,
    Tag,
    TypeName,
    caseless,
    parse_tag,
    parse_type,
    several,
    strides,
)
from ..operands import CaseOperand, Values, operand
from ..problems import parse_several_dims

_COMPARISONS = ("ge", "gt", "le", "lt", "eq", "ne")
_NAMES = {spelt: name.upper() for spelt, name in BINARY_NAMES.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class BinaryCase(Case):
    """An operation of two tensors. The condition of a select lies as the first source does."""

    driver: ClassVar[str] = "binary"
    primitive: ClassVar[str] = "Binary"
    template: ClassVar[str] = "%sdt%,%ddt%,%stag%,%dtag%,%alg%,%DESC%"

    sdt: Annotated[Several, several(parse_type, least=2)] = F32_TWICE
    ddt: TypeName = "f32"
    stag: Annotated[Several, several(parse_tag, least=2)] = FOLLOWING
    dtag: Tag = "any"
    strides: Annotated[Strides, strides("SRC0", "SRC1", "DST")] = NO_STRIDES_OF_THREE
    alg: Annotated[str, caseless(also=_NAMES)] = "ADD"
    inplace: Flag = False

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The dims of both sources."""
        return parse_several_dims(text)

    @property
    def formats(self) -> tuple[Any, ...]:
        """Tags or strides of both sources and of the result."""
        return self.strides.formats(*self.stag, self.dtag)

    @property
    def operation(self) -> str:
        """The algorithm in small letters."""
        return self.alg.lower()

    def mds(self) -> dict[str, rs.MemoryDesc]:
        """The sources by name."""
        every = list(zip(self.vdims, self.sdt, self.formats, strict=False))
        if self.operation == "select":
            every.append((self.vdims[0], "s8", self.formats[0]))
        return {f"src{i}": rs.MemoryDesc(*each) for i, each in enumerate(every)}

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        """All tensors."""
        return {"algorithm": f"binary_{self.operation}", **self.mds(), "dst": self.writes()[0].md}

    def reads(self) -> list[CaseOperand]:
        """The sources; of the first halves, of the second none that is 0."""
        names = {name.replace("src", "src_"): md for name, md in self.mds().items()}
        return [operand(name, md, partial(_values, name, md)) for name, md in names.items()]

    def writes(self) -> list[CaseOperand]:
        """The result."""
        md = rs.MemoryDesc(self.dims, self.ddt, self.formats[-1])
        return [operand("dst", md, partial(_values, "dst", md))]

    def formula(self, values: Values) -> Values:
        """The operation on scaled sources."""
        first = values[rs.ARG_SRC_0] * scale_of(self, "src", values)
        second = values[rs.ARG_SRC_1] * scale_of(self, "src1", values)
        with np.errstate(all="ignore"):
            if self.operation == "select":
                result = np.where(values[rs.ARG_SRC_2] != 0, first, second)
            else:
                result = BINARY[self.operation](first, second)
        return {rs.ARG_DST: finished(self, np.asarray(result), values)}

    def tolerance(self, arg: int) -> Tolerance:
        """A rounding; of quotients the last place."""
        step = epsilon(DataType.parse(self.ddt))

        def allows(points: Points) -> Array:
            return np.asarray((self.operation == "div") & (points.diff < step))

        names = (self.operation, *(op.name for op in self.attr_post_ops))
        zeros = 99.0 if any(name in _COMPARISONS for name in names) else 30.0
        return Tolerance(step, zeros, allows=allows)

    def invalid(self) -> Iterator[str]:
        """Why the case makes no sense."""
        if len(self.vdims) != 2 or len(self.sdt) != 2 or len(self.stag) != 2:
            yield "Invalid case: there are two sources"
            return
        yield from self.strides.why_invalid(src0=self.stag[0], src1=self.stag[1], dst=self.dtag)
        is_repeated = any(n == 1 != of for n, of in zip(*self.vdims, strict=True))
        if is_repeated and (self.inplace or self.has_sum):
            yield "Invalid case: in place of a source that is repeated"
        if self.inplace and self.has_sum:
            yield "Invalid case: in place, and the old destination is summed"
        if self.inplace:
            yield from why_not_in_place((self.sdt[0], self.formats[0]), (self.ddt, self.formats[2]))


def _values(name: str, md: rs.MemoryDesc) -> Array:
    """Whole numbers about 0; of the first source halves, of the second none that is 0."""
    limits = INTEGER_LIMITS.get(md.data_type, (-8, 8))
    low = 0 if name == "src_2" else max(-8, limits[0])
    values = whole_numbers(md.dims, low, 8, seed=7 * getattr(rs, f"ARG_{name.upper()}"))
    if name == "src_0":
        return values * 0.5
    return np.where(values == 0, 1.0, values) if name == "src_1" else values
