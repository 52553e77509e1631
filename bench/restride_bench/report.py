"""The report: one JSON with everything measured, and one Markdown page of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from restride.view.units import duration

from .figures import Figure
from .measure import geometric_mean
from .pages import cells, gb, page, ratio, sides, table, write_both
from .study import MEMCPY, OWN, BenchRow
from .suite import is_reference

_SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}


@dataclass(frozen=True)
class SuiteReport:
    """Everything that one run measured: rows of the suite, figures, and the growth series.

    `missing` says how to get the peers that were not there, `cache` how many bytes the last level holds.
    """

    machine: dict[str, str]
    versions: dict[str, str]
    settings: dict[str, str]
    missing: dict[str, str] = field(default_factory=dict)
    rows: Sequence[BenchRow] = ()
    figures: Sequence[Figure] = ()
    steps: Sequence[BenchRow] = ()
    cache: int | None = None

    @property
    def wrong(self) -> list[str]:
        """Every wrong answer, as "row: peer: what"."""
        return [f"{row.name}: {peer}: {why}" for row in self.rows for peer, why in row.wrong.items()]

    def peers(self) -> list[str]:
        """The peers that have a time in some row, restride first."""
        return [OWN] * any(OWN in row.times for row in self.rows) + sides(self.rows)


@dataclass(frozen=True)
class Mean:
    """Geometric mean of a ratio over the rows of one kind, with the worst row."""

    name: str
    value: float
    rows: int
    worst: float
    worst_row: str


def means(rows: Sequence[BenchRow]) -> list[Mean]:
    """Against memcpy by group, each peer overall, and oneDNN by group where it has a kernel of its own."""
    groups: dict[str, list[BenchRow]] = {}
    for row in rows:
        groups.setdefault(row.about.group, []).append(row)
    own = [row for row in rows if not is_reference(row)]
    wanted: list[tuple[str, str, Sequence[BenchRow]]] = [
        *((f"of memcpy: {name}", MEMCPY, same) for name, same in groups.items()),
        *((f"× {peer}", peer, rows) for peer in sides(rows)),
    ]
    if len(own) < len(rows):
        wanted.append(("× oneDNN where it has a kernel (not its reference)", "oneDNN", own))
    for name, same in groups.items():
        wanted.append((f"× oneDNN: {name}", "oneDNN", [row for row in same if not is_reference(row)]))
    found = []
    for name, side, some in wanted:
        ratios = {row.name: over.median for row in some if (over := row.over(side))}
        worst = min(ratios, key=lambda each: ratios[each], default="")
        value = geometric_mean(list(ratios.values()))
        if value is not None:
            found.append(Mean(name, value, len(ratios), ratios[worst], worst))
    return found


def line(row: BenchRow) -> str:
    """The row in a few words, for a terminal."""
    parts = [f"{name} {gb(row.rate(name))}" for name in (OWN, *sides([row])) if name in row.times]
    parts.append(f"memcpy {gb(row.rate(MEMCPY))} GB/s")
    ratios = ((row.over(MEMCPY), "of memcpy"), (row.over("oneDNN"), "× oneDNN"))
    parts += [f"{spread.median:.2f} {what}" for spread, what in ratios if spread]
    parts += [f"{name} WRONG ({why})" for name, why in row.wrong.items()]
    return ", ".join([*parts, *(f"{name} refused" for name in row.refused)])


def amount(value: float, unit: str) -> str:
    """A figure with its unit; times in the unit that suits them."""
    return duration(value * _SECONDS[unit]) if unit in _SECONDS else f"{value:.3g} {unit}"


def write(report: SuiteReport, folder: Path, name: str = "bench") -> list[Path]:
    """Write `<name>.json` and `<name>.md` into `folder`."""
    return write_both(folder / name, as_json(report), as_markdown(report))


def as_json(report: SuiteReport) -> dict[str, Any]:
    """The report as plain values: seconds, bytes, ratios; quartiles as [low, median, high]."""
    return {
        "machine": report.machine,
        "versions": report.versions,
        "settings": report.settings,
        "missing": report.missing,
        "means": [vars(mean) for mean in means(report.rows)],
        "rows": [_json_row(row, report.cache) for row in report.rows],
        "figures": [{**vars(f), "spread": f.spread.values(), "met": f.met} for f in report.figures],
        "growth": [
            {"moved": step.moved, "rate": step.rate(), "copy_rate": step.rate(MEMCPY)}
            for step in report.steps
        ],
    }


def as_markdown(report: SuiteReport) -> str:
    """The report as one page."""
    mean_rows = [
        [m.name, f"{m.value:.2f}", str(m.rows), f"{m.worst:.2f}", m.worst_row] for m in means(report.rows)
    ]
    steps = [
        [
            *(f"{step.moved / 1e6:.1f}", f"{step.rate() / 1e9:.1f}", f"{step.rate(MEMCPY) / 1e9:.1f}"),
            f"{step.rate() / step.rate(MEMCPY):.2f}",
        ]
        for step in report.steps
    ]
    facts = [
        *(f"{name}: {value}" for name, value in report.machine.items()),
        "versions: " + ", ".join(f"{name} {value}" for name, value in report.versions.items()),
        *(f"{name}: {value}" for name, value in report.settings.items()),
        *(f"**missing**: {name} ({how})" for name, how in report.missing.items()),
    ]
    sections = {
        "Geometric means": table(["restride", "geometric mean", "rows", "worst", "worst row"], mean_rows),
        "Every row": _row_table(report) + _LEGEND if report.rows else "",
        "Small figures": _figure_table(report),
        "As the problem grows": table(["MB moved", "restride GB/s", "memcpy GB/s", "of memcpy"], steps),
        "Wrong answers": "\n".join(f"- {line}" for line in report.wrong),
    }
    return page("restride compared with its peers", facts, sections)


_LEGEND = """

