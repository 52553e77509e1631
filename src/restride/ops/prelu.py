"""PReLU: negative elements times weights, forward and backward.

dst = src                          where src > 0, else src * weights
diff_src = diff_dst                where src > 0, else diff_dst * weights
diff_weights = sum of diff_dst * min(src, 0), over the dims along which weights are broadcast
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..desc.arguments import ARG_DIFF_DST, ARG_DIFF_WEIGHTS, ARG_SRC, ARG_WEIGHTS
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..errors import refuse
from ..ir.computation import Computation, ComputationWriter
from ..ir.expression import Ref, TreeAxis, apply
from ..ir.nest import Step, has_wide
from ..ir.numbers import Number
from ..ir.tree import Each, Item, LoopTree, TreeTensor, fold_over
from ..model.any_format import resolved_operand
from ..model.derived import make_primitive
from ..model.operation import GradientProblem, PointwiseProblem
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped, broadcast
from ..schedule.trees.split_folds import pieces_of_folds


@dataclass(frozen=True, slots=True)
class PReLUProblem(PointwiseProblem):
    """Slopes below zero (`dnnl::prelu_forward`): `dst = src > 0 ? src : src * weights`.

    Executed with `ARG_SRC`, `ARG_WEIGHTS` and `ARG_DST`, which can be the source if both are alike.
    """

    operation = "prelu"
    primitive = "PReLUForward"
    call = "prop_kind", "src", "weights", "dst"
    reads = {ARG_SRC: "src", ARG_WEIGHTS: "weights"}
    node_reads = "src", "weights"
    arguments = """
    `weights`: each dim is that of the source, or 1, which is broadcast; format "any" follows the source, as
    does `dst`. `attr`: the scratchpad mode."""

    src: MemoryDesc
    weights: MemoryDesc
    dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> PReLUProblem:
        src = call.known("src")
        weights = _read_weights(call, src)
        dst = call.open("dst", src)
        call.same_dims(src=src, dst=dst)
        call.check_written("dst", dst)
        return cls(src, weights, dst, call.attr())

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        source, slopes = (tensor.dims for tensor in tensors)
        if broadcast(source, slopes) != source:
            raise Misfit("the slopes are larger than the source")
        return source

    def computation(self) -> Computation:
        is_wide = has_wide(*(md.data_type for md in (self.src, self.weights, self.dst)))
        writer = ComputationWriter(self.dst.dims, is_wide=is_wide, sources=1)
        writer.own_step(Step("prelu", operand=0), 0)
        return writer.computation()


@dataclass(frozen=True, slots=True)
class PReLUBackwardProblem(GradientProblem):
    """The gradients of source and weights (`dnnl::prelu_backward`).

    Executed with `ARG_SRC`, `ARG_WEIGHTS`, `ARG_DIFF_DST`, `ARG_DIFF_SRC` and `ARG_DIFF_WEIGHTS`, none of
    which may share memory.
    """

    operation = "prelu"
    primitive = "PReLUBackward"
    call = "src", "weights", "diff_src", "diff_weights", "diff_dst"
    prop_kinds = (PropKind.backward,)
    reads = {ARG_SRC: "src", ARG_WEIGHTS: "weights", ARG_DIFF_DST: "diff_dst"}
    in_place = False
    rewrites = staticmethod(pieces_of_folds)
    arguments = """
    A gradient of format "any" takes the format of its tensor. `hint_pd`: the forward descriptor of the same
    problem, or None."""

    src: MemoryDesc
    weights: MemoryDesc
    diff_src: MemoryDesc
    diff_weights: MemoryDesc
    diff_dst: MemoryDesc
    attr: Attr = field(default_factory=Attr)

    @classmethod
    def read(cls, call: ArgumentReader) -> PReLUBackwardProblem:
        src = call.known("src")
        weights = _read_weights(call, src)
        if hint := call.hint(PReLUProblem):
            call.check_hint(dims=((hint.src.dims, hint.weights.dims), (src.dims, weights.dims)))
        diff_src, diff_dst = call.open("diff_src", src), call.open("diff_dst", src)
        diff_weights = call.open("diff_weights", weights)
        call.same_dims(src=src, diff_src=diff_src, diff_dst=diff_dst)
        call.same_dims(weights=weights, diff_weights=diff_weights)
        call.check_written("diff_src", diff_src)
        call.check_written("diff_weights", diff_weights)
        return cls(src, weights, diff_src, diff_weights, diff_dst, call.attr())

    def tree(self) -> LoopTree:
        """The loops over the dims of the weights, around those over broadcast dims."""
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
        outer = tuple(axis for axis, keep in zip(axes, is_kept, strict=True) if keep)
        inner = tuple(axis for axis, keep in zip(axes, is_kept, strict=True) if not keep)
        element, gradient = src.load(*axes), diff_dst.load(*axes)
        # min of NaN and a number returns the second operand.
        term = gradient * apply("min", 0.0, element)
        slope = apply("select", apply("gt", element, 0.0), 1.0, weights.load(*axes))
        store = diff_src.store(axes, slope * gradient)
        body: tuple[Item, ...] = (diff_weights.store(axes, term), store)
        if inner:
            total = Each(inner, (fold_over("sum", "total", term), store))
            body = (total, diff_weights.store(axes, Ref("total")))
        is_wide = has_wide(*(md.data_type for md in mds.values()))
        return LoopTree(tensors, (Each(outer, body),), number=Number.real(is_wide=is_wide)).verify()

    def outputs(self) -> dict[int, MemoryDesc]:
        return {ARG_DIFF_WEIGHTS: self.diff_weights}


def _read_weights(call: ArgumentReader, src: MemoryDesc) -> MemoryDesc:
    """Return the descriptor of weights that fit the source."""
    md = call.open("weights")
    if md.ndims == src.ndims and all(n in (1, of) for n, of in zip(md.dims, src.dims, strict=True)):
        return resolved_operand(md, src)
    raise refuse("RS-R10:weights-not-fit", what=call.what, src=src, md=md)


PReLUForward = make_primitive(PReLUProblem)
PReLUBackward = make_primitive(PReLUBackwardProblem, PReLUForward)
