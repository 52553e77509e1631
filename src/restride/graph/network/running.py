"""Execution of a plan: constants in their formats, a block of memory for each run, a few native calls.

The launches of all steps are written into tables (`runtime/cpu/launch_image.py`), each of which is executed
by a single native call: workers stay in it from one kernel to the next, without returning to Python. A run
leases a **session**: a block of memory, and a row with the addresses of all memories that the tables use.
There are as many sessions as there were concurrent runs at most.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from ...errors import OutOfMemory
from ...runtime.alloc import Buffer, extent
from ...runtime.cpu.launch_image import LinkedTable, of_process, row
from ...runtime.cpu.thread_pool import available_processors, default_pool
from ...runtime.engine import Engine
from ...runtime.free_memory import check_room
from ...runtime.memory import Memory
from ...runtime.result_pool import allocate
from ...watching import Watch
from .input_indices import input_indices
from .memory_plan import scratch_name
from .outputs import NetworkOutput
from .plan import ARENA, CONSTANT, NetworkPlan, Storage
from .prepacking import ConstantBlock, PrepackedConstants, block_bytes
from .recorded_run import RunRecord, Session
from .run_program import BLOCK, PreparedStep, RunProgram, StepTime, ends_of, run_program

_MOST_COMPILERS = 8

ProgressCallback = Callable[[int, int], None]


class PlannedSession(Session):
    """A session that also has the steps: those in no table, and all for separate execution."""

    __slots__ = ("_addresses", "_items", "_plan", "_scratch", "_steps")

    def __init__(
        self, plan: NetworkPlan, parts: _Parts, program: RunProgram, items: Sequence[LinkedTable | int]
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
        addresses = {BLOCK: base, **self._addresses}
        memories = [item if isinstance(item, int) else addresses.get(item, 0) for item in program.memories]
        self._items, tables = items, [item for item in items if not isinstance(item, int)]
        ends = len(plan.inputs) + len(plan.outputs)
        super().__init__(block, row(memories, program.scalars), ends, tables, program.threads)

    def run(self, addresses: Sequence[int]) -> None:
        """Execute all steps, with the addresses of inputs and outputs in their order."""
        if len(self._items) == len(self._tables):
            super().run(addresses)
            return
        self._row[self._ends] = addresses
        for item in self._items:
            if isinstance(item, int):
                self._bound(item, addresses)()
            else:
                item.run(self._address)

    def timed(self, addresses: Sequence[int]) -> list[float]:
        """Execute step by step, and return the seconds that each took."""
        seconds = []
        runs = [self._bound(at, addresses) for at in range(len(self._steps))]
        for run, prepared in zip(runs, self._steps, strict=True):
            step = prepared.step
            with Watch("step", step.lowered.pd._describe, prepared.implementation, step.node) as watch:
                run()
            seconds.append(watch.seconds)
        return seconds

    def _bound(self, at: int, addresses: Sequence[int]) -> Callable[[], None]:
        ends = dict(zip(ends_of(self._plan), addresses, strict=True))
        return self._steps[at].bound({**self._addresses, **ends}, self._scratch[at])


def _new_block(plan: NetworkPlan) -> Buffer:
    """Return the memory of a run. Raises OutOfMemory, naming the node that makes the largest tensor."""
    try:
        check_room(plan.arena.peak)
        return allocate(max(plan.arena.peak, 1))
    except OutOfMemory as error:
        largest = max(plan.steps, key=lambda step: max(extent(place.md).needed for place in step.writes))
        where = f"node {largest.node!r} ({largest.operation}) makes the largest tensor"
        raise error.with_context(f"Network: a run needs {plan.arena.peak} bytes", where=where) from None


class _Parts(NamedTuple):
    """The shared parts of a plan's sessions: compiled steps, and constants in the formats that they read."""

    steps: list[PreparedStep]
    constants: dict[str, Memory]


