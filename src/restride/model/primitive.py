"""The base class of primitives, and their execution (N9 to N12).

A primitive is a handle to its descriptor's implementation. Its only state is a cache of checks that have
passed, so any number of threads can execute one at the same time (N12).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, cast

from ..desc.arguments import ARG_SCRATCHPAD, name_of, short_name
from ..desc.memory_desc import MemoryDesc
from ..errors import refuse
from ..runtime.alloc import Buffer
from ..runtime.device import Waitable
from ..runtime.engine import Engine
from ..runtime.event import Event
from ..runtime.memory import Memory
from ..runtime.stream import Stream
from ..verbose import flags
from ..watching import Watch
from .argument_map import parse_args
from .base import PrimitiveDescBase
from .call import MOST_CALLS, Call
from .checks import (
    Names,
    check_destination,
    check_memory,
    check_operand,
    check_outputs,
    check_scratchpad,
    checked_stream,
    overlaps,
    share_bytes,
)
from .forms import own
from .implementation import Implementation

Memories = dict[int, Memory]


class Primitive:
    """The base class of all primitives: created from a descriptor, and executed with memory objects.

    `Primitive(pd)`; without arguments it is empty and False, and executing it is an error.
    """

    kind: ClassVar[str]
    PrimitiveDesc: ClassVar[type[PrimitiveDescBase]]
    # Whether source and destination can be the same memory if both have the same layout.
    _may_be_in_place: ClassVar[bool] = False
    # How to create one, for errors.
    usage: ClassVar[str] = ""

    __slots__ = (
        "_calls",
        "_impl",
        "_last",
        "_pd",
    )
    _impl: Implementation | None
    # The checks that have passed, and the last of them: replaced as a whole, so that threads can share it.
    _calls: dict[tuple[MemoryDesc, MemoryDesc], Call]
    _last: Call | None

    def __init_subclass__(cls) -> None:
        # Python names a method after the class where it was written, which callers never see.
        if "kind" in vars(cls):
            own(cls, "__init__", cls.kind)
            own(cls, "execute", f"{cls.kind}.execute")

    def __init__(self, pd: object = None) -> None:
        self._take(_checked_desc(self.kind, self.PrimitiveDesc, pd), is_empty=pd is None)

    def _take(self, pd: PrimitiveDescBase, *, is_empty: bool) -> None:
        """Store a descriptor; compile its program, unless the primitive is to be empty."""
        self._pd = pd
        self._impl = self._last = None
        self._calls = {}
        if is_empty:
            return
        self._impl = pd._implementation()
        self._impl.executable.prepare()

    def __bool__(self) -> bool:
        return self._impl is not None

    def __repr__(self) -> str:
        return f"restride.{self.kind}({self._pd!r})"

    def __reduce__(self) -> tuple[object, ...]:
        # Machine code is not pickled: the copy is created from the descriptor, and finds or compiles its own.
        return type(self), ((self._pd,) if self else ())

    def get_primitive_desc(self) -> Any:
        """Return the primitive descriptor."""
        return self._pd

    def get_kind(self) -> str:
        """Return the primitive kind, as in its descriptor."""
        return self._pd.get_kind()

    # --- execution ------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **named: Any) -> None:
        """Call `execute`, because a primitive is a function object."""
        self.execute(*args, **named)

    def execute(
        self,
        stream: Stream | None = None,
        src: object = None,
        dst: Memory | None = None,
        *,
        astream: Stream | None = None,
    ) -> None:
        """Execute: `execute(stream, src, dst)` with inputs first, or `execute(stream, {number: memory})`.

        `astream` is oneDNN's name for `stream`. Raises InvalidArguments, before anything is touched, for
        memory objects or streams that do not match the primitive, for a read-only or mapped destination, and
        for a source that overlaps the destination (N9, N10).
        """
        call = self._last
        if call is None or dst is None or flags.profile or call.run(stream, src, dst) is None:
            self._execute(astream if stream is None else stream, src, dst)

    def execute_sycl(
        self,
        stream: Stream | None = None,
        src: object = None,
        dst: Memory | None = None,
        deps: Iterable[object] = (),
        *,
        astream: Stream | None = None,
    ) -> Any:
        """Execute on a SYCL stream, after the events `deps`; return the event of the execution.

        `deps` and the event are dpctl's `SyclEvent`. Waiting for the event suffices for reading the
        destination. Raises InvalidArguments on other engines, and for anything but events in `deps`.
        """
        self._check_usable()
        check_has_events(self.kind, self._pd.get_engine())
        return self._execute(astream if stream is None else stream, src, dst, checked_deps(self.kind, deps))

    def _execute(self, stream: object, src: object, dst: object, deps: Sequence[Waitable] = ()) -> Waitable:
        call = self._last or self._call_of_tensors()
        if call is None or flags.profile:
            return self._execute_checked(stream, src, dst, deps)
        memories = call.memories(src) if dst is None else self._by_place(src, dst)
        if memories is None:
            return self._execute_checked(stream, src, dst, deps)
        first, second = memories[0], memories[1]
        if type(first) is not Memory or type(second) is not Memory:
            return self._execute_checked(stream, src, dst, deps)
        if first._desc is not call.src or second._desc is not call.dst:
            call = self._calls.get((first._desc, second._desc), call)
        event = call.run(stream, first, second, memories[2:], deps)
        return self._execute_checked(stream, src, dst, deps) if event is None else event

    def _by_place(self, src: object, dst: object) -> tuple[object, ...] | None:
        """Return the memory objects of a positional call in the order of a `Call`; None if unclear."""
        return src, dst

    def _execute_checked(
        self, stream: object, src: object, dst: object, deps: Sequence[Waitable] = ()
    ) -> Waitable:
        """Check everything, run, and return the event; `src` and `dst` as in `execute`."""
        impl, memories = self._check_usable(), self._parsed(src, dst)
        on = checked_stream(self.kind, stream, impl.engine)
        impl = self._checked(impl, memories)
        impl.executable.prepare()
        with Watch("execution", self._pd._describe, impl) as watch:
            event = self._launched(impl, memories, on, deps)
            if watch.is_heard:
                event.wait()
        reads, target = self._pd._reads(), memories[self._pd._writes()]
        # If bytes were shared although the primitive does not work in place, other arguments were used than
        # usual.
        is_usual = self._may_be_in_place or not any(share_bytes(memories[arg], target) for arg in reads)
        if ARG_SCRATCHPAD not in memories and is_usual:
            self._remember(impl, {arg: memory.desc for arg, memory in memories.items()})
        return event

    def _parsed(self, src: object, dst: object) -> Memories:
        """Return the memory objects of a call by argument."""
        pd, impl = self._pd, self._check_usable()
        reads, writes = pd._reads(), pd._writes()
        args = src if dst is None else self._numbered(src, dst)
        inputs = (*reads, *impl.computation.args, *pd._scratch_args())
        outputs = (*impl.outputs(), writes)
        memories = parse_args(pd, args, inputs, outputs)
        return dict(zip((*inputs, *outputs), memories, strict=True))

    def _numbered(self, src: object, dst: object) -> dict[int, object]:
        """Return the memory objects that were passed by position, by argument."""
        return {self._pd._reads()[0]: src, self._pd._writes(): dst}

    def _checked(self, impl: Implementation, memories: Memories) -> Implementation:
        """Check the memory objects; return the implementation for them, which can differ between calls."""
        names, target = self._names(), memories[self._pd._writes()]
        impl = self._check_tensors(impl, names, memories)
        check_destination(names.call, target, names.written)
        impl = self._check_overlaps(impl, names, memories)
        reads = self._pd._reads()
        for operand in impl.computation.operands:
            if operand.values is None:
                check_operand(names.call, operand, memories[operand.arg], impl.engine, target)
        others = {arg: memory for arg, memory in memories.items() if arg not in self._pd._tensors()}
        if outputs := impl.outputs():
            apart = {arg: memory for arg, memory in memories.items() if arg != ARG_SCRATCHPAD}
            del apart[self._pd._writes()]
            check_outputs(names.call, self._pd._arg_names, outputs, apart, target, self._pd._in_place)
        if ARG_SCRATCHPAD in others:
            pad = others.pop(ARG_SCRATCHPAD)
            more = {name_of(arg, self._pd._arg_names): memories[arg] for arg in (*reads[1:], *others)}
            by_name = {"src": memories[reads[0]], "dst": target} | more
            check_scratchpad(names.call, pad, self._pd.scratchpad_desc(), impl.engine, by_name)
        return self._adapted(impl, memories)

    def _check_tensors(self, impl: Implementation, names: Names, memories: Memories) -> Implementation:
        """Check that the tensors match the primitive; return the implementation for them."""
        pd = self._pd
        for arg, desc in pd._tensors().items():
            name = self._name_of(arg)
            check_memory(names.call, name, memories[arg], desc, pd._engine_of(arg))
        return impl

    def _check_overlaps(self, impl: Implementation, names: Names, memories: Memories) -> Implementation:
        """Raise InvalidArguments if writing could change a source before it is read.

        Return the implementation for sources that are parts of the destination.
        """
        target = memories[self._pd._writes()]
        for arg in self._pd._reads():
            if share_bytes(memories[arg], target):
                self._check_overlap(memories[arg], target)
        return impl

    def _check_overlap(self, src: Memory, dst: Memory) -> None:
        """Raise InvalidArguments if writing `dst`, which shares bytes with `src`, changes `src` too early."""
        if self._may_be_in_place and not overlaps(src, dst):
            return
        raise refuse(
            "RS-N09:source-destination-overlap",
            kind=self.kind,
            desc=src.desc,
            dst_desc=dst.desc,
            which="; in-place execution requires the same layout, element size and address"
            if self._may_be_in_place
            else "",
        )

    def _adapted(self, impl: Implementation, memories: Memories) -> Implementation:
        """Return the implementation for these operands: 4-bit values may begin in a byte's upper half."""
        return impl

    def _launched(
        self, impl: Implementation, memories: Memories, stream: Stream, deps: Sequence[Waitable]
    ) -> Waitable:
        pad = memories.get(ARG_SCRATCHPAD)
        scratch = None if pad is None or pad._buffer is None else pad._buffer.behind(pad.desc.offset0)
        return run(impl, memories, stream, deps, scratch)

    def _call_of_tensors(self) -> Call | None:
        """Return the call of a primitive not executed yet, if it needs only its tensors."""
        impl, pd = self._impl, self._pd
        if impl is None or pd._scratch_args() or impl.more_descs() or not impl.executable.program.steps:
            return None
        self._remember(impl, pd._tensors())
        return self._last

    def _remember(self, impl: Implementation, descs: Mapping[int, MemoryDesc]) -> None:
        """Record what lets executions with memory objects of these descriptors skip most checks."""
        pd = self._pd
        src, dst = pd._reads()[0], pd._writes()
        engines = {arg: pd._engine_of(arg) for arg in (*pd._reads(), dst)}
        devices = {engine.device for engine in engines.values()}
        if len(devices) > 1 and not all(device.is_host for device in devices):
            return
        call = Call(impl, descs, engines, may_be_in_place=self._may_be_in_place)
        others = self._calls if len(self._calls) < MOST_CALLS else {}
        self._calls = {**others, (descs[src], descs[dst]): call}
        self._last = call

    # --- errors ---------------------------------------------------------------------------------------------

    def _names(self) -> Names:
        return Names(f"{self.kind}.execute")

    def _name_of(self, arg: int) -> str:
        """Return an argument's name for errors: `src`, `diff_dst`."""
        return short_name(arg, self._pd._arg_names)

    def _check_usable(self) -> Implementation:
        if self._impl is None:
            raise refuse(
                "RS-R04:primitive-empty", kind=self.kind, usage=self.usage or f"rs.onednn.{self.kind}(pd)"
            )
        return self._impl


