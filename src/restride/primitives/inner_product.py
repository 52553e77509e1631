"""Inner product, forward, backward data and backward weights (X1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

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
from ..errors import InvalidArguments
from ..plan.inner_product_problem import NAMES, InnerProductProblem
from .convolution_shapes import check_no_zero_points, check_scale_mask, check_types, kernel_block
from .forms import Form, signature
from .parse import parse_attr
from .pointwise import (
    OneStepPrimitiveDesc,
    check_attributes,
    check_hint,
    check_open,
    check_written,
    hint_moved,
    parse_forward_kind,
    parse_hint,
)
from .primitive import Primitive
from .prop_kind import PropKind

__all__ = ["InnerProductBackwardData", "InnerProductBackwardWeights", "InnerProductForward"]

_NO_DESC = MemoryDesc()
_WRITTEN = {"forward": "dst", "backward_data": "diff_src", "backward_weights": "diff_weights"}


class _ProductForwardArguments(NamedTuple):
    """The arguments of a forward primitive descriptor."""

    engine: Any
    prop_kind: Any
    src: Any
    weights: Any
    bias: Any = None
    dst: Any = None
    attr: Any = None
    allow_empty: bool = False


class _ProductDataArguments(NamedTuple):
    """The arguments of a primitive descriptor that writes the gradient of the source."""

    engine: Any
    diff_src: Any
    weights: Any
    diff_dst: Any
    hint_pd: Any = None
    attr: Any = None
    allow_empty: bool = False


class _ProductWeightsArguments(NamedTuple):
    """The arguments of a primitive descriptor that writes the gradients of weights and bias."""

    engine: Any
    src: Any
    diff_weights: Any
    diff_bias: Any = None
    diff_dst: Any = None
    hint_pd: Any = None
    attr: Any = None
    allow_empty: bool = False


class InnerProductPrimitiveDesc(OneStepPrimitiveDesc):
    """What all directions share."""

    _direction: ClassVar[str]

    __slots__ = ()

    def _arguments(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        args, named = hint_moved(args, named, len(args))
        bias = {"forward": 4, "backward_data": len(args), "backward_weights": 3}[self._direction]
        if len(args) > bias and not {"dst", "diff_dst", "bias", "diff_bias"} & set(named):
            has_target = len(args) > bias + 1 and isinstance(args[bias + 1], MemoryDesc)
            args = args if has_target else (*args[:bias], None, *args[bias:])
        return self.form.of(args, named)

    def _copied(self) -> tuple[Any, ...]:
        made = self._made_of._replace(attr=self.get_primitive_attr())
        return tuple(made if self._direction == "forward" else made._replace(hint_pd=None))

    def get_kind(self) -> str:
        """The primitive kind: "inner_product"."""
        return "inner_product"

    def _parsed_kind(self, arguments: Any) -> PropKind:
        if self._direction == "forward":
            return parse_forward_kind(self.form.what, arguments.prop_kind)
        return PropKind[self._direction]

    def _problem(self, what: str, arguments: Any) -> tuple[InnerProductProblem, dict[int, MemoryDesc]]:
        self._parsed_kind(arguments)
        names = {
            "forward": ("src", "weights", "dst"),
            "backward_data": ("diff_src", "weights", "diff_dst"),
            "backward_weights": ("src", "diff_weights", "diff_dst"),
        }[self._direction]
        named = {name: check_open(what, name, getattr(arguments, name)) for name in names}
        given = getattr(arguments, "bias", None) or getattr(arguments, "diff_bias", None)
        bias = _NO_DESC if given is None else check_open(what, "bias", given)
        _check_shapes(what, named, bias)
        check_types(what, self._direction, named, bias)
        source, weights, result = named.values()
        plain = MemoryDesc(bias.dims, bias.data_type) if bias.format_kind == "any" else bias
        problem = InnerProductProblem(self._direction, (source, weights, result), plain, kernel_block())
        wanted = problem.preferred()
        source, weights, result = (
            wanted[name] if md.format_kind == "any" else md
            for name, md in zip(NAMES, problem.tensors, strict=True)
        )
        problem = replace(problem, tensors=(source, weights, result))
        problem = replace(problem, attr=self._checked_attr(what, arguments, problem))
        check_written(what, _WRITTEN[self._direction], problem.dst)
        self._check_hint(what, arguments, problem)
        return problem, self._by_argument(problem)

    def _checked_attr(self, what: str, arguments: Any, problem: InnerProductProblem) -> Attr:
        attr = parse_attr(what, arguments.attr)
        if self._direction != "forward":
            return check_attributes(what, attr)
        check_attributes(what, attr, "scales", "post_ops", "zero_points")
        check_no_zero_points(what, attr)
        source, weights, result = problem.tensors
        check_attr_of(what, attr, {ARG_SRC: source, ARG_WEIGHTS: weights, ARG_DST: result})
        for arg, masks in ((ARG_SRC, (0,)), (ARG_WEIGHTS, (0, 1)), (ARG_DST, (0, 2))):
            check_scale_mask(what, attr, arg, masks)
        return attr

    def _check_hint(self, what: str, arguments: Any, problem: InnerProductProblem) -> None:
        if self._direction == "forward":
            return
        hint = parse_hint(what, arguments.hint_pd, InnerProductForwardPrimitiveDesc)
        if hint is None:
            return
        other = hint._implementation().problem
        assert isinstance(other, InnerProductProblem)
        dims = [tuple(md.dims for md in each.tensors) for each in (other, problem)]
        check_hint(what, {"dims": (dims[0], dims[1])})

    def _by_argument(self, problem: InnerProductProblem) -> dict[int, MemoryDesc]:
        source, weights, result = problem.tensors
        if self._direction == "forward":
            bias = {} if problem.bias.is_zero() else {ARG_BIAS: problem.bias}
            return {ARG_SRC: source, ARG_WEIGHTS: weights, **bias, ARG_DST: result}
        if self._direction == "backward_data":
            return {ARG_WEIGHTS: weights, ARG_DIFF_DST: result, ARG_DIFF_SRC: source}
        return {ARG_SRC: source, ARG_DIFF_DST: result, ARG_DIFF_WEIGHTS: weights}


def _check_shapes(what: str, named: dict[str, MemoryDesc], bias: MemoryDesc) -> None:
    source, weights, result = named.values()

    def refuse(why: str, hint: str) -> None:
        where = "; ".join(f"{name} {md}" for name, md in named.items())
        raise InvalidArguments(f"{what}: dims do not fit", code="RS-X01", where=where, why=why, hint=hint)

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
    points of the result, the scratchpad mode.

    Raises InvalidArguments for what does not fit, Unimplemented for what is not provided.
    """

    kind, _direction = "InnerProductForward", "forward"
    form = Form(
        "InnerProductForward.PrimitiveDesc",
        signature(
            *("engine", "prop_kind", "src", "weights"), bias=None, dst=None, attr=None, allow_empty=False
        ),
        _ProductForwardArguments,
    )
    __signature__ = form.shown
    __slots__ = ()


