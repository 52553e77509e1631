"""What reads one memory and writes another, solved for a SYCL device; across engines too (R02, P09)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, cast

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..errors import InvalidArguments
from ..plan.nest import LoopNest
from ..runtime.alloc import Buffer, extent
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..runtime.sycl import Place, Run, SyclDevice, readable
from ..runtime.sycl_program import Given, SyclProgram, spread_whole
from ..runtime.sycl_sums import SyclSums
from .chain import Chain, Feed
from .compensation import FACTORS, compensation_descs

Extras = Mapping[int, Memory]
Solve = Callable[[Any, Engine], Any]


class SyclMove:
    """A nest on a device: reorders and shuffles whose memories are both there."""

    is_on_device: ClassVar[bool] = True
    # What is written beside the destination.
    outputs: Mapping[int, MemoryDesc] = MappingProxyType({})
    params = 0

    def __init__(self, problem: Any, nest: LoopNest, chain: Chain, device: SyclDevice) -> None:
        self.problem, self.chain, self.device = problem, chain, device
        spans = problem.src.extent_range(), problem.dst.extent_range()
        self.program = SyclProgram(nest, device, *spans)
        self.name, self.why = self.program.name, self.program.why
        self.feeder = Feeder(chain, device)

    def prepare(self) -> None:
        """Compile; there is no direct call."""
        self.program.prepare()

    def entry(self) -> None:
        """There is nothing to call."""

    def submit(self, run: Run, src: Memory, dst: Memory, extras: Extras) -> Any:
        """Submit on checked memories; the event."""
        source, target = place_of(run, src), place_of(run, dst)
        if source is not None and target is not None:
            self.program.submit(run, source, target, self.feeder.given(run, extras))
        return run.end()


class SyclReorder(SyclMove):
    """A reorder on a device, or between it and another engine.

    A source elsewhere is copied to the device as it is. A destination on the host is written there: the
    source is copied to the host, and `solve(problem, engine)` does the rest, before the call returns.
    """

    def __init__(self, problem: Any, engine: Engine, solve: Solve) -> None:
        chain = problem.chain()
        super().__init__(problem, problem.nest(chain), chain, cast(SyclDevice, engine.device))
        self._engine, self._solve = engine, solve

    def with_values(self, problem: Any) -> Any:
        """The same for the values of a problem of the same structure."""
        return self._solve(problem, self._engine)

    def submit(self, run: Run, src: Memory, dst: Memory, extras: Extras) -> Any:
        """Submit on checked memories; the event."""
        if not dst.engine.device.is_host:
            return super().submit(run, src, dst, extras)
        read = fetched(run, src, dst.engine)
        held = {arg: fetched(run, memory, dst.engine) for arg, memory in extras.items()}
        impl = self._solve(self.problem, dst.engine)
        impl.prepare()
        impl.run(read, dst, held)
        return run.end()


class SyclCompensated(SyclReorder):
    """A reorder that also writes the sums of its destination, found on the device."""

    def __init__(self, problem: Any, engine: Engine, solve: Solve) -> None:
        super().__init__(problem, engine, solve)
        wanted = problem.attr.compensation
        self.outputs = compensation_descs(wanted, problem.dst)
        self._sums = SyclSums(problem.dst, wanted.mask, self.device)

    def prepare(self) -> None:
        """Compile both."""
        super().prepare()
        self._sums.prepare()

    def submit(self, run: Run, src: Memory, dst: Memory, extras: Extras) -> Any:
        """Submit on checked memories; the event of both."""
        event = super().submit(run, src, dst, extras)
        if dst.engine.device.is_host:
            return event
        places = {FACTORS[arg]: place_of(run, extras[arg]) for arg in self.outputs}
        outputs = {factor: place for factor, place in places.items() if place is not None}
        self._sums.submit(run, place_of(run, dst) or Place(None), outputs)
        return run.end()


def fetched(run: Run, memory: Memory, engine: Engine) -> Memory:
    """A memory of the host with the same bytes, there when `run`'s dependencies are done."""
    device = memory.engine.device
    if device.is_host:
        return memory
    buffer = memory._buffer
    if buffer is None:
        return Memory.allocated(memory.desc, engine)
    device.check_alive(buffer)
    device.settle(buffer)
    copied = np.empty(max(extent(memory.desc).high, 1), np.uint8)
    if extent(memory.desc).high:
        run.copy(copied, buffer.owner, extent(memory.desc).high)
        run.end().wait()
    return Memory(memory.desc, engine, copied)


def place_of(run: Run, memory: Memory) -> Place | None:
    """Where a memory lies for the device of `run`: its USM, or a copy that `run` makes first."""
    buffer = memory._buffer
    if buffer is None or not buffer.nbytes:
        return None
    if memory.engine.device is run.device:
        run.device.check_alive(buffer)
        run.held.append(buffer.owner)
        return Place(buffer.owner)
    if not memory.engine.device.is_host:
        buffer = _from_other(run, memory, buffer)
    return _brought(run, memory.desc, buffer)


def _from_other(run: Run, memory: Memory, buffer: Buffer) -> Buffer:
    """The bytes of a memory on another device, by way of the host, once `run`'s dependencies are done."""
    memory.engine.device.check_alive(buffer)
    # Its bytes are copied on a queue of that device, which knows nothing of what this run waits for.
    for event in run.deps:
        event.wait()
    return memory.engine.device.download(buffer)


def _brought(run: Run, md: MemoryDesc, buffer: Buffer) -> Place | None:
    """A copy on the device of those bytes that a tensor touches."""
    low, high, _ = extent(md)
    if high <= low:
        return None
    room = run.room(high - low)
    run.copy(room.usm, readable(buffer.bytes()[low:high]), high - low)
    return Place(room.usm, -low)


class Feeder:
    """The operands of a chain on a device: known ones are brought there once."""

    def __init__(self, chain: Chain, device: SyclDevice) -> None:
        self._chain, self._device = chain, device
        known = (feed.values for feed in chain.feeds)
        self._known = [None if values is None else device.constant(values) for values in known]

    def given(self, run: Run, extras: Extras) -> Given:
        """What a run reads."""
        pairs = zip(self._chain.feeds, self._known, strict=True)
        places = tuple(_operand(run, feed, extras) if known is None else known for feed, known in pairs)
        run.held.extend(place.usm for place in places)
        return Given(places, self._chain.scalars)


def _operand(run: Run, feed: Feed, extras: Extras) -> Place:
    memory = extras[feed.arg]
    place = place_of(run, memory)
    if place is None:
        raise InvalidArguments(
            "execute: an operand has no elements",
            code="RS-R07",
            where=str(memory.desc),
            why="its values are read by the kernel",
            hint="leave the operand out",
        )
    # Offsets of a binary operand are in the nest; scales and zero points begin at their first value.
    skipped = 0 if feed.desc is not None else memory.desc.offset0
    data_type = memory.desc.data_type
    if data_type.bits == 4:
        wide = spread_whole(run, place, data_type)
        return Place(wide.usm, wide.at + skipped)
    return Place(place.usm, place.at + skipped * data_type.bits // 8)
