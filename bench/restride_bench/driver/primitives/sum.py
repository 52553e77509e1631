"""Sums: `--sum --sdt=f32:s8 --ddt=s8 --scales=0.25:2 3x17x5x7`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np

import restride as rs
from restride import DataType

from ..cases import Case, why_not_in_place
from ..compare import Tolerance, epsilon
from ..fill import Array
from ..knobs import (
    F32_TWICE,
    ROW_MAJOR,
    Flag,
    Several,
    Tag,
    Tags,
    TypeName,
    parse_real,
    parse_type,
    several,
)
from ..operands import CaseOperand, Values, desc_of, operand

_RANGE = 16
_ONE = Several((1.0,))


@dataclass(frozen=True, slots=True, kw_only=True)
class SumCase(Case):
    """A sum. There are as many sources as types; one tag, and one scale, stands for all of them."""

    driver: ClassVar[str] = "sum"
    primitive: ClassVar[str] = "Sum"
    template: ClassVar[str] = "%sdt%,%ddt%,%stag%,%dtag%,%DESC%"

    sdt: Annotated[Several, several(parse_type)] = F32_TWICE
    ddt: TypeName = "f32"
    stag: Tags = ROW_MAJOR
    dtag: Tag = "undef"
    scales: Annotated[Several, several(parse_real)] = _ONE
    inplace: Flag = False

    @property
    def result_type(self) -> str:
        """The type of the destination: that of the first source where it is left out."""
        return str(self.sdt[0]) if self.dtag == "undef" else self.ddt

    @property
    def types(self) -> tuple[str, ...]:
        """The types of sources and destination."""
        return (*self.sdt, self.result_type)

    def each(self, values: Several) -> tuple[Any, ...]:
        """The tag, or the scale, of each source."""
        return tuple(values) * (len(self.sdt) if len(values) == 1 else 1)

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        """Scales, and all tensors."""
        target = {} if self.dtag == "undef" else {"dst": self.writes()[0].md}
        return {"scales": self.each(self.scales), "srcs": [one.md for one in self.reads()], **target}

    def reads(self) -> list[CaseOperand]:
        """The sources."""
        pairs = zip(self.sdt, self.each(self.stag), strict=True)
        mds = [rs.MemoryDesc(self.dims, kind, tag) for kind, tag in pairs]
        return [
            CaseOperand(rs.ARG_MULTIPLE_SRC + i, md, values=partial(_values, i, md))
            for i, md in enumerate(mds)
        ]

    def writes(self) -> list[CaseOperand]:
        """The sum."""
        return [operand("dst", desc_of(self.dims, self.result_type, self.dtag))]

    def formula(self, values: Values) -> Values:
        """The sum of the scaled sources."""
        scales = enumerate(self.each(self.scales))
        return {rs.ARG_DST: np.sum([values[rs.ARG_MULTIPLE_SRC + i] * scale for i, scale in scales], axis=0)}

    def tolerance(self, arg: int) -> Tolerance:
        """A rounding for each source."""
        return Tolerance(epsilon(DataType.parse(self.result_type)) * len(self.sdt))

    def invalid(self) -> Iterator[str]:
        """Why the case makes no sense."""
        tags = self.each(self.stag)
        for name, count in (("tags", len(tags)), ("scales", len(self.each(self.scales)))):
            if count != len(self.sdt):
                yield f"Invalid case: {count} {name} for {len(self.sdt)} sources"
        if self.inplace:
            dtag = tags[0] if self.dtag == "undef" else self.dtag
            yield from why_not_in_place((self.sdt[0], tags[0]), (self.result_type, dtag))


def _values(index: int, md: rs.MemoryDesc) -> Array:
    """Multiples of a sixteenth, or of one and a quarter, which types of 16 bits and integers round."""
    least = 0 if md.data_type is DataType.u8 else -_RANGE // 2
    places = np.arange(md.nelems, dtype=np.int64)
    whole = least + (97 * places - 17 * (rs.ARG_MULTIPLE_SRC + index) + 101) % _RANGE
    is_short = md.data_type in (DataType.bf16, DataType.f16)
    return np.asarray(whole / _RANGE if is_short else whole * (1 + 4 / _RANGE)).reshape(md.dims)
