"""Paragraphs of Markdown pages: the prose, with the heading that each stands under."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from restride.errors import RuntimeFailure

_LEAST_WORDS = 8
_FENCE = re.compile(r"^( *)(`{3,}|:{3,}).*?(?:^\1\2[ ]*$|\Z)", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"#+ +(.*)")
# Lines of what is no prose: tables, pictures, directives, HTML.
_OTHER = re.compile(r" *(?:[|<!]|\([\w-]+\)=$)")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_MARKS = re.compile(r"\*\*|`")


@dataclass(frozen=True, slots=True)
class Paragraph:
    """A paragraph in one line, the heading above it, and the page, as its folder names it."""

    page: str
    heading: str
    text: str

    @property
    def words(self) -> str:
        """The input of an encoder; a paragraph alone often does not name its subject."""
        return f"{self.heading}. {self.text}"


def paragraphs_in(folder: Path) -> list[Paragraph]:
    """The paragraphs of all Markdown pages below a folder, each once. Raises RuntimeFailure for none."""
    pages = sorted(path for path in folder.rglob("*.md") if "_build" not in path.parts and path.is_file())
    texts = {_name(path, folder): path.read_text("utf-8", errors="replace") for path in pages}
    found = [each for name, text in texts.items() for each in paragraphs_of(text, name)]
    if not found:
        raise RuntimeFailure(
            "demo-language: there is nothing to read",
            code="RS-C04",
            where=str(folder),
            why="no Markdown page with prose lies there",
            hint="run it in a checkout of restride, or name a folder of pages: --docs FOLDER",
        )
    return list({each.text: each for each in reversed(found)}.values())[::-1]


def _name(path: Path, folder: Path) -> str:
    return path.relative_to(folder.parent).as_posix()


def paragraphs_of(page: str, name: str) -> list[Paragraph]:
    """The paragraphs of a page: code, tables and what is shorter than a sentence are left out."""
    found, heading = [], name
    for is_blank, lines in groupby(_FENCE.sub("\n", page).splitlines(), lambda line: not line.strip()):
        if is_blank:
            continue
        prose: list[str] = []
        for line in lines:
            if title := _HEADING.fullmatch(line):
                heading = _plain(title[1])
            elif not _OTHER.match(line):
                prose.append(line.strip())
        text = _plain(" ".join(prose))
        if len(text.split()) >= _LEAST_WORDS:
            found.append(Paragraph(name, heading, text))
    return found


def _plain(text: str) -> str:
    return _MARKS.sub("", _LINK.sub(r"\1", text))
