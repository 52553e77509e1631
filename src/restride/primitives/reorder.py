"""Reorder: copy a tensor between memory formats and data types (seed 001; R01 to R17, R39)."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..desc.attr import Attr, PrimitiveAttr
from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from .args import ARG_FROM, ARG_TO
from .base import DEFAULT_ATTR, PrimitiveDescBase, check_memory, find_implementation
from .calls import Form, signature
from .compensation import check_outputs
from .execution import MovingPrimitive, share_bytes
from .feeding import Extras, check_feeds
from .problem import Problem, check_problem, solve
from .runtime_shapes import RuntimeReorder, check_fits

__all__ = ["Reorder"]


_WHAT = "Reorder.PrimitiveDesc"


class _OfMds(NamedTuple):
    """The arguments of a primitive descriptor: descriptors, each on an engine."""

    src_engine: Any
    src_md: Any
    dst_engine: Any
    dst_md: Any
    attr: Any = None
    allow_empty: bool = False

    def parsed(self) -> tuple[Engine, Engine, Problem]:
        """Both engines, and the problem, which is not checked yet."""
        src_engine, src, dst_engine, dst, attr, _ = self
        for name, engine in (("src_engine", src_engine), ("dst_engine", dst_engine)):
            if not isinstance(engine, Engine):
                raise _usage(f"{name} is no rs.Engine but {type(engine).__name__}")
        for name, md in (("src_md", src), ("dst_md", dst)):
            if not isinstance(md, MemoryDesc):
                raise _usage(f"{name} is no rs.MemoryDesc but {type(md).__name__}")
        return src_engine, dst_engine, Problem(src, dst, _frozen(attr))


class _OfMemories(NamedTuple):
    """The arguments of a primitive descriptor: memories, which have both."""

    src_mem: Any
    dst_mem: Any
    attr: Any = None
    allow_empty: bool = False

    def parsed(self) -> tuple[Engine, Engine, Problem]:
        """Both engines, and the problem, which is not checked yet."""
        src, dst, attr, _ = self
        for name, memory in (("src_mem", src), ("dst_mem", dst)):
            if not isinstance(memory, Memory):
                raise _usage(f"{name} is no rs.Memory but {type(memory).__name__}")
            if not memory:
                raise _usage(f"the {name[:3]} memory is empty")
        return src.engine, dst.engine, Problem(src.desc, dst.desc, _frozen(attr))


def _frozen(attr: object) -> Attr:
    if attr is None:
        return DEFAULT_ATTR
    if isinstance(attr, PrimitiveAttr):
        return attr.freeze()
    raise _usage(f"attr is no rs.PrimitiveAttr but {type(attr).__name__}")


_OF_MDS = Form(
    _WHAT,
    signature("src_engine", "src_md", "dst_engine", "dst_md", attr=None, allow_empty=False),
    _OfMds,
)
_OF_MEMORIES = Form(_WHAT, signature("src_mem", "dst_mem", attr=None, allow_empty=False), _OfMemories)


def _usage(why: str) -> InvalidArguments:
    hint = f"{_OF_MDS.shown} or {_OF_MEMORIES.shown}"
    return InvalidArguments(f"{_WHAT}: wrong arguments", code="RS-V07", why=why, hint=hint)


class ReorderPrimitiveDesc(PrimitiveDescBase):
    """Primitive descriptor of a reorder (`dnnl::reorder::primitive_desc`).

    `PrimitiveDesc(src_engine, src_md, dst_engine, dst_md, attr=None, allow_empty=False)`, or
    `PrimitiveDesc(src_mem, dst_mem, attr=None, allow_empty=False)`; without arguments it is empty and False.
    Attributes are copied (R08). With `allow_empty`, a failure gives an empty descriptor, not an error (R04).

    Raises InvalidArguments for descriptors that cannot be reordered, Unimplemented for what is not provided.
    """

    kind = "Reorder"
    __signature__ = _OF_MDS.shown

    __slots__ = ()

    def _given(self, args: tuple[Any, ...], named: dict[str, Any]) -> _OfMds | _OfMemories:
        is_of_memories = bool(args and isinstance(args[0], Memory)) or "src_mem" in named
        return (_OF_MEMORIES if is_of_memories else _OF_MDS).of(args, named)

    def _create(self, given: _OfMds | _OfMemories) -> None:
        src_engine, dst_engine, problem = given.parsed()
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

    def _verbose_fields(self, op: str, impl: Any, ms: float) -> list[object]:
        return verbose_fields(op, impl, self.get_engine(), ms)


def _find(problem: Problem, engine: Engine) -> Any:
    """The solved problem, from the cache or now; other values of attributes find the same nest and kernel."""
    if problem.attr.has_shapes:
        # Of what fits the shape is no part of the key: a list of the same values finds it.
        problem = check_problem(problem)
    impl = find_implementation(
        (Problem, problem.structure(), engine),
        lambda: _solve(check_problem(problem), engine),
        lambda op, impl, ms: problem_fields(op, impl, problem, engine, ms),
    )
    return impl if impl.problem.attr == problem.attr else impl.with_values(problem)


def _solve(problem: Problem, engine: Engine) -> Any:
    if problem.has_runtime:
        return RuntimeReorder(problem, engine, lambda concrete: _find(concrete, engine))
    return solve(problem, engine)


def _engine_of(src: Engine, dst: Engine) -> Engine:
    """Which of the two does it: a device, the destination's first; of two on the host the reference one."""
    for engine in (dst, src):
        if not engine.device.is_host:
            return engine
    return src if src.kind == "reference" else dst


