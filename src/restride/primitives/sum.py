"""Sum: several tensors of the same dims, each with its scale, added in one pass (N1)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, NamedTuple

from ..desc.factor import MOST_SOURCES
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import is_scalar, short_repr
from ..desc.real import to_f32
from ..errors import InvalidArguments
from ..runtime.engine import Engine
from .base import find_implementation
from .calls import Form, signature
from .given import parse_attr
from .several import SeveralPrimitive, SeveralPrimitiveDesc
from .several_solved import solve_sum
from .sum_problem import SumProblem, make_problem

__all__ = ["Sum"]


class _Given(NamedTuple):
    """The arguments of a primitive descriptor."""

    engine: Any
    scales: Any
    srcs: Any
    dst: Any = None
    attr: Any = None
    allow_empty: bool = False


class SumPrimitiveDesc(SeveralPrimitiveDesc):
    """Primitive descriptor of a sum (`dnnl::sum::primitive_desc`).

    `PrimitiveDesc(engine, scales, srcs, dst=None, attr=None, allow_empty=False)`, or as version 3 of oneDNN
    has it `PrimitiveDesc(engine, dst, scales, srcs, ...)`; without arguments it is empty and False. `scales`:
    one number for each source, rounded to f32, or None where all are 1. `srcs`: 1 to 1024 descriptors of
    equal dims; formats and types may differ. `dst`: left out, it has the type of the first source; left out
    or of format "any", it has the format of the first source that has blocks, else of the first, dense.
    `attr`: the scratchpad mode. With `allow_empty`, a failure gives an empty descriptor (R04).

    Raises InvalidArguments for what cannot be added, Unimplemented for what is not provided.
    """

    kind = "Sum"
    form = Form(
        "Sum.PrimitiveDesc",
        signature("engine", "scales", "srcs", dst=None, attr=None, allow_empty=False),
        _Given,
    )
    __signature__ = form.shown

    __slots__ = ()

    def _problem(
        self, what: str, given: _Given, srcs: tuple[MemoryDesc, ...], dst: MemoryDesc | None
    ) -> SumProblem:
        scales = parse_scales(what, given.scales, len(srcs))
        return make_problem(scales, srcs, dst, parse_attr(what, given.attr))

    @staticmethod
    def _find(problem: SumProblem, engine: Engine) -> Any:
        return find_sum(problem, engine)

    def _factor(self) -> list[float]:
        return self.get_scales()

    def get_scales(self) -> list[float]:
        """The scale of each source, as rounded to f32."""
        return list(self._solved().problem.scales)


def parse_scales(what: str, scales: Any, count: int) -> tuple[float, ...]:
    """One f32 value for each source; None stands for ones. Raises InvalidArguments for what is no number."""
    if scales is None:
        return (1.0,) * count
    found = _items(scales)
    if found is None:
        raise InvalidArguments(
            f"{what}: scales are {short_repr(scales)}",
            code="RS-V02",
            why="it must be a sequence of numbers, one for each source",
            hint=f"pass a list of {count} numbers, or None",
        )
    return tuple(to_f32(value, f"{what}: scales[{i}]") for i, value in enumerate(found))


def _items(scales: Any) -> list[Any] | None:
    """The items of a sequence, of too many one too many; None where it is none, or raises anything."""
    try:
        is_sequence = not is_scalar(scales) and isinstance(scales, Iterable)
        return list(islice(scales, MOST_SOURCES + 1)) if is_sequence else None
    except Exception:
        return None


def find_sum(problem: SumProblem, engine: Engine) -> Any:
    """The solved problem, from the cache or now."""
    return find_implementation(
        (SumProblem, problem, engine),
        lambda: solve_sum(problem, engine),
        lambda op, impl, ms: impl.verbose_fields(op, engine, ms),
    )


class Sum(SeveralPrimitive):
    """The sum primitive (`dnnl::sum`): `dst = saturate(scales[0] * src[0] + scales[1] * src[1] + ...)`.

    `Sum(pd)`; without arguments it is empty, and executing it is an error. Sources are added in their order,
    as f32; as f64 where a tensor is f64, or where integers, s32 among them, are added with scales of 1; the
    result is rounded once (N1). A source may be the destination.
    """

    PrimitiveDesc = SumPrimitiveDesc
    kind = "Sum"

    __slots__ = ()
