"""Pictures of the studies: speed over size, and one transpose step by step. Needs matplotlib, an extra."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from restride.targets.isa import CacheSizes, host_caches

from . import layers, roofline
from .chart import saved
from .pages import size_words
from .studies import Studies
from .study import MEMCPY, BenchRow

_COLORS = ("#c1272d", "#1f5fa8", "#3a8f4a", "#e08b00")
_DARK, _PALE, _GREY = "#333333", "#e6e6e6", "#7d8a96"
_STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "svg.hashsalt": "restride",
}


def draw(studied: Studies, folder: Path) -> list[Path]:
    """Write `roofline`, `ladder` and `layers` as .png and .svg. Raises ImportError without matplotlib."""
    pictures = {"roofline": _roofline, "ladder": _ladder, "layers": _layers}
    there = {name: picture for name, picture in pictures.items() if studied.rows.get(name)}
    return [path for name in there for path in saved(partial(there[name], studied), folder / name, _STYLE)]


def _layers(studied: Studies, pyplot: Any) -> Any:
    """Every layer as a point: operations in a second over operations for each byte, beneath the roofs."""
    groups = layers.by_kind(studied.rows["layers"])
    counts = list(dict.fromkeys(threads for _, threads in groups))
    figure, axes = _axes(pyplot, counts)
    colors = dict(zip(dict.fromkeys(types for types, _ in groups), _COLORS, strict=False))
    for (types, threads), same in groups.items():
        _draw_layers(axes[counts.index(threads)], same, colors[types])
    for axis in axes:
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.grid(color=_PALE, linewidth=0.8)
        axis.set_axisbelow(True)
        axis.set_xlabel("operations for each byte that must be moved")
    axes[0].set_ylabel("operations in a second, 1e9")
    return _with_legend(figure, axes, (4, -0.08), _title("Layers of networks, and what limits them", studied))


def _axes(pyplot: Any, counts: Sequence[int]) -> tuple[Any, Any]:
    """A plot for each number of threads, side by side."""
    size = (6.2 * len(counts), 4.4)
    figure, axes = pyplot.subplots(1, len(counts), figsize=size, sharey=True, squeeze=False)
    for threads, axis in zip(counts, axes[0], strict=True):
        axis.set_title(f"{threads} thread{'s' * (threads > 1)}", loc="left")
    return figure, axes[0]


def _with_legend(figure: Any, axes: Any, legend: tuple[int, float], title: str) -> Any:
    handles, words = axes[0].get_legend_handles_labels()
    columns, below = legend
    figure.legend(
        handles, words, loc="lower center", ncols=columns, frameon=False, bbox_to_anchor=(0.5, below)
    )
    figure.suptitle(title, x=0.07, ha="left")
    return figure


def _draw_layers(axis: Any, rows: Sequence[BenchRow], color: str) -> None:
    """Layers of some types, and their roof: bytes from memory, and the peak of multiply-adds."""
    about, intensities = rows[0].about, [row.operations / row.moved for row in rows]
    peak, bandwidth = about["peak"] / 1e9, about["bandwidth"] / 1e9
    rates = [row.operations / row.seconds() / 1e9 for row in rows]
    axis.scatter(intensities, rates, color=color, s=16, label=about["types"])
    last, corner = max(*intensities, 1000.0), peak / bandwidth
    axis.plot([0.5, corner, last], [0.5 * bandwidth, peak, peak], color=color, linewidth=0.9, zorder=0)


def _roofline(studied: Studies, pyplot: Any) -> Any:
    groups = roofline.by_threads(studied.rows["roofline"])
    figure, axes = _axes(pyplot, list(groups))
    for axis, rows in zip(axes, groups.values(), strict=True):
        _draw_sizes(axis, rows)
    # Only now do the axes, which share their height, know it.
    axes[0].set_ylim(bottom=0)
    for axis in axes:
        _draw_caches(axis, host_caches())
    axes[0].set_ylabel("GB/s, bytes read and written")
    return _with_legend(figure, axes, (3, -0.12), _title("Speed over size", studied))


def _draw_sizes(axis: Any, rows: Sequence[BenchRow]) -> None:
    for at, name in enumerate(rows[0].about["moved by"]):
        color, width = (_DARK, 2.2) if name == MEMCPY else (_COLORS[at - 1], 1.4)
        sizes = [row.about["moved by"][name] for row in rows]
        spreads = [row.times[name].spread.values() for row in rows]
        high, middle, low = (
            [moved / each[end] / 1e9 for moved, each in zip(sizes, spreads, strict=True)] for end in range(3)
        )
        axis.plot(sizes, middle, "o-", color=color, linewidth=width, ms=3.5, label=name)
        axis.fill_between(sizes, low, high, color=color, alpha=0.12, linewidth=0)
        told = [row.about["predicted"].get(name) for row in rows]
        if all(told):
            predicted = [n / seconds / 1e9 for n, seconds in zip(sizes, told, strict=True)]
            axis.plot(sizes, predicted, ":", color=color, linewidth=0.9, alpha=0.7)
    axis.plot([], [], ":", color=_GREY, label="predicted")
    axis.set_xscale("log")
    axis.grid(axis="y", color=_PALE, linewidth=0.8)
    axis.set_xlabel("bytes moved")
    axis.xaxis.set_major_formatter(lambda size, _: size_words(size))


def _draw_caches(axis: Any, caches: CacheSizes) -> None:
    """Mark the sizes at which bytes read and written together fill a cache."""
    top = axis.get_ylim()[1]
    for name, size in (("L1", caches.l1d), ("L2", caches.l2), ("L3", caches.l3)):
        axis.axvline(size, color=_GREY, linewidth=0.7, linestyle=(0, (4, 3)), zorder=0)
        axis.text(size, top, f" {name}", color=_GREY, va="top", fontsize=8)


def _ladder(studied: Studies, pyplot: Any) -> Any:
    (row,) = studied.rows["ladder"]
    figure, axis = pyplot.subplots(figsize=(9.5, 0.42 * len(row.times) + 1.2))
    colors = {"memcpy": _DARK, "NumPy": _GREY}
    for line, (name, timing) in enumerate(row.times.items()):
        color = next((of for word, of in colors.items() if name.startswith(word)), _COLORS[0])
        alpha = 0.6 if row.about["threads"][name] > 1 else 1
        axis.barh(line, row.rate(name) / 1e9, color=color, height=0.62, alpha=alpha)
        ends = [row.moved / end / 1e9 for end in (timing.spread.high, timing.spread.low)]
        axis.plot(ends, [line, line], color=_DARK, linewidth=1)
        axis.text(max(ends), line, f"  {row.rate(name) / 1e9:.1f}", va="center")
    axis.set_yticks(range(len(row.times)), list(row.times))
    axis.invert_yaxis()
    axis.tick_params(axis="y", length=0)
    axis.set_xlabel("GB/s, bytes read and written")
    axis.set_title(_title(f"{row.name}, {size_words(row.moved)} moved", studied), loc="left")
    return figure


def _title(words: str, studied: Studies) -> str:
    machine = studied.about.get("machine", {})
    where = f"{machine.get('processor', '?')}, {machine.get('instructions', '?')}"
    return f"{words}  ({'QUICK RUN, not to be quoted' if studied.is_quick else where})"
