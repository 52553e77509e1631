"""A primitive that reads one memory and writes another: what it checks, and how it runs (R04 to R07, N10)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from ..desc.memory_desc import MemoryDesc
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.overlap import share_bytes_at
from ..runtime.stream import Stream
from ..verbose import flags, write
from .args import NAMES
from .argument_map import parse_args
from .base import PrimitiveDescBase, check_destination, check_memory, check_stream
from .feeding import Entry
from .handle import PrimitiveHandle
from .known import MOST_KNOWN, Known, known_of
from .scratchpad import check_scratchpad
from .submitting import run_on


class MovingPrimitive(PrimitiveHandle):
    """What reorder and shuffles share. `reads` and `writes` are the numbers of its two arguments.

    A primitive holds no state of its runs: any number of threads may execute one at once (N12).
    """

    reads: ClassVar[int]
    writes: ClassVar[int]

    __slots__ = (
        "_call",
        "_dst",
        "_dst_engine",
        "_engine",
        "_known",
        "_last",
        "_params",
        "_src",
        "_src_engine",
    )
    _call: Callable[[int, int, int], None] | None
    # What has been checked before, and the last of it: replaced as a whole, so that threads may share it.
    _known: dict[tuple[MemoryDesc, MemoryDesc], Known]
    _last: Known | None

    def _hold(self, pd: PrimitiveDescBase, *, empty: bool) -> None:
        """Take a descriptor; compile what it describes, unless it was asked to be empty."""
        self._pd = pd
        self._src, self._dst = pd._src, pd._dst
        self._engine, self._src_engine, self._dst_engine = pd._engine, pd._src_engine, pd._dst_engine
        self._call = self._impl = None
        self._params, self._known, self._last = 0, {}, None
        if not empty:
            self._impl = pd._solved()
            self._call = self._impl.prepare()
            self._params = getattr(self._impl, "params", 0)

    def execute(self, stream: Stream, src: Any, dst: Memory | None = None) -> None:
        """`execute(stream, src, dst)` by place, what is read first, or `execute(stream, {number: memory})`.

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
            if not self._run_known(stream, src, dst):
                self._execute_checked(stream, src, dst)
            return
        # The buffers are held by name: another thread may give the memories others meanwhile.
        self._call(read[0], written[0], self._params)

    def _run_known(self, stream: Stream, src: Any, dst: Any) -> bool:
        """Run what has been checked before; False, with nothing touched, where all has to be checked."""
        known = self._last
        if known is None or flags.profile_exec or flags.profile_create:
            return False
        args = src
        if dst is None:
            if type(args) is not dict or list(map(type, args)) != known.types:
                return False
            src, dst = args.get(self.reads), args.get(self.writes)
        elif not known.is_plain:
            return False
        if type(src) is not Memory or type(dst) is not Memory:
            return False
        if src._desc is not known.src or dst._desc is not known.dst:
            known = self._known.get((src._desc, dst._desc))
        return known is not None and known.run(stream, src, dst, args)

    def _remember(self, impl: Any, src: Memory, dst: Memory, extras: Mapping[int, Memory]) -> None:
        """Keep what a checked run lets the next one skip."""
        entry: Entry | None = impl.entry()
        known = entry and known_of(entry, src, dst, self._engines(), extras)
        if known is None or self._pd._scratch_args() or share_bytes(src, dst):
            return
        others = self._known if len(self._known) < MOST_KNOWN else {}
        self._known = {**others, (src.desc, dst.desc): known}
        self._last = known

    def _execute_checked(self, stream: Stream, src: Any, dst: Any, deps: Sequence[Any] = ()) -> Any:
        impl, call = self._check_usable(), f"{self.kind}.execute"
        args = src if dst is None else {self.reads: src, self.writes: dst}
        inputs, outputs = self._more_args(impl)
        inputs = (*inputs, *self._pd._scratch_args())
        src, *found, dst = parse_args(self._pd, args, (self.reads, *inputs), (*outputs, self.writes))
        extras = dict(zip((*inputs, *outputs), found, strict=True))
        check_stream(self.kind, stream, self._engines()[0])
        impl = self._check_both(impl, src, dst)
        check_destination(call, dst)
        self._check_overlap(src, dst)
        self._check_more(impl, extras, src, dst)
        check_scratchpad(call, self._pd, src, dst, extras)
        start = time.perf_counter()
        event = run_on(impl, stream, deps, (src, dst, extras))
        if flags.profile_exec:
            event.wait()
            write(self._pd._verbose_fields("exec", impl, (time.perf_counter() - start) * 1e3))
        self._remember(impl, src, dst, extras)
        return event

    def _more_args(self, impl: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The numbers of what is read and of what is written beside the two."""
        return (), ()

    def _check_both(self, impl: Any, src: Memory, dst: Memory) -> Any:
        """Check what is read and what is written; the implementation for them."""
        _, src_engine, dst_engine = self._engines()
        call = f"{self.kind}.execute"
        check_memory(call, _name(self.reads), src, self._src, src_engine)
        check_memory(call, _name(self.writes), dst, self._dst, dst_engine)
        return impl

    def _check_more(self, impl: Any, extras: Mapping[int, Memory], src: Memory, dst: Memory) -> None:
        """Check the memories beside the two."""

    def _engines(self) -> tuple[Engine, Engine, Engine]:
        assert self._engine is not None
        assert self._src_engine is not None
        assert self._dst_engine is not None
        return self._engine, self._src_engine, self._dst_engine

    def _check_overlap(self, src: Memory, dst: Memory) -> None:
        """Raise InvalidArguments where writing could change the source before it is read."""
        raise NotImplementedError


def share_bytes(src: Memory, dst: Memory) -> bool:
    """True where some byte belongs to both memories; a tensor without elements has none."""
    is_near = src._lo < src._hi and src._lo < dst._hi and dst._lo < src._hi
    return is_near and share_bytes_at(src.desc, src._address, dst.desc, dst._address)


def _name(arg: int) -> str:
    """An argument's name as errors say it: `src`, `diff_dst`."""
    return NAMES[arg].removeprefix("ARG_").lower()
