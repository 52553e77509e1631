"""Runs that have been checked before: what is left to check when memories of the same descriptors come again.

What is remembered are descriptors and machine code, no memory and no value: it is the same whoever ran.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..desc.memory_desc import MemoryDesc
from ..runtime.alloc import Buffer, address_of
from ..runtime.cpu import packed_address, packer
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.stream import Stream
from .chain import Chain, Feed
from .feeding import Entry, Extras, skipped_bytes

# So many pairs of source and destination are remembered; then all are forgotten.
MOST_KNOWN = 16

Engines = tuple[Engine, Engine, Engine]
Args = dict[int, Any]


Read = tuple[int, MemoryDesc, int, int]
"""A memory that a run reads beside the source: its argument, what it must be, which word its address is, and
how many bytes are skipped."""


@dataclass(frozen=True, slots=True, eq=False)
class Known:
    """A run that has been checked.

    `engine` is the primitive's, `ends` are those of source and destination. `is_plain`: there are no other
    memories, `params` is what kernels read. `types`: of the keys of an argument map. `words`: what kernels
    read, with zeros where addresses of memories go.
    """

    src: MemoryDesc
    dst: MemoryDesc
    engine: Engine
    ends: tuple[Engine, Engine]
    entry: Entry
    call: Callable[[int, int, int], None]
    write: Callable[[int, int, int, Sequence[int]], None]
    params: int
    is_plain: bool
    types: list[type]
    reads: tuple[Read, ...]
    writes: tuple[tuple[int, MemoryDesc], ...]
    words: tuple[Any, ...]
    pack: Callable[..., bytes]

    def run(self, stream: Stream, src: Memory, dst: Memory, args: Args) -> bool:
        """Run on memories of `src` and `dst`; False, with nothing touched, where all has to be checked.

        `args`: the argument map that they are from, with keys of `types`; not looked at where `is_plain`.
        """
        engine, (src_engine, dst_engine) = self.engine, self.ends
        low, high = dst._lo, dst._hi
        if (
            type(stream) is not Stream
            or stream._engine is not engine
            or src._engine is not src_engine
            or dst._engine is not dst_engine
            or src._mapped
            or dst._mapped
            or (read := src._buffer) is None
            or (written := dst._buffer) is None
            or written[2]
            or (src._lo < high and low < src._hi)
        ):
            return False
        # Buffers are held by name: another thread may give the memories others meanwhile.
        if self.is_plain:
            self.call(read[0], written[0], self.params)
            return True
        held = [read, written]
        words = self._read(args, low, high, held)
        if words is None:
            return False
        outputs = self._written(args, src, dst) if self.writes else ()
        if outputs is None:
            return False
        packed = self.pack(*words)
        if outputs:
            self.write(read[0], written[0], packed_address(packed), [buffer[0] for buffer in outputs])
        else:
            self.call(read[0], written[0], packed_address(packed))
        return True

    def _read(self, args: Args, low: int, high: int, held: list[Buffer]) -> list[Any] | None:
        """What kernels read; None where a memory has to be looked at, or shares bytes that are written, those
        from `low` to `high`. The buffers of what is read beside the source join what is `held`.
        """
        words, engine = list(self.words), self.engine
        for arg, desc, word, skipped in self.reads:
            memory = args.get(arg)
            if (
                type(memory) is not Memory
                or (memory._desc is not desc and memory._desc != desc)
                or memory._engine is not engine
                or memory._mapped
                or (buffer := memory._buffer) is None
                or (memory._lo < high and low < memory._hi)
            ):
                return None
            words[word] = buffer[0] + skipped
            held.append(buffer)
        return words

    def _written(self, args: Args, src: Memory, dst: Memory) -> list[Buffer] | None:
        """The buffers that are written beside the destination; None where one has to be looked at."""
        held: list[Buffer] = []
        apart = [src, dst, *(args[arg] for arg, *_ in self.reads)]
        for arg, desc in self.writes:
            memory = args.get(arg)
            if (
                type(memory) is not Memory
                or (memory._desc is not desc and memory._desc != desc)
                or memory._engine is not self.ends[1]
                or memory._mapped
                or (buffer := memory._buffer) is None
                or buffer[2]
            ):
                return None
            for other in apart:
                if memory._lo < other._hi and other._lo < memory._hi:
                    return None
            held.append(buffer)
            apart.append(memory)
        return held


def known_of(entry: Entry, src: Memory, dst: Memory, engines: Engines, extras: Extras) -> Known | None:
    """What a run on these memories, which have been checked, is the next time.

    None where there is more to do than to pass addresses.
    """
    feeds, scalars = entry.chain.feeds, entry.chain.scalars
    if any(_begins_in_a_byte(feed, extras) for feed in feeds):
        return None
    reads = tuple(
        (feed.arg, extras[feed.arg].desc, word, skipped_bytes(feed, extras[feed.arg].desc))
        for word, feed in enumerate(feeds)
        if feed.values is None
    )
    writes = tuple((arg, extras[arg].desc) for arg in entry.outputs)
    types: list[type] = [int] * (2 + len(reads) + len(writes))
    pack = packer(len(feeds), len(scalars))
    return Known(
        src.desc,
        dst.desc,
        engines[0],
        engines[1:],
        entry,
        entry.call,
        entry.write,
        entry.params,
        not (reads or writes),
        types,
        reads,
        writes,
        _words(entry.chain),
        pack,
    )


def _begins_in_a_byte(feed: Feed, extras: Extras) -> bool:
    """True for 4-bit zero points that are moved before they are read."""
    if feed.values is not None or feed.desc is not None:
        return False
    md = extras[feed.arg].desc
    return md.offset0 * md.data_type.bits % 8 != 0


def _words(chain: Chain) -> tuple[Any, ...]:
    values = (feed.values for feed in chain.feeds)
    return (*(0 if found is None else address_of(found) for found in values), *chain.scalars)
