"""`plan`: what a reorder would run, without running it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .arrays import target_desc
from .desc.memory_desc import MemoryDesc
from .desc.attr import Attr
from .desc.post_ops import SumOp
from .errors import InvalidArguments
from .primitives.problem import Problem, check_problem
from .runtime.cpu import Program
from .runtime.describe import describe
from .runtime.memory import Memory
from .runtime.pool import get_num_threads
from .targets.jit import assembly

__all__ = ["Plan", "plan"]


@dataclass(frozen=True)
class Plan:
    """A reorder as it would run: `print(plan)` tells it in full.

    `src`, `dst`: descriptors. `bytes_moved`: bytes read and written, padding included. `padding`: elements of padding
    written as zero. `impl` and `why`: the kernel and the reason for it. `threads`: how many may share it.
    """

    src: MemoryDesc
    dst: MemoryDesc
    bytes_moved: int
    padding: int
    impl: str
    why: str
    threads: int
    _program: Program

    @property
    def nest(self) -> str:
        """The loop nest as pseudo-code."""
        return str(self._program.nest)

    @property
    def schedule(self) -> str:
        """Tiles and loop order, a line for each part of the nest."""
        return str(self._program.lowered or "nothing to run")

    @property
    def ir(self) -> str:
        """The kernel as LLVM IR."""
        return self._program.lowered.ir() if self._program.lowered else ""

    @property
    def asm(self) -> str:
        """The kernel as assembly."""
        lowered = self._program.lowered
        return assembly(lowered.ir(), lowered.isa) if lowered else ""

    def __str__(self) -> str:
        head = [
            f"src      {self.src}",
            f"dst      {self.dst}",
            f"moves    {self.bytes_moved} bytes; {self.padding} elements of padding written as zero",
            f"kernel   {self.impl}: {self.why}; up to {self.threads} threads",
        ]
        return "\n".join([*head, "nest", _indented(self.nest), "schedule", _indented(self.schedule)])


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())


def plan(x: Any, dst: Any, *, src: Any = None, dtype: Any = None, scale: Any = None, beta: Any = 0.0) -> Plan:
    """What `reorder(x, dst, ...)` would run. `x`: an array, a `Memory` or a `MemoryDesc`; the rest as in `reorder`.

    Raises what `reorder` would raise for the same formats and types.
    """
    source = _desc_of(x, src)
    attr = Attr(1.0 if scale is None else float(scale), SumOp(float(beta)) if beta else None)
    problem = check_problem(Problem(source, target_desc(source, dst, dtype), attr))
    program = Program(problem.nest(), problem.moved_bytes)
    written = _padded(problem.dst)
    return Plan(
        src=problem.src,
        dst=problem.dst,
        bytes_moved=problem.moved_bytes,
        padding=written - problem.dst.nelems,
        impl=program.name,
        why=program.why,
        threads=min(get_num_threads(), program.lowered.steps) if program.lowered else 1,
        _program=program,
    )


def _padded(md: MemoryDesc) -> int:
    count = 1
    for extent in md.padded_dims:
        count *= extent
    return count


def _desc_of(x: Any, src: Any) -> MemoryDesc:
    if isinstance(x, MemoryDesc | Memory) and src is not None:
        raise InvalidArguments("plan: src with a descriptor", why="it says how it lies", hint="leave src out")
    if isinstance(x, MemoryDesc):
        return x
    return x.desc if isinstance(x, Memory) else describe(x, src).desc
