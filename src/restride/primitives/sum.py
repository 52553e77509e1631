"""Sum: several tensors of the same dims, each with its scale, added in one pass (N1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache
from itertools import islice

import numpy as np

from ..desc.attr import Attr
from ..desc.attr_value import MOST_SOURCES
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import is_scalar, short_repr, to_f32
from ..errors import InvalidArguments, Unimplemented
from ..plan.sum_problem import SumProblem
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from .checks import Names, overlaps
from .forms import CallArguments, form_of
from .implementation import Implementation, compiled, find_implementation, named_descs
from .parse import check_described, check_written, parse_attr
from .primitive import Memories
from .several import (
    SeveralPrimitive,
    SeveralPrimitiveDesc,
    check_overlaps,
    check_sources,
    chosen_desc,
)

__all__ = ["Sum"]


class SumPrimitiveDesc(SeveralPrimitiveDesc[SumProblem]):
    """Primitive descriptor of a sum (`dnnl::sum::primitive_desc`).

    `PrimitiveDesc(engine, scales, srcs, dst=None, attr=None, allow_empty=False)`, or as version 3 of oneDNN
    has it `PrimitiveDesc(engine, dst, scales, srcs, ...)`; without arguments it is empty and False. `scales`:
    one number for each source, rounded to f32, or None where all are 1. `srcs`: 1 to 1024 descriptors of
    equal dims; formats and types may differ. `dst`: left out, it has the type of the first source; left out
    or of format "any", it has the format of the first source that has blocks, else of the first, dense.
    `attr`: the scratchpad mode. With `allow_empty`, a failure gives an empty descriptor.

    Raises InvalidArguments for what cannot be added, Unimplemented for what is not provided.
    """

    kind = "Sum"
    form = form_of("Sum.PrimitiveDesc", "engine", "scales", "srcs", dst=None, attr=None, allow_empty=False)

    __slots__ = ()

    def _problem(
        self, what: str, arguments: CallArguments, srcs: tuple[MemoryDesc, ...], dst: MemoryDesc | None
    ) -> SumProblem:
        scales = parse_scales(what, arguments.scales, len(srcs))
        return sum_problem(scales, srcs, dst, parse_attr(what, arguments.attr))

    @staticmethod
    def _find(problem: SumProblem, engine: Engine) -> Implementation:
        return find_sum(problem, engine)

    def _describe(self, op: str, impl: Implementation, ms: float) -> list[object]:
        return describe_sum(op, impl, ms)

    def _factor(self) -> list[float]:
        return self.get_scales()

    def get_scales(self) -> list[float]:
        """The scale of each source, as rounded to f32."""
        problem = self._implementation().problem
        assert isinstance(problem, SumProblem)
        return list(problem.scales)


def parse_scales(what: str, scales: object, count: int) -> tuple[float, ...]:
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


def _items(scales: object) -> list[object] | None:
    """The items of a sequence, of too many one too many; None where it is none, or raises anything."""
    try:
        if is_scalar(scales) or not isinstance(scales, Iterable):
            return None
        return list(islice(scales, MOST_SOURCES + 1))
    except Exception:
        return None


def find_sum(problem: SumProblem, engine: Engine) -> Implementation:
    """The implementation of a checked problem, from the cache or made now."""
    return find_implementation(problem, engine, describe_sum, lambda: compiled(problem, engine))


def describe_sum(op: str, impl: Implementation, ms: float) -> list[object]:
    """The fields of one verbose line."""
    problem = impl.problem
    assert isinstance(problem, SumProblem)
    mds = named_descs((*["src"] * len(problem.srcs), "dst"), (*problem.srcs, problem.dst))
    dims = "x".join(map(str, problem.dst.dims))
    aux = f"scales:{':'.join(f'{scale:g}' for scale in problem.scales)} why:{impl.why}"
    head = [op, impl.engine.kind, "sum", impl.name, "undef"]
    return [*head, mds, problem.attr.verbose_str(), aux, dims, ms]


def sum_in_place(names: Names, impl: Implementation, sources: list[Memory], dst: Memory) -> Implementation:
    """The implementation for sources of which some are the destination: sums overwrite elements.

    Raises InvalidArguments where one lies otherwise in it (N9).
    """
    problem = impl.problem
    assert isinstance(problem, SumProblem)
    hint = "use another buffer; in place works where layout, element size and address are the same"
    shared = check_overlaps(names, sources, dst, lambda _, src, dst: not overlaps(src, dst), hint)
    return find_sum(replace(problem, is_aliased=True), impl.engine) if shared else impl


class Sum(SeveralPrimitive):
    """The sum primitive (`dnnl::sum`): `dst = saturate(scales[0] * src[0] + scales[1] * src[1] + ...)`.

    `Sum(pd)`; without arguments it is empty, and executing it is an error. Sources are added in their order,
    as f32; as f64 where a tensor is f64, or where integers, s32 among them, are added with scales of 1; the
    result is rounded once (N1). A source may be the destination.
    """

    PrimitiveDesc = SumPrimitiveDesc
    kind = "Sum"

    __slots__ = ()

    def _check_overlaps(self, impl: Implementation, names: Names, memories: Memories) -> Implementation:
        *sources, dst = (memories[arg] for arg in self._pd._tensors())
        return sum_in_place(names, impl, sources, dst)


# --- checks -------------------------------------------------------------------------------------------------

_NAMES = Names("sum")


def sum_problem(
    scales: tuple[float, ...],
    srcs: tuple[MemoryDesc, ...],
    dst: MemoryDesc | None,
    attr: Attr,
    names: Names = _NAMES,
) -> SumProblem:
    """The checked problem; a destination left out, or of format "any", gets the format of the sources.

    `names` is for messages. Raises InvalidArguments, Unimplemented for what cannot be added.
    """
    return _problem_of(np.array(scales, "<f4").tobytes(), srcs, dst, attr, names)


@lru_cache(maxsize=1024)
def _problem_of(
    factors: bytes, srcs: tuple[MemoryDesc, ...], dst: MemoryDesc | None, attr: Attr, names: Names
) -> SumProblem:
    """The problem by the bytes of its scales: 0.0 and -0.0 are equal, their sums are not."""
    check_sources(names, srcs)
    count = len(factors) // 4
    if count != len(srcs):
        why = f"there are {len(srcs)} {names.one}s and {count} scales"
        what, hint = f"{names.call}: wrong number of scales", f"give one for each {names.one}"
        raise InvalidArguments(what, code="RS-R22", why=why, hint=hint)
    named = [(names.source(i), md) for i, md in enumerate(srcs)]
    if dst is not None:
        check_described(names.call, names.dst, dst)
        named.append((names.dst, dst))
    for name, md in named[1:]:
        _check_dims(names, (name, md), srcs[0])
    if dst is None or dst.format_kind == "any":
        dst = chosen_desc(srcs, srcs[0].dims, srcs[0].data_type if dst is None else dst.data_type)
    check_written(names.call, names.written, dst)
    if not replace(attr, scratchpad="library").is_default:
        raise Unimplemented(
            f"{_NAMES.call}: unsupported attribute",
            code="RS-R26",
            where=f"attr {attr.verbose_str()}",
            why="a sum has its scales, and nothing else",
            hint="give the scales with the sources; a reorder before or after does the rest",
        )
    # A scratchpad of the caller's is as long as any execution may need it.
    return SumProblem(srcs, dst, factors, attr, is_aliased=attr.scratchpad == "user")


def _check_dims(names: Names, named: tuple[str, MemoryDesc], first: MemoryDesc) -> None:
    name, md = named
    if md.dims == first.dims:
        return
    raise InvalidArguments(
        f"{names.call}: tensors of different shapes",
        code="RS-R10",
        where=f"{names.source(0)} {first}; {name} {md}",
        why=f"{names.source(0)} is {first.dims}, {name} {md.dims}",
        hint=f"a sum never broadcasts; give the {names.one} that is to be repeated a stride of 0",
    )
