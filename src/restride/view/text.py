"""A layout as text: memory from low to high offsets, each cell with the index of its element.

A line is a run along the innermost level: its cells show the position on that level's axis; the columns
before them show the start of the line, in elements and in bytes, and the positions on the axes that run down.
With nested blocks, a line has several groups of cells, each headed by its distance from the start of the
line.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..desc.layout import storage_elements
from ..desc.memory_desc import MemoryDesc, stored_desc
from .names import axis_names, byte_text, counted, elision_text, has_layout, title, why_no_layout
from .palette import Palette
from .walk import Walk, WalkLine, gaps

_ALL_LINES, _MOST_LINES = 64, 32
_WIDTH = 100
# Minimum number of cells of a group, and of groups of a line, even on a narrow terminal.
_LEAST = 4


@dataclass(frozen=True, slots=True)
class TextStyle:
    """The characters for padding, omissions and emphasis; the default suits any terminal with UTF-8."""

    hatch: str = "░"
    beyond: str = "·"
    skip: str = "⋮"
    dots: str = "…"
    arrow: str = "→"
    frame: str = "│─┌┬┐├┼┤└┴┘"
    color: bool = False

    @property
    def characters(self) -> str:
        """All characters that a terminal must support."""
        return self.hatch + self.beyond + self.skip + self.dots + self.arrow + self.frame

    @property
    def side(self) -> str:
        """The border left and right of the cells of a block."""
        return self.dim(self.frame[0])

    def rule(self, ends: int, lengths: Sequence[int]) -> str:
        """Return the top (0), a join (1) or the bottom (2) of a block outline, for groups of these sizes."""
        left, between, right = (self.frame[2 + 3 * ends + i] for i in range(3))
        return self.dim(left + between.join(self.frame[1] * length for length in lengths) + right)

    def dim(self, text: str) -> str:
        """Return `text` in the style of padding and rules."""
        return f"\x1b[2m{text}\x1b[0m" if self.color else text

    def tint(self, text: str, color: int) -> str:
        """Return `text` in the style of elements, in one of a terminal's 256 colors."""
        return f"\x1b[38;5;{color}m{text}\x1b[0m" if self.color else text

    def bold(self, text: str) -> str:
        """Return `text` in the style of headings."""
        return f"\x1b[1m{text}\x1b[0m" if self.color else text


ASCII = TextStyle(hatch="#", beyond="-", skip=":", dots="..", arrow="->", frame="|-+++++++++")
"""For terminals and files with ASCII only."""


def show(md: MemoryDesc, *, tag: str = "", ink: TextStyle | None = None, width: int = _WIDTH) -> str:
    """Return the picture of `md`, in lines of about `width` columns.

    `tag` is the format as the user spelled it: an alias names the axes. Padding is hatched, blocks are
    outlined; if a submemory ends inside a block, its neighbors' elements are dotted.
    """
    pen = TextStyle() if ink is None else ink
    heading = pen.bold(title(md, tag))
    md = stored_desc(md)
    if not has_layout(md):
        return f"{heading}\n{why_no_layout(md)}"
    if not md.nelems:
        return f"{heading}\nNo elements: one of the dims is 0."
    return "\n".join([heading, *_Picture(md, axis_names(md.ndims, tag), pen, width).lines()])


