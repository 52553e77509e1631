"""The capabilities of standard output: colors, characters, columns."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from dataclasses import replace
from typing import TextIO

from .text import ASCII, TextStyle

_WIDTH = 100


def ink() -> TextStyle:
    """Return the style for stdout: color on a terminal unless NO_COLOR is set, ASCII if necessary."""
    plain = TextStyle() if sys.stdout is not None and _takes(sys.stdout, TextStyle().characters) else ASCII
    if not is_terminal(sys.stdout) or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return plain
    return replace(plain, color=True)


def is_terminal(stream: TextIO | None) -> bool:
    """Return True if a person is probably watching."""
    with contextlib.suppress(ValueError):
        return stream is not None and stream.isatty()
    return False


def width() -> int:
    """Return the number of columns: the terminal's, or 100."""
    return shutil.get_terminal_size((_WIDTH, 24)).columns if is_terminal(sys.stdout) else _WIDTH


def printable(text: str, stream: TextIO) -> str:
    """Return `text` with escapes for characters that the stream cannot encode, such as invalid file names."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _takes(stream: TextIO, text: str) -> bool:
    return printable(text, stream) == text
