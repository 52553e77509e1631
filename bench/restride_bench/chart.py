"""One picture of a report: how near every peer comes to memcpy, and how restride's speed holds as work grows.

Needs matplotlib, an extra; it is imported here only when a picture is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .pages import mean_of, ratio
from .report import SuiteReport
from .study import MEMCPY, OWN, BenchRow
from .suite import is_reference

_COLORS = {
    "restride": "#c1272d",
    "fresh result": "#eda3a5",
    "oneDNN": "#1f5fa8",
    "torch": "#e08b00",
    "NumPy": "#7d8a96",
}
_MARKERS = {"restride": "o", "fresh result": "o", "oneDNN": "D", "torch": "^", "NumPy": "s"}
_STYLE = {
    "font.size": 8,
    "axes.titlesize": 8.5,
    "axes.spines.left": False,
    "svg.hashsalt": "restride",
}
_WIDTH, _TITLE, _LINE, _AROUND = 15.0, 0.55, 0.21, 0.8  # inches
_BY_TYPE = ("layout", "in the caches", "shuffle", "shuffles in the caches")
_ABREAST = 3  # groups to a band, whose rows have words of their own
_GOAL = {
    "convert": 0.8,
    "quantize": 0.8,
    "quantize as it lies": 0.8,
    "shuffle": 0.8,
    "in the caches": 0.6,
    "shuffles in the caches": 0.6,
    "types in the caches": 0.4,
}
_USUAL_GOAL = 0.9
_DARK, _PALE, _GREEN = "#333333", "#e6e6e6", "#eef4ec"


@dataclass(frozen=True)
class Panel:
    """Rows under one title, with the words for each line from the top."""

    title: str
    rows: Sequence[BenchRow]
    words: Sequence[str]
    named: bool = True

    @property
    def goal(self) -> float:
        """The part of memcpy's speed that the rows are to reach."""
        return _GOAL.get(self.rows[0].about.group, _USUAL_GOAL)


def draw(report: SuiteReport, folder: Path, name: str = "bench") -> list[Path]:
    """Write `<name>.png` and `<name>.svg` into `folder`. Raises ImportError without matplotlib."""
    return saved(lambda pyplot: _figure(pyplot, report), folder / name, _STYLE)


