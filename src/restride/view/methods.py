"""The display methods of a `MemoryDesc`, as declared in `desc.viewer.Viewer`."""

from __future__ import annotations

import sys
from types import ModuleType

from ..desc.memory_desc import MemoryDesc
from ..desc.parse import short_repr
from ..desc.tags import to_tag
from ..desc.viewer import Explanation
from ..errors import refuse
from ..foreign import plain_text
from ..loading import load_whole
from .explain import explain as explain_in_words
from .explain import formula
from .layout_grid import accesses_svg, grid_svg, grid_text
from .names import axis_names, has_layout
from .notebook import html, html_of_memory
from .svg import svg
from .terminal import ink, printable, width
from .text import show as draw

__all__ = [
    "accesses_svg",
    "explain",
    "grid_svg",
    "grid_text",
    "html",
    "html_of_memory",
    "show",
    "svg",
    "watched",
]


def show(md: MemoryDesc, tag: str = "") -> None:
    """Print the picture of `md` in the best form that standard output supports."""
    _check_tag(md, tag)
    if sys.stdout is not None:
        print(printable(draw(md, tag=tag, ink=ink(), width=width()), sys.stdout))


def explain(md: MemoryDesc, tag: str = "") -> Explanation:
    """Return the explanation of `md`, with its formula as a value."""
    tag = plain_text(tag)
    _check_tag(md, tag)
    text = explain_in_words(md, tag=tag)
    if not has_layout(md):
        return Explanation(text)
    names = axis_names(md.ndims, tag)
    return Explanation(text, formula(md, names), names)


def watched() -> ModuleType:
    """Return the module that displays networks, plans, quantized tensors and profiles, loading it."""
    return load_whole("restride.view.watched")


def _check_tag(md: MemoryDesc, tag: object) -> None:
    """Raise InvalidArguments unless `tag` is a format of the rank of `md`, whose axes it names."""
    if not isinstance(tag, str):
        raise refuse("RS-M11:tag", tag=short_repr(tag))
    if tag and md.ndims:
        to_tag(tag, md.ndims)
