"""Runs of a plan: constants in their formats, a block of memory for each run, a flat list of calls.

A run leases a **session**: a block of memory, and every step as machine code with the addresses that it
takes. What stays where it is, is bound once; steps that touch what a run brings or gives are bound again each
time. As many sessions are made as runs were ever under way at once.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from ..frontend.results import Make
from ..primitives.implementation import Implementation, skipped_bytes
from ..primitives.primitive import Primitive
from ..runtime.alloc import Buffer
from ..runtime.engine import Engine
from ..runtime.executable import CpuExecutable
from ..runtime.kernel import packed_address, packer
from ..runtime.memory import Memory
from ..runtime.pool import available_processors
from ..runtime.result_pool import allocate
from .memory_plan import scratch_name
from .network_plan import ARENA, CONSTANT, INPUT, OUTPUT, NetworkPlan, NetworkStep, Storage, TensorLocation
from .prepacking import PrepackedConstants
from .propagation import format_name

_MOST_COMPILERS = 8

Run = Callable[[int, int, int, int], None]


@dataclass(frozen=True, slots=True)
class StepTime:
    """How long one step of a run took: `node` and `operation`, `seconds`, the formats and the kernel.

    `is_inserted`: true for a reorder that propagation put there.
    """

    node: str
    operation: str
    seconds: float
    formats: str
    kernel: str
    is_inserted: bool


@dataclass(frozen=True, slots=True)
class _BoundStep:
    """A step with its addresses: `run(src, dst, words, scratch)`; `packed` holds what `words` points at."""

    run: Run
    src: int
    dst: int
    words: int
    scratch: int
    packed: bytes


@dataclass(frozen=True, slots=True)
class _SlotRule:
    """What goes into one slot of a program: a known address, or a place and how far behind its begin."""

    address: int
    place: TensorLocation | None
    skipped: int = 0


class PreparedStep:
    """A step whose kernels are compiled. `is_open`: true where it touches what a run brings or gives."""

    __slots__ = ("_pack", "_rules", "_run", "_scalars", "implementation", "is_open", "step")

    def __init__(self, step: NetworkStep, implementation: Implementation) -> None:
        self.step, self.implementation = step, implementation
        executable = implementation.executable
        assert isinstance(executable, CpuExecutable)
        executable.prepare()
        self._run: Run = executable.run
        places = dict(zip(step.lowered.reads, step.reads, strict=True))
        places |= zip(step.lowered.writes, step.writes, strict=True)
        self._rules = [self._rule(places, at, arg) for at, arg in enumerate(implementation.args)]
        self._scalars = implementation.computation.scalars
        self._pack = packer(max(len(self._rules) - 2, 0), len(self._scalars))
        wheres = {each.storage.where for each in (*step.reads, *step.writes)}
        self.is_open = not wheres.isdisjoint((INPUT, OUTPUT))

    def _rule(self, places: Mapping[int, TensorLocation], at: int, arg: int | None) -> _SlotRule:
        constant = self.implementation.constants[at]
        if arg is None:
            assert constant is not None
            return _SlotRule(constant.address, None)
        place = places[arg]
        return _SlotRule(0, place, skipped_bytes(self.implementation.operands[at], place.md))

    def bound(self, addresses: Mapping[Storage, int], scratch: int) -> _BoundStep:
        """The step with the addresses of all memory that it touches."""
        found = [
            rule.address if rule.place is None else addresses[rule.place.storage] + rule.skipped
            for rule in self._rules
        ]
        packed = self._pack(*found[2:], *self._scalars)
        return _BoundStep(self._run, found[0], found[1], packed_address(packed), scratch, packed)


class Session:
    """What one run at a time needs: a block of memory, and the steps with their addresses in it."""

    __slots__ = ("_addresses", "_block", "_bound", "_open", "_scratch", "_steps")

    def __init__(
        self, plan: NetworkPlan, steps: Sequence[PreparedStep], constants: Mapping[str, Memory]
    ) -> None:
        self._steps = steps
        self._block: Buffer = allocate(max(plan.arena.peak, 1))
        base, offsets = self._block.address, plan.arena.offsets
        self._addresses = {Storage(ARENA, name): base + offset for name, offset in offsets.items()}
        for name, memory in constants.items():
            assert memory._buffer is not None
            self._addresses[Storage(CONSTANT, name)] = memory._buffer.address
        self._scratch = [
            base + offsets[name] if (name := scratch_name(at)) in offsets else 0 for at in range(len(steps))
        ]
        self._open = [at for at, step in enumerate(steps) if step.is_open]
        self._bound: list[_BoundStep | None] = [
            None if step.is_open else step.bound(self._addresses, self._scratch[at])
            for at, step in enumerate(steps)
        ]

    def run(self, brought: Mapping[Storage, int]) -> None:
        """Execute all steps, with the addresses of inputs and outputs."""
        for step in self._all(brought):
            step.run(step.src, step.dst, step.words, step.scratch)

    def timed(self, brought: Mapping[Storage, int]) -> list[float]:
        """The same, and the seconds that each step took."""
        seconds = []
        for step in self._all(brought):
            start = time.perf_counter()
            step.run(step.src, step.dst, step.words, step.scratch)
            seconds.append(time.perf_counter() - start)
        return seconds

    def _all(self, brought: Mapping[Storage, int]) -> list[_BoundStep]:
        bound = self._bound.copy()
        addresses = {**self._addresses, **brought}
        for at in self._open:
            bound[at] = self._steps[at].bound(addresses, self._scratch[at])
        return bound  # type: ignore[return-value]


class _Parts(NamedTuple):
    """What the sessions of a plan share: compiled steps, and constants in the formats that they read."""

    steps: list[PreparedStep]
    constants: dict[str, Memory]


class Runner:
    """What runs a plan. Kernels are compiled when the first run wants them. Threads may share it."""

    def __init__(
        self,
        plan: NetworkPlan,
        engine: Engine,
        prepacked: PrepackedConstants,
        makers: Mapping[str, Make],
    ) -> None:
        self.plan, self.makers = plan, makers
        self._engine, self._prepacked = engine, prepacked
        self._lock = threading.Lock()
        self._parts: _Parts | None = None
        self._idle: deque[Session] = deque()

    def run(self, brought: Mapping[Storage, int]) -> None:
        """Run on addresses of inputs and outputs, whose memory the caller keeps alive."""
        session = self._leased()
        session.run(brought)
        # A run that was interrupted leaves its session to the collector.
        self._idle.append(session)

    def timed(self, brought: Mapping[Storage, int]) -> list[StepTime]:
        """The same, and how long each step took."""
        session = self._leased()
        seconds = session.timed(brought)
        self._idle.append(session)
        return [_told(*each) for each in zip(self.prepare().steps, seconds, strict=True)]

    def prepare(self) -> _Parts:
        """Compile all kernels, and bring the constants into their formats, unless that is done."""
        if self._parts is None:
            with self._lock:
                self._parts = self._parts or self._made()
        return self._parts

    def _made(self) -> _Parts:
        wanted = self.plan.constants

        def packed(name: str) -> Memory:
            constant, md = wanted[name]
            return self._prepacked.memory(constant, md, self._engine)

        # Kernels are compiled in processes of their own: each thread here waits for one of them.
        with ThreadPoolExecutor(min(available_processors(), _MOST_COMPILERS)) as pool:
            memories = pool.map(packed, wanted)
            steps = list(pool.map(_prepared, self.plan.steps))
            return _Parts(steps, dict(zip(wanted, memories, strict=True)))

    def _leased(self) -> Session:
        try:
            return self._idle.pop()
        except IndexError:
            parts = self.prepare()
            return Session(self.plan, parts.steps, parts.constants)


def _told(prepared: PreparedStep, seconds: float) -> StepTime:
    step = prepared.step
    formats = [format_name(each.md) for each in (*step.reads[:1], *step.writes[:1])]
    kernel = prepared.implementation.name
    return StepTime(step.node, step.operation, seconds, " -> ".join(formats), kernel, step.is_inserted)


def _prepared(step: NetworkStep) -> PreparedStep:
    made: Primitive = step.lowered.kind(step.lowered.pd)
    return PreparedStep(step, made._check_usable())
