"""Grids for the layout algebra: the offset at each coordinate, the bank or line of each lane of a walk."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from ..layouts.accesses import Accesses
from ..layouts.functions import LayoutFunction, size_of, to_text
from ..layouts.layout import Layout
from .drawing import FAINT, LETTER, Drawing, Rectangle, hsl
from .names import counted
from .palette import Palette

_ROWS, _COLUMNS, _TEXT_WIDTH = 64, 64, 96
_HEIGHT = 20


class _OffsetGrid(NamedTuple):
    """The rows and columns of a layout, with the first mode down."""

    layout: LayoutFunction
    rows: int
    columns: int

    @classmethod
    def of(cls, layout: LayoutFunction) -> _OffsetGrid:
        """Return the grid; a layout without modes, or of one integer, is one row."""
        rows = size_of(layout.shape[0]) if isinstance(layout.shape, tuple) and layout.shape else 1
        return cls(layout, rows, layout.size // rows)

    def offsets(self, rows: int, columns: int) -> list[list[int]]:
        """Return the offsets of the first rows and columns."""
        at = self.layout._map
        return [[int(at(i + j * self.rows)) for j in range(columns)] for i in range(rows)]


def grid_text(layout: LayoutFunction) -> str:
    """Return the offsets as CuTe prints them, with ASCII rules; large layouts in part."""
    grid = _OffsetGrid.of(layout)
    rows, columns = min(grid.rows, _ROWS), min(grid.columns, _COLUMNS)
    offsets = grid.offsets(rows, columns)
    width = max(len(str(offset)) for row in offsets for offset in row)
    columns = max(1, min(columns, _TEXT_WIDTH // (width + 3)))
    more = " ..." if columns < grid.columns else ""
    side = len(str(rows - 1))
    rule = " " * (side + 1) + "+" + f"{'-' * (width + 2)}+" * columns
    heads = "".join(f" {j:>{width + 1}} " for j in range(columns))
    lines = [_title(layout), f"{' ' * (side + 1)}{heads}{more}", rule]
    for i, row in enumerate(offsets):
        cells = "".join(f" {offset:>{width}} |" for offset in row[:columns])
        lines += [f"{i:>{side}} |{cells}{more}", rule]
    return "\n".join([*lines, *(["..."] if rows < grid.rows else [])])


def grid_svg(layout: LayoutFunction) -> str:
    """Return the grid as one SVG element."""
    grid = _OffsetGrid.of(layout)
    offsets = grid.offsets(min(grid.rows, _ROWS), min(grid.columns, _COLUMNS))
    drawing = Drawing()
    drawing.text(0, 8, _title(layout), size=14, font_weight="bold")
    drawing.text(0, 30, f"{counted(layout.size, 'element')}, offset by coordinate", fill=FAINT)

    def tip(i: int, j: int) -> str:
        coordinate = to_text(layout.coordinate(i + j * grid.rows))
        return f"{coordinate} at offset {offsets[i][j]}"

    right, bottom = _cells(drawing, offsets, tip)
    _dots(drawing, right, bottom, grid.rows > _ROWS, grid.columns > _COLUMNS)
    return drawing.document(f"Offsets of {layout}")


def _title(layout: LayoutFunction) -> str:
    names = layout.names if isinstance(layout, Layout) else ()
    return f"{layout}  {', '.join(names)}".rstrip()


def accesses_svg(accesses: Accesses) -> str:
    """Return the bank or line of each lane as one SVG element: requests down, lanes across."""
    drawing = Drawing()
    unit = accesses.unit
    word = "pass" if unit == "bank" else unit
    drawing.text(0, 8, f"The {unit} of each lane", size=14, font_weight="bold")
    facts = f"{_amount(accesses.total, word)} in {counted(len(accesses.counts), 'request')}"
    drawing.text(0, 30, f"{facts}, {accesses.efficiency:.0%} efficient", fill=FAINT)
    units = [row[:_COLUMNS] for row in accesses.units[:_ROWS]]
    right, bottom = _cells(drawing, units, lambda i, j: f"request {i}, lane {j}: {unit} {units[i][j]}")
    for i, count in enumerate(accesses.counts[:_ROWS]):
        drawing.text(right + 12, _top(i) + _HEIGHT / 2, _amount(count, word), fill=FAINT)
    _dots(drawing, right, bottom, len(accesses.units) > _ROWS, False)
    return drawing.document(f"{unit} of each lane")


def _amount(number: int, word: str) -> str:
    return f"{number} passes" if word == "pass" and number != 1 else counted(number, word)


def _top(row: int) -> float:
    return 64.0 + row * _HEIGHT


def _cells(
    drawing: Drawing, numbers: Iterable[Iterable[int]], tip: Callable[[int, int], str]
) -> tuple[float, float]:
    """Draw numbers in colored cells with row and column numbers; return the right and lower edges."""
    table = [list(row) for row in numbers]
    palette = Palette(0, max(1, *(number + 1 for row in table for number in row)))
    width = max(22.0, max(len(str(number)) for row in table for number in row) * LETTER + 8)
    left = len(str(len(table) - 1)) * LETTER + 8
    for i in range(len(table)):
        drawing.text(left - 6, _top(i) + _HEIGHT / 2, str(i), anchor="end", fill=FAINT)
    for j in range(len(table[0])):
        drawing.text(left + (j + 0.5) * width, _top(0) - 10, str(j), anchor="middle", fill=FAINT)
    drawing.open_cells()
    for i, row in enumerate(table):
        for j, number in enumerate(row):
            box = Rectangle(left + j * width, _top(i), width, _HEIGHT)
            drawing.cell(box, str(number), fill=hsl(palette.hue((number,))), tip=tip(i, j))
    drawing.close()
    return left + len(table[0]) * width, _top(len(table))


def _dots(drawing: Drawing, right: float, bottom: float, has_rows: bool, has_columns: bool) -> None:
    """Draw dots for omitted rows and columns."""
    if has_rows:
        drawing.text(20, bottom + 8, "⋮", fill=FAINT)
    if has_columns:
        drawing.text(right + 8, _top(0) + _HEIGHT / 2, "…", fill=FAINT)
