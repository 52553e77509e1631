"""Reorder: copy a tensor between memory formats and data types (seed 001; R01 to R17, R39)."""

from __future__ import annotations

import time
from typing import Any

from ..desc.attr import Attr, PrimitiveAttr
from ..desc.memory_desc import MemoryDesc
from ..errors import Error, InvalidArguments
from ..runtime.engine import Engine
from ..runtime.event import Event
from ..runtime.memory import Memory
from ..runtime.stream import Stream
from ..verbose import flags, write
from .args import ARG_FROM, ARG_TO
from .argument_map import parse_args
from .base import (
    DEFAULT_ATTR,
    PrimitiveDescBase,
    check_destination,
    check_memory,
    check_stream,
    find_implementation,
)
from .compensation import check_outputs
from .feeding import check_feeds
from .problem import Problem, check_problem, solve
from .runtime_shapes import RuntimeReorder, check_fits
from .scratchpad import check_scratchpad

__all__ = ["Reorder"]


class ReorderPrimitiveDesc(PrimitiveDescBase):
    """Primitive descriptor of a reorder (`dnnl::reorder::primitive_desc`).

    `PrimitiveDesc(src_engine, src_md, dst_engine, dst_md, attr=None, allow_empty=False)`, or
    `PrimitiveDesc(src_mem, dst_mem, attr=None, allow_empty=False)`; without arguments it is empty and False.
    Attributes are copied (R08). With `allow_empty`, a failure gives an empty descriptor, not an error (R04).

    Raises InvalidArguments for descriptors that cannot be reordered, Unimplemented for what is not provided.
    """

    kind = "Reorder"

    __slots__ = ()

    def __init__(self, *args: Any, attr: PrimitiveAttr | None = None, allow_empty: bool = False) -> None:
        self._empty()
        if not args:
            return
        try:
            self._create(*_parse(args, attr))
        except Error:
            if not (allow_empty or _positional_allow_empty(args)):
                raise
            self._empty()

    def _create(self, src_engine: Engine, dst_engine: Engine, problem: Problem) -> None:
        engine = _engine_of(src_engine, dst_engine)
        self._impl = _find(problem, engine)
        # The caller's own descriptors, not equal ones of an earlier problem: execute compares by identity.
        self._src, self._dst, self._attr = problem.src, problem.dst, problem.attr
        self._src_engine, self._dst_engine, self._engine = src_engine, dst_engine, engine

    def __reduce__(self) -> tuple[Any, ...]:
        if not self:
            return ReorderPrimitiveDesc, ()
        args = (self._src_engine, self._src, self._dst_engine, self._dst, self.get_primitive_attr())
        return ReorderPrimitiveDesc, args

    def get_src_engine(self) -> Engine:
        """The engine of the source."""
        self._solved()
        assert self._src_engine is not None
        return self._src_engine

    def get_dst_engine(self) -> Engine:
        """The engine of the destination."""
        self._solved()
        assert self._dst_engine is not None
        return self._dst_engine

    def _exec_args(self) -> dict[int, MemoryDesc]:
        more = {} if self._impl is None else {**self._impl.chain.descs(), **self._impl.outputs}
        return {ARG_FROM: self._src, ARG_TO: self._dst, **more}


def _find(problem: Problem, engine: Engine) -> Any:
    """The solved problem, from the cache or now."""
    return find_implementation(
        (Problem, problem, engine),
        lambda: _solve(check_problem(problem), engine),
        lambda op, impl, ms: verbose_fields(op, impl, engine, ms),
    )


def _solve(problem: Problem, engine: Engine) -> Any:
    if problem.has_runtime:
        return RuntimeReorder(problem, engine, lambda concrete: _find(concrete, engine))
    return solve(problem, engine)


def _positional_allow_empty(args: tuple[Any, ...]) -> bool:
    place = 3 if isinstance(args[0], Memory) else 5
    return len(args) > place and bool(args[place])


def _parse(args: tuple[Any, ...], attr: PrimitiveAttr | None) -> tuple[Engine, Engine, Problem]:
    if isinstance(args[0], Memory):
        return _parse_memories(args, attr)
    if not 4 <= len(args) <= 6:
        raise _usage(f"{len(args)} arguments were given")
    src_engine, src, dst_engine, dst = args[:4]
    for name, engine in (("src_engine", src_engine), ("dst_engine", dst_engine)):
        if not isinstance(engine, Engine):
            raise _usage(f"{name} is no rs.Engine but {type(engine).__name__}")
    for name, md in (("src_md", src), ("dst_md", dst)):
        if not isinstance(md, MemoryDesc):
            raise _usage(f"{name} is no rs.MemoryDesc but {type(md).__name__}")
    return src_engine, dst_engine, Problem(src, dst, _frozen(args[4:5], attr))