class InnerProductBackwardDataPrimitiveDesc(InnerProductPrimitiveDesc):
    """Primitive descriptor of the gradient of a source (`dnnl::inner_product_backward_data`).

    `PrimitiveDesc(engine, diff_src, weights, diff_dst, hint_pd=None, attr=None, allow_empty=False)`.
    """

    kind, _direction = "InnerProductBackwardData", "backward_data"
    form = Form(
        "InnerProductBackwardData.PrimitiveDesc",
        signature(*("engine", "diff_src", "weights", "diff_dst"), hint_pd=None, attr=None, allow_empty=False),
        _ProductDataArguments,
    )
    __signature__ = form.shown
    __slots__ = ()


class InnerProductBackwardWeightsPrimitiveDesc(InnerProductPrimitiveDesc):
    """Primitive descriptor of the gradients of weights and bias (`dnnl::inner_product_backward_weights`).

    `PrimitiveDesc(engine, src, diff_weights, diff_bias, diff_dst, hint_pd=None, attr=None,
    allow_empty=False)`; the bias may be left out by place.
    """

    kind, _direction = "InnerProductBackwardWeights", "backward_weights"
    form = Form(
        "InnerProductBackwardWeights.PrimitiveDesc",
        signature(
            *("engine", "src", "diff_weights"),
            diff_bias=None,
            diff_dst=None,
            hint_pd=None,
            attr=None,
            allow_empty=False,
        ),
        _ProductWeightsArguments,
    )
    __signature__ = form.shown
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
