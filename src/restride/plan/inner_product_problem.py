"""The problem of an inner product, forward or backward, and the program that does it.

    forward           dst[n, o] = saturate(post-ops(scales * sum of src[n, ...] * weights[o, ...] + bias[o]))
    backward data     diff_src[n, ...] = sum over o of diff_dst[n, o] * weights[o, ...]
    backward weights  diff_weights[o, ...] = sum over n of diff_dst[n, o] * src[n, ...]
                      diff_bias[o] = sum over n of diff_dst[n, o]

A source has channels and may have spatial dims; weights have the same, and outputs in place of the batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod

from ..desc.arguments import (
    ARG_BIAS,
    ARG_DIFF_BIAS,
    ARG_DIFF_DST,
    ARG_DIFF_SRC,
    ARG_DIFF_WEIGHTS,
    ARG_DST,
    ARG_SRC,
    ARG_WEIGHTS,
)
from ..desc.attr import Attr
from ..desc.attr_value import structure_of
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from .computation import Computation
from .contraction_program import ContractionWork, TensorRole, channel_operand, with_bias_gradient
from .expression import Expr, Ref, TreeAxis, index_of
from .product_chain import NO_CHAIN, ProductChain, product_chain
from .program import Program, Slot
from .tree import Each, TreeTensor, fold_over

NAMES = ("src", "weights", "dst")
_ARGS = {
    "forward": (ARG_SRC, ARG_WEIGHTS, ARG_DST),
    "backward_data": (ARG_DIFF_SRC, ARG_WEIGHTS, ARG_DIFF_DST),
    "backward_weights": (ARG_SRC, ARG_DIFF_WEIGHTS, ARG_DIFF_DST),
}
_WRITTEN = {"forward": 2, "backward_data": 0, "backward_weights": 1}
_LETTERS = "abcdefghijkl"
# Multiply-adds that take as long as to move a byte.
_TERMS_PER_BYTE = 4


@dataclass(frozen=True, slots=True)
class InnerProductProblem:
    """What to multiply: equal problems share an executable.

    `tensors`: source, weights and destination, or their gradients, as `direction` says. `block`: the outputs
    of a block that kernels want, `pack`: the inputs that they multiply at once. `bias` is the zero descriptor
    where there is none.
    """

    direction: str
    tensors: tuple[MemoryDesc, MemoryDesc, MemoryDesc]
    bias: MemoryDesc
    block: int
    attr: Attr = field(default_factory=Attr)
    pack: int = 1

    def structure(self) -> InnerProductProblem:
        """The problem without the values of its attributes."""
        structure = structure_of(self.attr)
        return self if structure is self.attr else replace(self, attr=structure)

    @property
    def dst(self) -> MemoryDesc:
        """What is written."""
        return self.tensors[_WRITTEN[self.direction]]

    def outputs(self) -> dict[int, MemoryDesc]:
        """The gradient of the bias, beside that of the weights."""
        has_sums = self.direction == "backward_weights" and not self.bias.is_zero()
        return {ARG_DIFF_BIAS: self.bias} if has_sums else {}

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, each element once."""
        return sum(md.size for md in self.tensors)

    @property
    def terms(self) -> int:
        """How many products are added up in all."""
        source, weights, _ = self.tensors
        return prod(source.dims) * weights.dims[0]

    @property
    def is_integral(self) -> bool:
        """True where integers are summed, which is exact."""
        return self.direction == "forward" and all(md.data_type.is_integral for md in self.tensors[:2])

    @property
    def is_wide(self) -> bool:
        """True where all is computed as doubles, as sums of integers are exact in them."""
        return self.is_integral or any(md.data_type is DataType.f64 for md in self.tensors)

    def preferred(self) -> dict[str, MemoryDesc]:
        """The descriptors that kernels want: forward, outputs in blocks; else all of them row-major.

        Channels come last where several are multiplied at once.
        """
        source, weights, result = self.tensors
        letters = plain = _LETTERS[: source.ndims]
        tag = f"A{letters[1:]}{self.block}a" if self.direction == "forward" else letters
        if self.direction == "forward" and self.pack > 1:
            plain = f"a{letters[2:]}b"
            tag = f"A{letters[2:]}B{self.block}a{self.pack}b"
        return {
            "src": MemoryDesc(source.dims, source.data_type, plain),
            "weights": MemoryDesc(weights.dims, weights.data_type, tag),
            "dst": MemoryDesc(result.dims, result.data_type),
        }

    def computation(self) -> Computation:
        """What attributes do."""
        return self.chain().computed

    def chain(self) -> ProductChain:
        """What attributes do: scales and zero points, bias, post-ops."""
        if self.direction != "forward":
            return NO_CHAIN
        bias = None if self.bias.is_zero() else channel_operand(self.bias, 2)
        return product_chain(self.dst, self.attr, bias, 1, is_wide=self.is_wide, is_integral=self.is_integral)

    def program(self) -> Program:
        """The program: moves into formats that have vectors, the loops, moves back."""
        chain, is_forward = self.chain(), self.direction == "forward"
        has_bias = is_forward and not self.bias.is_zero()
        slots = (Slot(ARG_BIAS, span=self.bias.extent_range()),) if has_bias else ()
        roles = [TensorRole(*each) for each in zip(NAMES, _ARGS[self.direction], self.tensors, strict=True)]
        written = roles.pop(_WRITTEN[self.direction])
        first, second = roles
        work = ContractionWork(
            (first, second),
            written,
            partial(_loops, chain, written.name),
            self.preferred(),
            chain,
            slots,
            self.terms,
            self.moved_bytes + self.terms // _TERMS_PER_BYTE,
            self.is_wide,
            self.pack,
        )
        return with_bias_gradient(work.program(), self.tensors[2], self.outputs())


def _loops(chain: ProductChain, written: str, tensors: Mapping[str, TreeTensor]) -> tuple[Each, ...]:
    src, weights, dst = (tensors[name] for name in NAMES)
    n, o = TreeAxis("n", dst.sizes[0]), TreeAxis("o", dst.sizes[1])
    rest = tuple(TreeAxis(f"i{d}", size) for d, size in enumerate(src.sizes[1:]))
    source = chain.shifted(src.load(n, *rest), ARG_SRC, index_of(n, o))
    elements: dict[str, tuple[tuple[TreeAxis, ...], tuple[TreeAxis, ...], Expr]] = {
        "src": ((n, *rest), (o,), dst.load(n, o) * weights.load(o, *rest)),
        "weights": ((o, *rest), (n,), dst.load(n, o) * source),
        "dst": ((n, o), rest, source * weights.load(o, *rest)),
    }
    axes, summed, term = elements[written]
    target, index = tensors[written], index_of(*axes)
    inner = Each(summed, (fold_over("sum", "total", term),))
    return (Each(axes, (inner, target.store(index, chain.result(Ref("total"), target, index)))),)