def run(
    impl: Implementation,
    memories: Mapping[int, Memory],
    stream: Stream | None = None,
    deps: Sequence[Waitable] = (),
    scratch: Buffer | None = None,
) -> Waitable:
    """Run an implementation on checked memory objects; return the event. Without a stream, it has ended."""
    device = impl.engine.device
    queue = None if stream is None else stream._queue
    event = device.launch(impl.executable, impl.arguments(memories, scratch), queue, deps)
    if stream is None:
        event.wait()
    return event


def _checked_desc(kind: str, of: type[PrimitiveDescBase], pd: object) -> PrimitiveDescBase:
    """Return a primitive descriptor of the right kind, empty for None. Raises InvalidArguments otherwise."""
    if pd is None:
        return of()
    if isinstance(pd, of):
        return pd
    raise refuse("RS-V08:no-primitive-descriptor", kind=kind, type=type(pd).__name__)


# --- events -------------------------------------------------------------------------------------------------


def check_has_events(kind: str, engine: Engine) -> None:
    """Raise InvalidArguments unless the engine is a device whose executions have events."""
    if not engine.device.is_host:
        return
    raise refuse("RS-P08:no-sycl-engine", kind=kind, engine=engine)


def checked_deps(kind: str, deps: Iterable[object]) -> list[Waitable]:
    """Return the dpctl events among `deps`; host events are over. Raises InvalidArguments for anything else.

    An event is recognized by its attributes, so that dpctl is not imported to reject other objects.
    """
    if isinstance(deps, str | bytes) or not isinstance(deps, Iterable):
        raise refuse("RS-P08:no-list-events", kind=kind, type=type(deps).__name__)
    events: list[Waitable] = []
    for event in deps:
        if isinstance(event, Event):
            continue
        if not (hasattr(event, "wait_for") and hasattr(event, "execution_status")):
            raise refuse("RS-P08:no-event", kind=kind, type=type(event).__name__)
        events.append(cast("Waitable", event))
    return events
