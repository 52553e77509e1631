"""Layouts as SVG: memory from low offsets to high, padding hatched, inner blocks outlined, channels coloured.

A picture needs no script and no other file. Each cell is labelled with its index along the axis of its line,
and has a tooltip with its whole index, its offset and its byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from ..desc.layout import storage_elements
from ..desc.memory_desc import MemoryDesc
from .drawing import FAINT, LETTER, Drawing, Rectangle, hsl
from .names import axis_names, byte_text, counted, has_layout, title, why_no_layout
from .palette import Palette
from .scene import ELEMENT, PADDING, Cell, MemoryLine, MemoryScene, Plane, Planes, memory, panels

_LINES, _CELLS = 32, 32
# A tensor of more elements than this is drawn as small parts of many planes.
_ELEMENTS, _PART = 1024, 6
_HEIGHT, _GAP, _BLOCK_GAP = 20, 5, 9
_PADDING_FILL, _BEYOND_FILL = "url(#hatch)", "#ffffff"


def svg(md: MemoryDesc, *, tag: str = "") -> str:
    """The picture of memory as one SVG element. `tag` is the name that the format was asked for by."""
    return memory_drawing(md, tag).document(f"Memory of {title(md, tag)}")


def svg_pair(before: tuple[MemoryDesc, str], after: tuple[MemoryDesc, str]) -> str:
    """The memory before and after a reorder, side by side; each is a descriptor and its tag."""
    left, right = memory_drawing(*before), memory_drawing(*after)
    both = Drawing()
    both.place(left, 0, 0)
    both.place(right, left.width + 48, 0)
    return both.document(f"Memory of {title(*before)}, and of {title(*after)}")


def tensor_svg(sides: Sequence[MemoryDesc], names: str, *, width: float) -> str:
    """The tensor in logical order, for the interactive page; offsets are those of all `sides`."""
    md = sides[0]
    drawing = Drawing()
    if has_layout(md) and md.nelems:
        _TensorDrawing(sides, names, drawing).draw(width)
    return drawing.document(f"The tensor of {md}, in logical order")


def memory_drawing(
    md: MemoryDesc, tag: str, *, lines: int = _LINES, cells: int = _CELLS, sides: Sequence[MemoryDesc] = ()
) -> Drawing:
    """The picture of memory, to be placed or made a document.

    With `sides`, for the interactive page, each element tells a script its offset in each of these layouts.
    """
    drawing = Drawing()
    drawing.text(0, 8, title(md, tag), size=14, font_weight="bold")
    if not has_layout(md):
        drawing.text(0, 30, why_no_layout(md), fill=FAINT)
    elif not md.nelems:
        drawing.text(0, 30, "No elements: one of the dims is 0.", fill=FAINT)
    else:
        _MemoryDrawing(md, axis_names(md.ndims, tag), memory(md, lines, cells), drawing, sides).draw()
    return drawing


def tip(md: MemoryDesc, cell: Cell) -> str:
    """What a cell is, in words: `(0, 16, 1, 1) at element 64, byte 256`."""
    place = ", ".join(map(str, cell.position))
    kind = {ELEMENT: "", PADDING: "padding "}.get(cell.kind, "not of this submemory ")
    return f"{kind}({place}) at element {cell.offset}, byte {byte_text(md, cell.offset)}"


def data_of(cell: Cell, sides: Sequence[MemoryDesc]) -> str:
    """The attributes by which the page's script finds a cell."""
    at = _data_at(cell.position, sides) if cell.kind == ELEMENT and sides else ""
    kind = "" if cell.kind == ELEMENT else f' data-kind="{cell.kind}"'
    return f' data-i="{",".join(map(str, cell.position))}" data-o="{cell.offset}"{at}{kind}'


def _data_at(index: tuple[int, ...], sides: Sequence[MemoryDesc]) -> str:
    return f' data-at="{" ".join(str(md.offset(*index)) for md in sides)}"'


