"""Pictures of descriptors: in a terminal, in a notebook, in words."""

from __future__ import annotations

import copy
import itertools
import os
import pickle
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

import restride as rs
from restride.view.terminal import printable
from support.descriptors import strided, tags, windows

_SMALL = rs.MemoryDesc((1, 17, 2, 2), "f32", "nChw16c")
_ODD = {
    "zero": rs.MemoryDesc(),
    "any": rs.MemoryDesc((2, 3), "f32", "any"),
    "runtime": rs.MemoryDesc((rs.RUNTIME_DIM, 3), "f32", "ab"),
    "empty": rs.MemoryDesc((2, 0), "f32"),
    "huge": rs.MemoryDesc((2**20, 2**15, 2**10, 7), "u8", "nChw16c"),
    "ranks": rs.MemoryDesc((2,) * 12, "f32"),
    "vector": rs.MemoryDesc((2**40,), "s4"),
    "reversed": rs.MemoryDesc.from_strides((3, 4), "f32", (-6, -1), 15),
    "window": rs.MemoryDesc((2, 32), "f32", "aB16b").submemory_desc((2, 4), (0, 0)),
}


def evaluated(found: rs.MemoryDesc, formula: str, names: str, index: tuple[int, ...]) -> int:
    return int(eval(formula, {"__builtins__": {}}, dict(zip(names, index, strict=True))))


def printed_formula(text: str) -> str:
    """The formula as a reader finds it: the one indented line below the sentence about it."""
    (found,) = re.findall(r"is at offset, in elements:\n\n    (.*)\n", text)
    return str(found)


def assert_printed_formula_is_offset(md: rs.MemoryDesc) -> None:
    said = md.explain()
    assert printed_formula(said) == said.formula
    whole = list(itertools.product(*map(range, md.padded_dims)))
    for index in whole[:: max(1, len(whole) // 200)]:
        assert evaluated(md, printed_formula(said), said.names, index) == md.offset(*index)


@given(st.data())
def test_the_printed_formula_is_right_for_random_blocked_layouts(data: st.DataObject) -> None:
    dims = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=5)))
    assert_printed_formula_is_offset(rs.MemoryDesc(dims, "s8", data.draw(tags(dims))))


@given(st.data())
def test_the_printed_formula_is_right_for_gaps_reversed_axes_and_windows(data: st.DataObject) -> None:
    dims = tuple(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4)))
    assert_printed_formula_is_offset(data.draw(data.draw(st.sampled_from((strided, windows)))(dims, rs.f32)))


def test_an_explanation_is_its_text_at_a_prompt() -> None:
    said = _SMALL.explain(tag="nChw16c")
    assert (said.formula, said.names) == ("c//16*64 + h*32 + w*16 + c%16", "nchw")
    assert repr(said) == str(said) == said
    assert said.startswith("f32 1x17x2x2 aBcd16b (nChw16c)\n")
    for twin in (pickle.loads(pickle.dumps(said)), copy.copy(said)):
        assert (twin, twin.formula, twin.names) == (said, said.formula, said.names)
    assert rs.MemoryDesc().explain().formula == ""


@pytest.mark.parametrize(("tag", "code"), [("nc", "RS-M06"), ("<x>", "RS-M11"), ("nchv", "RS-M11")])
def test_a_tag_that_names_none_of_the_axes_is_refused(tag: str, code: str) -> None:
    for method in (_SMALL.show, _SMALL.explain):
        with pytest.raises(rs.InvalidArguments) as caught:
            method(tag=tag)
        assert caught.value.code == code


def test_a_format_that_lies_in_another_way_names_the_axes_and_not_the_layout() -> None:
    md = rs.MemoryDesc((2, 3, 4, 5), "f32", "nchw")
    assert md.explain(tag="nhwc").splitlines()[0] == "f32 2x3x4x5 abcd"
    assert md.explain(tag="nhwc").names == "nchw"
    assert md.explain(tag="nchw").splitlines()[0] == "f32 2x3x4x5 abcd (nchw)"


def test_show_prints_the_picture(capsys: pytest.CaptureFixture[str]) -> None:
    assert _SMALL.show(tag="nChw16c") is None
    text = capsys.readouterr().out
    assert "    64   256  0 0 0 │ 16 ░░ ░░" in text
    assert "\x1b" not in text


def test_show_is_colored_on_a_terminal_only(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("restride.view.terminal.is_terminal", lambda stream: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    _SMALL.show()
    colored = capsys.readouterr().out
    assert "\x1b[38;5;27m 0\x1b[0m" in colored
    monkeypatch.setenv("NO_COLOR", "1")
    _SMALL.show()
    assert "\x1b" not in capsys.readouterr().out


def test_show_on_a_terminal_that_knows_ascii_only() -> None:
    code = "import restride as rs; rs.MemoryDesc((1, 17), 'f32', 'aB16b').show()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert b"| 16 ## ##" in done.stdout
    assert done.stdout.isascii()


def test_what_a_stream_cannot_show_is_escaped() -> None:
    class Latin:
        encoding = "latin-1"

    assert printable("é░", Latin()) == "é\\u2591"  # type: ignore[arg-type]


@pytest.mark.parametrize("name", _ODD)
def test_every_descriptor_can_be_shown(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    md = _ODD[name]
    md.show()
    assert str(md) in capsys.readouterr().out
    assert str(md) in md.explain()
    ElementTree.fromstring(md._repr_svg_())
    assert len(md._repr_html_()) < 500_000


def test_the_notebook_picture_is_self_contained_and_well_formed() -> None:
    page = _SMALL._repr_html_()
    ElementTree.fromstring(page)
    assert "<script" not in page
    assert not re.findall(r"\b(?:src|href)\s*=|url\((?!#)|@import", page)
    assert _SMALL.explain().formula in page


def test_pictures_are_loaded_when_they_are_asked_for() -> None:
    code = (
        "import sys, restride as rs; before = 'restride.view.methods' in sys.modules;"
        "rs.MemoryDesc((2,), 'f32').explain(); print(before, 'restride.view.methods' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600)
    assert done.stdout == "False True\n", done.stderr
