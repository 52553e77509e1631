"""The problem of a binary operation, and the program that does it.

    t = op(scale_0 * src_0, scale_1 * src_1)       select: src_2 ? src_0 : src_1
    dst = saturate(post-ops of t)

Sources are repeated along their dims of 1. As f32, or f64 where a tensor is f64.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..desc.arguments import ARG_ATTR_SCALES, ARG_DST, ARG_SRC_0, ARG_SRC_1, ARG_SRC_2
from ..desc.attr import Attr
from ..desc.attr_value import structure_of
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from .computation import Computation, ComputationWriter
from .nest import Step
from .pointwise import moved_bytes, pointwise_program
from .problem import ProblemBase
from .program import Program
from .reorder_problem import function_bytes


@dataclass(frozen=True, slots=True)
class BinaryProblem(ProblemBase):
    """An operation of two tensors, or of three: equal problems share an executable."""

    alg: str
    srcs: tuple[MemoryDesc, ...]
    dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    def structure(self) -> BinaryProblem:
        """The problem without the values of its attributes."""
        structure = structure_of(self.attr)
        return self if structure is self.attr else replace(self, attr=structure)

    @property
    def sources(self) -> dict[int, MemoryDesc]:
        """The sources by argument."""
        return dict(zip((ARG_SRC_0, ARG_SRC_1, ARG_SRC_2), self.srcs, strict=False))

    def computation(self) -> Computation:
        """The operation, then the post-ops."""
        is_wide = any(md.data_type is DataType.f64 for md in (*self.srcs, self.dst))
        writer = ComputationWriter(self.dst.dims, is_wide=is_wide, sources=len(self.srcs) - 1)
        scales = [
            (self.attr.scale_of(arg), ARG_ATTR_SCALES | arg, md.dims) for arg, md in self.sources.items()
        ]
        writer.factor("mul", *scales[0])
        condition = 1 if self.alg == "select" else -1
        writer.combine(Step(self.alg, operand=0, condition=condition), *scales[1])
        writer.finish(self.attr)
        return writer.computation()

    def program(self) -> Program:
        """The program: one nest."""
        work = self.moved_bytes + function_bytes(self.attr) * self.dst.nelems
        return pointwise_program(self.sources, (ARG_DST, self.dst), self.computation(), work)

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return moved_bytes(self.srcs, self.dst, is_summed=self.attr.reads_dst)
