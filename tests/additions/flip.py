"""Flip: the order of the elements along one axis, reversed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments
from ..ir.digits import common_digits, index_digits, nest_of, offsets
from ..ir.nest import Axis, Compute, LoopNest
from ..ir.program import DST, SRC, NestStep, Place, Program, Slot
from ..model.derived import make_primitive
from ..model.operation import OperationProblem
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader


@dataclass(frozen=True, slots=True)
class FlipProblem(OperationProblem):
    """The flip primitive: `dst[..., i, ...] = src[..., n - 1 - i, ...]` along an axis of n elements.

    Executed with `ARG_SRC` and `ARG_DST`.
    """

    operation = "flip"
    primitive = "Flip"
    call = "src", "dst", "axis"
    prop_kinds = (PropKind.undef,)
    in_place = False
    onnx: ClassVar = {
        "Flip": lambda call, x, *, axis=0: call.onnx("Slice", x, (-1,), (-(2**62),), (axis,), (-1,))
    }
    arguments = """
    `dst`: of format "any" it has that of the source. `axis`: from 0 to the last."""

    src: MemoryDesc
    dst: MemoryDesc
    axis: int
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> FlipProblem:
        src, dst = call.forward()
        if src.data_type is not dst.data_type:
            raise InvalidArguments(
                f"{call.what}: what cannot be flipped",
                code="RS-R10",
                where=f"src {src}; dst {dst}",
                why="a flip keeps the data type",
                hint="reorder before or after",
            )
        return cls(src, dst, call.axis(src), call.attr())

    @property
    def verbose_aux(self) -> str:
        return f"axis:{self.axis}"

    def nest(self) -> LoopNest:
        """The loop nest: along the axis a table of offsets, which are reversed in the source."""
        src, dst, axis = self.src, self.dst, self.axis
        size, padded = dst.dims[axis], dst.padded_dims[axis]
        dims = [common_digits(src, dst, dim) for dim in range(dst.ndims)]
        read = offsets(index_digits(src, axis), [max(size - 1 - i, 0) for i in range(padded)])
        dims[axis] = [Axis(padded, read, offsets(index_digits(dst, axis), range(padded)), step=1)]
        return nest_of(src, dst, Compute(), dims)

    def program(self) -> Program:
        spans = self.src.extent_range(), self.dst.extent_range()
        step = NestStep(self.nest(), Place(SRC), Place(DST), self.moved_bytes, *spans)
        (src,) = self.reads
        return Program((Slot(src), Slot(self.writes, is_written=True)), (step,))


Flip = make_primitive(FlipProblem)
