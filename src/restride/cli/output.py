"""What a command prints: text or one JSON object on stdout, errors in one form on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from dataclasses import dataclass, field
from typing import Any, TextIO

from ..errors import Error, RuntimeFailure
from ..view.text import ASCII, Ink

_WIDTH = 100


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command found: `text` for people, `values` for `--json`, and its exit status."""

    text: str
    values: dict[str, Any] = field(default_factory=dict)
    status: int = 0


def say(answer: Answer, as_json: bool) -> None:
    """Print an answer on stdout and see it written. Raises RuntimeFailure (full disk), BrokenPipeError."""
    text = json.dumps(answer.values, indent=2) if as_json else answer.text
    if sys.stdout is None:
        return
    try:
        print(_printable(text, sys.stdout), flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_stdout()
        raise RuntimeFailure("cannot write to standard output", why=os.strerror(error.errno or 0)) from None


def complain(error: Error, as_json: bool) -> None:
    """Print an error on stderr; for `--json` also as an object on stdout, so that there always is one."""
    tell(f"error: {error.message}")
    if as_json:
        parts = {"what": error.what, "where": error.where, "why": error.why, "hint": error.hint}
        say(Answer("", {"error": {**parts, "status": error.status.name}}), as_json=True)


def tell(text: str, end: str = "\n") -> None:
    """Print on stderr. Nobody listening is no error."""
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError, ValueError):
        print(_printable(text, sys.stderr), end=end, file=sys.stderr, flush=True)


def drop_stdout() -> None:
    """Let the rest of stdout go nowhere: its reader is gone, and Python would complain of it at exit."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, sys.stdout.fileno())
        finally:
            os.close(nowhere)


def ink() -> Ink:
    """What stdout can show: colour on a terminal unless NO_COLOR is set, ASCII where it takes no more."""
    plain = Ink() if sys.stdout is not None and _takes(sys.stdout, "░·⋮…─→") else ASCII
    if not is_terminal(sys.stdout) or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return plain
    return Ink(plain.hatch, plain.beyond, plain.skip, plain.dots, plain.rule, plain.arrow, colour=True)


def is_terminal(stream: TextIO | None) -> bool:
    """True where a person is likely to watch."""
    with contextlib.suppress(ValueError):
        return stream is not None and stream.isatty()
    return False


def width() -> int:
    """Columns to fill: the terminal's, or 100."""
    return shutil.get_terminal_size((_WIDTH, 24)).columns if is_terminal(sys.stdout) else _WIDTH


def _takes(stream: TextIO, text: str) -> bool:
    return _printable(text, stream) == text


def _printable(text: str, stream: TextIO) -> str:
    """`text` with escapes for what the stream's encoding lacks, file names that are no text among it."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)
