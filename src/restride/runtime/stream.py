"""Streams: the order in which an engine executes primitives (programming model)."""

from __future__ import annotations

import enum
from typing import Any

from ..desc.parse import parse_int, short_repr
from ..errors import InvalidArguments, LookupType, ValueLookup, refuse
from ..foreign import has_attribute
from .device import Queue
from .devices import sycl_objects, sycl_queue_of
from .engine import Engine


class StreamFlags(ValueLookup, enum.IntFlag, metaclass=LookupType):
    """The order of a stream's work (`dnnl::stream::flags`), with oneDNN's numbers.

    `default_order` is the default of specification 0.9.
    """

    in_order = 1
    out_of_order = 2
    default_flags = in_order
    default_order = in_order


_KNOWN = int(StreamFlags.in_order | StreamFlags.out_of_order)


class Stream:
    """A sequence of executions on one engine (`dnnl::stream`).

    `flags` is a word, a `StreamFlags` or its number; or a `dpctl.SyclQueue`, which the stream then wraps.
    Engines that run on the CPU are in-order: each execution has ended when its call returns. On a SYCL engine
    a stream is a queue, in-order or out-of-order: a call returns when the work is submitted, and without
    dependencies an out-of-order stream runs it in any order. Raises InvalidArguments for flags that the
    engine does not support, and for a queue of another device or context.
    """

    __slots__ = ("__weakref__", "_engine", "_flags", "_queue")
    _queue: Queue | None

    def __init__(self, engine: Engine, flags: object = "in_order") -> None:
        if not isinstance(engine, Engine):
            raise refuse("RS-P04:not-engine", type=type(engine).__name__)
        self._engine = engine
        if has_attribute(flags, "sycl_context"):
            self._take(sycl_queue_of("Stream", engine.device, flags))
            return
        self._flags = _checked(_parse(flags), engine)
        self._queue = engine.device.open_queue(in_order=self._flags is StreamFlags.in_order)

    @classmethod
    def of_queue(cls, engine: Engine, queue: object) -> Stream:
        """Return the stream of a queue of dpctl, with the order of the queue. The caller has checked that the
        queue belongs to the engine. Raises InvalidArguments for anything but an engine and a queue.
        """
        if not isinstance(engine, Engine) or not has_attribute(queue, "is_in_order"):
            raise refuse("RS-V08:no-queue-engine", engine=short_repr(engine), queue=short_repr(queue))
        stream = cls.__new__(cls)
        stream._engine = engine
        stream._take(queue)
        return stream

    def _take(self, queue: Any) -> None:
        self._queue = queue
        self._flags = StreamFlags.in_order if queue.is_in_order else StreamFlags.out_of_order

    @property
    def engine(self) -> Engine:
        """The engine that executes the work on this stream."""
        return self._engine

    def get_engine(self) -> Engine:
        """Return `engine`; oneDNN's name."""
        return self._engine

    def get_sycl_queue(self) -> Any:
        """Return the `dpctl.SyclQueue` of the stream. Raises InvalidArguments for a stream of the host."""
        sycl_objects("Stream.get_sycl_queue", self._engine.device)
        return self._queue

    @property
    def flags(self) -> StreamFlags:
        """The order of this stream's work."""
        return self._flags

    def wait(self) -> Stream:
        """Block until everything on this stream has ended, and return the stream."""
        self._engine.device.wait(self._queue)
        return self

    def __repr__(self) -> str:
        return f"restride.Stream({self._engine}, {self._flags.name!r})"


def _parse(flags: object) -> StreamFlags:
    """Parse flags: a word, words joined by |, a StreamFlags or its number."""
    if isinstance(flags, str):
        return _of_words([word.strip() for word in flags.split("|")], flags)
    number = _to_int(flags)
    if number is None:
        raise refuse("RS-P04:unknown-flags", flags=short_repr(flags))
    unknown = number & ~_KNOWN
    if number < 1 or unknown:
        raise refuse(
            "RS-P04:unknown-flags-order",
            number=short_repr(number),
            unknown=f", of which {short_repr(unknown)} is not a flag" if number > 0 else "",
        )
    return StreamFlags(number)


def _to_int(value: object) -> int | None:
    try:
        return parse_int(value, "flags")
    except InvalidArguments:
        return None


def _of_words(words: list[str], text: str) -> StreamFlags:
    if any(word not in StreamFlags.__members__ for word in words):
        raise refuse("RS-P04:unknown-flags", flags=short_repr(text))
    parsed = StreamFlags(0)
    for word in words:
        parsed |= StreamFlags[word]
    return parsed


def _checked(flags: StreamFlags, engine: Engine) -> StreamFlags:
    has_queues = not engine.device.is_host
    if StreamFlags.out_of_order not in flags or (has_queues and flags == StreamFlags.out_of_order):
        return flags
    raise refuse("RS-P04:engine-executes-order", engine=engine)
