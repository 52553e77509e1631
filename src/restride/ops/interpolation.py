"""Interpolation: weighted sums of elements along one axis, with indices and weights from tables.

    dst[..., o, ...] = sum over t of weights[o, t] * src[..., indices[o, t], ...]
    diff_src[..., indices[o, t], ...] += weights[o, t] * diff_dst[..., o, ...]

Every kind of resizing along an axis is such a sum; the tables have one column for each term of a result.
Computed in f32, or in f64 if a tensor is f64.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..desc.arguments import ARG_DIFF_DST, ARG_DST, ARG_SRC, ARG_SRC_1, ARG_WEIGHTS
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..ir.attribute_chain import AttributeChain
from ..ir.computation import Computation, computation_of
from ..ir.expression import Index, Ref, TreeAxis
from ..ir.numbers import Number
from ..ir.tree import Each, LoopTree, TreeTensor, fold_over
from ..model.derived import make_primitive
from ..model.operation import GradientProblem, OperationProblem, is_computed_wide
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped, check_axis, check_indices
from .gather import sums_at
from .programs.bits import as_indices

Dims = tuple[int, ...]
# Loading a single element takes as long as moving this many bytes.
_APART_BYTES = 64


@dataclass(frozen=True, slots=True)
class InterpolationProblem(OperationProblem):
    """The interpolation primitive: `dst[..., o, ...] = sum(weights[o, t] * src[..., indices[o, t], ...])`.

    Executed with `ARG_SRC`, `ARG_SRC_1` (the indices), `ARG_WEIGHTS` and `ARG_DST`. A negative index counts
    from the end; an index out of range is clamped. The terms are added in order.
    """

    operation = "interpolation"
    primitive = "Interpolation"
    call = "src", "indices", "weights", "dst", "axis"
    prop_kinds = (PropKind.undef,)
    reads = {ARG_SRC: "src", ARG_SRC_1: "indices", ARG_WEIGHTS: "weights"}
    node_reads = "src", "indices", "weights"
    in_place = False
    arguments = """
    `indices` (integers) and `weights` (f32) have a row for each position of `dst` along `axis`, and a column
    for each term. `dst`: format "any" follows the source. `attr`: post-ops and the scratchpad mode."""

    src: MemoryDesc
    indices: MemoryDesc
    weights: MemoryDesc
    dst: MemoryDesc
    axis: int
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> InterpolationProblem:
        src, indices, weights = call.known("src"), call.known("indices"), call.known("weights")
        axis, dst = call.axis(src), call.written("dst", src)
        call.check_dims(dst, lambda: _result_dims(axis, src, indices, weights), src, indices, weights)
        attr = call.attr("post_ops", of={ARG_DST: dst})
        return cls(src, indices, weights, dst, axis, attr)

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> Dims:
        return _result_dims(node.axis, *tensors)

    @property
    def verbose_aux(self) -> str:
        return f"axis:{self.axis} terms:{self.indices.dims[1]}"

    def computation(self) -> Computation:
        return computation_of(self.attr, self.src, self.dst)

    @property
    def work_bytes(self) -> int:
        """Adjacent elements are loaded as vectors, those at indices one by one."""
        is_beside = self.dst.layout.strides[self.axis] == 1 and not self.dst.layout.inner_blks
        terms = self.dst.nelems * self.indices.dims[1]
        return self.moved_bytes + (_APART_BYTES * terms if is_beside else 0)

    def tree(self) -> LoopTree:
        """The loop tree: a fold over the terms."""
        src, weights, dst = (
            TreeTensor.of_desc(name, getattr(self, name)) for name in ("src", "weights", "dst")
        )
        indices = TreeTensor.of_desc("indices", as_indices(self.indices))
        chain = AttributeChain(self.computation(), dst, self.dst.dims)
        axes = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(self.dst.dims))
        along, term = axes[self.axis], TreeAxis("t", self.indices.dims[1])
        at = indices.load(along, term)
        place: tuple[Index | TreeAxis, ...] = (*axes[: self.axis], at, *axes[self.axis + 1 :])
        total = fold_over("sum", "total", weights.load(along, term) * src.load(*place))
        loop = Each(axes, (Each((term,), (total,)), chain.store(axes, Ref("total"))))
        number = Number.real(is_wide=is_computed_wide(self.src, self.dst))
        tensors = (src, dst, indices, weights, *chain.tensors)
        return LoopTree(tensors, (loop,), chain.scalars, number).verify()


@dataclass(frozen=True, slots=True)
class InterpolationBackwardProblem(GradientProblem):
    """The gradient of the source: `diff_src[..., at[o, t], ...] += weights[o, t] * diff_dst[..., o, ...]`.

    Executed with `ARG_DIFF_DST`, `ARG_SRC_1` (the indices), `ARG_WEIGHTS` and `ARG_DIFF_SRC`. Terms are added
    in the order of `o`, then of `t`.
    """

    operation = "interpolation"
    primitive = "InterpolationBackward"
    call = "diff_src", "indices", "weights", "diff_dst", "axis"
    reads = {ARG_DIFF_DST: "diff_dst", ARG_SRC_1: "indices", ARG_WEIGHTS: "weights"}
    in_place = False
    arguments = """
    The tables and `axis` are as in the forward step. `diff_src`: format "any" follows `diff_dst`."""

    diff_src: MemoryDesc
    indices: MemoryDesc
    weights: MemoryDesc
    diff_dst: MemoryDesc
    axis: int
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> InterpolationBackwardProblem:
        indices, weights, diff_dst = call.known("indices"), call.known("weights"), call.known("diff_dst")
        diff_src = call.written("diff_src", diff_dst)
        axis, tensors = call.axis(diff_src), (diff_src, indices, weights)
        call.check_dims(diff_dst, lambda: _result_dims(axis, *tensors), *tensors, name="diff_dst")
        return cls(*tensors, diff_dst, axis, call.attr())

    @property
    def verbose_aux(self) -> str:
        return f"axis:{self.axis} terms:{self.indices.dims[1]}"

    def tree(self) -> LoopTree:
        """The loop tree: a sum at the position of each term."""
        gradient, weights, out = (
            TreeTensor.of_desc(name, getattr(self, name)) for name in ("diff_dst", "weights", "diff_src")
        )
        indices = TreeTensor.of_desc("indices", as_indices(self.indices))
        index = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(self.diff_dst.dims))
        before, along, behind = index[: self.axis], index[self.axis], index[self.axis + 1 :]
        term = TreeAxis("t", self.indices.dims[1])
        place, value = indices.load(along, term), weights.load(along, term) * gradient.load(*index)
        axes, in_order = (*before, along, term, *behind), slice(self.axis, self.axis + 2)
        sums, loops = sums_at(out, (*before, place, *behind), value, (axes, in_order))
        number = Number.real(is_wide=is_computed_wide(self.diff_src, self.diff_dst))
        return LoopTree((gradient, indices, weights, out, *sums), loops, number=number).verify()


def _result_dims(axis: int, src: Shaped, indices: Shaped, weights: Shaped) -> Dims:
    """Return the dims of the result. Raises Misfit."""
    check_axis(axis, src)
    check_indices(indices)
    if len(indices.dims) != 2 or indices.dims != weights.dims or weights.data_type is not DataType.f32:
        raise Misfit("indices and f32 weights must be tables of the same two dims")
    if not src.dims[axis] and 0 not in indices.dims:
        raise Misfit("the source is empty along the axis")
    return (*src.dims[:axis], indices.dims[0], *src.dims[axis + 1 :])


Interpolation = make_primitive(InterpolationProblem)
InterpolationBackward = make_primitive(InterpolationBackwardProblem)
