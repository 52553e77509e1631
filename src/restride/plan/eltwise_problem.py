"""The problems of eltwise functions, forward and backward, and the programs that do them.

    dst = f(src)                                   then post-ops
    diff_src = diff_dst * f'(src)                  or f'(dst), where the result tells the derivative

As f32, or f64 where a tensor is f64; the derivative is rounded before it is multiplied.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC, ARG_DST, ARG_SRC
from ..desc.attr import Attr
from ..desc.attr_value import structure_of
from ..desc.memory_desc import MemoryDesc
from ..desc.post_op_values import EltwiseOp
from ..dtypes import DataType
from .computation import Computation, ComputationWriter
from .eltwise import ALGORITHMS
from .nest import Step
from .pointwise import moved_bytes, pointwise_program
from .problem import ProblemBase
from .program import Program
from .reorder_problem import function_bytes


def has_gradient(function: EltwiseOp) -> bool:
    """True for a function with a derivative."""
    return _gradient(function) in ALGORITHMS


def _gradient(function: EltwiseOp) -> str:
    return f"{function.alg.replace('_use_dst_for_bwd', '_dst')}_gradient"


@dataclass(frozen=True, slots=True)
class EltwiseProblem(ProblemBase):
    """A function of every element: equal problems share an executable. `function` has the scale 1."""

    function: EltwiseOp
    src: MemoryDesc
    dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    def structure(self) -> EltwiseProblem:
        """The problem without its numbers: equal for all that share a nest and a kernel."""
        return replace(self, function=self.function.structure(), attr=structure_of(self.attr))

    def computation(self) -> Computation:
        """The function, then the post-ops."""
        is_wide = DataType.f64 in (self.src.data_type, self.dst.data_type)
        writer, function = ComputationWriter(self.dst.dims, is_wide=is_wide), self.function
        writer.step(function.function, 0, function.alpha, function.beta, function.scale)
        writer.finish(self.attr)
        return writer.computation()

    def program(self) -> Program:
        """The program: one nest."""
        functions = function_bytes(self.attr, self.function.function) * self.dst.nelems
        work = self.moved_bytes + functions
        return pointwise_program({ARG_SRC: self.src}, (ARG_DST, self.dst), self.computation(), work)

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return moved_bytes([self.src], self.dst, is_summed=self.attr.reads_dst)


@dataclass(frozen=True, slots=True)
class EltwiseBackwardProblem(ProblemBase):
    """The gradient of a source: equal problems share an executable. `data` is the source, or the result."""

    function: EltwiseOp
    data: MemoryDesc
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    def structure(self) -> EltwiseBackwardProblem:
        """The problem without its numbers."""
        return replace(self, function=self.function.structure())

    @property
    def dst(self) -> MemoryDesc:
        """What is written."""
        return self.diff_src

    @property
    def data_arg(self) -> int:
        """The argument of the data."""
        return ARG_DST if self.function.is_of_dst else ARG_SRC

    def computation(self) -> Computation:
        """The derivative, times the gradient of the destination."""
        mds = self.data, self.diff_src, self.diff_dst
        is_wide = any(md.data_type is DataType.f64 for md in mds)
        writer, function = ComputationWriter(self.dst.dims, is_wide=is_wide, sources=1), self.function
        writer.step(_gradient(function), 0, function.alpha, function.beta, function.scale)
        writer.own_step(Step("mul", operand=0), 0)
        return writer.computation()

    def program(self) -> Program:
        """The program: one nest."""
        sources = {self.data_arg: self.data, ARG_DIFF_DST: self.diff_dst}
        costly = ALGORITHMS[_gradient(self.function)].in_double
        work = self.moved_bytes + function_bytes(self.attr, "exp" if costly else "relu") * self.dst.nelems
        return pointwise_program(sources, (ARG_DIFF_SRC, self.diff_src), self.computation(), work)

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return moved_bytes([self.data, self.diff_dst], self.diff_src)
