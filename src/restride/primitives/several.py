"""Primitives of several sources and one destination: what concat and sum share (R02 to R08, N10)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

from ..desc.factor import MOST_SOURCES
from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments
from ..runtime.alloc import Buffer
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.stream import Stream
from ..verbose import flags, write
from .args import ARG_DST, ARG_MULTIPLE_SRC
from .argument_map import parse_args
from .base import PrimitiveDescBase, check_destination, check_memory, check_stream
from .calls import Form
from .execution import share_bytes
from .feeding import Extras
from .given import parse_engine
from .handle import PrimitiveHandle, described
from .scratchpad import check_scratchpad
from .several_checks import Names
from .submitting import run_on


class SeveralPrimitiveDesc(PrimitiveDescBase):
    """A primitive descriptor of several sources; sources are numbered from 0."""

    form: ClassVar[Form[Any]]

    __slots__ = ("_srcs",)
    _srcs: tuple[MemoryDesc, ...]

    def _given(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        return self.form.of(*_reordered(args, named))

    def _create(self, given: Any) -> None:
        """Check the arguments, find the solution, and `_take` both."""
        what, engine = self.form.what, parse_engine(self.form.what, given.engine)
        mds, target = parse_descs(what, given.srcs), parse_target(what, given.dst)
        problem = self._problem(what, given, mds, target)
        self._take(engine, problem, self._find(problem, engine), (mds, target))

    def _problem(self, what: str, given: Any, srcs: tuple[MemoryDesc, ...], dst: MemoryDesc | None) -> Any:
        """The checked problem of the arguments `given`, whose descriptors are `srcs` and `dst`."""
        raise NotImplementedError

    @staticmethod
    def _find(problem: Any, engine: Engine) -> Any:
        """The solved problem, from the cache or now."""
        raise NotImplementedError

    def _factor(self) -> object:
        """The argument of this kind: the axis, or the scales."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        if not self:
            return type(self), ()
        args = (self._engine, self._factor(), self._srcs, self._dst, self.get_primitive_attr())
        return type(self), args

    def _take(
        self, engine: Engine, problem: Any, impl: Any, mds: tuple[tuple[MemoryDesc, ...], MemoryDesc | None]
    ) -> None:
        """Hold a solved problem of the descriptors `mds`, sources and destination."""
        self._impl, self._attr = impl, problem.attr
        # The caller's own descriptors, not equal ones of an earlier problem: execute compares by identity.
        self._srcs, dst = mds
        self._dst = dst if dst == problem.dst and dst is not None else problem.dst
        self._src = self._srcs[0]
        self._src_engine = self._dst_engine = self._engine = engine

    def _empty(self) -> None:
        super()._empty()
        self._srcs = ()

    def __repr__(self) -> str:
        if not self:
            return f"restride.{self.kind}.PrimitiveDesc()"
        return f"<{self.kind} {self.impl_info_str}: {len(self._srcs)} sources -> {self._dst}>"

    def _named(self) -> Mapping[str, MemoryDesc | tuple[MemoryDesc, ...]]:
        return {"src": self._srcs, "dst": self._dst}

    def _exec_args(self) -> dict[int, MemoryDesc]:
        more = {} if self._impl is None else self._impl.extra_descs()
        return {**dict(enumerate(self._srcs, ARG_MULTIPLE_SRC)), ARG_DST: self._dst, **more}

    def _verbose_fields(self, op: str, impl: Any, ms: float) -> list[object]:
        return list(impl.verbose_fields(op, self.get_engine(), ms))


