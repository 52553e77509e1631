"""Layouts as SVG: memory from low offsets to high, padding hatched, inner blocks outlined, channels colored.

A picture needs no script and no other file. Each cell is labeled with its index along the axis of its line,
and has a tooltip with its full index, its offset and its byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ..desc.layout import storage_elements
from ..desc.memory_desc import MemoryDesc, stored_desc
from .drawing import FAINT, LETTER, Drawing, Rectangle, hsl
from .names import axis_names, byte_text, counted, elision_text, has_layout, title, why_no_layout
from .palette import Palette
from .scene import ELEMENT, PADDING, Cell, MemoryLine, memory

_LINES = 32
_HEIGHT, _GAP, _BLOCK_GAP, _GROUP_GAP = 20, 5, 11, 6
_PADDING_FILL, _BEYOND_FILL = "url(#hatch)", "#ffffff"


def svg(md: MemoryDesc, *, tag: str = "") -> str:
    """Return the picture of memory as one SVG element. `tag` is the format as the user spelled it."""
    return memory_drawing(md, tag).document(f"Memory of {title(md, tag)}")


def svg_pair(before: tuple[MemoryDesc, str], after: tuple[MemoryDesc, str], *, most: int = _LINES) -> str:
    """Return the memory before and after a reorder, side by side; each is a descriptor and its tag.

    `most`: the number of lines, and of cells in a line, that are drawn.
    """
    left, right = (memory_drawing(md, tag, most) for md, tag in (before, after))
    both = Drawing()
    both.place(left, 0, 0)
    both.place(right, left.width + 48, 0)
    return both.document(f"Memory of {title(*before)}, and of {title(*after)}")


def memory_drawing(md: MemoryDesc, tag: str, most: int = _LINES) -> Drawing:
    """Return the picture of memory, to be placed in another or made a document."""
    drawing = Drawing()
    drawing.text(0, 8, title(md, tag), size=14, font_weight="bold")
    md = stored_desc(md)
    if not has_layout(md):
        drawing.text(0, 30, why_no_layout(md), fill=FAINT)
    elif not md.nelems:
        drawing.text(0, 30, "No elements: one of the dims is 0.", fill=FAINT)
    else:
        _MemoryDrawing(md, axis_names(md.ndims, tag), drawing, most).draw()
    return drawing


def tip(md: MemoryDesc, cell: Cell) -> str:
    """Return the description of a cell: `(0, 16, 1, 1) at element 64, byte 256`."""
    place = ", ".join(map(str, cell.position))
    kind = {ELEMENT: "", PADDING: "padding "}.get(cell.kind, "not of this submemory ")
    return f"{kind}({place}) at element {cell.offset}, byte {byte_text(md, cell.offset)}"


class _MemoryDrawing:
    """The drawing of lines of memory."""

    def __init__(self, md: MemoryDesc, names: str, drawing: Drawing, most: int) -> None:
        self.md, self.names, self.drawing = md, names, drawing
        self.scene = scene = memory(md, names, most, most)
        self.palette = Palette.of(md)
        self.axes = [d for d in range(md.ndims) if d != scene.axis]
        last = md.extent_range()[1]
        self.widths = [max(6, len(str(last))), max(4, len(byte_text(md, last)))]
        self.widths += [len(str(md.padded_dims[d] - 1)) for d in self.axes]
        self.starts = list(self._column_ends())
        self.cell_width = max(22.0, len(str(md.padded_dims[scene.axis] - 1)) * LETTER + 8)
        self.groups = list(self._groups(self.starts[-1] + 14))

    def _groups(self, left: float) -> Iterator[_Columns]:
        """Yield the start and the end of each group of a line, or the dots for omitted ones."""
        groups = self.scene.lines[0].groups
        for i, group in enumerate(groups):
            cells = 1 if group is None else len(group)
            name = len(self.scene.names[i]) * LETTER if self.scene.names else 0
            right = left + max(cells * self.cell_width, name)
            yield _Columns(left, right)
            left = right + _GROUP_GAP

    def _column_ends(self) -> Iterator[float]:
        """Yield the right edges of the columns of numbers."""
        x = 0.0
        for i, width in enumerate(self.widths):
            x += width * LETTER + (14 if i in (1, 2) else 7 if i else 0)
            yield x

    def draw(self) -> None:
        """Draw facts, headings, lines and outlines."""
        self.drawing.text(0, 30, self._facts(), fill=FAINT)
        self._headings(56)
        y = 88.0 if self.scene.names else 70.0
        top = bottom = y
        self.drawing.open_cells()
        frames = []
        for run in self.scene.lines:
            if run.ends_block:
                frames.append((top, bottom))
            y += self._gap(run)
            y = self._skipped(run, y)
            top = y if run.ends_block else top
            self._line(run, y)
            y = bottom = y + _HEIGHT
        self.drawing.close()
        self._frames([*frames, (top, bottom)])

    def _facts(self) -> str:
        md, elements = self.md, storage_elements(self.md.layout)
        dense = md.is_injective() and md.padded_dims != md.dims
        padded = f", {elements - md.nelems} of them padding (hatched)" if dense else ""
        return f"{counted(elements, 'element')}{padded}, {counted(md.size, 'byte')}"

    def _headings(self, y: float) -> None:
        words = ["offset", "byte", *(self.names[d] for d in self.axes)]
        for x, word in zip(self.starts, words, strict=True):
            self.drawing.text(x, y, word, anchor="end", fill=FAINT)
        step = "" if self.scene.step == 1 else f", {self.scene.step} elements apart"
        self.drawing.text(self.groups[0].left, y, f"{self.names[self.scene.axis]} →{step}", fill=FAINT)
        for place, name in zip(self.groups, self.scene.names, strict=False):
            self.drawing.text(place.left, y + 18, name, fill=FAINT)

    def _gap(self, run: MemoryLine) -> float:
        if run.ends_block and self.md.inner_blks:
            return _BLOCK_GAP
        return _GAP if run.is_apart else 0

    def _skipped(self, run: MemoryLine, y: float) -> float:
        left = run.line.left_out
        if left is None:
            return y
        words = f"⋮ {elision_text(left, self.names)}"
        x = self._start_of(words) if self.md.inner_blks and not run.ends_block else 0.0
        if x is None:
            words, x = f"⋮ {counted(left.lines, 'line')} more", 0.0
        self.drawing.text(x, y + _HEIGHT / 2, words, fill=FAINT, text_anchor="start")
        return y + _HEIGHT + 4

    def _start_of(self, words: str) -> float | None:
        """Return the start of text in an outline: next to it, or inside it; None if there is no room."""
        left, right = self.groups[0].left, self.groups[-1].right
        width = len(words) * LETTER
        return 0.0 if width <= left - 10 else left + 6 if width <= right - left - 12 else None

    def _line(self, run: MemoryLine, y: float) -> None:
        line = run.line
        numbers = [str(line.offset), byte_text(self.md, line.offset)]
        numbers += [str(line.position[d]) for d in self.axes]
        for x, number in zip(self.starts, numbers, strict=True):
            self.drawing.text(x, y + _HEIGHT / 2, number, anchor="end", fill=FAINT)
        for place, group in zip(self.groups, run.groups, strict=True):
            for i, cell in enumerate((None,) if group is None else group):
                left = place.left + i * self.cell_width
                self._cell(cell, Rectangle(left, y, self.cell_width, _HEIGHT))

    def _cell(self, cell: Cell | None, box: Rectangle) -> None:
        if cell is None:
            self.drawing.text(box.x + box.width / 2, box.y + _HEIGHT / 2, "…", anchor="middle")
            return
        is_element = cell.kind == ELEMENT
        words = str(cell.position[self.scene.axis]) if is_element else "" if cell.kind == PADDING else "·"
        plain = _PADDING_FILL if cell.kind == PADDING else _BEYOND_FILL
        fill = hsl(self.palette.hue(cell.position)) if is_element else plain
        self.drawing.cell(box, words, fill=fill, tip=tip(self.md, cell))

    def _frames(self, frames: list[tuple[float, float]]) -> None:
        """Draw an outline around each block, and a thin one around each of its groups."""
        if not self.md.inner_blks:
            return
        left, right = self.groups[0].left, self.groups[-1].right
        for top, bottom in frames:
            for place, name in zip(self.groups, self.scene.names, strict=False):
                if name:
                    self.drawing.outline(
                        Rectangle(place.left, top, place.right - place.left, bottom - top), 1
                    )
            self.drawing.outline(Rectangle(left - 3, top - 3, right - left + 6, bottom - top + 6), 2)


class _Columns(NamedTuple):
    """The start and the end of a group, in pixels."""

    left: float
    right: float
