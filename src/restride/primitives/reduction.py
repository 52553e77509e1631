"""Reduction: a tensor folded along some of its dims."""

from __future__ import annotations

from math import isfinite

from ..desc.arguments import ARG_DST, ARG_SRC
from ..desc.attr_check import check_attr_of
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import to_f32
from ..errors import InvalidArguments
from ..plan.reduction_problem import ALGORITHMS, NORMS, ReductionProblem
from .any_format import resolved_operand
from .forms import CallArguments, form_of
from .parse import check_written, parse_attr
from .pointwise import (
    OneStepPrimitive,
    OneStepPrimitiveDesc,
    check_attributes,
    check_known,
    check_open,
    parse_algorithm,
)

__all__ = ["Reduction"]


class ReductionPrimitiveDesc(OneStepPrimitiveDesc):
    """Primitive descriptor of a reduction (`dnnl::reduction::primitive_desc`).

    `PrimitiveDesc(engine, algorithm, src, dst, p=0.0, eps=0.0, attr=None, allow_empty=False)`; without
    arguments it is empty and False. `algorithm`: a name of oneDNN, "reduction_sum" or "sum". `dst` has 1
    where the source is folded, and else the dims of the source; of format "any" it has that of the source.
    `p`, 1 or more, and `eps` are of norms. `attr`: post-ops and the scratchpad mode. With `allow_empty`, a
    failure gives an empty descriptor.

    Raises InvalidArguments for what makes no sense, Unimplemented for what is not provided.
    """

    kind = "Reduction"
    form = form_of(
        "Reduction.PrimitiveDesc",
        *("engine", "algorithm", "src", "dst"),
        p=0.0,
        eps=0.0,
        attr=None,
        allow_empty=False,
    )

    __slots__ = ("_reduced",)
    _reduced: ReductionProblem | None

    def _empty(self) -> None:
        super()._empty()
        self._reduced = None

    def _problem(self, what: str, arguments: CallArguments) -> tuple[ReductionProblem, dict[int, MemoryDesc]]:
        alg = parse_algorithm(what, arguments.algorithm, "reduction_", ALGORITHMS)
        p, eps = (to_f32(getattr(arguments, name), f"{what}: {name}") for name in ("p", "eps"))
        src = check_known(what, "src", arguments.src)
        dst = _check_shape(what, src, check_open(what, "dst", arguments.dst))
        dst = resolved_operand(dst, src)
        check_written(what, "dst", dst)
        _check_norm(what, alg, p, eps)
        attr = check_attributes(what, parse_attr(what, arguments.attr), "post_ops")
        check_attr_of(what, attr, {ARG_DST: dst})
        if alg not in NORMS:
            p = eps = 0.0
        problem = self._reduced = ReductionProblem(alg, src, dst, p, eps, attr)
        return problem, {ARG_SRC: src, ARG_DST: dst}

    def _reduction(self) -> ReductionProblem:
        self._implementation()
        assert self._reduced is not None
        return self._reduced

    def get_algorithm(self) -> str:
        """The algorithm as oneDNN calls it: `reduction_norm_lp_sum`."""
        return f"reduction_{self._reduction().alg}"

    def get_p(self) -> float:
        """The p of a norm; 0 for other algorithms."""
        return self._reduction().p

    def get_epsilon(self) -> float:
        """The eps of a norm; 0 for other algorithms."""
        return self._reduction().eps

    def _how(self) -> str:
        problem = self._reduced
        if problem is None or not problem.is_norm:
            return f"alg:reduction_{problem.alg if problem else ''}"
        return f"alg:reduction_{problem.alg} p:{problem.p:g} eps:{problem.eps:g}"


class Reduction(OneStepPrimitive):
    """The reduction primitive (`dnnl::reduction`): a fold over the dims in which the destination has 1.

    `Reduction(pd)`; without arguments it is empty, and executing it is an error. Executed with `ARG_SRC` and
    `ARG_DST`. Sums are of f32, of f64 where a tensor is s32 or f64; their order depends on shape and format,
    never on threads.
    """

    PrimitiveDesc = ReductionPrimitiveDesc
    kind = "Reduction"

    __slots__ = ()


def _check_shape(what: str, src: MemoryDesc, dst: MemoryDesc) -> MemoryDesc:
    pairs = zip(src.dims, dst.dims, strict=False)
    if src.ndims == dst.ndims and all(out in (1, n) for n, out in pairs):
        return dst
    raise InvalidArguments(
        f"{what}: dst does not fit src",
        code="RS-R10",
        where=f"src {src}; dst {dst}",
        why=f"src is {src.dims}, dst {dst.dims}",
        hint="each dim of dst is that of src, or 1, which is folded",
    )


def _check_norm(what: str, alg: str, p: float, eps: float) -> None:
    if alg not in NORMS or (isfinite(p) and p >= 1.0 and isfinite(eps)):
        return
    raise InvalidArguments(
        f"{what}: {alg} with p {p:g} and eps {eps:g}",
        code="RS-P06",
        why="a norm has a finite p of 1 or more, and a finite eps",
        hint="take p=2.0 for the length of vectors",
    )
