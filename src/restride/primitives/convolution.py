"""Convolution and deconvolution, forward, backward data and backward weights."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from ..desc.arguments import (
    ARG_DST,
    ARG_SRC,
    ARG_WEIGHTS,
)
from ..desc.attr import Attr
from ..desc.attr_check import check_attr_of
from ..desc.memory_desc import MemoryDesc
from ..plan.convolution_problem import ConvolutionProblem
from ..plan.depthwise_fusion import DepthwiseFusion, attr_parts
from .convolution_shapes import (
    check_narrow_sum,
    check_shapes,
    check_types,
    check_weight_scales,
    kernel_block,
    kernel_pack,
    parse_spatial,
)
from .depthwise_fusion import depthwise_tensors, fused_with_depthwise
from .forms import CallArguments, form_of
from .parse import check_written, parse_attr
from .pointwise import check_attributes, check_hint, parse_algorithm, parse_hint
from .primitive import Primitive
from .products import ProductPrimitiveDesc, chosen_tensors

__all__ = [
    "ConvolutionBackwardData",
    "ConvolutionBackwardWeights",
    "ConvolutionForward",
    "DeconvolutionBackwardData",
    "DeconvolutionBackwardWeights",
    "DeconvolutionForward",
]

_ALGORITHMS = ("direct", "auto")
_WINDOW = dict.fromkeys(("strides", "dilates", "padding_l", "padding_r"))
_GRADIENT = {**_WINDOW, "hint_pd": None, "attr": None, "allow_empty": False}
_FORWARD = "engine", "prop_kind", "algorithm", "src", "weights"
_FORWARD_OPTIONS = {"bias": None, "dst": None, **_WINDOW, "attr": None, "allow_empty": False}
_BACKWARD_DATA, _BACKWARD_DATA_OPTIONS = ("engine", "algorithm", "diff_src", "weights", "diff_dst"), _GRADIENT
_BACKWARD_WEIGHTS = "engine", "algorithm", "src", "diff_weights"
_BACKWARD_WEIGHTS_OPTIONS = {"diff_bias": None, "diff_dst": None, **_GRADIENT}


class ConvolutionPrimitiveDesc(ProductPrimitiveDesc):
    """What all directions of convolutions and deconvolutions share."""

    _is_transposed: ClassVar[bool] = False
    # True for the one that may have a depthwise convolution as a post-op.
    _takes_depthwise: ClassVar[bool] = False

    __slots__ = ("_padding_r",)
    _padding_r: tuple[int, ...]

    def _empty(self) -> None:
        super()._empty()
        self._padding_r = ()

    def get_kind(self) -> str:
        """The primitive kind: "convolution" or "deconvolution"."""
        return "deconvolution" if self._is_transposed else "convolution"

    def get_algorithm(self) -> str:
        """The algorithm: "convolution_direct", or "deconvolution_direct"."""
        self._implementation()
        return f"{self.get_kind()}_direct"

    def get_strides(self) -> tuple[int, ...]:
        """The strides of the window, one for each spatial dim."""
        return self._convolution().strides

    def get_dilations(self) -> tuple[int, ...]:
        """How many elements lie between two taps of the window: 0 is dense."""
        return tuple(step - 1 for step in self._convolution().dilations)

    def get_padding_l(self) -> tuple[int, ...]:
        """The padding in front of each spatial dim."""
        return self._convolution().padding

    def get_padding_r(self) -> tuple[int, ...]:
        """The padding behind each spatial dim."""
        self._implementation()
        return self._padding_r

    def _convolution(self) -> ConvolutionProblem:
        problem = self._implementation().problem
        problem = problem.first if isinstance(problem, DepthwiseFusion) else problem
        assert isinstance(problem, ConvolutionProblem)
        return problem

    def _problem(
        self, what: str, arguments: CallArguments
    ) -> tuple[ConvolutionProblem | DepthwiseFusion, dict[int, MemoryDesc]]:
        attr = parse_attr(what, arguments.attr)
        parts = attr_parts(attr) if self._takes_depthwise else None
        problem, named = self._plain_problem(what, arguments, attr if parts is None else parts.first)
        tensors = self._by_argument(problem.tensors, problem.bias)
        if parts is None:
            return problem, tensors
        fusion = fused_with_depthwise(what, problem, parts, is_open=named["dst"].format_kind == "any")
        del tensors[ARG_DST]
        return fusion, {**tensors, **depthwise_tensors(fusion)}

    def _plain_problem(
        self, what: str, arguments: CallArguments, attr: Attr
    ) -> tuple[ConvolutionProblem, dict[str, MemoryDesc]]:
        """The problem without a depthwise post-op, and its tensors as they were described."""
        parse_algorithm(what, arguments.algorithm, f"{self.get_kind()}_", _ALGORITHMS)
        named, bias = self._parsed_tensors(what, arguments)
        source, weights, result = named.values()
        spatial = parse_spatial(what, arguments, source.ndims)
        check_shapes(what, named, bias, spatial, is_transposed=self._is_transposed)
        check_types(what, self._direction, named, bias)
        self._padding_r = spatial.padding_r
        problem = ConvolutionProblem(
            *((source, weights, result), bias, kernel_block()),
            pack=_kernel_pack(self._direction, source, weights, result),
            direction=self._direction,
            is_transposed=self._is_transposed,
            strides=spatial.strides,
            dilations=tuple(each + 1 for each in spatial.dilates),
            padding=spatial.padding_l,
        )
        wanted = problem.preferred()
        tensors = chosen_tensors(problem.tensors, [wanted[name] for name in problem.names])
        problem = replace(problem, tensors=tensors)
        problem = replace(problem, attr=self._checked_attr(what, attr, problem))
        check_written(what, self._written, problem.dst)
        self._check_hint(what, arguments, problem)
        return problem, named

    def _checked_attr(self, what: str, attr: Attr, problem: ConvolutionProblem) -> Attr:
        if self._direction != "forward":
            return check_attributes(what, attr)
        check_attributes(what, attr, "scales", "post_ops", "zero_points")
        source, weights, result = problem.tensors
        check_weight_scales(what, attr, has_groups=weights.ndims > source.ndims)
        check_narrow_sum(what, attr, result.data_type)
        check_attr_of(what, attr, {ARG_SRC: source, ARG_WEIGHTS: weights, ARG_DST: result})
        return attr

    def _check_hint(self, what: str, arguments: CallArguments, problem: ConvolutionProblem) -> None:
        kind = DeconvolutionForwardPrimitiveDesc if self._is_transposed else ConvolutionForwardPrimitiveDesc
        hint = parse_hint(what, getattr(arguments, "hint_pd", None), kind)
        if not isinstance(hint, ConvolutionPrimitiveDesc):
            return
        other = hint._convolution()
        dims = [tuple(md.dims for md in each.tensors) for each in (other, problem)]
        check_hint(
            what,
            {
                "dims": (dims[0], dims[1]),
                "strides": (other.strides, problem.strides),
                "dilations": (other.dilations, problem.dilations),
                "padding": (other.padding, problem.padding),
            },
        )

    def _how(self) -> str:
        return f"alg:{self.get_kind()}_direct"


def _kernel_pack(direction: str, source: MemoryDesc, weights: MemoryDesc, result: MemoryDesc) -> int:
    first = result if direction == "backward_data" else source
    return kernel_pack(first.data_type, weights.data_type)


# --- directions ---------------------------------------------------------------------------------------------


class ConvolutionForwardPrimitiveDesc(ConvolutionPrimitiveDesc):
    """Primitive descriptor of a convolution (`dnnl::convolution_forward::primitive_desc`).

    `PrimitiveDesc(engine, prop_kind, algorithm, src, weights, bias, dst, strides, dilates, padding_l,
    padding_r, attr=None, allow_empty=False)`; bias and dilates may be left out by place. `src` (N, C, W),
    (N, C, H, W) or (N, C, D, H, W); `weights` (outputs, inputs, ...), with groups (groups, outputs, inputs,
    ...); `bias` (outputs). `dilates`: 0 is dense. `algorithm`: "convolution_direct" or "convolution_auto".
    Each of format "any" gets the format that is fastest here. `attr`: scales, zero points, post-ops, the
    scratchpad mode; with a depthwise post-op `dst` is what that one reads, `dst_desc()` what is written.

    Raises InvalidArguments for what does not fit, Unimplemented for what is not provided.
    """

    kind, _direction, _takes_depthwise = "ConvolutionForward", "forward", True
    form = form_of("ConvolutionForward.PrimitiveDesc", *_FORWARD, **_FORWARD_OPTIONS)
    __slots__ = ()


class ConvolutionBackwardDataPrimitiveDesc(ConvolutionPrimitiveDesc):
    """Primitive descriptor of the gradient of a source (`dnnl::convolution_backward_data::primitive_desc`).

    `PrimitiveDesc(engine, algorithm, diff_src, weights, diff_dst, strides, dilates, padding_l, padding_r,
    hint_pd=None, attr=None, allow_empty=False)`; the rest as in the forward step.
    """

    kind, _direction = "ConvolutionBackwardData", "backward_data"
    form = form_of("ConvolutionBackwardData.PrimitiveDesc", *_BACKWARD_DATA, **_BACKWARD_DATA_OPTIONS)
    __slots__ = ()


class ConvolutionBackwardWeightsPrimitiveDesc(ConvolutionPrimitiveDesc):
    """Primitive descriptor of the gradients of weights (`dnnl::convolution_backward_weights`).

    `PrimitiveDesc(engine, algorithm, src, diff_weights, diff_bias, diff_dst, strides, dilates, padding_l,
    padding_r, hint_pd=None, attr=None, allow_empty=False)`; the rest as in the forward step.
    """

    kind, _direction = "ConvolutionBackwardWeights", "backward_weights"
    form = form_of(
        "ConvolutionBackwardWeights.PrimitiveDesc", *_BACKWARD_WEIGHTS, **_BACKWARD_WEIGHTS_OPTIONS
    )
    __slots__ = ()


class DeconvolutionForwardPrimitiveDesc(ConvolutionPrimitiveDesc):
    """Primitive descriptor of a deconvolution, or transposed convolution (`dnnl::deconvolution_forward`).

    As `rs.ConvolutionForward.PrimitiveDesc`; the algorithm is "deconvolution_direct". The window slides over
    the destination: `dst = (src - 1) * stride + (kernel - 1) * (dilate + 1) + 1 - padding_l - padding_r`.
    """

    kind, _direction = "DeconvolutionForward", "forward"
    _is_transposed = True
    form = form_of("DeconvolutionForward.PrimitiveDesc", *_FORWARD, **_FORWARD_OPTIONS)
    __slots__ = ()


class DeconvolutionBackwardDataPrimitiveDesc(ConvolutionPrimitiveDesc):
    """Primitive descriptor of the gradient of a deconvolution's source.

    As `rs.ConvolutionBackwardData.PrimitiveDesc`.
    """

    kind, _direction = "DeconvolutionBackwardData", "backward_data"
    _is_transposed = True
    form = form_of("DeconvolutionBackwardData.PrimitiveDesc", *_BACKWARD_DATA, **_BACKWARD_DATA_OPTIONS)
    __slots__ = ()


class DeconvolutionBackwardWeightsPrimitiveDesc(ConvolutionPrimitiveDesc):
    """Primitive descriptor of the gradients of a deconvolution's weights.

    As `rs.ConvolutionBackwardWeights.PrimitiveDesc`.
    """

    kind, _direction = "DeconvolutionBackwardWeights", "backward_weights"
    _is_transposed = True
    form = form_of(
        "DeconvolutionBackwardWeights.PrimitiveDesc", *_BACKWARD_WEIGHTS, **_BACKWARD_WEIGHTS_OPTIONS
    )
    __slots__ = ()


class ConvolutionForward(Primitive):
    """The convolution primitive (`dnnl::convolution_forward`): `ConvolutionForward(pd)`."""

    PrimitiveDesc = ConvolutionForwardPrimitiveDesc
    kind = "ConvolutionForward"
    __slots__ = ()


class ConvolutionBackwardData(Primitive):
    """The gradient of a convolution's source (`dnnl::convolution_backward_data`)."""

    PrimitiveDesc = ConvolutionBackwardDataPrimitiveDesc
    kind = "ConvolutionBackwardData"
    __slots__ = ()


class ConvolutionBackwardWeights(Primitive):
    """The gradients of a convolution's weights and bias (`dnnl::convolution_backward_weights`)."""

    PrimitiveDesc = ConvolutionBackwardWeightsPrimitiveDesc
    kind = "ConvolutionBackwardWeights"
    __slots__ = ()


class DeconvolutionForward(Primitive):
    """The deconvolution primitive (`dnnl::deconvolution_forward`), a transposed convolution."""

    PrimitiveDesc = DeconvolutionForwardPrimitiveDesc
    kind = "DeconvolutionForward"
    __slots__ = ()


class DeconvolutionBackwardData(Primitive):
    """The gradient of a deconvolution's source (`dnnl::deconvolution_backward_data`)."""

    PrimitiveDesc = DeconvolutionBackwardDataPrimitiveDesc
    kind = "DeconvolutionBackwardData"
    __slots__ = ()


class DeconvolutionBackwardWeights(Primitive):
    """The gradients of a deconvolution's weights and bias (`dnnl::deconvolution_backward_weights`)."""

    PrimitiveDesc = DeconvolutionBackwardWeightsPrimitiveDesc
    kind = "DeconvolutionBackwardWeights"
    __slots__ = ()
