"""Resampling: spatial dims of another size, by the nearest element or linearly, forward and backward."""

from __future__ import annotations

from ..desc.arguments import ARG_DIFF_DST, ARG_DIFF_SRC, ARG_DST, ARG_SRC
from ..desc.attr_check import check_attr_of
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import short_repr, to_f32
from ..errors import InvalidArguments
from ..plan.resampling_problem import ResamplingBackwardProblem, ResamplingProblem
from ..plan.resampling_terms import ALGORITHMS
from .any_format import resolved
from .forms import Args, CallArguments, NamedArgs, form_of
from .parse import check_written, parse_attr
from .pointwise import (
    OneStepPrimitiveDesc,
    check_attributes,
    check_hint,
    check_known,
    check_open,
    parse_algorithm,
    parse_hint,
)
from .primitive import Primitive

__all__ = ["ResamplingBackward", "ResamplingForward"]


class ResamplingPrimitiveDesc(OneStepPrimitiveDesc):
    """What both directions share."""

    __slots__ = ("_alg",)
    _alg: str

    def _empty(self) -> None:
        super()._empty()
        self._alg = ""

    def get_algorithm(self) -> str:
        """The algorithm as oneDNN calls it: `resampling_nearest`."""
        self._implementation()
        return f"resampling_{self._alg}"

    def _how(self) -> str:
        return f"alg:{self._alg}"


class ResamplingForwardPrimitiveDesc(ResamplingPrimitiveDesc):
    """Primitive descriptor of a resampling (`dnnl::resampling_forward::primitive_desc`).

    `PrimitiveDesc(engine, prop_kind, algorithm, src, dst=None, factors=None, attr=None, allow_empty=False)`,
    or with the factors in front of the source, as oneDNN has them; without arguments it is empty and False.
    `algorithm`: "resampling_nearest" or "resampling_linear". Tensors have a batch, channels and 1 to 3
    spatial dims. `dst`: of format "any" it has that of the source; left out, its sizes are those of the
    source times the `factors`, rounded down. `attr`: post-ops and the scratchpad mode. With `allow_empty`, a
    failure gives an empty descriptor.

    Raises InvalidArguments for what does not fit, Unimplemented for what is not provided.
    """

    kind = "ResamplingForward"
    form = form_of(
        "ResamplingForward.PrimitiveDesc",
        *("engine", "prop_kind", "algorithm", "src"),
        dst=None,
        factors=None,
        attr=None,
        allow_empty=False,
    )

    __slots__ = ()

    def _placed(self, args: Args, named: NamedArgs) -> tuple[Args, NamedArgs]:
        if len(args) > 3 and not isinstance(args[3], MemoryDesc) and "factors" not in named:
            rest = args[4:]
            mds = [each for each in rest[:2] if isinstance(each, MemoryDesc)]
            after = dict(zip(("attr", "allow_empty"), rest[len(mds) :], strict=False))
            return (*args[:3], *mds), {**named, "factors": args[3], **after}
        return args, named

    def _problem(
        self, what: str, arguments: CallArguments
    ) -> tuple[ResamplingProblem, dict[int, MemoryDesc]]:
        self._alg = parse_algorithm(what, arguments.algorithm, "resampling_", ALGORITHMS)
        src = check_known(what, "src", arguments.src)
        _check_rank(what, "src", src)
        dims = _scaled(what, src, arguments.factors)
        given = arguments.dst if arguments.dst is not None else _open_desc(what, src, dims)
        dst = resolved(check_open(what, "dst", given), src)
        _check_pair(what, ("src", src), ("dst", dst), dims)
        check_written(what, "dst", dst)
        attr = check_attributes(what, parse_attr(what, arguments.attr), "post_ops")
        check_attr_of(what, attr, {ARG_DST: dst})
        return ResamplingProblem(self._alg, src, dst, attr), {ARG_SRC: src, ARG_DST: dst}


