"""Errors of the predicted times of moves: 200 rows of the standing suite, each with the plan's prediction.

Speeds of the machine are measured at the beginning, in the midst and at the end, and the best of each are
taken, as the least time of a row is: so that other work on the machine changes both alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import quantiles

import numpy as np

import restride as rs
from restride.runtime.cpu.rates import measure as measure_rates
from restride.schedule.machine import Rates
from restride.targets.isa import host_caches, host_isa

from .pages import gb, size_words, table
from .problem import PeerProblem
from .rows import suite
from .study import OWN, BenchRow, BenchSetup, RowPlan, Study, race

_ROWS, _LEAST, _NEAR = 200, 24_000_000, 1.3
# The least of so many rounds, as the speeds of the machine are of three times fifteen.
_ROUNDS = 45


def measure(setting: BenchSetup) -> list[BenchRow]:
    """A random choice of rows, always the same."""
    rows = [row for row in suite(least=_LEAST) if row.group_size is None and not row.margin]
    order = np.random.default_rng(0).permutation(len(rows))[:_ROWS]
    chosen = [rows[i] for i in order if rows[i].moved <= setting.largest]
    found, rates = list[BenchRow](), list[Rates]()
    for number, row in enumerate(chosen):
        if number % (len(chosen) // 2 or 1) == 0:
            rates.append(measure_rates(host_isa(), host_caches()))
        source, target = row.source(), row.destination()
        calls = {OWN: setting.restride.prepare(row, source, target)}
        about = {"group": row.group, "threads": setting.threads}
        plan = RowPlan(row.label, row.moved, calls, about=about, is_by_least=True)
        found.append(
            race(plan, replace(setting, copiers=[], rounds=max(setting.rounds, _ROUNDS)), settle=0.0)
        )
    curves = [
        tuple(map(max, zip(*kinds, strict=True))) for kinds in zip(*(r.curves for r in rates), strict=True)
    ]
    best = rates[0]._replace(
        region=min(r.region for r in rates),
        curves=tuple(curves),
        shared=tuple(map(max, zip(*(r.shared for r in rates), strict=True))),
    )
    for each, row in zip(found, chosen, strict=True):
        each.about["predicted"] = predicted(row, best)
    return found


def predicted(problem: PeerProblem, rates: Rates) -> float | None:
    """Seconds by the cost model and such rates."""
    given = problem.arithmetic
    sides = ((problem.src_type, problem.src_tag), (problem.dst_type, problem.dst_tag))
    scale = (
        None
        if given.scale is None
        else given.scale
        if given.axis is None
        else given.scales(problem.dims).ravel()
    )
    plan = rs.plan(
        *(rs.MemoryDesc(problem.dims, *side) for side in sides),
        scale=scale,
        axis=given.axis,
        zero_point=given.zero_point or None,
        beta=given.beta,
    )
    found = plan._predicted_by(rates)
    return found.seconds if found else None


def page(found: Sequence[BenchRow]) -> str:
    """The distribution of predicted over measured, and the rows that are furthest off."""
    there = [row for row in found if row.about["predicted"]]
    if len(there) < 2:
        return ""
    ratios = {row.name: row.about["predicted"] / row.seconds() for row in there}
    low, first, middle, last, high = (quantiles(ratios.values(), n=20)[i] for i in (0, 4, 9, 14, 18))
    share = sum(1 / _NEAR <= value <= _NEAR for value in ratios.values()) / len(ratios)
    head = f"Of {len(ratios)} rows {share:.0%} are within 30 %. Predicted over measured, of the least times:"
    spread = table(
        ["5 %", "25 %", "median", "75 %", "95 %"], [[f"{x:.2f}" for x in (low, first, middle, last, high)]]
    )
    far = sorted(there, key=lambda row: abs(np.log(ratios[row.name])))[: -len(there) // 10 - 1 : -1]
    lines = [[row.name, size_words(row.moved), gb(row.rate()), f"{ratios[row.name]:.2f}"] for row in far]
    return "\n\n".join((head, spread, table(["furthest off", "moved", "GB/s", "predicted/measured"], lines)))


STUDY = Study("Predictions", measure, page)
