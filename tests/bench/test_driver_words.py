"""Batch files as words: comments, joined lines, and where files are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from restride.cli.usage import UsageError
from restride_bench.driver.words import Word, read, split


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("--reset\n\n--sdt=f32  2x3\t4x5", ["--reset", "--sdt=f32", "2x3", "4x5"]),
        ("2x3 # 4x5\n6x7", ["2x3", "6x7"]),
        ("#2x3\n 4x5", ["4x5"]),
        ("--name=a#b", ["--name=a#b"]),
        (
            "--attr-scales=, \\\n  src:common:2, \\\n  dst:common:4\n2x3",
            ["--attr-scales=,src:common:2,dst:common:4", "2x3"],
        ),
        ("--stag=ab,\\\nba 2x3", ["--stag=ab,ba", "2x3"]),
        ("2x3 \\", ["2x3"]),
        ("", []),
    ],
    ids=[
        "spaces",
        "comment",
        "comment at once",
        "no comment inside",
        "joined",
        "joined at once",
        "open",
        "empty",
    ],
)
def test_words_are_split_joined_and_freed_of_comments(text: str, words: list[str]) -> None:
    assert [word.text for word in split(text)] == words


def test_a_file_is_found_beside_the_one_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "shapes").write_text("1x2")
    (tmp_path / "shapes").write_text("3x4")
    monkeypatch.chdir(tmp_path)
    assert read("shapes", "reorder", tmp_path / "deep")[0] == [Word("1x2", 1)]
    assert read("shapes", "reorder", None)[0] == [Word("3x4", 1)]


def test_a_file_is_found_among_the_inputs_of_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inputs" / "shuffle").mkdir(parents=True)
    (tmp_path / "inputs" / "shuffle" / "mine").write_text("1x2")
    monkeypatch.chdir(tmp_path)
    assert read("mine", "shuffle", None)[0] == [Word("1x2", 1)]


def test_a_missing_file_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"(?s)no file 'nothing'.*inputs/reorder/nothing"):
        read("nothing", "reorder", tmp_path)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(b"\x89PNG\xff\xfe")
    with pytest.raises(UsageError, match="it is no text"):
        read("picture", "reorder", tmp_path)
