"""The header of a .npy file, read as if a stranger wrote it.

Magic, version, header, type, shape and descriptor are checked, against each other and against the file's
length, before anything is allocated. Nothing is ever unpickled.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable
from math import prod
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from ..errors import Error, InvalidArguments, Unimplemented
from ..runtime.describe import describe
from .whole import shown

_MAGIC = b"\x93NUMPY"
_MARK = "# restride: "
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
_MAX_HEADER = 10_000
_ALIGN = 64
_SAVE_AGAIN = "save the array again: np.save(file, x)"
_WRITE_AGAIN = "write the file again with restride reorder, or save the array: np.save(file, x)"


class Header(NamedTuple):
    """What a file says of its array: where data start, element type, physical shape and order, descriptor."""

    path: str
    start: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_fortran: bool
    stored: MemoryDesc | None

    @property
    def nelems(self) -> int:
        """Number of elements, padding included."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of data."""
        return self.nelems * self.dtype.itemsize


def parse_header(file: BinaryIO, path: str, data_type: DataType | None = None) -> Header:
    """The checked header of an open file; `data_type` is for elements that it knows only the width of.

    Raises InvalidArguments that names the file and the fault.
    """
    start, text, version = _header_text(file, path)
    shape, is_fortran, dtype = _fields(path, text, version)
    stored = _stored(path, text)
    _check_shape(path, shape)
    wanted = stored.data_type if stored else data_type
    dtype = dtype if wanted is None else _typed(path, dtype, wanted)
    header = Header(path, start, dtype, shape, is_fortran, stored)
    _check_type(header)
    _check_length(header, os.fstat(file.fileno()).st_size)
    if stored and (stored.physical_shape != shape or is_fortran or not is_dense(stored)):
        why = "the descriptor in its header does not fit the array"
        raise bad_file(path, why, _WRITE_AGAIN, f"{stored}, array {shape}")
    return header


def encode_header(desc: MemoryDesc) -> bytes:
    """The bytes before the data of a dense tensor: NumPy's own header, the descriptor where it is needed.

    Raises InvalidArguments for a layout with gaps, Unimplemented for 4-bit types.
    """
    dtype = describe_type(desc)
    is_known = dtype.isbuiltin == 1
    # Not by equality, which does not see where axes of one element stand: an NHWC file has its axes in order.
    is_row_major = desc.layout == MemoryDesc(desc.dims, desc.data_type).layout
    fields = {
        "descr": dtype.str if is_known else f"|V{dtype.itemsize}",
        "fortran_order": False,
        "shape": desc.dims if is_known and is_row_major else desc.physical_shape,
    }
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, fields)
    plain = buffer.getvalue()
    if is_known and is_row_major:
        return plain
    lead = len(_MAGIC) + 4
    text = plain[lead:].rstrip() + f" {_MARK}{desc.to_json()}".encode()
    text += b" " * (-(lead + len(text) + 1) % _ALIGN) + b"\n"
    return _MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text


def describe_type(desc: MemoryDesc) -> np.dtype[Any]:
    """The NumPy type of the elements of a layout that a file can hold."""
    twin = desc.data_type.numpy
    if twin is None or desc.data_type.bits < 8:
        raise Unimplemented(
            f"{desc.data_type} in a .npy file",
            code="RS-F03",
            why="two elements share a byte",
            hint="convert to s8",
        )
    if not is_dense(desc):
        raise InvalidArguments(
            f"{desc} is not one dense array",
            code="RS-F03",
            why="its elements have gaps between them, or overlap",
            hint="name a format, as --dst nchw",
        )
    return twin


def is_dense(desc: MemoryDesc) -> bool:
    """True where elements and padding fill the storage, each at its own place, from offset 0 on."""
    elements = desc.data_type.nbytes(prod(desc.physical_shape))
    return not desc.offset0 and desc.size == elements and min(desc.strides) >= 0 and desc.is_injective()


def bad_file(path: str, why: str, hint: str = "", where: str = "", code: str = "RS-F01") -> InvalidArguments:
    """The error for a file that is not what it should be."""
    return InvalidArguments(f"cannot read {shown(path)}", code=code, where=where, why=why, hint=hint)


def about_file(path: str, function: Callable[..., Any], *args: Any) -> Any:
    """Return `function(*args)`; its errors get the file's name."""
    try:
        return function(*args)
    except Error as error:
        why = f"{error.what}: {error.why}" if error.why else error.what
        raise bad_file(path, why, error.hint or _WRITE_AGAIN, error.where) from None


