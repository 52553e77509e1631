"""Small figures: what a call, a first use and growth cost; each with its goal and comparisons."""

from __future__ import annotations

import ctypes
import functools
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

import restride as rs
from restride.runtime.cpu.thread_pool import ThreadPool

from .measure import SETTLE, Call, Quartiles, Timing, alternate, batch_size
from .peer import PeerRefusal
from .peers import Restride
from .problem import PeerArithmetic, PeerProblem
from .study import OWN, BenchRow, BenchSetup, RowPlan, race

_TINY = PeerProblem("f32 nchw→nhwc", (1, 16, 4, 4), "f32", "abcd", "f32", "acdb")
_GROWN = PeerProblem("f32 nchw→nChw16c", (1, 64, 56, 56), "f32", "abcd", "f32", "aBcd16b")
_PLAIN = PeerProblem("f32 nchw→nhwc", (16, 256, 56, 56), "f32", "abcd", "f32", "acdb")
_BUSY = PeerProblem("f32→s8 nchw→nhwc", (4, 128, 56, 56), "f32", "abcd", "s8", "acdb", PeerArithmetic(0.75))
_LEAST = 1_000_000  # bytes moved
_SCANNED = 1 << 19  # bytes: some microseconds from a second-level cache
_FIRST_TAGS = ("abcd", "acdb", "aBcd16b", "aBcd8b", "ABcd16b16a")
_FIRST_TYPES = (("f32", "f32"), ("u8", "u8"), ("f32", "s8"), ("bf16", "f32"))
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
    comparisons: dict[str, float] = field(default_factory=dict)
    note: str = ""

    @property
    def met(self) -> bool:
        """True if the median reaches the goal."""
        return (self.spread.median >= self.goal) if self.more_is_better else (self.spread.median <= self.goal)


def execute_tiny(setting: BenchSetup) -> Figure:
    """One execute of a reorder of 1 KiB, compared with the peers."""
    source, calls = _TINY.source(), {}
    for peer in (setting.restride, *(p for p in setting.peers if p.name != OWN)):
        try:
            calls[peer.name] = peer.prepare(_TINY, source, _TINY.destination()).call
        except PeerRefusal:
            continue
    return _per_call("one execute of a tiny reorder", calls, 1.0, setting)


def array_tiny(setting: BenchSetup) -> Figure:
    """One `rs.reorder(x, "nhwc")` of 1 KiB, which allocates its result, compared with NumPy and torch."""
    x = np.ones(_TINY.dims, np.float32)
    calls: dict[str, Call] = {
        OWN: functools.partial(rs.reorder, x, "nhwc"),
        "NumPy": lambda: np.ascontiguousarray(x.transpose(0, 2, 3, 1)),
    }
    if setting.torch is not None:
        torch = setting.torch.torch
        calls["torch"] = functools.partial(torch.from_numpy(x).contiguous, memory_format=torch.channels_last)
    return _per_call("rs.reorder on a tiny array, warm", calls, 5.0, setting)


def memory_tiny(setting: BenchSetup) -> Figure:
    """One `rs.reorder(memory, "nchw")` of 1 KiB in blocks, which allocates its result."""
    held = rs.reorder(np.ones(_TINY.dims, np.float32), "nChw16c")
    calls: dict[str, Call] = {OWN: functools.partial(rs.reorder, held, "nchw")}
    return _per_call("rs.reorder on a tiny blocked Memory, warm", calls, 5.0, setting)


def fresh_result(setting: BenchSetup) -> Figure:
    """`rs.reorder(x, "nhwc")` of 51 MB, its result dropped, against the same with `out=`."""
    plain: Any = functools.partial(rs.reorder, np.ones(_PLAIN.dims, np.float32), "nhwc")
    calls = {"new": plain, "other": functools.partial(plain, out=plain())}
    return _gain("a fresh result against out=, 51 MB", 0.9, calls, setting)


