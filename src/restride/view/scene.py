"""The content of a picture of memory: cells from low offsets to high, in lines, groups and blocks.

It is bounded: omitted parts of large layouts look like those shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..desc.memory_desc import MemoryDesc
from .walk import Walk, WalkLine, gaps

ELEMENT, PADDING, BEYOND = "element", "padding", "beyond"


class Cell(NamedTuple):
    """A place in memory: its offset in elements, its position in the tensor, and its kind.

    `"padding"` is after the tensor's end in its last block; `"beyond"` belongs to the neighbors of a
    submemory that ends inside a block.
    """

    offset: int
    position: tuple[int, ...]
    kind: str


class MemoryLine(NamedTuple):
    """One line of memory, in groups of cells; None stands for omitted groups or cells."""

    line: WalkLine
    ends_block: bool
    is_apart: bool
    groups: tuple[tuple[Cell | None, ...] | None, ...]


@dataclass(frozen=True, slots=True)
class MemoryScene:
    """The lines of memory that a picture shows, and the axis that runs along them.

    `step` is the distance of two neighbors in elements; `names` are those of the groups, if there are
    several.
    """

    lines: tuple[MemoryLine, ...]
    axis: int
    step: int
    names: tuple[str, ...]


def memory(md: MemoryDesc, names: str, lines: int, cells: int) -> MemoryScene:
    """Return about `lines` lines of about `cells` cells of a non-empty layout."""
    walk = Walk.over(md.layout)
    row = walk.row.levels[0]
    columns = gaps(walk.row.kept(cells))
    groups = gaps(walk.groups.kept(cells // len(columns)))
    scene_lines = tuple(_line(md, walk, line, groups, columns) for line in walk.lines(lines))
    step = row.stride if row.extent > 1 else 1
    several = ("" if group is None else walk.group_name(group, names) for group in groups)
    return MemoryScene(scene_lines, row.axis, step, tuple(several) if len(groups) > 1 else ())


def _line(
    md: MemoryDesc, walk: Walk, line: WalkLine, groups: list[int | None], columns: list[int | None]
) -> MemoryLine:
    changed = line.changed
    ends_block = changed is not None and changed < len(walk.outer) and walk.is_block[changed]
    is_apart = changed is not None and changed < len(walk.down) - 1
    return MemoryLine(
        line,
        ends_block,
        is_apart,
        tuple(None if group is None else _group(md, walk, line, group, columns) for group in groups),
    )


def _group(
    md: MemoryDesc, walk: Walk, line: WalkLine, group: int, columns: list[int | None]
) -> tuple[Cell | None, ...]:
    start, place = line.offset + walk.group_offset(group), walk.in_group(line.position, group)
    return tuple(None if column is None else _cell(md, walk, start, place, column) for column in columns)


def _cell(md: MemoryDesc, walk: Walk, offset: int, place: tuple[int, ...], digit: int) -> Cell:
    row = walk.row.levels[0]
    coordinate = place[row.axis] + digit * row.weight
    position = (*place[: row.axis], coordinate, *place[row.axis + 1 :])
    return Cell(offset + digit * row.stride, position, kind_of(md, position))


def kind_of(md: MemoryDesc, position: tuple[int, ...]) -> str:
    """Return the kind of a position: an element, padding, or a neighbor of a submemory."""
    if any(i >= n for i, n in zip(position, md.padded_dims, strict=True)):
        return BEYOND
    inside = all(i < n for i, n in zip(position, md.dims, strict=True))
    return ELEMENT if inside else PADDING
