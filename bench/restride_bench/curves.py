"""Pictures of the studies: speed over size, and one transpose step by step. Needs matplotlib, an extra."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from restride.targets.isa import CacheSizes, host_caches

from .chart import saved
from .ladder import Rung
from .layers import LayerTime
from .roofline import MEMCPY, Point
from .studies import Studies, size_words

_COLOURS = ("#c1272d", "#1f5fa8", "#3a8f4a", "#e08b00")
_DARK, _PALE, _GREY = "#333333", "#e6e6e6", "#7d8a96"
_STYLE = {
    "font.size": 9,
    "axes.titlesize": 10,
    "svg.hashsalt": "restride",
}


def draw(studied: Studies, folder: Path) -> list[Path]:
    """Write `roofline`, `ladder` and `layers` as .png and .svg. Raises ImportError without matplotlib."""
    pictures: dict[str, tuple[Sequence[Any], Callable[[Studies, Any], Any]]] = {
        "roofline": (studied.roofline.points, _roofline),
        "ladder": (studied.ladder, _ladder),
        "layers": (studied.layers, _layers),
    }
    return [
        path
        for name, (rows, picture) in pictures.items()
        if rows
        for path in saved(partial(picture, studied), folder / name, _STYLE)
    ]


def _layers(studied: Studies, pyplot: Any) -> Any:
    """Every layer as a point: operations in a second over operations for each byte, beneath the roofs."""
    counts = sorted({each.threads for each in studied.layers})
    figure, axes = pyplot.subplots(
        1, len(counts), figsize=(6.2 * len(counts), 4.4), sharey=True, squeeze=False
    )
    kinds = dict(zip(dict.fromkeys(each.types for each in studied.layers), _COLOURS, strict=False))
    for threads, axis in zip(counts, axes[0], strict=True):
        for types, colour in kinds.items():
            same = [each for each in studied.layers if (each.types, each.threads) == (types, threads)]
            _draw_layers(axis, same, colour)
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.grid(color=_PALE, linewidth=0.8)
        axis.set_axisbelow(True)
        axis.set_title(f"{threads} thread{'s' * (threads > 1)}", loc="left")
        axis.set_xlabel("operations for each byte that must be moved")
    axes[0][0].set_ylabel("operations in a second, 1e9")
    handles, words = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, words, loc="lower center", ncols=4, frameon=False, bbox_to_anchor=(0.5, -0.08))
    figure.suptitle(_title("Layers of networks, and what limits them", studied), x=0.07, ha="left")
    return figure


def _draw_layers(axis: Any, layers: Sequence[LayerTime], colour: str) -> None:
    """Layers of some types, and their roof: bytes from memory, and the peak of multiply-adds."""
    intensities = [each.operations / each.moved for each in layers]
    peak, bandwidth = layers[0].peak / 1e9, layers[0].bandwidth / 1e9
    axis.scatter(intensities, [each.rate / 1e9 for each in layers], color=colour, s=16, label=layers[0].types)
    last = max(*intensities, 1000.0)
    if bandwidth:
        corner = peak / bandwidth
        axis.plot([0.5, corner, last], [0.5 * bandwidth, peak, peak], color=colour, linewidth=0.9, zorder=0)
    else:
        axis.plot([min(intensities), last], [peak, peak], color=colour, linewidth=0.9, zorder=0)


def _roofline(studied: Studies, pyplot: Any) -> Any:
    points = studied.roofline.points
    counts = sorted({point.threads for point in points})
    figure, axes = pyplot.subplots(
        1, len(counts), figsize=(6.2 * len(counts), 4.4), sharey=True, squeeze=False
    )
    for axis, count in zip(axes[0], counts, strict=True):
        _draw_sizes(axis, [point for point in points if point.threads == count])
        axis.set_title(f"{count} thread{'s' * (count > 1)}", loc="left")
    # Only now do the axes, which share their height, know it.
    axes[0][0].set_ylim(bottom=0)
    for axis in axes[0]:
        _draw_caches(axis, host_caches())
    axes[0][0].set_ylabel("GB/s, bytes read and written")
    handles, words = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, words, loc="lower center", ncols=3, frameon=False, bbox_to_anchor=(0.5, -0.12))
    figure.suptitle(_title("Speed over size", studied), x=0.07, ha="left")
    return figure


def _draw_sizes(axis: Any, points: Sequence[Point]) -> None:
    kernels = [name for name in dict.fromkeys(point.kernel for point in points) if name != MEMCPY]
    colours = {MEMCPY: _DARK, **dict(zip(kernels, _COLOURS, strict=False))}
    for name, colour in colours.items():
        of = [point for point in points if point.kernel == name]
        sizes, width = [point.moved for point in of], 2.2 if name == MEMCPY else 1.4
        axis.plot(sizes, [p.rate / 1e9 for p in of], "o-", color=colour, linewidth=width, ms=3.5, label=name)
        low, high = [p.moved / p.seconds.high / 1e9 for p in of], [p.moved / p.seconds.low / 1e9 for p in of]
        axis.fill_between(sizes, low, high, color=colour, alpha=0.12, linewidth=0)
        predicted = [(point.moved, point.moved / point.predicted / 1e9) for point in of if point.predicted]
        if predicted:
            axis.plot(*zip(*predicted, strict=True), ":", color=colour, linewidth=0.9, alpha=0.7)
    axis.plot([], [], ":", color=_GREY, label="predicted")
    axis.set_xscale("log")
    axis.grid(axis="y", color=_PALE, linewidth=0.8)
    axis.set_xlabel("bytes moved")
    axis.xaxis.set_major_formatter(lambda size, _: size_words(size))


def _draw_caches(axis: Any, caches: CacheSizes) -> None:
    """Where bytes read and written together fill a cache."""
    top = axis.get_ylim()[1]
    for name, size in (("L1", caches.l1d), ("L2", caches.l2), ("L3", caches.l3)):
        axis.axvline(size, color=_GREY, linewidth=0.7, linestyle=(0, (4, 3)), zorder=0)
        axis.text(size, top, f" {name}", color=_GREY, va="top", fontsize=8)


def _ladder(studied: Studies, pyplot: Any) -> Any:
    rungs = studied.ladder
    figure, axis = pyplot.subplots(figsize=(9.5, 0.42 * len(rungs) + 1.2))
    for line, rung in enumerate(rungs):
        colour = _rung_colour(rung)
        axis.barh(line, rung.rate / 1e9, color=colour, height=0.62, alpha=0.6 if rung.threads > 1 else 1)
        ends = [rung.moved / end / 1e9 for end in (rung.seconds.high, rung.seconds.low)]
        axis.plot(ends, [line, line], color=_DARK, linewidth=1)
        axis.text(max(ends), line, f"  {rung.rate / 1e9:.1f}", va="center")
    axis.set_yticks(range(len(rungs)), [rung.name for rung in rungs])
    axis.invert_yaxis()
    axis.tick_params(axis="y", length=0)
    axis.set_xlabel("GB/s, bytes read and written")
    axis.set_title(_title(f"f32 nchw→nhwc, {size_words(rungs[0].moved)} moved", studied), loc="left")
    return figure


def _rung_colour(rung: Rung) -> str:
    if rung.name.startswith("memcpy"):
        return _DARK
    return _GREY if rung.name.startswith("NumPy") else _COLOURS[0]


def _title(words: str, studied: Studies) -> str:
    machine = studied.about.get("machine", {})
    where = f"{machine.get('processor', '?')}, {machine.get('instructions', '?')}"
    return f"{words}  ({'QUICK RUN, not to be quoted' if studied.is_quick else where})"