GB/s counts bytes read plus bytes written, padding included, at the median time; ± is half the interquartile
range of restride's times. *Of memcpy* and *× oneDNN* are quotients of the figures in the row. memcpy is
the fastest of all copies at hand (NumPy on one thread and on slices, torch, restride) of the same number of
bytes. **c** marks a row that fits in the last-level cache, **r** one where oneDNN has only its reference."""


def _row_table(report: SuiteReport) -> str:
    def rate(peer: str) -> Callable[[BenchRow], str]:
        return lambda row: (
            "**wrong**" if peer in row.wrong else gb(row.rate(peer)) if peer in row.times else "–"
        )

    columns = {
        "row": lambda row: str(row.about.name),
        "dims": lambda row: "×".join(map(str, row.about.dims)),
        "MB": lambda row: f"{row.moved / 1e6:.0f}",
        **{f"{peer} GB/s": rate(peer) for peer in (*report.peers(), MEMCPY)},
        "±": lambda row: f"{row.times[OWN].spread.relative / 2:.0%}" if OWN in row.times else "–",
        "of memcpy": lambda row: ratio(row.over(MEMCPY)),
        "× oneDNN": lambda row: ratio(row.over("oneDNN")),
        "": lambda row: "c" * _is_cached(row, report.cache) + "r" * is_reference(row),
    }
    return table([*columns], cells(report.rows, columns))


def _is_cached(row: BenchRow, cache: int | None) -> bool:
    return cache is not None and row.moved <= cache


def _figure_table(report: SuiteReport) -> str:
    rows = []
    for f in report.figures:
        median, low, high = (amount(each, f.unit) for each in (f.spread.median, f.spread.low, f.spread.high))
        goal = f"{'≥' if f.more_is_better else '≤'} {f.goal:g} {f.unit}"
        beside = ", ".join(f"{name} {amount(value, f.unit)}" for name, value in f.comparisons.items())
        rows.append([f.name, f"{median} ({low}–{high})", goal, "yes" if f.met else "**no**", beside, f.note])
    return table(["what", "median (quartiles)", "goal", "met", "compared with", ""], rows)


def _json_row(row: BenchRow, cache: int | None) -> dict[str, Any]:
    problem, of_memcpy, over = row.about, row.over(MEMCPY), row.over("oneDNN")
    return {
        **row.values(),
        "name": problem.name,
        "group": problem.group,
        "dims": list(problem.dims),
        "source": [problem.src_type, problem.src_tag],
        "destination": [problem.dst_type, problem.dst_tag],
        "scale": problem.scale,
        "arithmetic": str(problem.arithmetic),
        "group_size": problem.group_size,
        "in_cache": _is_cached(row, cache),
        "of_memcpy": of_memcpy and of_memcpy.values(),
        "over_onednn": over and over.values(),
    }
