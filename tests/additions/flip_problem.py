"""The problem of a flip: two descriptors and an axis, and the program that does it."""

from __future__ import annotations

from dataclasses import dataclass

from ..desc.arguments import ARG_DST, ARG_SRC
from ..desc.memory_desc import MemoryDesc
from .nest import Axis, Compute, LoopNest
from .problem import ProblemBase
from .program import DST, SRC, NestStep, Place, Program, Slot
from .reorder import common_digits, index_digits, nest_of, offsets


@dataclass(frozen=True, slots=True)
class FlipProblem(ProblemBase):
    """What to flip: both sides have the same dims and one type, and `axis` is one of the dims."""

    src: MemoryDesc
    dst: MemoryDesc
    axis: int

    def nest(self) -> LoopNest:
        """The loop nest: along the axis a table of offsets, which are reversed in the source."""
        src, dst, axis = self.src, self.dst, self.axis
        size, padded = dst.dims[axis], dst.padded_dims[axis]
        dims = [common_digits(src, dst, dim) for dim in range(dst.ndims)]
        read = offsets(index_digits(src, axis), [max(size - 1 - i, 0) for i in range(padded)])
        dims[axis] = [Axis(padded, read, offsets(index_digits(dst, axis), range(padded)), step=1)]
        return nest_of(src, dst, Compute(), dims)

    def program(self) -> Program:
        """The program: one nest."""
        spans = self.src.extent_range(), self.dst.extent_range()
        step = NestStep(self.nest(), Place(SRC), Place(DST), self.moved_bytes, *spans)
        return Program((Slot(ARG_SRC), Slot(ARG_DST, is_written=True)), (step,))

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return self.src.size + self.dst.size
