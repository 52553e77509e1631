"""The attributes of a convolution with a depthwise post-op, and of each of the two convolutions.

Attributes of the depthwise convolution are set on arguments with `ARG_ATTR_POST_OP_DW`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from ...desc.arguments import (
    ARG_ATTR_POST_OP_DW,
    ARG_ATTR_SCALES,
    ARG_ATTR_ZERO_POINTS,
    ARG_BIAS,
    ARG_DST,
    ARG_SRC,
    ARG_WEIGHTS,
    arg_attr_multiple_post_op,
)
from ...desc.attr import Attr
from ...desc.post_op_values import DepthwiseOp

_POST_OP = arg_attr_multiple_post_op(0)
# Arguments of the whole, and what they are to the depthwise convolution alone: its source is the first
# convolution's result.
_FACTORS_OF = {
    ARG_DST: ARG_SRC,
    ARG_ATTR_POST_OP_DW | ARG_WEIGHTS: ARG_WEIGHTS,
    ARG_ATTR_POST_OP_DW | ARG_DST: ARG_DST,
}
_ARGS = {
    ARG_WEIGHTS: ARG_ATTR_POST_OP_DW | ARG_WEIGHTS,
    ARG_BIAS: ARG_ATTR_POST_OP_DW | ARG_BIAS,
    **{
        flag | own: flag | arg
        for flag in (ARG_ATTR_SCALES, ARG_ATTR_ZERO_POINTS)
        for arg, own in _FACTORS_OF.items()
    },
}


class AttrParts(NamedTuple):
    """All attributes; the convolution's, the depthwise post-op, and the depthwise convolution's."""

    whole: Attr
    first: Attr
    op: DepthwiseOp
    second: Attr


def attr_parts(attr: Attr) -> AttrParts | None:
    """Split the attributes; None if no post-op is a depthwise convolution."""
    place = next((i for i, op in enumerate(attr.post_ops) if isinstance(op, DepthwiseOp)), None)
    if place is None:
        return None
    op = attr.post_ops[place]
    assert isinstance(op, DepthwiseOp)
    own = tuple(arg for arg in _FACTORS_OF if arg & ARG_ATTR_POST_OP_DW)
    scales, zeros = (
        tuple(sorted((_FACTORS_OF[arg], factor) for arg, factor in factors if arg in _FACTORS_OF))
        for factors in (attr.scales, attr.zero_points)
    )
    first = replace(attr.without_factors_of(*own), post_ops=attr.post_ops[:place])
    second = replace(attr, post_ops=attr.post_ops[place + 1 :], scales=scales, zero_points=zeros)
    return AttrParts(attr, first, op, second)


def whole_arg(arg: int, count: int) -> int:
    """Return the execution argument for one of a depthwise convolution after `count` post-ops."""
    if arg >= _POST_OP:
        return arg + (count + 1) * _POST_OP
    return _ARGS.get(arg, arg)
