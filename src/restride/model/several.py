"""Primitives of several sources and one destination: the common part of concat and sum (N10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import islice
from typing import ClassVar, Self

from ..desc.arguments import ARG_DST, ARG_MULTIPLE_SRC
from ..desc.attr_value import MOST_SOURCES
from ..desc.memory_desc import MemoryDesc
from ..desc.tags import Tag
from ..dtypes import DataType
from ..errors import refuse
from ..ir.program import DST
from ..runtime.memory import Memory
from ..runtime.stream import Stream
from .checks import Names, share_bytes
from .derived import DerivedPrimitiveDesc, find_operation
from .forms import Args, NamedArgs
from .implementation import Implementation
from .operation import OperationProblem
from .parse import check_described
from .primitive import Memories, Primitive
from .prop_kind import PropKind


class SeveralProblem(OperationProblem):
    """A problem of several sources, `srcs`, numbered from 0."""

    prop_kinds = (PropKind.undef,)
    node_reads = ("srcs",)
    # The reason for rejecting a source that is not at its place in the destination.
    overlap_hint: ClassVar[str]

    __slots__ = ()

    srcs: tuple[MemoryDesc, ...]

    @classmethod
    def placed(cls, args: Args, named: NamedArgs) -> tuple[Args, NamedArgs]:
        """Reorder arguments: oneDNN 3 has the destination after the engine: (engine, dst, how, srcs, ...)."""
        if len(args) < 2 or not isinstance(args[1], MemoryDesc):
            return args, named
        engine, dst, *others = args
        if len(others) < 2 and "dst" not in named:
            return (engine, *others), {**named, "dst": dst}
        return (engine, *others[:2], dst, *others[2:]), named

    def sources(self) -> dict[int, MemoryDesc]:
        """The sources by argument."""
        return dict(enumerate(self.srcs, ARG_MULTIPLE_SRC))

    def of_descs(self, srcs: tuple[MemoryDesc, ...], dst: MemoryDesc | None) -> Self:
        """Return the problem with a caller's own descriptors, which an execution compares by identity."""
        dst = dst if dst == self.dst else self.dst
        if dst is self.dst and all(a is b for a, b in zip(srcs, self.srcs, strict=True)):
            return self
        return replace(self, srcs=srcs, dst=dst)  # type: ignore[type-var]

    def is_in_place(self, index: int, src: Memory, dst: Memory) -> bool:
        """Return True if a source is at its place in the destination."""
        raise NotImplementedError

    def sharing(self, shared: frozenset[int]) -> Self:
        """Return the problem in which these sources are parts of the destination."""
        raise NotImplementedError