class _MemoryDrawing:
    """The drawing of lines of memory."""

    def __init__(
        self, md: MemoryDesc, names: str, scene: MemoryScene, drawing: Drawing, sides: Sequence[MemoryDesc]
    ) -> None:
        self.md, self.names, self.scene, self.drawing, self.sides = md, names, scene, drawing, sides
        self.palette = Palette.of(md)
        self.axes = [d for d in range(md.ndims) if d != scene.axis]
        last = md.extent_range()[1]
        self.widths = [max(6, len(str(last))), max(4, len(byte_text(md, last)))]
        self.widths += [len(str(md.padded_dims[d] - 1)) for d in self.axes]
        self.starts = list(self._column_ends())
        self.left = self.starts[-1] + 14
        self.cell_width = max(22.0, len(str(md.padded_dims[scene.axis] - 1)) * LETTER + 8)

    def _column_ends(self) -> Iterator[float]:
        """The right edges of the columns of numbers."""
        x = 0.0
        for i, width in enumerate(self.widths):
            x += width * LETTER + (14 if i in (1, 2) else 7 if i else 0)
            yield x

    def draw(self) -> None:
        """Facts, headings, lines and outlines."""
        self.drawing.text(0, 30, self._facts(), fill=FAINT)
        self._headings(56)
        y, top, bottom = 70.0, 70.0, 70.0
        self.drawing.open_cells()
        frames = []
        for run in self.scene.runs:
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
        md, stored = self.md, storage_elements(self.md.layout)
        dense = md.is_injective() and md.padded_dims != md.dims
        padded = f", {stored - md.nelems} of them padding (hatched)" if dense else ""
        return f"{counted(stored, 'element')}{padded}, {counted(md.size, 'byte')}"

    def _headings(self, y: float) -> None:
        words = ["offset", "byte", *(self.names[d] for d in self.axes)]
        for x, word in zip(self.starts, words, strict=True):
            self.drawing.text(x, y, word, anchor="end", fill=FAINT)
        step = "" if self.scene.step == 1 else f", {self.scene.step} elements apart"
        self.drawing.text(self.left, y, f"{self.names[self.scene.axis]} →{step}", fill=FAINT)

    def _gap(self, run: MemoryLine) -> float:
        if run.ends_block and self.md.inner_blks:
            return _BLOCK_GAP
        return _GAP if run.is_apart else 0

    def _skipped(self, run: MemoryLine, y: float) -> float:
        if not run.line.skipped:
            return y
        more = f"⋮ {counted(run.line.skipped, 'line')} more"
        self.drawing.text(0, y + _HEIGHT / 2, more, fill=FAINT, text_anchor="start")
        return y + _HEIGHT + 4

    def _line(self, run: MemoryLine, y: float) -> None:
        line = run.line
        numbers = [str(line.offset), byte_text(self.md, line.offset)]
        numbers += [str(line.position[d]) for d in self.axes]
        for x, number in zip(self.starts, numbers, strict=True):
            self.drawing.text(x, y + _HEIGHT / 2, number, anchor="end", fill=FAINT)
        for i, cell in enumerate(run.cells):
            self._cell(cell, Rectangle(self.left + i * self.cell_width, y, self.cell_width, _HEIGHT))

    def _cell(self, cell: Cell | None, box: Rectangle) -> None:
        if cell is None:
            self.drawing.text(box.x + box.width / 2, box.y + _HEIGHT / 2, "…", anchor="middle")
            return
        is_element = cell.kind == ELEMENT
        words = str(cell.position[self.scene.axis]) if is_element else "" if cell.kind == PADDING else "·"
        plain = _PADDING_FILL if cell.kind == PADDING else _BEYOND_FILL
        fill = hsl(self.palette.hue(cell.position)) if is_element else plain
        self.drawing.cell(box, words, fill=fill, tip=tip(self.md, cell), data=data_of(cell, self.sides))

    def _frames(self, frames: list[tuple[float, float]]) -> None:
        if not self.md.inner_blks:
            return
        width = max(len(run.cells) for run in self.scene.runs) * self.cell_width
        for top, bottom in frames:
            self.drawing.outline(Rectangle(self.left - 2, top - 2, width + 4, bottom - top + 4))


