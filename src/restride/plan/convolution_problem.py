"""The problem of a convolution or deconvolution, forward or backward, and the program that does it.

    forward              dst = saturate(post-ops(scales * sum(src * weights) + bias))
    backward data        diff_src = sum(diff_dst * weights)
    backward weights     diff_weights = sum(src * diff_dst), diff_bias = sum(diff_dst)

Sums are of f32; of integers exact. `plan/convolution.py` has the loops, one relation of the three tensors.
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
from .convolution import (
    Index,
    Relation,
    ResultOf,
    Taps,
    points_tree,
    weights_tree,
    windows_tree,
)
from .convolution_formats import preferred_formats
from .expression import Expr, Load
from .product_chain import NO_CHAIN, ProductChain, product_chain
from .program import Program, Slot
from .tree import Each, TreeTensor

_ARGS = {
    "forward": (ARG_SRC, ARG_WEIGHTS, ARG_DST),
    "backward_data": (ARG_DIFF_SRC, ARG_WEIGHTS, ARG_DIFF_DST),
    "backward_weights": (ARG_SRC, ARG_DIFF_WEIGHTS, ARG_DIFF_DST),
}
_WRITTEN = {"forward": 2, "backward_data": 0, "backward_weights": 1}
# Multiply-adds that take as long as to move a byte.
_TERMS_PER_BYTE = 4


@dataclass(frozen=True, slots=True)
class ConvolutionProblem:
    """What to convolve: equal problems share an executable.

    `direction`: "forward", "backward_data" or "backward_weights"; `tensors`: source, weights and destination,
    or their gradients. `dilations`: 1 is dense. `block`: the channels of a block of the formats that kernels
    want, `pack`: those that they multiply at once. `bias` is the zero descriptor where there is none.
    """

    direction: str
    is_transposed: bool
    tensors: tuple[MemoryDesc, MemoryDesc, MemoryDesc]
    bias: MemoryDesc
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    padding: tuple[int, ...]
    block: int
    attr: Attr = field(default_factory=Attr)
    pack: int = 1

    def structure(self) -> ConvolutionProblem:
        """The problem without the values of its attributes."""
        structure = structure_of(self.attr)
        return self if structure is self.attr else replace(self, attr=structure)

    @property
    def dst(self) -> MemoryDesc:
        """What is written."""
        return self.tensors[_WRITTEN[self.direction]]

    @property
    def relation(self) -> Relation:
        """The extents, as `plan/convolution.py` names them."""
        source, weights, result = self.tensors
        x, y = (result, source) if self.is_transposed else (source, result)
        has_groups = weights.ndims == source.ndims + 1
        groups = weights.dims[0] if has_groups else 1
        dims = tuple(
            Taps(*each)
            for each in zip(
                *(x.dims[2:], y.dims[2:], weights.dims[2 + has_groups :]),
                *(self.strides, self.dilations, self.padding),
                strict=True,
            )
        )
        # Channels of the result come first in weights: of y in a convolution, of x in a deconvolution.
        channels = x.dims[1] // max(groups, 1), y.dims[1] // max(groups, 1)
        return Relation(x.dims[0], groups, *channels, dims, has_groups, not self.is_transposed)

    @property
    def named(self) -> dict[str, MemoryDesc]:
        """The tensors by the names of the relation."""
        found = dict(zip(self.names, self.tensors, strict=True))
        return {name: found[name] for name in ("x", "w", "y")}

    @property
    def names(self) -> tuple[str, str, str]:
        """The names of source, weights and result in the relation."""
        return ("y", "w", "x") if self.is_transposed else ("x", "w", "y")

    def preferred(self) -> dict[str, MemoryDesc]:
        """The descriptors that kernels want, by the same names."""
        written = self.names[_WRITTEN[self.direction]]
        pack = 1 if written == "w" else self.pack
        return preferred_formats(self.relation, self.named, written, self.block, pack)

    def outputs(self) -> dict[int, MemoryDesc]:
        """The gradient of the bias, beside that of the weights."""
        has_sums = self.direction == "backward_weights" and not self.bias.is_zero()
        return {ARG_DIFF_BIAS: self.bias} if has_sums else {}

    @property
    def terms(self) -> int:
        """How many products are added up in all."""
        relation = self.relation
        taps = prod(dim.kernel * dim.points for dim in relation.dims)
        channels = relation.groups * relation.window_channels * relation.point_channels
        return relation.batch * channels * taps

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, each element once."""
        return sum(md.size for md in self.tensors)

    @property
    def is_integral(self) -> bool:
        """True where integers are summed, which is exact."""
        return self.direction == "forward" and all(md.data_type.is_integral for md in self.tensors[:2])

    @property
    def is_wide(self) -> bool:
        """True where all is computed as doubles."""
        return self.is_integral or any(md.data_type is DataType.f64 for md in self.tensors)

    def computation(self) -> Computation:
        """What attributes do."""
        return self.chain().computed

    def chain(self) -> ProductChain:
        """What attributes do: scales and zero points, bias, post-ops."""
        if self.direction != "forward":
            return NO_CHAIN
        bias = None if self.bias.is_zero() else channel_operand(self.bias, self.dst.ndims)
        return product_chain(
            self.dst,
            self.attr,
            bias,
            1,
            is_wide=self.is_wide,
            is_integral=self.is_integral,
            src=self.tensors[0],
        )

    def program(self) -> Program:
        """The program: moves into formats that have vectors, the loops, moves back."""
        chain = self.chain()
        roles = [
            TensorRole(*each) for each in zip(self.names, _ARGS[self.direction], self.tensors, strict=True)
        ]
        written = roles.pop(_WRITTEN[self.direction])
        first, second = roles
        has_bias = self.direction == "forward" and not self.bias.is_zero()
        work = ContractionWork(
            (first, second),
            written,
            partial(self._loops, chain, written.name),
            self.preferred(),
            chain,
            (Slot(ARG_BIAS, span=self.bias.extent_range()),) if has_bias else (),
            self.terms,
            self.moved_bytes + self.terms // _TERMS_PER_BYTE,
            self.is_wide,
            self.pack,
        )
        return with_bias_gradient(work.program(), self.tensors[2], self.outputs())

    def _loops(
        self, chain: ProductChain, written: str, tensors: Mapping[str, TreeTensor]
    ) -> tuple[Each, ...]:
        build = {"x": windows_tree, "w": weights_tree, "y": points_tree}[written]

        def source(load: Load, index: Index) -> Expr:
            return chain.shifted(load, ARG_SRC, index)

        def result(total: Expr, index: Index) -> Expr:
            return chain.result(total, tensors[written], index)

        return build(self.relation, tensors["x"], tensors["w"], tensors["y"], ResultOf(source, result))
