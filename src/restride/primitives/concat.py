"""Concat: tensors one behind the other along an axis, each from its own format and type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

from ..desc.arguments import ARG_MULTIPLE_SRC
from ..desc.attr import Attr
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int
from ..errors import InvalidArguments, Unimplemented
from ..plan.concat_problem import ConcatProblem, bits_to_window, in_place_copies
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from .checks import Names
from .forms import CallArguments, form_of
from .implementation import Implementation, compiled, find_implementation, named_descs
from .parse import check_described, check_written, parse_attr
from .primitive import Memories
from .query import Query
from .several import (
    SeveralPrimitive,
    SeveralPrimitiveDesc,
    check_overlaps,
    check_sources,
    chosen_desc,
)

__all__ = ["Concat"]


class ConcatPrimitiveDesc(SeveralPrimitiveDesc[ConcatProblem]):
    """Primitive descriptor of a concat (`dnnl::concat::primitive_desc`).

    `PrimitiveDesc(engine, axis, srcs, dst=None, attr=None, allow_empty=False)`, or as version 3 of oneDNN has
    it `PrimitiveDesc(engine, dst, axis, srcs, ...)`; without arguments it is empty and False. `srcs`: 1 to
    1024 descriptors, equal in all dims but that of `axis`; formats and types may differ. `dst`: left out, it
    has the type of the first source; left out or of format "any", it has the format of the first source that
    has blocks, else of the first, dense; blocks in which a source would begin are left out, and where no
    format is left it is plain, in the order of axes of the first source. `attr`: scales of mask 0 for
    `rs.ARG_MULTIPLE_SRC + i`, known or passed at execution, and the scratchpad mode. With `allow_empty`, a
    failure gives an empty descriptor.

    Raises InvalidArguments for what cannot be joined, Unimplemented for what is not provided.
    """

    kind = "Concat"
    form = form_of("Concat.PrimitiveDesc", "engine", "axis", "srcs", dst=None, attr=None, allow_empty=False)

    __slots__ = ()

    def _problem(
        self, what: str, arguments: CallArguments, srcs: tuple[MemoryDesc, ...], dst: MemoryDesc | None
    ) -> ConcatProblem:
        return concat_problem(
            parse_int(arguments.axis, f"{what}: axis"), srcs, dst, parse_attr(what, arguments.attr)
        )

    @staticmethod
    def _find(problem: ConcatProblem, engine: Engine) -> Implementation:
        return find_concat(problem, engine)

    def _describe(self, op: str, impl: Implementation, ms: float) -> list[object]:
        return describe_concat(op, impl, ms)

    def _factor(self) -> int:
        return self.get_axis()

    def _integers(self) -> dict[Query, int]:
        return super()._integers() | ({Query.axis_s32: self.get_axis()} if self else {})

    def get_axis(self) -> int:
        """The axis along which sources follow each other."""
        problem = self._implementation().problem
        assert isinstance(problem, ConcatProblem)
        return problem.axis


def find_concat(problem: ConcatProblem, engine: Engine) -> Implementation:
    """The implementation of a checked problem, from the cache or made now."""
    return find_implementation(problem, engine, describe_concat, lambda: compiled(problem, engine))


def describe_concat(op: str, impl: Implementation, ms: float) -> list[object]:
    """The fields of one verbose line."""
    problem = impl.problem
    assert isinstance(problem, ConcatProblem)
    mds = named_descs((*["src"] * len(problem.srcs), "dst"), (*problem.srcs, problem.dst))
    dims = ":".join("x".join(map(str, md.dims)) for md in problem.srcs)
    aux = f"axis:{problem.axis} why:{impl.why}"
    head = [op, impl.engine.kind, "concat", impl.name, "undef"]
    return [*head, mds, problem.attr.verbose_str(), aux, dims, ms]


def concat_in_place(names: Names, impl: Implementation, sources: list[Memory], dst: Memory) -> Implementation:
    """The implementation for sources of which some lie in the destination, each in its own place.

    Raises InvalidArguments where one lies elsewhere in it (N9).
    """
    problem = impl.problem
    assert isinstance(problem, ConcatProblem)

    def is_in_place(i: int, src: Memory, dst: Memory) -> bool:
        apart = bits_to_window(problem, i)
        return apart is not None and 8 * (src._address - dst._address) == apart

    hint = "use another buffer; a source may lie in the destination in its own place alone"
    shared = check_overlaps(names, sources, dst, is_in_place, hint)
    copied = in_place_copies(problem, shared)
    return find_concat(replace(problem, in_place=copied), impl.engine) if copied else impl


class Concat(SeveralPrimitive):
    """The concat primitive (`dnnl::concat`): each source is reordered into its window of the destination.

    `Concat(pd)`; without arguments it is empty, and executing it is an error. A source that lies in its
    window already, as a memory of `dst.submemory_desc(...)` over the same buffer does, is not copied.
    """

    PrimitiveDesc = ConcatPrimitiveDesc
    kind = "Concat"

    __slots__ = ()

    def _check_overlaps(self, impl: Implementation, names: Names, memories: Memories) -> Implementation:
        *sources, dst = (memories[arg] for arg in self._pd._tensors())
        return concat_in_place(names, impl, sources, dst)


# --- checks -------------------------------------------------------------------------------------------------

_NAMES = Names("concat")


@lru_cache(maxsize=1024)
def concat_problem(
    axis: int, srcs: tuple[MemoryDesc, ...], dst: MemoryDesc | None, attr: Attr, names: Names = _NAMES
) -> ConcatProblem:
    """The checked problem; a destination left out, or of format "any", gets the format of the sources.

    `names` is for messages. Raises InvalidArguments, Unimplemented for what cannot be joined.
    """
    check_sources(names, srcs)
    _check_axis(axis, srcs[0])
    for i, md in enumerate(srcs[1:], 1):
        _check_alike(names, i, (srcs[0], md), axis)
    whole = sum(md.dims[axis] for md in srcs)
    dims = (*srcs[0].dims[:axis], whole, *srcs[0].dims[axis + 1 :])
    if dst is not None:
        check_described(names.call, names.dst, dst)
        _check_dims(names, dst, dims, srcs)
    made = ConcatProblem(srcs, MemoryDesc() if dst is None else dst, axis, attr)
    if dst is None or dst.format_kind == "any":
        starts = [start for start, md in zip(made.starts(), srcs, strict=True) if md.dims[axis]]
        data_type = srcs[0].data_type if dst is None else dst.data_type
        made = replace(made, dst=chosen_desc(srcs, dims, data_type, (axis, *starts)))
    check_written(names.call, names.written, made.dst)
    _check_attr(made)
    return made


def _check_axis(axis: int, first: MemoryDesc) -> None:
    if 0 <= axis < first.ndims:
        return
    raise InvalidArguments(
        f"{_NAMES.call}: bad axis",
        code="RS-A10",
        where=f"axis {axis}; source 0 {first}",
        why=f"axes are numbered from 0, and the last of {first.ndims} is {first.ndims - 1}",
        hint="only rs.concat counts negative axes from the end",
    )


def _check_alike(names: Names, index: int, both: tuple[MemoryDesc, MemoryDesc], axis: int) -> None:
    first, md = both
    zero, this = names.source(0), names.source(index)
    if md.ndims == first.ndims:
        differing = [d for d in range(md.ndims) if d != axis and md.dims[d] != first.dims[d]]
        if not differing:
            return
        d = differing[0]
        why = f"dim {d} is {first.dims[d]} in {zero} and {md.dims[d]} in {this}"
    else:
        why = f"{zero} has {first.ndims} dims, {this} has {md.ndims}"
    raise InvalidArguments(
        f"{names.call}: {names.one}s of different shapes",
        code="RS-R10",
        where=f"{zero} {first}; {this} {md}",
        why=why,
        hint=f"all dims but that of axis {axis} must be the same",
    )


def _check_dims(names: Names, dst: MemoryDesc, dims: tuple[int, ...], srcs: Sequence[MemoryDesc]) -> None:
    if dst.dims == dims:
        return
    raise InvalidArguments(
        f"{names.call}: {names.dst} is of another shape",
        code="RS-R10",
        where=f"{names.listed(srcs)}; {names.dst} {dst}",
        why=f"the {names.one}s make {dims}",
        hint=f"leave {names.dst} out, or give it these dims",
    )


def _check_attr(problem: ConcatProblem) -> None:
    attr = problem.attr
    arguments = range(ARG_MULTIPLE_SRC, ARG_MULTIPLE_SRC + len(problem.srcs))
    others = replace(attr, scales=(), scratchpad="library")
    wrong = [arg for arg, factor in attr.scales if arg not in arguments or factor.mask or factor.groups]
    if others.is_default and not wrong:
        return
    raise Unimplemented(
        f"{_NAMES.call}: unsupported attribute",
        code="RS-R26",
        where=f"attr {attr.verbose_str()}; {_where(problem)}",
        why="a concat has one scale for each source, of mask 0, and nothing else",
        hint="attr.set_scales(rs.ARG_MULTIPLE_SRC + i, 0, [scale]); a reorder before or after does the rest",
    )


def _where(problem: ConcatProblem) -> str:
    """The descriptors, for messages."""
    return f"{_NAMES.listed(problem.srcs)}; dst {problem.dst}"
