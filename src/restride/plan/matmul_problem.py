"""The problem of a product of matrices: `dst[..., m, n] = sum over k of src[..., m, k] * weights[..., k, n]`.

Batch dims of 1 are repeated. Factors that have scales or zero points of their own for each row or group of
`k` become floats with these first: then what is summed is what they stand for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import ClassVar

from ..desc.arguments import ARG_BIAS, ARG_DST, ARG_SRC, ARG_WEIGHTS
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from .expression import Ref, TreeAxis, index_of
from .product_chain import FACTORS, ProductChain
from .product_problem import LETTERS, NAMES, ProductProblem
from .program import Slot
from .reorder import TensorOperand
from .tree import Each, TreeTensor, fold_over


@dataclass(frozen=True, slots=True)
class MatmulProblem(ProductProblem):
    """What to multiply. `bias` has the rank of the result, and 1 where it is repeated. `block`: columns of a
    block that kernels want, `pack`: the rows of weights that they multiply at once.
    """

    _columns: ClassVar[int] = -1

    @property
    def has_runtime(self) -> bool:
        """True where dims or strides are known only at execution."""
        return any(md.layout.has_runtime for md in (*self.tensors, self.bias) if not md.is_zero())

    def slots(self) -> tuple[Slot, ...]:
        """The arguments of a program, where shapes are not known yet."""
        bias = () if self.bias.is_zero() else (Slot(ARG_BIAS),)
        own = Slot(ARG_SRC), Slot(ARG_DST, is_written=True), Slot(ARG_WEIGHTS), *bias
        return (*own, *self.computation().slots())

    @property
    def terms(self) -> int:
        """How many products are added up in all."""
        return prod(self.dst.dims) * self.tensors[0].dims[-1]

    @property
    def grown(self) -> dict[int, DataType]:
        """Integers of 4 bits become bytes; all else that is not multiplied as it is becomes f32.

        That is what is narrower than the floats of the other factor, and what has factors along `k`.
        """
        types = {arg: md.data_type for arg, md in zip((ARG_SRC, ARG_WEIGHTS), self.tensors, strict=False)}
        grouped = {arg for arg in types if self._has_groups(arg)}
        if all(each.is_integral for each in types.values()):
            if grouped:
                return dict.fromkeys(types, DataType.f32)
            return {arg: DataType.s8 for arg, each in types.items() if each.bits < 8}
        return {arg: DataType.f32 for arg, each in types.items() if arg in grouped or each not in FACTORS}

    def _has_groups(self, arg: int) -> bool:
        """True where a factor has scales or zero points that are not those of all of a row or column."""
        columns = 1 << self.dst.ndims - 1
        masks = {ARG_SRC: (0,), ARG_WEIGHTS: (0, columns)}[arg]
        found = self.attr.scale_of(arg), self.attr.zero_point_of(arg)
        return any(each is not None and (each.mask not in masks or each.groups) for each in found)

    def preferred(self) -> dict[str, MemoryDesc]:
        """The descriptors that kernels want: weights in blocks of columns, the others row-major."""
        src, weights, dst = self.tensors
        batch = LETTERS[: dst.ndims - 2]
        k, n = tuple(LETTERS[dst.ndims - 2 : dst.ndims])
        tag = f"{batch}{n.upper()}{k}{self.block}{n}"
        if self.pack > 1:
            tag = f"{batch}{n.upper()}{k.upper()}{self.block}{n}{self.pack}{k}"
        return {
            "src": MemoryDesc(src.dims, src.data_type),
            "weights": MemoryDesc(weights.dims, weights.data_type, tag),
            "dst": MemoryDesc(dst.dims, dst.data_type),
        }

    def _bias_operand(self) -> TensorOperand | None:
        is_open = self.bias.is_zero() or self.has_runtime
        return None if is_open else TensorOperand.of_desc(self.bias)

    def loops(self, chain: ProductChain, written: str, tensors: Mapping[str, TreeTensor]) -> tuple[Each, ...]:
        """The loops that write the result."""
        src, weights, dst = (tensors[name] for name in NAMES)
        *batch, m, n = (TreeAxis(f"d{i}", size) for i, size in enumerate(dst.sizes))
        k, index = TreeAxis("k", src.sizes[-1]), index_of(*batch, m, n)
        first = chain.shifted(src.load(*batch, m, k), ARG_SRC, index)
        second = chain.shifted(weights.load(*batch, k, n), ARG_WEIGHTS, index)
        summed = Each((k,), (fold_over("sum", "total", first * second),))
        return (Each((*batch, m, n), (summed, dst.store(index, chain.result(Ref("total"), dst, index)))),)
