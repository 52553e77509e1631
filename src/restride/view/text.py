"""A layout drawn in text: memory from low to high offsets, each cell the index of the element there.

One line is one run along the innermost level: its cells hold the position on that level's axis, the columns
before them where the run starts, in elements and in bytes, and the positions on all other axes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod

from ..desc.layout import storage_elements
from ..desc.memory_desc import MemoryDesc
from .names import axis_names, byte_text, counted, has_layout, title, why_no_layout
from .palette import Palette
from .walk import Walk, WalkLine, some

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
    arrow: str = "→"
    frame: str = "│─┌┐├┤└┘"
    colour: bool = False

    @property
    def characters(self) -> str:
        """All that a terminal must be able to show."""
        return self.hatch + self.beyond + self.skip + self.dots + self.arrow + self.frame

    @property
    def side(self) -> str:
        """What stands left and right of the cells of a block."""
        return self.dim(self.frame[0])

    def rule(self, ends: int, length: int) -> str:
        """The top (0), a join (1) or the bottom (2) of the outline of blocks."""
        left, right = self.frame[2 + 2 * ends], self.frame[3 + 2 * ends]
        return self.dim(left + self.frame[1] * length + right)

    def dim(self, text: str) -> str:
        """`text` as padding and rules are drawn."""
        return f"\x1b[2m{text}\x1b[0m" if self.colour else text

    def tint(self, text: str, colour: int) -> str:
        """`text` as elements are drawn, in one of a terminal's 256 colours."""
        return f"\x1b[38;5;{colour}m{text}\x1b[0m" if self.colour else text

    def bold(self, text: str) -> str:
        """`text` as headings are drawn."""
        return f"\x1b[1m{text}\x1b[0m" if self.colour else text


ASCII = Ink(hatch="#", beyond="-", skip=":", dots="..", arrow="->", frame="|-++++++")
"""For terminals and files that take ASCII only."""


def show(md: MemoryDesc, *, tag: str = "", ink: Ink | None = None, width: int = _WIDTH) -> str:
    """The picture of `md`, in lines of about `width` columns.

    `tag` is the name that the format was asked for by: an alias names the axes. Padding is hatched, blocks
    are outlined; where a submemory ends inside a block, its neighbours' elements are dotted.
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
        self.palette = Palette.of(md)
        self.axes = [d for d in range(md.ndims) if d != self.row.axis]
        self.is_framed = bool(md.inner_blks)
        last = md.extent_range()[1]
        self.offset_width = max(len("offset"), len(str(last)))
        self.byte_width = max(len("byte"), len(byte_text(md, last)))
        self.cell_width = max(2, len(str(md.padded_dims[self.row.axis] - 1)))
        self.indent = self.offset_width + self.byte_width + 4 + sum(self._column(d) + 1 for d in self.axes)
        self.cells = max(_LEAST_CELLS, (width - self.indent - 4) // (self.cell_width + 1))

    def lines(self) -> Iterator[str]:
        """All lines below the heading."""
        yield self._facts()
        yield ""
        yield self.ink.bold(self._header())
        whole = prod(level.extent for level in self.walk.outer) <= _ALL_LINES
        yield from self._rule(0)
        for line in self.walk.lines(_ALL_LINES if whole else _MOST_LINES):
            yield from self._between(line)
            yield self._line(line)
        yield from self._rule(2)

    def _rule(self, ends: int) -> Iterator[str]:
        if self.is_framed:
            yield " " * self.indent + self.ink.rule(ends, self._run_width() + 2)

    def _run_width(self) -> int:
        """Columns of the cells of one line."""
        shown = min(self.row.extent, self.cells)
        dots = len(self.ink.dots) + 1 if shown < self.row.extent else 0
        return shown * (self.cell_width + 1) - 1 + dots

    def _facts(self) -> str:
        padding = storage_elements(self.md.layout) - self.md.nelems
        dense = self.md.is_injective() and self.md.padded_dims != self.md.dims
        hatched = f", {padding} of them padding {self.ink.hatch * 2}" if dense else ""
        elements = counted(storage_elements(self.md.layout), "element")
        return f"{elements}{hatched}, {counted(self.md.size, 'byte')}"

    def _column(self, axis: int) -> int:
        return len(str(self.md.padded_dims[axis] - 1))

    def _header(self) -> str:
        step = "" if self.row.stride == 1 or self.row.extent == 1 else f", {self.row.stride} elements apart"
        columns = "".join(f"{self.names[d]:>{self._column(d)}} " for d in self.axes)
        along = f"{self.names[self.row.axis]:>{self.cell_width}} {self.ink.arrow}{step}"
        start = f"{'offset':>{self.offset_width}}  {'byte':>{self.byte_width}}"
        return f"{start}  {columns}{'  ' if self.is_framed else ' '}{along}"

    def _between(self, line: WalkLine) -> Iterator[str]:
        """What parts a line from the one before: the end of a block, a gap, a mark for lines left out."""
        if line.changed is None:
            return
        if self.walk.is_block[line.changed]:
            yield from self._rule(1)
        elif line.changed < len(self.walk.outer) - 1:
            yield self._framed(" " * self.indent, " " * self._run_width()).rstrip()
        if line.skipped:
            more = f"{counted(line.skipped, 'line')} more"
            yield self.ink.dim(f"{self.ink.skip:>{self.offset_width}}  {more}")

    def _line(self, line: WalkLine) -> str:
        columns = "".join(f"{line.position[d]:>{self._column(d)}} " for d in self.axes)
        byte = byte_text(self.md, line.offset)
        start = f"{line.offset:>{self.offset_width}}  {byte:>{self.byte_width}}  {columns}"
        return self._framed(start, self._cells(line.position))

    def _framed(self, start: str, cells: str) -> str:
        side = self.ink.side
        return f"{start}{side} {cells} {side}" if self.is_framed else f"{start} {cells}"

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
        return self.ink.tint(f"{here[self.row.axis]:>{self.cell_width}}", self.palette.terminal(here))
