"""What attributes do in a sum of products: before it, to its factors, and after it, to the sums.

    dst = saturate(post-ops(scale_src * scale_weights * sum + bias))
    sum = sum((src - zero_src) * (weights - zero_weights))

Integers are less their zero points inside of the sum. Weights that are narrower than the floats they are
multiplied with are decompressed first: `scale_weights * (weights - zero_weights)`, where groups of rows may
have factors of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..desc.arguments import (
    ARG_ATTR_SCALES,
    ARG_ATTR_ZERO_POINTS,
    ARG_BIAS,
    ARG_SRC,
    ARG_WEIGHTS,
)
from ..desc.attr import Attr
from ..desc.attr_value import Factor
from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from .computation import NOTHING, Computation, ComputationWriter
from .expression import Affine, Expr, Load, Scalar, TreeAxis, in_single
from .nest import Step
from .reorder import TensorOperand
from .tree import TreeTensor
from .tree_steps import old_element, old_tensors, operand_loads, operand_tensors, with_steps

FACTORS = (DataType.f32, DataType.bf16, DataType.f16, DataType.f64, DataType.f8_e5m2, DataType.f8_e4m3)
"""Floats that are multiplied as they are."""


class FactorPlace(NamedTuple):
    """Where a tree finds a factor: among the scalars, or among the operands.

    `is_own`: by the index of the tensor that it is of, and not by that of the destination.
    """

    scalar: int = -1
    operand: int = -1
    is_own: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class ProductChain:
    """The attributes of a sum of products.

    `computed`: all of their values, and the steps on the sums. `operands`: what trees read, bias first.
    `shifts`: by argument, what is subtracted inside of the sum. `weights`: how weights are decompressed;
    `before`: how many operands and scalars of `computed` come before its own, -1 where weights are taken as
    they are. `is_single`: sums are exact, and what becomes of them is computed in f32.
    """

    computed: Computation
    operands: tuple[TreeTensor, ...]
    shifts: Mapping[int, FactorPlace]
    weights: Computation = NOTHING
    before: tuple[int, int] = (-1, -1)
    is_single: bool = False

    @property
    def decompresses(self) -> bool:
        """True where weights become floats before they are multiplied."""
        return self.before != (-1, -1)

    def shifted(self, load: Load, arg: int, index: Sequence[Affine | TreeAxis | int]) -> Expr:
        """A factor of the product, less its zero point, for an index of the destination."""
        place = self.shifts.get(arg)
        if place is None:
            return load
        if place.operand < 0:
            return load - Scalar(place.scalar)
        return load - self.operands[place.operand].load(*(load.index if place.is_own else index))

    def result(self, total: Expr, dst: TreeTensor, index: Sequence[Affine | TreeAxis | int]) -> Expr:
        """What is stored at an index of the destination, of the sum there."""
        compute = self.computed.compute
        old = old_element(old_tensors(compute, dst), dst, index)
        value = with_steps(total, compute, operand_loads(self.operands, index), old)
        return in_single(value) if self.is_single and value != total else value


NO_CHAIN = ProductChain(NOTHING, (), {})
"""Of gradients, which have no attributes."""


def product_chain(
    dst: MemoryDesc,
    attr: Attr,
    bias: TensorOperand | None,
    columns: int,
    *,
    is_wide: bool,
    is_integral: bool = False,
    weights: MemoryDesc | None = None,
    src: MemoryDesc | None = None,
) -> ProductChain:
    """The chain for a destination whose columns, along dim `columns`, weights have factors for.

    `is_integral`: sums are of integers; `weights`: those that are decompressed; `src`: a source whose
    channels may have zero points of their own.
    """
    is_single = is_integral and dst.data_type not in (DataType.s32, DataType.f64)
    is_wide = is_wide and not is_single
    writer = ComputationWriter(dst.dims, is_wide=is_wide, sources=int(bias is not None))
    scales, zeros = attr.scale_of(ARG_WEIGHTS), attr.zero_point_of(ARG_WEIGHTS)
    writer.factor("mul", attr.scale_of(ARG_SRC), ARG_ATTR_SCALES | ARG_SRC)
    if weights is None:
        writer.factor("mul", _along(columns, scales), ARG_ATTR_SCALES | ARG_WEIGHTS)
    if bias is not None:
        writer.combine(Step("add", operand=0), None, ARG_BIAS, dst.dims)
    writer.finish(attr)
    source = attr.zero_point_of(ARG_SRC)
    shifts: dict[int, Factor | None] = {} if source is None or source.mask else {ARG_SRC: source}
    if weights is None:
        shifts[ARG_WEIGHTS] = _along(columns, zeros)
    places = {
        arg: FactorPlace(*writer.unread(zero, ARG_ATTR_ZERO_POINTS | arg))
        for arg, zero in shifts.items()
        if zero is not None
    }
    computed = writer.computation()
    operands = operand_tensors([*([bias] if bias else []), *computed.tensors], dst.dims)
    if src is not None and source is not None and source.mask:
        by_channel = ComputationWriter(src.dims, is_wide=is_wide)
        by_channel.unread(source, ARG_ATTR_ZERO_POINTS | ARG_SRC)
        zeros_of = by_channel.computation()
        (own_zeros,) = operand_tensors(zeros_of.tensors, src.dims)
        places[ARG_SRC] = FactorPlace(operand=len(operands), is_own=True)
        operands = (*operands, replace(own_zeros, name=f"x{len(operands)}"))
        computed = computed.followed_by(zeros_of)
    if weights is None:
        return ProductChain(computed, operands, places, is_single=is_single)
    own = ComputationWriter(weights.dims, is_wide=False)
    own.factor("sub", zeros, ARG_ATTR_ZERO_POINTS | ARG_WEIGHTS)
    own.factor("mul", scales, ARG_ATTR_SCALES | ARG_WEIGHTS)
    before = len(computed.operands), len(computed.scalars)
    decompressed = own.computation()
    return ProductChain(computed.followed_by(decompressed), operands, places, decompressed, before)


def _along(dim: int, factor: Factor | None) -> Factor | None:
    """A factor of weights as one of the destination: for each column, or for all."""
    return factor if factor is None or factor.mask == 0 else replace(factor, mask=1 << dim)
