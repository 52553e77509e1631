"""Runs of a plan: constants in their formats, a block of memory for each run, a few native calls.

The launches of all steps are written into tables (`runtime/launch_image.py`), each of which one native call
goes through: workers stay in it from one kernel to the next, and nothing goes through Python. A run leases a
**session**: a block of memory, and a row with the addresses of all that the tables read and write. As many
sessions are made as runs were ever under way at once.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

from ..errors import OutOfMemory
from ..primitives.implementation import Implementation, skipped_bytes
from ..primitives.primitive import Primitive
from ..runtime.alloc import Buffer, extent
from ..runtime.engine import Engine
from ..runtime.executable import CpuExecutable
from ..runtime.free_memory import check_room
from ..runtime.kernel import KernelCode, packed_address, packer
from ..runtime.launch_image import (
    ImageWriter,
    LaunchTable,
    LinkedTable,
    MemoryPlace,
    is_native,
    of_process,
    row,
)
from ..runtime.memory import Memory
from ..runtime.pool import available_processors, default_pool
from ..runtime.result_pool import POOLED_BYTES, allocate
from .memory_plan import scratch_name
from .network_output import NetworkOutput
from .network_plan import ARENA, CONSTANT, INPUT, OUTPUT, NetworkPlan, NetworkStep, Storage, TensorLocation
from .operations import TensorType
from .prepacking import ConstantBlock, PrepackedConstants, block_bytes
from .propagation import format_name
from .recorded_run import RunRecord
from .session import Session

_MOST_COMPILERS = 8

Run = Callable[[int, int, int, int], None]
Told = Callable[[int, int], None]


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
    """A step with its addresses: `call(src, dst, words, scratch)`; `packed` holds what `words` points at."""

    call: Run
    src: int
    dst: int
    words: int
    scratch: int
    packed: bytes

    def run(self) -> None:
        """Execute it."""
        self.call(self.src, self.dst, self.words, self.scratch)


@dataclass(frozen=True, slots=True)
class _SlotRule:
    """What goes into one slot of a program: a known address, or a place and how far behind its begin."""

    address: int
    place: TensorLocation | None
    skipped: int = 0


class PreparedStep:
    """A step whose kernels are compiled. `is_native`: tables may have all of its launches.

    `fixed`: the memory that is the same for all runs.
    """

    __slots__ = (
        "_executable",
        "_pack",
        "_rules",
        "_scalars",
        "fixed",
        "implementation",
        "is_native",
        "step",
    )

    def __init__(self, step: NetworkStep, implementation: Implementation) -> None:
        self.step, self.implementation = step, implementation
        executable = implementation.executable
        assert isinstance(executable, CpuExecutable)
        executable.prepare()
        self._executable = executable
        self.is_native = is_native(executable)
        places = dict(zip(step.lowered.reads, step.reads, strict=True))
        places |= zip(step.lowered.writes, step.writes, strict=True)
        self._rules = [self._rule(places, at, arg) for at, arg in enumerate(implementation.args)]
        self._scalars = implementation.computation.scalars
        self._pack = packer(max(len(self._rules) - 2, 0), len(self._scalars))
        self.fixed = [each for each in implementation.constants if each is not None]

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
        return _BoundStep(self._executable.run, found[0], found[1], packed_address(packed), scratch, packed)

    def write_to(
        self,
        writer: ImageWriter,
        offsets: Mapping[str, int],
        numbers: Mapping[Storage | int, int],
        scratch: str,
    ) -> None:
        """Add the launches to a table. `numbers`: of the memories; `offsets`: of tensors in the arena."""
        slots = [self._memory_place(rule, offsets, numbers) for rule in self._rules]
        temporaries = MemoryPlace(0, offsets.get(scratch, 0), is_aligned=True)
        writer.add(self._executable, slots, temporaries, self._scalars)

    def _memory_place(
        self, rule: _SlotRule, offsets: Mapping[str, int], numbers: Mapping[Storage | int, int]
    ) -> MemoryPlace:
        if rule.place is None:
            return MemoryPlace(numbers[rule.address])
        storage, md = rule.place.storage, rule.place.md
        if storage.where == ARENA:
            return MemoryPlace(0, offsets[storage.name] + rule.skipped, is_aligned=True)
        # Results from here on begin at a page.
        is_aligned = storage.where == OUTPUT and extent(md).needed >= POOLED_BYTES
        return MemoryPlace(numbers[storage], rule.skipped, is_aligned)


@dataclass(frozen=True, slots=True)
class RunProgram:
    """What a run does in turn, for so many threads: tables of launches, and steps by their number.

    `memories`: what a table finds at each number, the arena first, then what a run brings and gives; an
    integer is the address of one of `fixed`.
    """

    threads: int
    items: tuple[LaunchTable | int, ...]
    kernels: tuple[KernelCode, ...]
    memories: tuple[Storage | int, ...]
    fixed: Mapping[int, Buffer]
    scalars: tuple[float, ...]


_BLOCK = Storage(ARENA, "")


def run_program(plan: NetworkPlan, steps: Sequence[PreparedStep]) -> RunProgram:
    """The steps of a plan as few native calls; a step that Ctrl-C may have to end stays one of its own."""
    pool = default_pool()
    threads, has_team = pool.threads, pool.native_team() is not None
    memories: list[Storage | int] = [_BLOCK, *_ends(plan)]
    memories += [Storage(CONSTANT, name) for name in plan.constants]
    fixed = {each.address: each for step in steps for each in step.fixed}
    memories += fixed
    numbers = {each: number for number, each in enumerate(memories)}
    writer = ImageWriter(len(memories))
    items: list[LaunchTable | int | None] = []
    for at, step in enumerate(steps):
        if not (has_team and step.is_native):
            items += [writer.cut(), at]
            continue
        step.write_to(writer, plan.arena.offsets, numbers, scratch_name(at))
        if writer.is_full:
            items.append(writer.cut())
    items.append(writer.cut())
    found = tuple(each for each in items if each is not None)
    return RunProgram(threads, found, writer.kernels, tuple(memories), fixed, tuple(writer.scalars))


class PlannedSession(Session):
    """A session that knows the steps too: those that no table has, and all of them one by one."""

    __slots__ = ("_addresses", "_items", "_plan", "_scratch", "_steps")

    def __init__(
        self,
        plan: NetworkPlan,
        parts: _Parts,
        program: RunProgram,
        tables: Mapping[int, LinkedTable],
    ) -> None:
        block = _new_block(plan)
        base, offsets = block.address, plan.arena.offsets
        self._plan, self._steps = plan, parts.steps
        self._addresses = {Storage(ARENA, name): base + offset for name, offset in offsets.items()}
        for name, memory in parts.constants.items():
            assert memory._buffer is not None
            self._addresses[Storage(CONSTANT, name)] = memory._buffer.address
        names = map(scratch_name, range(len(parts.steps)))
        self._scratch = [base + offsets[name] if name in offsets else 0 for name in names]
        known = {_BLOCK: base, **self._addresses}
        memories = [each if isinstance(each, int) else known.get(each, 0) for each in program.memories]
        self._items = [
            each if isinstance(each, int) else tables[number] for number, each in enumerate(program.items)
        ]
        ends = len(plan.inputs) + len(plan.outputs)
        super().__init__(block, row(memories, program.scalars), ends, list(tables.values()), program.threads)

    def run(self, brought: Sequence[int]) -> None:
        """Execute all, with the addresses of inputs and outputs in their order."""
        if len(self._items) == len(self._tables):
            super().run(brought)
            return
        self._row[self._ends] = brought
        for item in self._items:
            if isinstance(item, int):
                self._bound(item, brought).run()
            else:
                item.run(self._address)

    def timed(self, brought: Sequence[int]) -> list[float]:
        """The same step by step, and the seconds that each took."""
        seconds = []
        for step in [self._bound(at, brought) for at in range(len(self._steps))]:
            start = time.perf_counter()
            step.run()
            seconds.append(time.perf_counter() - start)
        return seconds

    def _bound(self, at: int, brought: Sequence[int]) -> _BoundStep:
        ends = dict(zip(_ends(self._plan), brought, strict=True))
        return self._steps[at].bound({**self._addresses, **ends}, self._scratch[at])


def _new_block(plan: NetworkPlan) -> Buffer:
    """The memory of a run. Raises OutOfMemory, which names the node that makes the largest tensor."""
    try:
        check_room(plan.arena.peak)
        return allocate(max(plan.arena.peak, 1))
    except OutOfMemory as error:
        largest = max(plan.steps, key=lambda step: max(extent(each.md).needed for each in step.writes))
        where = f"node {largest.node!r} ({largest.operation}) makes the largest tensor"
        raise error.retold(f"Network: a run needs {plan.arena.peak} bytes", where=where) from None


def _ends(plan: NetworkPlan) -> list[Storage]:
    """What a run brings and gives, in order."""
    outputs = [Storage(OUTPUT, name) for name in plan.outputs]
    return [*(Storage(INPUT, name) for name in plan.inputs), *outputs]


class _Parts(NamedTuple):
    """What the sessions of a plan share: compiled steps, and constants in the formats that they read."""

    steps: list[PreparedStep]
    constants: dict[str, Memory]


class _LinkedProgram(NamedTuple):
    """A program, and its tables by their place among the items."""

    program: RunProgram
    tables: dict[int, LinkedTable]


class Runner:
    """What runs a plan. Kernels are compiled when the first run wants them. Threads may share it."""

    def __init__(
        self,
        plan: NetworkPlan,
        engine: Engine,
        prepacked: PrepackedConstants,
    ) -> None:
        self.plan, self.inputs = plan, tuple(plan.inputs)
        self.outputs = tuple(_output(name, plan.graph.tensors[name]) for name in plan.outputs)
        self._engine, self._prepacked = engine, prepacked
        # Reentrant: a signal's handler may run the network that the code it interrupts is compiling.
        self._lock = threading.RLock()
        self._parts: _Parts | None = None
        self._program: _LinkedProgram | None = None
        self._idle: deque[PlannedSession] = deque()

    def run(self, brought: Sequence[int]) -> None:
        """Run on addresses of inputs and outputs in their order, whose memory the caller keeps alive."""
        session = self._leased()
        session.run(brought)
        # A run that was interrupted leaves its session to the collector.
        self._idle.append(session)

    def timed(self, brought: Sequence[int]) -> list[StepTime]:
        """The same step by step, and how long each took."""
        session = self._leased()
        seconds = session.timed(brought)
        self._idle.append(session)
        return [_told(*each) for each in zip(self.prepare().steps, seconds, strict=True)]

    def prepare(self, told: Told | None = None) -> _Parts:
        """Compile all kernels, and bring the constants into their formats, unless that is done.

        `told`: called after each step with how many are ready, and how many there are.
        """
        if self._parts is None:
            with self._lock:
                self._parts = self._parts or self._made(told)
        return self._parts

    def _made(self, told: Told | None) -> _Parts:
        wanted = self.plan.constants
        block = ConstantBlock(sum(block_bytes(md) for _, md in wanted.values()))

        def packed(name: str) -> Memory:
            constant, md = wanted[name]
            return self._prepacked.memory(constant, md, self._engine, block)

        # Kernels are compiled in processes of their own: each thread here waits for one of them.
        with ThreadPoolExecutor(min(available_processors(), _MOST_COMPILERS)) as pool:
            memories = pool.map(packed, wanted)
            steps = list[PreparedStep]()
            for step in pool.map(_prepared, self.plan.steps):
                steps.append(step)
                if told is not None:
                    told(len(steps), len(self.plan.steps))
            return _Parts(steps, dict(zip(wanted, memories, strict=True)))

    def record(self, tensors: Mapping[str, int]) -> RunRecord | None:
        """A run as another process finds it, where tables have all steps. `tensors`: of the constants."""
        program, plan = self._linked().program, self.plan
        tables = [each for each in program.items if not isinstance(each, int)]
        if len(tables) < len(program.items):
            return None
        behind = program.memories[1 + len(_ends(plan)) :]
        memories: list[int | str] = [
            program.fixed[each].bytes().tobytes().hex() if isinstance(each, int) else tensors[each.name]
            for each in behind
        ]
        return RunRecord(
            plan.arena.peak,
            [(each.words, each.sites, each.kernels, each.work_bytes) for each in tables],
            [(each.key, each.kind) for each in program.kernels],
            tuple(plan.inputs),
            [(each.name, each.dims, str(each.data_type)) for each in self.outputs],
            memories,
            program.scalars,
        )

    def _leased(self) -> PlannedSession:
        threads = default_pool().threads
        while True:
            try:
                session = self._idle.pop()
            except IndexError:
                break
            if session.threads == threads:
                return session
        parts, found = self.prepare(), self._linked()
        return PlannedSession(self.plan, parts, found.program, found.tables)

    def _linked(self) -> _LinkedProgram:
        parts, found = self.prepare(), self._program
        if found is None or found.program.threads != default_pool().threads:
            program = run_program(self.plan, parts.steps)
            kernels = [of_process(each) for each in program.kernels]
            found = self._program = _LinkedProgram(
                program,
                {
                    number: LinkedTable(each, kernels)
                    for number, each in enumerate(program.items)
                    if not isinstance(each, int)
                },
            )
        return found


def _output(name: str, kind: TensorType) -> NetworkOutput:
    return NetworkOutput.of(name, kind.dims, kind.data_type)


def _told(prepared: PreparedStep, seconds: float) -> StepTime:
    step = prepared.step
    formats = [format_name(each.md) for each in (*step.reads[:1], *step.writes[:1])]
    kernel = prepared.implementation.name
    return StepTime(step.node, step.operation, seconds, " -> ".join(formats), kernel, step.is_inserted)


def _prepared(step: NetworkStep) -> PreparedStep:
    made: Primitive = step.lowered.kind(step.lowered.pd)
    return PreparedStep(step, made._check_usable())
