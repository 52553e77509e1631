"""What a file holds, whatever its format: that is told by its first bytes, not by its name."""

from __future__ import annotations

from typing import BinaryIO

from .gguf import MAGIC, read_gguf
from .npy import read_npy
from .npz import read_npz
from .opening import opened, read_at, state_of
from .safetensors import read_safetensors
from .stored import Contents

_LEAD = 6


def contents_of(path: str) -> Contents:
    """The tensors in the file at `path`; no data are read.

    Raises InvalidArguments for a file that is none of .npy, .npz, .safetensors, .gguf, or is damaged,
    RuntimeFailure where the system refuses.
    """
    with opened(path) as file:
        return contents_of_file(file, path)


def contents_of_file(file: BinaryIO, path: str) -> Contents:
    """The tensors in an open file; `path` is what errors call it."""
    lead = read_at(file, path, 0, min(_LEAD, state_of(file).nbytes))
    if lead == b"\x93NUMPY" or not lead:
        return read_npy(file, path)
    if lead[:4] in (b"PK\x03\x04", b"PK\x05\x06"):
        return read_npz(file, path)
    if lead[:4] == MAGIC:
        return read_gguf(file, path)
    return read_safetensors(file, path)
