"""Formats of files: of one that is read by its first bytes, of one that is written by the end of its name."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

from ..errors import refuse
from .formats.gguf import MAGIC, gguf_image, read_gguf
from .formats.npy import npy_image, read_npy
from .formats.npz import (
    HOLDS_PICKLES,
    OUT_OF_PICKLES,
    head_archive,
    is_compressed,
    npz_image,
    plain_archive,
    read_npz,
)
from .formats.safetensors import read_safetensors, safetensors_image
from .plain_file import FileState, close_on_error, opened, read_at, state_of
from .stored_tensors import Contents, FileImage, StoredArray
from .writing.replacement import shown
from .zarr.arrays import ZARR_END

_LEAD = 8
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
# Files of others that people have tensors in: how they begin, what they are, what to do.
_OTHERS = (
    (b"\x80", HOLDS_PICKLES, OUT_OF_PICKLES),
    (
        b"\x89HDF",
        "it is an HDF5 file",
        "read its arrays with h5py, and save them: rs.save(arrays, 'x.safetensors')",
    ),
    (
        b"{",
        "it is a file of JSON",
        "name a file of tensors; an index of shards names some, and rs.convert takes it",
    ),
)


MakeImage = Callable[[Sequence[StoredArray], Mapping[str, Any]], FileImage]

_IMAGES: dict[str, MakeImage] = {
    ".npy": npy_image,
    ".npz": npz_image,
    ".safetensors": safetensors_image,
    ".gguf": gguf_image,
}


FILE_ENDS = tuple(_IMAGES)
"""The ends of names that files are written with."""


class TensorFile(NamedTuple):
    """An open file of tensors: the file in which their bytes lie, what it holds, and the state of the file
    that was named. They are two files where that is compressed.
    """

    file: BinaryIO
    contents: Contents
    state: FileState


def tensor_file(path: str, folder: str | None = None, *, only_heads: bool = False) -> TensorFile:
    """The file of tensors at `path`, to be closed. `folder`: where a compressed one is expanded.

    `only_heads`: of a compressed one only headers are expanded, and it has no values.

    Raises InvalidArguments for a file that is none of .npy, .npz, .safetensors, .gguf, or is damaged,
    RuntimeFailure where the system refuses.
    """
    file = opened(path)
    with close_on_error(file):
        state, lead = state_of(file), _lead(file, path)
        if only_heads and lead[:4] in _ZIP and is_compressed(file, path):
            heads, contents = head_archive(file, path)
            file.close()
            return TensorFile(heads, contents, state)
        plain = plain_archive(file, path, folder) if lead[:4] in _ZIP else file
    if plain is not file:
        file.close()
    with close_on_error(plain):
        return TensorFile(plain, _contents_of(plain, path), state)


def _contents_of(file: BinaryIO, path: str) -> Contents:
    """The tensors in an open file; `path` is what errors call it. No data are read."""
    lead = _lead(file, path)
    if lead.startswith(b"\x93NUMPY") or not lead:
        return read_npy(file, path)
    if lead[:4] in _ZIP:
        return read_npz(file, path)
    if lead[:4] == MAGIC:
        return read_gguf(file, path)
    is_named = path.lower().endswith(".safetensors")
    if is_named or int.from_bytes(lead, "little") + _LEAD <= state_of(file).nbytes:
        return read_safetensors(file, path)
    # It begins with no length of a header, and is not said to.
    for start, why, hint in _OTHERS:
        if lead.startswith(start):
            raise refuse("RS-F01:other-kind", path=shown(path), why=why, hint=hint)
    hint = "restride reads .npy, .npz, .safetensors, .gguf and .zarr"
    raise refuse("RS-F01:begins-no-file", path=shown(path), hint=hint)


def _lead(file: BinaryIO, path: str) -> bytes:
    """The first bytes, as many as tell formats apart."""
    return read_at(file, path, 0, min(_LEAD, state_of(file).nbytes))


def is_file_name(path: str) -> bool:
    """True for a name that says a format, and is no folder's but one of Zarr."""
    is_file = os.path.splitext(path)[1].lower() in _IMAGES and not os.path.isdir(path)
    return is_file or is_zarr_name(path)


def is_zarr_name(path: str) -> bool:
    """True for the name of a folder that is to hold arrays of Zarr."""
    return path.rstrip("/").lower().endswith(ZARR_END)


def holds_metadata(path: str) -> bool:
    """True for the name of a file that has a place for metadata of its own."""
    return not path.lower().endswith((".npy", ".npz"))


def image_maker(path: str) -> MakeImage:
    """The maker of the image of a file of this name. Raises InvalidArguments for a name of no known end."""
    image = _IMAGES.get(os.path.splitext(path)[1].lower())
    if image is not None:
        return image
    raise refuse("RS-F06", path=shown(path), value=", ".join((*_IMAGES, ".zarr")))
