"""Inner product, forward, backward data and backward weights.

    forward           dst[n, o] = sum of src[n, ...] * weights[o, ...] + bias[o]
    backward data     diff_src[n, ...] = sum over o of diff_dst[n, o] * weights[o, ...]
    backward weights  diff_weights[o, ...] = sum over n of diff_dst[n, o] * src[n, ...]
                      diff_bias[o] = sum over n of diff_dst[n, o]

The source has channels and can have spatial dims; weights have the same, with outputs in place of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ..desc.arguments import ARG_DST, ARG_SRC, ARG_WEIGHTS
from ..desc.attr_check import check_attr_of
from ..desc.memory_desc import MemoryDesc
from ..ir.expression import Expr, Ref, TreeAxis, index_of
from ..ir.tree import Each, TreeTensor, fold_over
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped
from .product import (
    LETTERS,
    NAMES,
    ProductProblem,
    check_narrow_sum,
    check_scale_masks,
    check_zero_points,
    kernel_block,
    kernel_pack,
    make_directions,
)
from .programs.product_chain import ProductChain


@dataclass(frozen=True, slots=True)
class InnerProductProblem(ProductProblem):
    """The inner product (`dnnl::inner_product_forward`): each output is a weighted sum of all inputs.

    Executed with `ARG_SRC`, `ARG_WEIGHTS`, `ARG_DST` and, if there is a bias, `ARG_BIAS`.
    """

    operation = "inner_product"
    primitive = "InnerProductForward"
    call = "prop_kind", "src", "weights", "bias", "dst"
    defaults = {"bias": None, "dst": None}
    arguments = """
    Positional calls can omit the bias. `src` (N, C) or (N, C, ...), `weights` (outputs, C, ...), `bias`
    (outputs), `dst` (N, outputs). A tensor of format "any" gets the format that is fastest here. `attr`:
    scales, zero points, post-ops, the scratchpad mode."""

    @classmethod
    def read(cls, call: ArgumentReader) -> InnerProductProblem:
        problem = cls(*cls.read_tensors(call), kernel_block(), call.frozen_attr())
        problem._check_shapes(call.what)
        problem.check_types(call.what)
        pack = kernel_pack(*problem.factor_types) if problem.is_forward else 1
        problem = replace(problem, pack=pack).chosen()
        problem = replace(problem, attr=call.attr(*cls.attributes))
        if problem.is_forward:
            attr, outputs = problem.attr, (0, 1)
            check_zero_points(call.what, attr, {ARG_SRC: (0,), ARG_WEIGHTS: outputs})
            check_narrow_sum(call.what, attr, problem.dst.data_type)
            check_attr_of(call.what, attr, problem.operands())
            check_scale_masks(call.what, attr, {ARG_SRC: (0,), ARG_WEIGHTS: outputs, ARG_DST: (0, 2)})
        call.check_written(problem.written_name, problem.dst)
        if hint := call.hint(InnerProductProblem):
            problem.check_hint(call, hint)
        return problem

    def _check_shapes(self, what: str) -> None:
        refuse_dims = self.refuse_dims(what)
        source, weights, result = self.tensors
        if source.ndims < 2 or weights.ndims != source.ndims or result.ndims != 2:
            refuse_dims(
                f"ranks are {source.ndims}, {weights.ndims} and {result.ndims}",
                "a source is (N, C, ...), weights are (outputs, C, ...), the result is (N, outputs)",
            )
        if source.dims[1:] != weights.dims[1:]:
            refuse_dims(
                f"a source of {source.dims}, weights of {weights.dims}", "dims after the first must be equal"
            )
        dims = source.dims[0], weights.dims[0]
        if result.dims != dims:
            refuse_dims(f"the result is {result.dims}", f"for these tensors it must be {dims}")
        if not self.bias.is_zero() and self.bias.dims != (weights.dims[0],):
            refuse_dims(
                f"the bias is {self.bias.dims}", f"pass one value for each of the {weights.dims[0]} outputs"
            )

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        source, weights, *bias = (tensor.dims for tensor in tensors)
        if not 2 <= len(source) == len(weights) or source[1:] != weights[1:]:
            raise Misfit("all dims of the weights but the first must be those of the source")
        if bias and bias[0] != weights[:1]:
            raise Misfit(f"the bias must have {weights[0]} values")
        return source[0], weights[0]

    @property
    def terms(self) -> int:
        source, weights, _ = self.tensors
        return prod(source.dims) * weights.dims[0]

    def preferred(self) -> dict[str, MemoryDesc]:
        """The descriptors that kernels prefer: forward, outputs in blocks; otherwise all row-major.

        Channels come last if several are multiplied at once.
        """
        source, weights, result = self.tensors
        letters = plain = LETTERS[: source.ndims]
        tag = f"A{letters[1:]}{self.block}a" if self.is_forward else letters
        if self.is_forward and self.pack > 1:
            plain = f"a{letters[2:]}b"
            tag = f"A{letters[2:]}B{self.block}a{self.pack}b"
        return {
            "src": MemoryDesc(source.dims, source.data_type, plain),
            "weights": MemoryDesc(weights.dims, weights.data_type, tag),
            "dst": MemoryDesc(result.dims, result.data_type),
        }

    def loops(self, chain: ProductChain, output: str, tensors: Mapping[str, TreeTensor]) -> tuple[Each, ...]:
        """Return the loops that write the named tensor: its indices outside, the others are summed."""
        src, weights, dst = (tensors[name] for name in NAMES)
        n, o = TreeAxis("n", dst.sizes[0]), TreeAxis("o", dst.sizes[1])
        rest = tuple(TreeAxis(f"i{d}", size) for d, size in enumerate(src.sizes[1:]))
        source = chain.shifted(src.load(n, *rest), ARG_SRC, index_of(n, o))
        factor = chain.shifted(weights.load(o, *rest), ARG_WEIGHTS, index_of(n, o))
        elements: dict[str, tuple[tuple[TreeAxis, ...], tuple[TreeAxis, ...], Expr]] = {
            "src": ((n, *rest), (o,), dst.load(n, o) * factor),
            "weights": ((o, *rest), (n,), dst.load(n, o) * source),
            "dst": ((n, o), rest, source * factor),
        }
        axes, summed, term = elements[output]
        target, index = tensors[output], index_of(*axes)
        inner = Each(summed, (fold_over("sum", "total", term),))
        return (Each(axes, (inner, target.store(index, chain.result(Ref("total"), target, index)))),)


InnerProductForward, InnerProductBackwardData, InnerProductBackwardWeights = make_directions(
    InnerProductProblem
)
