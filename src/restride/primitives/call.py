"""Calls: an implementation bound to memories of certain descriptors, for executions that need no more checks.

What is remembered are descriptors and machine code, no memory and no value: it is the same whoever ran.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

from ..desc.memory_desc import MemoryDesc
from ..runtime.alloc import NOTHING, Buffer
from ..runtime.arguments import Arguments
from ..runtime.device import Waitable
from ..runtime.engine import Engine
from ..runtime.event import COMPLETED
from ..runtime.kernel import packed_address, packer
from ..runtime.memory import Memory
from ..runtime.stream import Stream
from .implementation import Implementation, skipped_bytes

# So many calls of one primitive are remembered; then all are forgotten.
MOST_CALLS = 16


class _MemoryRule(NamedTuple):
    """What one memory of a call must be; which word its address is, -1 for source and destination.

    `skipped`: how many bytes of it kernels skip.
    """

    desc: MemoryDesc
    engine: Engine
    word: int
    skipped: int


class Call:
    """An execution that has been checked, to be repeated with memories of the same descriptors.

    `args`: the arguments of its memories, in the order of the program's slots; `types`: those of the keys of
    an argument map. `run` says in one place when a warm call may go ahead: the same stream's engine; memories
    of these descriptors on these engines, with buffers and not mapped; what is written writable, and apart
    from all else. Where there are no more than source and destination, machine code takes their addresses.
    """

    __slots__ = (
        "_constants",
        "_direct",
        "_executable",
        "_keeps",
        "_more",
        "_outputs",
        "_pack",
        "_params",
        "_rules",
        "_scalars",
        "_slots",
        "_words",
        "args",
        "dst",
        "engine",
        "memories",
        "src",
        "types",
    )

    def __init__(
        self, impl: Implementation, descs: Mapping[int, MemoryDesc], engines: Mapping[int, Engine]
    ) -> None:
        slots = impl.executable.program.slots
        self.engine, self._executable = impl.engine, impl.executable
        brought = [(slot, arg) for slot, arg in enumerate(impl.args) if arg is not None]
        self.args = tuple(arg for _, arg in brought)
        # The memories of an argument map, in that order.
        self.memories: Callable[[Mapping[int, object]], tuple[object, ...]] = itemgetter(*self.args)
        self.types: list[type] = [int] * len(brought)
        self.src, self.dst = descs[self.args[0]], descs[self.args[1]]
        self._rules = [
            _MemoryRule(
                descs[arg],
                engines.get(arg, impl.engine),
                slot - 2 if slot > 1 else -1,
                skipped_bytes(impl.operands[slot], descs[arg]),
            )
            for slot, arg in brought
        ]
        self._more = list(enumerate(self._rules))[2:]
        # Which of the memories beside the destination are written.
        self._outputs = [at for at, (slot, _) in enumerate(brought) if slots[slot][1] and at != 1]
        self._slots = tuple(slot for slot, _ in brought)
        self._constants = [constant or NOTHING for constant in impl.constants]
        # The words behind source and destination: addresses of constants, 0 where one of a memory goes.
        self._words = [buffer.address for buffer in self._constants[2:]]
        self._scalars = impl.computation.scalars
        self._pack = packer(len(self._words), len(self._scalars))
        # The implementation holds what `params` is the address of.
        self._keeps = impl
        self._direct, self._params = impl.direct_call()

    def run(self, stream: Stream, memories: Sequence[Any], deps: Sequence[Waitable] = ()) -> Waitable | None:
        """Run on memories in the order of `args`, the first two of `src` and `dst`; give the event.

        None, with nothing touched, where all has to be checked.
        """
        src, dst = memories[0], memories[1]
        low, high = dst._lo, dst._hi
        if (
            type(stream) is not Stream
            or stream._engine is not self.engine
            or src._engine is not self._rules[0].engine
            or dst._engine is not self._rules[1].engine
            or src._mapped
            or dst._mapped
            or (read := src._buffer) is None
            or (written := dst._buffer) is None
            or written[2]
            or (src._lo < high and low < src._hi)
        ):
            return None
        # Buffers are held by name: another thread may give the memories others meanwhile.
        if self._direct is not None:
            self._direct(read[0], written[0], self._params)
            return COMPLETED
        words, buffers = self._words.copy(), [read, written]
        for at, (desc, engine, word, skipped) in self._more:
            memory = memories[at]
            if (
                type(memory) is not Memory
                or memory._engine is not engine
                or memory._mapped
                or (memory._desc is not desc and memory._desc != desc)
                or (buffer := memory._buffer) is None
                or (memory._lo < high and low < memory._hi)
            ):
                return None
            buffers.append(buffer)
            words[word] = buffer[0] + skipped
        if self._outputs and not self._are_apart(memories, buffers):
            return None
        call = self._executable.call
        if call is None:
            return self._submit(stream, buffers, deps)
        packed = self._pack(*words, *self._scalars)
        call(read[0], written[0], packed_address(packed))
        return COMPLETED

    def _are_apart(self, memories: Sequence[Memory], buffers: Sequence[Buffer]) -> bool:
        """True where what is written beside the destination is writable, and apart from all else."""
        for at in self._outputs:
            low, high = memories[at]._lo, memories[at]._hi
            others = (memory for other, memory in enumerate(memories) if other != at)
            if buffers[at][2] or any(other._lo < high and low < other._hi for other in others):
                return False
        return True

    def _submit(self, stream: Stream, buffers: list[Buffer], deps: Sequence[Waitable]) -> Waitable:
        """The same on a device."""
        found = list(self._constants)
        for slot, rule, buffer in zip(self._slots, self._rules, buffers, strict=True):
            found[slot] = buffer.behind(rule.skipped) if rule.skipped else buffer
        arguments = Arguments(tuple(found), self._scalars)
        return self.engine.device.launch(self._executable, arguments, stream._queue, deps)
