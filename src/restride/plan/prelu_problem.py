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
from .problem import ProblemBase
from .program import Place, Program, Slot, TreeStep
from .tree import Each, Item, LoopTree, TreeTensor, fold_over
from .tree_split import split_folds


@dataclass(frozen=True, slots=True)
class PReLUProblem(ProblemBase):
    """Slopes below zero: equal problems share an executable."""

    src: MemoryDesc
    weights: MemoryDesc
    dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

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

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return moved_bytes([self.src, self.weights], self.dst)


@dataclass(frozen=True, slots=True)
class PReLUBackwardProblem(ProblemBase):
    """Both gradients: equal problems share an executable."""

    src: MemoryDesc
    weights: MemoryDesc
    diff_src: MemoryDesc
    diff_weights: MemoryDesc
    diff_dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    @property
    def dst(self) -> MemoryDesc:
        """What is written."""
        return self.diff_src

    def program(self) -> Program:
        """The program: one tree, whose sums are found as the gradient of the source is written."""
        slots = (
            Slot(ARG_SRC),
            Slot(ARG_DIFF_SRC, is_written=True),
            Slot(ARG_WEIGHTS),
            Slot(ARG_DIFF_DST),
            Slot(ARG_DIFF_WEIGHTS, is_written=True),
        )
        step = TreeStep(self.tree(), tuple(map(Place, range(len(slots)))), self.moved_bytes)
        steps, temporaries = split_folds(step)
        return Program(slots, steps, temporaries).verify()

    def tree(self) -> LoopTree:
        """The loops over the dims of the weights, and in them over those along which they are repeated."""
        mds = {
            "src": self.src,
            "diff_src": self.diff_src,
            "weights": self.weights,
            "diff_dst": self.diff_dst,
            "diff_weights": self.diff_weights,
        }
        tensors = tuple(TreeTensor.of_desc(name, md) for name, md in mds.items())
        src, diff_src, weights, diff_dst, diff_weights = tensors
        axes = tuple(TreeAxis(f"d{dim}", extent) for dim, extent in enumerate(self.src.dims))
        is_kept = [n == of for n, of in zip(self.weights.dims, self.src.dims, strict=True)]
        outer = tuple(axis for axis, kept in zip(axes, is_kept, strict=True) if kept)
        inner = tuple(axis for axis, kept in zip(axes, is_kept, strict=True) if not kept)
        element, gradient = src.load(*axes), diff_dst.load(*axes)
        # Of a NaN min gives the second.
        term = gradient * apply("min", 0.0, element)
        slope = apply("select", apply("gt", element, 0.0), 1.0, weights.load(*axes))
        made = diff_src.store(axes, slope * gradient)
        body: tuple[Item, ...] = (diff_weights.store(axes, term), made)
        if inner:
            total = Each(inner, (fold_over("sum", "total", term), made))
            body = (total, diff_weights.store(axes, Ref("total")))
        is_wide = any(md.data_type is DataType.f64 for md in mds.values())
        return LoopTree(tensors, (Each(outer, body),), wide=is_wide).verify()

    def outputs(self) -> dict[int, MemoryDesc]:
        """The gradient of the weights."""
        return {ARG_DIFF_WEIGHTS: self.diff_weights}

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return moved_bytes([self.src, self.weights, self.diff_dst, self.diff_weights], self.diff_src)
