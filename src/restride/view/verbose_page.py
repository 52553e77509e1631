"""The page of a verbose log: executions over time, colored by format, and the report below.

A single file without scripts.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from .html_head import HEAD, asset
from .units import duration
from .verbose_log import Execution, LoggedPrimitive, VerboseLog

__all__ = ["verbose_page"]

# The picture: width, height of a lane, and the maximum number of executions, the last ones.
_WIDTH, _LANE, _MOST = 1200.0, 30, 4000
_NARROWEST = 0.6
_COLORS = 7
_MOST_LEGEND, _MOST_LANES, _LONGEST = 14, 10, 160
_PLAIN, _OTHER = "row-major", "other"


def verbose_page(name: str, log: VerboseLog, report: str) -> str:
    """Return the page of a log, with the text of its report."""
    shown = log.executions[-_MOST:]
    colors = _colors(log)
    notes = [f"{duration(sum(each.ms for each in shown) / 1e3)} in oneDNN, without the time between"]
    if len(shown) < len(log.executions):
        notes.append(f"the last {len(shown)} of {len(log.executions)} executions")
    return _PAGE.format(
        title=escape(f"{name[-_LONGEST:]}: where oneDNN's time goes"),
        style=asset("page.css") + asset("network.css") + _STYLE,
        notes=escape("; ".join(notes)),
        legend="".join(_legend(colors)),
        timeline=_timeline(log, shown, colors),
        report=escape(report),
    )


def _format(p: LoggedPrimitive) -> str:
    """Return the format that determines the color of an execution: that of its result."""
    tensor = p.tensor("dst", "data", "diff_src", "diff_wei", "src")
    if tensor is None:
        return _OTHER
    is_plain = tensor.tag.isalpha() and tensor.tag == "abcdefghijkl"[: len(tensor.tag)]
    return _PLAIN if is_plain else tensor.format


def _colors(log: VerboseLog) -> dict[str, int]:
    """Return the color number of each format: 0 for row-major tensors, the others by their time."""
    times: dict[str, float] = {}
    for p, ms in zip(log.primitives, log.times, strict=True):
        times[_format(p)] = times.get(_format(p), 0.0) + ms
    names = sorted((name for name in times if name != _PLAIN), key=lambda name: -times[name])
    return {_PLAIN: 0} | {name: 1 + place % _COLORS for place, name in enumerate(names)}


def _legend(colors: dict[str, int]) -> Iterator[str]:
    for name in list(colors)[:_MOST_LEGEND]:
        yield f'<li><span class="chip f{colors[name]}"></span>{escape(name)}</li>'
    if len(colors) > _MOST_LEGEND:
        yield f"<li>{len(colors) - _MOST_LEGEND} more</li>"


def _timeline(log: VerboseLog, shown: list[Execution], colors: dict[str, int]) -> str:
    """Draw a lane for each kind of primitive, by descending time; the rest share the last."""
    times: dict[str, float] = {}
    for each in shown:
        kind = log.primitives[each.primitive].kind
        times[kind] = times.get(kind, 0.0) + each.ms
    kinds = sorted(times, key=lambda kind: -times[kind])[:_MOST_LANES]
    lanes = kinds + [_OTHER] * (len(times) > len(kinds))
    scale = _WIDTH / (sum(each.ms for each in shown) or 1.0)
    bars, start = list[str](), 0.0
    for each in shown:
        p = log.primitives[each.primitive]
        lane = kinds.index(p.kind) if p.kind in kinds else len(kinds)
        width = max(_NARROWEST, each.ms * scale)
        words = f"{p.kind} {p.problem[:_LONGEST]} {p.formats[:_LONGEST]} {p.implementation}"
        bars.append(
            f'<rect class="m{colors[_format(p)]}" x="{start * scale:.2f}" y="{lane * _LANE + 3}" '
            f'width="{width:.2f}" height="{_LANE - 6}"><title>{escape(words)}: {duration(each.ms / 1e3)}'
            "</title></rect>"
        )
        start += each.ms
    names = "".join(f"<li>{escape(kind)}</li>" for kind in lanes)
    height = _LANE * max(len(lanes), 1)
    return (
        f'<div class="time"><ul>{names}</ul><svg viewBox="0 0 {_WIDTH:g} {height}" height="{height}" '
        f'preserveAspectRatio="none" role="img" aria-label="{len(shown)} executions along time">'
        f"{''.join(bars)}</svg></div>"
    )


_STYLE = f"""
.time {{ display: flex; border-top: 1px solid var(--line); border-bottom: 1px solid var(--line); }}
.time ul {{ list-style: none; margin: 0; padding: 0 1rem 0 0; font: 12px/{_LANE}px var(--mono); }}
.time svg {{ flex: 1; min-width: 0; }}
"""
_PAGE = (
    HEAD
    + """<body class="network">
<h1>{title}</h1>
<p class="facts">{notes}</p>
<ul class="legend">{legend}</ul>
{timeline}
<pre>{report}</pre>
</body>
</html>
"""
)
