"""Schedules as text: what is printed is read again, and what is none is refused with its place."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import restride as rs
from restride.schedule.contraction import transforms as contraction
from restride.schedule.language import Transform, parse_schedule, schedule_text
from restride.schedule.moves import transforms as moves
from restride.schedule.trees import rewrites
from restride.schedule.trees import transforms as trees
from support.effort import examples

_NAMES = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
_WORDS = st.from_regex(r"[a-z][a-z0-9_./@]{0,8}", fullmatch=True)
_TRANSFORMS = st.builds(
    Transform,
    _NAMES,
    st.lists(st.integers(0, 2**59) | _WORDS, max_size=5).map(tuple),
    st.integers(0, 99),
)


@settings(max_examples=examples(100))
@given(st.lists(_TRANSFORMS, max_size=6).map(tuple))
def test_what_is_printed_is_read_again(schedule: tuple[Transform, ...]) -> None:
    text = schedule_text(schedule)
    assert parse_schedule(text) == schedule
    for separator in (";", "\n", " ; \n "):
        assert parse_schedule(text.replace(" · ", separator)) == schedule


def test_loops_have_numbers_and_the_first_has_none() -> None:
    schedule = (Transform("split", ("c", 16)), Transform("vectorize", ("c/1", 16), 2), Transform("stream"))
    assert schedule_text(schedule) == "split(c, 16) · 2.vectorize(c/1, 16) · stream()"
    assert parse_schedule(" split ( c , 16 ); 2.vectorize(c/1,16)\n\nstream()\n") == schedule
    assert parse_schedule("# a\n# b\nsplit(c, 16) # (\n 2.vectorize(c/1, 16)\n # c\nstream()#") == schedule


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        ("tile", "column 5", "'\\('"),
        ("tile(a0 8)", "column 9", "','"),
        ("tile(a0, )", "column 10", "argument"),
        ("tile(a0", "column 8", "','"),
        ("tile(a0) reorder(a1)", "column 10", "separator"),
        ("tile(a0)\nx.reorder(a1)", "line 2", "loop"),
        ("__import__('os')", "column 12", "argument"),
        ("(a0)", "column 1", "name"),
        ("tile(a0); 3.(a1)", "column 13", "name"),
    ],
)
def test_what_is_no_schedule_is_refused_with_its_place(text: str, place: str, expected: str) -> None:
    with pytest.raises(rs.InvalidArguments, match=expected) as error:
        parse_schedule(text)
    assert place in str(error.value)
    assert error.value.code == "RS-V09"


@settings(max_examples=examples(200))
@given(st.text("ab0(),. ;#\n·/-'\"\\\x00é", max_size=40))
def test_no_text_does_anything_but_be_read_or_refused(text: str) -> None:
    try:
        schedule = parse_schedule(text)
    except rs.InvalidArguments:
        return
    assert parse_schedule(schedule_text(schedule)) == schedule


def test_a_long_text_is_refused_at_once() -> None:
    with pytest.raises(rs.InvalidArguments, match="characters"):
        parse_schedule("(" * 10**7)


def test_the_guide_lists_every_transform() -> None:
    guide = (Path(__file__).parents[2] / "docs/how-to/schedules.md").read_text("utf-8")
    tables = {head: set(re.findall(r"[|,] `(\w+)\(", rest)) for head, rest in _tables(guide)}
    assert tables == {
        "a move": {*moves._TRANSFORMS, *moves.WHOLE},
        "a loop tree": {*trees._NAMES, *rewrites.NAMES},
        "a contraction": {*contraction._NAMES},
    }


def _tables(guide: str) -> list[tuple[str, str]]:
    section = guide.partition("## The transforms")[2].partition("\n## ")[0]
    parts = re.split(r"\*\*Of ([a-z ]+)\.?\*\*", section)
    return list(zip(parts[1::2], parts[2::2], strict=True))
