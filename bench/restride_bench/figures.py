"""Small figures: what a call, a first use and growth cost; each with its goal and what is beside it."""

from __future__ import annotations

import ctypes
import functools
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import restride as rs
from restride.runtime.cpu.thread_pool import ThreadPool

from .array_peers import Torch
from .measure import SETTLE, Call, Quartiles, Timing, alternate, batch_size
from .peer import Peer, PeerRefusal
from .peers import Restride
from .problem import PeerArithmetic, PeerProblem, storage

_TINY = PeerProblem("f32 nchw→nhwc", (1, 16, 4, 4), "f32", "abcd", "f32", "acdb")
_GROWN = PeerProblem("f32 nchw→nChw16c", (1, 64, 56, 56), "f32", "abcd", "f32", "aBcd16b")
_PLAIN = PeerProblem("f32 nchw→nhwc", (16, 256, 56, 56), "f32", "abcd", "f32", "acdb")
_BUSY = PeerProblem("f32→s8 nchw→nhwc", (4, 128, 56, 56), "f32", "abcd", "s8", "acdb", PeerArithmetic(0.75))
_LEAST = 1_000_000  # bytes moved
_SCANNED = 1 << 19  # bytes: some microseconds from a second-level cache
_IMPORT = """
import time, numpy
begin = time.perf_counter()
import restride
print([time.perf_counter() - begin])
"""


