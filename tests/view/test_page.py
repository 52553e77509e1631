"""The interactive page: one file, escaped, and in a real browser it marks and steps as it should."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import restride as rs
from restride.view.page import page
from support.browser import browsed

_DIMS = (1, 17, 2, 2)
_BEFORE = (rs.MemoryDesc(_DIMS, "f32", "nchw"), "nchw")
_AFTER = (rs.MemoryDesc(_DIMS, "f32", "nChw16c"), "nChw16c")


class Tags(HTMLParser):
    """Counts what is opened and closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: Any) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("sides", [[_AFTER], [_BEFORE, _AFTER]], ids=["one", "two"])
def test_the_page_is_one_well_formed_file(sides: list[tuple[rs.MemoryDesc, str]]) -> None:
    text = page(sides)
    reader = Tags()
    reader.feed(text)
    assert reader.open == []
    assert {"main", "script", "style", "noscript"} <= reader.seen
    assert not re.findall(r"\b(?:src|href)\s*=|url\((?!#)|@import|https?://(?!www\.w3\.org/2000/svg)", text)


def test_what_is_typed_is_escaped() -> None:
    text = page([(_AFTER[0], "</title><script>alert(1)</script>")])
    assert "<script>alert" not in text


@pytest.mark.parametrize(
    "md",
    [rs.MemoryDesc(), rs.MemoryDesc((2, 3), "f32", "any"), rs.MemoryDesc((0, 3), "f32")],
    ids=["zero", "any", "empty"],
)
def test_descriptors_without_elements_have_a_page(md: rs.MemoryDesc) -> None:
    assert str(md) in page([(md, "")])


_HOVER = """
const hover = new MouseEvent("mouseover", {bubbles: true});
const point = (where) => document.querySelector(where).dispatchEvent(hover);
const press = (key) => document.dispatchEvent(new KeyboardEvent("keydown", {key}));
const placed = (cell) => [cell.closest("section").className, cell.dataset.o ?? ""];
const here = () => [...document.querySelectorAll(".here")].map(placed);
const said = () => document.getElementById("where").textContent;
const cellsOf = (n) => [...document.querySelectorAll("section")[n].querySelectorAll("td[data-i]")];
"""
_TEN = [
    ((20, 9, 1, 1), "OIhw4i16o4i"),
    ((1, 17, 2, 2), "nChw16c"),
    ((1, 8, 4, 5), "nhwc"),
    ((34, 20), "BA16a8b4a"),
    ((32, 20, 2, 1), "OIhw16i16o"),
    ((17, 30), "AB8b8a"),
    ((16, 9, 4), "ABc4c8b2a"),
    ((2, 4, 5, 2, 3), "gOIhw4o4i"),
    ((23,), "a"),
    ((2, 5, 2, 2, 3), "nCdhw4c"),
]


@pytest.mark.browser
@pytest.mark.parametrize(("dims", "tag"), _TEN)
def test_cells_lie_where_the_descriptor_says(tmp_path: Path, dims: tuple[int, ...], tag: str) -> None:
    script = _HOVER + (
        "for (let i = 0; i < 400; i++) document.querySelector('.gap')?.onclick();"
        "const told = (cell) => [cell.dataset.i, cell.dataset.o ?? '', cell.className];"
        "const gaps = document.querySelectorAll('.gap').length;"
        "return [cellsOf(0).map(told), cellsOf(1).map(told), gaps, faults];"
    )
    md = rs.MemoryDesc(dims, "f32", tag)
    tensor, memory, gaps, faults = browsed(tmp_path, page([(md, tag)]), script)
    assert faults == []
    assert gaps == 0
    assert [cell[0] for cell in tensor] == [",".join(map(str, i)) for i in np.ndindex(dims)]
    assert sorted(int(cell[1]) for cell in memory) == list(range(prod(md.padded_dims)))
    for position, offset, kind in memory:
        index = tuple(map(int, position.split(",")))
        assert md.index(int(offset)) == (None if "padding" in kind else index)


@pytest.mark.browser
def test_pointing_at_an_element_marks_its_place_before_and_after(tmp_path: Path) -> None:
    script = _HOVER + (
        "point('.tensor td[data-i=\"0,16,1,0\"]'); return [here(), said(), faults, location.protocol];"
    )
    marked, said, faults, _ = browsed(tmp_path, page([_BEFORE, _AFTER]), script)
    before, after = (md.offset(0, 16, 1, 0) for md, _ in (_BEFORE, _AFTER))
    assert marked == [["tensor", ""], ["memory", str(before)], ["memory", str(after)]]
    assert said == f"(n=0 c=16 h=1 w=0)   before: element {before}, byte {4 * before}   " + (
        f"after: element {after}, byte {4 * after}"
    )
    assert faults == []


@pytest.mark.browser
def test_pointing_at_padding_marks_it_alone(tmp_path: Path) -> None:
    script = _HOVER + "point('td.padding'); return [here(), said(), faults];"
    marked, said, faults = browsed(tmp_path, page([_BEFORE, _AFTER]), script)
    assert marked == [["memory", "65"]]
    assert said == "padding (n=0 c=17 h=0 w=0)   after: element 65, byte 260"
    assert faults == []


