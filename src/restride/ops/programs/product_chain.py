"""The attributes of a sum of products: applied to its factors before it, and to the sums after it.

    dst = saturate(post-ops(scale_src * scale_weights * sum + bias))
    sum = sum((src - zero_src) * (weights - zero_weights))

Zero points of integers are subtracted inside the sum. A factor that needs conversion, such as weights
narrower than floats, is converted first: `scale_weights * (weights - zero_weights)`, where groups of rows
can have separate scales and zero points; likewise for a source.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ...desc.arguments import (
    ARG_ATTR_SCALES,
    ARG_ATTR_ZERO_POINTS,
    ARG_BIAS,
    ARG_SRC,
    ARG_WEIGHTS,
)
from ...desc.attr import Attr
from ...desc.attr_value import Factor
from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...ir.attribute_chain import old_element, old_tensors, operand_loads, operand_tensors, with_steps
from ...ir.computation import NOTHING, Computation, ComputationWriter
from ...ir.digits import TensorOperand
from ...ir.expression import Affine, Expr, Load, Scalar, TreeAxis, in_single
from ...ir.nest import Step, needs_double
from ...ir.tree import TreeTensor

FACTORS = (DataType.f32, DataType.bf16, DataType.f16, DataType.f64, DataType.f8_e5m2, DataType.f8_e4m3)
"""Floats that are multiplied unconverted."""


class FactorPlace(NamedTuple):
    """The position of a factor in a tree: among the scalars, or among the operands.

    `is_own`: indexed like the tensor it belongs to, and not like the destination.
    """

    scalar: int = -1
    operand: int = -1
    is_own: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class GrownFactor:
    """The conversion of a factor before multiplication: to `data_type`, with its own scales and zero points.

    `before`: the numbers of operands and scalars of the chain that precede its own.
    """

    data_type: DataType
    computed: Computation
    before: tuple[int, int]


AS_IT_IS = GrownFactor(DataType.undef, NOTHING, (0, 0))
"""The slots of a factor that is moved alone."""


@dataclass(frozen=True, slots=True, eq=False)
class ProductChain:
    """The attributes of a sum of products.

    `computed`: all of their values, and the steps on the sums. `operands`: what trees read, bias first.
    `shifts`: by argument, what is subtracted inside the sum. `grown`: by argument, the factors that are
    converted. `is_single`: sums are exact, and the steps after them are computed in f32. `of_groups`: the
    scale and the zero point of sums of groups, indexed like the weights.
    """

    computed: Computation
    operands: tuple[TreeTensor, ...]
    shifts: Mapping[int, FactorPlace]
    grown: Mapping[int, GrownFactor] = field(default_factory=dict)
    is_single: bool = False
    of_groups: tuple[FactorPlace | None, FactorPlace | None] = (None, None)

    def shifted(self, load: Load, arg: int, index: Sequence[Affine | TreeAxis | int]) -> Expr:
        """Return a factor of the product, less its zero point, at an index of the destination."""
        place = self.shifts.get(arg)
        if place is None:
            return load
        if place.operand < 0:
            return load - Scalar(place.scalar)
        return load - self.operands[place.operand].load(*(load.index if place.is_own else index))

    def result(self, total: Expr, dst: TreeTensor, index: Sequence[Affine | TreeAxis | int]) -> Expr:
        """Return the value stored at an index of the destination, given the sum there."""
        compute = self.computed.compute
        old = old_element(old_tensors(compute, dst), dst, index)
        value = with_steps(total, compute, operand_loads(self.operands, index), old)
        return in_single(value) if self.is_single and value != total else value


NO_CHAIN = ProductChain(NOTHING, (), {})
"""The chain of gradients, which have no attributes."""


def product_chain(
    tensors: tuple[MemoryDesc, MemoryDesc, MemoryDesc],
    attr: Attr,
    bias: TensorOperand | None,
    columns: int,
    *,
    is_wide: bool,
    is_integral: bool = False,
    grown: Mapping[int, DataType],
    has_groups: bool = False,
) -> ProductChain:
    """Return the chain for source, weights and result; weights have factors for columns, dim `columns`.

    `is_integral`: sums are of integers. `grown`: by argument, the types of factors that are converted first;
    those that become f32 can have scales and zero points of any mask. `has_groups`: factors of the weights
    are of groups, which are summed separately.
    """
    src, weights, dst = tensors
    columns %= dst.ndims
    own = {arg for arg, kind in grown.items() if not kind.is_integral}
    is_single = is_integral and not needs_double(dst.data_type)
    is_wide = is_wide and not is_single
    writer = ComputationWriter(dst.dims, is_wide=is_wide, sources=int(bias is not None))
    factors = {ARG_SRC: (attr.scale_of(ARG_SRC), attr.zero_point_of(ARG_SRC))}
    of_weights = attr.scale_of(ARG_WEIGHTS), attr.zero_point_of(ARG_WEIGHTS)
    factors[ARG_WEIGHTS] = _along(columns, of_weights[0]), _along(columns, of_weights[1])
    factors = {arg: both for arg, both in factors.items() if arg not in own}
    if has_groups:
        del factors[ARG_WEIGHTS]
    for arg, (scale, _) in factors.items():
        writer.factor("mul", scale, ARG_ATTR_SCALES | arg)
    if bias is not None:
        writer.combine(Step("add", operand=0), None, ARG_BIAS, dst.dims)
    writer.finish(attr)
    _, by_channel = factors.get(ARG_SRC, (None, None))
    if by_channel is not None and by_channel.mask:
        del factors[ARG_SRC]
    places = {
        arg: FactorPlace(*writer.unread(zero, ARG_ATTR_ZERO_POINTS | arg))
        for arg, (_, zero) in factors.items()
        if zero is not None
    }
    computed = writer.computation()
    operands = operand_tensors([*([bias] if bias else []), *computed.tensors], dst.dims)
    if by_channel is not None and by_channel.mask:
        of_channels = ComputationWriter(src.dims, is_wide=is_wide)
        of_channels.unread(by_channel, ARG_ATTR_ZERO_POINTS | ARG_SRC)
        zeros_of = of_channels.computation()
        (own_zeros,) = operand_tensors(zeros_of.tensors, src.dims)
        places[ARG_SRC] = FactorPlace(operand=len(operands), is_own=True)
        operands = (*operands, replace(own_zeros, name=f"x{len(operands)}"))
        computed = computed.followed_by(zeros_of)
    found: dict[int, GrownFactor] = {}
    for arg, md in ((ARG_SRC, src), (ARG_WEIGHTS, weights)):
        if arg in grown:
            made = _own_computation(attr, arg, md) if arg in own else NOTHING
            before = len(computed.operands), len(computed.scalars)
            found[arg] = GrownFactor(grown[arg], made, before)
            computed = computed.followed_by(made)
    of_groups: list[FactorPlace | None] = [None, None]
    if has_groups:
        writer, values = (
            ComputationWriter(weights.dims, is_wide=False),
            (attr.scale_of(ARG_WEIGHTS), attr.zero_point_of(ARG_WEIGHTS)),
        )
        kinds = ARG_ATTR_SCALES, ARG_ATTR_ZERO_POINTS
        for i, (factor, kind) in enumerate(zip(values, kinds, strict=True)):
            if factor is not None:
                scalar, operand = writer.unread(factor, kind | ARG_WEIGHTS)
                scalar += len(computed.scalars) if scalar >= 0 else 0
                operand += len(operands) if operand >= 0 else 0
                of_groups[i] = FactorPlace(scalar, operand)
        own_values = writer.computation()
        for tensor in operand_tensors(own_values.tensors, weights.dims):
            operands = (*operands, replace(tensor, name=f"x{len(operands)}"))
        computed = computed.followed_by(own_values)
    return ProductChain(
        computed, operands, places, found, is_single=is_single, of_groups=(of_groups[0], of_groups[1])
    )


def _own_computation(attr: Attr, arg: int, md: MemoryDesc) -> Computation:
    """Return the computation of a factor's own scales and zero points."""
    writer = ComputationWriter(md.dims, is_wide=False)
    writer.factor("sub", attr.zero_point_of(arg), ARG_ATTR_ZERO_POINTS | arg)
    writer.factor("mul", attr.scale_of(arg), ARG_ATTR_SCALES | arg)
    return writer.computation()


def _along(dim: int, factor: Factor | None) -> Factor | None:
    """Return a factor of weights as one of the destination: for each column, or for all."""
    return factor if factor is None or factor.mask == 0 else replace(factor, mask=1 << dim)
