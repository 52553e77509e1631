"""LRN: local response normalization, across channels or within them, forward and backward."""

from __future__ import annotations

from ..desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC, ARG_DST, ARG_SRC
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int, short_repr, to_f32
from ..errors import InvalidArguments
from ..plan.lrn_problem import ALGORITHMS, LrnBackwardProblem, LrnParameters, LrnProblem
from .forms import CallArguments, form_of
from .parse import parse_attr
from .pointwise import (
    OneStepPrimitiveDesc,
    check_attributes,
    check_hint,
    check_known,
    forward_descs,
    gradient_descs,
    parse_algorithm,
    parse_hint,
)
from .primitive import Primitive

__all__ = ["LRNBackward", "LRNForward"]

_NUMBERS = ("local_size", "alpha", "beta", "k")
_NONE = LrnParameters("", 0, 0.0, 0.0, 0.0)


class LRNPrimitiveDesc(OneStepPrimitiveDesc):
    """What both directions share."""

    __slots__ = ("_parameters",)
    _parameters: LrnParameters

    def _empty(self) -> None:
        super()._empty()
        self._parameters = _NONE

    def get_algorithm(self) -> str:
        """The algorithm as oneDNN calls it: `lrn_across_channels`."""
        self._implementation()
        return f"lrn_{self._parameters.alg}"

    def get_local_size(self) -> int:
        """How many positions a window has along a dim."""
        self._implementation()
        return self._parameters.local_size

    def get_alpha(self) -> float:
        """The weight of the squares, as rounded to f32."""
        self._implementation()
        return self._parameters.alpha

    def get_beta(self) -> float:
        """The power, as rounded to f32."""
        self._implementation()
        return self._parameters.beta

    def get_k(self) -> float:
        """What the squares are added to, as rounded to f32."""
        self._implementation()
        return self._parameters.k

    def _how(self) -> str:
        found = self._parameters
        numbers = f"alpha:{found.alpha:g} beta:{found.beta:g} k:{found.k:g}"
        return f"alg:{found.alg} ls:{found.local_size} {numbers}"


class LRNForwardPrimitiveDesc(LRNPrimitiveDesc):
    """Primitive descriptor of a normalization (`dnnl::lrn_forward::primitive_desc`).

    `PrimitiveDesc(engine, prop_kind, algorithm, src, dst, local_size, alpha, beta, k=1.0, attr=None,
    allow_empty=False)`; without arguments it is empty and False. `algorithm`: "lrn_across_channels" or
    "lrn_within_channel". `local_size`: a whole number of 1 or more; of an even one, one less is looked at.
    `dst`: of format "any" it has that of the source. `attr`: the scratchpad mode. With `allow_empty`, a
    failure gives an empty descriptor.

    Raises InvalidArguments for what does not fit, Unimplemented for what is not provided.
    """

    kind = "LRNForward"
    form = form_of(
        "LRNForward.PrimitiveDesc",
        *("engine", "prop_kind", "algorithm", "src", "dst", "local_size", "alpha", "beta"),
        k=1.0,
        attr=None,
        allow_empty=False,
    )

    __slots__ = ()

    def _problem(self, what: str, arguments: CallArguments) -> tuple[LrnProblem, dict[int, MemoryDesc]]:
        self._parameters = _parse_parameters(what, arguments)
        src, dst = forward_descs(what, arguments)
        _check_channels(what, src)
        attr = check_attributes(what, parse_attr(what, arguments.attr))
        return LrnProblem(self._parameters, src, dst, attr), {ARG_SRC: src, ARG_DST: dst}


class LRNBackwardPrimitiveDesc(LRNPrimitiveDesc):
    """Primitive descriptor of the gradient of a normalization (`dnnl::lrn_backward::primitive_desc`).

    `PrimitiveDesc(engine, algorithm, diff_src, diff_dst, src, local_size, alpha, beta, k=1.0, attr=None,
    hint_pd=None, allow_empty=False)`; without arguments it is empty and False. Gradients of format "any" have
    that of the source. `hint_pd`: the forward descriptor, of the same problem, or None. There is no
    workspace: backward computes again what it needs.

    Raises InvalidArguments (a TypeError too, for a hint of another kind) and Unimplemented.
    """

    kind = "LRNBackward"
    form = form_of(
        "LRNBackward.PrimitiveDesc",
        *("engine", "algorithm", "diff_src", "diff_dst", "src", "local_size", "alpha", "beta"),
        k=1.0,
        attr=None,
        hint_pd=None,
        allow_empty=False,
    )

    __slots__ = ()

    def _problem(
        self, what: str, arguments: CallArguments
    ) -> tuple[LrnBackwardProblem, dict[int, MemoryDesc]]:
        parameters = self._parameters = _parse_parameters(what, arguments)
        src = check_known(what, "src", arguments.src)
        _check_channels(what, src)
        hint = parse_hint(what, arguments.hint_pd, LRNForwardPrimitiveDesc)
        if isinstance(hint, LRNForwardPrimitiveDesc):
            pairs = {"parameters": (hint._parameters, parameters), "dims": (hint._src.dims, src.dims)}
            check_hint(what, pairs)
        diff_src, diff_dst = gradient_descs(what, arguments, "src", src)
        attr = check_attributes(what, parse_attr(what, arguments.attr))
        problem = LrnBackwardProblem(parameters, src, diff_src, diff_dst, attr)
        return problem, {ARG_SRC: src, ARG_DIFF_DST: diff_dst, ARG_DIFF_SRC: diff_src}


def _check_channels(what: str, src: MemoryDesc) -> None:
    """Raise InvalidArguments for a source that has none."""
    if src.ndims >= 2:
        return
    raise InvalidArguments(
        f"{what}: src has no channels",
        code="RS-R10",
        where=str(src),
        why="dim 1 is that of the channels",
        hint="put a dim of 1 in front, with md.reshape",
    )


def _parse_parameters(what: str, arguments: CallArguments) -> LrnParameters:
    """The algorithm with its numbers."""
    alg = parse_algorithm(what, arguments.algorithm, "lrn_", ALGORITHMS)
    size = parse_int(arguments.local_size, f"{what}: local_size")
    if not 1 <= size < 2**31:
        raise InvalidArguments(
            f"{what}: local_size is {short_repr(size)}",
            code="RS-V02",
            why="a window has one position or more",
            hint="5 is usual",
        )
    alpha, beta, k = (to_f32(getattr(arguments, name), f"{what}: {name}") for name in _NUMBERS[1:])
    return LrnParameters(alg, size, alpha, beta, k)


class LRNForward(Primitive):
    """Elements divided by the sizes of their neighbours (`dnnl::lrn_forward`).

    `LRNForward(pd)`; without arguments it is empty, and executing it is an error. Executed with `ARG_SRC` and
    `ARG_DST`.
    """

    PrimitiveDesc = LRNForwardPrimitiveDesc
    kind = "LRNForward"

    __slots__ = ()


class LRNBackward(Primitive):
    """The gradient of the source of a normalization (`dnnl::lrn_backward`).

    `LRNBackward(pd)`; without arguments it is empty. Executed with `ARG_SRC`, `ARG_DIFF_DST` and
    `ARG_DIFF_SRC`.
    """

    PrimitiveDesc = LRNBackwardPrimitiveDesc
    kind = "LRNBackward"

    __slots__ = ()
