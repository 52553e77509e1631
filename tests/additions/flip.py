"""Flip: the order of the elements along one axis, reversed."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..desc.parse import parse_int
from ..errors import InvalidArguments
from ..plan.flip_problem import FlipProblem
from .base import PrimitiveDescBase
from .forms import Form, signature
from .implementation import Implementation, compiled, find_implementation, named_descs
from .parse import check_described, parse_attr, parse_engine
from .primitive import Primitive

__all__ = ["Flip"]

_WHAT = "Flip.PrimitiveDesc"


class _FlipArguments(NamedTuple):
    """The arguments of a primitive descriptor."""

    engine: Any
    src: Any
    dst: Any
    axis: Any
    attr: Any = None
    allow_empty: bool = False


class FlipPrimitiveDesc(PrimitiveDescBase):
    """Primitive descriptor of a flip: `PrimitiveDesc(engine, src, dst, axis, attr=None, allow_empty=False)`.

    Raises InvalidArguments for descriptors that cannot be flipped.
    """

    kind = "Flip"
    form = Form(
        _WHAT, signature("engine", "src", "dst", "axis", attr=None, allow_empty=False), _FlipArguments
    )
    __signature__ = form.shown

    __slots__ = ()

    def _create(self, arguments: _FlipArguments) -> None:
        engine, attr = parse_engine(_WHAT, arguments.engine), parse_attr(_WHAT, arguments.attr)
        src, dst = (check_described(_WHAT, name, getattr(arguments, name)) for name in ("src", "dst"))
        problem = _checked(FlipProblem(src, dst, parse_int(arguments.axis, f"{_WHAT}: axis")))
        impl = find_implementation(problem, engine, self._describe, lambda: compiled(problem, engine))
        self._set(impl, src, dst, attr)

    def __reduce__(self) -> tuple[Any, ...]:
        args = (self._engine, self._src, self._dst, self.get_axis(), self.get_primitive_attr())
        return FlipPrimitiveDesc, args if self else ()

    def get_axis(self) -> int:
        """The axis that is reversed."""
        problem = self._implementation().problem
        assert isinstance(problem, FlipProblem)
        return problem.axis

    def _describe(self, op: str, impl: Implementation, ms: float) -> list[object]:
        problem = impl.problem
        assert isinstance(problem, FlipProblem)
        mds = named_descs(("src", "dst"), (problem.src, problem.dst))
        head, aux = [op, impl.engine.kind, "flip", impl.name, "undef"], f"axis:{problem.axis} why:{impl.why}"
        return [*head, mds, "", aux, "x".join(map(str, problem.dst.dims)), ms]


class Flip(Primitive):
    """The flip primitive: `dst[..., i, ...] = src[..., n - 1 - i, ...]` along an axis of n elements.

    `Flip(pd)`; without arguments it is empty, and executing it is an error.
    """

    PrimitiveDesc = FlipPrimitiveDesc
    kind = "Flip"

    __slots__ = ()


def _checked(problem: FlipProblem) -> FlipProblem:
    src, dst = problem.src, problem.dst
    is_like = src.dims == dst.dims and src.data_type is dst.data_type and dst.is_injective()
    if is_like and 0 <= problem.axis < dst.ndims:
        return problem
    raise InvalidArguments(
        f"{_WHAT}: what cannot be flipped",
        code="RS-R10",
        where=f"src {src}; dst {dst}; axis {problem.axis}",
        why="a flip keeps dims and data type, along one of the dims",
        hint="describe source and destination alike",
    )
