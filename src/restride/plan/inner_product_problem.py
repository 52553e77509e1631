"""The problem of an inner product, forward or backward.

    forward           dst[n, o] = sum of src[n, ...] * weights[o, ...] + bias[o]
    backward data     diff_src[n, ...] = sum over o of diff_dst[n, o] * weights[o, ...]
    backward weights  diff_weights[o, ...] = sum over n of diff_dst[n, o] * src[n, ...]
                      diff_bias[o] = sum over n of diff_dst[n, o]

A source has channels and may have spatial dims; weights have the same, and outputs in place of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from ..desc.arguments import ARG_SRC, ARG_WEIGHTS
from ..desc.memory_desc import MemoryDesc
from .expression import Expr, Ref, TreeAxis, index_of
from .product_chain import ProductChain
from .product_problem import LETTERS, NAMES, ProductProblem
from .tree import Each, TreeTensor, fold_over


@dataclass(frozen=True, slots=True)
class InnerProductProblem(ProductProblem):
    """What to multiply. `block`: the outputs of a block, `pack`: the inputs that are multiplied at once."""

    @property
    def terms(self) -> int:
        """How many products are added up in all."""
        source, weights, _ = self.tensors
        return prod(source.dims) * weights.dims[0]

    def preferred(self) -> dict[str, MemoryDesc]:
        """The descriptors that kernels want: forward, outputs in blocks; else all of them row-major.

        Channels come last where several are multiplied at once.
        """
        source, weights, result = self.tensors
        letters = plain = LETTERS[: source.ndims]
        tag = f"A{letters[1:]}{self.block}a" if self.direction == "forward" else letters
        if self.direction == "forward" and self.pack > 1:
            plain = f"a{letters[2:]}b"
            tag = f"A{letters[2:]}B{self.block}a{self.pack}b"
        return {
            "src": MemoryDesc(source.dims, source.data_type, plain),
            "weights": MemoryDesc(weights.dims, weights.data_type, tag),
            "dst": MemoryDesc(result.dims, result.data_type),
        }

    def loops(self, chain: ProductChain, written: str, tensors: Mapping[str, TreeTensor]) -> tuple[Each, ...]:
        """The loops that write the tensor of a name: its indices outside, the others are summed."""
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
        axes, summed, term = elements[written]
        target, index = tensors[written], index_of(*axes)
        inner = Each(summed, (fold_over("sum", "total", term),))
        return (Each(axes, (inner, target.store(index, chain.result(Ref("total"), target, index)))),)
