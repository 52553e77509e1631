"""Pictures: each cell stands for the element that lies there, in the order of memory, escaped and bounded."""

from __future__ import annotations

import re
from collections import Counter
from math import prod
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

import restride as rs
from restride.cli.main import main
from restride.view.scene import Planes, panels
from restride.view.svg import svg, svg_pair, tensor_svg

_SVG = "{http://www.w3.org/2000/svg}"
_LAYOUTS = [
    ((1, 17, 2, 2), "nChw16c"),
    ((20, 9, 2, 1), "OIhw4i16o4i"),
    ((3, 4, 5), "cab"),
    ((5,), "a"),
    ((2, 2, 2, 2, 2), "edcba"),
]


def cells(picture: str) -> list[Element]:
    return [found for found in ElementTree.fromstring(picture).iter(f"{_SVG}g") if "data-i" in found.attrib]


def index_of(cell: Element) -> tuple[int, ...]:
    return tuple(map(int, cell.attrib["data-i"].split(",")))


@pytest.mark.parametrize(("dims", "tag"), _LAYOUTS)
def test_cells_are_in_the_order_of_memory_and_tell_what_lies_there(dims: tuple[int, ...], tag: str) -> None:
    md = rs.MemoryDesc(dims, "f32", tag)
    found = cells(svg(md, tag=tag))
    offsets = [int(cell.attrib["data-o"]) for cell in found]
    assert offsets == sorted(offsets)
    assert (offsets[0], offsets[-1]) == (0, prod(md.padded_dims) - 1)
    for cell, offset in zip(found, offsets, strict=True):
        index = md.index(offset)
        assert cell.get("data-kind") == ("padding" if index is None else None)
        assert index is None or index == index_of(cell)
        assert f"element {offset}, byte {4 * offset}" in str(cell.findtext(f"{_SVG}title"))


def test_a_small_picture_is_whole_and_hatches_its_padding() -> None:
    md = rs.MemoryDesc((1, 17, 2, 2), "f32", "nChw16c")
    kinds = Counter(cell.get("data-kind") for cell in cells(svg(md)))
    assert kinds == {None: 68, "padding": 60}
    hatched = [cell for cell in cells(svg(md)) if "url(#hatch-" in str(cell.find(f"{_SVG}rect").attrib)]  # type: ignore[union-attr]
    assert len(hatched) == 60


def test_an_element_keeps_its_colour_in_every_layout() -> None:
    def fills(tag: str) -> dict[str, str]:
        found = cells(svg(rs.MemoryDesc((2, 5, 3, 2), "f32", tag)))
        return {cell.attrib["data-i"]: cell.find(f"{_SVG}rect").attrib["fill"] for cell in found}  # type: ignore[union-attr]

    assert fills("nchw") == fills("nhwc")
    assert len(set(fills("nchw").values())) == 5


def test_pictures_side_by_side_are_one_picture() -> None:
    dims = (2, 3, 2, 2)
    sides = [(rs.MemoryDesc(dims, "f32", tag), tag) for tag in ("nchw", "nhwc")]
    both = svg_pair(sides[0], sides[1])
    assert Counter(index_of(cell) for cell in cells(both)).most_common(1)[0][1] == 2
    assert both.count("<svg ") == 1


_PICTURES = Path(__file__).parents[1] / "docs" / "pictures"
# The last word of each command is the file that it writes.
_COMMANDS = re.findall(r"^restride (.*)$", (_PICTURES / "draw.sh").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("command", _COMMANDS)
def test_the_pictures_of_the_documents_are_what_is_drawn(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    *words, name = command.split()
    assert main([*words, str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_text() == (_PICTURES / name).read_text()


def test_every_picture_of_the_documents_is_drawn_by_a_command() -> None:
    assert {path.name for path in _PICTURES.iterdir()} - {"draw.sh"} == {c.split()[-1] for c in _COMMANDS}


def test_text_in_pictures_is_escaped() -> None:
    picture = svg(rs.MemoryDesc((2, 3), "f32"), tag="<b>&\"'")
    ElementTree.fromstring(picture)
    assert "<b>" not in picture


def test_the_tensor_is_drawn_in_logical_order_with_the_offsets_of_all_sides() -> None:
    dims = (2, 3, 2, 2)
    sides = [rs.MemoryDesc(dims, "f32", tag) for tag in ("nchw", "nhwc")]
    found = cells(tensor_svg(sides, "nchw", width=420))
    assert [index_of(cell) for cell in found] == sorted(index_of(cell) for cell in found)
    assert len(found) == prod(dims)
    for cell in found:
        assert cell.attrib["data-at"] == " ".join(str(md.offset(*index_of(cell))) for md in sides)


def test_planes_are_of_the_axes_that_have_something_to_show() -> None:
    assert Planes.of(rs.MemoryDesc((20, 9, 1, 1), "f32")) == (0, 1, (2, 3))
    assert Planes.of(rs.MemoryDesc((1, 17, 2, 2), "f32")) == (2, 3, (0, 1))
    assert Planes.of(rs.MemoryDesc((7,), "f32")) == (None, 0, ())
    assert Planes.of(rs.MemoryDesc((7, 1), "f32")) == (0, 1, ())


@pytest.mark.parametrize(
    "dims", [(2**20, 2**15, 2**10), (2**40,), (2,) * 12], ids=["cube", "vector", "ranks"]
)
def test_pictures_of_huge_tensors_are_small(dims: tuple[int, ...]) -> None:
    md = rs.MemoryDesc(dims, "u8")
    assert sum(len(row) for panel in panels(md, 16, 1024) for row in panel.rows) <= 1024
    assert len(cells(svg(md))) <= 32 * 33
