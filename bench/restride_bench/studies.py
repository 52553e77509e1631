"""What lies behind the table: speed over size, one transpose step by step, instructions; a page and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
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
from .report import table
from .roofline import Point, Roofline
from .stored_formats import FormatRow

_UNITS = ((1e9, "GB"), (1e6, "MB"), (1e3, "KB"))
STUDIES = ("roofline", "ladder", "instructions", "formats", "layers", "primitives", "levels")


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
        studied = self.ladder, self.formats, self.layers, self.primitives, self.levels
        found = self.roofline.points, self.roofline.left_out, *studied
        return not any(found) and self.counts == Counts()

    @property
    def is_quick(self) -> bool:
        """Whether the figures are not to be quoted."""
        return "quick" in self.about.get("settings", {})

    @property
    def wrong(self) -> list[str]:
        """Every wrong answer."""
        points = [f"{p.kernel}, {p.moved} bytes moved: {p.wrong}" for p in self.roofline.points if p.wrong]
        own = [f"{row.name}: {row.wrong['restride']}" for row in self.formats if "restride" in row.wrong]
        own += [f"{row.name}: {row.wrong}" for row in self.primitives if row.wrong]
        return points + [f"{rung.name}: {rung.wrong}" for rung in self.ladder if rung.wrong] + own

    def run(self, name: str, setting: BenchSetup) -> None:
        """Study one of STUDIES."""
        if name == "roofline":
            self.roofline = roofline.measure(setting)
        elif name == "ladder":
            self.ladder = ladder.measure(setting)
        elif name == "formats":
            self.formats = stored_formats.measure(setting)
        elif name == "layers":
            self.layers = layers.measure(setting)
        elif name == "primitives":
            self.primitives = memory_bound.measure(setting)
        elif name == "levels":
            self.levels = isa_levels.measure(setting)
        else:
            self.counts = instructions.measure()


def write(found: Studies, folder: Path, name: str = "inside") -> list[Path]:
    """Write `<name>.json` and `<name>.md` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    texts = {
        "json": json.dumps(as_json(found), indent=1, ensure_ascii=False) + "\n",
        "md": as_markdown(found),
    }
    paths = [folder / f"{name}.{suffix}" for suffix in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text, encoding="utf-8")
    return paths


def as_json(found: Studies) -> dict[str, Any]:
    """Plain values: seconds as quartiles, bytes, instructions."""
    parts = {
        "roofline": [asdict(point) for point in found.roofline.points],
        "left_out": [{"moved": moved, "why": why} for moved, why in found.roofline.left_out],
        "ladder": [asdict(rung) for rung in found.ladder],
        "instructions": [asdict(kernel) for kernel in found.counts.kernels],
        "uncounted": list(found.counts.missing),
        "formats": [asdict(row) for row in found.formats],
        "layers": [asdict(each) for each in found.layers],
        "primitives": [asdict(row) for row in found.primitives],
        "levels": [asdict(row) for row in found.levels],
    }
    return {**found.about, **parts}


def as_markdown(found: Studies) -> str:
    """One page."""
    sections = {
        "Speed over size": _roofline(found.roofline),
        "One transpose, step by step": _ladder(found.ladder),
        "Instructions": _instructions(found.counts),
        "Stored formats": _formats(found.formats),
        "Layers": _layers(found.layers),
        "Primitives bound by memory": _primitives(found.primitives),
        "Levels of instruction sets": _levels(found.levels),
        "Wrong answers": "\n".join(f"- {line}" for line in found.wrong),
    }
    parts = ["# Looking inside", _facts(found)]
    parts += [f"## {title}\n\n{body}" for title, body in sections.items() if body]
    return "\n\n".join(part for part in parts if part) + "\n"


def _facts(found: Studies) -> str:
    lines = [f"- {name}: {value}" for part in found.about.values() for name, value in part.items()]
    return "\n".join(lines)


def _roofline(found: Roofline) -> str:
    counts = sorted({point.threads for point in found.points})
    parts = [_over_size([p for p in found.points if p.threads == count]) for count in counts]
    parts += [f"Left out: {size_words(moved)}, {why}." for moved, why in found.left_out]
    error = roofline.mean_error(found.points)
    if error:
        parts.append(
            f"GB/s, and in brackets what was predicted. Predictions are off by a factor of {error:.2f}."
        )
    return "\n\n".join(parts)


def _over_size(points: Sequence[Point]) -> str:
    kernels = list(dict.fromkeys(point.kernel for point in points))
    rows = [
        [size_words(same[0].moved), *(_cell(point) for point in same), f"{_spread(same):.0%}"]
        for same in _by_size(points, len(kernels))
    ]
    threads = points[0].threads
    head = [f"moved, {threads} thread{'s' * (threads > 1)}", *kernels, "±"]
    return table(head, rows)


def _by_size(points: Sequence[Point], kernels: int) -> list[Sequence[Point]]:
    return [points[i : i + kernels] for i in range(0, len(points), kernels)]


