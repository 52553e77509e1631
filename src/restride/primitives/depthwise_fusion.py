"""The depthwise post-op of a convolution: its problem, checked."""

from __future__ import annotations

from dataclasses import replace

from ..desc.arguments import ARG_ATTR_POST_OP_DW, ARG_BIAS, ARG_DST, ARG_SRC, ARG_WEIGHTS
from ..desc.attr_check import check_attr_of
from ..desc.memory_desc import MemoryDesc
from ..desc.post_op_values import DepthwiseOp, SumOp
from ..errors import Unimplemented
from ..plan.convolution_problem import ConvolutionProblem
from ..plan.depthwise_fusion import AttrParts, DepthwiseFusion
from .convolution_shapes import check_narrow_sum, check_types, check_weight_scales, kernel_pack
from .parse import check_written

_SPATIAL = 2
_NO_DESC = MemoryDesc()


def fused_with_depthwise(
    what: str, first: ConvolutionProblem, parts: AttrParts, *, is_open: bool
) -> DepthwiseFusion:
    """A convolution and the depthwise one behind it. `is_open`: its result may have any format.

    Raises Unimplemented for a convolution of other than two spatial dims, and for a sum in front of it.
    """
    attr, op = parts.second, parts.op
    if any(isinstance(each, SumOp) for each in parts.first.post_ops):
        raise Unimplemented(
            f"{what}: a sum in front of a depthwise post-op",
            code="RS-P06",
            where=f"dst {first.dst}",
            why="it adds to what is between the two convolutions, and nothing was there before",
            hint="append the sum behind it: it adds to the destination",
        )
    first = _into_scratch(first)
    between = first.dst
    if between.ndims != 2 + _SPATIAL:
        raise Unimplemented(
            f"{what}: a depthwise post-op in {between.ndims - 2} spatial dims",
            code="RS-P06",
            where=f"dst {between}",
            why="it has a height and a width",
            hint="execute a ConvolutionForward with groups after it",
        )
    second = _depthwise(between, op, first.block, is_open=is_open)
    tensors = dict(zip(("src", "weights", "dst"), second.tensors, strict=True))
    check_types(what, "forward", tensors, second.bias)
    check_weight_scales(what, attr, has_groups=True)
    check_narrow_sum(what, attr, second.dst.data_type)
    check_attr_of(what, attr, dict(zip((ARG_SRC, ARG_WEIGHTS, ARG_DST), second.tensors, strict=True)))
    check_written(what, "dst", second.dst)
    return DepthwiseFusion(first, replace(second, attr=attr), parts.whole)


def _into_scratch(first: ConvolutionProblem) -> ConvolutionProblem:
    """The convolution with a result that is dense from its first byte on: a part of other memory is none."""
    source, weights, result = first.tensors
    if result.tag is not None and not result.offset0:
        return first
    return replace(first, tensors=(source, weights, first.preferred()["y"]))


def depthwise_tensors(fusion: DepthwiseFusion) -> dict[int, MemoryDesc]:
    """What an execution brings for the depthwise convolution, by argument; the result last."""
    second = fusion.second
    bias = {} if second.bias.is_zero() else {ARG_ATTR_POST_OP_DW | ARG_BIAS: second.bias}
    return {ARG_ATTR_POST_OP_DW | ARG_WEIGHTS: second.tensors[1], **bias, ARG_DST: second.dst}


def _depthwise(between: MemoryDesc, op: DepthwiseOp, block: int, *, is_open: bool) -> ConvolutionProblem:
    """The depthwise convolution; weights of the format that is fastest, as is the result where it is open."""
    batch, channels, *sizes = between.dims
    dims = (batch, channels, *(-(-size // op.stride) for size in sizes))
    weights = MemoryDesc((channels, 1, 1, *[op.kernel] * _SPATIAL), op.weights_type, "any")
    dst = MemoryDesc(dims, op.dst_type, between.tag or "any")
    made = ConvolutionProblem(
        (between, weights, dst),
        _NO_DESC if op.bias_type.name == "undef" else MemoryDesc((channels,), op.bias_type, "a"),
        block,
        pack=kernel_pack(between.data_type, op.weights_type),
        is_transposed=False,
        strides=(op.stride,) * _SPATIAL,
        dilations=(1,) * _SPATIAL,
        padding=(op.padding,) * _SPATIAL,
    )
    wanted = made.preferred()
    result = wanted["y"] if is_open or dst.format_kind == "any" else dst
    return replace(made, tensors=(between, wanted["w"], result))
