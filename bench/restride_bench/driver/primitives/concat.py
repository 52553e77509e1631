"""Concats: `--concat --stag=abx:axb --axis=1 2x16x3x4:2x16x3x4`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

import restride as rs

from ..cases import Case
from ..compare import Tolerance
from ..fill import whole_numbers
from ..formulas import scale_of
from ..knobs import ROW_MAJOR, Axis, Several, Tag, Tags, TypeName
from ..operands import CaseOperand, Values, desc_of, operand
from ..problems import Dims, parse_several_dims


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcatCase(Case):
    """A concat. One tag stands for all sources; a destination without a tag is the primitive's to choose."""

    driver: ClassVar[str] = "concat"
    primitive: ClassVar[str] = "Concat"
    template: ClassVar[str] = "%sdt%,%ddt%,%stag%,%dtag%,%axis%,%DESC%"

    sdt: TypeName = "f32"
    ddt: TypeName = "f32"
    stag: Tags = ROW_MAJOR
    dtag: Tag = "undef"
    axis: Axis = 1

    @classmethod
    def parse(cls, text: str) -> dict[str, Any]:
        """The dims of each source."""
        return parse_several_dims(text)

    @property
    def types(self) -> tuple[str, ...]:
        """The types of sources and destination: that of the sources where it is left out."""
        return self.sdt, self.sdt if self.dtag == "undef" else self.ddt

    @property
    def tags(self) -> Several:
        """The tag of each source."""
        return Several(self.stag * (len(self.vdims) if len(self.stag) == 1 else 1))

    @property
    def result(self) -> Dims:
        """The dims of the destination."""
        total = sum(dims[self.axis] for dims in self.vdims)
        return tuple(total if i == self.axis else n for i, n in enumerate(self.vdims[0]))

    def arguments(self, is_forward: bool) -> dict[str, Any]:
        """The axis, and all tensors."""
        target = {} if self.dtag == "undef" else {"dst": self.writes()[0].md}
        return {"axis": self.axis, "srcs": [one.md for one in self.reads()], **target}

    def reads(self) -> list[CaseOperand]:
        """Whole numbers that both types hold."""
        low, high = 0 if "u8" in self.types else -128, 127 if "s8" in self.types else 255
        return [
            CaseOperand(
                rs.ARG_MULTIPLE_SRC + i,
                rs.MemoryDesc(dims, self.sdt, tag),
                values=partial(whole_numbers, dims, low, high, i),
            )
            for i, (dims, tag) in enumerate(zip(self.vdims, self.tags, strict=True))
        ]

    def writes(self) -> list[CaseOperand]:
        """The result."""
        return [operand("dst", desc_of(self.result, self.types[1], self.dtag))]

    def formula(self, values: Values) -> Values:
        """The sources one behind the other, each with its scale."""
        parts = [
            values[rs.ARG_MULTIPLE_SRC + i] * scale_of(self, f"msrc{i}", values)
            for i in range(len(self.vdims))
        ]
        return {rs.ARG_DST: np.concatenate(parts, self.axis)}

    def tolerance(self, arg: int) -> Tolerance:
        """Exact."""
        return Tolerance(has_nan=True)

    def invalid(self) -> Iterator[str]:
        """Why the case makes no sense."""
        first, *others = self.vdims
        if not 0 <= self.axis < len(first):
            yield f"Invalid case: axis {self.axis} of {len(first)} dims"
        elif any(
            dims[: self.axis] + dims[self.axis + 1 :] != first[: self.axis] + first[self.axis + 1 :]
            for dims in others
        ):
            yield "Invalid case: dims that differ elsewhere than along the axis"
        if len(self.tags) != len(self.vdims):
            yield f"Invalid case: {len(self.tags)} tags for {len(self.vdims)} sources"