def _cell(point: Point) -> str:
    predicted = f" ({point.moved / point.predicted / 1e9:.0f})" if point.predicted else ""
    return f"{point.rate / 1e9:.1f}{predicted}" if not point.wrong else "**wrong**"


def size_words(nbytes: float) -> str:
    """A number of bytes in decimal units, such as "103 MB"."""
    unit, name = next(((u, n) for u, n in _UNITS if nbytes >= u), (1.0, "B"))
    return f"{nbytes / unit:.3g} {name}"


def _spread(points: Sequence[Point]) -> float:
    """Half the distance of the quartiles, of the one where it is largest."""
    return max(point.seconds.relative for point in points) / 2


def _formats(rows: Sequence[FormatRow]) -> str:
    """A line for each row: every side in GB/s, and what is no comparison."""
    sides = list(dict.fromkeys(side for row in rows for side in row.times))
    peers = [side for side in sides if side not in ("restride", "copy")]
    lines = []
    for row in rows:
        cells = [f"{row.rate(side) / 1e9:.2f}" if side in row.times else "" for side in peers]
        lines.append([row.name, f"{row.rate('restride') / 1e9:.1f}", f"{row.of_copy():.2f}", *cells])
    notes = [f"- {row.name}, {side}: {why}" for row in rows for side, why in row.wrong.items()]
    parts = [table(["GB/s", "restride", "of a copy", *peers], lines), "\n".join(notes)] if rows else []
    return "\n\n".join(part for part in parts if part)


def _ladder(rungs: Sequence[Rung]) -> str:
    rows = [
        [rung.name, str(rung.threads), f"{rung.rate / 1e9:.1f}", f"{rung.seconds.relative / 2:.0%}"]
        for rung in rungs
    ]
    about = f"{ladder.WORK.name}, {size_words(rungs[0].moved)} moved.\n\n" if rungs else ""
    return about + table(["with", "threads", "GB/s", "±"], rows)


def _instructions(found: Counts) -> str:
    rows = [
        [
            each.name,
            each.kernel,
            f"{each.moved}",
            *("–" if count is None else str(count) for count in (each.stepped, each.emulated)),
            f"{each.bytes_each:.1f}",
            f"{each.instructions / each.elements:.3f}",
        ]
        for each in found.kernels
    ]
    head = ["row", "kernel", "bytes", "stepped", "callgrind", "bytes/instruction", "instructions/element"]
    missing = "".join(f"\n\nNot counted by {why}." for why in found.missing)
    return table(head, rows) + missing


def _layers(found: Sequence[LayerTime]) -> str:
    if not found:
        return ""
    rows = [
        [
            each.name,
            each.types,
            str(each.threads),
            f"{each.rate / 1e9:.0f}",
            f"{each.operations / each.moved:.0f}",
            f"{each.of_peak:.0%}",
            _ratio(each.over_onednn),
            _ratio(each.over_reordered),
            _ratio(each.over("torch")),
        ]
        for each in found
    ]
    head = ["layer", "types", "threads", "Gop/s", "op/byte", "of the peak", "x oneDNN"]
    head += ["x oneDNN, with reorders", "x torch"]
    means = [
        [types, str(threads), f"{part:.0%}", f"{least:.0%}", _ratio(over), _ratio(lowest)]
        for types, threads, part, least, over, lowest in layers.means(found)
    ]
    about = ["types", "threads", "of the peak, mean", "least", "x oneDNN, mean", "least"]
    return f"{table(about, means)}\n\n{table(head, rows)}"


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _primitives(rows: Sequence[BoundRow]) -> str:
    """A table, and the means over its rows: of memcpy, and times faster than each peer."""
    if not rows:
        return ""
    sides = list(
        dict.fromkeys(side for row in rows for side in row.seconds if side not in ("restride", MEMCPY))
    )
    lines = [
        [
            row.name,
            f"{row.rate('restride') / 1e9:.1f}",
            *(_ratio(row.over(side)) for side in (MEMCPY, *sides)),
        ]
        for row in rows
    ]
    means = []
    for side in (MEMCPY, *sides):
        found = [ratio for row in rows if (ratio := row.over(side)) is not None]
        mean = geometric_mean(found)
        means.append(f"{_ratio(mean)} (worst {_ratio(min(found))})")
    head = ["primitive", "GB/s", "of memcpy", *(f"times {side}" for side in sides)]
    return table(head, [*lines, ["geometric mean", "", *means]])


__all__ = ["STUDIES", "Studies", "as_json", "as_markdown", "size_words", "write"]


def _levels(rows: Sequence[LevelRow]) -> str:
    """GB/s at each level, and how many times faster the best is than each of the others."""
    if not rows:
        return ""
    names = list(rows[0].seconds)
    lines = [[row.name, *(f"{row.rate(level) / 1e9:.1f}" for level in names)] for row in rows]
    best = names[-1]
    means = [_ratio(geometric_mean([row.rate(best) / row.rate(level) for row in rows])) for level in names]
    return table(["GB/s in the caches", *names], [*lines, [f"{best} is times as fast", *means]])
