"""What primitives share: descriptors that may be empty, queries, checks (P01 to P06, R02 to R05)."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, ClassVar

from ..desc.attr import Attr, PrimitiveAttr
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_bool, parse_int
from ..errors import Error, InvalidArguments
from ..runtime.cache import LruCache, shared_cache
from ..runtime.engine import Engine
from ..runtime.facts import header
from ..runtime.memory import Memory
from ..runtime.stream import Stream
from ..verbose import flags, set_header, write
from .args import ARG_SCRATCHPAD, is_output
from .query import Query, parse_integer_query, parse_md_query

set_header(header)


Describe = Callable[[str, Any, float], Iterable[object]]


def _tell_evicted(solved: Any) -> None:
    if flags.profile_create:
        impl, describe = solved
        write(describe("cache:evict", impl, 0.0))


# Implementations, each with what describes it in verbose lines.
_implementations: LruCache[Any] = shared_cache("primitives", _tell_evicted)
_NO_DESC = MemoryDesc()
DEFAULT_ATTR = Attr()


class PrimitiveDescBase:
    """A primitive descriptor (`dnnl::primitive_desc_base`): empty and False, or a checked, solved problem."""

    kind: ClassVar[str]

    __slots__ = ("_attr", "_dst", "_dst_engine", "_engine", "_impl", "_src", "_src_engine")
    _attr: Attr
    _src: MemoryDesc
    _dst: MemoryDesc
    _src_engine: Engine | None
    _dst_engine: Engine | None
    _engine: Engine | None
    _impl: Any

    def __init__(self, *args: Any, **named: Any) -> None:
        self._empty()
        if not (args or named):
            return
        is_empty_allowed = named.get("allow_empty", False)
        try:
            given = self._given(args, named)
            is_empty_allowed = parse_bool("allow_empty", given.allow_empty)
            self._create(given)
        except Error:
            if not parse_bool("allow_empty", is_empty_allowed):
                raise
            self._empty()

    def _given(self, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """The arguments by their names, `allow_empty` among them. Raises WrongCall where they do not fit."""
        raise NotImplementedError

    def _create(self, given: Any) -> None:
        """Check the arguments, find what solves the problem, and keep all that is asked for."""
        raise NotImplementedError

    def _empty(self) -> None:
        self._src = self._dst = _NO_DESC
        self._src_engine = self._dst_engine = self._engine = None
        self._attr, self._impl = DEFAULT_ATTR, None

    def __bool__(self) -> bool:
        return self._impl is not None

    def __repr__(self) -> str:
        if not self:
            return f"restride.{self.kind}.PrimitiveDesc()"
        return f"<{self.kind} {self.impl_info_str}: {self._src} -> {self._dst}>"

    def _solved(self) -> Any:
        if self._impl is None:
            raise InvalidArguments(
                f"{self.kind}: the primitive descriptor is empty",
                code="RS-R04",
                why="it was made without arguments, or with allow_empty=True for what cannot be solved",
                hint="test bool(pd) before using it",
            )
        return self._impl

    @property
    def impl_info_str(self) -> str:
        """What runs: `jit:<instruction set>:<kind of kernel>`, or `ref:any` on the reference engine."""
        return str(self._solved().name)

    def src_desc(self, index: int = 0) -> MemoryDesc:
        """The descriptor of a source; the zero descriptor where there is none (R03)."""
        return self.query_md(Query.src_md, index)

    def dst_desc(self, index: int = 0) -> MemoryDesc:
        """The descriptor of a destination; the zero descriptor where there is none."""
        return self.query_md(Query.dst_md, index)

    def weights_desc(self, index: int = 0) -> MemoryDesc:
        """The descriptor of weights; the zero descriptor where there are none."""
        return self.query_md(Query.weights_md, index)

    def diff_src_desc(self, index: int = 0) -> MemoryDesc:
        """The descriptor of a source's gradient; the zero descriptor where there is none."""
        return self.query_md(Query.diff_src_md, index)

    def diff_dst_desc(self, index: int = 0) -> MemoryDesc:
        """The descriptor of a destination's gradient; the zero descriptor where there is none."""
        return self.query_md(Query.diff_dst_md, index)

    def diff_weights_desc(self, index: int = 0) -> MemoryDesc:
        """The descriptor of the gradient of weights; the zero descriptor where there is none."""
        return self.query_md(Query.diff_weights_md, index)

    def workspace_desc(self) -> MemoryDesc:
        """The descriptor of what forward leaves to backward; the zero descriptor where there is none."""
        return self.query_md(Query.workspace_md)

    def scratchpad_desc(self) -> MemoryDesc:
        """What user mode passes as `rs.ARG_SCRATCHPAD`; the zero descriptor where none is needed (R33)."""
        return self.query_md(Query.scratchpad_md)

    def get_engine(self) -> Engine:
        """The engine that runs the primitive."""
        self._solved()
        assert self._engine is not None
        return self._engine

    def scratchpad_engine(self) -> Engine:
        """The engine a scratchpad would be on."""
        return self.get_engine()

    def get_primitive_attr(self) -> PrimitiveAttr:
        """A copy of the attributes; changing it changes nothing here (R08)."""
        self._solved()
        return PrimitiveAttr.of(self._attr)

    def get_kind(self) -> str:
        """The primitive kind, such as "reorder"."""
        return self.kind.lower()

    def query_md(self, what: Query | str, index: int = 0) -> MemoryDesc:
        """A descriptor: `Query.src_md`, "src_md", "src", ...; exec_arg_md goes by argument number (R03).

        What the primitive has not, and any other index, gives the zero descriptor. Raises InvalidArguments
        for what is no query of a descriptor.
        """
        query, number = parse_md_query(what), parse_int(index, "query_md: index")
        if query is Query.exec_arg_md:
            return self._exec_args().get(number, self._scratchpad(number == ARG_SCRATCHPAD))
        if query is Query.scratchpad_md:
            return self._scratchpad(number == 0)
        named = self._named().get(query.name.removesuffix("_md"), ())
        found = (named,) if isinstance(named, MemoryDesc) else named
        return found[number] if 0 <= number < len(found) else _NO_DESC

    def query_s64(self, what: Query | str) -> int:
        """An integer: `Query.memory_consumption_s64` or its word, ...; 0 for what the primitive has not.

        Memory consumption is the bytes of scratchpad that each execution allocates: none in user mode (R33).
        Raises InvalidArguments for what is no query of an integer.
        """
        return self._integers().get(parse_integer_query(what), 0)

    def _named(self) -> Mapping[str, MemoryDesc | tuple[MemoryDesc, ...]]:
        """The descriptors that the primitive has, by their names in queries."""
        return {"src": self._src, "dst": self._dst}

    def _integers(self) -> dict[Query, int]:
        """The integers that the primitive has."""
        args = self._exec_args() if self else ()
        outputs = sum(map(is_output, args))
        return {
            Query.memory_consumption_s64: 0 if self._attr.scratchpad == "user" else self._scratch_bytes(),
            Query.num_of_inputs_s32: len(args) - outputs,
            Query.num_of_outputs_s32: outputs,
        }

    def _scratch_bytes(self) -> int:
        return getattr(self._impl, "scratch_bytes", 0)

    def _scratchpad(self, is_asked: bool) -> MemoryDesc:
        is_needed = is_asked and self._attr.scratchpad == "user" and self._scratch_bytes()
        return MemoryDesc((self._scratch_bytes(),), "u8", "a") if is_needed else _NO_DESC

    def _scratch_args(self) -> tuple[int, ...]:
        """The scratchpad's number where an execution must bring one."""
        is_needed = self._attr.scratchpad == "user" and self._scratch_bytes()
        return (ARG_SCRATCHPAD,) if is_needed else ()

    def _exec_args(self) -> dict[int, MemoryDesc]:
        """The descriptors of what an execution must bring, by argument number, without the scratchpad."""
        raise NotImplementedError

    def _verbose_fields(self, op: str, impl: Any, ms: float) -> list[object]:
        """The fields of a verbose line (spec 1.6)."""
        raise NotImplementedError


