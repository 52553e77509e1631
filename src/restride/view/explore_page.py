"""The page to explore layouts with: any tag, layout of CuTe or stored format, typed and compared in a browser.

One file that needs no server and no network. Its script reads what is typed by the same grammar as Python; what it
needs of Python's tables stands in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ..desc.tag_names import ALIAS_LETTERS, CANONICAL, IRREGULAR, LETTERS, WORDS
from ..desc.tags import MAX_INNER_BLOCKS
from ..dtypes import DataType
from ..errors import InvalidArguments
from ..formats import example_shape, named, names
from .html_head import HEAD, asset

__all__ = ["explore_page", "tables"]

_MOST_MULTIPLE = 512
_EXAMPLES = {
    "channels in blocks of 16": "a=nChw16c&dims=1x17x2x2",
    "NCHW to NHWC": "a=nchw&b=nhwc&dims=1x8x4x4",
    "weights for dot products": "a=OIhw4i16o4i&dims=20x9x1x1&type=s8",
    "a CuTe layout": "a=((4,2),8):((1,16),2)",
    "blocks of a GGUF file": "a=gguf.q4_0&dims=4x64",
}


def tables() -> dict[str, Any]:
    """The names and sizes of Python's grammar, as values of JSON."""
    return {
        "letters": LETTERS,
        "aliasLetters": ALIAS_LETTERS,
        "domains": CANONICAL,
        "meanings": IRREGULAR | WORDS,
        "mostBlocks": MAX_INNER_BLOCKS,
        "types": {str(kind): kind.bits for kind in DataType if kind.bits},
        "formats": {name: _stored(name) for name in names()},
    }


def _stored(name: str) -> dict[str, Any]:
    """The elements of a stored format: blocks in row-major order, whose axes count from the first of `multiples`.

    `unit` is the stride of a block, 0 where elements are spread over bits.
    """
    dims = example_shape(name)
    values = named(name, dims)
    is_matrix = not _has(name, (1, *dims))
    first = 0 if is_matrix else len(dims) - 1
    layout = values.values.layout
    axes = (axis - first for axis in layout.inner_idxs)
    return {
        "dims": dims,
        "isMatrix": is_matrix,
        "multiples": list(_multiples(name, dims))[first:],
        "type": str(values.values.data_type),
        "blocks": list(zip(layout.inner_blks, axes, layout.inner_steps, strict=True)),
        "unit": 0 if values.blocks is not None else layout.strides[-1],
        "offset": layout.offset0,
    }


def _multiples(name: str, dims: tuple[int, ...]) -> Iterator[int]:
    """The least extent of each axis, whose multiples the format takes."""
    for axis in range(len(dims)):
        extents = (n for n in range(1, _MOST_MULTIPLE) if _has(name, (*dims[:axis], n, *dims[axis + 1 :])))
        yield next(extents)


def _has(name: str, dims: tuple[int, ...]) -> bool:
    try:
        named(name, dims)
    except InvalidArguments:
        return False
    return True


def explore_page() -> str:
    """The page as HTML."""
    values = json.dumps(tables(), separators=(",", ":")).replace("<", "\\u003c")
    types = "".join(f"<option>{kind}" for kind in tables()["types"])
    examples = " · ".join(f'<a href="#{words}">{name}</a>' for name, words in _EXAMPLES.items())
    scripts = f"const tables = {values};\n{asset('grammar.js')}\n{asset('explore.js')}"
    body = _BODY.replace("TYPES", types).replace("EXAMPLES", examples).replace("SCRIPT", scripts)
    return HEAD.format(title="Explore a layout", style=asset("page.css") + asset("explore.css")) + body


_BODY = """<body class="explore">
<h1>Explore a layout</h1>
<form class="fields" onsubmit="return false">
<label>layout A <input id="a" type="text" data-usual="" spellcheck="false" autocomplete="off" aria-describedby="a-error">
<span class="error" id="a-error" role="alert"></span></label>
<label>layout B, to compare <input id="b" type="text" data-usual="" spellcheck="false" autocomplete="off"
placeholder="none" aria-describedby="b-error"><span class="error" id="b-error" role="alert"></span></label>
<label>dims <input id="dims" type="text" data-usual="" spellcheck="false" autocomplete="off" placeholder="1x17x2x2"
aria-describedby="dims-error"><span class="error" id="dims-error" role="alert"></span></label>
<label>type <select id="type" data-usual="f32">TYPES</select></label>
<label>line <select id="line" data-usual="64"><option value="32">32 bytes<option value="64">64 bytes
<option value="128">128 bytes</select></label>
<button id="swap" type="button">swap A and B</button>
</form>
<p class="facts">A tag (<code>nChw16c</code>, <code>aBcd8b</code>, <code>axb</code>), a layout of CuTe
(<code>((4,2),8):((1,16),2)</code>) or a stored format (<code>awq</code>). Examples: EXAMPLES</p>
<div class="controls">
<button id="back" type="button" aria-label="step back">◀</button>
<button id="play" type="button">play</button>
<button id="next" type="button" aria-label="step on">▶</button>
<label>order of <select id="order" data-usual="a"><option value="tensor">the indices<option value="a">memory A
<option value="b">memory B</select></label>
<input id="step" type="range" min="0" value="0" aria-label="place in the walk">
<label>speed <select id="speed"><option value="400">slow<option value="160" selected>normal<option value="30">fast
</select></label>
<output id="where" aria-live="polite"></output>
<output id="facts"></output>
</div>
<main id="panes"></main>
<noscript><p>This page needs JavaScript. In a terminal, restride show draws layouts too.</p></noscript>
<details><summary>keys and colors</summary><dl>
<dt>← →</dt><dd>one place back or on in the order that is chosen</dd>
<dt>↑ ↓</dt><dd>one row back or on</dd>
<dt>Home End</dt><dd>the first and the last place</dd>
<dt>space</dt><dd>play and stop</dd>
<dt>Escape</dt><dd>leave a field, stop, and unmark</dd>
<dt>yellow</dt><dd>the element; its cache line is framed</dd>
<dt>underlined</dt><dd>the elements that share its line in the last memory: what a reorder gathers into this line</dd>
</dl></details>
<script>
"use strict";
(() => {
SCRIPT
})();
</script>
</body>
</html>
"""
