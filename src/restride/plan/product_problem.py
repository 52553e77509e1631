"""What convolutions, inner products and matmuls share: a tensor that is written, of products of two others.

    forward              dst = saturate(post-ops(scales * sum(src * weights) + bias))
    backward data        diff_src = sum(diff_dst * weights)
    backward weights     diff_weights = sum(src * diff_dst), diff_bias = sum(diff_dst)

Sums are of f32; of integers exact. `plan/product_chain.py` says what attributes do. Each problem adds its
dims, the formats that kernels want, and the loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Self

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
from .problem import ProblemBase
from .product_chain import NO_CHAIN, ProductChain, product_chain
from .program import Program, Slot
from .reorder import TensorOperand
from .tree import Each, TreeTensor

Tensors = tuple[MemoryDesc, MemoryDesc, MemoryDesc]

NAMES = ("src", "weights", "dst")
"""The names of the three tensors."""
LETTERS = "abcdefghijkl"
"""The letters of tags: a dim each."""

_ARGS = {
    "forward": (ARG_SRC, ARG_WEIGHTS, ARG_DST),
    "backward_data": (ARG_DIFF_SRC, ARG_WEIGHTS, ARG_DIFF_DST),
    "backward_weights": (ARG_SRC, ARG_DIFF_WEIGHTS, ARG_DIFF_DST),
}
_WRITTEN = {"forward": 2, "backward_data": 0, "backward_weights": 1}
# Multiply-adds that take as long as to move a byte.
_TERMS_PER_BYTE = 4


@dataclass(frozen=True, slots=True)
class ProductProblem(ProblemBase):
    """What to multiply: equal problems share an executable.

    `tensors`: source, weights and result, or their gradients, as `direction` says: "forward", "backward_data"
    or "backward_weights". `bias` is the zero descriptor where there is none. `block`: the channels, or
    columns, of a block of the formats that kernels want; `pack`: how many products they add at once.
    """

    tensors: Tensors
    bias: MemoryDesc
    block: int
    attr: Attr = field(default_factory=Attr)
    pack: int = 1
    direction: str = "forward"

    # The dim of the result that outputs of the weights are along, and a bias has values for.
    _columns: ClassVar[int] = 1

    def structure(self) -> Self:
        """The problem without the values of its attributes."""
        structure = structure_of(self.attr)
        return self if structure is self.attr else replace(self, attr=structure)

    @property
    def dst(self) -> MemoryDesc:
        """What is written."""
        return self.tensors[_WRITTEN[self.direction]]

    @property
    def names(self) -> tuple[str, str, str]:
        """The names of source, weights and result in the loops."""
        return NAMES

    @property
    def has_bias(self) -> bool:
        """True where a bias is added to the sums."""
        return self.direction == "forward" and not self.bias.is_zero()

    def outputs(self) -> dict[int, MemoryDesc]:
        """The gradient of the bias, beside that of the weights."""
        has_sums = self.direction == "backward_weights" and not self.bias.is_zero()
        return {ARG_DIFF_BIAS: self.bias} if has_sums else {}

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, each element once."""
        return sum(md.size for md in self.tensors)

    @property
    def grown(self) -> dict[int, DataType]:
        """By argument, the factors that are converted before they are multiplied, and their types then."""
        return {}

    @property
    def factor_types(self) -> tuple[DataType, DataType]:
        """The types in which source and weights are multiplied."""
        source, weights, _ = self.tensors
        grown = self.grown
        return grown.get(ARG_SRC, source.data_type), grown.get(ARG_WEIGHTS, weights.data_type)

    @property
    def is_integral(self) -> bool:
        """True where integers are summed, which is exact."""
        return self.direction == "forward" and all(each.is_integral for each in self.factor_types)

    @property
    def is_wide(self) -> bool:
        """True where all is computed as doubles, as sums of integers are exact in them."""
        return self.is_integral or any(md.data_type is DataType.f64 for md in self.tensors)

    def computation(self) -> Computation:
        """What attributes do."""
        return self.chain().computed

    def chain(self) -> ProductChain:
        """What attributes do: scales and zero points, bias, post-ops."""
        if self.direction != "forward":
            return NO_CHAIN
        return product_chain(
            self.tensors,
            self.attr,
            self._bias_operand(),
            self._columns,
            is_wide=self.is_wide,
            is_integral=self.is_integral,
            grown=self.grown,
        )

    def program(self) -> Program:
        """The program: moves into formats that have vectors, the loops, moves back."""
        chain = self.chain()
        roles = [
            TensorRole(*each) for each in zip(self.names, _ARGS[self.direction], self.tensors, strict=True)
        ]
        written = roles.pop(_WRITTEN[self.direction])
        first, second = roles
        work = ContractionWork(
            (first, second),
            written,
            partial(self.loops, chain, written.name),
            self.preferred(),
            chain,
            (Slot(ARG_BIAS, span=self.bias.extent_range()),) if self.has_bias else (),
            self.terms,
            self.moved_bytes + self.terms // _TERMS_PER_BYTE,
            self.is_wide,
            self.pack,
        )
        return with_bias_gradient(work.program(), self.tensors[2], self.outputs())

    def _bias_operand(self) -> TensorOperand | None:
        return channel_operand(self.bias, self.dst.ndims) if self.has_bias else None

    # --- what each problem says for itself

    @property
    def terms(self) -> int:
        """How many products are added up in all."""
        raise NotImplementedError

    def preferred(self) -> dict[str, MemoryDesc]:
        """The descriptors that kernels want, by the names of the loops."""
        raise NotImplementedError

    def loops(self, chain: ProductChain, written: str, tensors: Mapping[str, TreeTensor]) -> tuple[Each, ...]:
        """The loops that write the tensor of a name."""
        raise NotImplementedError
