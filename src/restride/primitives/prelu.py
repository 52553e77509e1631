"""PReLU: negative elements times weights, forward and backward."""

from __future__ import annotations

from ..desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC, ARG_DST, ARG_SRC, ARG_WEIGHTS
from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments
from ..plan.prelu_problem import PReLUBackwardProblem, PReLUProblem
from .any_format import resolved, resolved_operand
from .forms import CallArguments, form_of
from .parse import check_written, parse_attr
from .pointwise import (
    OneStepPrimitive,
    OneStepPrimitiveDesc,
    check_attributes,
    check_hint,
    check_known,
    check_open,
    check_same_dims,
    parse_hint,
)
from .primitive import Primitive
from .prop_kind import PropKind

__all__ = ["PReLUBackward", "PReLUForward"]


class PReLUForwardPrimitiveDesc(OneStepPrimitiveDesc):
    """Primitive descriptor of a PReLU (`dnnl::prelu_forward::primitive_desc`).

    `PrimitiveDesc(engine, prop_kind, src, weights, dst, attr=None, allow_empty=False)`; without arguments it
    is empty and False. `weights`: each dim is that of the source, or 1, which is repeated; of format "any"
    they follow the source, and so does `dst`. `attr`: the scratchpad mode. With `allow_empty`, a failure
    gives an empty descriptor.

    Raises InvalidArguments for what does not fit, Unimplemented for what is not provided.
    """

    kind = "PReLUForward"
    form = form_of(
        "PReLUForward.PrimitiveDesc",
        "engine",
        "prop_kind",
        "src",
        "weights",
        "dst",
        attr=None,
        allow_empty=False,
    )

    __slots__ = ()

    def _problem(self, what: str, arguments: CallArguments) -> tuple[PReLUProblem, dict[int, MemoryDesc]]:
        src = check_known(what, "src", arguments.src)
        weights = _checked_weights(what, "weights", arguments.weights, src)
        dst = resolved(check_open(what, "dst", arguments.dst), src)
        check_same_dims(what, [("src", src), ("dst", dst)])
        check_written(what, "dst", dst)
        attr = check_attributes(what, parse_attr(what, arguments.attr))
        return PReLUProblem(src, weights, dst, attr), {ARG_SRC: src, ARG_WEIGHTS: weights, ARG_DST: dst}


class PReLUBackwardPrimitiveDesc(OneStepPrimitiveDesc):
    """Primitive descriptor of the gradients of a PReLU (`dnnl::prelu_backward::primitive_desc`).

    `PrimitiveDesc(engine, src, weights, diff_src, diff_weights, diff_dst, attr=None, hint_pd=None,
    allow_empty=False)`; without arguments it is empty and False. Gradients of format "any" have that of what
    they are gradients of. `hint_pd`: the forward descriptor, of the same problem, or None.

    Raises InvalidArguments (a TypeError too, for a hint of another kind) and Unimplemented.
    """

    kind = "PReLUBackward"
    form = form_of(
        "PReLUBackward.PrimitiveDesc",
        *("engine", "src", "weights", "diff_src", "diff_weights", "diff_dst"),
        attr=None,
        hint_pd=None,
        allow_empty=False,
    )

    __slots__ = ()

    def _parsed_kind(self, arguments: CallArguments) -> PropKind:
        return PropKind.backward

    def _problem(
        self, what: str, arguments: CallArguments
    ) -> tuple[PReLUBackwardProblem, dict[int, MemoryDesc]]:
        src = check_known(what, "src", arguments.src)
        weights = _checked_weights(what, "weights", arguments.weights, src)
        hint = parse_hint(what, arguments.hint_pd, PReLUForwardPrimitiveDesc)
        if hint is not None:
            theirs = hint.src_desc().dims, hint.weights_desc().dims
            check_hint(what, {"dims": (theirs, (src.dims, weights.dims))})
        diff_src = resolved(check_open(what, "diff_src", arguments.diff_src), src)
        diff_dst = resolved(check_open(what, "diff_dst", arguments.diff_dst), src)
        diff_weights = resolved(check_open(what, "diff_weights", arguments.diff_weights), weights)
        check_same_dims(what, [("src", src), ("diff_src", diff_src), ("diff_dst", diff_dst)])
        check_same_dims(what, [("weights", weights), ("diff_weights", diff_weights)])
        check_written(what, "diff_src", diff_src)
        check_written(what, "diff_weights", diff_weights)
        attr = check_attributes(what, parse_attr(what, arguments.attr))
        problem = PReLUBackwardProblem(src, weights, diff_src, diff_weights, diff_dst, attr)
        tensors = {ARG_SRC: src, ARG_WEIGHTS: weights, ARG_DIFF_DST: diff_dst, ARG_DIFF_SRC: diff_src}
        return problem, tensors


def _checked_weights(what: str, name: str, md: object, src: MemoryDesc) -> MemoryDesc:
    """The descriptor of weights that fit the source."""
    found = check_open(what, name, md)
    fits = found.ndims == src.ndims and all(n in (1, of) for n, of in zip(found.dims, src.dims, strict=True))
    if not fits:
        raise InvalidArguments(
            f"{what}: weights do not fit",
            code="RS-R10",
            where=f"src {src}; {name} {found}",
            why=f"the source is {src.dims}, the weights are {found.dims}",
            hint="each dim of the weights is that of the source, or 1, which is repeated",
        )
    return resolved_operand(found, src)


class PReLUForward(OneStepPrimitive):
    """Slopes below zero (`dnnl::prelu_forward`): `dst = src > 0 ? src : src * weights`.

    `PReLUForward(pd)`; without arguments it is empty, and executing it is an error. Executed with `ARG_SRC`,
    `ARG_WEIGHTS` and `ARG_DST`, which may be the source where both are alike.
    """

    PrimitiveDesc = PReLUForwardPrimitiveDesc
    kind = "PReLUForward"

    __slots__ = ()


class PReLUBackward(Primitive):
    """The gradients of source and weights (`dnnl::prelu_backward`).

    `PReLUBackward(pd)`; without arguments it is empty. Executed with `ARG_SRC`, `ARG_WEIGHTS`,
    `ARG_DIFF_DST`, `ARG_DIFF_SRC` and `ARG_DIFF_WEIGHTS`, no two of them one memory.
    """

    PrimitiveDesc = PReLUBackwardPrimitiveDesc
    kind = "PReLUBackward"

    __slots__ = ()
