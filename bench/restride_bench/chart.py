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
from .study import MEMCPY, OWN, Row
from .suite import is_reference

_COLOURS = {
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
_WIDTH, _MARGIN, _TITLE, _GAP = 15.0, 0.15, 0.55, 0.2  # inches
_LINE, _ABOVE, _BELOW, _LETTER = 0.21, 0.45, 0.35, 0.066
_BY_TYPE = ("layout", "in the caches", "shuffle", "shuffles in the caches")
_ABREAST = 3  # groups to a band, whose rows have words of their own
_GOAL = {
    "convert": 0.8,
    "quantise": 0.8,
    "quantise as it lies": 0.8,
    "shuffle": 0.8,
    "in the caches": 0.6,
    "shuffles in the caches": 0.6,
    "types in the caches": 0.4,
}
_USUAL_GOAL = 0.9
_DARK, _PALE = "#333333", "#e6e6e6"


@dataclass(frozen=True)
class Panel:
    """Rows under one title, with the words for each line from the top."""

    title: str
    rows: Sequence[Row]
    words: Sequence[str]
    named: bool = True

    @property
    def room(self) -> float:
        """Inches that the words take to the left of the axes."""
        return max(len(word) for word in self.words) * _LETTER if self.named else 0.0

    @property
    def goal(self) -> float:
        """The part of memcpy's speed that the rows are to reach."""
        return _GOAL.get(self.rows[0].about.group, _USUAL_GOAL)

    def line(self, row: Row) -> int:
        """Which line from the top a row stands on."""
        return self.words.index(_words(row))


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
    found = [_by_type(_of_group(report.rows, group)) for group in _BY_TYPE]
    others = [row for row in report.rows if row.about.group not in _BY_TYPE]
    groups = dict.fromkeys(row.about.group for row in others)
    by_group = [_panel(name, rows, rows) for name in groups if (rows := _of_group(others, name))]
    by_group.sort(key=lambda panel: -len(panel.words))
    found += [by_group[i : i + _ABREAST] for i in range(0, len(by_group), _ABREAST)]
    return [_named_once(band) for band in found if band] or [[]]


def _by_type(rows: Sequence[Row]) -> list[Panel]:
    """One panel for each type of the source, all with the same lines."""
    types = dict.fromkeys(row.about.src_type for row in rows)
    group = rows[0].about.group if rows else ""
    prefix = "" if group == "layout" else f"{group} "
    return [
        _panel(f"{prefix}{name}", [row for row in rows if row.about.src_type == name], rows) for name in types
    ]


def _of_group(rows: Sequence[Row], group: str) -> list[Row]:
    return [row for row in rows if row.about.group == group]


def _named_once(panels: Sequence[Panel]) -> list[Panel]:
    """Leave the words out where they are those of the panel to the left."""
    before: Sequence[str] = ()
    found = []
    for panel in panels:
        found.append(replace(panel, named=panel.words != before))
        before = panel.words
    return found


def _panel(name: str, rows: Sequence[Row], lines: Sequence[Row]) -> Panel:
    words = list(dict.fromkeys(_words(row) for row in lines))
    own = [row for row in rows if not is_reference(row)]
    means = {" of memcpy": mean_of(row.over(MEMCPY) for row in rows)}
    means["× oneDNN"] = mean_of(row.over("oneDNN") for row in own)
    said = [f"{ratio(mean[0])}{what}" for what, mean in means.items() if mean]
    return Panel("\n".join([name, ", ".join(said)]) if said else name, rows, words)


def _words(row: Row) -> str:
    """What names a line: the type is in the title where there is a panel for each."""
    problem = row.about
    if problem.group not in _BY_TYPE:
        return str(problem.name)
    moved = problem.name.replace(f"{problem.src_type} ", "", 1).removeprefix("shuffle ")
    return f"{moved}  {'×'.join(map(str, problem.dims[1:]))}" if len(problem.dims) > 2 else moved


def _figure(pyplot: Any, report: SuiteReport) -> Any:
    drawn = bands(report)
    counts = [max((len(panel.words) for panel in band), default=0) for band in drawn]
    counts[-1] = max(counts[-1], 9 if report.steps else 0)
    height = _TITLE + sum(count * _LINE + _ABOVE + _BELOW for count in counts if count)
    figure, top = pyplot.figure(figsize=(_WIDTH, height)), height - _TITLE
    for number, (band, count) in enumerate(zip(drawn, counts, strict=True)):
        if not count:
            continue
        bottom = top - _ABOVE - count * _LINE
        is_last = number == len(drawn) - 1
        _draw_band(figure, band, report, (bottom, count * _LINE), growth=is_last and bool(report.steps))
        top = bottom - _BELOW
    _legend(figure, report, height)
    return figure


def _draw_band(
    figure: Any, band: Sequence[Panel], report: SuiteReport, box: tuple[float, float], *, growth: bool
) -> None:
    rooms = [_GAP + panel.room for panel in band] + [4 * _GAP] * growth
    width = (_WIDTH - 2 * _MARGIN - sum(rooms)) / len(rooms)
    left, height, right = _MARGIN, figure.get_figheight(), _right(band, report)
    for number, room in enumerate(rooms):
        left += room
        # A panel of few lines hangs from the top of the band, with lines as far apart as anywhere.
        long = len(band[number].words) * _LINE if number < len(band) else box[1]
        at = (left, box[0] + box[1] - long, width, long)
        axis = figure.add_axes((at[0] / _WIDTH, at[1] / height, at[2] / _WIDTH, at[3] / height))
        left += width
        if number < len(band):
            _draw_panel(axis, band[number], report, right)
        else:
            _draw_growth(axis, report)


def _draw_panel(axis: Any, panel: Panel, report: SuiteReport, right: float) -> None:
    lines = range(len(panel.words))
    axis.axvspan(panel.goal, 1, color="#eef4ec", zorder=-1)
    axis.hlines(lines, 0, right, color=_PALE, linewidth=0.8, zorder=0)
    axis.axvline(1, color=_DARK, linewidth=0.9, zorder=1)
    for peer in reversed(report.peers()):
        _draw_peer(axis, panel, peer)
    axis.set_title(panel.title, loc="left")
    axis.set_yticks(lines, panel.words)
    axis.set_ylim(len(panel.words) - 0.4, -0.6)
    axis.set_xlim(0, right)
    axis.tick_params(axis="y", length=0, labelleft=panel.named)


def _draw_peer(axis: Any, panel: Panel, peer: str) -> None:
    colour, first = _COLOURS.get(peer, "black"), peer == "restride"
    for row in panel.rows:
        spread = row.over(MEMCPY, peer)
        if spread is None:
            continue
        hollow = peer == "oneDNN" and is_reference(row)
        axis.scatter(
            spread.median,
            panel.line(row),
            s=30 if first else 17,
            facecolor="white" if hollow else colour,
            edgecolor=colour,
            marker=_MARKERS.get(peer, "x"),
            zorder=3 if first else 2,
            clip_on=False,
        )


def _draw_growth(axis: Any, report: SuiteReport) -> None:
    moved = [step.moved / 1e6 for step in report.steps]
    series = {
        MEMCPY: ([step.rate(MEMCPY) / 1e9 for step in report.steps], _DARK),
        OWN: ([step.rate() / 1e9 for step in report.steps], _COLOURS["restride"]),
    }
    for name, (rates, colour) in series.items():
        axis.plot(moved, rates, color=colour, marker="o", markersize=3.5, linewidth=1.2, label=name)
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


def _legend(figure: Any, report: SuiteReport, height: float) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = [
        Line2D([], [], linestyle="", marker=_MARKERS.get(p, "x"), color=_COLOURS.get(p, "black"), label=p)
        for p in report.peers()
    ]
    if any(is_reference(row) for row in report.rows):
        blue = {"color": _COLOURS["oneDNN"], "markerfacecolor": "white", "marker": _MARKERS["oneDNN"]}
        handles.append(Line2D([], [], linestyle="", label="oneDNN, its reference", **blue))
    handles.append(Line2D([], [], color=_DARK, linewidth=0.9, label="memcpy"))
    handles.append(Patch(color="#eef4ec", label="goal"))
    title = f"Bytes per second as a part of memcpy's, {report.settings.get('threads', '?')} threads"
    where = f"{report.machine.get('processor', '')}, {report.machine.get('cores', '?')} cores"
    where = "QUICK RUN, not to be quoted" if "quick" in report.settings else where
    edge, line = _MARGIN / _WIDTH, 1 - 0.28 / height
    figure.text(edge, line, f"{title}  ({where})", fontsize=11, va="center")
    figure.legend(
        handles=handles,
        loc="center right",
        bbox_to_anchor=(1 - edge, line),
        ncols=len(handles),
        frameon=False,
    )
