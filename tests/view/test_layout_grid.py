"""Grids of layouts and of accesses, as text and as SVG."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import pytest

from restride.layouts import Layout, LinearLayout, Swizzle, bank_conflicts, cache_lines
from support.golden import Golden


def test_a_grid_is_printed_as_cute_prints_it(capsys: pytest.CaptureFixture[str], golden: Golden) -> None:
    for layout in (
        Layout("((2,2),3):((1,6),2)", names=("m", "k")),
        Swizzle(2, 0, 2).compose("(4,4):(4,1)"),
        LinearLayout([1, 3, 5], (2, 4)),
        Layout("3:-1"),
        Layout("():()"),
        Layout("(100,100)"),
    ):
        layout.show()
    golden.check("layout-grids.txt", capsys.readouterr().out)


@pytest.mark.parametrize("text", ["((4,2),8):((1,16),2)", "(100,100)", "5:-2", "():()", "(2,3,4)"])
def test_the_svg_has_a_cell_for_each_coordinate(text: str) -> None:
    layout = Layout(text)
    root = ET.fromstring(layout.svg())
    tips = [title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert len(tips) == min(layout.size, 64 * 64)
    assert f"at offset {layout(0)}" in tips[0]
    assert layout._repr_svg_() == layout.svg()


def test_names_are_escaped() -> None:
    ET.fromstring(Layout((2, 2), names=("<b>", "&")).svg())


def test_accesses_are_drawn_by_lane() -> None:
    for found, words in (
        (bank_conflicts("(8,2):(32,1)"), "8 passes"),
        (cache_lines("(16,200):(16,1)"), "16 lines"),
    ):
        root = ET.fromstring(found.svg())
        texts = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
        assert words in texts
