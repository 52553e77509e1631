"""Convolution and deconvolution, forward, backward data and backward weights (X1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from ..desc.arguments import (
    ARG_BIAS,
    ARG_DIFF_DST,
    ARG_DIFF_SRC,
    ARG_DIFF_WEIGHTS,
    ARG_DST,
    ARG_SRC,
    ARG_WEIGHTS,
)
from ..desc.attr import Attr
from ..desc.attr_check import check_attr_of
from ..desc.memory_desc import MemoryDesc
from ..plan.convolution_problem import ConvolutionProblem
from .convolution_arguments import (
    ConvolutionArguments,
    ConvolutionDataArguments,
    ConvolutionForwardArguments,
    ConvolutionWeightsArguments,
    completed,
    shown,
)
from .convolution_shapes import check_shapes, check_types, check_weight_scales, kernel_block, parse_spatial
from .forms import Form
from .parse import parse_attr
from .pointwise import (
    OneStepPrimitiveDesc,
    check_attributes,
    check_hint,
    check_open,
    check_written,
    hint_moved,
    parse_algorithm,
    parse_forward_kind,
    parse_hint,
)
from .primitive import Primitive
from .prop_kind import PropKind

__all__ = [
    "ConvolutionBackwardData",
    "ConvolutionBackwardWeights",
    "ConvolutionForward",
    "DeconvolutionBackwardData",
    "DeconvolutionBackwardWeights",
    "DeconvolutionForward",
]

_ALGORITHMS = ("direct", "auto")
_NO_DESC = MemoryDesc()
_WRITTEN = {"forward": "dst", "backward_data": "diff_src", "backward_weights": "diff_weights"}


class ConvolutionPrimitiveDesc(OneStepPrimitiveDesc):
    """What all directions of convolutions and deconvolutions share."""

    _direction: ClassVar[str]
    _is_transposed: ClassVar[bool]
    _made: ClassVar[type[ConvolutionArguments]]

    __slots__ = ("_padding_r",)
    _padding_r: tuple[int, ...]

    def _empty(self) -> None:
        super()._empty()
        self._padding_r = ()

    def _arguments(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        args, named = completed(self._made, *hint_moved(args, named, len(args)))
        return self.form.of(args, named)

    def _copied(self) -> tuple[Any, ...]:
        made = self._made_of._replace(attr=self.get_primitive_attr())
        return tuple(made if made.hint_pd is None else made._replace(hint_pd=None))

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
        assert isinstance(problem, ConvolutionProblem)
        return problem

    def _parsed_kind(self, arguments: ConvolutionArguments) -> PropKind:
        if self._direction == "forward":
            return parse_forward_kind(self.form.what, arguments.prop_kind)
        return PropKind[self._direction]

    def _problem(
        self, what: str, arguments: ConvolutionArguments
    ) -> tuple[ConvolutionProblem, dict[int, MemoryDesc]]:
        self._parsed_kind(arguments)
        parse_algorithm(what, arguments.algorithm, f"{self.get_kind()}_", _ALGORITHMS)
        named = {name: check_open(what, name, md) for name, md in arguments.tensors.items()}
        bias = _NO_DESC if arguments.bias is None else check_open(what, "bias", arguments.bias)
        spatial = parse_spatial(what, arguments, next(iter(named.values())).ndims)
        check_shapes(what, named, bias, spatial, is_transposed=self._is_transposed)
        check_types(what, self._direction, named, bias)
        self._padding_r = spatial.padding_r
        source, weights, result = named.values()
        problem = _resolved(
            ConvolutionProblem(
                self._direction,
                self._is_transposed,
                (source, weights, result),
                MemoryDesc(bias.dims, bias.data_type) if bias.format_kind == "any" else bias,
                spatial.strides,
                tuple(each + 1 for each in spatial.dilates),
                spatial.padding_l,
                kernel_block(),
            )
        )
        problem = replace(problem, attr=self._checked_attr(what, arguments, problem))
        check_written(what, _WRITTEN[self._direction], problem.dst)
        self._check_hint(what, arguments, problem)
        return problem, self._by_argument(problem)

    def _checked_attr(self, what: str, arguments: ConvolutionArguments, problem: ConvolutionProblem) -> Attr:
        attr = parse_attr(what, arguments.attr)
        if self._direction != "forward":
            return check_attributes(what, attr)
        check_attributes(what, attr, "scales", "post_ops", "zero_points")
        source, weights, result = problem.tensors
        check_weight_scales(what, attr, has_groups=weights.ndims > source.ndims)
        check_attr_of(what, attr, {ARG_SRC: source, ARG_WEIGHTS: weights, ARG_DST: result})
        return attr

    def _check_hint(self, what: str, arguments: ConvolutionArguments, problem: ConvolutionProblem) -> None:
        kind = DeconvolutionForwardPrimitiveDesc if self._is_transposed else ConvolutionForwardPrimitiveDesc
        hint = parse_hint(what, arguments.hint_pd, kind)
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

    def _by_argument(self, problem: ConvolutionProblem) -> dict[int, MemoryDesc]:
        source, weights, result = problem.tensors
        if self._direction == "forward":
            bias = {} if problem.bias.is_zero() else {ARG_BIAS: problem.bias}
            return {ARG_SRC: source, ARG_WEIGHTS: weights, **bias, ARG_DST: result}
        if self._direction == "backward_data":
            return {ARG_WEIGHTS: weights, ARG_DIFF_DST: result, ARG_DIFF_SRC: source}
        return {ARG_SRC: source, ARG_DIFF_DST: result, ARG_DIFF_WEIGHTS: weights}

    def _how(self) -> str:
        return f"alg:{self.get_kind()}_direct"


def _resolved(problem: ConvolutionProblem) -> ConvolutionProblem:
    """The problem, in which every "any" has become the format that kernels want."""
    wanted = problem.preferred()
    source, weights, result = (
        wanted[name] if md.format_kind == "any" else md
        for name, md in zip(problem.names, problem.tensors, strict=True)
    )
    return replace(problem, tensors=(source, weights, result))


# --- directions ---------------------------------------------------------------------------------------------


class ConvolutionForwardPrimitiveDesc(ConvolutionPrimitiveDesc):
    """Primitive descriptor of a convolution (`dnnl::convolution_forward::primitive_desc`).

    `PrimitiveDesc(engine, prop_kind, algorithm, src, weights, bias, dst, strides, dilates, padding_l,
    padding_r, attr=None, allow_empty=False)`; bias and dilates may be left out by place. `src` (N, C, W),
    (N, C, H, W) or (N, C, D, H, W); `weights` (outputs, inputs, ...), with groups (groups, outputs, inputs,
    ...); `bias` (outputs). `dilates`: 0 is dense. `algorithm`: "convolution_direct" or "convolution_auto".
    Each of format "any" gets the format that is fastest here. `attr`: scales, post-ops, zero points of the
    result, the scratchpad mode.

    Raises InvalidArguments for what does not fit, Unimplemented for what is not provided.
    """

    kind, _direction, _is_transposed, _made = (
        "ConvolutionForward",
        "forward",
        False,
        ConvolutionForwardArguments,
    )
    form = Form(
        "ConvolutionForward.PrimitiveDesc", shown(ConvolutionForwardArguments), ConvolutionForwardArguments
    )
    __signature__ = form.shown
    __slots__ = ()


class ConvolutionBackwardDataPrimitiveDesc(ConvolutionPrimitiveDesc):
    """Primitive descriptor of the gradient of a source (`dnnl::convolution_backward_data::primitive_desc`).

    `PrimitiveDesc(engine, algorithm, diff_src, weights, diff_dst, strides, dilates, padding_l, padding_r,
    hint_pd=None, attr=None, allow_empty=False)`; the rest as in the forward step.
    """

    kind, _direction, _is_transposed, _made = (
        "ConvolutionBackwardData",
        "backward_data",
        False,
        ConvolutionDataArguments,
    )
    form = Form(
        "ConvolutionBackwardData.PrimitiveDesc", shown(ConvolutionDataArguments), ConvolutionDataArguments
    )
    __signature__ = form.shown
    __slots__ = ()


class ConvolutionBackwardWeightsPrimitiveDesc(ConvolutionPrimitiveDesc):
    """Primitive descriptor of the gradients of weights (`dnnl::convolution_backward_weights`).

    `PrimitiveDesc(engine, algorithm, src, diff_weights, diff_bias, diff_dst, strides, dilates, padding_l,
    padding_r, hint_pd=None, attr=None, allow_empty=False)`; the rest as in the forward step.
    """

    kind, _direction, _is_transposed, _made = (
        "ConvolutionBackwardWeights",
        "backward_weights",
        False,
        ConvolutionWeightsArguments,
    )
    form = Form(
        "ConvolutionBackwardWeights.PrimitiveDesc",
        shown(ConvolutionWeightsArguments),
        ConvolutionWeightsArguments,
    )
    __signature__ = form.shown
    __slots__ = ()


class DeconvolutionForwardPrimitiveDesc(ConvolutionPrimitiveDesc):
    """Primitive descriptor of a deconvolution, or transposed convolution (`dnnl::deconvolution_forward`).

    As `rs.ConvolutionForward.PrimitiveDesc`; the algorithm is "deconvolution_direct". The window slides over
    the destination: `dst = (src - 1) * stride + (kernel - 1) * (dilate + 1) + 1 - padding_l - padding_r`.
    """

    kind, _direction, _is_transposed, _made = (
        "DeconvolutionForward",
        "forward",
        True,
        ConvolutionForwardArguments,
    )
    form = Form(
        "DeconvolutionForward.PrimitiveDesc", shown(ConvolutionForwardArguments), ConvolutionForwardArguments
    )
    __signature__ = form.shown
    __slots__ = ()


class DeconvolutionBackwardDataPrimitiveDesc(ConvolutionPrimitiveDesc):
    """Primitive descriptor of the gradient of a deconvolution's source.

    As `rs.ConvolutionBackwardData.PrimitiveDesc`.
    """

    kind, _direction, _is_transposed, _made = (
        "DeconvolutionBackwardData",
        "backward_data",
        True,
        ConvolutionDataArguments,
    )
    form = Form(
        "DeconvolutionBackwardData.PrimitiveDesc", shown(ConvolutionDataArguments), ConvolutionDataArguments
    )
    __signature__ = form.shown
    __slots__ = ()


class DeconvolutionBackwardWeightsPrimitiveDesc(ConvolutionPrimitiveDesc):
    """Primitive descriptor of the gradients of a deconvolution's weights.

    As `rs.ConvolutionBackwardWeights.PrimitiveDesc`.
    """

    kind, _direction, _is_transposed, _made = (
        "DeconvolutionBackwardWeights",
        "backward_weights",
        True,
        ConvolutionWeightsArguments,
    )
    form = Form(
        "DeconvolutionBackwardWeights.PrimitiveDesc",
        shown(ConvolutionWeightsArguments),
        ConvolutionWeightsArguments,
    )
    __signature__ = form.shown
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
