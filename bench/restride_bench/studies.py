"""What lies behind the table: speed over size, one transpose step by step, instructions; a page and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from . import instructions, isa_levels, ladder, layers, memory_bound, roofline, stored_formats
from .figures import BenchSetup
from .instructions import Counts
from .isa_levels import LevelRow
from .ladder import Rung
from .layers import LayerTime
from .measure import geometric_mean
from .memory_bound import MEMCPY, BoundRow
from .report import table, write_both
from .roofline import Point, Roofline
from .stored_formats import FormatRow

_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"))
_MODULES: Mapping[str, Any] = {
    "roofline": roofline,
    "ladder": ladder,
    "instructions": instructions,
    "formats": stored_formats,
    "layers": layers,
    "primitives": memory_bound,
    "levels": isa_levels,
}
STUDIES = tuple(_MODULES)


@dataclass
class Studies:
    """What one run found, on which machine, versions and settings."""

    about: dict[str, dict[str, str]] = field(default_factory=dict)
    roofline: Roofline = field(default_factory=Roofline)
    ladder: Sequence[Rung] = ()
    counts: Counts = field(default_factory=Counts)
    formats: Sequence[FormatRow] = ()
    layers: Sequence[LayerTime] = ()
    primitives: Sequence[BoundRow] = ()
    levels: Sequence[LevelRow] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was studied."""
        return replace(self, about={}) == Studies()

    @property
    def is_quick(self) -> bool:
        """Whether the figures are not to be quoted."""
        return "quick" in self.about.get("settings", {})

    @property
    def wrong(self) -> list[str]:
        """Every wrong answer."""
        points = [f"{p.kernel}, {p.moved} bytes moved: {p.wrong}" for p in self.roofline.points if p.wrong]
        own = [f"{row.name}: {row.wrong['restride']}" for row in self.formats if "restride" in row.wrong]
        every: tuple[Iterable[Any], ...] = self.ladder, self.primitives
        rungs, rows = ([f"{row.name}: {row.wrong}" for row in each if row.wrong] for each in every)
        return points + rungs + own + rows

    def run(self, name: str, setting: BenchSetup) -> None:
        """Study one of STUDIES."""
        if name == "instructions":
            self.counts = instructions.measure()
        else:
            setattr(self, name, _MODULES[name].measure(setting))


def write(studied: Studies, folder: Path, name: str = "inside") -> list[Path]:
    """Write `<name>.json` and `<name>.md` into `folder`."""
    return write_both(folder / name, as_json(studied), as_markdown(studied))


def as_json(studied: Studies) -> dict[str, Any]:
    """Plain values: seconds as quartiles, bytes, instructions."""
    parts: dict[str, Sequence[Any]] = {
        "roofline": studied.roofline.points,
        "ladder": studied.ladder,
        "instructions": studied.counts.kernels,
        "formats": studied.formats,
        "layers": studied.layers,
        "primitives": studied.primitives,
        "levels": studied.levels,
    }
    return {
        **studied.about,
        **{name: [asdict(row) for row in rows] for name, rows in parts.items()},
        "left_out": [{"moved": moved, "why": why} for moved, why in studied.roofline.left_out],
        "uncounted": list(studied.counts.missing),
    }


def as_markdown(studied: Studies) -> str:
    """One page."""
    sections = {
        "Speed over size": _roofline(studied.roofline),
        "One transpose, step by step": _ladder(studied.ladder),
        "Instructions": _instructions(studied.counts),
        "Stored formats": _formats(studied.formats),
        "Layers": _layers(studied.layers),
        "Primitives bound by memory": _primitives(studied.primitives),
        "Levels of instruction sets": _levels(studied.levels),
        "Wrong answers": "\n".join(f"- {line}" for line in studied.wrong),
    }
    facts = [f"- {name}: {value}" for part in studied.about.values() for name, value in part.items()]
    parts = ["# Looking inside", "\n".join(facts)]
    parts += [f"## {title}\n\n{body}" for title, body in sections.items() if body]
    return "\n\n".join(part for part in parts if part) + "\n"


def _roofline(studied: Roofline) -> str:
    counts = sorted({point.threads for point in studied.points})
    parts = [_over_size([p for p in studied.points if p.threads == count]) for count in counts]
    parts += [f"Left out: {size_words(moved)}, {why}." for moved, why in studied.left_out]
    error = roofline.mean_error(studied.points)
    if error:
        what = f"Predictions are off by a factor of {error:.2f}."
        parts.append(f"GB/s, and in brackets what was predicted. {what}")
    return "\n\n".join(parts)


