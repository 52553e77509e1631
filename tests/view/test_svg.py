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
from restride.view.drawing import LETTER
from restride.view.svg import svg, svg_pair

_SVG = "{http://www.w3.org/2000/svg}"
_LAYOUTS = [
    ((1, 17, 2, 2), "nChw16c"),
    ((20, 9, 2, 1), "OIhw4i16o4i"),
    ((3, 4, 5), "cab"),
    ((5,), "a"),
    ((2, 2, 2, 2, 2), "edcba"),
]


def cells(picture: str) -> list[Element]:
    return [found for found in ElementTree.fromstring(picture).iter(f"{_SVG}g") if tip_of(found)]


def tip_of(cell: Element) -> str:
    return cell.findtext(f"{_SVG}title") or ""


def index_of(cell: Element) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", tip_of(cell).partition(")")[0])))


def offset_of(cell: Element) -> int:
    return int(re.findall(r"element (\d+)", tip_of(cell))[0])


@pytest.mark.parametrize(("dims", "tag"), _LAYOUTS)
def test_cells_are_in_the_order_of_memory_and_tell_what_lies_there(dims: tuple[int, ...], tag: str) -> None:
    md = rs.MemoryDesc(dims, "f32", tag)
    found = cells(svg(md, tag=tag))
    offsets = [offset_of(cell) for cell in found]
    # Of nested blocks, lines hold groups that lie apart.
    assert len(md.inner_blks) > 2 or offsets == sorted(offsets)
    assert (min(offsets), max(offsets)) == (0, prod(md.padded_dims) - 1)
    assert len(set(offsets)) == len(offsets)
    for cell, offset in zip(found, offsets, strict=True):
        index = md.index(offset)
        assert tip_of(cell).startswith("padding ") == (index is None)
        assert index is None or index == index_of(cell)
        assert tip_of(cell).endswith(f"at element {offset}, byte {4 * offset}")


def test_a_small_picture_is_whole_and_hatches_its_padding() -> None:
    md = rs.MemoryDesc((1, 17, 2, 2), "f32", "nChw16c")
    kinds = Counter(tip_of(cell).startswith("padding") for cell in cells(svg(md)))
    assert kinds == {False: 68, True: 60}
    hatched = [cell for cell in cells(svg(md)) if "url(#hatch-" in str(cell.find(f"{_SVG}rect").attrib)]  # type: ignore[union-attr]
    assert len(hatched) == 60


def test_an_element_keeps_its_color_in_every_layout() -> None:
    def fills(tag: str) -> dict[str, str]:
        found = cells(svg(rs.MemoryDesc((2, 5, 3, 2), "f32", tag)))
        return {str(index_of(cell)): cell.find(f"{_SVG}rect").attrib["fill"] for cell in found}  # type: ignore[union-attr]

    assert fills("nchw") == fills("nhwc")
    assert len(set(fills("nchw").values())) == 5


def test_pictures_side_by_side_are_one_picture() -> None:
    dims = (2, 3, 2, 2)
    sides = [(rs.MemoryDesc(dims, "f32", tag), tag) for tag in ("nchw", "nhwc")]
    both = svg_pair(sides[0], sides[1])
    assert Counter(index_of(cell) for cell in cells(both)).most_common(1)[0][1] == 2
    assert both.count("<svg ") == 1


_PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
# The last word of each command is the file that it writes.
_SCRIPT = (_PICTURES / "draw.sh").read_text(encoding="utf-8")
_COMMANDS = re.findall(r"^restride (.*)$", _SCRIPT, re.MULTILINE)
# Pictures of layouts that have no command.
_LAYOUTS = re.findall(r"^python -c '(.*)' >(\S+)$", _SCRIPT, re.MULTILINE)


@pytest.mark.parametrize("command", _COMMANDS)
def test_the_pictures_of_the_documents_are_what_is_drawn(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    *words, name = command.split()
    assert main([*words, str(tmp_path / name)]) == 0
    assert (tmp_path / name).read_text() == (_PICTURES / name).read_text()


@pytest.mark.parametrize(("code", "name"), _LAYOUTS, ids=[name for _, name in _LAYOUTS])
def test_the_pictures_of_layouts_are_what_is_drawn(
    code: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    exec(code, {})
    assert capsys.readouterr().out == (_PICTURES / name).read_text()


def test_every_picture_of_the_documents_is_drawn_by_a_command() -> None:
    drawn = {c.split()[-1] for c in _COMMANDS} | {name for _, name in _LAYOUTS}
    assert {path.name for path in _PICTURES.iterdir()} - {"draw.sh"} == drawn


def test_text_in_pictures_is_escaped() -> None:
    picture = svg(rs.MemoryDesc((2, 3), "f32"), tag="<b>&\"'")
    ElementTree.fromstring(picture)
    assert "<b>" not in picture


@pytest.mark.parametrize(
    "dims", [(2**20, 2**15, 2**10), (2**40,), (2,) * 12], ids=["cube", "vector", "ranks"]
)
def test_pictures_of_huge_tensors_are_small(dims: tuple[int, ...]) -> None:
    assert len(cells(svg(rs.MemoryDesc(dims, "u8")))) <= 32 * 33


@pytest.mark.parametrize(
    ("dims", "tag"), [((1, 4, 56, 56), "nChw4c"), ((2, 20, 40, 40), "nChw16c"), ((1, 2, 99, 9), "nChw2c")]
)
def test_words_for_what_is_left_out_stay_off_the_outline(dims: tuple[int, ...], tag: str) -> None:
    root = ElementTree.fromstring(svg(rs.MemoryDesc(dims, "f32", tag), tag=tag))
    frames = [float(each.attrib["x"]) for each in root.iter(f"{_SVG}rect") if each.get("stroke-width") == "2"]
    words = [each for each in root.iter(f"{_SVG}text") if (each.text or "").startswith("⋮")]
    assert frames
    assert words
    for each in words:
        start = float(each.attrib["x"])
        assert start > frames[0] or start + len(each.text or "") * LETTER < frames[0]


def test_every_level_of_nested_blocks_is_drawn() -> None:
    md = rs.MemoryDesc((20, 9, 1, 1), "f32", "OIhw4i16o4i")
    picture = svg(md, tag="OIhw4i16o4i")
    assert [offset_of(cell) for cell in cells(picture)[:16]] == [
        block + i for block in (0, 64, 128, 192) for i in range(4)
    ]
    assert len(cells(picture)) == 512
    assert "+192</text>" in picture
