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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from restride.targets.isa import host_isa

from .measure import Call
from .pages import Columns, cells, table
from .peers import Restride
from .problem import Bytes
from .rows import kernels
from .study import OWN, BenchRow, BenchSetup, Study

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
    inside = 0
    while os.WIFSTOPPED(status):
        at = libc.ptrace(_PEEKUSER, child, _RIP, 0)
        inside += _is_in(at, functions)
        if libc.ptrace(_SINGLESTEP, child, 0, 0) < 0:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    return inside


def measure(setting: BenchSetup) -> list[BenchRow]:
    """Count on the host's level, and on the one that both counters know; a last row says which is missing."""
    levels = list(dict.fromkeys([host_isa().name, _EMULATED]))
    found, missing = list[BenchRow](), dict[str, str]()
    with tempfile.TemporaryDirectory(prefix="restride-bench-") as folder:
        for level in levels if host_isa().name in ("avx512", "avx2") else levels[:1]:
            counters = {"stepping": by_stepping} | ({"callgrind": by_callgrind} if level == _EMULATED else {})
            by_counter: dict[str, list[CountedKernel]] = {}
            for name, counter in counters.items():
                try:
                    by_counter[name] = counter(level, Path(folder))
                except Uncounted as why:
                    missing[name] = str(why)
            found += rows_of(by_counter)
    return [*found, *([BenchRow("not counted", 0, {}, refused=missing)] if missing else [])]


class Uncounted(Exception):
    """Why a counter is not to be had."""


def rows_of(by_counter: Mapping[str, Sequence[CountedKernel]]) -> list[BenchRow]:
    """A row for each kernel, with the instructions by each of the counters."""
    rows = []
    for same in zip(*by_counter.values(), strict=True):
        about = {name: each.instructions for name, each in zip(by_counter, same, strict=True)}
        about = {"elements": same[0].elements, "stepping": None, "callgrind": None, **about}
        rows.append(BenchRow(same[0].name, same[0].moved, {}, kernels={OWN: same[0].kernel}, about=about))
    return rows


def by_stepping(level: str, folder: Path) -> list[CountedKernel]:
    """Once, one instruction after the other. Raises Uncounted."""
    if sys.platform != "linux" or os.uname().machine != "x86_64":
        raise Uncounted("only on Linux and x86-64")
    return _child([*_CHILD, "step"], level, folder)


def by_callgrind(level: str, folder: Path) -> list[CountedKernel]:
    """By callgrind, with kernels that were compiled before: LLVM on an emulated processor takes minutes."""
    if not shutil.which("valgrind"):
        raise Uncounted("valgrind is not installed")
    out = folder / "callgrind.out"
    tool = ["valgrind", "-q", "--tool=callgrind", f"--callgrind-out-file={out}"]
    _child([*_CHILD, "run"], level, folder)
    kernels = _child([*tool, *_CHILD, "run"], level, folder)
    costs = own_costs(out.read_text(errors="replace").splitlines())
    return [replace(each, instructions=within(each, costs) // CALLS) for each in kernels]


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


def within(kernel: CountedKernel, costs: Mapping[int, int]) -> int:
    """Return the cost of the functions of a kernel."""
    return sum(cost for at, cost in costs.items() if _is_in(at, kernel.functions))


def _is_in(at: int, functions: Iterable[tuple[int, int]]) -> bool:
    return any(begin <= at < begin + size for begin, size in functions)


def _child(command: Sequence[str], level: str, folder: Path) -> list[CountedKernel]:
    asked = {"JIT_PROFILE": "2", "MAX_CPU_ISA": level, "NUM_THREADS": "1", "CACHE_DIR": str(folder / "cache")}
    environment = {**os.environ, **{f"RESTRIDE_{name}": value for name, value in asked.items()}}
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise Uncounted((done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1])
    kernels: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return [CountedKernel(**kernel) for kernel in kernels]


def instructions_of(row: BenchRow) -> int:
    """By the counter that there is."""
    return int(row.about["stepping"] or row.about["callgrind"] or 0)


_COLUMNS: Columns = {
    "row": lambda row: row.name,
    "kernel": lambda row: row.kernels[OWN],
    "bytes": lambda row: str(row.moved),
    "stepped": lambda row: str(row.about["stepping"] or "–"),
    "callgrind": lambda row: str(row.about["callgrind"] or "–"),
    "bytes/instruction": lambda row: f"{row.moved / max(instructions_of(row), 1):.1f}",
    "instructions/element": lambda row: f"{instructions_of(row) / row.about['elements']:.3f}",
}


def page(rows: Sequence[BenchRow]) -> str:
    """A line for each kernel on each level."""
    notes = [f"\n\nNot counted by {name}: {why}." for row in rows for name, why in row.refused.items()]
    return table([*_COLUMNS], cells([row for row in rows if row.about], _COLUMNS)) + "".join(notes)


STUDY = Study("Instructions", measure, page)


def main(arguments: list[str]) -> None:
    """Run the kernels in this process, and print them as JSON: `run` CALLS times each, for a counter around
    the whole process; `step` once in a child that is stepped through, one instruction after another.

    JIT_PROFILE has to name functions: their instructions are counted, those of Python are not.
    """
    try:
        print(json.dumps([asdict(each) for each in count(stepping=arguments == ["step"])]))
    finally:
        Path(f"/tmp/perf-{os.getpid()}.map").unlink(missing_ok=True)


if __name__ == "__main__":
    main(sys.argv[1:])