def _parse_memories(args: tuple[Any, ...], attr: PrimitiveAttr | None) -> tuple[Engine, Engine, Problem]:
    if not 2 <= len(args) <= 4 or not isinstance(args[1], Memory):
        raise _usage("a source memory wants a destination memory beside it")
    src, dst = args[:2]
    for name, memory in (("src", src), ("dst", dst)):
        if not memory:
            raise _usage(f"the {name} memory is empty")
    return src.engine, dst.engine, Problem(src.desc, dst.desc, _frozen(args[2:3], attr))


def _frozen(positional: tuple[Any, ...], keyword: PrimitiveAttr | None) -> Attr:
    if positional and keyword is not None:
        raise _usage("attr is given twice")
    attr = positional[0] if positional else keyword
    if attr is None:
        return DEFAULT_ATTR
    if isinstance(attr, PrimitiveAttr):
        return attr.freeze()
    raise _usage(f"attr is no rs.PrimitiveAttr but {type(attr).__name__}")


def _usage(why: str) -> InvalidArguments:
    return InvalidArguments(
        "Reorder.PrimitiveDesc: wrong arguments",
        why=why,
        hint="(src_engine, src_md, dst_engine, dst_md, attr=None, allow_empty=False) or "
        "(src_mem, dst_mem, attr=None, allow_empty=False)",
    )


def _engine_of(src: Engine, dst: Engine) -> Engine:
    """Both engines here are on the host: where they differ, the reference one does it."""
    return src if src.kind == "reference" else dst


def verbose_fields(op: str, impl: Any, engine: Engine, ms: float) -> list[object]:
    """The fields of one verbose line about a reorder (spec 1.6)."""
    problem: Problem = impl.problem
    mds = f"{problem.src.verbose_str('src')} {problem.dst.verbose_str('dst')}"
    dims = "x".join(map(str, problem.dst.dims))
    attrs = problem.attr.verbose_str()
    aux = f"why:{impl.why}"
    return [op, engine.kind, "reorder", impl.name, "undef", mds, attrs, aux, dims, ms]


