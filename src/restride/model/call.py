"""Calls: an implementation bound to memory objects of certain descriptors, for executions without further
checks.

Only descriptors and machine code are remembered, no memory and no value, so the result never depends on the
history.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import NamedTuple

from ..desc.arguments import Arg
from ..desc.memory_desc import MemoryDesc
from ..runtime.alloc import NOTHING, Buffer
from ..runtime.arguments import Arguments
from ..runtime.cpu.kernel import packed_address, packer
from ..runtime.device import Waitable
from ..runtime.engine import Engine
from ..runtime.event import COMPLETED
from ..runtime.memory import Memory
from ..runtime.stream import Stream
from .checks import is_same_place
from .implementation import Implementation, skipped_bytes

# Types of argument keys: both are looked up by number.
_KEYS = frozenset((int, Arg))

# The number of calls of one primitive that are remembered; then all are forgotten.
MOST_CALLS = 16


class _MemoryRule(NamedTuple):
    """The rule for a memory of a call, identified by its position after source and destination.

    `word`: the word of the kernel that contains its address; `skipped`: how many bytes of it kernels skip.
    """

    at: int
    desc: MemoryDesc
    engine: Engine
    word: int
    skipped: int


class Call:
    """A checked execution that can be repeated with memory objects of the same descriptors.

    `args`: the arguments of its memory objects, in the order of the program's slots. For every primitive and
    engine, `run` decides when a warm call can proceed: a stream of the engine; memory objects of these
    descriptors on these engines, with buffers and not mapped; outputs writable, and disjoint from everything
    else, or with `may_be_in_place` exactly in place of the source. If there are only source and destination,
    machine code takes their addresses.
    """

    __slots__ = (
        "_direct",
        "_dst_engine",
        "_in_place",
        "_keeps",
        "_of_map",
        "_others",
        "_params",
        "_src_engine",
        "args",
        "dst",
        "engine",
        "src",
    )

    def __init__(
        self,
        impl: Implementation,
        descs: Mapping[int, MemoryDesc],
        engines: Mapping[int, Engine],
        *,
        may_be_in_place: bool = False,
    ) -> None:
        self.args = tuple([arg for arg in impl.args if arg is not None])
        src, dst = self.args[:2]
        self.src, self.dst, self.engine = descs[src], descs[dst], impl.engine
        self._src_engine, self._dst_engine = engines[src], engines[dst]
        self._in_place = may_be_in_place and is_same_place(self.src, self.dst)
        self._of_map: Callable[[Mapping[int, object]], tuple[object, ...]] = itemgetter(*self.args)
        # The implementation owns the memory that `params` points to.
        self._keeps = impl
        self._direct, self._params = impl.direct_call()
        self._others = None if self._direct else _OtherMemories(impl, descs, engines)

    def memories(self, arguments: object) -> tuple[object, ...] | None:
        """Return an argument map's memory objects in the order of `args`; None if they need a closer look."""
        if (
            type(arguments) is not dict
            or len(arguments) != len(self.args)
            or not _KEYS.issuperset(map(type, arguments))
        ):
            return None
        try:
            return self._of_map(arguments)
        except KeyError:
            return None

    def run(
        self,
        stream: object,
        src: object,
        dst: object,
        others: Sequence[object] = (),
        deps: Sequence[Waitable] = (),
    ) -> Waitable | None:
        """Run on the memory objects of `args`: the first two, then the others. Return the event.

        Return None, with nothing touched, if everything has to be checked.
        """
        if type(src) is not Memory or type(dst) is not Memory:
            return None
        if src._desc is not self.src or dst._desc is not self.dst:
            read_desc, written_desc = src._desc, dst._desc
            if read_desc != self.src or written_desc != self.dst:
                return None
            # Equal descriptors are recognized by identity from now on.
            self.src, self.dst = read_desc, written_desc
        if (
            type(stream) is not Stream
            or stream._engine is not self.engine
            or src._engine is not self._src_engine
            or dst._engine is not self._dst_engine
            or src._mapped
            or dst._mapped
            or (read := src._buffer) is None
            or (written := dst._buffer) is None
            or written[2]
            or (
                src._lo < dst._hi
                and dst._lo < src._hi
                and not (self._in_place and src._address == dst._address)
            )
        ):
            return None
        # Buffers are referenced by name, because another thread can replace those of the memory objects
        # meanwhile.
        if self._others is not None:
            return self._others.run(stream, [src, dst], others, [read, written], deps)
        if others or self._direct is None:
            return None
        self._direct(read[0], written[0], self._params)
        return COMPLETED


