"""What the methods of a `MemoryDesc` show, as `desc.viewer.Viewer` asks for it."""

from __future__ import annotations

import sys

from ..desc.memory_desc import MemoryDesc
from ..desc.viewer import Explanation
from .explain import explain as explain_in_words
from .explain import formula
from .names import axis_names, has_layout
from .notebook import html
from .svg import svg
from .terminal import ink, printable, width
from .text import show as draw

__all__ = ["explain", "html", "show", "svg"]


def show(md: MemoryDesc, tag: str = "") -> None:
    """Print the picture of `md` as well as standard output can show it."""
    if sys.stdout is not None:
        print(printable(draw(md, tag=tag, ink=ink(), width=width()), sys.stdout))


def explain(md: MemoryDesc, tag: str = "") -> Explanation:
    """The explanation of `md`, with its formula as a value."""
    text = explain_in_words(md, tag=tag)
    if not has_layout(md):
        return Explanation(text)
    names = axis_names(md.ndims, tag)
    return Explanation(text, formula(md, names), names)