class ResamplingBackwardPrimitiveDesc(ResamplingPrimitiveDesc):
    """Primitive descriptor of the gradient of a resampling (`dnnl::resampling_backward::primitive_desc`).

    `PrimitiveDesc(engine, algorithm, diff_src, diff_dst, factors=None, attr=None, hint_pd=None,
    allow_empty=False)`, or with the factors in front of the gradients; without arguments it is empty and
    False. `diff_src`: of format "any" it has that of `diff_dst`. `hint_pd`: the forward descriptor, of the
    same problem, or None; `diff_dst` of format "any" needs it.

    Raises InvalidArguments (a TypeError too, for a hint of another kind) and Unimplemented.
    """

    kind = "ResamplingBackward"
    form = form_of(
        "ResamplingBackward.PrimitiveDesc",
        *("engine", "algorithm", "diff_src", "diff_dst"),
        factors=None,
        attr=None,
        hint_pd=None,
        allow_empty=False,
    )

    __slots__ = ()

    def _placed(self, args: Args, named: NamedArgs) -> tuple[Args, NamedArgs]:
        if len(args) > 2 and not isinstance(args[2], MemoryDesc) and "factors" not in named:
            return (*args[:2], *args[3:]), {**named, "factors": args[2]}
        return args, named

    def _copied(self, **chosen: object) -> Args:
        return super()._copied(diff_src=self._dst, diff_dst=self._src)

    def _problem(
        self, what: str, arguments: CallArguments
    ) -> tuple[ResamplingBackwardProblem, dict[int, MemoryDesc]]:
        self._alg = parse_algorithm(what, arguments.algorithm, "resampling_", ALGORITHMS)
        hint = parse_hint(what, arguments.hint_pd, ResamplingForwardPrimitiveDesc)
        diff_dst = check_open(what, "diff_dst", arguments.diff_dst)
        diff_dst = check_known(what, "diff_dst", resolved(diff_dst, hint.dst_desc()) if hint else diff_dst)
        diff_src = resolved(check_open(what, "diff_src", arguments.diff_src), diff_dst)
        _check_rank(what, "diff_src", diff_src)
        dims = _scaled(what, diff_src, arguments.factors)
        _check_pair(what, ("diff_src", diff_src), ("diff_dst", diff_dst), dims)
        if isinstance(hint, ResamplingForwardPrimitiveDesc):
            theirs = hint._src.dims, hint._dst.dims
            own = diff_src.dims, diff_dst.dims
            check_hint(what, {"algorithm": (hint._alg, self._alg), "dims": (theirs, own)})
        check_written(what, "diff_src", diff_src)
        attr = check_attributes(what, parse_attr(what, arguments.attr))
        problem = ResamplingBackwardProblem(self._alg, diff_src, diff_dst, attr)
        return problem, {ARG_DIFF_DST: diff_dst, ARG_DIFF_SRC: diff_src}


def _check_rank(what: str, name: str, md: MemoryDesc) -> None:
    if 3 <= md.ndims <= 5:
        return
    raise InvalidArguments(
        f"{what}: {name} has no spatial dims",
        code="RS-R10",
        where=str(md),
        why=f"there are a batch, channels and 1 to 3 spatial dims; it has {md.ndims} dims",
        hint="put dims of 1 where there are none, with md.reshape",
    )


def _scaled(what: str, src: MemoryDesc, factors: object) -> tuple[int, ...] | None:
    """The dims of the result that factors give, None without them."""
    if factors is None:
        return None
    try:
        found = [] if isinstance(factors, str | bytes) else list(factors)  # type: ignore[call-overload]
    except Exception:  # what iterates may raise anything
        found = []
    numbers = [to_f32(each, f"{what}: factors[{i}]") for i, each in enumerate(found)]
    if len(numbers) == src.ndims - 2 and all(0 < each < float("inf") for each in numbers):
        return (*src.dims[:2], *(int(n * f) for n, f in zip(src.dims[2:], numbers, strict=True)))
    raise InvalidArguments(
        f"{what}: factors are {short_repr(factors)}",
        code="RS-V02",
        why=f"they are {src.ndims - 2} numbers above 0",
        hint="one for each spatial dim, in the order of the dims",
    )


def _open_desc(what: str, src: MemoryDesc, dims: tuple[int, ...] | None) -> MemoryDesc:
    if dims is not None:
        return MemoryDesc(dims, src.data_type, "any")
    raise InvalidArguments(
        f"{what}: the size of the destination is not known",
        code="RS-V07",
        why="there are neither a dst nor factors",
        hint="pass a descriptor of the destination, of format 'any' if you like",
    )


def _check_pair(
    what: str, source: tuple[str, MemoryDesc], result: tuple[str, MemoryDesc], dims: tuple[int, ...] | None
) -> None:
    (name, src), (other, dst) = source, result
    if dst.ndims != src.ndims or src.dims[:2] != dst.dims[:2]:
        why = "batch and channels are the same, and there are as many spatial dims"
    elif dims is not None and dst.dims != dims:
        why = f"the factors make {dims}"
    elif 0 in src.dims and 0 not in dst.dims:
        why = "there is nothing to look at"
    else:
        return
    raise InvalidArguments(
        f"{what}: tensors that do not fit",
        code="RS-R10",
        where=f"{name} {src}; {other} {dst}",
        why=why,
        hint="only spatial dims change",
    )


class ResamplingForward(Primitive):
    """Spatial dims of another size (`dnnl::resampling_forward`).

    `ResamplingForward(pd)`; without arguments it is empty, and executing it is an error. Executed with
    `ARG_SRC` and `ARG_DST`.
    """

    PrimitiveDesc = ResamplingForwardPrimitiveDesc
    kind = "ResamplingForward"

    __slots__ = ()


class ResamplingBackward(Primitive):
    """The gradient of the source of a resampling (`dnnl::resampling_backward`).

    `ResamplingBackward(pd)`; without arguments it is empty. Executed with `ARG_DIFF_DST` and `ARG_DIFF_SRC`.
    """

    PrimitiveDesc = ResamplingBackwardPrimitiveDesc
    kind = "ResamplingBackward"

    __slots__ = ()