def first_result(setting: BenchSetup) -> Figure:
    """The same where no memory of dead results waits, against a copy of NumPy's, which is as fresh."""
    x = np.ones(_PLAIN.dims, np.float32)
    calls: dict[str, Call] = {"new": functools.partial(rs.reorder, x, "nhwc"), "other": x.copy}
    name = "a first result, in memory fresh from the system, against x.copy()"
    return _gain(name, 1.5, calls, setting, before={"new": rs.empty_cache})


def _gain(name: str, goal: float, calls: dict[str, Call], setting: BenchSetup, **options: Any) -> Figure:
    times = alternate(calls, rounds=setting.rounds, **options)
    return Figure(name, times["new"].times_faster_than(times["other"]), "×", goal, more_is_better=True)


def open_region(setting: BenchSetup) -> Figure:
    """Measure the overhead of two threads: two parts on two threads minus one part on one thread.

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


def first_uses() -> list[float]:
    """Seconds from descriptors to the end of the first execute, for small problems of different kernels."""
    peer, taken = Restride(2), []
    for at, (src, dst) in enumerate(itertools.permutations(_FIRST_TAGS, 2)):
        src_type, dst_type = _FIRST_TYPES[at % len(_FIRST_TYPES)]
        problem = PeerProblem("first use", (2, 33, 5, 7), src_type, src, dst_type, dst)
        source, target = problem.source(), problem.destination()
        begin = time.perf_counter()
        peer.prepare(problem, source, target).call()
        taken.append(time.perf_counter() - begin)
    return taken


def compile_new(setting: BenchSetup) -> Figure:
    """From descriptors to the end of the first execute, nothing cached anywhere."""
    return _first_use("first use of a new problem: compile", _child(cache=""), 40.0)


def load_cached(setting: BenchSetup) -> Figure:
    """The same in a new process that finds the kernels in the disk cache."""
    with tempfile.TemporaryDirectory(prefix="restride-bench-") as folder:
        _child(cache=folder)
        return _first_use("first use, from the disk cache", _child(cache=folder), 2.0)


def import_time(setting: BenchSetup) -> Figure:
    """`import restride` in a process that has imported NumPy, with the bytecode that an installation has."""
    command = [sys.executable, "-c", _IMPORT]
    with tempfile.TemporaryDirectory(prefix="restride-bench-") as folder:
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environment = {**kept, "PYTHONPYCACHEPREFIX": folder}
        _run(command, environment)  # writes the bytecode, in addition to the source
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


def growth(setting: BenchSetup) -> list[BenchRow]:
    """A row for each size from 1 MB moved to the largest, by fours; the last is the largest itself."""
    rows = []
    for moved in growth_sizes(setting.largest):
        problem = replace(_GROWN, dims=(max(1, round(moved / _GROWN.moved)), *_GROWN.dims[1:]))
        call = setting.restride.prepare(problem, problem.source(), problem.destination())
        rows.append(race(RowPlan(problem.label, problem.moved, {OWN: call}), setting))
    return rows


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


def _per_call(name: str, calls: dict[str, Call], goal: float, setting: BenchSetup) -> Figure:
    times = alternate(calls, rounds=setting.rounds, number=batch_size(calls[OWN]))
    micro = {peer: Quartiles.of([1e6 * s for s in timing.seconds]) for peer, timing in times.items()}
    beside = {peer: spread.median for peer, spread in micro.items() if peer != OWN}
    return Figure(name, micro[OWN], "µs", goal, comparisons=beside)


def _first_use(name: str, seconds: list[float], goal: float) -> Figure:
    first, *others = [1e3 * value for value in seconds]
    note = f"over {len(others)} problems; the process's very first: {first:.1f} ms"
    return Figure(name, Quartiles.of(others), "ms", goal, note=note)


def _child(*, cache: str) -> list[float]:
    """The first uses of a process of its own."""
    command = [sys.executable, "-m", "restride_bench.figures"]
    return _run(command, {**os.environ, "RESTRIDE_CACHE_DIR": cache})


def _run(command: list[str], environment: dict[str, str]) -> list[float]:
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return [float(value) for value in json.loads(done.stdout.splitlines()[-1])]


if __name__ == "__main__":
    print(json.dumps(first_uses()))