class SeveralPrimitiveDesc(DerivedPrimitiveDesc):
    """A primitive descriptor of several sources."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self:
            return f"restride.{self.kind}.PrimitiveDesc()"
        return f"<{self.kind} {self.impl_info_str}: {len(self._reads())} sources -> {self._dst}>"


class SeveralPrimitive(Primitive):
    """A primitive of several sources."""

    __slots__ = ()

    def execute(
        self,
        stream: Stream | None = None,
        srcs: object = None,
        dst: Memory | None = None,
        *,
        astream: Stream | None = None,
    ) -> None:
        """Execute: `execute(stream, srcs, dst)`, `srcs` a sequence of memory objects, or `execute(stream,
        args)`.

        `args` names source i as `rs.onednn.Arg.MULTIPLE_SRC + i` and the destination as `rs.onednn.Arg.DST`.
        Raises InvalidArguments, before anything is touched, for memory objects or streams that do not match
        the primitive, for a read-only or mapped destination, and for a source that overlaps the destination
        anywhere but at its place (N9, N10).
        """
        self._execute(astream if stream is None else stream, srcs, dst)

    def _by_place(self, src: object, dst: object) -> tuple[object, ...] | None:
        # Only plain sequences are certain to have no side effects.
        return (src[0], dst, *src[1:]) if (type(src) is list or type(src) is tuple) and src else None

    def _numbered(self, src: object, dst: object) -> dict[int, object]:
        """Return sources in order as arguments."""
        count = len(self._pd._reads())
        memories = _items_of(src)
        if memories is not None and len(memories) == count:
            return {**dict(enumerate(memories, ARG_MULTIPLE_SRC)), ARG_DST: dst}
        raise refuse(
            "RS-R06:bad-number-inputs",
            kind=self.kind,
            wanted=count,
            type=f"{type(src).__name__} was" if memories is None else f"{len(memories)} were",
        )

    def _name_of(self, arg: int) -> str:
        return self._names().dst if arg == ARG_DST else self._names().source(arg - ARG_MULTIPLE_SRC)

    def _check_overlaps(self, impl: Implementation, names: Names, memories: Memories) -> Implementation:
        *sources, dst = (memories[arg] for arg in self._pd._tensors())
        return implementation_in_place(names, impl, sources, dst)


def _items_of(srcs: object) -> Sequence[object] | None:
    """Return the items of a sequence; None for anything else, or if reading it raises."""
    if type(srcs) is list or type(srcs) is tuple:
        return srcs
    if not isinstance(srcs, Sequence) or isinstance(srcs, str | bytes):
        return None
    try:
        return list(islice(srcs, MOST_SOURCES + 1))
    except Exception:
        return None


def implementation_in_place(
    names: Names, impl: Implementation, sources: Sequence[Memory], dst: Memory
) -> Implementation:
    """Return the implementation for sources of which some are parts of the destination.

    Raises InvalidArguments if elements would be written before they are read (N9).
    """
    problem = impl.problem
    assert isinstance(problem, SeveralProblem)
    shared = frozenset(i for i, memory in enumerate(sources) if share_bytes(memory, dst))
    for i in sorted(shared):
        if not problem.is_in_place(i, sources[i], dst):
            raise refuse(
                "RS-N09:overlap-elements",
                names=names,
                names2=names.source(i),
                desc=sources[i].desc,
                dst_desc=dst.desc,
                overlap_hint=problem.overlap_hint,
            )
    shared_problem = problem.sharing(shared) if shared else problem
    return impl if shared_problem == problem else find_operation(shared_problem, impl.engine)


# --- arguments ----------------------------------------------------------------------------------------------


def parse_descs(what: str, srcs: object) -> tuple[MemoryDesc, ...]:
    """Return the descriptors of the sources. Raises InvalidArguments for none, too many, and non-tensors."""
    if isinstance(srcs, MemoryDesc | str | bytes) or not isinstance(srcs, Iterable):
        why = f"expected a sequence, got {type(srcs).__name__}"
        raise refuse("RS-A13:no-sources", what=what, why=why)
    try:
        sources = tuple(islice(srcs, MOST_SOURCES + 1))
    except Exception as error:  # a foreign iterator can raise anything
        why = f"{type(srcs).__name__} cannot be iterated over: {str(error)[:200] or type(error).__name__}"
        raise refuse("RS-A13:no-sources", what=what, why=why) from None
    if not 1 <= len(sources) <= MOST_SOURCES:
        why = "there are more" if sources else "there is none"
        raise refuse(
            "RS-A13:too-many" if sources else "RS-A13:empty-list",
            what=what,
            most_sources=MOST_SOURCES,
            why=why,
        )
    for i, md in enumerate(sources):
        if not isinstance(md, MemoryDesc):
            why = f"expected an rs.MemoryDesc, got {type(md).__name__}"
            raise refuse("RS-V08:source-no-descriptor", what=what, i=i, why=why)
    return sources


def parse_target(what: str, dst: object) -> MemoryDesc | None:
    """Return the descriptor of the destination; None if omitted."""
    if dst is None or isinstance(dst, MemoryDesc):
        return dst
    raise refuse("RS-V08:dst-no-descriptor", what=what, type=type(dst).__name__)


# --- what problems check ------------------------------------------------------------------------------------


def check_sources(names: Names, srcs: Sequence[MemoryDesc]) -> None:
    """Raise InvalidArguments, Unimplemented unless each source is a concrete tensor of a supported type."""
    for i, md in enumerate(srcs):
        check_described(names.call, names.source(i), md)
        if md.format_kind == "any":
            what, hint = f"{names.call}: {names.source(i)} has no format", "specify a tag or strides"
            raise refuse("RS-N15:format-any-placeholder", what=what, md=md, hint=hint)


def chosen_desc(
    srcs: Sequence[MemoryDesc], dims: tuple[int, ...], data_type: DataType, starts: Sequence[int] = ()
) -> MemoryDesc:
    """Return a dense destination in the format of the first blocked source, else in that of the first.

    This is oneDNN's choice. With `starts`, (axis, first indices), formats in which a source would begin
    inside a block are excluded; if no other is left, the result has the order of axes of the first source.
    """
    axis, *firsts = starts or (0,)
    fitting = [Tag(md.outer_order, *md.layout.inner) for md in srcs if _fits(md.layout.blocks[axis], firsts)]
    blocked = [tag for tag in fitting if tag.inner_blks]
    return MemoryDesc(dims, data_type, (*blocked, *fitting, Tag(srcs[0].outer_order))[0])


def _fits(block: int, firsts: Sequence[int]) -> bool:
    return all(first % block == 0 for first in firsts)


def source_slot(index: int) -> int:
    """Return the slot of source `index`: the first one is before the destination, the others after it."""
    return index if index == 0 else index + DST
