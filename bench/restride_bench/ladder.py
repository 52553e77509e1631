"""One transpose, from a loop over elements to the speed of memory: the gain of each idea of a schedule.

Every rung, a side of the one row, is the same work with one thing more than the rung before, compiled by the
same compiler. NumPy's view and memcpy are the comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import restride as rs
from restride.ir.digits import reorder_nest
from restride.ir.nest import LoopNest, linear
from restride.runtime.cpu.kernel import kernel_of
from restride.schedule.moves.schedule import schedule
from restride.schedule.moves.transforms import transforms_of
from restride.targets.cpu import boxes_of, lower_by, lower_nest, machine_of
from restride.targets.isa import CacheSizes, Isa, host_caches, host_isa
from restride.targets.lowered import Lowered

from .array_peers import NumPy
from .measure import Call
from .pages import size_words, table
from .peer import PreparedCall
from .problem import Bytes, PeerProblem
from .study import BenchRow, BenchSetup, RowPlan, Study, race

WORK = PeerProblem("f32 nchw→nhwc", (16, 256, 56, 56), "f32", "abcd", "f32", "acdb")
_NARROW = "sse41"


def measure(setting: BenchSetup) -> list[BenchRow]:
    """One row: its sides are the rungs from the lowest, and peers; in a quick run, of one image."""
    problem = WORK if setting.largest >= WORK.moved else replace(WORK, dims=(1, *WORK.dims[1:]))
    source, target = problem.source(), problem.destination()
    rs.set_num_threads(setting.threads)
    threads, sides, copies = setting.threads, dict[str, PreparedCall](), dict[str, PreparedCall]()
    numpy, places = NumPy(threads), (source.ctypes.data, target.ctypes.data, 0)
    sides["NumPy: a view with its axes permuted, copied"] = numpy.prepare(problem, source, target)
    # Calls hold no more than the address of their kernel.
    held = {name: kernel_of(lowered, problem.moved) for name, lowered in variants(problem).items()}
    sides |= {name: PreparedCall(partial(kernel.call, *places)) for name, kernel in held.items()}
    if threads > 1:
        sides[f"… on {threads} threads"] = PreparedCall(partial([*held.values()][-1].run, *places))
    for count, copy in zip((1, threads), numpy.copies(source, target).values(), strict=False):
        copies[f"memcpy, {count} thread{'s' * (count > 1)}"] = PreparedCall(copy)
    counts = {name: threads if name.endswith(" threads") else 1 for name in (*sides, *copies)}

    def check(_held: object = held) -> dict[str, str]:
        wrong = {name: _wrong(problem, made.call, source, target) for name, made in sides.items()}
        return {name: why for name, why in wrong.items() if why}

    work = RowPlan(WORK.name, problem.moved, {**sides, **copies}, check, about={"threads": counts})
    return [race(work, replace(setting, copiers=[]), number=1)]


def variants(problem: PeerProblem) -> dict[str, Lowered]:
    """The kernels, each with one thing more."""
    sides = ((problem.src_type, problem.src_tag), (problem.dst_type, problem.dst_tag))
    src, dst = (rs.MemoryDesc(problem.dims, *side) for side in sides)
    nest, isa, caches = reorder_nest(src, dst, linear()), host_isa(), host_caches()
    chosen, best = lower_nest(nest, isa, caches), _direct(nest, isa, caches)
    plain = _with(best, streams=False, prefetch=0)
    axes = tuple(range(len(plain.plan[0].nest.axes)))
    loops = _with(plain, chunks=(1,) * len(axes), grid=(), inner=axes, kind="strided")
    found = {"a loop over elements": loops}
    if isa.name in ("avx2", "avx512"):
        narrow = _direct(nest, Isa.for_name(_NARROW), caches)
        found["tiles in registers of 16 bytes"] = _with(narrow, prefetch=0, streams=False)
    found[f"tiles in registers of {isa.vector_bytes} bytes"] = plain
    found["… the next lines asked for ahead"] = _with(best, streams=False)
    found["… written past the caches"] = best
    if not isinstance(chosen.plan, tuple):
        found["in squares through scratch"] = chosen
    return found


def _direct(nest: LoopNest, isa: Isa, caches: CacheSizes) -> Lowered:
    """The kernel in tiles, whether or not another one is chosen."""
    boxes = boxes_of(nest)
    plans = [plan for box in boxes for plan in schedule(box, machine_of(isa, caches))]
    return lower_by(nest, transforms_of(boxes, plans), isa, caches)


def _with(lowered: Lowered, **changes: Any) -> Lowered:
    return replace(lowered, plan=tuple(replace(plan, **changes) for plan in lowered.plan))


def _wrong(problem: PeerProblem, call: Call, source: Bytes, target: Bytes) -> str:
    problem.poison(target)
    call()
    return problem.wrong(source, target)


def page(rows: Sequence[BenchRow]) -> str:
    """A line for each rung."""
    parts = []
    for row in rows:
        lines = [
            [
                name,
                str(row.about["threads"][name]),
                f"{row.rate(name) / 1e9:.1f}",
                f"{timing.spread.relative / 2:.0%}",
            ]
            for name, timing in row.times.items()
        ]
        parts.append(f"{row.name}, {size_words(row.moved)} moved.")
        parts.append(table(["with", "threads", "GB/s", "±"], lines))
    return "\n\n".join(parts)


STUDY = Study("One transpose, step by step", measure, page)
