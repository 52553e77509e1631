"""Inner product, forward, backward data and backward weights."""

from __future__ import annotations

from dataclasses import replace

from ..desc.arguments import (
    ARG_DST,
    ARG_SRC,
    ARG_WEIGHTS,
)
from ..desc.attr import Attr
from ..desc.attr_check import check_attr_of
from ..desc.memory_desc import MemoryDesc
from ..plan.inner_product_problem import InnerProductProblem
from ..plan.product_problem import NAMES
from .convolution_shapes import (
    check_narrow_sum,
    check_scale_mask,
    check_types,
    check_zero_points,
    kernel_block,
    kernel_pack,
)
from .forms import CallArguments, form_of
from .parse import check_written, parse_attr
from .pointwise import check_attributes, check_hint, parse_hint
from .primitive import Primitive
from .products import ProductPrimitiveDesc, chosen_tensors, refuse_dims

__all__ = ["InnerProductBackwardData", "InnerProductBackwardWeights", "InnerProductForward"]


class InnerProductPrimitiveDesc(ProductPrimitiveDesc):
    """What all directions share."""

    __slots__ = ()

    def get_kind(self) -> str:
        """The primitive kind: "inner_product"."""
        return "inner_product"

    def _problem(
        self, what: str, arguments: CallArguments
    ) -> tuple[InnerProductProblem, dict[int, MemoryDesc]]:
        named, bias = self._parsed_tensors(what, arguments)
        _check_shapes(what, named, bias)
        check_types(what, self._direction, named, bias)
        source, weights, result = named.values()
        pack = kernel_pack(source.data_type, weights.data_type) if self._direction == "forward" else 1
        problem = InnerProductProblem(
            (source, weights, result), bias, kernel_block(), pack=pack, direction=self._direction
        )
        wanted = problem.preferred()
        tensors = chosen_tensors(problem.tensors, [wanted[name] for name in NAMES])
        problem = replace(problem, tensors=tensors)
        problem = replace(problem, attr=self._checked_attr(what, arguments, problem))
        check_written(what, self._written, problem.dst)
        self._check_hint(what, arguments, problem)
        return problem, self._by_argument(problem.tensors, problem.bias)

    def _checked_attr(self, what: str, arguments: CallArguments, problem: InnerProductProblem) -> Attr:
        attr = parse_attr(what, arguments.attr)
        if self._direction != "forward":
            return check_attributes(what, attr)
        check_attributes(what, attr, "scales", "post_ops", "zero_points")
        check_zero_points(what, attr, {ARG_SRC: (0,), ARG_WEIGHTS: (0, 1)})
        source, weights, result = problem.tensors
        check_narrow_sum(what, attr, result.data_type)
        check_attr_of(what, attr, {ARG_SRC: source, ARG_WEIGHTS: weights, ARG_DST: result})
        for arg, masks in ((ARG_SRC, (0,)), (ARG_WEIGHTS, (0, 1)), (ARG_DST, (0, 2))):
            check_scale_mask(what, attr, arg, masks)
        return attr

    def _check_hint(self, what: str, arguments: CallArguments, problem: InnerProductProblem) -> None:
        hint = parse_hint(what, getattr(arguments, "hint_pd", None), InnerProductForwardPrimitiveDesc)
        if hint is None:
            return
        other = hint._implementation().problem
        assert isinstance(other, InnerProductProblem)
        dims = [tuple(md.dims for md in each.tensors) for each in (other, problem)]
        check_hint(what, {"dims": (dims[0], dims[1])})


def _check_shapes(what: str, named: dict[str, MemoryDesc], bias: MemoryDesc) -> None:
    refuse = refuse_dims(what, named)
    source, weights, result = named.values()
    if source.ndims < 2 or weights.ndims != source.ndims or result.ndims != 2:
        refuse(
            f"ranks are {source.ndims}, {weights.ndims} and {result.ndims}",
            "a source is (N, C, ...), weights are (outputs, C, ...), the result is (N, outputs)",
        )
    if source.dims[1:] != weights.dims[1:]:
        refuse(f"a source of {source.dims}, weights of {weights.dims}", "all dims but the first are equal")
    if result.dims != (source.dims[0], weights.dims[0]):
        refuse(f"the result is {result.dims}", f"it is {(source.dims[0], weights.dims[0])} for these tensors")
    if not bias.is_zero() and bias.dims != (weights.dims[0],):
        refuse(f"the bias is {bias.dims}", f"give one value for each of the {weights.dims[0]} outputs")


class InnerProductForwardPrimitiveDesc(InnerProductPrimitiveDesc):
    """Primitive descriptor of an inner product (`dnnl::inner_product_forward::primitive_desc`).

    `PrimitiveDesc(engine, prop_kind, src, weights, bias, dst, attr=None, allow_empty=False)`; the bias may be
    left out by place. `src` (N, C) or (N, C, ...), `weights` (outputs, C, ...), `bias` (outputs), `dst`
    (N, outputs). Each of format "any" gets the format that is fastest here. `attr`: scales, post-ops, zero
    points of source and result, the scratchpad mode.

    Raises InvalidArguments for what does not fit, Unimplemented for what is not provided.
    """

    kind, _direction = "InnerProductForward", "forward"
    form = form_of(
        "InnerProductForward.PrimitiveDesc",
        *("engine", "prop_kind", "src", "weights"),
        bias=None,
        dst=None,
        attr=None,
        allow_empty=False,
    )
    __slots__ = ()


class InnerProductBackwardDataPrimitiveDesc(InnerProductPrimitiveDesc):
    """Primitive descriptor of the gradient of a source (`dnnl::inner_product_backward_data`).

    `PrimitiveDesc(engine, diff_src, weights, diff_dst, hint_pd=None, attr=None, allow_empty=False)`.
    """

    kind, _direction = "InnerProductBackwardData", "backward_data"
    form = form_of(
        "InnerProductBackwardData.PrimitiveDesc",
        *("engine", "diff_src", "weights", "diff_dst"),
        hint_pd=None,
        attr=None,
        allow_empty=False,
    )
    __slots__ = ()


class InnerProductBackwardWeightsPrimitiveDesc(InnerProductPrimitiveDesc):
    """Primitive descriptor of the gradients of weights and bias (`dnnl::inner_product_backward_weights`).

    `PrimitiveDesc(engine, src, diff_weights, diff_bias, diff_dst, hint_pd=None, attr=None,
    allow_empty=False)`; the bias may be left out by place.
    """

    kind, _direction = "InnerProductBackwardWeights", "backward_weights"
    form = form_of(
        "InnerProductBackwardWeights.PrimitiveDesc",
        *("engine", "src", "diff_weights"),
        diff_bias=None,
        diff_dst=None,
        hint_pd=None,
        attr=None,
        allow_empty=False,
    )
    __slots__ = ()


class InnerProductForward(Primitive):
    """The inner product (`dnnl::inner_product_forward`): `InnerProductForward(pd)`."""

    PrimitiveDesc = InnerProductForwardPrimitiveDesc
    kind = "InnerProductForward"
    __slots__ = ()


class InnerProductBackwardData(Primitive):
    """The gradient of an inner product's source (`dnnl::inner_product_backward_data`)."""

    PrimitiveDesc = InnerProductBackwardDataPrimitiveDesc
    kind = "InnerProductBackwardData"
    __slots__ = ()


class InnerProductBackwardWeights(Primitive):
    """The gradients of an inner product's weights and bias (`dnnl::inner_product_backward_weights`)."""

    PrimitiveDesc = InnerProductBackwardWeightsPrimitiveDesc
    kind = "InnerProductBackwardWeights"
    __slots__ = ()
