"""A layout in a notebook: the picture and the explanation as HTML that needs no script and no other file."""

from __future__ import annotations

from html import escape

from ..desc.memory_desc import MemoryDesc
from .explain import explain
from .svg import svg

__all__ = ["html"]


def html(md: MemoryDesc) -> str:
    """The picture of `md`, and below it, folded, its explanation."""
    picture = f'<div style="overflow-x:auto">{svg(md)}</div>'
    words = f'<pre style="font-size:12px;line-height:1.35">{escape(explain(md))}</pre>'
    return f"<div>{picture}<details><summary>offset formula</summary>{words}</details></div>"