class _Picture:
    """The picture of one layout; widths are in characters."""

    def __init__(self, md: MemoryDesc, names: str, ink: TextStyle, width: int) -> None:
        self.md, self.names, self.ink = md, names, ink
        self.walk = Walk.over(md.layout)
        self.palette = Palette.of(md)
        self.across = self.walk.row.levels[0]
        self.axes = self._axes()
        self.is_framed = bool(md.inner_blks)
        last = md.extent_range()[1]
        self.offset_width = max(len("offset"), len(str(last)))
        self.byte_width = max(len("byte"), len(byte_text(md, last)))
        self.cell_width = max(2, len(str(md.padded_dims[self.across.axis] - 1)))
        self.indent = self.offset_width + self.byte_width + 4 + sum(self._column(d) + 1 for d in self.axes)
        room = width - self.indent - 4
        groups = self.walk.groups
        share = (room + 3) // min(groups.extent, _LEAST) - 3
        self.cells = gaps(self.walk.row.kept(max(_LEAST, share // (self.cell_width + 1))))
        cells_width = len(self.cells) * (self.cell_width + 1) - 1
        cells_width -= (self.cell_width - len(ink.dots)) * self.cells.count(None)
        self.group_width = max(cells_width, *(len(name) for name in self._names_of([0, groups.extent - 1])))
        self.fill = " " * (self.group_width - cells_width)
        most = (room + 3) // (self.group_width + 3)
        self.groups = gaps(groups.kept(most if most >= groups.extent else most - 1))

    def _axes(self) -> list[int]:
        """Return the axes that have a column: all except those that only run across."""
        down = {level.axis for level in self.walk.down}
        across = {level.axis for level in self.walk.groups.levels} | {self.across.axis}
        return [d for d in range(self.md.ndims) if d != self.across.axis and (d in down or d not in across)]

    def lines(self) -> Iterator[str]:
        """Yield all lines below the heading."""
        yield self._facts()
        yield ""
        yield self.ink.bold(self._header())
        yield from self._group_names()
        yield from self._rule(0)
        whole = self.walk.line_count <= _ALL_LINES
        for line in self.walk.lines(_ALL_LINES if whole else _MOST_LINES):
            yield from self._between(line)
            yield self._line(line)
        yield from self._rule(2)

    def _rule(self, ends: int) -> Iterator[str]:
        if self.is_framed:
            yield " " * self.indent + self.ink.rule(ends, [width + 2 for width in self._widths()])

    def _widths(self) -> list[int]:
        """Return the columns of each group of a line, and of the dots for omitted ones."""
        return [len(self.ink.dots) if group is None else self.group_width for group in self.groups]

    def _facts(self) -> str:
        padding = storage_elements(self.md.layout) - self.md.nelems
        dense = self.md.is_injective() and self.md.padded_dims != self.md.dims
        hatched = f", {padding} of them padding {self.ink.hatch * 2}" if dense else ""
        elements = counted(storage_elements(self.md.layout), "element")
        return f"{elements}{hatched}, {counted(self.md.size, 'byte')}"

    def _column(self, axis: int) -> int:
        return len(str(self.md.padded_dims[axis] - 1))

    def _header(self) -> str:
        level = self.across
        step = "" if level.stride == 1 or level.extent == 1 else f", {level.stride} elements apart"
        columns = "".join(f"{self.names[d]:>{self._column(d)}} " for d in self.axes)
        along = f"{self.names[level.axis]:>{self.cell_width}} {self.ink.arrow}{step}"
        start = f"{'offset':>{self.offset_width}}  {'byte':>{self.byte_width}}"
        return f"{start}  {columns}{'  ' if self.is_framed else ' '}{along}"

    def _group_names(self) -> Iterator[str]:
        """Yield the distance of each group from its line's start: `+0`, `+64`; of another axis `c1 +64`."""
        if len(self.groups) > 1:
            pairs = zip(self._names_of(self.groups), self._widths(), strict=True)
            spread = "   ".join(f"{name:<{width}}" for name, width in pairs)
            yield self.ink.bold((" " * (self.indent + 2) + spread).rstrip())

    def _names_of(self, groups: Sequence[int | None]) -> list[str]:
        if self.walk.groups.extent == 1:
            return [""]
        return ["" if group is None else self.walk.group_name(group, self.names) for group in groups]

    def _between(self, line: WalkLine) -> Iterator[str]:
        """Yield the text between two lines: the end of a block, a gap, a mark for omitted lines."""
        if line.changed is None:
            return
        if line.changed < len(self.walk.outer) and self.walk.is_block[line.changed]:
            yield from self._rule(1)
        elif line.changed < len(self.walk.down) - 1:
            yield self._framed(" " * self.indent, [" " * width for width in self._widths()]).rstrip()
        if line.left_out is not None:
            yield self.ink.dim(
                f"{self.ink.skip:>{self.offset_width}}  {elision_text(line.left_out, self.names)}"
            )

    def _line(self, line: WalkLine) -> str:
        columns = "".join(f"{line.position[d]:>{self._column(d)}} " for d in self.axes)
        byte = byte_text(self.md, line.offset)
        start = f"{line.offset:>{self.offset_width}}  {byte:>{self.byte_width}}  {columns}"
        dots = self.ink.dim(self.ink.dots)
        return self._framed(
            start, [dots if g is None else self._group(line.position, g) for g in self.groups]
        )

    def _framed(self, start: str, groups: Sequence[str]) -> str:
        side = self.ink.side
        return (
            f"{start}{side} {f' {side} '.join(groups)} {side}" if self.is_framed else f"{start} {groups[0]}"
        )

    def _group(self, position: Sequence[int], group: int) -> str:
        here = self.walk.in_group(position, group)
        dots = self.ink.dim(self.ink.dots)
        return " ".join(dots if cell is None else self._cell(here, cell) for cell in self.cells) + self.fill

    def _cell(self, position: Sequence[int], digit: int) -> str:
        axis = self.across.axis
        here = [*position]
        here[axis] += digit * self.across.weight
        if any(i >= n for i, n in zip(here, self.md.padded_dims, strict=True)):
            return self.ink.dim(self.ink.beyond * self.cell_width)
        if any(i >= n for i, n in zip(here, self.md.dims, strict=True)):
            return self.ink.dim(self.ink.hatch * self.cell_width)
        return self.ink.tint(f"{here[axis]:>{self.cell_width}}", self.palette.terminal(here))
