"""A plan as a program: its steps with their kernels, and the sources of their addresses."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...model.implementation import skipped_bytes
from ...model.primitive import Primitive
from ...runtime.alloc import Buffer, extent
from ...runtime.cpu.executable import CpuExecutable
from ...runtime.cpu.kernel import KernelCode, packed_address, packer
from ...runtime.cpu.launch_image import ImageWriter, LaunchTable, MemoryPlace, is_native
from ...runtime.cpu.thread_pool import default_pool
from ...runtime.result_pool import POOLED_BYTES
from ..formats.propagation import format_name
from .memory_plan import scratch_name
from .plan import ARENA, CONSTANT, INPUT, OUTPUT, NetworkPlan, NetworkStep, Storage, TensorLocation


@dataclass(frozen=True, slots=True)
class StepTime:
    """The time of one step of a run: `node` and `operation`, `seconds`, the formats and the kernel.

    `is_inserted`: true for a reorder inserted by propagation.
    """

    node: str
    operation: str
    seconds: float
    formats: str
    kernel: str
    is_inserted: bool


@dataclass(frozen=True, slots=True)
class _SlotRule:
    """The content of one slot of a program: a known address, or a memory and an offset in it."""

    address: int
    place: TensorLocation | None
    skipped: int = 0


class PreparedStep:
    """A step with compiled kernels. `is_native`: all of its launches can be in tables.

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

    def __init__(self, step: NetworkStep) -> None:
        primitive: Primitive = step.lowered.kind(step.lowered.pd)
        self.step, self.implementation = step, primitive._check_usable()
        implementation, executable = self.implementation, self.implementation.executable
        assert isinstance(executable, CpuExecutable)
        executable.prepare()
        self._executable = executable
        self.is_native = is_native(executable)
        places = dict(zip(step.lowered.reads, step.reads, strict=True))
        places |= zip(step.lowered.writes, step.writes, strict=True)
        self._rules = [self._rule(places, at, arg) for at, arg in enumerate(implementation.args)]
        self._scalars = implementation.computation.scalars
        self._pack = packer(max(len(self._rules) - 2, 0), len(self._scalars))
        self.fixed = [constant for constant in implementation.constants if constant is not None]

    def _rule(self, places: Mapping[int, TensorLocation], at: int, arg: int | None) -> _SlotRule:
        constant = self.implementation.constants[at]
        if arg is None:
            assert constant is not None
            return _SlotRule(constant.address, None)
        place = places[arg]
        return _SlotRule(0, place, skipped_bytes(self.implementation.operands[at], place.md))

    def bound(self, addresses: Mapping[Storage, int], scratch: int) -> Callable[[], None]:
        """Return a function that executes the step with the addresses of all memory that it touches."""
        src, dst, *others = (
            rule.address if rule.place is None else addresses[rule.place.storage] + rule.skipped
            for rule in self._rules
        )
        packed = self._pack(*others, *self._scalars)
        run, words = self._executable.run, packed_address(packed)

        def call(keep_alive: bytes = packed) -> None:
            run(src, dst, words, scratch)

        return call

    def time(self, seconds: float) -> StepTime:
        """Return the description of the step, with its time."""
        step = self.step
        formats = [format_name(place.md) for place in (*step.reads[:1], *step.writes[:1])]
        kernel = self.implementation.name
        return StepTime(step.node, step.operation, seconds, " -> ".join(formats), kernel, step.is_inserted)

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
        # Results of at least this size begin at a page.
        is_aligned = storage.where == OUTPUT and extent(md).needed >= POOLED_BYTES
        return MemoryPlace(numbers[storage], rule.skipped, is_aligned)


@dataclass(frozen=True, slots=True)
class RunProgram:
    """The sequence of launches of a run, for a given number of threads: tables of launches, and steps by
    number.

    `memories`: those that tables refer to by number, the arena first, then inputs and outputs; an integer is
    the address of one of `fixed`.
    """

    threads: int
    items: tuple[LaunchTable | int, ...]
    kernels: tuple[KernelCode, ...]
    memories: tuple[Storage | int, ...]
    fixed: Mapping[int, Buffer]
    scalars: tuple[float, ...]


BLOCK = Storage(ARENA, "")


def run_program(plan: NetworkPlan, steps: Sequence[PreparedStep]) -> RunProgram:
    """Compile a plan's steps to few native calls; steps that Ctrl-C must interrupt stay separate."""
    pool = default_pool()
    threads, has_team = pool.threads, pool.native_team() is not None
    memories: list[Storage | int] = [BLOCK, *ends_of(plan)]
    memories += [Storage(CONSTANT, name) for name in plan.constants]
    fixed = {memory.address: memory for step in steps for memory in step.fixed}
    memories += fixed
    numbers = {memory: number for number, memory in enumerate(memories)}
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
    launches = tuple(item for item in items if item is not None)
    return RunProgram(threads, launches, writer.kernels, tuple(memories), fixed, tuple(writer.scalars))


def ends_of(plan: NetworkPlan) -> list[Storage]:
    """Return the inputs and outputs of a run, in order."""
    outputs = [Storage(OUTPUT, name) for name in plan.outputs]
    return [*(Storage(INPUT, name) for name in plan.inputs), *outputs]