def verbose_fields(op: str, impl: Any, engine: Engine, ms: float) -> list[object]:
    """The fields of one verbose line about a reorder (spec 1.6)."""
    return problem_fields(op, impl, impl.problem, engine, ms)


def problem_fields(op: str, impl: Any, problem: Problem, engine: Engine, ms: float) -> list[object]:
    """The same about an implementation that has been found for a problem."""
    mds = f"{problem.src.verbose_str('src')} {problem.dst.verbose_str('dst')}"
    dims = "x".join(map(str, problem.dst.dims))
    attrs = problem.attr.verbose_str()
    aux = f"why:{impl.why}"
    return [op, engine.kind, "reorder", impl.name, "undef", mds, attrs, aux, dims, ms]


class Reorder(MovingPrimitive):
    """The reorder primitive (`dnnl::reorder`): `dst(x) = saturate(alpha * src(x) + beta * dst(x))`.

    `Reorder(pd)`, or `Reorder(src_mem, dst_mem, attr=None)`; without arguments it is empty, and executing it
    is an error. A primitive holds no state of its runs: any number of threads may execute one at once (N12).
    """

    PrimitiveDesc = ReorderPrimitiveDesc
    kind = "Reorder"
    reads, writes = ARG_FROM, ARG_TO
    usage = "rs.Reorder(pd) or rs.Reorder(src, dst)"

    __slots__ = ()

    def __init__(self, *args: Any, attr: PrimitiveAttr | None = None) -> None:
        is_made = len(args) == 1 and isinstance(args[0], ReorderPrimitiveDesc)
        if is_made and attr is not None:
            raise _usage("a primitive descriptor has its attributes already")
        named = {} if attr is None else {"attr": attr}
        self._hold(args[0] if is_made else ReorderPrimitiveDesc(*args, **named), empty=not args)

    def _more_args(self, impl: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        return impl.chain.args, tuple(impl.outputs)

    def _check_both(self, impl: Any, src: Memory, dst: Memory) -> Any:
        if not isinstance(impl, RuntimeReorder):
            return super()._check_both(impl, src, dst)
        _, src_engine, dst_engine = self._engines()
        call = f"{self.kind}.execute"
        for name, memory, md, engine in (
            ("src", src, self._src, src_engine),
            ("dst", dst, self._dst, dst_engine),
        ):
            check_memory(call, name, memory, getattr(memory, "desc", md), engine)
            check_fits(call, name, memory, md)
        return impl.concrete(src, dst)

    def _check_more(self, impl: Any, extras: Extras, src: Memory, dst: Memory) -> None:
        engine, call = self._engines()[0], f"{self.kind}.execute"
        check_feeds(call, impl.chain, extras, engine, dst)
        if impl.outputs:
            check_outputs(call, impl.outputs, extras, src, dst)

    def _check_overlap(self, src: Memory, dst: Memory) -> None:
        if not overlaps(src, dst):
            return
        raise InvalidArguments(
            "Reorder.execute: source and destination overlap",
            code="RS-N09",
            where=f"src {src.desc}; dst {dst.desc}",
            why="elements would be written before they are read (N9)",
            hint="use another buffer; in place works where layout, element size and address are the same",
        )


def overlaps(src: Memory, dst: Memory) -> bool:
    """True where writing `dst` could change `src` before it is read: all but same-place conversions (N9)."""
    if not share_bytes(src, dst):
        return False
    return not (src._address == dst._address and is_same_place(src.desc, dst.desc))


def is_same_place(src: MemoryDesc, dst: MemoryDesc) -> bool:
    """True for descriptors that put each element at the same byte."""
    return src.layout == dst.layout and src.data_type.bits == dst.data_type.bits
