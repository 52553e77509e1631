"""Programs compiled for this machine, without an engine and without the cache of primitives."""

from __future__ import annotations

from typing import Any

from restride.ir.program import Program
from restride.runtime.cpu.executable import CpuExecutable
from restride.targets.isa import host_caches, host_isa


def executable_of(problem: Any) -> CpuExecutable:
    """The program of a problem for this CPU."""
    return compiled_program(problem.program())


def compiled_program(program: Program) -> CpuExecutable:
    """A program for this CPU."""
    return CpuExecutable(program, host_isa(), host_caches())
