"""`plan`: what a reorder would run, without running it."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from .arrays import engine_of
from .desc.memory_desc import MemoryDesc
from .errors import InvalidArguments
from .frameworks.arithmetic import Arithmetic, bind
from .frameworks.formats import check_out, out_desc, target_desc, wanted_of_out
from .primitives.problem import Problem, check_problem, solve
from .runtime.describe import Subject, describe
from .runtime.engine import Engine
from .runtime.memory import Memory
from .targets.cpu import Lowered
from .targets.jit import assembly

__all__ = ["Plan", "plan"]


@dataclass(frozen=True)
class Plan:
    """A reorder as it would run: `print(plan)` tells it in full.

    `src`, `dst`: descriptors. `bytes_moved`: bytes read and written, padding included. `padding`: elements of
    padding written as zero. `impl` and `why`: the kernel and the reason for it. `threads`: how many may share
    it. `nest`: the loop nest as pseudo-code.
    """

    src: MemoryDesc
    dst: MemoryDesc
    bytes_moved: int
    padding: int
    impl: str
    why: str
    threads: int
    nest: str
    _lowered: Lowered | None = field(repr=False)

    @property
    def schedule(self) -> str:
        """Tiles and loop order, a line for each part of the nest."""
        return str(self._lowered or "nothing to compile")

    @property
    def ir(self) -> str:
        """The kernel as LLVM IR; empty where nothing is compiled."""
        return self._lowered.ir() if self._lowered else ""

    @property
    def asm(self) -> str:
        """The kernel as assembly; empty where nothing is compiled."""
        return assembly(self.ir, self._lowered.isa) if self._lowered else ""

    def __str__(self) -> str:
        head = [
            f"src      {self.src}",
            f"dst      {self.dst}",
            f"moves    {self.bytes_moved} bytes; {self.padding} elements of padding written as zero",
            f"kernel   {self.impl}: {self.why}; {_threads(self.threads)}",
        ]
        return "\n".join([*head, "nest", _indented(self.nest), "schedule", _indented(self.schedule)])


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"up to {count} threads"


def _indented(text: str) -> str:
    return "\n".join("  " + line for line in text.splitlines())


def plan(
    x: Any,
    dst: Any,
    *,
    src: Any = None,
    dtype: Any = None,
    scale: Any = None,
    zero_point: Any = None,
    axis: Any = None,
    beta: Any = 0.0,
    post_ops: Any = None,
    out: Any = None,
    engine: Engine | None = None,
) -> Plan:
    """What `reorder(x, dst, ...)` would run. `x`: an array, a `Memory` or a `MemoryDesc`; the rest as there.

    `beta` may come without `out`. Nothing is compiled, read or written. Raises what `reorder` would raise for
    the same formats and types.
    """
    source = _desc_of(x, src)
    target = target_desc(source, dst, dtype) if out is None else _desc_of_out(source, dst, dtype, out)
    device = engine_of(x, out, engine)
    bound = bind(Arithmetic(scale, zero_point, axis, beta, post_ops), source, target, device)
    problem = check_problem(Problem(source, target, bound.attr.freeze()))
    solved = solve(problem, device)
    program = getattr(solved, "program", None)
    return Plan(
        src=problem.src,
        dst=problem.dst,
        bytes_moved=problem.moved_bytes,
        padding=prod(problem.dst.padded_dims) - problem.dst.nelems,
        impl=solved.name,
        why=solved.why,
        threads=program.threads if program else 1,
        nest=str(problem.nest()),
        _lowered=program.lowered if program else None,
    )


def _desc_of(x: Any, src: Any) -> MemoryDesc:
    if not isinstance(x, MemoryDesc | Memory):
        return describe(x, src, Subject.source("plan")).desc
    if src is not None:
        raise InvalidArguments("plan: src with a descriptor", why="it says how it lies", hint="leave src out")
    return x if isinstance(x, MemoryDesc) else x.desc


def _desc_of_out(src: MemoryDesc, dst: Any, dtype: Any, out: Any) -> MemoryDesc:
    if isinstance(out, Memory):
        check_out(out.desc, wanted_of_out(src, out.desc, dst, dtype))
        return out.desc
    if isinstance(out, np.ndarray):
        return out_desc(src, describe(out, None, Subject.target("plan")), dst, dtype).desc
    raise InvalidArguments(
        "plan: out is no array", why=f"it is {type(out).__name__}", hint="pass an array or a rs.Memory"
    )
