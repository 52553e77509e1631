"""A .npy file as one memory: read whole, and written whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..errors import OutOfMemory
from ..files.image import FileImage
from ..files.npy import Meaning, npy_image, read_desc, read_npy
from ..files.opening import bad_file, opened
from ..files.stored import StoredTensor, array_of
from ..files.whole import Replacement, shown, system_error
from ..runtime.alloc import Array
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from .memory_limit import check_fits

__all__ = ["Meaning", "image_of", "read", "read_desc", "write"]

# Python sees Ctrl-C between pieces.
_PIECE = 64 << 20


def read(path: str, meaning: Meaning | None = None) -> Memory:
    """The tensor in the .npy file at `path`, read whole.

    It is not mapped: a mapped file that another program cuts short kills the process that reads it.

    Raises InvalidArguments for a file that is no array or not what `meaning` says, RuntimeFailure where the
    system refuses, OutOfMemory; all before anything is allocated that the file's length does not cover.
    """
    read_desc(path, meaning or Meaning())
    with opened(path, "a .npy file") as file:
        (tensor,) = read_npy(file, path, meaning or Meaning()).tensors
        assert tensor.array.desc is not None
        return Memory(tensor.array.desc, Engine("cpu"), _data(file, tensor))


def image_of(desc: MemoryDesc) -> FileImage:
    """The .npy file of a tensor. Raises Unimplemented for elements that it cannot hold."""
    return npy_image([array_of("", desc)], {})


def write(replacement: Replacement, memory: Memory) -> None:
    """Write the physical array of a dense memory, with its descriptor where .npy alone cannot say it."""
    desc, data = memory.desc, memory.data
    image = image_of(desc)
    content = memoryview(b"") if data is None else data.view(np.uint8)[: desc.size].data
    with replacement.open(image.nbytes) as file:
        for _, piece in image.pieces:
            file.write(piece)
        for at in range(0, desc.size, _PIECE):
            file.write(content[at : at + _PIECE])


def _data(file: BinaryIO, tensor: StoredTensor) -> Array:
    """The bytes after the header, as many as it promises; read-only."""
    data = _reserve(tensor)
    content = data.data
    try:
        file.seek(tensor.start)
        count = sum(_counts(file, content))
    except OSError as error:
        raise system_error("read", tensor.path, error) from None
    if count != len(content):
        raise bad_file(tensor.path, "it got shorter while it was read", "wait for its writer, then try again")
    data.flags.writeable = False
    return data


def _reserve(tensor: StoredTensor) -> Array:
    """Memory for the data. Raises OutOfMemory where there is not as much."""
    nbytes = tensor.array.nbytes
    check_fits("the file does not fit into memory", nbytes, shown(tensor.path))
    try:
        return np.empty(nbytes, np.uint8)
    except MemoryError:
        raise OutOfMemory(
            f"no memory for the {nbytes} bytes of the file",
            code="RS-D01",
            where=tensor.path,
            why="the system refused the memory",
            hint="free memory, or work on smaller files",
        ) from None


def _counts(file: BinaryIO, content: memoryview) -> Iterator[int]:
    """Fill `content` piece by piece from the file: how many bytes each read brought, to the file's end."""
    at = 0
    while at < len(content):
        count = file.readinto(content[at : at + _PIECE])  # type: ignore[attr-defined]
        if not count:
            return
        yield count
        at += count
