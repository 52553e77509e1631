"""Concat: tensors one behind the other along an axis, each from its own format and type (M20 to M23)."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int
from ..runtime.engine import Engine
from .base import find_implementation
from .calls import Form, signature
from .concat_problem import ConcatProblem, make_problem
from .given import parse_attr
from .query import Query
from .several import SeveralPrimitive, SeveralPrimitiveDesc
from .several_solved import solve_concat

__all__ = ["Concat"]


class _Given(NamedTuple):
    """The arguments of a primitive descriptor."""

    engine: Any
    axis: Any
    srcs: Any
    dst: Any = None
    attr: Any = None
    allow_empty: bool = False


class ConcatPrimitiveDesc(SeveralPrimitiveDesc):
    """Primitive descriptor of a concat (`dnnl::concat::primitive_desc`).

    `PrimitiveDesc(engine, axis, srcs, dst=None, attr=None, allow_empty=False)`, or as version 3 of oneDNN has
    it `PrimitiveDesc(engine, dst, axis, srcs, ...)`; without arguments it is empty and False. `srcs`: 1 to
    1024 descriptors, equal in all dims but that of `axis`; formats and types may differ. `dst`: left out, it
    has the type of the first source; left out or of format "any", it has the format of the first source that
    has blocks, else of the first, dense; blocks in which a source would begin are left out, and where no
    format is left it is plain, in the order of axes of the first source. `attr`: scales of mask 0 for
    `rs.ARG_MULTIPLE_SRC + i`, known or passed at execution, and the scratchpad mode. With `allow_empty`, a
    failure gives an empty descriptor (R04).

    Raises InvalidArguments for what cannot be joined, Unimplemented for what is not provided.
    """

    kind = "Concat"
    form = Form(
        "Concat.PrimitiveDesc",
        signature("engine", "axis", "srcs", dst=None, attr=None, allow_empty=False),
        _Given,
    )
    __signature__ = form.shown

    __slots__ = ()

    def _problem(
        self, what: str, given: _Given, srcs: tuple[MemoryDesc, ...], dst: MemoryDesc | None
    ) -> ConcatProblem:
        return make_problem(parse_int(given.axis, f"{what}: axis"), srcs, dst, parse_attr(what, given.attr))

    @staticmethod
    def _find(problem: ConcatProblem, engine: Engine) -> Any:
        return find_concat(problem, engine)

    def _factor(self) -> int:
        return self.get_axis()

    def _integers(self) -> dict[Query, int]:
        return super()._integers() | ({Query.axis_s32: self.get_axis()} if self else {})

    def get_axis(self) -> int:
        """The axis along which sources follow each other."""
        return int(self._solved().problem.axis)


def find_concat(problem: ConcatProblem, engine: Engine) -> Any:
    """The solved problem, from the cache or now."""
    return find_implementation(
        (ConcatProblem, problem, engine),
        lambda: solve_concat(problem, engine),
        lambda op, impl, ms: impl.verbose_fields(op, engine, ms),
    )


class Concat(SeveralPrimitive):
    """The concat primitive (`dnnl::concat`): each source is reordered into its window of the destination.

    `Concat(pd)`; without arguments it is empty, and executing it is an error. A source that lies in its
    window already, as a memory of `dst.submemory_desc(...)` over the same buffer does, is not copied.
    """

    PrimitiveDesc = ConcatPrimitiveDesc
    kind = "Concat"

    __slots__ = ()