def _header_text(file: BinaryIO, path: str) -> tuple[int, bytes, int]:
    """Where the data start, the header as it stands, and the major version of the format."""
    lead = file.read(len(_MAGIC) + 2)
    if lead[: len(_MAGIC)] != _MAGIC or len(lead) < len(_MAGIC) + 2:
        raise _no_npy(path, lead)
    major, minor = lead[-2:]
    if minor or major not in _LENGTH_BYTES:
        raise bad_file(path, f".npy version {major}.{minor} is not known", "save it with np.save(file, x)")
    width = _LENGTH_BYTES[major]
    count = file.read(width)
    length = int.from_bytes(count, "little")
    if length > _MAX_HEADER:
        raise bad_file(
            path, f"a header of {length} bytes describes no array that restride moves", _SAVE_AGAIN
        )
    text = file.read(length)
    if len(count) < width or len(text) < length:
        raise bad_file(path, "the file ends inside its header", "it was cut off: get it again")
    return len(lead) + width + length, text, major


def _no_npy(path: str, lead: bytes) -> InvalidArguments:
    if not lead:
        return bad_file(path, "the file is empty", _SAVE_AGAIN)
    if lead.startswith(b"PK"):
        hint = "it may be an .npz: save one of its arrays, np.save('x.npy', np.load('x.npz')['name'])"
        return bad_file(path, "it is a zip archive, no .npy file", hint)
    hint = "save the array with np.save(file, x)"
    return bad_file(path, "it does not start as .npy files do", hint)


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
            hint = "save its bytes, np.save(file, x.view(np.uint8)), and pass --src-dtype f8_e5m2"
            raise bad_file(path, "NumPy has no name for its elements", hint) from None
        raise bad_file(path, "its header is damaged", _SAVE_AGAIN) from None
    return tuple(shape), bool(is_fortran), dtype


def _stored(path: str, text: bytes) -> MemoryDesc | None:
    """The descriptor in the header's comment, each value checked as if a stranger wrote it."""
    _, mark, comment = text.decode("latin1").rpartition(_MARK)
    if not mark:
        return None
    desc: MemoryDesc = about_file(path, MemoryDesc.from_json, comment)
    if desc.format_kind == "blocked" and not desc.layout.has_runtime:
        return desc
    raise bad_file(path, "the descriptor in its header names no layout", _WRITE_AGAIN, str(desc))


def _check_shape(path: str, shape: tuple[int, ...]) -> None:
    if not shape:
        raise bad_file(path, "an array of no axes has no memory format", "save x.reshape(1)")
    if any(type(n) is not int or not 0 <= n < 2**63 for n in shape):
        why = "its header is damaged: an extent is no whole number from 0 to 2**63 - 1"
        raise bad_file(path, why, _SAVE_AGAIN)


def _typed(path: str, dtype: np.dtype[Any], data_type: DataType) -> np.dtype[Any]:
    """The NumPy type of the elements, which the header may know only by their width."""
    twin = data_type.numpy
    bare = dtype.kind in "Vui" and dtype.names is None and dtype.isnative
    if twin is not None and (
        dtype == twin or (bare and dtype.itemsize == twin.itemsize and data_type.bits >= 8)
    ):
        return twin
    hint = "name the type that it was saved with, or none: --src-dtype only says what the file leaves open"
    raise bad_file(path, f"its elements are {str(dtype)[:60]}, not {data_type}", hint)


def _check_type(header: Header) -> None:
    dtype, path = header.dtype, header.path
    if dtype.hasobject:
        hint = "save numbers: np.save(file, x.astype(np.float32))"
        raise bad_file(path, "it holds pickled Python objects, which are never loaded", hint)
    if dtype.subdtype is not None:
        raise bad_file(path, "its elements are arrays themselves", "save x, not a field of a structure")
    if dtype.kind == "V" and dtype.names is None and dtype.isbuiltin != 2:
        example = {1: "f8_e4m3", 2: "bf16"}.get(dtype.itemsize, "f32")
        hint = f"--src-dtype names their type, for example --src-dtype {example}"
        raise bad_file(path, f"its elements are of {8 * dtype.itemsize} bits and no known type", hint)
    try:
        describe(np.empty(0, dtype))
    except Error as error:
        raise bad_file(path, error.why, error.hint) from None


def _check_length(header: Header, length: int) -> None:
    held = length - header.start
    if header.nbytes > held:
        promised = f"the header promises {header.nelems} elements of {header.dtype.itemsize} bytes"
        raise bad_file(
            header.path,
            f"{promised}, {header.nbytes} bytes; the file holds {held}",
            "it was cut off: get it again",
            f"shape {header.shape}"[:200],
        )