class _OtherMemories:
    """The memory objects of a call other than source and destination, in the form for kernels and devices."""

    __slots__ = (
        "_constants",
        "_engine",
        "_executable",
        "_outputs",
        "_pack",
        "_rules",
        "_scalars",
        "_skipped",
        "_slots",
        "_words",
    )

    def __init__(
        self, impl: Implementation, descs: Mapping[int, MemoryDesc], engines: Mapping[int, Engine]
    ) -> None:
        slots = impl.executable.program.slots
        self._engine, self._executable = impl.engine, impl.executable
        pairs = [(slot, arg) for slot, arg in enumerate(impl.args) if arg is not None]
        self._skipped = [skipped_bytes(impl.operands[slot], descs[arg]) for slot, arg in pairs]
        self._rules = [
            _MemoryRule(at, descs[arg], engines.get(arg, impl.engine), slot - 2, self._skipped[2 + at])
            for at, (slot, arg) in enumerate(pairs[2:])
        ]
        # Which of these memory objects are written.
        self._outputs = [at for at, (slot, _) in enumerate(pairs) if slots[slot][1] and at != 1]
        self._slots = tuple(slot for slot, _ in pairs)
        self._constants = [constant or NOTHING for constant in impl.constants]
        # The words after source and destination: addresses of constants, 0 in place of memory objects.
        self._words = [buffer.address for buffer in self._constants[2:]]
        self._scalars = impl.computation.scalars
        self._pack = packer(len(self._words), len(self._scalars))

    def run(
        self,
        stream: Stream,
        memories: list[Memory],
        others: Sequence[object],
        buffers: list[Buffer],
        deps: Sequence[Waitable],
    ) -> Waitable | None:
        """Implement `Call.run` for valid source and destination, whose buffers are `buffers`."""
        if len(others) != len(self._rules):
            return None
        low, high = memories[1]._lo, memories[1]._hi
        words = self._words.copy()
        for at, desc, engine, word, skipped in self._rules:
            memory = others[at]
            if (
                type(memory) is not Memory
                or memory._engine is not engine
                or memory._mapped
                or (memory._desc is not desc and memory._desc != desc)
                or (buffer := memory._buffer) is None
                or (memory._lo < high and low < memory._hi)
            ):
                return None
            memories.append(memory)
            buffers.append(buffer)
            words[word] = buffer[0] + skipped
        if self._outputs and not self._are_apart(memories, buffers):
            return None
        call = self._executable.call
        if call is None:
            return self._submit(stream, buffers, deps)
        packed = self._pack(*words, *self._scalars)
        call(buffers[0][0], buffers[1][0], packed_address(packed))
        return COMPLETED

    def _are_apart(self, memories: Sequence[Memory], buffers: Sequence[Buffer]) -> bool:
        """True if outputs other than the destination are writable and disjoint from everything else."""
        for at in self._outputs:
            low, high = memories[at]._lo, memories[at]._hi
            others = (memory for other, memory in enumerate(memories) if other != at)
            if buffers[at][2] or any(other._lo < high and low < other._hi for other in others):
                return False
        return True

    def _submit(self, stream: Stream, buffers: list[Buffer], deps: Sequence[Waitable]) -> Waitable:
        """Do the same on a device."""
        buffers_of_slots = list(self._constants)
        for slot, skipped, buffer in zip(self._slots, self._skipped, buffers, strict=True):
            buffers_of_slots[slot] = buffer.behind(skipped) if skipped else buffer
        arguments = Arguments(tuple(buffers_of_slots), self._scalars)
        return self._engine.device.launch(self._executable, arguments, stream._queue, deps)