@dataclass(frozen=True)
class Figure:
    """One number with its quartiles. `goal` is an upper bound, or a lower one where more is better."""

    name: str
    spread: Quartiles
    unit: str
    goal: float
    more_is_better: bool = False
    beside: dict[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def met(self) -> bool:
        """Whether the median reaches the goal."""
        return (self.spread.median >= self.goal) if self.more_is_better else (self.spread.median <= self.goal)


@dataclass(frozen=True)
class GrowthStep:
    """One size of the growth series: bytes moved, and bytes per second of restride and of memcpy."""

    moved: int
    rate: float
    copy_rate: float


@dataclass(frozen=True)
class BenchSetup:
    """What the figures share."""

    peers: Sequence[Peer]
    copiers: Sequence[Peer]
    threads: int
    rounds: int
    largest: int

    @property
    def restride(self) -> Restride:
        """The restride peer, opened if it was not asked for."""
        found = [peer for peer in self.peers if isinstance(peer, Restride)]
        return found[0] if found else Restride(self.threads)


def execute_tiny(setting: BenchSetup) -> Figure:
    """One execute of a reorder of 1 KiB, beside what the peers take for it."""
    source, calls = _TINY.source(), {}
    for peer in (setting.restride, *(p for p in setting.peers if p.name != "restride")):
        try:
            calls[peer.name] = peer.prepare(_TINY, source, _TINY.destination()).call
        except PeerRefusal:
            continue
    return _per_call("one execute of a tiny reorder", calls, "restride", 1.0, setting)


def array_tiny(setting: BenchSetup) -> Figure:
    """One `rs.reorder(x, "nhwc")` of 1 KiB, which allocates its result, beside NumPy and torch."""
    x = np.ones(_TINY.dims, np.float32)
    calls: dict[str, Call] = {
        "restride": functools.partial(rs.reorder, x, "nhwc"),
        "NumPy": lambda: np.ascontiguousarray(x.transpose(0, 2, 3, 1)),
    }
    for peer in setting.peers:
        if isinstance(peer, Torch):
            tensor = peer.torch.from_numpy(x)
            calls["torch"] = functools.partial(tensor.contiguous, memory_format=peer.torch.channels_last)
    return _per_call("rs.reorder on a tiny array, warm", calls, "restride", 5.0, setting)


def fresh_result(setting: BenchSetup) -> Figure:
    """`rs.reorder(x, "nhwc")` of 51 MB, its result dropped, against the same with `out=`."""
    x, out = _plain_arrays()
    plain = functools.partial(rs.reorder, x, "nhwc")
    times = alternate({"new": plain, "out": functools.partial(plain, out=out)}, rounds=setting.rounds)
    gained = times["new"].times_faster_than(times["out"])
    return Figure("a fresh result against out=, 51 MB", gained, "×", 0.9, more_is_better=True)


def first_result(setting: BenchSetup) -> Figure:
    """The same where no memory of dead results waits, against a copy of NumPy's, which is as fresh."""
    x, _ = _plain_arrays()
    calls: dict[str, Call] = {"new": functools.partial(rs.reorder, x, "nhwc"), "copy": x.copy}
    times = alternate(calls, rounds=setting.rounds, before={"new": rs.empty_cache})
    gained = times["new"].times_faster_than(times["copy"])
    name = "a first result, in memory fresh from the system, against x.copy()"
    return Figure(name, gained, "×", 1.5, more_is_better=True)


def _plain_arrays() -> tuple[Any, Any]:
    x = np.ones(_PLAIN.dims, np.float32)
    return x, rs.reorder(x, "nhwc")


def memory_tiny(setting: BenchSetup) -> Figure:
    """One `rs.reorder(memory, "nchw")` of 1 KiB in blocks, which allocates its result."""
    held = rs.reorder(np.ones(_TINY.dims, np.float32), "nChw16c")
    calls: dict[str, Call] = {"restride": functools.partial(rs.reorder, held, "nchw")}
    return _per_call("rs.reorder on a tiny blocked Memory, warm", calls, "restride", 5.0, setting)


def open_region(setting: BenchSetup) -> Figure:
    """What two threads cost beyond the work: two parts on two threads less one part on one thread.

    The work is C's own memchr over bytes that both cores hold, long enough for both threads to take part.
    """
    data, pool = np.zeros(_SCANNED, np.uint8), ThreadPool(2)
    scan = ctypes.cast(ctypes.CDLL(None).memchr, ctypes.c_void_p).value or 0
    calls = {
        str(parts): functools.partial(pool.run, scan, data.ctypes.data, 1, data.size, parts)
        for parts in (1, 2)
    }
    hot = alternate(calls, rounds=setting.rounds, number=200)
    rested = alternate(calls, rounds=setting.rounds)
    note = f"hot; after a rest of {SETTLE * 1e3:.0f} ms: {_difference(rested).median:.1f} µs"
    pool.resize(1)
    return Figure("opening a parallel region on 2 threads", _difference(hot), "µs", 5.0, note=note)


def compile_new(setting: BenchSetup) -> Figure:
    """From descriptors to the end of the first execute, nothing cached anywhere."""
    return _first_use("first use of a new problem: compile", _child("first_use", cache=""), 40.0)


def load_cached(setting: BenchSetup) -> Figure:
    """The same in a new process that finds the kernels in the disk cache."""
    with tempfile.TemporaryDirectory(prefix="restride-bench-") as folder:
        _child("first_use", cache=folder)
        return _first_use("first use, from the disk cache", _child("first_use", cache=folder), 2.0)


def import_time(setting: BenchSetup) -> Figure:
    """`import restride` in a process that has imported NumPy, with the bytecode that an installation has."""
    command = [sys.executable, "-c", _IMPORT]
    with tempfile.TemporaryDirectory(prefix="restride-bench-") as folder:
        environment = _with_bytecode(folder)
        _run(command, environment)  # writes the bytecode, whatever lies beside the source
        values = [1e3 * _run(command, environment)[0] for _ in range(9)]
    return Figure("import restride, beyond NumPy", Quartiles.of(values), "ms", 60.0)


def speed_up(setting: BenchSetup) -> Figure:
    """Two threads against one on work that stays in the cache and computes."""
    call = setting.restride.prepare(_BUSY, _BUSY.source(), _BUSY.destination()).call
    before = {str(count): functools.partial(rs.set_num_threads, count) for count in (1, 2)}
    number = batch_size(call, 5e-3)
    times = alternate({"1": call, "2": call}, rounds=setting.rounds, number=number, before=before)
    rs.set_num_threads(setting.threads)
    note = f"{_BUSY.label}, in cache"
    gained = times["2"].times_faster_than(times["1"])
    return Figure("two threads against one", gained, "×", 1.6, more_is_better=True, note=note)


def growth(setting: BenchSetup) -> list[GrowthStep]:
    """Bytes per second from 1 MB moved to the largest, by fours; the last step is the largest itself."""
    return [_grown(setting, moved) for moved in growth_sizes(setting.largest)]


def growth_sizes(largest: int) -> list[int]:
    """Bytes to be moved, as near as whole images come."""
    sizes = itertools.takewhile(lambda moved: moved < largest, (_LEAST * 4**n for n in itertools.count()))
    return [*sizes, largest]


FIGURES: dict[str, Callable[[BenchSetup], Figure]] = {
    "execute": execute_tiny,
    "array": array_tiny,
    "memory": memory_tiny,
    "fresh": fresh_result,
    "first": first_result,
    "region": open_region,
    "compile": compile_new,
    "disk": load_cached,
    "import": import_time,
    "speed-up": speed_up,
}


def _difference(times: dict[str, Timing]) -> Quartiles:
    pairs = zip(times["1"].seconds, times["2"].seconds, strict=True)
    return Quartiles.of([1e6 * (two - one) for one, two in pairs])


def _grown(setting: BenchSetup, moved: int) -> GrowthStep:
    images = max(1, round(moved / _GROWN.moved))
    problem = replace(_GROWN, dims=(images, *_GROWN.dims[1:]))
    source, target = problem.source(), problem.destination()
    call = setting.restride.prepare(problem, source, target).call
    copied = storage(source.size)
    copied[...] = 1
    copies = {name: copy for peer in setting.peers for name, copy in peer.copies(source, copied).items()}
    number = batch_size(call)
    times = alternate({"reorder": call, **copies}, rounds=setting.rounds, number=number)
    fastest = min(times[name].spread.median for name in copies)
    return GrowthStep(problem.moved, problem.moved / times["reorder"].spread.median, problem.moved / fastest)


def _per_call(name: str, calls: dict[str, Call], who: str, goal: float, setting: BenchSetup) -> Figure:
    number = batch_size(calls[who])
    times = alternate(calls, rounds=setting.rounds, number=number)
    micro = {peer: Quartiles.of([1e6 * s for s in timing.seconds]) for peer, timing in times.items()}
    beside = {peer: spread.median for peer, spread in micro.items() if peer != who}
    return Figure(name, micro[who], "µs", goal, beside=beside)


def _first_use(name: str, seconds: list[float], goal: float) -> Figure:
    first, *others = [1e3 * value for value in seconds]
    note = f"over {len(others)} problems; the process's very first: {first:.1f} ms"
    return Figure(name, Quartiles.of(others), "ms", goal, note=note)


def _with_bytecode(folder: str) -> dict[str, str]:
    """An environment in which Python keeps bytecode, and keeps it in `folder`."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": folder}


def _child(task: str, *, cache: str) -> list[float]:
    command = [sys.executable, "-m", f"restride_bench.{task}"]
    return _run(command, {**os.environ, "RESTRIDE_CACHE_DIR": cache})


def _run(command: list[str], environment: dict[str, str]) -> list[float]:
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return [float(value) for value in json.loads(done.stdout.splitlines()[-1])]
