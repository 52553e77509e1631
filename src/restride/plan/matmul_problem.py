"""The problem of a product of matrices, and the program that does it.

    dst[..., m, n] = saturate(post-ops(scales * sum over k of src[..., m, k] * weights[..., k, n] + bias))

`plan/product_chain.py` says what attributes do to the factors.
Batch dims of 1 are repeated. Sums are of f32; of integers exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod

from ..desc.arguments import ARG_BIAS, ARG_DST, ARG_SRC, ARG_WEIGHTS
from ..desc.attr import Attr
from ..desc.attr_value import structure_of
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from .computation import Computation
from .contraction_program import ContractionWork, TensorRole
from .expression import Ref, TreeAxis, index_of
from .product_chain import FACTORS, ProductChain, product_chain
from .program import Program, Slot
from .reorder import TensorOperand
from .tree import Each, TreeTensor, fold_over

_LETTERS = "abcdefghijkl"
# Multiply-adds that take as long as to move a byte.
_TERMS_PER_BYTE = 4


@dataclass(frozen=True, slots=True)
class MatmulProblem:
    """What to multiply: equal problems share an executable. `block`: columns of a block that kernels want,
    `pack`: the rows of weights that they multiply at once.

    `bias` is the zero descriptor where there is none; else it has the rank of `dst`, and 1 where it is
    repeated.
    """

    src: MemoryDesc
    weights: MemoryDesc
    bias: MemoryDesc
    dst: MemoryDesc
    block: int
    attr: Attr = field(default_factory=Attr)
    pack: int = 1

    def structure(self) -> MatmulProblem:
        """The problem without the values of its attributes."""
        structure = structure_of(self.attr)
        return self if structure is self.attr else replace(self, attr=structure)

    def outputs(self) -> dict[int, MemoryDesc]:
        """Nothing is written beside the destination."""
        return {}

    @property
    def has_runtime(self) -> bool:
        """True where dims or strides are known only at execution."""
        return any(md.layout.has_runtime for md in self.tensors if not md.is_zero())

    @property
    def tensors(self) -> tuple[MemoryDesc, MemoryDesc, MemoryDesc, MemoryDesc]:
        """Source, weights, bias and destination."""
        return self.src, self.weights, self.bias, self.dst

    def slots(self) -> tuple[Slot, ...]:
        """The arguments of a program, where shapes are not known yet."""
        bias = () if self.bias.is_zero() else (Slot(ARG_BIAS),)
        own = Slot(ARG_SRC), Slot(ARG_DST, is_written=True), Slot(ARG_WEIGHTS), *bias
        return (*own, *self.computation().slots())

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, each element once."""
        return self.src.size + self.weights.size + self.dst.size

    @property
    def terms(self) -> int:
        """How many products are added up in all."""
        return prod(self.dst.dims) * self.src.dims[-1]

    @property
    def is_integral(self) -> bool:
        """True where integers are summed, which is exact."""
        return all(md.data_type.is_integral for md in (self.src, self.weights))

    @property
    def is_wide(self) -> bool:
        """True where all is computed as doubles, as sums of integers are exact in them."""
        return self.is_integral or DataType.f64 in {md.data_type for md in (self.src, self.weights, self.dst)}

    @property
    def decompresses(self) -> bool:
        """True where weights are narrower than the floats that they are multiplied with, or have factors that
        are not the same for a whole column.
        """
        if self.src.data_type.is_integral:
            return False
        scales = self.attr.scale_of(ARG_WEIGHTS)
        has_groups = scales is not None and scales.mask not in (0, 1 << self.dst.ndims - 1)
        return has_groups or self.weights.data_type not in FACTORS

    def preferred(self) -> dict[str, MemoryDesc]:
        """The descriptors that kernels want: weights in blocks of columns, the others row-major."""
        batch = _LETTERS[: self.dst.ndims - 2]
        k, n = tuple(_LETTERS[self.dst.ndims - 2 : self.dst.ndims])
        tag = f"{batch}{n.upper()}{k}{self.block}{n}"
        if self.pack > 1:
            tag = f"{batch}{n.upper()}{k.upper()}{self.block}{n}{self.pack}{k}"
        return {
            "src": MemoryDesc(self.src.dims, self.src.data_type),
            "weights": MemoryDesc(self.weights.dims, self.weights.data_type, tag),
            "dst": MemoryDesc(self.dst.dims, self.dst.data_type),
        }

    def computation(self) -> Computation:
        """What attributes do."""
        return self.chain().computed

    def chain(self) -> ProductChain:
        """What attributes do: scales and zero points, bias, post-ops."""
        is_open = self.bias.is_zero() or self.has_runtime
        bias = None if is_open else TensorOperand.of_desc(self.bias)
        weights = self.weights if self.decompresses else None
        return product_chain(
            *(self.dst, self.attr, bias, self.dst.ndims - 1),
            is_wide=self.is_wide,
            is_integral=self.is_integral,
            weights=weights,
        )

    def program(self) -> Program:
        """The program: moves into formats that have vectors, the loops, moves back."""
        chain = self.chain()
        slots = () if self.bias.is_zero() else (Slot(ARG_BIAS, span=self.bias.extent_range()),)
        return ContractionWork(
            (TensorRole("src", ARG_SRC, self.src), TensorRole("weights", ARG_WEIGHTS, self.weights)),
            TensorRole("dst", ARG_DST, self.dst),
            partial(_loops, chain, self.src.dims[-1]),
            self.preferred(),
            chain,
            slots,
            self.terms,
            self.moved_bytes + self.terms // _TERMS_PER_BYTE,
            self.is_wide,
            self.pack,
        ).program()


def _loops(chain: ProductChain, count: int, tensors: Mapping[str, TreeTensor]) -> tuple[Each, ...]:
    src, weights, dst = (tensors[name] for name in ("src", "weights", "dst"))
    *batch, m, n = (TreeAxis(f"d{i}", size) for i, size in enumerate(dst.sizes))
    k, index = TreeAxis("k", count), index_of(*batch, m, n)
    first = chain.shifted(src.load(*batch, m, k), ARG_SRC, index)
    second = chain.shifted(weights.load(*batch, k, n), ARG_WEIGHTS, index)
    summed = Each((k,), (fold_over("sum", "total", first * second),))
    return (Each((*batch, m, n), (summed, dst.store(index, chain.result(Ref("total"), dst, index)))),)
