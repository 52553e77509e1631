"""Shuffles: `--shuffle --dir=BWD_D --tag=axb --group=4 2x12x3`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import restride as rs

from .. import fill
from ..cases import Case
from ..knobs import Axis, Count, Inference, Knob, Tag, TypeName, parse_tag
from ..operands import CaseOperand, operand


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleCase(Case):
    """A shuffle, forward or backward."""

    driver: ClassVar[str] = "shuffle"
    primitive: ClassVar[str] = "Shuffle"
    template: ClassVar[str] = "%dir%,%dt%,%tag%,%group%,%axis%,%DESC%"
    has_formula: ClassVar[bool] = False
    other_knobs: ClassVar[Mapping[str, Knob]] = {"fmt": Knob(parse_tag, field="tag")}

    dir: Inference = "FWD_D"
    dt: TypeName = "f32"
    tag: Tag = "abx"
    axis: Axis = 1
    group: Count = 1

    @property
    def md(self) -> rs.MemoryDesc:
        """Source and destination."""
        return rs.MemoryDesc(self.dims, self.dt, self.tag)

    def create(self, engine: rs.Engine, other: rs.Engine, attr: rs.PrimitiveAttr) -> Any:
        """The primitive descriptor."""
        kind = "forward_inference" if self.dir == "FWD_I" else "forward_training"
        # What no forward shuffle can be, such as one of format any, is none to go back from.
        forward = rs.ShuffleForward.Desc(kind, self.md, self.axis, self.group)
        if self.is_forward:
            return rs.ShuffleForward.PrimitiveDesc(forward, engine, attr)
        backward = rs.ShuffleBackward.Desc(self.md, self.axis, self.group)
        return rs.ShuffleBackward.PrimitiveDesc(backward, engine, None, attr)

    def reads(self) -> list[CaseOperand]:
        """The source, or the gradient of the result."""
        name, data = "src" if self.is_forward else "diff_dst", partial(fill.bits_for, self.md.data_type)
        return [operand(name, self.md, data=data)]

    def writes(self) -> list[CaseOperand]:
        """The result, or the gradient of the source."""
        return [operand("dst" if self.is_forward else "diff_src", self.md)]
