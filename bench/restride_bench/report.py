"""The report: one JSON with everything measured, and one Markdown page of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
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
    groups = list(dict.fromkeys(row.problem.group for row in rows))
    found = [_mean(f"of memcpy: {g}", _roofs(row for row in rows if row.problem.group == g)) for g in groups]
    for peer in dict.fromkeys(name for row in rows for name in row.times if name != "restride"):
        found.append(_mean(f"× {peer}", _over(rows, peer)))
    own = [row for row in rows if not is_reference(row)]
    if len(own) < len(rows):
        found.append(_mean("× oneDNN where it has a kernel (not its reference)", _over(own, "oneDNN")))
    found += [
        _mean(f"× oneDNN: {g}", _over([r for r in own if r.problem.group == g], "oneDNN")) for g in groups
    ]
    return [mean for mean in found if mean is not None]


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


def _spread_text(figure: Figure) -> str:
    """The median, and the quartiles in brackets."""
    spread = figure.spread
    median, low, high = (amount(value, figure.unit) for value in (spread.median, spread.low, spread.high))
    return f"{median} ({low}–{high})"


def rate_text(rate: float) -> str:
    """Bytes per second as GB/s, with digits enough that quotients of two agree with their ratio."""
    value = rate / 1e9
    return f"{value:.1f}" if value >= 9.95 else f"{value:.2f}"


def amount(value: float, unit: str) -> str:
    """A figure with its unit; times in the unit that suits them."""
    return duration(value * _SECONDS[unit]) if unit in _SECONDS else f"{value:.3g} {unit}"


def write(report: SuiteReport, folder: Path, name: str = "bench") -> list[Path]:
    """Write `<name>.json` and `<name>.md` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "json": json.dumps(as_json(report), indent=1, ensure_ascii=False) + "\n",
        "md": as_markdown(report),
    }
    written = []
    for suffix, text in texts.items():
        path = folder / f"{name}.{suffix}"
        path.write_text(text, encoding="utf-8")
        written.append(path)
    return written


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
    parts = [
        "# restride beside its peers",
        _facts(report),
        _section("Geometric means", _mean_table(report)),
        _section("Every row", _row_table(report) + _LEGEND if report.rows else ""),
        _section("Small figures", _figure_table(report)),
        _section("As the problem grows", _growth_table(report)),
        _section("Wrong answers", "\n".join(f"- {line}" for line in report.wrong)),
    ]
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
    lines += [f"- **missing**: {name} ({how})" for name, how in report.missing.items()]
    return "\n".join(lines)


def _section(title: str, body: str) -> str:
    return f"## {title}\n\n{body}" if body else ""


def _mean_table(report: SuiteReport) -> str:
    rows = [
        [m.name, f"{m.value:.2f}", str(m.rows), f"{m.worst:.2f}", m.worst_row] for m in means(report.rows)
    ]
    return table(["restride", "geometric mean", "rows", "worst", "worst row"], rows)


def _row_table(report: SuiteReport) -> str:
    peers = report.peers()
    head = [
        "row",
        "dims",
        "MB",
        *(f"{peer} GB/s" for peer in peers),
        "memcpy GB/s",
        "±",
        "of memcpy",
        "× oneDNN",
        "",
    ]
    return table(head, [_cells(row, peers) for row in report.rows])


def _cells(row: SuiteRow, peers: Sequence[str]) -> list[str]:
    problem, own = row.problem, row.times.get("restride")
    marks = ("c" if row.in_cache else "") + ("r" if is_reference(row) else "")
    return [
        problem.name,
        "×".join(map(str, problem.dims)),
        f"{problem.moved / 1e6:.0f}",
        *(_rate(row, peer) for peer in peers),
        rate_text(problem.moved / row.roof_time.spread.median),
        f"{own.spread.relative / 2:.0%}" if own else "–",
        _ratio(row.of_roof()),
        _ratio(row.over("oneDNN")),
        marks,
    ]


def _rate(row: SuiteRow, peer: str) -> str:
    if peer in row.wrong:
        return "**wrong**"
    return rate_text(row.rate(peer)) if peer in row.times else "–"


def _ratio(spread: Quartiles | None) -> str:
    return f"{spread.median:.2f}" if spread else "–"


def _figure_table(report: SuiteReport) -> str:
    rows = [
        [
            f.name,
            _spread_text(f),
            f"{'≥' if f.more_is_better else '≤'} {f.goal:g} {f.unit}",
            "yes" if f.met else "**no**",
            ", ".join(f"{name} {amount(value, f.unit)}" for name, value in f.beside.items()),
            f.note,
        ]
        for f in report.figures
    ]
    return table(["what", "median (quartiles)", "goal", "met", "beside", ""], rows)


def _growth_table(report: SuiteReport) -> str:
    rows = [
        [
            f"{s.moved / 1e6:.1f}",
            f"{s.rate / 1e9:.1f}",
            f"{s.copy_rate / 1e9:.1f}",
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


def _roofs(rows: Iterable[SuiteRow]) -> dict[str, float]:
    found = {row.problem.label: row.of_roof() for row in rows}
    return {label: spread.median for label, spread in found.items() if spread}


def _over(rows: Iterable[SuiteRow], peer: str) -> dict[str, float]:
    found = {row.problem.label: row.over(peer) for row in rows}
    return {label: spread.median for label, spread in found.items() if spread}


def _mean(name: str, ratios: dict[str, float]) -> Mean | None:
    value = geometric_mean(list(ratios.values()))
    if value is None:
        return None
    worst = min(ratios, key=lambda label: ratios[label])
    return Mean(name, value, len(ratios), ratios[worst], worst)
