"""The interactive page: a tensor next to its memory, or to its memory before and after a reorder.

A single file with embedded style, script and layouts. The script draws the panes from the levels of the
layouts, so that parts omitted at first can be opened, however large the tensor is. Without scripts, the page
shows the pictures as text.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape
from math import prod
from typing import Any

from ..desc.layout import LayoutDigit, storage_elements
from ..desc.memory_desc import MemoryDesc
from .explain import explain
from .html_head import HEAD, asset
from .names import axis_names, counted, has_layout, title
from .palette import Palette
from .text import show
from .walk import Span, Walk, budget, some

__all__ = ["page"]

# Drawn initially: cells of a pane, tables, and lines of each.
_CELLS, _TABLES, _LINES = 1500, 48, 24
# The columns of the tensor and of the memory, on a page with one memory, and with two.
_COLUMNS = ((16, 24), (12, 16))
_SCRIPTS = ("layout.js", "pane.js", "page.js")
Side = tuple[MemoryDesc, str]


def page(sides: Sequence[Side]) -> str:
    """Return the page of one descriptor, or of two, before and after, each with the tag passed for it."""
    md, tag = sides[0]
    names = axis_names(md.ndims, tag)
    labels = ("memory",) if len(sides) == 1 else ("before", "after")
    picture: dict[str, Any] = {"names": names, "palette": (), "panes": []}
    if all(has_layout(desc) and desc.nelems for desc, _ in sides):
        narrow, columns = _COLUMNS[len(sides) - 1]
        panes = [_tensor(md, narrow)]
        panes += [_memory(*side, label, columns) for side, label in zip(sides, labels, strict=True)]
        picture |= {"palette": Palette.of(md), "panes": panes}
    return _PAGE.format(
        title=escape(" → ".join(title(*side) for side in sides)),
        style=asset("page.css"),
        script="".join(map(asset, _SCRIPTS)),
        # The data must not contain the end tag of its element.
        drawn=json.dumps(picture, default=str).replace("<", "\\u003c"),
        controls=_CONTROLS if picture["panes"] else "",
        pictures="\n\n".join(escape(show(desc, tag=name)) for desc, name in sides),
        words="".join(_words(*side) for side in sides),
    )


def _tensor(md: MemoryDesc, columns: int) -> dict[str, Any]:
    """Return the pane of the tensor in the order of its indices, which is a layout too."""
    plain = MemoryDesc(md.dims, "u8")
    elements = counted(md.nelems, "element")
    return {**_pane(plain, columns), "label": "tensor", "title": "tensor", "facts": elements, "bits": None}


def _memory(md: MemoryDesc, tag: str, label: str, columns: int) -> dict[str, Any]:
    padding = storage_elements(md.layout) - md.nelems
    is_padded = md.is_injective() and md.padded_dims != md.dims
    padded = f", {padding} of them padding" if is_padded else ""
    facts = f"{counted(storage_elements(md.layout), 'element')}{padded}, {counted(md.size, 'byte')}"
    words = {"label": label, "title": title(md, tag), "facts": facts}
    return {**_pane(md, columns), **words, "bits": md.data_type.bits}


def _pane(md: MemoryDesc, columns: int) -> dict[str, Any]:
    """Return the levels of a layout as tables: which levels separate tables, and which run down and across in
    one.

    Numbers are strings: they may exceed the range in which a script's numbers are exact.
    """
    walk = Walk.over(md.layout)
    outer, lines = walk.outer, walk.inner
    if not lines.levels and outer:
        outer, lines = outer[:-1], Span.over(outer[-1:], md.dims)
    cells = walk.row.kept(columns)
    groups = walk.groups.kept(columns // len(cells))
    kept_lines = lines.kept(_LINES)
    most = min(_TABLES, _CELLS // (len(cells) * len(groups) * len(kept_lines)))
    spans = {
        "tables": (outer, list(_tables(outer, md.dims, max(2, most)))),
        "lines": (lines.levels, kept_lines),
        "groups": (walk.groups.levels, groups),
        "cells": (walk.row.levels, cells),
    }
    return {
        "dims": _texts(md.dims),
        "padded": _texts(md.padded_dims),
        "offset": str(walk.offset),
        "position": _texts(walk.position),
        "framed": bool(md.inner_blks),
        "order": _order(walk),
        "spans": {
            name: {"levels": [_texts(level) for level in levels], "kept": _texts(ordinals)}
            for name, (levels, ordinals) in spans.items()
        },
    }


def _texts(numbers: Sequence[int]) -> list[str]:
    return list(map(str, numbers))


def _tables(outer: Sequence[LayoutDigit], dims: Sequence[int], most: int) -> Iterator[int]:
    """Yield the ordinals of the tables drawn initially: the first ones and the last of every level."""
    extents = [level.extent for level in outer]
    padded = [i for i, level in enumerate(outer) if dims[level.axis] % level.weight]
    ordinals_shown = {prod(extents) - 1}
    digits_of_levels = [some(n, k) for n, k in zip(extents, budget(extents, most, padded), strict=True)]
    ordinals = [0]
    for extent, digits in zip(extents, digits_of_levels, strict=True):
        ordinals = [ordinal * extent + digit for ordinal in ordinals for digit in digits]
    yield from sorted(ordinals_shown.union(ordinals))


def _order(walk: Walk) -> list[list[str]]:
    """Return all levels in memory order, the slowest first."""
    inside = [*walk.inner.levels, *walk.groups.levels, *walk.row.levels]
    return [_texts(level) for level in (*walk.outer, *sorted(inside, key=lambda level: -level.stride))]


def _words(md: MemoryDesc, tag: str) -> str:
    words = escape(explain(md, tag=tag))
    return f"<details><summary>{escape(title(md, tag))}</summary><pre>{words}</pre></details>"


_CONTROLS = """<div class="controls">
<button id="back" type="button" aria-label="step back">◀</button>
<button id="play" type="button">play</button>
<button id="next" type="button" aria-label="step on">▶</button>
<label>order of <select id="side" aria-label="which memory to step through"></select></label>
<input id="step" type="range" min="0" value="0" aria-label="place in memory">
<label>speed <select id="speed"><option value="400">slow</option><option value="160" selected>normal</option>
<option value="30">fast</option></select></label>
<output id="where" aria-live="polite">Point at an element, or step through memory with ← and →.</output>
</div>"""
_PAGE = (
    HEAD
    + """<body>
<h1>{title}</h1>
{controls}
<main id="panes"></main>
<noscript><pre>{pictures}</pre></noscript>
{words}
<details><summary>keys</summary><dl>
<dt>← →</dt><dd>one place back or on in memory</dd>
<dt>↑ ↓</dt><dd>one line of the picture back or on</dd>
<dt>Home End</dt><dd>the first and the last place</dd>
<dt>space</dt><dd>play and stop</dd>
</dl></details>
<script type="application/json" id="drawn">{drawn}</script>
<script>
"use strict";
(() => {{
{script}
}})();
</script>
</body>
</html>
"""
)
