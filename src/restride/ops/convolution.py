"""Convolution and deconvolution: forward, backward data, backward weights, and a fused depthwise one.

`programs/convolution.py` has the loops, as one relation of the three tensors;
`programs/convolution_formats.py` has the formats that kernels prefer. A convolution with a fused depthwise
convolution is two convolutions with scratch between them:

    between = saturate(post-ops in front(conv(src, weights) + bias) / scale_dst + zero_dst)
    dst     = saturate(post-ops behind(scale_dst * dw(between - zero_dst, dw weights) + dw bias))

Attributes of the depthwise convolution are set on arguments with `ARG_ATTR_POST_OP_DW`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, ClassVar

from ..desc.arguments import ARG_ATTR_POST_OP_DW, ARG_DST, ARG_SRC, ARG_WEIGHTS
from ..desc.attr import Attr
from ..desc.attr_check import check_attr_of
from ..desc.attr_value import structure_of
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int, short_repr
from ..desc.post_op_values import DepthwiseOp, SumOp
from ..desc.winograd import TILES, winograd_layout, winograd_tile
from ..dtypes import DataType
from ..errors import refuse
from ..ir.computation import Computation
from ..ir.expression import Expr, Load
from ..ir.program import Program
from ..ir.tree import Each, TreeTensor
from ..model.operation import OperationProblem
from ..model.parse import check_written
from ..model.pointwise import check_attributes
from ..model.prop_kind import PropKind
from ..model.reader import ArgumentReader
from ..model.result_dims import Misfit, Shaped
from .product import (
    BACKWARD_DATA,
    ProductProblem,
    check_narrow_sum,
    check_scale_masks,
    check_zero_points,
    kernel_block,
    kernel_pack,
    make_directions,
)
from .programs.convolution import (
    ConvolutionExtents,
    Index,
    ResultOf,
    Taps,
    points_tree,
    weights_tree,
    windows_tree,
)
from .programs.convolution_formats import preferred_formats
from .programs.depthwise_fusion import AttrParts, attr_parts, whole_arg
from .programs.product_chain import ProductChain
from .programs.program_chain import chained
from .programs.windows import window_count, window_span
from .programs.winograd import WinogradProgram, fastest_tile

_WINDOW = "strides", "dilates", "padding_l", "padding_r"
_PLANE = 2
_NO_DESC = MemoryDesc()
_CHECK_WINDOW = "check the strides, dilates (0 is dense) and both paddings"
_CHECK_BETWEEN = "dst is the tensor between: the result of this convolution, before the depthwise one"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionProblem(ProductProblem):
    """The convolution primitive (`dnnl::convolution_forward`).

    Executed with `ARG_SRC`, `ARG_WEIGHTS`, `ARG_DST` and, if there is a bias, `ARG_BIAS`; a depthwise post-op
    adds `ARG_ATTR_POST_OP_DW | ARG_WEIGHTS` and `ARG_ATTR_POST_OP_DW | ARG_BIAS`.
    """

    operation = "convolution"
    primitive = "ConvolutionForward"
    call = ("prop_kind", "algorithm", "src", "weights", "bias", "dst", *_WINDOW)
    defaults = dict.fromkeys(("bias", "dst", *_WINDOW))
    algorithms = "direct", "auto", "winograd"
    # Nodes have this parameter only if it is not the direct algorithm.
    node_values: ClassVar = {"algorithm": lambda node, dst: getattr(node, "algorithm", "direct")}
    arguments = """
    Positional calls can omit bias and dilates. `src` (N, C, W), (N, C, H, W) or (N, C, D, H, W); `weights`
    (outputs, inputs, ...), with groups (groups, outputs, inputs, ...); `bias` (outputs). `dilates`: 0 is
    dense. `algorithm`: "convolution_direct", "convolution_winograd", or "convolution_auto", which picks the
    faster one for inference if weights have format "any". A tensor of format "any" gets the format that is
    fastest here. `attr`: scales, zero points, post-ops, the scratchpad mode; with a depthwise post-op, `dst`
    is the input of the depthwise convolution, and `dst_desc()` is its result."""

    is_transposed: ClassVar[bool] = False
    takes_opaque = True

    strides: tuple[int, ...]
    dilates: tuple[int, ...]
    padding_l: tuple[int, ...]
    padding_r: tuple[int, ...] = ()
    # The points of a Winograd tile along each spatial dim; 0 for the direct algorithm.
    tile: int = 0

    # --- arguments ------------------------------------------------------------------------------------------

    @classmethod
    def read(cls, call: ArgumentReader) -> ConvolutionProblem | DepthwiseFusion:
        whole = call.frozen_attr()
        parts = attr_parts(whole) if cls is ConvolutionProblem else None
        attr = whole if parts is None else parts.first
        algorithm = call.algorithm()
        tensors, bias = cls.read_tensors(call)
        window = _read_window(call, tensors[0].ndims)
        mode = Attr(fpmath=attr.fpmath)
        problem = cls(tensors=tensors, bias=bias, block=kernel_block(), attr=mode, **window)
        problem._check_shapes(call.what, _CHECK_WINDOW if parts is None else _CHECK_BETWEEN)
        problem.check_types(call.what)
        is_open = problem.dst.format_kind == "any"
        problem = replace(problem, pack=problem._best_pack)
        problem = replace(problem, tile=problem._tile_for(call, algorithm)).chosen()
        problem = problem._with_attr(call.what, check_attributes(call.what, attr, *cls.attributes))
        if forward := call.hint(OperationProblem):
            forward = forward.first if isinstance(forward, DepthwiseFusion) else forward
            assert isinstance(forward, ConvolutionProblem)
            problem.check_hint(call, forward, "strides", "dilations", "padding")
        return problem if parts is None else _fused(call.what, problem, parts, is_open=is_open)

    @property
    def algorithm(self) -> str:
        """The algorithm used, without the prefix."""
        return "winograd" if self.tile else "direct"

    @property
    def is_transformed(self) -> bool:
        return self.tile > 0

    def _tile_for(self, call: ArgumentReader, algorithm: str) -> int:
        """Return the tile size along each spatial dim; 0 for the direct algorithm. Raises Unimplemented."""
        weights = self.tensors[1]
        is_opaque = weights.format_kind == "opaque"
        if algorithm == "direct" or (algorithm == "auto" and not is_opaque and weights.format_kind != "any"):
            if is_opaque:
                raise refuse("RS-X01:opaque-weights", what=call.what, weights=weights)
            return 0
        why = self._why_direct()
        if why and (algorithm == "winograd" or is_opaque):
            raise refuse("RS-X02:no-winograd", what=call.what, where=self.shown_tensors, why=why)
        if is_opaque:
            return winograd_tile(weights.layout)[0]
        if algorithm == "auto" and call.prop_kind is not PropKind.forward_inference:
            return 0
        return self.best_tile(may_be_direct=algorithm == "auto")

    def best_tile(self, *, may_be_direct: bool) -> int:
        """Return the fastest tile size; 0 where the direct algorithm is faster, or the only one."""
        if self._why_direct():
            return 0
        return fastest_tile(self.relation, may_be_direct=may_be_direct)

    def _why_direct(self) -> str:
        """Return why Winograd's algorithm does not apply; empty if it does."""
        relation = self.relation
        taps = {dim.kernel for dim in relation.dims}
        if self.is_transposed or not self.is_forward:
            return "only forward convolutions support it"
        if relation.groups > 1:
            return "the weights have groups"
        if any((dim.stride, dim.dilation) != (1, 1) for dim in relation.dims):
            return "strides must be 1 and dilates 0"
        if len(taps) > 1 or (*taps, len(relation.dims)) not in TILES:
            return "kernels must be of 3 or 5 taps along each of one or two spatial dims"
        if any(md.data_type is not DataType.f32 for md in self.tensors):
            return "tensors must be f32"
        if any(0 in md.dims for md in self.tensors):
            return "tensors are empty"
        return ""

    @property
    def _best_pack(self) -> int:
        """Return the number of summed channels that kernels multiply at once."""
        source, weights = self.factor_types
        is_data = self.direction is BACKWARD_DATA
        return kernel_pack(self.tensors[2].data_type if is_data else source, weights)

    def _check_shapes(self, what: str, hint: str) -> None:
        refuse_dims = self.refuse_dims(what)
        source, weights, result = self.tensors
        has_groups = weights.ndims == source.ndims + 1
        if result.ndims != source.ndims or weights.ndims not in (source.ndims, source.ndims + 1):
            refuse_dims(
                f"ranks are {source.ndims}, {weights.ndims} and {result.ndims}",
                "weights have the rank of the source, plus one if there are groups",
            )
        groups = weights.dims[0] if has_groups else 1
        outputs, inputs = (n * groups for n in weights.dims[has_groups : 2 + has_groups])
        if source.dims[0] != result.dims[0]:
            refuse_dims(f"batches are {source.dims[0]} and {result.dims[0]}", "both must have the same batch")
        if (source.dims[1], result.dims[1]) != (inputs, outputs):
            refuse_dims(
                f"weights take {inputs} channels and produce {outputs}, not {source.dims[1]} and "
                f"{result.dims[1]}",
                "weights are (outputs, inputs, ...), or (groups, outputs per group, inputs per group, ...)",
            )
        if not self.bias.is_zero() and self.bias.dims != (outputs,):
            refuse_dims(
                f"the bias is {self.bias.dims}", f"pass one value for each of the {outputs} output channels"
            )
        for number, (dim, behind) in enumerate(zip(self.relation.dims, self.padding_r, strict=True)):
            reach = window_span(dim.kernel, dim.dilation - 1)
            fitting = max(window_count(dim.window, dim.padding + behind, reach, dim.stride), 0)
            if dim.kernel and dim.points != fitting:
                refuse_dims(
                    f"spatial dim {number}: {dim.window} with padding {dim.padding} and {behind}, a kernel "
                    f"that reaches over {reach} and a stride of {dim.stride} give {fitting} windows, not "
                    f"{dim.points}",
                    hint,
                )

    @classmethod
    def result_dims(cls, node: Any, *tensors: Shaped) -> tuple[int, ...]:
        source, weights, *bias = (tensor.dims for tensor in tensors)
        rank, groups = len(node.strides), node.groups
        if len(source) != rank + 2 or len(weights) != rank + 2 + (groups > 1):
            raise Misfit(f"there are {rank} spatial dims and {groups} groups")
        if not len(node.dilates) == len(node.padding_l) == len(node.padding_r) == rank:
            raise Misfit("strides, dilates and paddings have different lengths")
        if min(node.strides) < 1 or min(node.dilates) < 0:
            raise Misfit("a stride must be at least 1, a dilation at least 0")
        outputs, channels, *kernel = weights[-rank - 2 :]
        if channels * groups != source[1]:
            raise Misfit(f"weights read {channels * groups} channels, but the source has {source[1]}")
        if bias and bias[0] != (outputs * groups,):
            raise Misfit(f"the bias must have {outputs * groups} values")
        numbers = zip(*(getattr(node, name) for name in _WINDOW), strict=True)
        spatial = tuple(map(cls._result_extent, source[2:], kernel, numbers))
        if min(spatial) < 0:
            raise Misfit("the window is larger than the padded source")
        return (source[0], outputs * groups, *spatial)

    @classmethod
    def _result_extent(cls, size: int, kernel: int, numbers: tuple[int, int, int, int]) -> int:
        """Return the number of windows along a dim, or their reach; below 0 if none fits."""
        stride, dilate, before, behind = numbers
        span = window_span(kernel, dilate)
        if cls.is_transposed:
            return (size - 1) * stride + span - before - behind
        count = window_count(size, before + behind, span, stride)
        return count if count > 0 else -1

    def _with_attr(self, what: str, attr: Attr) -> ConvolutionProblem:
        """Return the problem with attributes, if they fit it and the result."""
        if self.is_forward:
            source, weights, result = self.tensors
            outputs = 0, 3 if weights.ndims > source.ndims else 1
            check_scale_masks(what, attr, {ARG_SRC: (0,), ARG_WEIGHTS: outputs, ARG_DST: (0, 2)})
            check_zero_points(what, attr, {ARG_SRC: (0, 2), ARG_WEIGHTS: outputs})
            check_narrow_sum(what, attr, result.data_type)
            check_attr_of(what, attr, self.operands())
        check_written(what, self.written_name, self.dst)
        return replace(self, attr=attr)

    @property
    def verbose_aux(self) -> str:
        return f"alg:{self.parameter('algorithm')}"

    def structure(self) -> ConvolutionProblem:
        """The problem reduced to what its kernels depend on."""
        return replace(self, attr=structure_of(self.attr), padding_r=())

    # --- loops ----------------------------------------------------------------------------------------------

    @property
    def dilations(self) -> tuple[int, ...]:
        """The distance between adjacent taps: 1 is dense."""
        return tuple(dilation + 1 for dilation in self.dilates)

    @property
    def padding(self) -> tuple[int, ...]:
        """The leading padding."""
        return self.padding_l

    @property
    def relation(self) -> ConvolutionExtents:
        """The extents, as `ops/programs/convolution.py` names them."""
        source, weights, result = self.tensors
        x, y = (result, source) if self.is_transposed else (source, result)
        has_groups = weights.ndims == source.ndims + 1
        groups = weights.dims[0] if has_groups else 1
        dims = tuple(
            Taps(*numbers)
            for numbers in zip(
                *(x.dims[2:], y.dims[2:], weights.dims[2 + has_groups :]),
                *(self.strides, self.dilations, self.padding),
                strict=True,
            )
        )
        # Channels of the result come first in weights: of y in a convolution, of x in a deconvolution.
        channels = x.dims[1] // max(groups, 1), y.dims[1] // max(groups, 1)
        return ConvolutionExtents(x.dims[0], groups, *channels, dims, has_groups, not self.is_transposed)

    @property
    def names(self) -> tuple[str, str, str]:
        """The names of source, weights and result in the relation."""
        return ("y", "w", "x") if self.is_transposed else ("x", "w", "y")

    @property
    def written(self) -> str:
        """The name of the tensor that is written."""
        return self.names[self.direction.written]

    @property
    def transformed_weights(self) -> MemoryDesc:
        """The weights after Winograd's transformation."""
        dims, ndims = self.tensors[1].dims, len(self.relation.dims)
        layout = winograd_layout(dims, ndims, self.tile, 2 * self.block)
        return MemoryDesc._make("opaque", DataType.f32, layout)

    def program(self) -> Program:
        if not self.tile:
            return ProductProblem.program(self)
        return WinogradProgram(self).program()

    def preferred(self) -> dict[str, MemoryDesc]:
        """The descriptors that kernels prefer, by their names in the relation."""
        tensors = dict(zip(self.names, self.tensors, strict=True))
        tensors = {name: tensors[name] for name in ("x", "w", "y")}
        pack = 1 if self.written == "w" else self.pack
        found = preferred_formats(self.relation, tensors, self.written, self.block, pack)
        return found if not self.tile else {**found, "w": self.transformed_weights}

    @property
    def terms(self) -> int:
        relation = self.relation
        if self.tile:
            tiles = prod(-(-dim.points // self.tile) * (self.tile + dim.kernel - 1) for dim in relation.dims)
            return relation.batch * relation.window_channels * relation.point_channels * tiles
        taps = prod(dim.kernel * dim.points for dim in relation.dims)
        channels = relation.groups * relation.window_channels * relation.point_channels
        return relation.batch * channels * taps

    def loops(self, chain: ProductChain, output: str, tensors: Mapping[str, TreeTensor]) -> tuple[Each, ...]:
        """Return the loops that write the named tensor."""
        build = {"x": windows_tree, "w": weights_tree, "y": points_tree}[output]

        def source(load: Load, index: Index) -> Expr:
            return chain.shifted(load, ARG_SRC, index)

        def weights(load: Load, index: Index) -> Expr:
            return chain.shifted(load, ARG_WEIGHTS, index)

        def result(total: Expr, index: Index) -> Expr:
            return chain.result(total, tensors[output], index)

        results = ResultOf(source, weights, result)
        return build(self.relation, tensors["x"], tensors["w"], tensors["y"], results)


def _read_window(call: ArgumentReader, ndims: int) -> dict[str, Any]:
    """Read the window for tensors of `ndims` dims. Raises InvalidArguments if it is invalid."""
    count = ndims - 2
    if not 1 <= count <= 3:
        raise refuse("RS-X01:tensors-dims", what=call.what, ndims=ndims)
    padding = _read_row(call, "padding_l", count, 0)
    strides = _read_row(call, "strides", count, 1)
    dilates = (0,) * count if call.dilates is None else _read_row(call, "dilates", count, 0)
    behind = padding if call.padding_r is None else _read_row(call, "padding_r", count, None)
    return dict(zip(_WINDOW, (strides, dilates, padding, behind), strict=True))


def _read_row(call: ArgumentReader, name: str, count: int, least: int | None) -> tuple[int, ...]:
    """Read one number per spatial dim, or one for all."""
    value = getattr(call, name)
    row = [value] * count if isinstance(value, int) else value
    if not isinstance(row, list | tuple) or len(row) != count:
        raise refuse(
            "RS-X01:spatial-dims-give", what=call.what, name=name, value=short_repr(value), count=count
        )
    numbers = tuple(parse_int(number, f"{call.what}: {name}") for number in row)
    wrong = next((number for number in numbers if least is not None and number < least), None)
    if wrong is not None:
        raise refuse(
            "RS-X01:below", what=call.what, name=name, numbers=list(numbers), wrong=wrong, least=least
        )
    return numbers


# --- a fused depthwise convolution --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DepthwiseFusion(OperationProblem):
    """Two convolutions: `second` reads the result of `first`. `attr`: the attributes of both."""

    operation = "convolution"
    parts = ("first",)

    first: ConvolutionProblem
    second: ConvolutionProblem
    attr: Attr

    def structure(self) -> DepthwiseFusion:
        return DepthwiseFusion(self.first.structure(), self.second.structure(), structure_of(self.attr))

    @property
    def dst(self) -> MemoryDesc:
        return self.second.dst

    def sources(self) -> dict[int, MemoryDesc]:
        second = self.second.sources()
        del second[ARG_SRC]
        return {**self.first.sources(), **{ARG_ATTR_POST_OP_DW | arg: md for arg, md in second.items()}}

    @property
    def verbose_aux(self) -> str:
        return self.first.verbose_aux

    @property
    def moved_bytes(self) -> int:
        return self.first.moved_bytes + self.second.moved_bytes

    def computation(self) -> Computation:
        """The computation of the attributes of both."""
        second = self.second.computation()
        operands = tuple(replace(operand, arg=self._arg(operand.arg)) for operand in second.operands)
        origins = tuple((self._arg(arg), number) for arg, number in second.origins)
        return self.first.computation().followed_by(replace(second, operands=operands, origins=origins))

    def program(self) -> Program:
        """Both programs, with scratch between them."""
        second = self.second.program()
        slots = tuple(slot._replace(arg=self._arg(slot.arg)) for slot in second.slots)
        return chained(self.first.program(), replace(second, slots=slots), self.first.dst.size)

    def _arg(self, arg: int) -> int:
        """Map an argument of the second convolution to its argument number in an execution."""
        return whole_arg(arg, len(self.first.attr.post_ops))


def _fused(what: str, first: ConvolutionProblem, parts: AttrParts, *, is_open: bool) -> DepthwiseFusion:
    """Return a convolution with a fused depthwise one. `is_open`: its result may have any format.

    Raises Unimplemented unless there are two spatial dims, and for a sum before the depthwise post-op.
    """
    masks = {ARG_DST: (0,), ARG_ATTR_POST_OP_DW | ARG_WEIGHTS: (0, 3), ARG_ATTR_POST_OP_DW | ARG_DST: (0, 2)}
    check_scale_masks(what, parts.whole, masks)
    if any(isinstance(post_op, SumOp) for post_op in parts.first.post_ops):
        raise refuse("RS-P06:sum-before-depthwise", what=what, dst=first.dst)
    source, weights, between = first.tensors
    if between.tag is None or between.offset0:
        # Scratch is dense from its first byte on, never a part of other memory.
        first = replace(first, tensors=(source, weights, first.preferred()["y"]))
        between = first.dst
    if between.ndims != 2 + _PLANE:
        raise refuse("RS-P06:depthwise-post-op", what=what, ndims=between.ndims - 2, between=between)
    second = _depthwise(between, parts.op, first.block, is_open=is_open)
    second.check_types(what)
    return DepthwiseFusion(first, second._with_attr(what, parts.second), parts.whole)


def _depthwise(between: MemoryDesc, op: DepthwiseOp, block: int, *, is_open: bool) -> ConvolutionProblem:
    """Return the depthwise convolution; weights, and an open result, get the format that is fastest."""
    batch, channels, *sizes = between.dims
    dims = (batch, channels, *(-(-size // op.stride) for size in sizes))
    weights = MemoryDesc((channels, 1, 1, *[op.kernel] * _PLANE), op.weights_type, "any")
    dst = MemoryDesc(dims, op.dst_type, "any" if is_open else between.tag or "any")
    return ConvolutionProblem(
        tensors=(between, weights, dst),
        bias=_NO_DESC if op.bias_type.name == "undef" else MemoryDesc((channels,), op.bias_type, "a"),
        block=block,
        pack=kernel_pack(between.data_type, op.weights_type),
        strides=(op.stride,) * _PLANE,
        dilates=(0,) * _PLANE,
        padding_l=(op.padding,) * _PLANE,
    ).chosen()


# --- deconvolution ------------------------------------------------------------------------------------------


class DeconvolutionProblem(ConvolutionProblem):
    """The deconvolution primitive (`dnnl::deconvolution_forward`), a transposed convolution.

    Executed with `ARG_SRC`, `ARG_WEIGHTS`, `ARG_DST` and, if there is a bias, `ARG_BIAS`.
    """

    operation = "deconvolution"
    primitive = "DeconvolutionForward"
    is_transposed = True
    arguments = """
    As in `ConvolutionForward.PrimitiveDesc`; the algorithm is "deconvolution_direct". The window slides over
    the destination: `dst = (src - 1) * stride + (kernel - 1) * (dilate + 1) + 1 - padding_l - padding_r`."""

    __slots__ = ()


ConvolutionForward, ConvolutionBackwardData, ConvolutionBackwardWeights = make_directions(ConvolutionProblem)
DeconvolutionForward, DeconvolutionBackwardData, DeconvolutionBackwardWeights = make_directions(
    DeconvolutionProblem
)
