"""A convolution, and a depthwise one of its result as a post-op: two convolutions with scratch between them.

    between = saturate(post-ops in front(conv(src, weights) + bias) / scale_dst + zero_dst)
    dst     = saturate(post-ops behind(scale_dst * dw(between - zero_dst, dw weights) + dw bias))

Attributes of the depthwise one are those of arguments with `ARG_ATTR_POST_OP_DW`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from ..desc.arguments import (
    ARG_ATTR_POST_OP_DW,
    ARG_ATTR_SCALES,
    ARG_ATTR_ZERO_POINTS,
    ARG_BIAS,
    ARG_DST,
    ARG_SRC,
    ARG_WEIGHTS,
    arg_attr_multiple_post_op,
)
from ..desc.attr import Attr
from ..desc.attr_value import structure_of
from ..desc.memory_desc import MemoryDesc
from ..desc.post_op_values import DepthwiseOp
from .computation import Computation
from .convolution_problem import ConvolutionProblem
from .program import Program
from .program_chain import chained

_POST_OP = arg_attr_multiple_post_op(0)
# Arguments of the whole, and how the depthwise convolution alone calls them: its source is the result of the
# first one.
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
    """All attributes; those of a convolution, the depthwise post-op, and the attributes of that one."""

    whole: Attr
    first: Attr
    op: DepthwiseOp
    second: Attr


def attr_parts(attr: Attr) -> AttrParts | None:
    """The parts of attributes; None where no post-op is a depthwise convolution."""
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


@dataclass(frozen=True, slots=True)
class DepthwiseFusion:
    """Two convolutions: `second` reads what `first` writes. `attr`: the attributes of both."""

    first: ConvolutionProblem
    second: ConvolutionProblem
    attr: Attr

    def structure(self) -> DepthwiseFusion:
        """The problem without the values of its attributes."""
        return DepthwiseFusion(self.first.structure(), self.second.structure(), structure_of(self.attr))

    @property
    def dst(self) -> MemoryDesc:
        """What is written."""
        return self.second.dst

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written, each element once."""
        return self.first.moved_bytes + self.second.moved_bytes

    def outputs(self) -> dict[int, MemoryDesc]:
        """Nothing is written beside the destination."""
        return {}

    def computation(self) -> Computation:
        """What attributes do, to both."""
        second = self.second.computation()
        operands = tuple(replace(each, arg=self._arg(each.arg)) for each in second.operands)
        origins = tuple((self._arg(arg), number) for arg, number in second.origins)
        return self.first.computation().followed_by(replace(second, operands=operands, origins=origins))

    def program(self) -> Program:
        """Both programs; what is between them is scratch."""
        second = self.second.program()
        slots = tuple(slot._replace(arg=self._arg(slot.arg)) for slot in second.slots)
        return chained(self.first.program(), replace(second, slots=slots), self.first.dst.size)

    def _arg(self, arg: int) -> int:
        """How an execution calls an argument of the second convolution."""
        if arg >= _POST_OP:
            return arg + (len(self.first.attr.post_ops) + 1) * _POST_OP
        return _ARGS.get(arg, arg)