def find_implementation(key: Hashable, make: Callable[[], Any], describe: Describe) -> Any:
    """The solved problem of `key` from the primitive cache, or made now; verbose says which (P16)."""
    start = time.perf_counter()
    (impl, _), is_hit = _implementations.get_or_make(key, lambda: (make(), describe))
    if flags.profile_create:
        ms = (time.perf_counter() - start) * 1e3
        write(describe(f"create:cache_{'hit' if is_hit else 'miss'}", impl, ms))
    return impl


def check_memory(call: str, name: str, memory: object, desc: MemoryDesc, engine: Engine) -> None:
    """Raise InvalidArguments unless `memory` is of `desc`, on `engine`, with data, not mapped (N10, M38).

    `call` is what the caller wrote, such as "Reorder.execute", and `name` what it calls the memory.
    """
    # No message is put together for a memory that will do: to print a descriptor takes 40 us.
    if not isinstance(memory, Memory):
        raise _unfit(
            "RS-V08",
            call,
            name,
            desc,
            f"{type(memory).__name__} is no rs.Memory",
            "pass rs.Memory(md, engine)",
        )
    if not memory:
        raise _unfit("RS-M36", call, name, desc, "the memory is empty", "give it a descriptor and an engine")
    if memory.desc != desc:
        hint = "make the primitive from this memory's descriptor, or reorder into the primitive's"
        raise _unfit("RS-R07", call, name, desc, "its descriptor is not the primitive's", hint, memory)
    if memory.engine is not engine:
        why = f"it is on engine {memory.engine}, and the call runs on {engine}"
        raise _unfit("RS-R05", call, name, desc, why, f"make the memory on engine {engine}", memory)
    if memory._mapped:
        raise _unfit(
            "RS-M38", call, name, desc, "the memory is mapped (M38)", "call unmap_data() first", memory
        )
    if memory._address == 0 and desc.nelems:
        hint = "call set_data_handle, or leave data out to allocate"
        raise _unfit("RS-M36", call, name, desc, "the memory has no buffer", hint, memory)