def _reordered(args: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Version 3 of oneDNN has the destination behind the engine: (engine, dst, how, srcs, ...)."""
    if len(args) < 2 or not isinstance(args[1], MemoryDesc):
        return args, named
    engine, dst, *others = args
    if len(others) < 2 and "dst" not in named:
        return (engine, *others), {**named, "dst": dst}
    return (engine, *others[:2], dst, *others[2:]), named


class SeveralPrimitive(PrimitiveHandle):
    """A primitive of several sources. It holds no state of its runs: threads may share it (N12)."""

    PrimitiveDesc: ClassVar[type[SeveralPrimitiveDesc]]

    __slots__ = ("_dst", "_engine", "_run_apart", "_srcs")
    _run_apart: Callable[[Sequence[int], int], None] | None

    def __init__(self, pd: Any = None) -> None:
        self._pd = described(self.kind, self.PrimitiveDesc, pd)
        self._srcs, self._dst, self._engine = self._pd._srcs, self._pd._dst, self._pd._engine
        self._impl = self._run_apart = None
        if pd is not None:
            self._impl = self._pd._solved()
            self._impl.prepare()
            if not self._impl.extra_args and not self._pd._scratch_args():
                self._run_apart = getattr(self._impl, "run_apart", None)

    def execute(self, stream: Stream, srcs: Any, dst: Memory | None = None) -> None:
        """`execute(stream, srcs, dst)`, `srcs` a sequence of memories, or `execute(stream, args)`.

        `args` names source i as `rs.ARG_MULTIPLE_SRC + i` and the destination as `rs.ARG_DST`.
        Raises InvalidArguments, before anything is touched, for memories or streams that are not the
        primitive's, for a read-only or mapped destination, and for a source that overlaps the destination
        other than in its place (N9, N10).
        """
        buffers = self._fitting(stream, srcs, dst)
        if buffers is not None and self._run_apart is not None:
            *read, written = buffers
            self._run_apart([buffer[0] for buffer in read], written[0])
            return
        self._execute_checked(stream, srcs, dst)

    def _fitting(self, stream: Stream, srcs: Any, dst: Memory | None) -> list[Buffer] | None:
        """The buffers of sources and destination where all is surely right; None where it must be sorted out.

        They are held by name: another thread may give the memories others meanwhile.
        """
        engine = self._engine
        if (
            self._run_apart is None
            or type(srcs) not in (list, tuple)
            or len(srcs) != len(self._srcs)
            or type(stream) is not Stream
            or stream._engine is not engine
            or flags.profile_exec
            or (written := _buffer_of(dst, self._dst, engine)) is None
            or written[2]
        ):
            return None
        assert dst is not None
        low, high, found = dst._lo, dst._hi, []
        for memory, desc in zip(srcs, self._srcs, strict=True):
            buffer = _buffer_of(memory, desc, engine)
            if buffer is None or (memory._lo < high and low < memory._hi):
                return None
            found.append(buffer)
        return [*found, written]

    def _execute_checked(self, stream: Stream, src: Any, dst: Memory | None, deps: Sequence[Any] = ()) -> Any:
        impl, engine = self._check_usable(), self._pd.get_engine()
        args = src if dst is None else self._numbered(src, dst)
        sources, dst, extras = self._parse(args)
        check_stream(self.kind, stream, engine)
        check_run(Names(f"{self.kind}.execute"), (sources, dst, extras), impl, engine)
        others = {**dict(enumerate(sources[1:], ARG_MULTIPLE_SRC + 1)), **extras}
        check_scratchpad(f"{self.kind}.execute", self._pd, sources[0], dst, others)
        start = time.perf_counter()
        event = run_on(impl, stream, deps, (sources, dst, extras))
        if flags.profile_exec:
            event.wait()
            write(self._pd._verbose_fields("exec", impl, (time.perf_counter() - start) * 1e3))
        return event

    def _parse(self, args: Any) -> tuple[list[Memory], Memory, Extras]:
        """Sources, destination, and what else is needed: scales, the scratchpad."""
        count, more = len(self._pd._srcs), (*self._impl.extra_args, *self._pd._scratch_args())
        numbers = (*range(ARG_MULTIPLE_SRC, ARG_MULTIPLE_SRC + count), *more)
        *found, dst = parse_args(self._pd, args, numbers, (ARG_DST,))
        return found[:count], dst, dict(zip(more, found[count:], strict=True))

    def _numbered(self, srcs: Any, dst: Memory) -> dict[int, Any]:
        """Sources in order as arguments."""
        wanted = len(self._pd._srcs)
        memories = _listed(srcs)
        if memories is not None and len(memories) == wanted:
            return {**dict(enumerate(memories, ARG_MULTIPLE_SRC)), ARG_DST: dst}
        got = f"{type(srcs).__name__} was" if memories is None else f"{len(memories)} were"
        raise InvalidArguments(
            f"{self.kind}.execute: bad number of inputs",
            code="RS-R06",
            why=f"{wanted} sources are wanted, {got} given (R06)",
            hint="pass a list of memories in the order of the descriptors, or a dict of arguments",
        )


def _listed(srcs: Any) -> Sequence[Any] | None:
    """The items of a sequence; None for what is none, or raises when it is asked for them."""
    if type(srcs) is list or type(srcs) is tuple:
        return srcs
    if not isinstance(srcs, Sequence) or isinstance(srcs, str | bytes):
        return None
    try:
        return list(islice(srcs, MOST_SOURCES + 1))
    except Exception:
        return None


def _buffer_of(memory: Memory | None, desc: MemoryDesc, engine: Engine | None) -> Buffer | None:
    """The buffer of a memory that is surely the primitive's; None for others, and for those without one."""
    if type(memory) is not Memory or memory._engine is not engine or memory._mapped:
        return None
    return memory._buffer if memory._desc is desc or memory._desc == desc else None


def check_run(
    names: Names, given: tuple[Sequence[Memory], Memory, Extras], impl: Any, engine: Engine
) -> None:
    """Raise InvalidArguments unless memories are the problem's, and apart where they must be (N9, N10)."""
    sources, dst, extras = given
    problem = impl.problem
    for i, (memory, desc) in enumerate(zip(sources, problem.srcs, strict=True)):
        check_memory(names.call, names.source(i), memory, desc, engine)
    check_memory(names.call, names.dst, dst, problem.dst, engine)
    check_destination(names.call, dst, names.written)
    for i, memory in enumerate(sources):
        if share_bytes(memory, dst) and not impl.is_in_place(i, memory, dst):
            raise InvalidArguments(
                f"{names.call}: {names.source(i)} and {names.written} overlap",
                code="RS-N09",
                where=f"{names.source(i)} {memory.desc}; {names.dst} {dst.desc}",
                why="elements would be written before they are read (N9)",
                hint=impl.in_place_hint,
            )
    impl.check_extras(names.call, extras, engine, dst)


# --- arguments ----------------------------------------------------------------------------------------------


def parse_descs(what: str, srcs: object) -> tuple[MemoryDesc, ...]:
    """The descriptors of the sources. Raises InvalidArguments for none, too many, and what is no tensor."""
    if isinstance(srcs, MemoryDesc | str | bytes) or not isinstance(srcs, Iterable):
        why = f"they are {type(srcs).__name__}, no sequence"
        raise InvalidArguments(
            f"{what}: no sources", code="RS-A13", why=why, hint="pass a list of rs.MemoryDesc"
        )
    try:
        found = tuple(islice(srcs, MOST_SOURCES + 1))
    except Exception as error:  # a foreign iterator may raise anything
        why = f"{type(srcs).__name__} cannot be gone through: {str(error)[:200] or type(error).__name__}"
        raise InvalidArguments(
            f"{what}: no sources", code="RS-A13", why=why, hint="pass a list of rs.MemoryDesc"
        ) from None
    if not 1 <= len(found) <= MOST_SOURCES:
        why = "there are more" if found else "there is none"
        hint = "join some of them first" if found else "pass a list of rs.MemoryDesc"
        raise InvalidArguments(f"{what}: from 1 to {MOST_SOURCES} sources", code="RS-A13", why=why, hint=hint)
    for i, md in enumerate(found):
        if not isinstance(md, MemoryDesc):
            why = f"{type(md).__name__} is no rs.MemoryDesc"
            raise InvalidArguments(
                f"{what}: source {i} is no descriptor", code="RS-V08", why=why, hint="pass a rs.MemoryDesc"
            )
    return found


def parse_target(what: str, dst: object) -> MemoryDesc | None:
    """The descriptor of the destination; None where it is left out."""
    if dst is None or isinstance(dst, MemoryDesc):
        return dst
    why = f"{type(dst).__name__} is no rs.MemoryDesc"
    raise InvalidArguments(
        f"{what}: dst is no descriptor", code="RS-V08", why=why, hint="pass a rs.MemoryDesc, or leave it out"
    )
