"""The output of a command: text or one JSON object on stdout, errors in a common form on stderr."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ..errors import Error, refuse
from ..view.terminal import ink, is_terminal, printable, width

__all__ = [
    "CommandResult",
    "drop_stdout",
    "ink",
    "is_terminal",
    "print_error",
    "print_result",
    "print_stderr",
    "width",
    "writing_stdout",
]


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of a command: `text` for people, `values` for `--json`, and its exit status."""

    text: str
    values: dict[str, Any] = field(default_factory=dict)
    status: int = 0


def print_result(answer: CommandResult, as_json: bool) -> None:
    """Print the result on stdout and flush it. Raises RuntimeFailure (full disk), BrokenPipeError."""
    text = json.dumps(answer.values, indent=2) if as_json else answer.text
    if sys.stdout is None or not text:
        return
    with writing_stdout():
        print(printable(text, sys.stdout), flush=True)


@contextlib.contextmanager
def writing_stdout() -> Iterator[None]:
    """Context for writing to stdout. Raises RuntimeFailure (full disk), BrokenPipeError."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        drop_stdout()
        raise refuse("RS-F02:standard-output", reason=os.strerror(error.errno or 0)) from None


def print_error(error: Error, as_json: bool) -> None:
    """Print an error on stderr; with `--json` also as an object on stdout, so that there always is one."""
    print_stderr(f"error: {error.message}")
    if as_json:
        parts = {
            "what": error.what,
            "code": error.code,
            "where": error.where,
            "why": error.why,
            "hint": error.hint,
        }
        print_result(CommandResult("", {"error": {**parts, "status": error.status.name}}), as_json=True)


def print_stderr(text: str, end: str = "\n") -> None:
    """Print on stderr, ignoring a closed stream."""
    if sys.stderr is None:
        return
    with contextlib.suppress(OSError, ValueError):
        print(printable(text, sys.stderr), end=end, file=sys.stderr, flush=True)


def drop_stdout() -> None:
    """Discard further output to stdout: its reader has exited, and Python would print an error at exit."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, sys.stdout.fileno())
        finally:
            os.close(nowhere)
