"""Files that commands read and write: `-` is a pipe, and existing files are replaced only with --force."""

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
    "is_file_name",
    "output_file",
    "write_output",
]

PIPE = "-"
"""The name for standard input and output."""
SEVERAL = (".safetensors", ".npz", ".gguf", ".json")
"""Suffixes of files that can contain several tensors."""
_ENDS = (*SEVERAL, ".npy", ".onnx", ".xml", ".zarr")
_PIECE = 1 << 20


def is_file_name(word: str) -> bool:
    """Return True for the name of a file or folder of tensors, rather than of a format."""
    return os.path.exists(word) or os.sep in word or word.lower().endswith(_ENDS)


def add_force(parser: Parser) -> None:
    """Add `--force`, without which no file is replaced."""
    parser.add_argument("--force", action="store_true", help="replace existing files")


def check_output(command: str, path: str, suffixes: Sequence[str], force: bool) -> None:
    """Raise UsageError for an existing file, unless `force`, and for an unsupported suffix.

    `-` is always accepted. Called first, so that no work is done in vain.
    """
    if path == PIPE or (os.path.lexists(path) and not os.path.isfile(path)):
        # Folders, devices and the like are rejected when written, with the reason.
        return
    suffix = os.path.splitext(path)[1]
    if path and suffix.lower() not in suffixes:
        raise wrong_usage(
            f"{command}: {shown(path)} is not written",
            why=f"its suffix {suffix!r} means another file format" if suffix else "it has no suffix",
            hint=f"use the suffix {' or '.join(suffixes)}, or write - for standard output",
        )
    if not force and os.path.lexists(path):
        raise wrong_usage(
            f"{command}: {shown(path)} exists",
            why="an existing file is replaced only with --force",
            hint="choose another name, or add --force",
        )


def check_no_pipe(command: str, *paths: str) -> None:
    """Raise UsageError if `-` is passed for a file that is read or written in parts."""
    if PIPE in paths:
        raise wrong_usage(
            f"{command}: - is a pipe",
            why="this command needs random access to its files",
            hint="pass a file name",
        )


def write_output(path: str, content: bytes) -> None:
    """Write a file as a whole; for `-` to standard output. Raises RuntimeFailure, BrokenPipeError."""
    if path == PIPE:
        _to_stdout([content])
        return
    with Replacement(path).open(len(content)) as file:
        file.write(content)


@contextlib.contextmanager
def input_file(path: str, suffix: str) -> Iterator[str]:
    """Return the file to read; for `-` a temporary file with the content of standard input.

    Errors refer to standard input, not to that file.
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
    """Return the file to write; for `-` one that is copied to standard output if the block succeeds."""
    if path != PIPE:
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="restride-") as folder:
        name = os.path.join(folder, f"standard-output{suffix}")
        yield name
        with open(name, "rb") as file:
            _to_stdout(iter(lambda: file.read(_PIECE), b""))


def _binary(stream: TextIO | None) -> BinaryIO:
    """Return the byte stream of a text stream; an empty one if there is none."""
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