class Runner:
    """The runner of a plan. Kernels are compiled at the first run. Threads can share it."""

    def __init__(self, plan: NetworkPlan, engine: Engine, prepacked: PrepackedConstants) -> None:
        self.plan, self.inputs = plan, tuple(plan.inputs)
        self.indices = tuple(input_indices(plan.graph))
        types = ((name, plan.graph.tensors[name]) for name in plan.outputs)
        self.outputs = tuple(NetworkOutput.of(name, kind.dims, kind.data_type) for name, kind in types)
        self._engine, self._prepacked = engine, prepacked
        # Reentrant: a signal handler may run the network that the interrupted code is compiling.
        self._lock = threading.RLock()
        self._parts: _Parts | None = None
        self._program: tuple[RunProgram, list[LinkedTable | int]] | None = None
        self._idle: deque[PlannedSession] = deque()

    def run(self, addresses: Sequence[int]) -> None:
        """Run on addresses of inputs and outputs in their order, whose memory the caller keeps alive."""
        session = self._leased()
        session.run(addresses)
        # A session of an interrupted run is left to the garbage collector.
        self._idle.append(session)

    def timed(self, addresses: Sequence[int]) -> list[StepTime]:
        """Run step by step, and return how long each took."""
        session = self._leased()
        seconds = session.timed(addresses)
        self._idle.append(session)
        steps = self.prepare().steps
        return [step.time(duration) for step, duration in zip(steps, seconds, strict=True)]

    def prepare(self, progress: ProgressCallback | None = None) -> _Parts:
        """Compile all kernels, and convert the constants to their formats, unless that is done.

        `progress`: called after each step with the number of ready steps, and their total number.
        """
        if self._parts is None:
            with self._lock:
                self._parts = self._parts or self._prepare_parts(progress)
        return self._parts

    def _prepare_parts(self, progress: ProgressCallback | None) -> _Parts:
        constants = self.plan.constants
        block = ConstantBlock(sum(block_bytes(md) for _, md in constants.values()))

        def packed(name: str) -> Memory:
            constant, md = constants[name]
            return self._prepacked.memory(constant, md, self._engine, block)

        # Kernels are compiled in separate processes: each thread here waits for one of them.
        with ThreadPoolExecutor(min(available_processors(), _MOST_COMPILERS)) as pool:
            memories = pool.map(packed, constants)
            steps = list[PreparedStep]()
            for step in pool.map(PreparedStep, self.plan.steps):
                steps.append(step)
                if progress is not None:
                    progress(len(steps), len(self.plan.steps))
            return _Parts(steps, dict(zip(constants, memories, strict=True)))

    def record(self, tensors: Mapping[str, int]) -> RunRecord | None:
        """Return a run for other processes to load, if tables have all steps. `tensors`: of the constants."""
        (program, _), plan = self._linked(), self.plan
        tables = [item for item in program.items if not isinstance(item, int)]
        if len(tables) < len(program.items):
            return None
        behind = program.memories[1 + len(ends_of(plan)) :]
        memories: list[int | str] = [
            program.fixed[memory].bytes().tobytes().hex() if isinstance(memory, int) else tensors[memory.name]
            for memory in behind
        ]
        return RunRecord(
            plan.arena.peak,
            [(table.words, table.sites, table.kernels, table.work_bytes) for table in tables],
            [(kernel.key, kernel.kind) for kernel in program.kernels],
            tuple(plan.inputs),
            self.indices,
            [(output.name, output.dims, str(output.data_type)) for output in self.outputs],
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
        return PlannedSession(self.plan, self.prepare(), *self._linked())

    def _linked(self) -> tuple[RunProgram, list[LinkedTable | int]]:
        """Return the program for the current number of threads, and its items with executable tables."""
        linked_program = self._program
        if linked_program is None or linked_program[0].threads != default_pool().threads:
            program = run_program(self.plan, self.prepare().steps)
            kernels = [of_process(kernel) for kernel in program.kernels]
            tables = (item if isinstance(item, int) else LinkedTable(item, kernels) for item in program.items)
            linked_program = self._program = program, list(tables)
        return linked_program
