"""The header of a .npy file, read as if a stranger wrote it.

Magic, version, header, type, shape and descriptor are checked, against each other and against the file's
length, before anything is allocated. Nothing is ever unpickled.
"""

from __future__ import annotations

import io
import json
import os
import warnings
from math import prod
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ...dtypes import DataType
from ...errors import Error, refuse
from ..stored_tensors import StoredArray, check_header, note_of
from ..writing.replacement import shown
from .json_object import parse_object

_MAGIC = b"\x93NUMPY"
_MARK = "# restride: "
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
_MAX_HEADER = 10_000
_ALIGN = 64
_WRITE_AGAIN = "write the file again with restride reorder, or save the array: np.save(file, x)"


class NpyHeader(NamedTuple):
    """What a file says of its array: where data start, element type, physical shape and order, descriptor."""

    path: str
    start: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool
    note: dict[str, Any] | None

    @property
    def nelems(self) -> int:
        """Number of elements, padding included."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of data."""
        return self.nelems * self.dtype.itemsize


def parse_header(file: BinaryIO, path: str, at: int = 0, end: int | None = None) -> NpyHeader:
    """The checked header of the .npy file that an open file is from byte `at` to `end`.

    Raises InvalidArguments that names the file and the fault.
    """
    held = (os.fstat(file.fileno()).st_size if end is None else end) - at
    lead, text, version = _header_text(file, path, at, held)
    shape, is_fortran, dtype = _fields(path, text, version)
    note = _note(path, text)
    if any(type(n) is not int or not 0 <= n < 2**63 for n in shape):
        raise refuse("RS-F01:header-damaged-extent", path=shown(path))
    header = NpyHeader(path, at + lead, dtype, shape, is_fortran, note)
    _check_type(header)
    _check_length(header, held - lead)
    return header


def encode_header(array: StoredArray) -> bytes:
    """The bytes before the data: NumPy's own header, and the descriptor where NumPy has no words for it.

    Raises Unimplemented for elements that neither has a word for, and for more words than NumPy reads.
    """
    dtype = _npy_type(array)
    fields = {"descr": dtype.str, "fortran_order": False, "shape": array.shape}
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.lib.format.write_array_header_1_0(buffer, fields)
    plain, note = buffer.getvalue(), note_of(array)
    if dtype != array.kind.numpy and array.desc is not None:
        note["desc"] = array.desc.to_dict()
    if not note:
        return plain
    # The descriptor's own fields at the top.
    said = {**note.get("desc", {}), **{key: value for key, value in note.items() if key != "desc"}}
    lead = len(_MAGIC) + 4
    text = plain[lead:].rstrip() + f" {_MARK}{json.dumps(said)}".encode()
    text += b" " * (-(lead + len(text) + 1) % _ALIGN) + b"\n"
    check_header(".npy", len(text), _MAX_HEADER)
    return _MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text


def _npy_type(array: StoredArray) -> np.dtype[Any]:
    """The type by which the header calls the elements; only a width, where NumPy has no name for them."""
    twin = array.kind.numpy
    if twin is not None and twin.isbuiltin == 1:
        return twin
    if array.desc is not None:
        return np.dtype(f"V{array.kind.bits // 8}")
    raise refuse("RS-F03:npy-file", word=array.kind.word, name=array.name)


def _header_text(file: BinaryIO, path: str, at: int, held: int) -> tuple[int, bytes, int]:
    """The length of all before the data, the header as it stands, and the major version of the format."""
    file.seek(at)
    lead = file.read(min(len(_MAGIC) + 2, held))
    if lead[: len(_MAGIC)] != _MAGIC or len(lead) < len(_MAGIC) + 2:
        raise _no_npy(path, lead)
    major, minor = lead[-2:]
    if minor or major not in _LENGTH_BYTES:
        raise refuse("RS-F01:npy-version-not", path=shown(path), major=major, minor=minor)
    width = _LENGTH_BYTES[major]
    count = file.read(width)
    length = int.from_bytes(count, "little")
    if length > _MAX_HEADER:
        raise refuse("RS-F01:header-bytes-describes", path=shown(path), length=length)
    text = file.read(length)
    if len(count) < width or len(text) < length:
        raise refuse("RS-F01:file-ends-inside", path=shown(path))
    return len(lead) + width + length, text, major


def _no_npy(path: str, lead: bytes) -> Error:
    if not lead:
        return refuse("RS-F01:file-empty", path=shown(path))
    if lead.startswith(b"PK"):
        hint = "it may be an .npz: save one of its arrays, np.save('x.npy', np.load('x.npz')['name'])"
        return refuse("RS-F01:zip-archive-no", path=shown(path), hint=hint)
    hint = "save the array with np.save(file, x)"
    return refuse("RS-F01:not-start-npy", path=shown(path), hint=hint)


def _fields(path: str, text: bytes, version: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, order and type, as NumPy reads them."""
    width = _LENGTH_BYTES[version]
    stream = io.BytesIO(len(text).to_bytes(width, "little") + text)
    formats = np.lib.format
    parse = formats.read_array_header_1_0 if width == 2 else formats.read_array_header_2_0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape, is_fortran, dtype = parse(stream, max_header_size=_MAX_HEADER)
    except Exception:
        # The header is a Python expression: a hostile one can make the parser raise nearly anything.
        # NumPy writes float8_e5m2 as a type that it cannot read back itself.
        if b"'<f1'" in text:
            raise refuse("RS-F01:numpy-no-name", path=shown(path)) from None
        raise refuse("RS-F01:header-damaged", path=shown(path)) from None
    return tuple(shape), bool(is_fortran), dtype


def _note(path: str, text: bytes) -> dict[str, Any] | None:
    """What the header's comment says: an object, of which nothing is believed yet."""
    _, mark, comment = text.decode("latin1").rpartition(_MARK)
    if not mark:
        return None
    return parse_object(path, comment.encode("latin1"))


def typed(path: str, dtype: np.dtype[Any], data_type: DataType) -> np.dtype[Any]:
    """The NumPy type of the elements, which the header may know only by their width."""
    twin = data_type.numpy
    bare = dtype.kind in "Vui" and dtype.names is None and dtype.isnative
    if twin is not None and (
        dtype == twin or (bare and dtype.itemsize == twin.itemsize and data_type.bits >= 8)
    ):
        return twin
    raise refuse("RS-F01:elements-not", path=shown(path), dtype=str(dtype)[:60], data_type=data_type)


def _check_type(header: NpyHeader) -> None:
    dtype, path = header.dtype, header.path
    if dtype.hasobject:
        raise refuse("RS-F01:holds-pickled-python", path=shown(path))
    if dtype.subdtype is not None:
        raise refuse("RS-F01:elements-arrays-themselves", path=shown(path))


def _check_length(header: NpyHeader, held: int) -> None:
    """Raise InvalidArguments where the file holds less than its header promises."""
    if header.nbytes > held:
        raise refuse(
            "RS-F01:header-promises-elements",
            path=shown(header.path),
            shape=f"shape {header.shape}"[:200],
            header=header,
            itemsize=header.dtype.itemsize,
            held=held,
        )
