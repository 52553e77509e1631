"""The interactive page: a tensor beside its memory, or beside its memory before and after a reorder.

One file without any other: style, script and pictures stand in it. Hovering an element marks its place
everywhere; stepping goes through memory in order. Without a script the pictures and tooltips are still there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from html import escape
from importlib.resources import files

from ..desc.memory_desc import MemoryDesc
from .explain import explain
from .names import axis_names, has_layout, title
from .svg import memory_drawing, tensor_svg

__all__ = ["page"]

_LINES, _CELLS = 64, 32
# Of the tensor's picture in pixels: beside one memory, and beside two.
_WIDTHS = (420, 300)
Side = tuple[MemoryDesc, str]


def page(sides: Sequence[Side]) -> str:
    """The page of one descriptor, or of two, before and after; each with the tag it was asked for by."""
    md, tag = sides[0]
    heading = " → ".join(title(*side) for side in sides)
    names = axis_names(md.ndims, tag)
    labels = ("memory",) if len(sides) == 1 else ("before", "after")
    descs = [desc for desc, _ in sides]
    memories = (_memory(descs, i, sides[i][1], label) for i, label in enumerate(labels))
    tensor = tensor_svg(descs, names, width=_WIDTHS[len(descs) - 1]) if all(map(has_layout, descs)) else ""
    bits = " ".join(str(desc.data_type.bits) for desc, _ in sides)
    return _PAGE.format(
        title=escape(heading),
        style=_asset("page.css"),
        script=_asset("page.js"),
        names=escape(",".join(names)),
        bits=bits,
        labels=escape(" ".join(labels)),
        tensor=tensor,
        memories="".join(memories),
        words="".join(_words(*side) for side in sides),
    )


def _memory(descs: Sequence[MemoryDesc], number: int, tag: str, label: str) -> str:
    drawing = memory_drawing(descs[number], tag, lines=_LINES, cells=_CELLS, sides=descs)
    picture = drawing.document(f"{label}: {title(descs[number], tag)}")
    return f'<section class="memory" data-side="{number}"><h2>{label}</h2>{picture}</section>'


def _words(md: MemoryDesc, tag: str) -> str:
    words = escape(explain(md, tag=tag))
    return f"<details><summary>{escape(title(md, tag))}</summary><pre>{words}</pre></details>"


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{style}
</style>
</head>
<body data-names="{names}" data-bits="{bits}" data-labels="{labels}">
<h1>{title}</h1>
<div class="controls">
<button id="back" type="button" aria-label="step back">◀</button>
<button id="play" type="button">play</button>
<button id="next" type="button" aria-label="step on">▶</button>
<select id="side" aria-label="which memory to step through"></select>
<input id="step" type="range" min="0" value="0" aria-label="place in memory">
<output id="where" aria-live="polite">Point at an element, or step through memory with ← and →.</output>
</div>
<main><section class="tensor"><h2>tensor</h2>{tensor}</section>{memories}</main>
{words}
<script>
{script}
</script>
</body>
</html>
"""
