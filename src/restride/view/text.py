"""A layout drawn in text: memory from low to high offsets, each cell the index of the element there.

One line is one run along the innermost level: its cells hold the position on that level's axis, the columns
before them the positions on all other axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from ..desc.layout import storage_elements
from ..desc.memory_desc import MemoryDesc
from .names import axis_names, counted, has_layout, title, why_no_layout
from .walk import Line, Walk, some

_ALL_LINES, _MOST_LINES = 64, 32
_WIDTH = 100
_LEAST_CELLS = 4


@dataclass(frozen=True, slots=True)
class Ink:
    """What padding, cuts and emphasis are drawn with; the default suits any terminal that knows UTF-8."""

    hatch: str = "░"
    beyond: str = "·"
    skip: str = "⋮"
    dots: str = "…"
    rule: str = "─"
    arrow: str = "→"
    colour: bool = False

    def dim(self, text: str) -> str:
        """`text` as padding and rules are drawn."""
        return f"\x1b[2m{text}\x1b[0m" if self.colour else text

    def bold(self, text: str) -> str:
        """`text` as headings are drawn."""
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text


ASCII = Ink(hatch="#", beyond="-", skip=":", dots="..", rule="-", arrow="->")
"""For terminals and files that take ASCII only."""


def show(md: MemoryDesc, *, tag: str = "", ink: Ink | None = None, width: int = _WIDTH) -> str:
    """The picture of `md`, in lines of about `width` columns.

    `tag` is the name that the format was asked for by: an alias names the axes. Padding is hatched, blocks
    are set apart by rules; where a submemory ends inside a block, its neighbours' elements are dotted.
    """
    pen = Ink() if ink is None else ink
    heading = pen.bold(title(md, tag))
    if not has_layout(md):
        return f"{heading}\n{why_no_layout(md)}"
    if not md.nelems:
        return f"{heading}\nNo elements: one of the dims is 0."
    return "\n".join([heading, *_Picture(md, axis_names(md.ndims, tag), pen, width).lines()])


class _Picture:
    """The picture of one layout; widths are in characters."""

    def __init__(self, md: MemoryDesc, names: str, ink: Ink, width: int) -> None:
        self.md, self.names, self.ink = md, names, ink
        self.walk = Walk.over(md.layout)
        self.row = self.walk.row
        self.axes = [d for d in range(md.ndims) if d != self.row.axis]
        self.offset_width = max(len("offset"), len(str(md.extent_range()[1])))
        self.cell_width = max(2, len(str(md.padded_dims[self.row.axis] - 1)))
        self.indent = self.offset_width + 2 + sum(self._column(d) + 1 for d in self.axes) + 1
        self.cells = max(_LEAST_CELLS, (width - self.indent) // (self.cell_width + 1))

    def lines(self) -> Iterator[str]:
        """All lines below the heading."""
        yield self._facts()
        yield ""
        yield self.ink.bold(self._header())
        whole = prod(level.extent for level in self.walk.outer) <= _ALL_LINES
        for line in self.walk.lines(_ALL_LINES if whole else _MOST_LINES):
            yield from self._between(line)
            yield self._line(line)

    def _facts(self) -> str:
        padding = storage_elements(self.md.layout) - self.md.nelems
        dense = self.md.is_injective() and self.md.padded_dims != self.md.dims
        hatched = f", {padding} of them padding {self.ink.hatch * 2}" if dense else ""
        return f"{counted(storage_elements(self.md.layout), 'element')}, {self.md.size} bytes{hatched}"

    def _column(self, axis: int) -> int:
        return len(str(self.md.padded_dims[axis] - 1))

    def _header(self) -> str:
        step = "" if self.row.stride == 1 or self.row.extent == 1 else f", {self.row.stride} elements apart"
        columns = "".join(f"{self.names[d]:>{self._column(d)}} " for d in self.axes)
        along = f"{self.names[self.row.axis]:>{self.cell_width}} {self.ink.arrow}{step}"
        return f"{'offset':>{self.offset_width}}  {columns} {along}"

    def _between(self, line: Line) -> Iterator[str]:
        """What parts a line from the one before: a rule after a block, a gap, a mark for lines left out."""
        if line.changed is None:
            return
        if self.walk.is_block[line.changed]:
            shown = min(self.row.extent, self.cells)
            yield self.ink.dim(self.ink.rule * (self.indent + shown * (self.cell_width + 1) - 1))
        elif line.changed < len(self.walk.outer) - 1:
            yield ""
        if line.skipped:
            more = f"{counted(line.skipped, 'line')} more"
            yield self.ink.dim(f"{self.ink.skip:>{self.offset_width}}  {more}")

    def _line(self, line: Line) -> str:
        columns = "".join(f"{line.position[d]:>{self._column(d)}} " for d in self.axes)
        return f"{line.offset:>{self.offset_width}}  {columns} {self._cells(line.position)}"

    def _cells(self, position: Sequence[int]) -> str:
        shown = some(self.row.extent, self.cells)
        cells = [self._cell(position, digit) for digit in shown]
        if len(shown) < self.row.extent:
            cells.insert(-1, self.ink.dim(self.ink.dots))
        return " ".join(cells)

    def _cell(self, position: Sequence[int], digit: int) -> str:
        here = list(position)
        here[self.row.axis] += digit * self.row.weight
        if any(i >= n for i, n in zip(here, self.md.padded_dims, strict=True)):
            return self.ink.dim(self.ink.beyond * self.cell_width)
        if any(i >= n for i, n in zip(here, self.md.dims, strict=True)):
            return self.ink.dim(self.ink.hatch * self.cell_width)
        return f"{here[self.row.axis]:>{self.cell_width}}"
