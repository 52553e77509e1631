"""One transpose, from a loop over elements to the speed of memory: what each idea of a schedule brings.

Every rung is the same work with one thing more than the rung before, compiled by the same compiler. NumPy's
view and memcpy stand beside.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import restride as rs
from restride.plan.nest import linear
from restride.plan.reorder import reorder_nest
from restride.runtime.cpu.kernel import Kernel, kernel_of
from restride.targets.cpu import LoweredNest, lower
from restride.targets.isa import Isa, host_caches, host_isa

from .array_peers import NumPy
from .figures import BenchSetup
from .measure import Call, Quartiles, alternate
from .problem import Bytes, PeerProblem

WORK = PeerProblem("f32 nchw→nhwc", (16, 256, 56, 56), "f32", "abcd", "f32", "acdb")
_NARROW = "sse41"


@dataclass(frozen=True)
class Rung:
    """What was added, the threads, seconds as quartiles, and what is wrong with the answer, or ""."""

    name: str
    threads: int
    moved: int
    seconds: Quartiles
    wrong: str = ""

    @property
    def rate(self) -> float:
        """Bytes read and written per second."""
        return self.moved / self.seconds.median


@dataclass(frozen=True)
class _Way:
    """One way to do the work; `is_copy`: to move as many bytes without doing it.

    `kernel` is held, since a call holds no more than its address.
    """

    name: str
    threads: int
    call: Call
    is_copy: bool = False
    kernel: Kernel | None = None


def measure(setting: BenchSetup) -> list[Rung]:
    """All rungs from the lowest, with the peers that stand beside; in a quick run, of one image."""
    problem = WORK if setting.largest >= WORK.moved else replace(WORK, dims=(1, *WORK.dims[1:]))
    source, target = problem.source(), problem.destination()
    rs.set_num_threads(setting.threads)
    ways = list(_ways(problem, source, target, setting.threads))
    wrong = {way.name: _wrong(problem, way, source, target) for way in ways if not way.is_copy}
    times = alternate({way.name: way.call for way in ways}, rounds=setting.rounds)
    return [
        Rung(way.name, way.threads, problem.moved, times[way.name].spread, wrong.get(way.name, ""))
        for way in ways
    ]


def _ways(problem: PeerProblem, source: Bytes, target: Bytes, threads: int) -> Iterator[_Way]:
    numpy, places = NumPy(threads), (source.ctypes.data, target.ctypes.data, 0)
    yield _Way("NumPy: a view with its axes permuted, copied", 1, numpy.prepare(problem, source, target).call)
    for name, lowered in variants(problem).items():
        kernel = kernel_of(lowered, problem.moved)
        yield _Way(name, 1, partial(kernel.call, *places), kernel=kernel)
    if threads > 1:
        yield _Way(f"… on {threads} threads", threads, partial(kernel.run, *places), kernel=kernel)
    for number, copy in enumerate(numpy.copies(source, target).values()):
        count = threads if number else 1
        yield _Way(f"memcpy, {count} thread{'s' * (count > 1)}", count, copy, is_copy=True)


def variants(problem: PeerProblem) -> dict[str, LoweredNest]:
    """The kernels, each with one thing more."""
    sides = ((problem.src_type, problem.src_tag), (problem.dst_type, problem.dst_tag))
    src, dst = (rs.MemoryDesc(problem.dims, *side) for side in sides)
    nest, isa, caches = reorder_nest(src, dst, linear()), host_isa(), host_caches()
    best = lower(nest, isa, caches)
    plain = _with(best, streams=False, prefetch=0)
    axes = tuple(range(len(plain.schedules[0].nest.axes)))
    loops = _with(plain, chunks=(1,) * len(axes), grid=(), inner=axes, kind="strided")
    found = {"a loop over elements": loops}
    if isa.name in ("avx2", "avx512"):
        narrow = lower(nest, Isa.for_name(_NARROW), caches, may_stream=False)
        found["tiles in registers of 16 bytes"] = _with(narrow, prefetch=0)
    found[f"tiles in registers of {isa.vector_bytes} bytes"] = plain
    found["… the next lines asked for ahead"] = _with(best, streams=False)
    found["… written past the caches"] = best
    return found


def _with(lowered: LoweredNest, **changes: Any) -> LoweredNest:
    return replace(lowered, schedules=tuple(replace(plan, **changes) for plan in lowered.schedules))


def _wrong(problem: PeerProblem, way: _Way, source: Bytes, target: Bytes) -> str:
    problem.poison(target)
    way.call()
    return problem.wrong(source, target)
