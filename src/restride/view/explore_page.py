"""A page for exploring layouts: tags, CuTe layouts and stored formats, typed and compared.

A single file that needs no server and no network. Its script parses the input with Python's grammar, whose
tables are embedded in it.
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
    """Return the names and sizes of Python's grammar, as JSON values."""
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
    """Return the elements of a stored format: blocks in row-major order.

    `unit` is the stride of a block, 0 if elements are spread over bits. The axes of blocks count from the
    first of `multiples`, which apply to the last dims.
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
    """Yield the smallest extent of each axis, of which the format requires multiples."""
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
    """Return the page as HTML."""
    values = tables()
    script = f"const tables = {json.dumps(values, separators=(',', ':'))};\n"
    parts = {
        "TYPES": "".join(f"<option>{kind}" for kind in values["types"]),
        "EXAMPLES": " · ".join(f'<a href="#{words}">{name}</a>' for name, words in _EXAMPLES.items()),
        "SCRIPT": script + asset("grammar.js") + asset("explore.js"),
    }
    page = HEAD.format(title="Explore a layout", style=asset("page.css") + asset("explore.css"))
    page += asset("explore.html")
    for name, text in parts.items():
        page = page.replace(name, text)
    return page
