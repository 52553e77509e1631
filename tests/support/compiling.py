"""Compiles under a limit of processor time, in a process of their own: one that never ends is a failed test.

Run as a program it compiles the problems on its stdin, one after the other, and says which it is at.
"""

from __future__ import annotations

import json
import math
import resource
import signal
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from restride.desc.memory_desc import MemoryDesc
from restride.ir.digits import TensorOperand, reorder_nest
from restride.ir.nest import SCALAR, Compute, Step, linear
from restride.targets.cpu import lower_nest, splits_bytes
from restride.targets.isa import CacheSizes, Isa
from restride.targets.jit import compile_ir
from restride.targets.lowered import Lowered

# Kernels of small tiles compile in some 10 ms; on a machine that others share, in 100.
_LIMIT_S = 10
_MOVE = Compute()
_EXTRAS = "+avx512vbmi,+avx512vbmi2,+gfni"


@dataclass(frozen=True)
class Move:
    """A problem to compile: dims, type and format of both sides, and the computation."""

    dims: tuple[int, ...]
    src: tuple[str, str]
    dst: tuple[str, str]
    how: str = "move"


def long_text(steps: int = 400_000) -> str:
    """A text that takes LLVM many seconds, and would end: what comes of it needs no fault of LLVM."""
    lines = (f"  %v{i + 1} = mul i64 %v{i}, %v{i // 2}" for i in range(steps))
    return "define i64 @f(i64 %v0) {\n" + "\n".join(lines) + f"\n  ret i64 %v{steps}\n}}"


def isa_of(name: str) -> Isa:
    """The instruction set of a level's name; `avx512+vbmi` with all extras."""
    level, _, more = name.partition("+")
    isa = Isa.for_name(level)
    return replace(isa, features=f"{isa.features},{_EXTRAS}") if more else isa


def overdue(moves: list[Move], isa: str) -> list[Move]:
    """Return the problems that do not compile within the limit."""
    found, rest = [], moves
    while rest:
        at, code = _compile_all(rest, isa)
        if code == 0:
            break
        assert code == -signal.SIGXCPU, f"{rest[at]} on {isa}: status {code}"
        found.append(rest[at])
        rest = rest[at + 1 :]
    return found


def _compile_all(moves: list[Move], isa: str) -> tuple[int, int]:
    """The number of the last that was begun, and the status of the process."""
    jobs = json.dumps([[move.dims, move.src, move.dst, move.how] for move in moves])
    command = [sys.executable, "-m", "support.compiling", isa]
    tests = Path(__file__).parent.parent
    done = subprocess.run(command, input=jobs, stdout=subprocess.PIPE, text=True, cwd=tests, check=False)
    return int(done.stdout.split()[-1]), done.returncode


def _main(isa: Isa) -> None:
    texts = set()
    for number, (dims, src, dst, how) in enumerate(json.load(sys.stdin)):
        print(number, flush=True)
        sides = (MemoryDesc(tuple(dims), *src), MemoryDesc(tuple(dims), *dst))
        lowered = _LOWERED[how](*sides, isa)
        if splits_bytes(lowered) or (text := lowered.ir()) in texts:
            continue
        texts.add(text)
        _allow(_LIMIT_S)
        compile_ir(text, isa)


def _moved(src: MemoryDesc, dst: MemoryDesc, isa: Isa, compute: Compute = _MOVE) -> Lowered:
    return lower_nest(reorder_nest(src, dst, compute), isa, CacheSizes())


def _scaled(src: MemoryDesc, dst: MemoryDesc, isa: Isa) -> Lowered:
    return _moved(src, dst, isa, linear(scaled=True, summed=True))


def _added(src: MemoryDesc, dst: MemoryDesc, isa: Isa) -> Lowered:
    compute = Compute((Step("mul"), Step("add", 0, factor=SCALAR)))
    return lower_nest(reorder_nest(src, dst, compute, [TensorOperand.of_desc(src)]), isa, CacheSizes())


def _added_apart(src: MemoryDesc, dst: MemoryDesc, isa: Isa) -> Lowered:
    """Lower a reorder whose addend is stored in rows with gaps after every element."""
    dims = dst.dims
    strides = [2 * math.prod(dims[axis + 1 :]) for axis in range(len(dims))]
    tensor = TensorOperand.of_desc(MemoryDesc.from_strides(dims, src.data_type, strides))
    compute = Compute((Step("mul"), Step("add", 0, factor=SCALAR)))
    return lower_nest(reorder_nest(src, dst, compute, [tensor]), isa, CacheSizes())


_LOWERED = {"move": _moved, "scaled": _scaled, "added": _added, "apart": _added_apart}


def _allow(seconds: int) -> None:
    """So much more processor time from now on, to the second."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = math.ceil(used.ru_utime + used.ru_stime) + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _main(isa_of(sys.argv[1]))
