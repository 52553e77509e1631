"""Speed over size: four kernels and memcpy from 4 KB to 4 GB moved, on one thread and on all.

Each is timed beside what the cost model predicted. Answers are checked on the first, the middle and the last
image. What does not fit in memory is left out, with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import restride as rs
from restride.runtime.timing import available_memory

from .figures import BenchSetup
from .measure import Call, Quartiles, alternate, batch_size
from .peer import Peer
from .peers import Restride, open_peers
from .problem import Bytes, PeerProblem, storage
from .rows import kernels

# About four times more at each step: a few channels, then whole activations, then more images of them.
SHAPES = (
    *((1, 16, 4, 8), (1, 16, 14, 14), (1, 16, 28, 28), (1, 16, 56, 56)),
    *((images, 64, 56, 56) for images in (1, 4, 16, 64, 256, 1024, 2490)),
)
MEMCPY = "memcpy"
_FEWER = 256_000_000  # bytes moved from which a third of the rounds will do
_ROOM = 0.8  # of the memory that is free
# How much further than the growth series it goes.
_FURTHER = 4


@dataclass(frozen=True)
class Point:
    """One kernel at one size: bytes moved, seconds as quartiles, and seconds predicted (None for memcpy)."""

    kernel: str
    threads: int
    moved: int
    seconds: Quartiles
    predicted: float | None = None
    wrong: str = ""

    @property
    def rate(self) -> float:
        """Bytes read and written per second."""
        return self.moved / self.seconds.median


@dataclass(frozen=True)
class Roofline:
    """All points, and what was left out: bytes moved, and why."""

    points: Sequence[Point] = ()
    left_out: Sequence[tuple[int, str]] = ()


def measure(setting: BenchSetup) -> Roofline:
    """One thread, then all, size by size."""
    points, left_out = list[Point](), list[tuple[int, str]]()
    counts = sorted({1, setting.threads})
    for dims in SHAPES:
        chosen = problems(dims)
        if chosen[0].moved > _FURTHER * setting.largest:
            continue
        if why := no_room(chosen[0].moved):
            left_out.append((chosen[0].moved, why))
            continue
        points += _at_size(chosen, setting, counts)
    _open(setting, setting.threads)
    return Roofline(points, left_out)


def problems(dims: tuple[int, ...]) -> list[PeerProblem]:
    """The kernels at one size; the first moves the most."""
    return kernels(dims)[:4]


def no_room(moved: int) -> str:
    """Why a size is left out, or ""."""
    available = available_memory()
    if available is None or moved <= _ROOM * available:
        return ""
    return f"source and destination take {moved / 1e9:.1f} GB of {available / 1e9:.1f} GB free"


def _at_size(chosen: Sequence[PeerProblem], setting: BenchSetup, counts: Sequence[int]) -> list[Point]:
    source, target = chosen[0].source(), chosen[0].destination()
    points = []
    for threads in counts:
        peers = _open(setting, threads)
        (restride,) = (peer for peer in peers if isinstance(peer, Restride))
        calls = {each.name: restride.prepare(each, source, _part(each, target)).call for each in chosen}
        copies = {name: copy for peer in peers for name, copy in peer.copies(source, target).items()}
        moved, number = chosen[0].moved, batch_size(next(iter(calls.values())))
        rounds = setting.rounds if moved < _FEWER else max(setting.rounds // 3, 1)
        times = alternate({**calls, **copies}, rounds=rounds, number=number)
        seconds = {name: timing.spread for name, timing in times.items()}
        fastest = min((seconds[name] for name in copies), key=lambda spread: spread.median)
        points.append(Point(MEMCPY, threads, moved, fastest))
        for each in chosen:
            wrong = _wrong(each, calls[each.name], source, _part(each, target))
            points.append(Point(each.name, threads, each.moved, seconds[each.name], predicted(each), wrong))
    return points


def _open(setting: BenchSetup, threads: int) -> list[Peer]:
    """Those who copy, on so many threads from now on, and restride."""
    copiers = {peer.name for peer in (*setting.peers, *setting.copiers)} - {"oneDNN"}
    found, _ = open_peers(sorted(copiers | {"restride", "NumPy"}), threads)
    return found


def _part(problem: PeerProblem, target: Bytes) -> Bytes:
    """As much of the destination that all share as this one writes."""
    return target[: problem.dst.elements * problem.dst_dtype.itemsize]


def predicted(problem: PeerProblem) -> float | None:
    """Seconds by the cost model, on the threads that are set."""
    src = rs.MemoryDesc(problem.dims, problem.src_type, problem.src_tag)
    dst = rs.MemoryDesc(problem.dims, problem.dst_type, problem.dst_tag)
    scales = None if problem.scale is None else problem.arithmetic.scales(problem.dims).ravel()
    found = rs.plan(src, dst, scale=scales, axis=problem.arithmetic.axis).predicted
    return found.seconds if found else None


def _wrong(problem: PeerProblem, call: Call, source: Bytes, target: Bytes) -> str:
    """What is wrong with the first, the middle and the last image, or ""."""
    problem.poison(target)
    call()
    images = problem.dims[0]
    one = replace(problem, dims=(1, *problem.dims[1:]))
    sizes = one.src.elements * one.src_dtype.itemsize, one.dst.elements * one.dst_dtype.itemsize
    for image in sorted({0, images // 2, images - 1}):
        held = [storage(size) for size in sizes]
        for copy, side, size in zip(held, (source, target), sizes, strict=True):
            # Where elements of any type may lie.
            copy[...] = side[image * size : (image + 1) * size]
        if wrong := one.wrong(*held):
            return f"image {image}: {wrong}"
    return ""


def mean_error(points: Sequence[Point]) -> float | None:
    """By what factor predictions are off, in the geometric mean."""
    logs = [abs(math.log(p.predicted / p.seconds.median)) for p in points if p.predicted]
    return math.exp(sum(logs) / len(logs)) if logs else None
