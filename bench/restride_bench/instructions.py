"""Instructions of five kernels against the bytes that they move.

Two counters, of which each checks the other. callgrind runs a process on an emulated processor; it knows no
AVX-512. Stepping lets a child execute one instruction at a time, on the real one. Hardware counters would do
it too, where a machine lets programs read them; virtual ones mostly do not.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from restride.targets.isa import host_isa

from .measure import Call
from .peers import Restride
from .problem import Bytes
from .rows import kernels

CALLS = 100
_DIMS = (1, 64, 28, 28)
_TRACEME, _PEEKUSER, _SINGLESTEP = 0, 3, 9
_RIP = 16 * 8  # where x86-64 Linux keeps the instruction's address in what PEEKUSER reads
_CHILD = [sys.executable, "-m", "restride_bench.instructions"]
_EMULATED = "avx2"  # the highest level that callgrind runs
_FUNCTION = re.compile(r"(c?)fn=\((\d+)\)(?: (0x[0-9a-f]+)?)?")
_COST = re.compile(r"[+\-*\d]\S* (\d+)$")


@dataclass(frozen=True)
class CountedKernel:
    """A kernel that ran: (address, size) of its functions, and how many instructions, if stepped."""

    name: str
    kernel: str
    moved: int
    elements: int
    functions: list[tuple[int, int]] = field(default_factory=list)
    instructions: int = 0


def count(*, stepping: bool) -> Iterator[CountedKernel]:
    """Run each kernel, and count its instructions where `stepping`."""
    peer, seen, held = Restride(1), set[tuple[int, int]](), list[Bytes]()
    for problem in kernels(_DIMS):
        # Kept, since a kernel must not be loaded where another was.
        held += [problem.source(), problem.destination()]
        ready = peer.prepare(problem, *held[-2:])
        # Address and size of every function that this process has compiled.
        lines = map(str.split, Path(f"/tmp/perf-{os.getpid()}.map").read_text().splitlines())
        functions = sorted({(int(address, 16), int(size, 16)) for address, size, _ in lines} - seen)
        seen.update(functions)
        held.append(ready.call)  # type: ignore[arg-type]
        counted = _step(ready.call, functions) if stepping else 0
        for _ in range(0 if stepping else CALLS):
            ready.call()
        yield CountedKernel(
            problem.name, ready.kernel, problem.moved, problem.src.elements, functions, counted
        )


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


@dataclass(frozen=True)
class Count:
    """One kernel's instructions on one instruction set; None where that counter was not to be had."""

    name: str
    kernel: str
    moved: int
    elements: int
    stepped: int | None = None
    emulated: int | None = None

    @property
    def instructions(self) -> int:
        """By the counter that there is."""
        return self.stepped or self.emulated or 0

    @property
    def bytes_each(self) -> float:
        """Bytes read and written for each instruction."""
        return self.moved / max(self.instructions, 1)


@dataclass(frozen=True)
class Counts:
    """The kernels of all levels, and why a counter is missing."""

    kernels: Sequence[Count] = ()
    missing: Sequence[str] = ()


def measure() -> Counts:
    """Count on the host's level, and on the one that both counters know."""
    levels = list(dict.fromkeys([host_isa().name, _EMULATED]))
    found, missing = list[Count](), list[str]()
    with tempfile.TemporaryDirectory(prefix="restride-bench-") as folder:
        for level in levels if host_isa().name in ("avx512", "avx2") else levels[:1]:
            stepped, why_not = _stepped(level, Path(folder))
            emulated, why_neither = _emulated(level, Path(folder)) if level == _EMULATED else ([], "")
            found += _joined(stepped, emulated)
            missing += [why for why in (why_not, why_neither) if why]
    return Counts(found, list(dict.fromkeys(missing)))


def _joined(stepped: Sequence[Count], emulated: Sequence[Count]) -> list[Count]:
    if not stepped or not emulated:
        return [*stepped, *emulated]
    pairs = zip(stepped, emulated, strict=True)
    return [replace(one, emulated=other.emulated) for one, other in pairs]


def _stepped(level: str, folder: Path) -> tuple[list[Count], str]:
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        return [], "stepping: only on Linux and x86-64"
    try:
        kernels = _child([*_CHILD, "step"], level, folder)
    except subprocess.CalledProcessError as error:
        return [], f"stepping: {_last_line(error)}"
    return [_count(each, stepped=each.instructions) for each in kernels], ""


def _emulated(level: str, folder: Path) -> tuple[list[Count], str]:
    """By callgrind, with kernels that were compiled before: LLVM on an emulated processor takes minutes."""
    if not shutil.which("valgrind"):
        return [], "callgrind: valgrind is not installed"
    out = folder / "callgrind.out"
    tool = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}"]
    try:
        _child([*_CHILD, "run"], level, folder)
        kernels = _child([*tool, *_CHILD, "run"], level, folder)
    except subprocess.CalledProcessError as error:
        return [], f"callgrind: {_last_line(error)}"
    costs = own_costs(out.read_text(errors="replace").splitlines())
    return [_count(each, emulated=_within(each, costs) // CALLS) for each in kernels], ""


def own_costs(lines: Iterable[str]) -> dict[int, int]:
    """Instructions of functions that callgrind knows by address only, without those that they call."""
    places: dict[str, int | None] = {}
    costs: dict[int, int] = {}
    at, skip = None, False
    for line in lines:
        if found := _FUNCTION.match(line):
            called, number, address = found.groups()
            place = places.setdefault(number, int(address, 16) if address else None)
            at = at if called else place
        elif line.startswith("calls="):
            # The next line is what the called function cost.
            skip = True
        elif found := _COST.match(line):
            if at is not None and not skip:
                costs[at] = costs.get(at, 0) + int(found[1])
            skip = False
    return costs


def _within(kernel: CountedKernel, costs: dict[int, int]) -> int:
    inside = (at for at in costs if any(begin <= at < begin + size for begin, size in kernel.functions))
    return sum(costs[at] for at in inside)


def _count(found: CountedKernel, **by: int) -> Count:
    return Count(found.name, found.kernel, found.moved, found.elements, **by)


def _child(command: Sequence[str], level: str, folder: Path) -> list[CountedKernel]:
    asked = {"JIT_PROFILE": "2", "MAX_CPU_ISA": level, "NUM_THREADS": "1", "CACHE_DIR": str(folder / "cache")}
    environment = {**os.environ, **{f"RESTRIDE_{name}": value for name, value in asked.items()}}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    kernels: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return [CountedKernel(**kernel) for kernel in kernels]


def _last_line(error: subprocess.CalledProcessError) -> str:
    lines = (error.stderr or "").strip().splitlines()
    return lines[-1] if lines else f"exit code {error.returncode}"


def main(arguments: list[str]) -> None:
    """Run the kernels in this process, and print them as JSON: `run` CALLS times each, for a counter around
    the whole process; `step` once in a child that is stepped through, one instruction after another.

    JIT_PROFILE has to name functions: what lies in a kernel's is counted, all of Python beside it is not.
    """
    try:
        print(json.dumps([asdict(each) for each in count(stepping=arguments == ["step"])]))
    finally:
        Path(f"/tmp/perf-{os.getpid()}.map").unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])
