"""Detects file formats: for reading by the first bytes, for writing by the suffix."""

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
# Formats that are not supported but common: first bytes, description, hint.
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
        "pass a file of tensors; rs.convert also accepts an index of shards",
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
"""Suffixes of files that can be written."""


class TensorFile(NamedTuple):
    """An open file of tensors: the file that contains their bytes, the contents, and the state of the file
    that was passed. These are two different files if the latter is compressed.
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
    """Return the tensors in an open file, without their data; `path` is its name in errors."""
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
    # It does not begin with a header length, and is not expected to.
    for start, why, hint in _OTHERS:
        if lead.startswith(start):
            raise refuse("RS-F01:other-kind", path=shown(path), why=why, hint=hint)
    hint = "restride reads .npy, .npz, .safetensors, .gguf and .zarr"
    raise refuse("RS-F01:begins-no-file", path=shown(path), hint=hint)


def _lead(file: BinaryIO, path: str) -> bytes:
    """Return the first bytes, as many as are needed to distinguish formats."""
    return read_at(file, path, 0, min(_LEAD, state_of(file).nbytes))


def is_file_name(path: str) -> bool:
    """Return True for a name with a file format's suffix that is not a folder, except one of Zarr."""
    is_file = os.path.splitext(path)[1].lower() in _IMAGES and not os.path.isdir(path)
    return is_file or is_zarr_name(path)


def is_zarr_name(path: str) -> bool:
    """Return True for the name of a folder for Zarr arrays."""
    return path.rstrip("/").lower().endswith(ZARR_END)


def holds_metadata(path: str) -> bool:
    """Return True for the name of a file whose format can store metadata."""
    return not path.lower().endswith((".npy", ".npz"))


def image_maker(path: str) -> MakeImage:
    """Return the function that creates a file of this name. Raises InvalidArguments for an unknown suffix."""
    image = _IMAGES.get(os.path.splitext(path)[1].lower())
    if image is not None:
        return image
    raise refuse("RS-F06", path=shown(path), value=", ".join((*_IMAGES, ".zarr")))
