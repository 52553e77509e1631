"""The structure of attributes: all that a kernel depends on. Values are not: they are read at each run."""

from __future__ import annotations

from dataclasses import replace

from .attr import Attr
from .factor import Factor, common_scale, common_zero_point
from .post_ops import BinaryOp, EltwiseOp, PostOp, SumOp

# Stand-ins that change something, as neutral values are left out of a computation.
_SCALE, _ZERO_POINT = common_scale(0.5).values, common_zero_point(1).values


def structure_of(attr: Attr) -> Attr:
    """The attributes with stand-ins for their values: equal for all that one kernel computes.

    Masks, types, groups, how many values there are, algorithms and operands stay; of a sum also whether it
    reads the destination, and whether it shifts it.
    """
    if attr.is_default:
        return attr
    return Attr(
        _factor(attr.output_scales),
        tuple((arg, _known(factor)) for arg, factor in attr.scales),
        tuple((arg, _known(factor)) for arg, factor in attr.zero_points),
        tuple(map(_post_op, attr.post_ops)),
        attr.scratchpad,
        attr.compensation,
    )


def _factor(factor: Factor | None) -> Factor | None:
    return None if factor is None else _known(factor)


def _known(factor: Factor) -> Factor:
    if factor.values is None:
        return factor
    if factor.mask:
        return replace(factor, values=bytes(len(factor.values)))
    return replace(factor, values=_ZERO_POINT if factor.data_type.is_integral else _SCALE)


def _post_op(op: PostOp) -> PostOp:
    if isinstance(op, BinaryOp):
        return op
    if isinstance(op, EltwiseOp):
        return EltwiseOp(op.alg, 0.0, 0.0, 1.0)
    return SumOp(0.5 if op.scale else 0.0, int(op.zero_point != 0), op.data_type)