@pytest.mark.browser
def test_what_is_left_out_is_marked_and_opens_on_a_click(tmp_path: Path) -> None:
    script = _HOVER + (
        "point('.tensor td[data-i=\"0,0,0,0\"]');"
        "const memory = document.querySelectorAll('section')[1];"
        "const inner = [...document.querySelectorAll('.tensor td[data-i]')].find((cell) =>"
        '  !memory.querySelector(`[data-i="${cell.dataset.i}"]`));'
        "inner.dispatchEvent(hover);"
        "const hidden = [...memory.querySelectorAll('.here')].map((cell) => cell.className);"
        "for (let i = 0; i < 4; i++) memory.querySelector('.gap.here')?.onclick();"
        "const found = [...memory.querySelectorAll('.here')].map((cell) => [cell.dataset.i, cell.dataset.o]);"
        "return [inner.dataset.i, hidden, found, faults];"
    )
    md = rs.MemoryDesc((8, 256, 56, 56), "f32", "nhwc")
    index, hidden, found, faults = browsed(tmp_path, page([(md, "nhwc")]), script)
    assert hidden == ["gap here"]
    assert found == [[index, str(md.offset(*map(int, index.split(","))))]]
    assert faults == []


@pytest.mark.browser
def test_stepping_goes_through_memory_in_order(tmp_path: Path) -> None:
    script = _HOVER + (
        "const side = document.getElementById('side'); side.value = 1; side.onchange();"
        "const places = [];"
        "for (let i = 0; i < 20; i++) { document.getElementById('next').click(); places.push(said()); }"
        "press('ArrowLeft');"
        "const passed = document.querySelectorAll('section:last-child .passed').length;"
        "return [places, said(), passed, faults];"
    )
    places, back, passed, faults = browsed(tmp_path, page([_BEFORE, _AFTER]), script)
    offsets = [int(re.findall(r"after: element (\d+)", place)[0]) for place in places]
    assert offsets == list(range(1, 21))
    assert "after: element 19," in back
    assert passed == 19
    assert faults == []


@pytest.mark.browser
def test_keys_move_by_places_lines_and_to_the_ends(tmp_path: Path) -> None:
    script = _HOVER + (
        "const told = ['ArrowRight', 'ArrowDown', 'ArrowDown', 'ArrowUp', 'End', 'Home'].map((key) => {"
        "  press(key); return said();"
        "}); return [told, faults];"
    )
    md = rs.MemoryDesc((20, 9, 1, 1), "f32", "OIhw4i16o4i")
    told, faults = browsed(tmp_path, page([(md, "OIhw4i16o4i")]), script)
    offsets = [int(re.findall(r"element (\d+)", place)[0]) for place in told]
    assert offsets == [1, 4, 8, 7, 511, 0]
    assert faults == []


@pytest.mark.browser
def test_the_slider_reaches_every_place_of_a_large_memory(tmp_path: Path) -> None:
    script = _HOVER + (
        "const slider = document.getElementById('step');"
        "slider.value = 3000001; slider.oninput();"
        "return [slider.max, said(), here(), faults];"
    )
    md = rs.MemoryDesc((8, 256, 56, 56), "u8", "nChw16c")
    most, said, marked, faults = browsed(tmp_path, page([(md, "nChw16c")]), script)
    assert int(most) == md.size - 1
    assert ["memory", "3000001"] in marked
    assert "element 3000001, byte 3000001" in said
    assert "n={} c={} h={} w={}".format(*(md.index(3000001) or ())) in said
    assert faults == []


@pytest.mark.browser
def test_offsets_beyond_exact_numbers_are_exact(tmp_path: Path) -> None:
    script = _HOVER + "return [cellsOf(1).at(-1).dataset.o, cellsOf(1).at(-1).dataset.i, faults];"
    md = rs.MemoryDesc((2**62 - 1,), "u8")
    assert browsed(tmp_path, page([(md, "a")]), script) == [str(2**62 - 2), str(2**62 - 2), []]


@pytest.mark.browser
def test_before_and_after_are_side_by_side_and_scroll_to_what_is_pointed_at(tmp_path: Path) -> None:
    script = _HOVER + (
        "const box = (of) => of.getBoundingClientRect();"
        "const sides = [...document.querySelectorAll('section')].map(box);"
        "point('.tensor td[data-i=\"0,16,1,1\"]');"
        "const seen = [...document.querySelectorAll('.here')].map((cell) => {"
        "  const at = box(cell), pane = box(cell.closest('section'));"
        "  const inside = (from, to) => at[from] >= pane[from] && at[to] <= pane[to];"
        "  return inside('top', 'bottom') && inside('left', 'right');"
        "});"
        "return [sides.map((side) => side.top), sides.map((side) => side.right), seen, innerWidth, faults];"
    )
    text = page([_BEFORE, _AFTER])
    tops, rights, seen, width, faults = browsed(tmp_path, text, script, "--window-size=1200,500")
    assert len(set(tops)) == 1
    # The panes use the whole width.
    assert width - 50 < max(rights) <= width
    # The first is pointed at, and does not move.
    assert seen[1:] == [True, True]
    assert faults == []


@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "is_dark"), [(0, True), (1, False)], ids=["dark", "light"])
def test_letters_stand_out_from_the_paper_in_the_colors_of_the_desktop(
    tmp_path: Path, scheme: int, is_dark: bool
) -> None:
    script = (
        "const parts = (color) => color.match(/\\d+/g).slice(0, 3).map(Number);"
        "const light = (color) => parts(color).reduce((a, b) => a + b) / 765;"
        "const style = (where, of) => light(getComputedStyle(document.querySelector(where))[of]);"
        "return [style('body', 'backgroundColor'), style('td.element', 'backgroundColor'),"
        "  style('td.element', 'color'), style('h1', 'color'), style('figcaption .place', 'color')];"
    )
    text = page([_BEFORE, _AFTER])
    paper, cell, inside, heading, faint = browsed(
        tmp_path, text, script, f"--blink-settings=preferredColorScheme={scheme}"
    )
    assert (paper < 0.2) == is_dark
    assert abs(inside - cell) > 0.5
    assert abs(heading - paper) > 0.6
    assert abs(faint - paper) > 0.4
