"""Eltwise: a function of every element, forward and backward."""

from __future__ import annotations

from ..desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC, ARG_DST, ARG_SRC
from ..desc.attr_check import check_attr_of
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import to_f32
from ..desc.post_op_values import ELTWISE, ELTWISE_OF_DST, EltwiseOp, check_eltwise
from ..errors import Unimplemented
from ..plan.eltwise_problem import EltwiseBackwardProblem, EltwiseProblem, has_gradient
from .forms import CallArguments, form_of
from .parse import parse_attr
from .pointwise import (
    OneStepPrimitive,
    OneStepPrimitiveDesc,
    check_attributes,
    check_hint,
    check_known,
    forward_descs,
    gradient_descs,
    parse_algorithm,
    parse_hint,
)

__all__ = ["EltwiseBackward", "EltwiseForward"]

# nan_to_zero is no function of oneDNN's.
_ALGORITHMS = (*(alg for alg in ELTWISE if alg != "nan_to_zero"), *ELTWISE_OF_DST)


class EltwisePrimitiveDesc(OneStepPrimitiveDesc):
    """What both directions share."""

    __slots__ = ("_function",)
    _function: EltwiseOp

    def _empty(self) -> None:
        super()._empty()
        self._function = EltwiseOp("", 0.0, 0.0, 1.0)

    def get_algorithm(self) -> str:
        """The algorithm as oneDNN calls it: `eltwise_relu`, `eltwise_tanh_use_dst_for_bwd`."""
        self._implementation()
        return f"eltwise_{self._function.alg}"

    def get_alpha(self) -> float:
        """The first number of the algorithm, as rounded to f32."""
        self._implementation()
        return self._function.alpha

    def get_beta(self) -> float:
        """The second number of the algorithm, as rounded to f32."""
        self._implementation()
        return self._function.beta

    def _how(self) -> str:
        function = self._function
        return f"alg:{function.alg} alpha:{function.alpha:g} beta:{function.beta:g}"


class EltwiseForwardPrimitiveDesc(EltwisePrimitiveDesc):
    """Primitive descriptor of a function of every element (`dnnl::eltwise_forward::primitive_desc`).

    `PrimitiveDesc(engine, prop_kind, algorithm, src, dst, alpha=0.0, beta=0.0, attr=None,
    allow_empty=False)`; without arguments it is empty and False. `algorithm`: a name of oneDNN,
    "eltwise_relu" or "relu"; those with `_use_dst_for_bwd` compute the same. `dst`: of format "any" it has
    that of the source. `attr`: post-ops and the scratchpad mode. With `allow_empty`, a failure gives an empty
    descriptor.

    Raises InvalidArguments for what makes no sense, Unimplemented for what is not provided.
    """

    kind = "EltwiseForward"
    form = form_of(
        "EltwiseForward.PrimitiveDesc",
        *("engine", "prop_kind", "algorithm", "src", "dst"),
        alpha=0.0,
        beta=0.0,
        attr=None,
        allow_empty=False,
    )

    __slots__ = ()

    def _problem(self, what: str, arguments: CallArguments) -> tuple[EltwiseProblem, dict[int, MemoryDesc]]:
        self._function = _parse_function(what, arguments)
        src, dst = forward_descs(what, arguments)
        attr = check_attributes(what, parse_attr(what, arguments.attr), "post_ops")
        check_attr_of(what, attr, {ARG_DST: dst})
        return EltwiseProblem(self._function, src, dst, attr), {ARG_SRC: src, ARG_DST: dst}


class EltwiseBackwardPrimitiveDesc(EltwisePrimitiveDesc):
    """Primitive descriptor of the gradient of a source (`dnnl::eltwise_backward::primitive_desc`).

    `PrimitiveDesc(engine, algorithm, diff_src, diff_dst, data, alpha=0.0, beta=0.0, attr=None, hint_pd=None,
    allow_empty=False)`; without arguments it is empty and False. `data`: the source, or, of an algorithm with
    `_use_dst_for_bwd`, the result. Gradients of format "any" have that of the data. `hint_pd`: the forward
    descriptor, of the same problem, or None.

    Raises InvalidArguments (a TypeError too, for a hint of another kind) and Unimplemented.
    """

    kind = "EltwiseBackward"
    form = form_of(
        "EltwiseBackward.PrimitiveDesc",
        *("engine", "algorithm", "diff_src", "diff_dst", "data"),
        alpha=0.0,
        beta=0.0,
        attr=None,
        hint_pd=None,
        allow_empty=False,
    )

    __slots__ = ()

    def _problem(
        self, what: str, arguments: CallArguments
    ) -> tuple[EltwiseBackwardProblem, dict[int, MemoryDesc]]:
        function = self._function = _parse_function(what, arguments)
        if not has_gradient(function):
            raise Unimplemented(
                f"{what}: eltwise_{function.alg} has no backward step",
                code="RS-V04",
                why="its derivative is 0 almost everywhere",
                hint="leave the gradient out",
            )
        data = check_known(what, "data", arguments.data)
        hint = parse_hint(what, arguments.hint_pd, EltwiseForwardPrimitiveDesc)
        if isinstance(hint, EltwiseForwardPrimitiveDesc):
            check_hint(what, {"algorithm": (hint._function, function), "dims": (hint._src.dims, data.dims)})
        diff_src, diff_dst = gradient_descs(what, arguments, "data", data)
        attr = check_attributes(what, parse_attr(what, arguments.attr))
        problem = EltwiseBackwardProblem(function, data, diff_src, diff_dst, attr)
        tensors = {problem.data_arg: data, ARG_DIFF_DST: diff_dst, ARG_DIFF_SRC: diff_src}
        return problem, tensors


def _parse_function(what: str, arguments: CallArguments) -> EltwiseOp:
    """The algorithm with its numbers."""
    alg = parse_algorithm(what, arguments.algorithm, "eltwise_", _ALGORITHMS)
    alpha, beta = to_f32(arguments.alpha, f"{what}: alpha"), to_f32(arguments.beta, f"{what}: beta")
    function = EltwiseOp(alg, alpha, beta, 1.0)
    check_eltwise(function, what)
    return function


class EltwiseForward(OneStepPrimitive):
    """A function of every element (`dnnl::eltwise_forward`): `dst = f(src)`.

    `EltwiseForward(pd)`; without arguments it is empty, and executing it is an error. Executed with `ARG_SRC`
    and `ARG_DST`, which may be one memory where both are alike.
    """

    PrimitiveDesc = EltwiseForwardPrimitiveDesc
    kind = "EltwiseForward"

    __slots__ = ()


class EltwiseBackward(OneStepPrimitive):
    """The gradient of the source of a function (`dnnl::eltwise_backward`): `diff_src = diff_dst * f'(src)`.

    `EltwiseBackward(pd)`; without arguments it is empty. Executed with `ARG_SRC`, or `ARG_DST` where the
    algorithm goes back from the result, `ARG_DIFF_DST` and `ARG_DIFF_SRC`; the gradients may be one memory.
    """

    PrimitiveDesc = EltwiseBackwardPrimitiveDesc
    kind = "EltwiseBackward"

    __slots__ = ()
