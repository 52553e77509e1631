"""The page of a network: its rows with colors for formats, reorders marked, one picture for each rule.

A single file without scripts: radio buttons select the picture of a rule.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from string import ascii_lowercase

from ..desc.memory_desc import MemoryDesc
from ..graph.formats.propagation import Propagation, format_name
from .html_head import HEAD, asset
from .network_rows import Lane, NetworkRow, with_lanes
from .units import data_size, duration

__all__ = ["NetworkPicture", "network_page"]

# Pixels: height of a row, distance between lanes, and from the edge to the first lane.
_ROW, _LANE, _EDGE = 26, 18, 14
# Number of colors for formats that are not row-major; further formats share the last.
_COLORS = 7


@dataclass(frozen=True)
class NetworkPicture:
    """A network under one rule: the result of propagation, and the rows of its picture."""

    formats: Propagation
    rows: tuple[NetworkRow, ...]
    is_measured: bool = False


def network_page(name: str, pictures: Sequence[NetworkPicture]) -> str:
    """Return the page of a network: a picture for each rule; the last one is shown first."""
    colors = _Colors.of(pictures)
    return _PAGE.format(
        title=escape(name),
        style=asset("page.css") + asset("network.css"),
        radios="".join(_radio(place, len(pictures)) for place in range(len(pictures))),
        tabs="".join(_tab(place, picture) for place, picture in enumerate(pictures)),
        legend="".join(colors.legend()),
        reorder=_REORDER,
        pictures="".join(_picture(place, picture, colors) for place, picture in enumerate(pictures)),
    )


@dataclass(frozen=True)
class _Colors:
    """The color of each format: 0 for row-major tensors, then by the bytes of their tensors."""

    numbers: dict[str, int]

    @classmethod
    def of(cls, pictures: Sequence[NetworkPicture]) -> _Colors:
        sizes: dict[str, int] = {}
        for picture in pictures:
            for row in picture.rows:
                for _, md in row.writes:
                    sizes[_class(md)] = sizes.get(_class(md), 0) + md.size
        names = sorted((name for name in sizes if name != _PLAIN), key=lambda name: -sizes[name])
        return cls({_PLAIN: 0} | {name: 1 + place % _COLORS for place, name in enumerate(names)})

    def __getitem__(self, md: MemoryDesc) -> int:
        return self.numbers[_class(md)]

    def legend(self) -> Iterator[str]:
        for name, number in self.numbers.items():
            yield f'<li><span class="chip f{number}"></span>{escape(_nickname(name))}</li>'


_PLAIN = "row-major"
_NICKNAMES = {"acb": "channels last", "acdb": "channels last", "acdeb": "channels last"}


def _nickname(name: str) -> str:
    return f"{name}, {_NICKNAMES[name]}" if name in _NICKNAMES else name


def _class(md: MemoryDesc) -> str:
    """Return the name of a format for coloring: the same for row-major tensors of all ranks."""
    is_plain = md == MemoryDesc(md.dims, md.data_type)
    return _PLAIN if is_plain else md.tag or "with gaps, or of a larger tensor"


def _called(md: MemoryDesc) -> str:
    """Return the name of a format in a row: tensors of one pixel are row-major, whatever their format."""
    is_plain = _class(md) == _PLAIN and md.ndims <= len(ascii_lowercase)
    return ascii_lowercase[: md.ndims] if is_plain else format_name(md)


def _radio(place: int, count: int) -> str:
    checked = " checked" if place == count - 1 else ""
    return f'<input type="radio" name="rule" id="r{place}"{checked}>'


def _tab(place: int, picture: NetworkPicture) -> str:
    """Return the cost of a rule: a line of the table that also selects it."""
    formats = picture.formats
    count = sum(not reorder.is_constant for reorder in formats.reorders)
    reorders = f"{count} reorder{'s' * (count != 1)}"
    own = sum(row.seconds for row in picture.rows if row.kind == "reorder")
    total = sum(row.seconds for row in picture.rows)
    how = "measured" if picture.is_measured else "predicted"
    return (
        f'<label for="r{place}"><b>{escape(formats.rule)}</b><span>{reorders}</span>'
        f"<span>{data_size(formats.bytes_moved)} moved</span>"
        f"<span>{duration(own)} of {duration(total)} {how}</span></label>"
    )


def _picture(place: int, picture: NetworkPicture, colors: _Colors) -> str:
    rows, lanes = with_lanes(picture.rows)
    count = 1 + max((row.lane for row in rows), default=0)
    count = max([count, *(1 + lane.lane for lane in lanes)])
    width = 2 * _EDGE + _LANE * (count - 1)
    longest = max((row.seconds for row in rows), default=0.0) or 1.0
    head = "".join(f"<th>{word}</th>" for word in _HEADINGS)
    body = "".join(_row(row, colors, longest) for row in rows)
    style = f"margin-left:{width}px;width:calc(100% - {width}px)"
    return (
        f'<section class="rule" id="p{place}"><div class="net">{_lanes(rows, lanes, colors, width)}'
        f'<table style="{style}"><thead><tr>{head}</tr></thead>{body}</table></div></section>\n'
    )


def _row(row: NetworkRow, colors: _Colors, longest: float) -> str:
    md = row.writes[0][1] if row.writes else row.reads[0][1]
    dims = "×".join(map(str, md.dims))
    chip = f'<span class="chip f{colors[md]}"></span>{escape(_called(md))}'
    time = ""
    if row.seconds:
        share = max(1.0, 100 * row.seconds / longest)
        time = f'<span class="bar" style="--share:{share:.1f}"></span><span>{duration(row.seconds)}</span>'
    more = data_size(row.bytes_moved) if row.bytes_moved else ""
    why = f' title="{escape(row.why)}"' if row.why else ""
    what = f"reorder {row.words}" if row.kind == "reorder" else row.words
    name = f'<td class="name" title="{escape(row.name)}">{escape(row.name)}</td>'
    return (
        f'<tr class="{row.kind}"{why}><td class="what" title="{escape(what)}">{escape(what)}</td>{name}'
        f'<td class="dims">{dims}</td><td class="format">{chip}</td>'
        f'<td class="bytes">{more}</td><td class="time">{time}</td></tr>'
    )


# --- lanes --------------------------------------------------------------------------------------------------


def _lanes(rows: Sequence[NetworkRow], lanes: Sequence[Lane], colors: _Colors, width: float) -> str:
    height = _ROW * len(rows)
    paths = "".join(path for lane in lanes for path in _paths(lane, colors[lane.md]))
    marks = "".join(_mark(place, row, colors) for place, row in enumerate(rows))
    words = f"{len(rows)} rows from top to bottom; the lines are tensors"
    return (
        f'<svg class="lanes" width="{width}" height="{height}" role="img" aria-label="{words}">'
        f"{paths}{marks}</svg>"
    )


def _at(lane: int, row: float) -> tuple[float, float]:
    return _EDGE + _LANE * lane, _ROW * (row + 0.5)


def _paths(lane: Lane, color: int) -> Iterator[str]:
    """Draw the line down the lane, and across to each row that reads the tensor in another one."""
    x, top = _at(lane.lane, lane.row)
    below = [row for row, other in lane.readers if other == lane.lane]
    beside = [(row, other) for row, other in lane.readers if other != lane.lane]
    end = max([_at(0, row)[1] for row in below] + [_at(0, row)[1] - _ROW for row, _ in beside], default=top)
    if end > top:
        yield f'<path class="l{color}" d="M{x} {top}V{end}"/>'
    for row, other in beside:
        to_x, to_y = _at(other, row)
        start, middle = to_y - _ROW, to_y - _ROW / 2
        yield f'<path class="l{color}" d="M{x} {start}C{x} {middle} {to_x} {middle} {to_x} {to_y}"/>'


def _mark(place: int, row: NetworkRow, colors: _Colors) -> str:
    x, y = _at(row.lane, place)
    tip = f"<title>{escape(row.name)}: {escape(row.why or row.words)}</title>"
    if row.kind == "reorder":
        return f'<path class="reorder" d="M{x} {y - 7}l7 7l-7 7l-7-7z">{tip}</path>'
    md = row.writes[0][1] if row.writes else row.reads[0][1]
    radius = 3 if row.kind == "view" else 5
    return f'<circle class="m{colors[md]} {row.kind}" cx="{x}" cy="{y}" r="{radius}">{tip}</circle>'


_REORDER = '<svg width="16" height="16"><path class="reorder" d="M8 1l7 7l-7 7l-7-7z"/></svg>'
_HEADINGS = ("operation", "node", "dims", "format", "moved", "time")
_PAGE = (
    HEAD
    + """<body class="network">
<h1>{title}</h1>
{radios}
<div class="tabs">{tabs}</div>
<ul class="legend">{legend}<li>{reorder}reorder</li></ul>
{pictures}
</body>
</html>
"""
)
