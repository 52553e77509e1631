"""Speed over size: four kernels and memcpy from 4 KB to 4 GB moved, on one thread and on all.

Measured times are compared with the cost model. Answers are checked on the first, the middle and the last
image. What does not fit in memory is left out, with the reason. A row is a size on some threads; its sides
are the kernels.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import restride as rs
from restride.runtime.timing import available_memory

from .array_peers import NumPy
from .measure import Call
from .pages import size_words, table
from .peer import Peer
from .problem import Bytes, PeerProblem, storage
from .rows import kernels
from .study import MEMCPY, OWN, BenchRow, BenchSetup, RowPlan, Study, race

# About four times more at each step: a few channels, then whole activations, then more images of them.
SHAPES = (
    *((1, 16, 4, 8), (1, 16, 14, 14), (1, 16, 28, 28), (1, 16, 56, 56)),
    *((images, 64, 56, 56) for images in (1, 4, 16, 64, 256, 1024, 2490)),
)
_FEWER = 256_000_000  # bytes moved from which a third of the rounds will do
_ROOM = 0.8  # of the memory that is free
# How much further than the growth series it goes.
_FURTHER = 4


def measure(setting: BenchSetup) -> list[BenchRow]:
    """One thread, then all, size by size."""
    before, rows = setting.threads, list[BenchRow]()
    copiers: list[Peer] = [NumPy(before), setting.restride, *([setting.torch] if setting.torch else [])]
    setting = replace(setting, peers=[], copiers=copiers)
    for dims in SHAPES:
        moved = problems(dims)[0].moved
        if moved > _FURTHER * setting.largest:
            continue
        if why := no_room(moved):
            rows.append(BenchRow(size_words(moved), moved, {}, refused={OWN: why}))
            continue
        rows += [_at_size(dims, setting.on(threads)) for threads in sorted({1, before})]
    setting.on(before)
    return rows


def problems(dims: tuple[int, ...]) -> list[PeerProblem]:
    """The kernels at one size; the first moves the most."""
    return kernels(dims)[:4]


def no_room(moved: int) -> str:
    """Why a size is left out, or ""."""
    available = available_memory()
    if available is None or moved <= _ROOM * available:
        return ""
    return f"source and destination take {moved / 1e9:.1f} GB of {available / 1e9:.1f} GB free"


def _at_size(dims: tuple[int, ...], setting: BenchSetup) -> BenchRow:
    chosen = problems(dims)
    source, target, moved = chosen[0].source(), chosen[0].destination(), chosen[0].moved
    # All share a destination, of which each writes as much as it has to.
    parts = [target[: each.dst.elements * each.dst_dtype.itemsize] for each in chosen]
    pairs = list(zip(chosen, parts, strict=True))
    calls = {each.name: setting.restride.prepare(each, source, part) for each, part in pairs}

    def check() -> dict[str, str]:
        found = {each.name: wrong_image(each, calls[each.name].call, source, part) for each, part in pairs}
        return {name: why for name, why in found.items() if why}

    about = {
        "threads": setting.threads,
        "moved by": {MEMCPY: moved, **{each.name: each.moved for each in chosen}},
        "predicted": {each.name: predicted(each) for each in chosen},
    }
    rounds = setting.rounds if moved < _FEWER else max(setting.rounds // 3, 1)
    work = RowPlan(size_words(moved), moved, calls, check, about=about)
    return race(work, replace(setting, rounds=rounds), buffers=(source, target))


def predicted(problem: PeerProblem) -> float:
    """Seconds by the cost model, on the threads that are set."""
    src = rs.MemoryDesc(problem.dims, problem.src_type, problem.src_tag)
    dst = rs.MemoryDesc(problem.dims, problem.dst_type, problem.dst_tag)
    scales = None if problem.scale is None else problem.arithmetic.scales(problem.dims).ravel()
    return rs.plan(src, dst, scale=scales, axis=problem.arithmetic.axis).predicted.seconds


def wrong_image(problem: PeerProblem, call: Call, source: Bytes, target: Bytes) -> str:
    """Return the error in the first, the middle or the last image, or ""."""
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


def rate(row: BenchRow, kernel: str, seconds: float | None = None) -> float:
    """Bytes read and written per second by one kernel, in its median time or another."""
    return float(row.about["moved by"][kernel] / (seconds or row.seconds(kernel)))


def by_threads(rows: Sequence[BenchRow]) -> Mapping[int, list[BenchRow]]:
    """Return the measurements, by the number of threads."""
    there = [row for row in rows if row.times]
    return {
        n: [row for row in there if row.about["threads"] == n]
        for n in sorted({r.about["threads"] for r in there})
    }


def mean_error(rows: Sequence[BenchRow]) -> float | None:
    """By what factor predictions are off, in the geometric mean."""
    pairs = [(row, *each) for row in rows if row.times for each in row.about["predicted"].items()]
    logs = [abs(math.log(told / row.seconds(name))) for row, name, told in pairs if told]
    return math.exp(sum(logs) / len(logs)) if logs else None


def page(rows: Sequence[BenchRow]) -> str:
    """A table for each number of threads: GB/s, and those predicted."""
    parts = []
    for threads, same in by_threads(rows).items():
        kernels = list(same[0].about["moved by"])
        lines = []
        for row in same:
            line = [row.name]
            for name in kernels:
                told = row.about["predicted"].get(name)
                told = f" ({rate(row, name, told) / 1e9:.0f})" if told else ""
                line.append("**wrong**" if name in row.wrong else f"{rate(row, name) / 1e9:.1f}{told}")
            # Half the distance of the quartiles, of the one where it is largest.
            lines.append([*line, f"{max(row.times[name].spread.relative for name in kernels) / 2:.0%}"])
        parts.append(table([f"moved, {threads} thread{'s' * (threads > 1)}", *kernels, "±"], lines))
    parts += [f"Left out: {row.name}, {why}." for row in rows for why in row.refused.values()]
    error = mean_error(rows)
    if error:
        what = f"Predictions are off by a factor of {error:.2f}."
        parts.append(f"GB/s, and in brackets what was predicted. {what}")
    return "\n\n".join(parts)


STUDY = Study("Speed over size", measure, page)
