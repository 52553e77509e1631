"""Problem -> executable: found in the primitive cache or compiled, and reported in verbose lines.

An executable belongs to the structure of a problem; values such as scales belong to the problem. An
`Implementation` holds both: primitives and functions on arrays execute it.
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
        """Number of bytes read and written."""

    def structure(self) -> Self:
        """Return the problem without its values: equal for all that share an executable."""

    def program(self) -> Program:
        """Return the work, independent of an engine."""

    def outputs(self) -> dict[int, MemoryDesc]:
        """Return the outputs other than the destination, by argument."""

    def computation(self) -> Computation:
        """Return the computation: its scalars, and the origins of its operands."""


Describe = Callable[[str, "Implementation", float], Iterable[object]]
"""The fields of a verbose line for an operation, an implementation and milliseconds."""


class _Cached(NamedTuple):
    """An entry of the primitive cache: the first implementation of a structure, and its description."""

    implementation: Implementation
    describe: Describe


_primitives = cache_level("primitives")


class Implementation:
    """A problem on an engine: the executable shared by all problems of its structure, and its own values.

    `args`: the arguments of an execution in the order of the program's slots, None if the value is known.
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
        # Packed once, so that the bytes at this address never change.
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
        """Size of the temporaries of an execution in bytes."""
        return self.executable.scratch_bytes

    def renamed(self, args: Mapping[int, int]) -> Implementation:
        """Return the same for executions that use other numbers for some arguments: `{ours: theirs}`."""
        other = Implementation(self.problem, self.engine, self.executable)
        other.args = tuple(arg if arg is None else args.get(arg, arg) for arg in self.args)
        return other

    def outputs(self) -> dict[int, MemoryDesc]:
        """The outputs other than the destination, by argument."""
        return self.problem.outputs()

    def more_descs(self) -> dict[int, MemoryDesc]:
        """The tensors of an execution other than source and destination, by argument."""
        return {**self.computation.descs(), **self.outputs()}

    def direct_call(self) -> tuple[Callable[[int, int, int], None] | None, int]:
        """The function that runs on the addresses of source and destination, and its third argument.

        None on devices, and for executions with more than two memory objects. Valid while this object exists.
        """
        if not isinstance(self.executable, CpuExecutable) or any(arg is not None for arg in self.args[2:]):
            return None, 0
        return self.executable.call, packed_address(self._words)

    def arguments(self, memories: Mapping[int, Memory], scratch: Buffer | None = None) -> Arguments:
        """Return the arguments of the executable for checked memory objects; they keep the buffers alive."""
        slots = zip(self.args, self.constants, self.operands, strict=True)
        buffers = tuple(constant or _buffer(memories[arg or 0], operand) for arg, constant, operand in slots)
        return Arguments(buffers, self.computation.scalars, scratch)

    def _constant(self, operand: OperandSource | None) -> Buffer | None:
        if operand is None or operand.values is None:
            return None
        values = operand.values
        return self.engine.device.constant(Buffer(address_of(values), values.nbytes, True, values))


def _buffer(memory: Memory, operand: OperandSource | None) -> Buffer:
    # Raises if another thread has removed the buffer since the check.
    buffer = memory._required_buffer("data")
    skipped = skipped_bytes(operand, memory.desc)
    return buffer if not skipped else buffer.behind(skipped)


def skipped_bytes(operand: OperandSource | None, md: MemoryDesc) -> int:
    """Return the distance of a kernel's start from element offset 0 of a memory, in whole bytes.

    Offsets of tensors are part of the nest; scales and zero points begin at their first value.
    """
    if operand is None or operand.desc is not None:
        return 0
    return md.offset0 * md.data_type.bits // 8


def find_implementation(
    problem: Problem, engine: Engine, describe: Describe, make: Callable[[], Executable]
) -> Implementation:
    """Return the implementation of a problem, its executable from the primitive cache or newly created.

    `make` first checks the problem, and raises if it is unsupported. Verbose lines say which.
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
    """Create a problem's executable again when it is next needed, and prepare all calls on arrays again."""
    problem = implementation.problem
    _primitives.discard((type(problem), problem.structure(), implementation.engine))
    calls.trim(0)


def compiled(problem: Problem, engine: Engine) -> Executable:
    """Compile the program of a checked problem for an engine."""
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
    """Return the descriptors for a verbose line: `src:f32::blocked:ab::f0 dst:...`."""
    return " ".join(md.verbose_str(name) for name, md in zip(names, mds, strict=True))