class _TensorDrawing:
    """The drawing of a tensor in logical order: a plane for each position of the outer axes."""

    def __init__(self, sides: Sequence[MemoryDesc], names: str, drawing: Drawing) -> None:
        self.sides, self.names, self.drawing = sides, names, drawing
        self.md = sides[0]
        self.planes = Planes.of(self.md)
        self.palette = Palette.of(self.md)
        self.xs: list[float] = []
        self.ys: list[float] = []
        self.cell_width = max(22.0, len(str(self.md.dims[self.planes.across] - 1)) * LETTER + 8)

    def draw(self, room: float) -> None:
        """The planes, as many to a row as there is room for."""
        found = list(panels(self.md, _ELEMENTS if self.md.nelems <= _ELEMENTS else _PART, _ELEMENTS))
        drawn = len(found) * len(found[0].rows) * len(found[0].rows[0])
        self.xs, self.ys = self._places(found[0])
        label = len(self._label(found[-1])) * LETTER
        width, height = max(self.xs[-1] + self.cell_width, label) + 18, self.ys[-1] + _HEIGHT + 28
        across = max(1, int(room // width))
        part = ", drawn in part" if drawn < self.md.nelems else ""
        self.drawing.text(0, 8, self._facts() + part, fill=FAINT)
        for i, panel in enumerate(found):
            self._plane(panel, i % across * width, 34.0 + i // across * height)

    def _facts(self) -> str:
        down = "" if self.planes.down is None else f"{self.names[self.planes.down]} ↓ "
        shape = "x".join(map(str, self.md.dims))
        axes = f"{down}{self.names[self.planes.across]} →"
        return f"{counted(self.md.nelems, 'element')}, {shape}; {axes}"

    def _label(self, panel: Plane) -> str:
        pairs = zip(self.planes.outer, panel.outer, strict=True)
        return " ".join(f"{self.names[d]}{i}" for d, i in pairs)

    def _plane(self, panel: Plane, x: float, y: float) -> None:
        self.drawing.text(x, y, self._label(panel), fill=FAINT, size=11)
        self.drawing.open_cells()
        for row, down in zip(panel.rows, self.ys, strict=True):
            for index, across in zip(row, self.xs, strict=True):
                self._cell(index, Rectangle(x + across, y + 10 + down, self.cell_width, _HEIGHT))
        self.drawing.close()

    def _places(self, panel: Plane) -> tuple[list[float], list[float]]:
        """Where the columns and the rows of a plane begin."""
        down, across = self.planes.down, self.planes.across
        rows = [0] if down is None else [row[0][down] for row in panel.rows]
        return _spread([index[across] for index in panel.rows[0]], self.cell_width), _spread(rows, _HEIGHT)

    def _cell(self, index: tuple[int, ...], box: Rectangle) -> None:
        offsets = [md.offset(*index) for md in self.sides]
        data = f' data-i="{",".join(map(str, index))}"{_data_at(index, self.sides)}'
        places = ", then ".join(f"element {o}" for o in offsets)
        words = f"({', '.join(map(str, index))}) at {places}"
        fill = hsl(self.palette.hue(index))
        self.drawing.cell(box, str(index[self.planes.across]), fill=fill, tip=words, data=data)


def _spread(positions: Sequence[int], size: float) -> list[float]:
    """Where cells of that size begin; where positions are left out there is a gap."""
    places = [0.0]
    for before, after in pairwise(positions):
        places.append(places[-1] + size * (1 if after == before + 1 else 1.5))
    return places
