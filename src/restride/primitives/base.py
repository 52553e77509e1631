"""What primitives share: descriptors that may be empty, queries, argument maps (P01 to P06, R02 to R06)."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, ClassVar, Protocol

from ..desc.attr import Attr, PrimitiveAttr
from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int, short_repr
from ..errors import InvalidArguments
from ..runtime.cache import LruCache, shared_cache
from ..runtime.engine import Engine
from ..runtime.facts import header
from ..runtime.memory import Memory
from ..runtime.stream import Stream
from ..verbose import Line, flags, set_header, write
from .args import ARG_SCRATCHPAD, NAMES, name_of

Args = dict[int, Memory]
_MOST_ARGS = 4096

set_header(header)


class Implementation(Protocol):
    """A problem solved for one engine: immutable, shared by every primitive of the same descriptor."""

    name: str
    why: str

    def run(self, src: Memory, dst: Memory, extras: Args) -> None:
        """Run on checked memories, those of other arguments in `extras`."""


_implementations: LruCache[Any] = shared_cache()
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
                why="it was made without arguments, or with allow_empty=True for what cannot be solved",
                hint="test bool(pd) before using it",
            )
        return self._impl

    @property
    def impl_info_str(self) -> str:
        """What runs: `jit:<instruction set>:<kind of kernel>`, or `ref:any` on the reference engine."""
        return str(self._solved().name)

    def src_desc(self) -> MemoryDesc:
        """The source descriptor; the zero descriptor when empty."""
        return self._src

    def dst_desc(self) -> MemoryDesc:
        """The destination descriptor; the zero descriptor when empty."""
        return self._dst

    def scratchpad_desc(self) -> MemoryDesc:
        """The zero descriptor: no scratchpad is ever needed (N12, R33)."""
        return _NO_DESC

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

    def query_md(self, what: str, index: int = 0) -> MemoryDesc:
        """A descriptor by name: "src", "dst", "scratchpad", ...; "exec_arg_md" by argument number (R03).

        What the primitive has not, and any other index, gives the zero descriptor.
        """
        number = parse_int(index, "query_md: index")
        if not isinstance(what, str) or what not in _MD_QUERIES:
            hint = f"use one of {', '.join(_MD_QUERIES)}"
            raise InvalidArguments(f"query_md: unknown query {short_repr(what)}", hint=hint)
        if what == "exec_arg_md":
            return self._exec_args().get(number, _NO_DESC)
        found = self._named().get(what)
        return found if found is not None and number == 0 else _NO_DESC

    def query_s64(self, what: str) -> int:
        """An integer by its name: "memory_consumption_s64" is 0 (R33)."""
        if not isinstance(what, str) or what != "memory_consumption_s64":
            hint = "use memory_consumption_s64"
            raise InvalidArguments(f"query_s64: unknown query {short_repr(what)}", hint=hint)
        return 0

    def _named(self) -> dict[str, MemoryDesc]:
        """The descriptors that the primitive has, by their names in queries."""
        return {"src": self._src, "dst": self._dst}

    def _exec_args(self) -> dict[int, MemoryDesc]:
        raise NotImplementedError

    def _verbose_fields(self, op: str, impl: Any, ms: float) -> list[object]:
        """The fields of a verbose line (spec 1.6)."""
        raise NotImplementedError


_MD_QUERIES = (
    "src", "dst", "weights", "diff_src", "diff_dst", "diff_weights", "workspace", "scratchpad", "exec_arg_md",
)  # fmt: skip


def find_implementation(key: Hashable, make: Any, describe: Any) -> Any:
    """The solved problem of `key` from the primitive cache, or made now; verbose says which."""
    start = time.perf_counter()
    impl, is_hit = _implementations.get_or_make(key, make)
    if flags.profile_create:
        ms = (time.perf_counter() - start) * 1e3
        write(describe(f"create:cache_{'hit' if is_hit else 'miss'}", impl, ms))
    return impl


def parse_args(kind: str, args: object, inputs: Iterable[int], outputs: Iterable[int]) -> list[Memory]:
    """The memories of an execution-argument map in the order inputs, outputs (R06).

    `args` is a dict, or an iterable of (number, memory) pairs, in which a number given twice is an error.
    Missing arguments and unknown outputs are errors; unknown inputs are ignored.
    """
    found = _distinct(kind, args)
    wanted_in, wanted_out = list(inputs), list(outputs)
    for role, wanted in (("inputs", wanted_in), ("outputs", wanted_out)):
        got = sum(arg in found for arg in wanted)
        if got < len(wanted):
            missing = ", ".join(name_of(arg) for arg in wanted if arg not in found)
            raise InvalidArguments(
                f"{kind}.execute: bad number of {role} (expected {len(wanted)} got {got})",
                why=f"argument {missing} is missing",
                hint=_usage(wanted_in, wanted_out),
            )
    extra = [arg for arg in found if _is_output(arg) and arg not in wanted_out and arg != ARG_SCRATCHPAD]
    if extra:
        got = len(wanted_out) + len(extra)
        raise InvalidArguments(
            f"{kind}.execute: bad number of outputs (expected {len(wanted_out)} got {got})",
            why=f"argument {', '.join(map(name_of, extra))} is no output of this primitive",
            hint="leave it out",
        )
    if flags.check and len(found) > len(wanted_in) + len(wanted_out):
        known = {*wanted_in, *wanted_out}
        names = " ".join(name_of(arg) for arg in found if arg not in known)
        write(Line("exec:check", "", kind.lower(), "", auxiliary=f"ignored arguments {names}"))
    return [found[arg] for arg in (*wanted_in, *wanted_out)]


def _usage(inputs: list[int], outputs: list[int]) -> str:
    names = [NAMES[arg] for arg in (*inputs, *outputs)]
    return f"pass {{{', '.join(f'rs.{name}: {name[4:].lower()}' for name in names)}}}"


def _distinct(kind: str, args: object) -> Args:
    found: Args = {}
    for arg, memory in _pairs(kind, args):
        number = parse_int(arg, f"{kind}.execute: argument number")
        if number in found:
            raise InvalidArguments(
                f"{kind}.execute: The same argument kind {number} is passed multiple times",
                where=f"argument {name_of(number)}",
                why="an argument names one memory (R06)",
                hint="pass each argument once",
            )
        found[number] = memory
    return found


def _pairs(kind: str, args: object) -> Iterator[tuple[object, Memory]]:
    """Argument numbers and memories as they come; never more than an argument map can have."""
    items = args.items() if isinstance(args, Mapping) else args
    try:
        for pair in islice(items, _MOST_ARGS):  # type: ignore[call-overload]
            arg, memory = pair
            yield arg, memory
    except (TypeError, ValueError):
        raise InvalidArguments(
            f"{kind}.execute: no argument map",
            why=f"{type(args).__name__} is neither a dict nor pairs of number and memory",
            hint="pass {number: memory}, for example {rs.ARG_SRC: src, rs.ARG_DST: dst}",
        ) from None


def _is_output(arg: int) -> bool:
    """Numbers 17 to 32 are destinations, 129 to 144 and 161 to 176 gradients that are written (P14)."""
    return 17 <= arg < 33 or 129 <= arg < 145 or 161 <= arg < 177


def check_memory(kind: str, name: str, memory: object, desc: MemoryDesc, engine: Engine) -> None:
    """Raise InvalidArguments unless `memory` is of `desc`, on `engine`, with data, not mapped (N10, M38)."""
    # No message is put together for a memory that will do: to print a descriptor takes 40 us.
    if not isinstance(memory, Memory):
        raise _unfit(
            kind, name, desc, f"{type(memory).__name__} is no rs.Memory", "pass rs.Memory(md, engine)"
        )
    if not memory:
        raise _unfit(kind, name, desc, "the memory is empty", "give it a descriptor and an engine")
    if memory.desc != desc:
        hint = "make the primitive from this memory's descriptor, or reorder into the primitive's"
        raise _unfit(kind, name, desc, "its descriptor is not the primitive's", hint, memory)
    if memory.engine is not engine:
        why = f"it is on engine {memory.engine}, the primitive expects {engine}"
        raise _unfit(kind, name, desc, why, "make the memory on the primitive's engine", memory)
    if memory._mapped:
        raise _unfit(kind, name, desc, "the memory is mapped (M38)", "call unmap_data() first", memory)
    if memory._address == 0 and desc.nelems:
        hint = "call set_data_handle, or leave data out to allocate"
        raise _unfit(kind, name, desc, "the memory has no buffer", hint, memory)


def _unfit(
    kind: str, name: str, desc: MemoryDesc, why: str, hint: str, memory: Memory | None = None
) -> InvalidArguments:
    where = f"memory {memory.desc}; primitive {desc}" if memory else f"primitive {desc}"
    return InvalidArguments(f"{kind}.execute: {name} will not do", where=where, why=why, hint=hint)


def check_destination(kind: str, memory: Memory) -> None:
    """Raise InvalidArguments for a read-only destination."""
    if memory.readonly:
        raise InvalidArguments(
            f"{kind}.execute: the destination is read-only",
            where=str(memory.desc),
            why="its buffer must not be written",
            hint="pass a writable buffer; read-only ones serve as sources",
        )


def check_stream(kind: str, stream: object, engine: Engine) -> None:
    """Raise InvalidArguments unless `stream` belongs to `engine` (R05)."""
    if not isinstance(stream, Stream):
        why = f"{type(stream).__name__} is no rs.Stream"
        raise InvalidArguments(f"{kind}.execute: no stream", why=why, hint="pass rs.Stream(engine)")
    if stream.engine is not engine:
        raise InvalidArguments(
            f"{kind}.execute: the stream is another engine's",
            why=f"the stream is on {stream.engine}, the primitive on {engine}",
            hint=f'use rs.Stream(rs.Engine("{engine.kind}", {engine.index}))',
        )
