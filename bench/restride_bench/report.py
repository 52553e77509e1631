"""The report: one JSON with everything measured, and one Markdown page of it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from restride.view.units import duration

from .figures import Figure, GrowthStep
from .measure import Quartiles, geometric_mean
from .suite import SuiteRow

_SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}
_REFERENCE = ("ref", "simple")  # how oneDNN names the kernels it falls to where it has no other


@dataclass(frozen=True)
class SuiteReport:
    """Everything that one run measured. `missing` says how to get the peers that were not there."""

    machine: dict[str, str]
    versions: dict[str, str]
    settings: dict[str, str]
    missing: dict[str, str] = field(default_factory=dict)
    rows: Sequence[SuiteRow] = ()
    figures: Sequence[Figure] = ()
    steps: Sequence[GrowthStep] = ()

    @property
    def wrong(self) -> list[str]:
        """Every wrong answer, as "row: peer: what"."""
        return [f"{row.problem.label}: {peer}: {why}" for row in self.rows for peer, why in row.wrong.items()]

    def peers(self) -> list[str]:
        """The peers that have a time in some row, restride first."""
        names = {name: None for row in self.rows for name in row.times}
        return sorted(names, key=lambda name: (name != "restride", list(names).index(name)))


@dataclass(frozen=True)
class Mean:
    """Geometric mean of a ratio over the rows of one kind, with the worst row."""

    name: str
    value: float
    rows: int
    worst: float
    worst_row: str


def means(rows: Sequence[SuiteRow]) -> list[Mean]:
    """Against memcpy by group, each peer overall, and oneDNN by group where it has a kernel of its own."""

    def over(peer: str, rows: Sequence[SuiteRow]) -> dict[str, Quartiles | None]:
        return {row.problem.label: row.over(peer) for row in rows}

    groups = {
        name: [row for row in rows if row.problem.group == name]
        for name in dict.fromkeys(row.problem.group for row in rows)
    }
    every = [
        _mean(f"of memcpy: {name}", {row.problem.label: row.of_roof() for row in same})
        for name, same in groups.items()
    ]
    peers = dict.fromkeys(name for row in rows for name in row.times if name != "restride")
    every += [_mean(f"× {peer}", over(peer, rows)) for peer in peers]
    own = [row for row in rows if not is_reference(row)]
    if len(own) < len(rows):
        every.append(_mean("× oneDNN where it has a kernel (not its reference)", over("oneDNN", own)))
    for name, same in groups.items():
        every.append(
            _mean(f"× oneDNN: {name}", over("oneDNN", [row for row in same if not is_reference(row)]))
        )
    return [mean for mean in every if mean is not None]


def is_reference(row: SuiteRow) -> bool:
    """Whether oneDNN ran its element-by-element reference."""
    return row.kernels.get("oneDNN", "").startswith(_REFERENCE)


def line(row: SuiteRow) -> str:
    """The row in a few words, for a terminal."""
    parts = [f"{name} {rate_text(row.rate(name))}" for name in row.times]
    parts.append(f"memcpy {rate_text(row.problem.moved / row.roof_time.spread.median)} GB/s")
    ratios = ((row.of_roof(), "of memcpy"), (row.over("oneDNN"), "× oneDNN"))
    parts += [f"{spread.median:.2f} {what}" for spread, what in ratios if spread]
    parts += [f"{name} WRONG ({why})" for name, why in row.wrong.items()]
    return ", ".join([*parts, *(f"{name} refused" for name in row.refused)])


def rate_text(rate: float) -> str:
    """Bytes per second as GB/s, with digits enough that quotients of two agree with their ratio."""
    value = rate / 1e9
    return f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def amount(value: float, unit: str) -> str:
    """A figure with its unit; times in the unit that suits them."""
    return duration(value * _SECONDS[unit]) if unit in _SECONDS else f"{value:.3g} {unit}"


def write(report: SuiteReport, folder: Path, name: str = "bench") -> list[Path]:
    """Write `<name>.json` and `<name>.md` into `folder`."""
    return write_both(folder / name, as_json(report), as_markdown(report))


def write_both(stem: Path, values: dict[str, Any], page: str) -> list[Path]:
    """Write values as JSON, and a page."""
    stem.parent.mkdir(parents=True, exist_ok=True)
    texts = {".json": json.dumps(values, indent=1, ensure_ascii=False) + "\n", ".md": page}
    for suffix, text in texts.items():
        stem.with_suffix(suffix).write_text(text, encoding="utf-8")
    return [stem.with_suffix(suffix) for suffix in texts]


def as_json(report: SuiteReport) -> dict[str, Any]:
    """The report as plain values: seconds, bytes, ratios; quartiles as [low, median, high]."""
    return {
        "machine": report.machine,
        "versions": report.versions,
        "settings": report.settings,
        "missing": report.missing,
        "means": [vars(mean) for mean in means(report.rows)],
        "rows": [_json_row(row) for row in report.rows],
        "figures": [{**vars(f), "spread": _three(f.spread), "met": f.met} for f in report.figures],
        "growth": [vars(step) for step in report.steps],
    }


def as_markdown(report: SuiteReport) -> str:
    """The report as one page."""
    mean_rows = [
        [m.name, f"{m.value:.2f}", str(m.rows), f"{m.worst:.2f}", m.worst_row] for m in means(report.rows)
    ]
    sections = {
        "Geometric means": table(["restride", "geometric mean", "rows", "worst", "worst row"], mean_rows),
        "Every row": _row_table(report) + _LEGEND if report.rows else "",
        "Small figures": _figure_table(report),
        "As the problem grows": _growth_table(report),
        "Wrong answers": "\n".join(f"- {line}" for line in report.wrong),
    }
    parts = ["# restride beside its peers", _facts(report)]
    parts += [f"## {title}\n\n{body}" for title, body in sections.items() if body]
    return "\n\n".join(part for part in parts if part) + "\n"


_LEGEND = """

