"""A layout or a memory in a notebook: picture, text and values as HTML without scripts or files."""

from __future__ import annotations

from html import escape

from ..desc.memory_desc import MemoryDesc
from ..errors import Error
from ..runtime.memory import Memory
from .explain import explain
from .svg import svg

__all__ = ["html", "html_of_memory"]

_ROWS, _COLUMNS = 6, 8


def html(md: MemoryDesc) -> str:
    """Return the picture of `md`, followed by its collapsed explanation."""
    picture = f'<div style="overflow-x:auto">{svg(md)}</div>'
    words = f'<pre style="font-size:12px;line-height:1.35">{escape(explain(md))}</pre>'
    return f"<div>{picture}<details><summary>offset formula</summary>{words}</details></div>"


def html_of_memory(memory: Memory) -> str:
    """Return a memory's description, its first values in logical order, and the picture of its layout."""
    head = f"<div><code>{escape(repr(memory))}</code></div>"
    return f"<div>{head}{_values(memory)}{html(memory.desc) if memory else ''}</div>"


def _values(memory: Memory) -> str:
    """Return the first rows and columns of the last two axes, at index 0 of the others, as a table."""
    shape = memory.shape
    if not memory or not memory.size or memory.get_data_handle() == 0:
        return ""
    extents = (*(1 for _ in shape[:-2]), *map(min, shape[-2:], (_ROWS, _COLUMNS)[-len(shape) :]))
    try:
        window = memory.desc.submemory_desc(extents, (0,) * len(shape))
        values = Memory(window, memory.engine, memory).to_numpy().reshape(-1, extents[-1])
    except Error:  # a mapped memory, or a view that ends inside a block
        return ""
    rows = "".join(f"<tr>{''.join(f'<td>{escape(str(v))}</td>' for v in row)}</tr>" for row in values)
    at = ", ".join([*("0" for _ in shape[:-2]), *(f":{n}" for n in extents[-2:])])
    of = " &times; ".join(map(str, shape))
    return f'<table style="text-align:right"><caption>[{at}] of {of}</caption>{rows}</table>'
