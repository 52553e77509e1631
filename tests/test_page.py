"""The interactive page: one file, escaped, and in a real browser it marks and steps as it should."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

import restride as rs
from restride.view.page import page

_DIMS = (1, 17, 2, 2)
_BEFORE = (rs.MemoryDesc(_DIMS, "f32", "nchw"), "nchw")
_AFTER = (rs.MemoryDesc(_DIMS, "f32", "nChw16c"), "nChw16c")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


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
    assert {"svg", "script", "style"} <= reader.seen
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


def browsed(tmp_path: Path, text: str, script: str, *more: str) -> Any:
    """What `script`, the body of a function, returns in a browser, with options `more`, that has the page."""
    browser = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if browser is None:
        pytest.skip(f"no browser: none of {', '.join(_BROWSERS)} is installed")
    # Faults are gathered before the page's own script runs, the answer is written after it.
    faults = "<script>window.faults = []; addEventListener('error', (e) => faults.push(e.message));</script>"
    told = f"document.getElementById('answer').textContent = JSON.stringify((() => {{{script}}})());"
    probed = text.replace("<head>", f"<head>{faults}")
    file = tmp_path / "page.html"
    file.write_text(probed.replace("</body>", f"<pre id='answer'></pre><script>{told}</script></body>"))
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path / 'profile'}",
        *more,
    ]
    command = [browser, *options, "--dump-dom", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    (answer,) = re.findall(r'<pre id="answer">(.*?)</pre>', done.stdout, re.DOTALL)
    return json.loads(answer)


_HOVER = """
const hover = new MouseEvent("mouseover", {bubbles: true});
const point = (where) => document.querySelector(where).dispatchEvent(hover);
const placed = (cell) => [cell.closest("section").className, cell.dataset.o ?? ""];
const here = () => [...document.querySelectorAll(".here")].map(placed);
const said = () => document.getElementById("where").textContent;
"""


@pytest.mark.browser
def test_pointing_at_an_element_marks_its_place_before_and_after(tmp_path: Path) -> None:
    script = _HOVER + (
        "point('.tensor g[data-i=\"0,16,1,0\"] rect'); return [here(), said(), faults, location.protocol];"
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
    script = _HOVER + "point('[data-kind=padding] rect'); return [here(), said(), faults];"
    marked, said, faults = browsed(tmp_path, page([_BEFORE, _AFTER]), script)
    assert marked == [["memory", "65"]]
    assert said == "padding (n=0 c=17 h=0 w=0)   after: element 65, byte 260"
    assert faults == []


@pytest.mark.browser
def test_stepping_goes_through_memory_in_order(tmp_path: Path) -> None:
    script = _HOVER + (
        "const side = document.getElementById('side'); side.value = 1; side.onchange();"
        "const places = [];"
        "for (let i = 0; i < 20; i++) { document.getElementById('next').click(); places.push(said()); }"
        "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowLeft'}));"
        "const passed = document.querySelectorAll('[data-side=\"1\"] .passed').length;"
        "return [places, said(), passed, faults];"
    )
    places, back, passed, faults = browsed(tmp_path, page([_BEFORE, _AFTER]), script)
    offsets = [int(re.findall(r"after: element (\d+)", place)[0]) for place in places]
    assert offsets == list(range(1, 21))
    assert "after: element 19," in back
    assert passed == 19
    assert faults == []


@pytest.mark.browser
def test_before_and_after_are_side_by_side_and_scroll_to_what_is_pointed_at(tmp_path: Path) -> None:
    script = _HOVER + (
        "const box = (of) => of.getBoundingClientRect();"
        "const sides = [...document.querySelectorAll('section')].map(box);"
        "point('.tensor g[data-i=\"0,16,1,1\"] rect');"
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
    assert max(rights) <= width
    # The first is pointed at, and does not move.
    assert seen[1:] == [True, True]
    assert faults == []


@pytest.mark.browser
@pytest.mark.parametrize(("scheme", "is_dark"), [(0, True), (1, False)], ids=["dark", "light"])
def test_letters_stand_out_from_the_paper_in_the_colours_of_the_desktop(
    tmp_path: Path, scheme: int, is_dark: bool
) -> None:
    script = _HOVER + (
        "const parts = (colour) => colour.match(/\\d+/g).slice(0, 3).map(Number);"
        "const light = (colour) => parts(colour).reduce((a, b) => a + b) / 765;"
        "const style = (where, of) => light(getComputedStyle(document.querySelector(where))[of]);"
        "return [style('body', 'backgroundColor'), style('svg > rect', 'fill'),"
        "  style('.memory .cells > text', 'fill'),"
        "  style('.cells g[data-i]:not([data-kind]) text', 'fill'), style('h1', 'color')];"
    )
    text = page([_BEFORE, _AFTER])
    body, paper, label, inside, heading = browsed(
        tmp_path, text, script, f"--blink-settings=preferredColorScheme={scheme}"
    )
    assert (body < 0.2, paper < 0.2) == (is_dark, is_dark)
    assert abs(label - paper) > 0.4
    assert abs(heading - body) > 0.6
    # Letters in cells stand on light colours in both.
    assert inside < 0.2