GB/s counts bytes read plus bytes written, padding included, at the median time; ± is half the interquartile
range of restride's times. *Of memcpy* and *× oneDNN* are quotients of the figures in the row. memcpy is
the fastest of all copies at hand (NumPy on one thread and on slices, torch, restride) of the same number of
bytes. **c** marks a row that fits in the last-level cache, **r** one where oneDNN has only its reference."""


def _facts(report: SuiteReport) -> str:
    lines = [f"- {name}: {value}" for name, value in report.machine.items()]
    lines.append("- versions: " + ", ".join(f"{name} {value}" for name, value in report.versions.items()))
    lines += [f"- {name}: {value}" for name, value in report.settings.items()]
    return "\n".join([*lines, *(f"- **missing**: {name} ({how})" for name, how in report.missing.items())])


def _row_table(report: SuiteReport) -> str:
    peers = report.peers()
    rates = [*(f"{peer} GB/s" for peer in peers), "memcpy GB/s"]
    head = ["row", "dims", "MB", *rates, "±", "of memcpy", "× oneDNN", ""]
    return table(head, [_cells(row, peers) for row in report.rows])


def _cells(row: SuiteRow, peers: Sequence[str]) -> list[str]:
    problem, own = row.problem, row.times.get("restride")
    rates = [rate_text(row.rate(peer)) if peer in row.times else "–" for peer in peers]
    return [
        *(problem.name, "×".join(map(str, problem.dims)), f"{problem.moved / 1e6:.0f}"),
        *("**wrong**" if peer in row.wrong else rate for peer, rate in zip(peers, rates, strict=True)),
        rate_text(problem.moved / row.roof_time.spread.median),
        f"{own.spread.relative / 2:.0%}" if own else "–",
        *(f"{spread.median:.2f}" if spread else "–" for spread in (row.of_roof(), row.over("oneDNN"))),
        ("c" if row.in_cache else "") + ("r" if is_reference(row) else ""),
    ]


def _figure_table(report: SuiteReport) -> str:
    rows = []
    for f in report.figures:
        median, low, high = (amount(each, f.unit) for each in (f.spread.median, f.spread.low, f.spread.high))
        goal = f"{'≥' if f.more_is_better else '≤'} {f.goal:g} {f.unit}"
        beside = ", ".join(f"{name} {amount(value, f.unit)}" for name, value in f.beside.items())
        rows.append([f.name, f"{median} ({low}–{high})", goal, "yes" if f.met else "**no**", beside, f.note])
    return table(["what", "median (quartiles)", "goal", "met", "beside", ""], rows)


def _growth_table(report: SuiteReport) -> str:
    rows = [
        [
            f"{s.moved / 1e6:.1f}",
            *(f"{rate / 1e9:.1f}" for rate in (s.rate, s.copy_rate)),
            f"{s.rate / s.copy_rate:.2f}",
        ]
        for s in report.steps
    ]
    return table(["MB moved", "restride GB/s", "memcpy GB/s", "of memcpy"], rows)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; "" without rows."""
    if not rows:
        return ""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _json_row(row: SuiteRow) -> dict[str, Any]:
    problem = row.problem
    roof, beaten = row.of_roof(), row.over("oneDNN")
    return {
        "name": problem.name,
        "group": problem.group,
        "dims": list(problem.dims),
        "source": [problem.src_type, problem.src_tag],
        "destination": [problem.dst_type, problem.dst_tag],
        "scale": problem.scale,
        "arithmetic": str(problem.arithmetic),
        "group_size": problem.group_size,
        "moved": problem.moved,
        "in_cache": row.in_cache,
        "seconds": {name: _three(timing.spread) for name, timing in row.times.items()},
        "rounds": {name: len(timing.seconds) for name, timing in row.times.items()},
        "memcpy": {"by": row.roof, "seconds": _three(row.roof_time.spread)},
        "of_memcpy": _three(roof) if roof else None,
        "over_onednn": _three(beaten) if beaten else None,
        "kernels": row.kernels,
        "refused": row.refused,
        "wrong": row.wrong,
    }


def _three(spread: Quartiles) -> list[float]:
    return [spread.low, spread.median, spread.high]


def _mean(name: str, spreads: Mapping[str, Quartiles | None]) -> Mean | None:
    ratios = {label: spread.median for label, spread in spreads.items() if spread}
    value = geometric_mean(list(ratios.values()))
    if value is None:
        return None
    worst = min(ratios, key=lambda label: ratios[label])
    return Mean(name, value, len(ratios), ratios[worst], worst)
