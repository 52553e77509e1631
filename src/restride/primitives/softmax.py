"""Softmax along an axis, and its logarithm, forward and backward."""

from __future__ import annotations

from collections.abc import Mapping

from ..desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC, ARG_DST, ARG_SRC
from ..desc.attr_check import check_attr_of
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int
from ..errors import InvalidArguments
from ..plan.softmax_problem import SoftmaxBackwardProblem, SoftmaxProblem
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
from .query import Query

__all__ = ["SoftmaxBackward", "SoftmaxForward"]

_ALGORITHMS = ("accurate", "log")


class SoftmaxPrimitiveDesc(OneStepPrimitiveDesc):
    """What both directions share."""

    __slots__ = ("_algorithm", "_axis")
    _algorithm: str
    _axis: int

    def _empty(self) -> None:
        super()._empty()
        self._algorithm, self._axis = "", 0

    def get_algorithm(self) -> str:
        """The algorithm as oneDNN calls it: `softmax_accurate` or `softmax_log`."""
        self._implementation()
        return f"softmax_{self._algorithm}"

    def get_axis(self) -> int:
        """The axis along which the results add up to 1."""
        self._implementation()
        return self._axis

    def _integers(self) -> dict[Query, int]:
        return super()._integers() | ({Query.axis_s32: self._axis} if self else {})

    def _how(self) -> str:
        return f"alg:softmax_{self._algorithm} axis:{self._axis}"

    def _parse(self, what: str, arguments: CallArguments, md: MemoryDesc) -> bool:
        """Algorithm and axis of the arguments for a tensor; True where the logarithm is computed."""
        self._algorithm = parse_algorithm(what, arguments.algorithm, "softmax_", _ALGORITHMS)
        self._axis = parse_axis(what, arguments.axis, md)
        return self._algorithm == "log"


class SoftmaxForwardPrimitiveDesc(SoftmaxPrimitiveDesc):
    """Primitive descriptor of a softmax (`dnnl::softmax_forward::primitive_desc`).

    `PrimitiveDesc(engine, prop_kind, algorithm, src, dst, axis, attr=None, allow_empty=False)`; without
    arguments it is empty and False. `algorithm`: "softmax_accurate" or "softmax_log", with the prefix or
    without. `axis`: from 0 to the last. `dst`: of format "any" it has that of the source. `attr`: scales,
    which follow the softmax, post-ops and the scratchpad mode. With `allow_empty`, a failure gives an empty
    descriptor.

    Raises InvalidArguments for what makes no sense, Unimplemented for what is not provided.
    """

    kind = "SoftmaxForward"
    form = form_of(
        "SoftmaxForward.PrimitiveDesc",
        *("engine", "prop_kind", "algorithm", "src", "dst", "axis"),
        attr=None,
        allow_empty=False,
    )

    __slots__ = ()

    def _problem(self, what: str, arguments: CallArguments) -> tuple[SoftmaxProblem, dict[int, MemoryDesc]]:
        src, dst = forward_descs(what, arguments)
        is_log = self._parse(what, arguments, src)
        attr = check_attributes(what, parse_attr(what, arguments.attr), "scales", "post_ops")
        check_attr_of(what, attr, {ARG_SRC: src, ARG_DST: dst})
        return SoftmaxProblem(is_log, src, dst, self._axis, attr), {ARG_SRC: src, ARG_DST: dst}


class SoftmaxBackwardPrimitiveDesc(SoftmaxPrimitiveDesc):
    """Primitive descriptor of the gradient of a softmax's source (`dnnl::softmax_backward::primitive_desc`).

    `PrimitiveDesc(engine, algorithm, diff_src, diff_dst, dst, axis, attr=None, hint_pd=None,
    allow_empty=False)`, or with the hint before the attributes, as C++ has it; without arguments it is empty
    and False. `dst` is the result of the forward step. Gradients of format "any" have that of `dst`.
    `hint_pd`: the forward descriptor, of the same problem, or None.

    Raises InvalidArguments (a TypeError too, for a hint of another kind) and Unimplemented.
    """

    kind = "SoftmaxBackward"
    form = form_of(
        "SoftmaxBackward.PrimitiveDesc",
        *("engine", "algorithm", "diff_src", "diff_dst", "dst", "axis"),
        attr=None,
        hint_pd=None,
        allow_empty=False,
    )

    __slots__ = ()

    def _problem(
        self, what: str, arguments: CallArguments
    ) -> tuple[SoftmaxBackwardProblem, dict[int, MemoryDesc]]:
        result = check_known(what, "dst", arguments.dst)
        is_log = self._parse(what, arguments, result)
        hint = parse_hint(what, arguments.hint_pd, SoftmaxForwardPrimitiveDesc)
        if isinstance(hint, SoftmaxForwardPrimitiveDesc):
            pairs: Mapping[str, tuple[object, object]] = {
                "algorithm": (hint._algorithm, self._algorithm),
                "axis": (hint._axis, self._axis),
                "dims": (hint._dst.dims, result.dims),
            }
            check_hint(what, pairs)
        diff_src, diff_dst = gradient_descs(what, arguments, "dst", result)
        attr = check_attributes(what, parse_attr(what, arguments.attr))
        problem = SoftmaxBackwardProblem(is_log, result, diff_src, diff_dst, self._axis, attr)
        return problem, {ARG_DST: result, ARG_DIFF_DST: diff_dst, ARG_DIFF_SRC: diff_src}


def parse_axis(what: str, axis: object, md: MemoryDesc) -> int:
    """The axis, if the tensor has it. Raises InvalidArguments."""
    number = parse_int(axis, f"{what}: axis")
    if 0 <= number < md.ndims:
        return number
    raise InvalidArguments(
        f"{what}: axis is {number}",
        code="RS-S05",
        where=str(md),
        why=f"the tensor has axes 0 to {md.ndims - 1}",
        hint="count from 0, outermost first",
    )


class SoftmaxForward(OneStepPrimitive):
    """The softmax primitive (`dnnl::softmax_forward`): `dst = e**(src - m) / s`, s the sum along an axis.

    `SoftmaxForward(pd)`; without arguments it is empty, and executing it is an error. m is the largest of the
    source along the axis. With `softmax_log`, the logarithm of that. Executed with `ARG_SRC` and `ARG_DST`,
    which may be one memory where both are alike.
    """

    PrimitiveDesc = SoftmaxForwardPrimitiveDesc
    kind = "SoftmaxForward"

    __slots__ = ()


class SoftmaxBackward(OneStepPrimitive):
    """The gradient of the source of a softmax (`dnnl::softmax_backward`).

    `SoftmaxBackward(pd)`; without arguments it is empty. Executed with `ARG_DST`, the result of the forward
    step, `ARG_DIFF_DST` and `ARG_DIFF_SRC`; the gradients may be one memory.
    """

    PrimitiveDesc = SoftmaxBackwardPrimitiveDesc
    kind = "SoftmaxBackward"

    __slots__ = ()
