"""What a picture of a layout shows: cells of memory from low offsets to high, and cells of the tensor.

Both are bounded: of large layouts the first positions of every level are kept and, as far as that goes, the
last, where padding lies.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

from ..desc.memory_desc import MemoryDesc
from .walk import Walk, WalkLine, budget, some

ELEMENT, PADDING, BEYOND = "element", "padding", "beyond"


class Cell(NamedTuple):
    """A place in memory: its offset in elements, the position that lies there, and what that is.

    `"padding"` lies behind the tensor's end in its last block; `"beyond"` belongs to the neighbours of a
    submemory that ends inside a block.
    """

    offset: int
    position: tuple[int, ...]
    kind: str


class MemoryLine(NamedTuple):
    """One line of memory; None among the cells stands for those left out."""

    line: WalkLine
    ends_block: bool
    is_apart: bool
    cells: tuple[Cell | None, ...]


@dataclass(frozen=True, slots=True)
class MemoryScene:
    """The lines of memory that a picture shows, and the axis that runs along them."""

    runs: tuple[MemoryLine, ...]
    axis: int
    step: int


class Planes(NamedTuple):
    """How a tensor is cut into planes: the axes that run `down` and `across` each, and the `outer` ones.

    A vector has no axis that runs down: None.
    """

    down: int | None
    across: int
    outer: tuple[int, ...]

    @classmethod
    def of(cls, md: MemoryDesc) -> Planes:
        """The last two axes of more than one position; where there are none, the last two."""
        by_choice = sorted(range(md.ndims), key=lambda d: (md.dims[d] > 1, d))
        across = by_choice[-1]
        down = by_choice[-2] if md.ndims > 1 else None
        if down is not None and down > across:
            down, across = across, down
        return cls(down, across, tuple(d for d in range(md.ndims) if d not in (down, across)))


class Plane(NamedTuple):
    """One plane: where it lies along the outer axes, and the indices of its rows."""

    outer: tuple[int, ...]
    rows: tuple[tuple[tuple[int, ...], ...], ...]


def memory(md: MemoryDesc, lines: int, cells: int) -> MemoryScene:
    """About `lines` lines of about `cells` cells of a layout that has elements."""
    walk = Walk.over(md.layout)
    runs = tuple(_run(md, walk, line, cells) for line in walk.lines(lines))
    return MemoryScene(runs, walk.row.axis, walk.row.stride if walk.row.extent > 1 else 1)


def _run(md: MemoryDesc, walk: Walk, line: WalkLine, cells: int) -> MemoryLine:
    row = walk.row
    found: list[Cell | None] = [_cell(md, walk, line, digit) for digit in some(row.extent, cells)]
    if len(found) < row.extent:
        found.insert(-1, None)
    changed = line.changed
    ends_block = changed is not None and walk.is_block[changed]
    is_apart = changed is not None and changed < len(walk.outer) - 1
    return MemoryLine(line, ends_block, is_apart, tuple(found))


def _cell(md: MemoryDesc, walk: Walk, line: WalkLine, digit: int) -> Cell:
    place = list(line.position)
    place[walk.row.axis] += digit * walk.row.weight
    position = tuple(place)
    return Cell(line.offset + digit * walk.row.stride, position, kind_of(md, position))


def kind_of(md: MemoryDesc, position: tuple[int, ...]) -> str:
    """Whether a position is an element, padding, or a neighbour of a submemory."""
    if any(i >= n for i, n in zip(position, md.padded_dims, strict=True)):
        return BEYOND
    inside = all(i < n for i, n in zip(position, md.dims, strict=True))
    return ELEMENT if inside else PADDING


def panels(md: MemoryDesc, side: int, most: int) -> Iterator[Plane]:
    """The tensor as its indices order it, in planes of at most `side` by `side` elements.

    As many planes as `most` elements allow, one at least.
    """
    planes = Planes.of(md)
    rows = [0] if planes.down is None else some(md.dims[planes.down], side)
    columns = some(md.dims[planes.across], side)
    outer = [md.dims[d] for d in planes.outer]
    kept = budget(outer, max(1, most // (len(rows) * len(columns))))
    for digits in product(*(some(n, k) for n, k in zip(outer, kept, strict=True))):
        known = dict(zip(planes.outer, digits, strict=True))
        yield Plane(digits, tuple(tuple(_index(md, planes, known, i, j) for j in columns) for i in rows))


def _index(md: MemoryDesc, planes: Planes, outer: dict[int, int], row: int, column: int) -> tuple[int, ...]:
    known = {**outer, planes.across: column}
    return tuple(known.get(d, row) for d in range(md.ndims))
