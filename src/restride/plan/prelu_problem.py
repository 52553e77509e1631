"""The problems of PReLU, forward and backward, and the programs that do them.

dst = src                          where src > 0, else src * weights
diff_src = diff_dst                where src > 0, else diff_dst * weights
diff_weights = sum of diff_dst * min(src, 0), over the dims along which weights are repeated
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC, ARG_DIFF_WEIGHTS, ARG_DST, ARG_SRC, ARG_WEIGHTS
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from .computation import Computation, ComputationWriter
from .expression import Ref, TreeAxis, apply
from .nest import Step
from .pointwise import moved_bytes, pointwise_program
from .program import Place, Program, Slot, TreeStep
from .tree import Each, LoopTree, TreeTensor, fold_over


@dataclass(frozen=True, slots=True)
class PReLUProblem:
    """Slopes below zero: equal problems share an executable."""

    src: MemoryDesc
    weights: MemoryDesc
    dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    def structure(self) -> PReLUProblem:
        """The problem itself: it has no values."""
        return self

    def computation(self) -> Computation:
        """One step."""
        is_wide = any(md.data_type is DataType.f64 for md in (self.src, self.weights, self.dst))
        writer = ComputationWriter(self.dst.dims, is_wide=is_wide, sources=1)
        writer.own_step(Step("prelu", operand=0), 0)
        return writer.computation()

    def program(self) -> Program:
        """The program: one nest."""
        sources = {ARG_SRC: self.src, ARG_WEIGHTS: self.weights}
        return pointwise_program(sources, (ARG_DST, self.dst), self.computation(), self.moved_bytes)

    def outputs(self) -> dict[int, MemoryDesc]:
        """Nothing is written beside the destination."""
        return {}

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return moved_bytes([self.src, self.weights], self.dst)


@dataclass(frozen=True, slots=True)
class PReLUBackwardProblem:
    """Both gradients: equal problems share an executable."""

    src: MemoryDesc
    weights: MemoryDesc
    diff_src: MemoryDesc
    diff_weights: MemoryDesc
    diff_dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    def structure(self) -> PReLUBackwardProblem:
        """The problem itself: it has no values."""
        return self

    @property
    def dst(self) -> MemoryDesc:
        """What is written."""
        return self.diff_src

    def computation(self) -> Computation:
        """The slope, times the gradient of the destination."""
        read = self.src, self.weights, self.diff_dst, self.diff_src
        is_wide = any(md.data_type is DataType.f64 for md in read)
        writer = ComputationWriter(self.dst.dims, is_wide=is_wide, sources=2)
        writer.own_step(Step("prelu_slope", operand=0), 0)
        writer.own_step(Step("mul", operand=1), 0)
        return writer.computation()

    def program(self) -> Program:
        """The program: loops that sum for the weights, and one nest for the source."""
        sources = {ARG_SRC: self.src, ARG_WEIGHTS: self.weights, ARG_DIFF_DST: self.diff_dst}
        program = pointwise_program(
            sources, (ARG_DIFF_SRC, self.diff_src), self.computation(), self.moved_bytes
        )
        slots = (*program.slots, Slot(ARG_DIFF_WEIGHTS, is_written=True))
        numbers = {slot.arg: number for number, slot in enumerate(slots)}
        order = ARG_SRC, ARG_DIFF_DST, ARG_DIFF_WEIGHTS
        places = tuple(Place(numbers[arg]) for arg in order)
        sums = TreeStep(self._sums(), places, moved_bytes([self.src, self.diff_dst], self.diff_weights))
        return Program(slots, (sums, *program.steps)).verify()

    def _sums(self) -> LoopTree:
        """The loops over the dims of the weights, and in them over those along which they are repeated."""
        mds = {"src": self.src, "diff_dst": self.diff_dst, "diff_weights": self.diff_weights}
        src, diff_dst, diff_weights = (TreeTensor.of_desc(name, md) for name, md in mds.items())
        axes = tuple(TreeAxis(f"d{dim}", extent) for dim, extent in enumerate(self.src.dims))
        is_kept = [n == of for n, of in zip(self.weights.dims, self.src.dims, strict=True)]
        outer = tuple(axis for axis, kept in zip(axes, is_kept, strict=True) if kept)
        inner = tuple(axis for axis, kept in zip(axes, is_kept, strict=True) if not kept)
        term = diff_dst.load(*axes) * apply("min", src.load(*axes), 0.0)
        total = Each(inner, (fold_over("sum", "total", term),))
        body = (total, diff_weights.store(axes, Ref("total"))) if inner else (diff_weights.store(axes, term),)
        is_wide = any(md.data_type is DataType.f64 for md in mds.values())
        return LoopTree((src, diff_dst, diff_weights), (Each(outer, body),), wide=is_wide).verify()

    def outputs(self) -> dict[int, MemoryDesc]:
        """The gradient of the weights."""
        return {ARG_DIFF_WEIGHTS: self.diff_weights}

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return moved_bytes([self.src, self.weights, self.diff_dst, self.diff_weights], self.diff_src)
