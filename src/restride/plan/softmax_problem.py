"""The problems of softmax along an axis, forward and backward, and the programs that do them.

    dst = e**(src - m) / s,  or of the logarithm  src - m - ln(s);  m = max(src), s = sum(e**(src - m))
    diff_src = dst * (diff_dst - sum(dst * diff_dst)),  or  diff_dst - e**dst * sum(diff_dst)

A row is read once from memory: while it is in the caches, its powers are kept beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod

from ..desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC, ARG_DST, ARG_SRC
from ..desc.attr import Attr
from ..desc.attr_value import structure_of
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from .computation import Computation, computation_of
from .expression import Expr, Ref, TreeAxis, apply
from .problem import ProblemBase
from .program import DST, SRC, Place, Program, Slot, TreeStep
from .tree import Each, Let, LoopTree, TreeTensor, fold_over
from .tree_steps import old_element, old_tensors, operand_loads, operand_tensors, with_steps

# Rows up to so many elements have their powers kept: a core's caches hold that for each lane of a vector.
_MOST_KEPT = 2048
# A power takes as long as to move so many bytes.
_POWER_BYTES = 8


@dataclass(frozen=True, slots=True)
class SoftmaxProblem(ProblemBase):
    """A softmax, of its logarithm where `is_log`. Equal problems share an executable."""

    is_log: bool
    src: MemoryDesc
    dst: MemoryDesc
    axis: int
    attr: Attr = field(default_factory=Attr)

    def structure(self) -> SoftmaxProblem:
        """The problem without the values of its attributes."""
        return replace(self, attr=structure_of(self.attr))

    def computation(self) -> Computation:
        """What is done to the result."""
        return computation_of(self.attr, self.src, self.dst)

    def tree(self) -> LoopTree:
        """The loop tree."""
        computed = self.computation()
        src, dst = TreeTensor.of_desc("src", self.src), TreeTensor.of_desc("dst", self.dst)
        operands = operand_tensors(computed.tensors, self.dst.dims)
        is_wide = is_computed_wide(self.src, self.dst)
        index, outer, along = axes_of(self.dst.dims, self.axis)
        value = src.load(*index)
        power = apply("exp" if is_wide else "exp_down", value - Ref("m"))
        keeps = not self.is_log and along.extent <= _MOST_KEPT
        row = TreeTensor.row_major("row", (along.extent,))
        total = fold_over("sum", "s", Ref("e"))
        powers = (Let("e", power), *((row.store((along,), Ref("e")),) if keeps else ()), total)
        if self.is_log:
            known, result = Let("k", apply("log", Ref("s"))), value - Ref("m") - Ref("k")
        else:
            known, result = Let("k", 1.0 / Ref("s")), (row.load(along) if keeps else power) * Ref("k")
        old = old_tensors(computed.compute, dst)
        before = old_element(old, dst, index)
        made = with_steps(result, computed.compute, operand_loads(operands, index), before)
        body = (
            Each((along,), (fold_over("max", "m", value),)),
            Each((along,), powers),
            known,
            Each((along,), (dst.store(index, made),)),
        )
        loop = Each(outer, body, locals=(row,) if keeps else ())
        return LoopTree((src, dst, *operands, *old), (loop,), computed.compute.scalars, is_wide).verify()

    def program(self) -> Program:
        """The program: one tree."""
        computed = self.computation()
        tree, places = self.tree(), (Place(SRC), Place(DST), *computed.places(DST + 1))
        # The old destination, read as another type.
        places = (*places, *[Place(DST)] * (len(tree.tensors) - len(places)))
        step = TreeStep(tree, places, self.work_bytes, (0, computed.compute.scalars))
        slots = (Slot(ARG_SRC), Slot(ARG_DST, is_written=True), *computed.slots())
        return Program(slots, (step,), scalars=computed.compute.scalars).verify()

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, padding of the destination included."""
        return bytes_of([self.src], self.dst)

    @property
    def work_bytes(self) -> int:
        """How many bytes could be moved in the time that this takes."""
        return self.moved_bytes + _POWER_BYTES * self.src.nelems


@dataclass(frozen=True, slots=True)
class SoftmaxBackwardProblem(ProblemBase):
    """The gradient of the source of a softmax. `result` is what forward gave."""

    is_log: bool
    result: MemoryDesc
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    axis: int
    attr: Attr = field(default_factory=Attr)

    @property
    def dst(self) -> MemoryDesc:
        """What is written."""
        return self.diff_src

    def tree(self) -> LoopTree:
        """The loop tree."""
        result, gradient = (
            TreeTensor.of_desc("dst", self.result),
            TreeTensor.of_desc("diff_dst", self.diff_dst),
        )
        out = TreeTensor.of_desc("diff_src", self.diff_src)
        index, outer, along = axes_of(self.diff_src.dims, self.axis)
        is_wide = is_computed_wide(self.result, self.diff_src, self.diff_dst)
        y, d = result.load(*index), gradient.load(*index)
        term: Expr = d if self.is_log else y * d
        power = apply("exp" if is_wide else "exp_down", y)
        value = d - power * Ref("s") if self.is_log else y * (d - Ref("s"))
        body = (Each((along,), (fold_over("sum", "s", term),)), Each((along,), (out.store(index, value),)))
        return LoopTree((result, out, gradient), (Each(outer, body),), wide=is_wide).verify()

    def program(self) -> Program:
        """The program: one tree."""
        step = TreeStep(self.tree(), (Place(SRC), Place(DST), Place(DST + 1)), self.moved_bytes)
        slots = (Slot(ARG_DST), Slot(ARG_DIFF_SRC, is_written=True), Slot(ARG_DIFF_DST))
        return Program(slots, (step,)).verify()

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        return bytes_of([self.result, self.diff_dst], self.diff_src)


def axes_of(dims: Sequence[int], axis: int) -> tuple[tuple[TreeAxis, ...], tuple[TreeAxis, ...], TreeAxis]:
    """The axes of all dims, those but one, and that one."""
    index = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(dims))
    return index, tuple(each for i, each in enumerate(index) if i != axis), index[axis]


def is_computed_wide(*mds: MemoryDesc) -> bool:
    """True where values are computed as f64: f32 holds neither doubles nor integers of 32 bits."""
    return any(md.data_type in (DataType.f64, DataType.s32) for md in mds)


def bytes_of(sources: Sequence[MemoryDesc], *written: MemoryDesc) -> int:
    """Bytes read and written, padding of what is written included."""
    read = sum(md.data_type.nbytes(md.nelems) for md in sources)
    return read + sum(md.data_type.nbytes(prod(md.padded_dims)) for md in written)
