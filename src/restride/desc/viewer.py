"""The methods of `MemoryDesc` that draw and explain it.

Diagrams are drawn in `view/`, a higher layer that descriptors do not know: the package registers a module
here by name, and it is loaded when a diagram is first requested.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from ..errors import raises_at_the_call
from ..loading import load_whole


class Explanation(str):
    """An explanation in words: a string whose `repr` is its text, so that a prompt shows it unquoted.

    `formula` is the element offset as a Python expression of `names`, one letter for each axis; both are
    empty if a descriptor has no layout.
    """

    __slots__ = ("formula", "names")
    formula: str
    names: str

    def __new__(cls, text: str, formula: str = "", names: str = "") -> Explanation:
        """Return the explanation `text` with its formula."""
        explanation = super().__new__(cls, text)
        explanation.formula, explanation.names = formula, names
        return explanation

    def __repr__(self) -> str:
        return str.__str__(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Explanation, (str(self), self.formula, self.names)


class Viewer(Protocol):
    """The interface of the registered module: functions of a descriptor and the tag that names its axes."""

    def show(self, md: Any, tag: str) -> None:
        """Print the diagram."""

    def explain(self, md: Any, tag: str) -> Explanation:
        """Return the explanation."""

    def html(self, md: Any) -> str:
        """Return the diagram for a notebook."""

    def svg(self, md: Any) -> str:
        """Return the diagram as SVG."""

    def html_of_memory(self, memory: Any) -> str:
        """Return the diagram of a memory, and some of its values, for a notebook."""

    def grid_text(self, layout: Any) -> str:
        """Return the grid of a layout of the algebra as text."""

    def grid_svg(self, layout: Any) -> str:
        """Return that grid as SVG."""

    def accesses_svg(self, accesses: Any) -> str:
        """Return the diagram of the accesses of a walk as SVG."""

    def watched(self) -> Any:
        """Return the module that shows networks, plans, quantized tensors and profiles."""


_viewer_modules: list[str] = []


def register(module: str) -> None:
    """Set the `Viewer` module by its dotted name; it is imported on first use."""
    _viewer_modules[:] = [module]


def viewer() -> Viewer:
    """Return the registered module."""
    return cast(Viewer, load_whole(_viewer_modules[0]))


class ViewMethods:
    """The methods of a descriptor that display it."""

    __slots__ = ()

    @raises_at_the_call
    def show(self, *, tag: str = "") -> None:
        """Print the location of every element, from low offsets to high: padding hatched, inner blocks
        outlined.

        Colored on a terminal, unless NO_COLOR is set; large layouts are drawn in part. `tag`: a format whose
        letters name the axes, such as "nChw16c"; by default "abcd". Raises InvalidArguments for a tag that
        cannot be read or has another rank.
        """
        viewer().show(self, tag)

    @raises_at_the_call
    def explain(self, *, tag: str = "") -> Explanation:
        """Explain strides, blocks, padding, size, and the offset formula in words and symbols.

        The result is a string; its `formula` is a Python expression of the axes' `names` that equals `offset`
        for every index. `tag` as in `show`.
        """
        return viewer().explain(self, tag)

    def _repr_html_(self) -> str:
        return viewer().html(self)

    def _repr_svg_(self) -> str:
        return viewer().svg(self)