class Reorder:
    """The reorder primitive (`dnnl::reorder`): `dst(x) = saturate(alpha * src(x) + beta * dst(x))`.

    `Reorder(pd)`, or `Reorder(src_mem, dst_mem, attr=None)`; without arguments it is empty, and executing it
    is an error. A primitive holds no state of its runs: any number of threads may execute one at once (N12).
    """

    PrimitiveDesc = ReorderPrimitiveDesc

    __slots__ = ("_call", "_dst", "_dst_engine", "_engine", "_impl", "_params", "_pd", "_src", "_src_engine")

    def __init__(self, *args: Any, attr: PrimitiveAttr | None = None) -> None:
        is_made = len(args) == 1 and isinstance(args[0], ReorderPrimitiveDesc)
        if is_made and attr is not None:
            raise _usage("a primitive descriptor has its attributes already")
        self._pd: ReorderPrimitiveDesc = args[0] if is_made else ReorderPrimitiveDesc(*args, attr=attr)
        pd = self._pd
        self._src, self._dst = pd._src, pd._dst
        self._engine, self._src_engine, self._dst_engine = pd._engine, pd._src_engine, pd._dst_engine
        self._call = self._impl = None
        self._params = 0
        if args:
            self._impl = pd._solved()
            self._call = self._impl.prepare()
            self._params = getattr(self._impl, "params", 0)

    def __bool__(self) -> bool:
        return self._impl is not None

    def __repr__(self) -> str:
        return f"restride.Reorder({self._pd!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Machine code does not travel: the copy is made of the descriptor, and finds or compiles its own.
        return Reorder, ((self._pd,) if self else ())

    def get_kind(self) -> str:
        """The primitive kind, as its descriptor has it."""
        return self._pd.get_kind()

    def get_primitive_desc(self) -> ReorderPrimitiveDesc:
        """The primitive descriptor."""
        return self._pd

    def execute(self, stream: Stream, src: Any, dst: Memory | None = None) -> None:
        """`execute(stream, src, dst)`, or `execute(stream, {rs.ARG_FROM: src, rs.ARG_TO: dst})`.

        Raises InvalidArguments, before anything is touched, for memories or streams that are not the
        primitive's, for a read-only or mapped destination, and for source and destination that overlap
        (N9, N10).
        """
        # Every condition under which the call is surely right; all else is sorted out by the slow form.
        if (
            self._call is None
            or dst is None
            or type(src) is not Memory
            or type(dst) is not Memory
            or src._desc is not self._src
            or dst._desc is not self._dst
            or type(stream) is not Stream
            or stream._engine is not self._engine
            or src._engine is not self._src_engine
            or dst._engine is not self._dst_engine
            or src._mapped
            or dst._mapped
            or (read := src._buffer) is None
            or (written := dst._buffer) is None
            or written[2]
            or (src._lo < dst._hi and dst._lo < src._hi)
            or flags.profile_exec
        ):
            self._execute_checked(stream, src, dst)
            return
        # The buffers are held by name: another thread may give the memories others meanwhile.
        self._call(read[0], written[0], self._params)

    def execute_sycl(self, stream: Stream, src: Memory, dst: Memory, deps: Any = ()) -> Event:
        """Run on a SYCL stream and return its event. Raises InvalidArguments on every other engine (P08)."""
        self._check_usable()
        raise InvalidArguments(
            "Reorder.execute_sycl: the engine is no SYCL device",
            where=f"engine {self._engine}",
            why="only streams made from a SYCL queue have events",
            hint="use execute(stream, src, dst)",
        )

    def _execute_checked(self, stream: Stream, src: Any, dst: Any) -> None:
        impl = self._check_usable()
        inputs, outputs = (ARG_FROM, *impl.chain.args, *self._pd._scratch_args()), (*impl.outputs, ARG_TO)
        if dst is not None:
            src, dst = {ARG_FROM: src, ARG_TO: dst}, None
        *found, dst = parse_args("Reorder", src, inputs, outputs)
        src, extras = found[0], dict(zip((*inputs[1:], *impl.outputs), found[1:], strict=True))
        assert self._engine is not None
        check_stream("Reorder", stream, self._engine)
        impl = self._check_both(impl, src, dst)
        check_destination("Reorder", dst)
        self._check_overlap(src, dst)
        check_feeds("Reorder", impl.chain, extras, self._engine, dst)
        check_scratchpad("Reorder", self._pd, src, dst, extras)
        if impl.outputs:
            check_outputs("Reorder", impl.outputs, extras, dst)
        start = time.perf_counter()
        impl.run(src, dst, extras)
        if flags.profile_exec:
            write(verbose_fields("exec", impl, self._engine, (time.perf_counter() - start) * 1e3))

    def _check_both(self, impl: Any, src: Memory, dst: Memory) -> Any:
        """Check source and destination; the implementation for them."""
        assert self._src_engine is not None
        assert self._dst_engine is not None
        is_open = isinstance(impl, RuntimeReorder)
        for name, memory, md, engine in (
            ("src", src, self._src, self._src_engine),
            ("dst", dst, self._dst, self._dst_engine),
        ):
            check_memory("Reorder", name, memory, getattr(memory, "desc", md) if is_open else md, engine)
            if is_open:
                check_fits("Reorder", name, memory, md)
        return impl.concrete(src, dst) if is_open else impl

    def _check_usable(self) -> Any:
        if self._impl is None:
            raise InvalidArguments(
                "Reorder.execute: the primitive is empty",
                why="it was made without a primitive descriptor (R05)",
                hint="make it with rs.Reorder(pd) or rs.Reorder(src, dst)",
            )
        return self._impl

    def _check_overlap(self, src: Memory, dst: Memory) -> None:
        if not overlaps(src, dst):
            return
        raise InvalidArguments(
            "Reorder.execute: source and destination overlap",
            where=f"src {src.desc}; dst {dst.desc}",
            why="elements would be written before they are read (N9)",
            hint="use another buffer; in place works where layout, element size and address are the same",
        )


def overlaps(src: Memory, dst: Memory) -> bool:
    """True where writing `dst` could change `src` before it is read: all but same-place conversions (N9)."""
    if src._lo >= dst._hi or dst._lo >= src._hi:
        return False
    return not (src._address == dst._address and is_same_place(src.desc, dst.desc))


def is_same_place(src: MemoryDesc, dst: MemoryDesc) -> bool:
    """True for descriptors that put each element at the same byte."""
    return src.layout == dst.layout and src.data_type.bits == dst.data_type.bits
