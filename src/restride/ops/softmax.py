"""Softmax along an axis, and its logarithm, forward and backward.

    dst = e**(src - m) / s,  or its logarithm  src - m - ln(s);  m = max(src), s = sum(e**(src - m))
    diff_src = dst * (diff_dst - sum(dst * diff_dst)),  or  diff_dst - e**dst * sum(diff_dst)

A row is read from memory once: while it is in cache, its powers are kept next to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ..desc.arguments import ARG_DIFF_DST, ARG_DST, ARG_SRC
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..ir.attribute_chain import AttributeChain
from ..ir.computation import Computation, computation_of
from ..ir.expression import Expr, Ref, TreeAxis, apply
from ..ir.numbers import Number
from ..ir.tree import Each, Let, LoopTree, TreeTensor, fold_over
from ..model.derived import make_primitive
from ..model.operation import GradientProblem, OperationProblem, is_computed_wide
from ..model.reader import ArgumentReader
from ..model.result_dims import Shaped, check_axis

# Rows of up to this many elements keep their powers: a core's caches hold them for each vector lane.
_MOST_KEPT = 2048
# A power takes as long as moving this many bytes.
_POWER_BYTES = 8


@dataclass(frozen=True, slots=True)
class SoftmaxProblem(OperationProblem):
    """The softmax primitive (`dnnl::softmax_forward`): `dst = e**(src - m) / s`, s the sum along an axis.

    m is the maximum of the source along the axis. `softmax_log` gives the logarithm. Executed with `ARG_SRC`
    and `ARG_DST`, which can share memory if their descriptors are equal.
    """

    operation = "softmax"
    primitive = "SoftmaxForward"
    call = "prop_kind", "algorithm", "src", "dst", "axis"
    algorithms = "accurate", "log"
    arguments = """
    `algorithm`: "softmax_accurate" or "softmax_log"; the prefix is optional. `axis`: from 0 to the last.
    `dst`: format "any" takes that of the source. `attr`: scales, which are applied after the softmax,
    post-ops and the scratchpad mode."""

    algorithm: str
    src: MemoryDesc
    dst: MemoryDesc
    axis: int
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> SoftmaxProblem:
        src, dst = call.forward()
        attr = call.attr("scales", "post_ops", of={ARG_SRC: src, ARG_DST: dst})
        return cls(call.algorithm(), src, dst, call.axis(src), attr)

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        check_axis(node.axis, tensors[0])
        return tensors[0].dims

    @property
    def verbose_aux(self) -> str:
        return f"alg:softmax_{self.algorithm} axis:{self.axis}"

    def computation(self) -> Computation:
        return computation_of(self.attr, self.src, self.dst)

    def tree(self) -> LoopTree:
        is_log = self.algorithm == "log"
        src, dst = TreeTensor.of_desc("src", self.src), TreeTensor.of_desc("dst", self.dst)
        chain = AttributeChain(self.computation(), dst, self.dst.dims)
        is_wide = is_computed_wide(self.src, self.dst)
        index, outer, along = axes_of(self.dst.dims, self.axis)
        value = src.load(*index)
        power = apply("exp" if is_wide else "exp_down", value - Ref("m"))
        keeps = not is_log and along.extent <= _MOST_KEPT
        row = TreeTensor.row_major("row", (along.extent,))
        total = fold_over("sum", "s", Ref("e"))
        powers = (Let("e", power), *((row.store((along,), Ref("e")),) if keeps else ()), total)
        if is_log:
            normalizer, result = Let("k", apply("log", Ref("s"))), value - Ref("m") - Ref("k")
        else:
            normalizer, result = Let("k", 1.0 / Ref("s")), (row.load(along) if keeps else power) * Ref("k")
        body = (
            Each((along,), (fold_over("max", "m", value),)),
            Each((along,), powers),
            normalizer,
            Each((along,), (chain.store(index, result),)),
        )
        loop = Each(outer, body, locals=(row,) if keeps else ())
        return LoopTree(
            (src, dst, *chain.tensors), (loop,), chain.scalars, Number.real(is_wide=is_wide)
        ).verify()

    @property
    def work_bytes(self) -> int:
        return self.moved_bytes + _POWER_BYTES * self.src.nelems


@dataclass(frozen=True, slots=True)
class SoftmaxBackwardProblem(GradientProblem):
    """The gradient of the source of a softmax (`dnnl::softmax_backward`).

    Executed with `ARG_DST` (the result of the forward step), `ARG_DIFF_DST` and `ARG_DIFF_SRC`; the gradients
    can share memory.
    """

    operation = "softmax"
    primitive = "SoftmaxBackward"
    call = "algorithm", "diff_src", "diff_dst", "dst", "axis"
    algorithms = SoftmaxProblem.algorithms
    reads = {ARG_DST: "result", ARG_DIFF_DST: "diff_dst"}
    node_reads = "diff_dst", "dst"
    arguments = """
    `dst`: the result of the forward step. Gradients of format "any" take that of `dst`. `hint_pd`: the
    forward descriptor of the same problem, or None; it can precede the attributes, as in C++."""

    algorithm: str
    result: MemoryDesc
    diff_src: MemoryDesc
    diff_dst: MemoryDesc
    axis: int
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> SoftmaxBackwardProblem:
        result = call.known("dst")
        algorithm, axis = call.algorithm(), call.axis(result)
        if hint := call.hint(SoftmaxProblem):
            pairs = {"algorithm": (hint.algorithm, algorithm), "axis": (hint.axis, axis)}
            call.check_hint(**pairs, dims=(hint.dst.dims, result.dims))
        diff_src, diff_dst = call.gradients(dst=result)
        return cls(algorithm, result, diff_src, diff_dst, axis, call.attr())

    @property
    def verbose_aux(self) -> str:
        return f"alg:softmax_{self.algorithm} axis:{self.axis}"

    def tree(self) -> LoopTree:
        is_log = self.algorithm == "log"
        result, gradient = (
            TreeTensor.of_desc("dst", self.result),
            TreeTensor.of_desc("diff_dst", self.diff_dst),
        )
        out = TreeTensor.of_desc("diff_src", self.diff_src)
        index, outer, along = axes_of(self.diff_src.dims, self.axis)
        is_wide = is_computed_wide(self.result, self.diff_src, self.diff_dst)
        y, d = result.load(*index), gradient.load(*index)
        term: Expr = d if is_log else y * d
        power = apply("exp" if is_wide else "exp_down", y)
        value = d - power * Ref("s") if is_log else y * (d - Ref("s"))
        body = (Each((along,), (fold_over("sum", "s", term),)), Each((along,), (out.store(index, value),)))
        return LoopTree(
            (result, out, gradient), (Each(outer, body),), number=Number.real(is_wide=is_wide)
        ).verify()


def axes_of(dims: Sequence[int], axis: int) -> tuple[tuple[TreeAxis, ...], tuple[TreeAxis, ...], TreeAxis]:
    """Return the axes of all dims, those except one, and that one."""
    index = tuple(TreeAxis(f"d{i}", n) for i, n in enumerate(dims))
    return index, tuple(tree_axis for i, tree_axis in enumerate(index) if i != axis), index[axis]


SoftmaxForward = make_primitive(SoftmaxProblem)
SoftmaxBackward = make_primitive(SoftmaxBackwardProblem, SoftmaxForward)
