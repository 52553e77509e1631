"""The page of a network: a row for every step and reorder, lanes apart, one file that is well formed."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import restride as rs
from restride.graph.formats.node_formats import format_problem
from restride.graph.formats.propagation import RULES, propagate
from restride.view.network_page import NetworkPicture, network_page
from restride.view.network_rows import MeasuredTimes, NetworkRow, network_rows, with_lanes

_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
_RELU = rs.graph.EltwiseOperation("eltwise_relu")


class _OpenTags(HTMLParser):
    """Return tags that are opened and not closed; tags of SVG may close themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def _convolution(builder, x, outputs, groups=1, name=""):
    shape = (outputs // groups, builder.type(x).dims[1] // groups, 3, 3)
    weights = builder.constant(np.zeros(shape if groups == 1 else (groups, *shape), np.float32))
    window = rs.graph.ConvolutionOperation((1, 1), (0, 0), (1, 1), (1, 1), groups)
    return builder.add(window, x, weights, name=name)


def _graph(name="first"):
    """Two branches that choose, a join, and a view at the end."""
    b = rs.graph.GraphBuilder()
    x = b.input("x", (1, 16, 12, 12))
    left = b.add(_RELU, _convolution(b, x, 64, name=name))
    right = _convolution(b, b.add(rs.graph.ShuffleOperation(1, 4), left), 64, groups=64)
    both = b.add(rs.graph.ConcatOperation(1), left, right, x)
    turned = b.add(rs.graph.TransposeOperation((0, 2, 3, 1)), both)
    return b.graph(turned, left)


def _pictures(graph, times=None):
    problem = format_problem(graph)
    found = [propagate(problem, rule) for rule in RULES]
    return [NetworkPicture(each, network_rows(graph, each, times), times is not None) for each in found]


@pytest.mark.parametrize("rule", RULES)
def test_every_node_reorder_input_and_output_has_a_row_in_the_order_in_which_they_run(rule):
    graph = _graph()
    picture = _pictures(graph)[RULES.index(rule)]
    names = [row.name for row in picture.rows if row.kind in ("node", "view")]
    assert names == [node.name for node in graph.nodes]
    moved = [each for each in picture.formats.reorders if not each.is_constant]
    assert sum(row.kind == "reorder" for row in picture.rows) == len(moved)
    assert [row.name for row in picture.rows if row.kind == "output"] == list(graph.outputs)
    made = set()
    for row in picture.rows:
        assert made.issuperset(row.reads)
        made.update(row.writes)


@pytest.mark.parametrize("rule", RULES)
def test_tensors_that_are_on_their_way_at_once_have_lanes_of_their_own(rule):
    rows, lanes = with_lanes(_pictures(_graph())[RULES.index(rule)].rows)
    for place in range(len(rows)):
        passing = [each.lane for each in lanes if each.row <= place < max([0, *(r for r, _ in each.readers)])]
        assert len(passing) == len(set(passing))


def test_a_row_tells_the_window_the_groups_and_what_is_done_to_the_result():
    b = rs.graph.GraphBuilder()
    y = _convolution(b, b.input("x", (1, 16, 8, 8)), 16, groups=4)
    window = rs.graph.PoolingOperation("pooling_max", (2, 3), (2, 1), (0, 0), (0, 0), (0, 0))
    y = b.add(
        window, b.add(rs.graph.BinaryOperation("binary_add"), y, "x"), epilogues=[rs.graph.Epilogue(_RELU)]
    )
    words = [row.words for row in _pictures(b.graph(y))[0].rows]
    assert words[1:4] == ["convolution 3×3, 4 groups", "add", "pooling max 2×3/2×1 + relu"]


def test_measured_times_stand_where_there_are_any():
    graph = _graph()
    picture = _pictures(graph, MeasuredTimes({"first": 0.25}))[0]
    (row,) = (row for row in picture.rows if row.name == "first" and row.kind == "node")
    assert row.seconds == 0.25
    text = network_page("net", [picture])
    assert "250 ms" in text
    assert "measured" in text


def test_the_page_is_one_well_formed_file_without_scripts():
    text = network_page("shufflenet.onnx", _pictures(_graph()))
    reader = _OpenTags()
    reader.feed(text)
    assert reader.open == []
    assert not re.findall(r"<script|\b(?:src|href)\s*=|url\(|@import|https?://", text)
    assert [text.count(f'id="r{i}"') for i in range(4)] == [1, 1, 1, 0]
    assert text.count("<b>optimal</b>") == 1
    assert "aBcd" in text


def test_tensors_of_one_pixel_are_called_what_their_color_says():
    md = rs.MemoryDesc((1, 32, 1, 1), "f32", "acdb")
    assert md == rs.MemoryDesc(md.dims, "f32")
    graph = _graph()
    formats = propagate(format_problem(graph), "plain")
    page = network_page("n", [NetworkPicture(formats, (NetworkRow("node", "y", "mean", (), (("y", md),)),))])
    assert '<span class="chip f0"></span>abcd' in page
    assert "acdb" not in page


def test_names_are_escaped():
    evil = '"><script>alert(1)</script>'
    text = network_page(evil, _pictures(_graph(evil)))
    assert "<script>alert" not in text


def test_an_empty_network_has_a_page():
    b = rs.graph.GraphBuilder()
    b.input("x", (1, 2))
    assert "0 reorders" in network_page("nothing", _pictures(b.graph("x")))


@pytest.mark.browser
def test_a_browser_shows_the_last_rule_and_its_rows(tmp_path: Path):
    browser = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip("needs Chromium")
    file = tmp_path / "net.html"
    file.write_text(network_page("net", _pictures(_graph())), "utf-8")
    picture = tmp_path / "net.png"
    words = ["--headless", "--no-sandbox", "--disable-gpu", f"--screenshot={picture}", f"file://{file}"]
    subprocess.run([browser, *words], check=True, capture_output=True, timeout=120)
    assert picture.stat().st_size > 10_000
