"""Files that commands read and write: `-` is a pipe, and no file is written over another one unasked."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, TextIO

from ..errors import Error
from ..files.writing.replacement import Replacement, shown
from .output import writing_stdout
from .usage import Parser, wrong_usage

__all__ = [
    "PIPE",
    "SEVERAL",
    "add_force",
    "check_no_pipe",
    "check_output",
    "input_file",
    "output_file",
    "write_output",
]

PIPE = "-"
"""The name of standard input and output."""
SEVERAL = (".safetensors", ".npz", ".gguf", ".json")
"""The ends of names of files that may hold several tensors."""
_PIECE = 1 << 20


def add_force(parser: Parser) -> None:
    """`--force`, without which no file is written over."""
    parser.add_argument("--force", action="store_true", help="replace existing files")


def check_output(command: str, path: str, suffixes: Sequence[str], force: bool) -> None:
    """Raise UsageError for a file that is there, without `force`, and for a suffix that is not written.

    `-` is always taken. Called before any work is done, so that none is done for nothing.
    """
    if path == PIPE or (os.path.lexists(path) and not os.path.isfile(path)):
        # Folders, devices and the like are refused where files are written, with the reason.
        return
    suffix = os.path.splitext(path)[1]
    if path and suffix.lower() not in suffixes:
        raise wrong_usage(
            f"{command}: {shown(path)} is not written",
            why=f"its suffix {suffix!r} means another file format" if suffix else "it has no suffix",
            hint=f"end the name in {' or '.join(suffixes)}, or write - for standard output",
        )
    if not force and os.path.lexists(path):
        raise wrong_usage(
            f"{command}: {shown(path)} exists",
            why="an existing file is replaced only with --force",
            hint="choose another name, or add --force",
        )


def check_no_pipe(command: str, *paths: str) -> None:
    """Raise UsageError where `-` is named for a file that is read or written in parts."""
    if PIPE in paths:
        raise wrong_usage(
            f"{command}: - is a pipe",
            why="this command needs random access to its files",
            hint="name a file",
        )


def write_output(path: str, content: bytes) -> None:
    """Write a file whole; for `-` to standard output. Raises RuntimeFailure, BrokenPipeError."""
    if path == PIPE:
        _to_stdout([content])
        return
    with Replacement(path).open(len(content)) as file:
        file.write(content)


@contextlib.contextmanager
def input_file(path: str, suffix: str) -> Iterator[str]:
    """The file to read; for `-` one with all that comes from standard input, which is gone afterwards.

    Errors name standard input, not that file.
    """
    if path != PIPE:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="restride-") as folder:
        name = os.path.join(folder, f"standard-input{suffix}")
        with open(name, "wb") as file:
            shutil.copyfileobj(_binary(sys.stdin), file, _PIECE)
        try:
            yield name
        except Error as error:
            raise error.with_context(error.what.replace(name, "standard input")) from None


@contextlib.contextmanager
def output_file(path: str, suffix: str) -> Iterator[str]:
    """The file to write; for `-` one whose content goes to standard output when the block ends well."""
    if path != PIPE:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="restride-") as folder:
        name = os.path.join(folder, f"standard-output{suffix}")
        yield name
        with open(name, "rb") as file:
            _to_stdout(iter(lambda: file.read(_PIECE), b""))


def _binary(stream: TextIO | None) -> BinaryIO:
    """The bytes below a text stream; an empty one where there is none."""
    return getattr(stream, "buffer", None) or io.BytesIO()


def _to_stdout(pieces: Iterable[bytes]) -> None:
    if sys.stdout is None:
        return
    stream = _binary(sys.stdout)
    with writing_stdout():
        sys.stdout.flush()
        for piece in pieces:
            stream.write(piece)
        stream.flush()