def _unfit(
    code: str, call: str, name: str, desc: MemoryDesc, why: str, hint: str, memory: Memory | None = None
) -> InvalidArguments:
    is_other = memory is not None and memory.desc != desc
    where = f"memory {memory.desc}; primitive {desc}" if memory and is_other else str(desc)
    return InvalidArguments(f"{call}: {name} will not do", code=code, where=where, why=why, hint=hint)


def check_destination(call: str, memory: Memory, name: str = "the destination") -> None:
    """Raise InvalidArguments for a read-only destination."""
    if memory.readonly:
        raise InvalidArguments(
            f"{call}: {name} is read-only",
            code="RS-A08",
            where=str(memory.desc),
            why="its buffer must not be written",
            hint="pass a writable buffer; read-only ones serve as sources",
        )


def check_stream(kind: str, stream: object, engine: Engine) -> None:
    """Raise InvalidArguments unless `stream` belongs to `engine` (R05)."""
    if not isinstance(stream, Stream):
        why = f"{type(stream).__name__} is no rs.Stream"
        raise InvalidArguments(
            f"{kind}.execute: no stream", code="RS-V08", why=why, hint="pass rs.Stream(engine)"
        )
    if stream.engine is not engine:
        raise InvalidArguments(
            f"{kind}.execute: the stream is another engine's",
            code="RS-R05",
            why=f"the stream is on {stream.engine}, the primitive on {engine}",
            hint=f'use rs.Stream(rs.Engine("{engine.name}", {engine.index}))',
        )