def saved(picture: Callable[[Any], Any], stem: Path, style: Mapping[str, Any]) -> list[Path]:
    """Write what `picture` makes of pyplot as .png and .svg. Raises ImportError without matplotlib."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    stem.parent.mkdir(parents=True, exist_ok=True)
    paths = [stem.with_suffix(suffix) for suffix in (".png", ".svg")]
    with pyplot.rc_context({**style, "axes.spines.top": False, "axes.spines.right": False}):
        figure = picture(pyplot)
        for path in paths:
            undated = {"Date": None} if path.suffix == ".svg" else None
            figure.savefig(path, dpi=140, bbox_inches="tight", metadata=undated)
        pyplot.close(figure)
    return paths


def bands(report: SuiteReport) -> list[list[Panel]]:
    """The panels, band by band: of layout changes and of shuffles, large and in the caches, one per data
    type, then the other groups, some to a band, the longest first.
    """
    groups: dict[str, list[BenchRow]] = {name: [] for name in _BY_TYPE}
    for row in report.rows:
        groups.setdefault(row.about.group, []).append(row)
    found = []
    for name in _BY_TYPE:
        rows, types = groups.pop(name), dict[str, list[BenchRow]]()
        for row in rows:
            types.setdefault(row.about.src_type, []).append(row)
        prefix = "" if name == "layout" else f"{name} "
        found.append([_panel(f"{prefix}{of}", same, rows) for of, same in types.items()])
    others = sorted((_panel(name, rows, rows) for name, rows in groups.items()), key=lambda p: -len(p.words))
    found += [others[i : i + _ABREAST] for i in range(0, len(others), _ABREAST)]
    # Words are left out where they are those of the panel to the left.
    named = [
        [replace(panel, named=not at or panel.words != band[at - 1].words) for at, panel in enumerate(band)]
        for band in found
        if band
    ]
    return named or [[]]


def _panel(name: str, rows: Sequence[BenchRow], lines: Sequence[BenchRow]) -> Panel:
    words = list(dict.fromkeys(_words(row) for row in lines))
    own = [row for row in rows if not is_reference(row)]
    means = {" of memcpy": mean_of(row.over(MEMCPY) for row in rows)}
    means["× oneDNN"] = mean_of(row.over("oneDNN") for row in own)
    said = [f"{ratio(mean[0])}{what}" for what, mean in means.items() if mean]
    return Panel("\n".join([name, ", ".join(said)]) if said else name, rows, words)


def _words(row: BenchRow) -> str:
    """Return the label of a line: the type is in the title where there is a panel for each."""
    problem = row.about
    if problem.group not in _BY_TYPE:
        return str(problem.name)
    moved = problem.name.replace(f"{problem.src_type} ", "", 1).removeprefix("shuffle ")
    return f"{moved}  {'×'.join(map(str, problem.dims[1:]))}" if len(problem.dims) > 2 else moved


def _figure(pyplot: Any, report: SuiteReport) -> Any:
    drawn = bands(report)
    counts = [max((len(panel.words) for panel in band), default=0) for band in drawn]
    counts[-1] = max(counts[-1], 9 if report.steps else 0)
    heights = [count * _LINE + _AROUND for count in counts]
    figure = pyplot.figure(figsize=(_WIDTH, _TITLE + sum(heights)), layout="constrained")
    title, *parts = figure.subfigures(1 + len(drawn), 1, height_ratios=[_TITLE, *heights]).flat
    for band, part, count in zip(drawn, parts, counts, strict=True):
        has_growth = band is drawn[-1] and bool(report.steps)
        axes = part.subplots(1, max(len(band) + has_growth, 1), squeeze=False)[0]
        right = _right(band, report)
        for axis, panel in zip(axes, band, strict=False):
            _draw_panel(axis, panel, report, right)
            # Lines are as far apart as anywhere, also in a panel of few.
            axis.set_ylim(count - 0.4, -0.6)
        if has_growth:
            _draw_growth(axes[-1], report)
    _legend(title, report)
    return figure


def _draw_panel(axis: Any, panel: Panel, report: SuiteReport, right: float) -> None:
    lines = range(len(panel.words))
    axis.axvspan(panel.goal, 1, color=_GREEN, zorder=-1)
    axis.hlines(lines, 0, right, color=_PALE, linewidth=0.8, zorder=0)
    axis.axvline(1, color=_DARK, linewidth=0.9, zorder=1)
    for peer in reversed(report.peers()):
        color, first = _COLORS.get(peer, "black"), peer == OWN
        for row in panel.rows:
            spread = row.over(MEMCPY, peer)
            if spread is None:
                continue
            axis.scatter(
                spread.median,
                panel.words.index(_words(row)),
                s=30 if first else 17,
                facecolor="white" if peer == "oneDNN" and is_reference(row) else color,
                edgecolor=color,
                marker=_MARKERS.get(peer, "x"),
                zorder=3 if first else 2,
                clip_on=False,
            )
    axis.set_title(panel.title, loc="left")
    axis.set_yticks(lines, panel.words)
    axis.set_xlim(0, right)
    axis.tick_params(axis="y", length=0, labelleft=panel.named)


def _draw_growth(axis: Any, report: SuiteReport) -> None:
    moved = [step.moved / 1e6 for step in report.steps]
    series = {
        MEMCPY: ([step.rate(MEMCPY) / 1e9 for step in report.steps], _DARK),
        OWN: ([step.rate() / 1e9 for step in report.steps], _COLORS["restride"]),
    }
    for name, (rates, color) in series.items():
        axis.plot(moved, rates, color=color, marker="o", markersize=3.5, linewidth=1.2, label=name)
    axis.set_xscale("log")
    axis.set_xticks(moved, [f"{size:.0f}" for size in moved])
    axis.minorticks_off()
    axis.set_ylim(bottom=0)
    axis.set_title("as the problem grows\nGB/s over MB moved", loc="left")
    axis.legend(frameon=False, loc="lower left")
    axis.grid(axis="y", color=_PALE, linewidth=0.8)


def _right(panels: Sequence[Panel], report: SuiteReport) -> float:
    spreads = [row.over(MEMCPY, peer) for panel in panels for row in panel.rows for peer in report.peers()]
    return max([1.08, *(spread.median * 1.04 for spread in spreads if spread)])


def _legend(figure: Any, report: SuiteReport) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Line2D([], [], linestyle="", marker=_MARKERS.get(p, "x"), color=_COLORS.get(p, "black"), label=p)
        for p in report.peers()
    ]
    if any(is_reference(row) for row in report.rows):
        blue = {"color": _COLORS["oneDNN"], "markerfacecolor": "white", "marker": _MARKERS["oneDNN"]}
        handles.append(Line2D([], [], linestyle="", label="oneDNN, its reference", **blue))
    handles.append(Line2D([], [], color=_DARK, linewidth=0.9, label="memcpy"))
    handles.append(Patch(color=_GREEN, label="goal"))
    title = f"Bytes per second as a part of memcpy's, {report.settings.get('threads', '?')} threads"
    where = f"{report.machine.get('processor', '')}, {report.machine.get('cores', '?')} cores"
    where = "QUICK RUN, not to be quoted" if "quick" in report.settings else where
    figure.text(0.01, 0.5, f"{title}  ({where})", fontsize=11, va="center")
    figure.legend(handles=handles, loc="center right", ncols=len(handles), frameon=False)
