"""Batch files as words, and where they are found.

Words are what white space separates. A `#` in front of a word makes the rest of the line a comment; a `\\`
at the end of a word joins it to the next one.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from restride.cli.usage import UsageError, wrong_usage

_LARGEST = 16 << 20


class Word(NamedTuple):
    """A word of a batch file, and the line that it begins in, from 1."""

    text: str
    line: int


def split(text: str) -> list[Word]:
    """The words of a batch file."""
    lines = enumerate(text.splitlines(), 1)
    return _joined([Word(word, number) for number, line in lines for word in _without_comment(line.split())])


def _without_comment(words: list[str]) -> list[str]:
    first = next((i for i, word in enumerate(words) if word.startswith("#")), len(words))
    return words[:first]


def _joined(words: list[Word]) -> list[Word]:
    found: list[Word] = []
    is_open = False
    for word, line in words:
        body = word.removesuffix("\\")
        if found and (is_open or not body):
            found[-1] = Word(found[-1].text + body, found[-1].line)
        elif body:
            found.append(Word(body, line))
        is_open = body != word
    return found


def read(name: str, driver: str, folder: Path | None) -> tuple[list[Word], Path]:
    """The words of a batch file, and where it lies, as `found` has it."""
    path = found(name, driver, folder, "--batch")
    return split(_text(path)), path


def found(name: str, driver: str, folder: Path | None, knob: str) -> Path:
    """Return the path of a file that a knob names. `folder` is that of the batch file that names it.

    It is looked for there, then as given, then in `inputs/DRIVER`. Raises UsageError where it is not found.
    """
    tried = _places(name, driver, folder)
    path = next((place for place in tried if place.is_file()), None)
    if path is None:
        raise wrong_usage(
            f"{knob}: there is no file {name[:200]!r}",
            why="looked for " + ", ".join(map(str, tried)),
            hint="name it from the working folder, or from the folder of the batch file that includes it",
        )
    return path


def _places(name: str, driver: str, folder: Path | None) -> list[Path]:
    given = Path(name)
    beside = [] if folder is None else [folder / given]
    return list(dict.fromkeys([*beside, given, Path("inputs", driver, given)]))


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > _LARGEST:
            raise _unreadable(path, f"it has more than {_LARGEST} bytes, which no batch file has")
        return path.read_text("utf-8")
    except OSError as error:
        raise _unreadable(path, os.strerror(error.errno or 0)) from None
    except UnicodeDecodeError:
        raise _unreadable(path, "it is no text") from None


def _unreadable(path: Path, why: str) -> UsageError:
    return wrong_usage("--batch: the file cannot be read", where=str(path), why=why)
