"""A process of its own that runs five kernels, so that their instructions can be counted; JSON on stdout.

`python -m restride_bench.counted run` executes each CALLS times, for a counter around the whole process.
`... step` executes each once in a child that it steps through, one instruction after another (Linux, x86-64).
JIT_PROFILE has to name functions: what lies in a kernel's is counted, all of Python beside it is not.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .arithmetic import PLAIN, PeerArithmetic
from .measure import Call
from .peers import Restride
from .problem import Bytes, PeerProblem

CALLS = 100
_DIMS = (1, 64, 28, 28)
_ASKED = (
    ("f32 nchw→nchw", "f32", "abcd", "f32", "abcd", PLAIN),
    ("f32 nchw→nhwc", "f32", "abcd", "f32", "acdb", PLAIN),
    ("f32 nchw→nChw16c", "f32", "abcd", "f32", "aBcd16b", PLAIN),
    ("f32→s8 nchw→nhwc, scale per channel", "f32", "abcd", "s8", "acdb", PeerArithmetic(0.75, 1)),
    ("u8 nchw→nhwc", "u8", "abcd", "u8", "acdb", PLAIN),
)
_TRACEME, _PEEKUSER, _SINGLESTEP = 0, 3, 9
_RIP = 16 * 8  # where x86-64 Linux keeps the instruction's address in what PEEKUSER reads


@dataclass(frozen=True)
class CountedKernel:
    """A kernel that ran: (address, size) of its functions, and how many instructions, if stepped."""

    name: str
    kernel: str
    moved: int
    elements: int
    functions: list[tuple[int, int]] = field(default_factory=list)
    instructions: int = 0


def problems() -> list[PeerProblem]:
    """The five: a copy, a transpose, a blocked format, a conversion with factors, and narrow elements."""
    return [PeerProblem(name, _DIMS, *rest) for name, *rest in _ASKED]  # type: ignore[arg-type]


def count(*, stepping: bool) -> Iterator[CountedKernel]:
    """Run each kernel, and count its instructions where `stepping`."""
    peer, seen, held = Restride(1), set[tuple[int, int]](), list[Bytes]()
    for problem in problems():
        # Kept, since a kernel must not be loaded where another was.
        held += [problem.source(), problem.destination()]
        ready = peer.prepare(problem, *held[-2:])
        functions = sorted(_functions() - seen)
        seen.update(functions)
        held.append(ready.call)  # type: ignore[arg-type]
        counted = _step(ready.call, functions) if stepping else _run(ready.call)
        yield CountedKernel(
            problem.name, ready.kernel, problem.moved, problem.src.elements, functions, counted
        )


def _functions() -> set[tuple[int, int]]:
    """Address and size of every function that this process has compiled."""
    lines = Path(f"/tmp/perf-{os.getpid()}.map").read_text().splitlines()
    return {(int(address, 16), int(size, 16)) for address, size, _ in map(str.split, lines)}


def _run(call: Call) -> int:
    for _ in range(CALLS):
        call()
    return 0


def _step(call: Call, functions: list[tuple[int, int]]) -> int:
    """Instructions of the functions that one `call` executes, in a child."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes, libc.ptrace.restype = [ctypes.c_long] * 4, ctypes.c_long
    call()
    child = os.fork()
    if not child:
        libc.ptrace(_TRACEME, 0, 0, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        call()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    within = 0
    while os.WIFSTOPPED(status):
        at = libc.ptrace(_PEEKUSER, child, _RIP, 0)
        within += any(begin <= at < begin + size for begin, size in functions)
        if libc.ptrace(_SINGLESTEP, child, 0, 0) < 0:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    return within


def main(arguments: list[str]) -> None:
    """Print what was counted."""
    try:
        print(json.dumps([asdict(found) for found in count(stepping=arguments == ["step"])]))
    finally:
        Path(f"/tmp/perf-{os.getpid()}.map").unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])