def _over_size(points: Sequence[Point]) -> str:
    kernels = list(dict.fromkeys(point.kernel for point in points))
    rows = []
    for start in range(0, len(points), len(kernels)):
        same, cells = points[start : start + len(kernels)], []
        for point in same:
            predicted = f" ({point.moved / point.predicted / 1e9:.0f})" if point.predicted else ""
            cells.append("**wrong**" if point.wrong else f"{point.rate / 1e9:.1f}{predicted}")
        # Half the distance of the quartiles, of the one where it is largest.
        spread = max(point.seconds.relative for point in same) / 2
        rows.append([size_words(same[0].moved), *cells, f"{spread:.0%}"])
    threads = points[0].threads
    return table([f"moved, {threads} thread{'s' * (threads > 1)}", *kernels, "±"], rows)


def size_words(nbytes: float) -> str:
    """A number of bytes in decimal units, such as "103 MB"."""
    unit, name = next(((u, n) for u, n in _UNITS if nbytes >= u), (1.0, "B"))
    return f"{nbytes / unit:.3g} {name}"


def _formats(rows: Sequence[FormatRow]) -> str:
    """A line for each row: every side in GB/s, and what is no comparison."""
    sides = dict.fromkeys(side for row in rows for side in row.times if side not in ("restride", "copy"))
    lines = []
    for row in rows:
        cells = [f"{row.rate(side) / 1e9:.2f}" if side in row.times else "" for side in sides]
        lines.append([row.name, f"{row.rate('restride') / 1e9:.1f}", f"{row.of_copy():.2f}", *cells])
    notes = [f"- {row.name}, {side}: {why}" for row in rows for side, why in row.wrong.items()]
    parts = [table(["GB/s", "restride", "of a copy", *sides], lines), "\n".join(notes)]
    return "\n\n".join(part for part in parts if part)


def _ladder(rungs: Sequence[Rung]) -> str:
    rows = [
        [rung.name, str(rung.threads), f"{rung.rate / 1e9:.1f}", f"{rung.seconds.relative / 2:.0%}"]
        for rung in rungs
    ]
    about = f"{ladder.WORK.name}, {size_words(rungs[0].moved)} moved.\n\n" if rungs else ""
    return about + table(["with", "threads", "GB/s", "±"], rows)


def _instructions(counted: Counts) -> str:
    rows = [
        [
            *(each.name, each.kernel, f"{each.moved}"),
            *("–" if count is None else str(count) for count in (each.stepped, each.emulated)),
            *(f"{each.bytes_each:.1f}", f"{each.instructions / each.elements:.3f}"),
        ]
        for each in counted.kernels
    ]
    head = ["row", "kernel", "bytes", "stepped", "callgrind", "bytes/instruction", "instructions/element"]
    return table(head, rows) + "".join(f"\n\nNot counted by {why}." for why in counted.missing)


def _layers(times: Sequence[LayerTime]) -> str:
    rows = [
        [
            *(each.name, each.types, str(each.threads), f"{each.rate / 1e9:.0f}"),
            *(f"{each.operations / each.moved:.0f}", f"{each.of_peak:.0%}"),
            *map(_ratio, (each.over_onednn, each.over_reordered, each.over("torch"))),
        ]
        for each in times
    ]
    head = ["layer", "types", "threads", "Gop/s", "op/byte", "of the peak", "x oneDNN"]
    head += ["x oneDNN, with reorders", "x torch"]
    means = [
        [types, str(threads), f"{part:.0%}", f"{least:.0%}", _ratio(over), _ratio(lowest)]
        for types, threads, part, least, over, lowest in layers.means(times)
    ]
    about = ["types", "threads", "of the peak, mean", "least", "x oneDNN, mean", "least"]
    return f"{table(about, means)}\n\n{table(head, rows)}" if times else ""


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _primitives(rows: Sequence[BoundRow]) -> str:
    """A table, and the means over its rows: of memcpy, and times faster than each peer."""
    peers = dict.fromkeys(s for row in rows for s in row.seconds if s not in ("restride", MEMCPY))
    sides = [MEMCPY, *peers]
    lines = [
        [row.name, f"{row.rate('restride') / 1e9:.1f}", *(_ratio(row.over(side)) for side in sides)]
        for row in rows
    ]
    means = ["geometric mean", ""]
    for side in sides if rows else ():
        ratios = [ratio for row in rows if (ratio := row.over(side)) is not None]
        means.append(f"{_ratio(geometric_mean(ratios))} (worst {_ratio(min(ratios))})")
    head = ["primitive", "GB/s", "of memcpy", *(f"times {side}" for side in peers)]
    return table(head, [*lines, means]) if rows else ""


def _levels(rows: Sequence[LevelRow]) -> str:
    """GB/s at each level, and how many times faster the best is than each of the others."""
    if not rows:
        return ""
    names = list(rows[0].seconds)
    lines = [[row.name, *(f"{row.rate(level) / 1e9:.1f}" for level in names)] for row in rows]
    best = names[-1]
    means = [_ratio(geometric_mean([row.rate(best) / row.rate(level) for row in rows])) for level in names]
    return table(["GB/s in the caches", *names], [*lines, [f"{best} is times as fast", *means]])
