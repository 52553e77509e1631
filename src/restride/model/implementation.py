"""Problem -> executable: found in the primitive cache or compiled, and told of in verbose lines.

An executable belongs to the structure of a problem; its values, scales and the like, belong to the problem.
An `Implementation` holds both: what primitives, and functions on arrays, execute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, Self

from ..desc.memory_desc import MemoryDesc
from ..errors import OutOfMemory, Unimplemented, refuse
from ..ir.computation import Computation, OperandSource
from ..ir.program import Program
from ..runtime.alloc import Buffer, address_of
from ..runtime.arguments import Arguments, Executable
from ..runtime.cache import cache_level, calls, on_eviction
from ..runtime.cpu.executable import CpuExecutable
from ..runtime.cpu.kernel import packed_address, packer
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from ..verbose import attach_logger, flags, report


class Problem(Protocol):
    """The problem of a primitive, checked and concrete: a frozen value. One class for each primitive."""

    @property
    def dst(self) -> MemoryDesc:
        """The destination."""

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""

    def structure(self) -> Self:
        """The problem without its values: equal for all that share an executable."""

    def program(self) -> Program:
        """The work, on no engine."""

    def outputs(self) -> dict[int, MemoryDesc]:
        """The outputs beside the destination, by argument."""

    def computation(self) -> Computation:
        """The computation: its scalars, and the origins of its operands."""


Describe = Callable[[str, "Implementation", float], Iterable[object]]
"""The fields of a verbose line, given operation, implementation and milliseconds."""


class _Cached(NamedTuple):
    """An entry of the primitive cache: the first implementation of a structure, and its description."""

    implementation: Implementation
    describe: Describe


_primitives = cache_level("primitives")


class Implementation:
    """A problem on an engine: the executable that all problems of its structure share, and its own values.

    `args`: the arguments of an execution in the order of the program's slots, None where the value is known.
    """

    __slots__ = ("_words", "args", "computation", "constants", "engine", "executable", "operands", "problem")

    def __init__(self, problem: Problem, engine: Engine, executable: Executable) -> None:
        self.problem, self.engine, self.executable = problem, engine, executable
        self.computation = problem.computation()
        operands = {operand.arg: operand for operand in self.computation.operands}
        slots = executable.program.slots
        self.operands: tuple[OperandSource | None, ...] = tuple(operands.get(slot.arg) for slot in slots)
        self.constants = tuple(self._constant(operand) for operand in self.operands)
        self.args = tuple(
            None if constant else slot.arg for slot, constant in zip(slots, self.constants, strict=True)
        )
        addresses = [constant.address for constant in self.constants[2:] if constant]
        scalars = self.computation.scalars
        # Packed once: whoever has the address must never find other bytes there.
        self._words = packer(len(addresses), len(scalars))(*addresses, *scalars)

    @property
    def name(self) -> str:
        """The name of the kernels."""
        return self.executable.name

    @property
    def why(self) -> str:
        """The reason for them."""
        return self.executable.why

    @property
    def schedule(self) -> str:
        """The transforms of the kernels."""
        return self.executable.schedule

    @property
    def scratch_bytes(self) -> int:
        """Bytes of temporaries that an execution takes."""
        return self.executable.scratch_bytes

    def renamed(self, args: Mapping[int, int]) -> Implementation:
        """The same for executions that call some arguments otherwise: `{ours: theirs}`."""
        other = Implementation(self.problem, self.engine, self.executable)
        other.args = tuple(arg if arg is None else args.get(arg, arg) for arg in self.args)
        return other

    def outputs(self) -> dict[int, MemoryDesc]:
        """The outputs beside the destination, by argument."""
        return self.problem.outputs()

    def more_descs(self) -> dict[int, MemoryDesc]:
        """The tensors of an execution beside source and destination, by argument."""
        return {**self.computation.descs(), **self.outputs()}

    def direct_call(self) -> tuple[Callable[[int, int, int], None] | None, int]:
        """The function that runs on the addresses of source and destination, and its third argument.

        None on devices, and where an execution brings more than two memories. Good while this object lives.
        """
        if not isinstance(self.executable, CpuExecutable) or any(arg is not None for arg in self.args[2:]):
            return None, 0
        return self.executable.call, packed_address(self._words)

    def arguments(self, memories: Mapping[int, Memory], scratch: Buffer | None = None) -> Arguments:
        """The arguments of the executable for checked memories. They keep the buffers alive."""
        slots = zip(self.args, self.constants, self.operands, strict=True)
        buffers = tuple(constant or _buffer(memories[arg or 0], operand) for arg, constant, operand in slots)
        return Arguments(buffers, self.computation.scalars, scratch)

    def _constant(self, operand: OperandSource | None) -> Buffer | None:
        if operand is None or operand.values is None:
            return None
        values = operand.values
        return self.engine.device.constant(Buffer(address_of(values), values.nbytes, True, values))


def _buffer(memory: Memory, operand: OperandSource | None) -> Buffer:
    # Another thread may have taken the buffer away since it was checked: then this raises.
    buffer = memory._required_buffer("data")
    skipped = skipped_bytes(operand, memory.desc)
    return buffer if not skipped else buffer.behind(skipped)


def skipped_bytes(operand: OperandSource | None, md: MemoryDesc) -> int:
    """The distance of a kernel's begin from element offset 0 of a memory, in whole bytes.

    Offsets of tensors are in the nest; scales and zero points begin at their first value.
    """
    if operand is None or operand.desc is not None:
        return 0
    return md.offset0 * md.data_type.bits // 8


def find_implementation(
    problem: Problem, engine: Engine, describe: Describe, make: Callable[[], Executable]
) -> Implementation:
    """The implementation of a problem, its executable from the primitive cache or made now.

    `make` checks the problem first, and raises for what has no answer. Verbose says which.
    """
    attach_logger()
    start = time.perf_counter()
    key = type(problem), problem.structure(), engine
    entry, is_hit = _primitives.get_or_make(
        key, lambda: _Cached(Implementation(problem, engine, make()), describe)
    )
    implementation: Implementation = entry.implementation
    if implementation.problem != problem:
        implementation = Implementation(problem, engine, implementation.executable)
    if flags.profile_create and (flags.profile or not is_hit):
        ms = (time.perf_counter() - start) * 1e3
        report(describe(f"create:cache_{'hit' if is_hit else 'miss'}", implementation, ms))
    return implementation


def forget(implementation: Implementation) -> None:
    """Make a problem anew where it is asked for again, and prepare all calls on arrays anew."""
    problem = implementation.problem
    _primitives.discard((type(problem), problem.structure(), implementation.engine))
    calls.trim(0)


def compiled(problem: Problem, engine: Engine) -> Executable:
    """The program of a checked problem, compiled for an engine."""
    try:
        return engine.device.compile(problem.program())
    except Unimplemented as error:
        where = getattr(problem, "where", str)()
        raise error.with_context(where=error.where or where) from None
    except OutOfMemory:
        raise
    except MemoryError as error:
        raise refuse(
            "RS-D01:tables-need-more", dst=problem.dst, reason=str(error) or "the system refused the memory"
        ) from None


def _tell_evicted(gone: _Cached) -> None:
    if flags.profile_create:
        report(gone.describe("cache:evict", gone.implementation, 0.0))


on_eviction(_tell_evicted)


def named_descs(names: Sequence[str], mds: Sequence[MemoryDesc]) -> str:
    """The descriptors of a verbose line: `src:f32::blocked:ab::f0 dst:...`."""
    return " ".join(md.verbose_str(name) for name, md in zip(names, mds, strict=True))
