""".npy files that record a memory format.

An array on disk is the physical array: the outer axes in memory order, then the inner blocks, as returned by
`Memory.physical()`. Row-major arrays are ordinary .npy files. For all other formats, and for elements that
.npy has no name for (bf16, f8), the descriptor is a comment in the file's own header:

    {'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 2, 2, 16), } # restride: {"format_kind": ...}

The header is a Python expression, so NumPy and others read such a file as the physical array, and a single
file is complete: there is no second file to lose, and one rename replaces it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import PurePath
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from ...desc.build import Format
from ...desc.layout import block_products
from ...desc.memory_desc import MemoryDesc
from ...desc.tags import MAX_NDIMS, GenericTag, Tag, parse_tag
from ...dtypes import DataType
from ...errors import Error, refuse
from ...runtime.describe import describe
from ..plain_file import about_file, opened, read_at
from ..stored_tensors import (
    KIND_OF_DTYPE,
    Contents,
    ElementKind,
    FileImage,
    StoredArray,
    StoredTensor,
    annotate,
    as_bytes,
    check_header,
    note_of,
    parse_object,
    plain_array,
)
from ..writing.replacement import shown

_MAGIC = b"\x93NUMPY"
_MARK = "# restride: "
_LENGTH_BYTES = {1: 2, 2: 4, 3: 4}
_MAX_HEADER = 10_000
_ALIGN = 64
_WRITE_AGAIN = "write the file again with restride reorder, or save the array: np.save(file, x)"


class NpyOverride(NamedTuple):
    """Format, logical dims and element type, specified by the user for a file that does not contain them."""

    src: str | None = None
    dims: tuple[int, ...] | None = None
    data_type: DataType | None = None


_NOTHING = NpyOverride()


def read_desc(path: str, override: NpyOverride = _NOTHING) -> MemoryDesc:
    """Return the tensor's descriptor from the .npy file at `path`, reading no data. Errors as `read_npy`."""
    with opened(path, "a .npy file") as file:
        return _desc_of(read_npy(file, path, override).tensors[0].array, path)


def has_desc(path: str) -> bool:
    """Return False for an array without a memory format, which `read_desc` refuses: it has no axes or too
    many, or elements that restride has no data type for. Errors as `read_npy`.
    """
    with opened(path, "a .npy file") as file:
        return _has_desc(read_npy(file, path).tensors[0].array)


def read_npy(file: BinaryIO, path: str, override: NpyOverride = _NOTHING) -> Contents:
    """Return the only tensor of an open .npy file, named after it.

    Raises InvalidArguments for a file that is not an array, or does not match `override`.
    """
    header = parse_header(file, path)
    digest = hashlib.sha256(read_at(file, path, 0, header.start)).hexdigest()
    array = tensor_array(header, PurePath(path).stem, override)
    return Contents((StoredTensor(array, path, header.start),), {}, ((path, digest),))


def tensor_array(header: NpyHeader, name: str, override: NpyOverride = _NOTHING) -> StoredArray:
    """Return the array described by a header, or by the user."""
    data_type = override.data_type
    desc_fields = header.note if header.note and "data_type" in header.note else None
    if desc_fields is not None:
        data_type = about_file(header.path, DataType.parse, str(desc_fields["data_type"])[:60])
    is_packed = desc_fields is not None and header.dtype == np.uint8
    dtype = header.dtype
    if data_type is not None and not is_packed:
        dtype = _element_type(header.path, dtype, data_type)
    array = plain_array(name, _kind_of(header, dtype), header.shape)
    if header.note is not None:
        if header.is_fortran:
            raise refuse("RS-F01:descriptor-header-not", path=shown(header.path))
        note = {"desc": header.note} if desc_fields is not None else {}
        return _with_own_desc(annotate(header.path, array, note, frozenset()), header, override)
    if override == _NOTHING:
        return _in_fortran_order(array, header) if header.is_fortran and len(header.shape) > 1 else array
    desc = _desc_by_override(header, _desc_of(array, header.path).data_type, override)
    return StoredArray(name, array.kind, array.shape, array.nbytes, desc)


def npy_image(arrays: Sequence[StoredArray], metadata: Mapping[str, Any]) -> FileImage:
    """Return the .npy file of one array. Raises Unimplemented for any other number of arrays."""
    if len(arrays) != 1:
        raise refuse("RS-F03:tensors-npy-file", count=len(arrays))
    (array,) = (npy_form(array) for array in arrays)
    head = encode_header(array)
    return FileImage((array,), (len(head),), ((0, head),), len(head) + array.nbytes)


def npy_form(array: StoredArray) -> StoredArray:
    """Return the array in a form that .npy supports: elements that share bytes as bytes."""
    return as_bytes(array) if array.kind.bits < 8 and array.desc is not None else array


def _kind_of(header: NpyHeader, dtype: np.dtype[Any]) -> ElementKind:
    """Return the element kind for this type. Raises InvalidArguments for an unsupported type."""
    kind = KIND_OF_DTYPE.get(dtype)
    if kind is not None:
        return kind
    if dtype.kind == "V" and dtype.names is None:
        example = {1: "f8_e4m3", 2: "bf16"}.get(dtype.itemsize, "f32")
        raise refuse(
            "RS-F01:elements-bits-no", path=shown(header.path), itemsize=8 * dtype.itemsize, example=example
        )
    raise _refused_type(header.path, dtype)


def _refused_type(path: str, dtype: np.dtype[Any]) -> Error:
    try:
        describe(np.empty(1, dtype))
    except Error as error:
        hint = f"{error.hint}, " if error.hint else ""
        return refuse("RS-F01:move-in-python", path=shown(path), why=error.why, hint=hint)
    why = f"there are no elements of NumPy's {dtype}"[:120]
    return refuse("RS-F01:convert-first", path=shown(path), why=why)


def _desc_of(array: StoredArray, path: str) -> MemoryDesc:
    """Return the descriptor of an array for a reorder. Raises InvalidArguments if it has none."""
    if array.desc is not None and _has_desc(array):
        return array.desc
    if not array.shape:
        raise refuse("RS-F01:array-no-axes", path=shown(path))
    if array.kind.numpy is not None and array.kind.data_type is None:
        raise _refused_type(path, array.kind.numpy)
    raise refuse("RS-F01:array-axes-no", path=shown(path), count=len(array.shape))


def _has_desc(array: StoredArray) -> bool:
    # In Fortran order, elements without a data type have a descriptor of their bits.
    return array.desc is not None and (array.kind.data_type is not None or not array.is_fortran)


def _in_fortran_order(array: StoredArray, header: NpyHeader) -> StoredArray:
    """Return the array with the descriptor of Fortran order."""
    carrier = array.kind.carrier
    if carrier is None or len(array.shape) > MAX_NDIMS:
        raise refuse(
            "RS-F01:elements-axes-lie", path=shown(header.path), word=array.kind.word, count=len(array.shape)
        )
    return replace(array, desc=_desc(header, array.shape, carrier, header.order), is_fortran=True)


def _with_own_desc(array: StoredArray, header: NpyHeader, override: NpyOverride) -> StoredArray:
    """Return the array with the file's own descriptor, which `override` must not contradict."""
    if override == _NOTHING:
        return array
    desc = _desc_of(array, header.path)
    dims = desc.dims if override.dims is None else override.dims
    other = _desc(header, dims, override.data_type or desc.data_type, override.src or desc.tag)
    if other == desc:
        return array
    raise refuse("RS-F01:header-holds-descriptor", path=shown(header.path), said=other, stored=desc)


def _desc_by_override(header: NpyHeader, data_type: DataType, override: NpyOverride) -> MemoryDesc:
    """Return the descriptor of an ordinary .npy file, read according to `override`."""
    plain = _desc(header, header.shape, data_type, header.order)
    if override.src is None and override.dims is None:
        return plain
    if override.dims is not None:
        return _check_physical(header, _desc(header, override.dims, data_type, override.src), plain)
    tag = _tag_of_physical(header, override.src or "")
    if not tag.inner_blks:
        return plain.permute_axes(tag.order)
    # The dims of a physical array without padding.
    blocks = block_products(tag.ndims, tag.inner_blks, tag.inner_idxs)
    extents = dict(zip(tag.order, plain.dims, strict=False))
    dims = tuple(extents[d] * blocks[d] for d in range(tag.ndims))
    return _check_physical(header, _desc(header, dims, data_type, tag), plain)


def _desc(header: NpyHeader, dims: tuple[int, ...], data_type: DataType, format: Format) -> MemoryDesc:
    """Return a descriptor of the tensor in the file; errors are attributed to the file."""
    desc: MemoryDesc = about_file(header.path, MemoryDesc, dims, data_type, format, hint=_WRITE_AGAIN)
    return desc


def _check_physical(header: NpyHeader, desc: MemoryDesc, plain: MemoryDesc) -> MemoryDesc:
    """Return `desc` if the array in the file can be its physical array."""
    if desc.physical_shape == plain.dims and plain == MemoryDesc(plain.dims, plain.data_type):
        return desc
    raise refuse("RS-F01:options-say-array", path=shown(header.path), said=desc, plain=plain)


def _tag_of_physical(header: NpyHeader, src: str) -> Tag:
    """Return `src` as the tag of the file's array, taken as the physical one."""
    tag = parse_tag(src)
    ndims = len(header.shape) - len(tag.inner_blks)
    if ndims >= 1 and isinstance(tag, GenericTag):
        tag = tag.resolve(ndims)
    if isinstance(tag, Tag) and tag.ndims == ndims and header.shape[ndims:] == tag.inner_blks:
        return tag
    blocks = f", the last of them the blocks {tag.inner_blks}" if tag.inner_blks else ""
    raise refuse(
        "RS-F01:axes-not-those", path=shown(header.path), src=src, shape=header.shape, tag=tag, blocks=blocks
    )


class NpyHeader(NamedTuple):
    """The header of an array: the start of data, element type, physical shape and order, descriptor."""

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
        """Size of the data in bytes."""
        return self.nelems * self.dtype.itemsize

    @property
    def order(self) -> Tag | None:
        """The order of the elements; None for more axes than formats can have."""
        axes = range(len(self.shape))
        return Tag(tuple(reversed(axes) if self.is_fortran else axes)) if len(axes) <= MAX_NDIMS else None


def parse_header(file: BinaryIO, path: str, at: int = 0, end: int | None = None) -> NpyHeader:
    """Return the checked header of the .npy file between byte `at` and `end` of an open file.

    Raises InvalidArguments that names the file and the error.
    """
    nbytes = (os.fstat(file.fileno()).st_size if end is None else end) - at
    lead, text, version = _header_text(file, path, at, nbytes)
    shape, is_fortran, dtype = _fields(path, text, version)
    # The object in the header's comment, not validated yet.
    _, mark, comment = text.decode("latin1").rpartition(_MARK)
    note = parse_object(path, comment.encode("latin1")) if mark else None
    if any(type(n) is not int or not 0 <= n < 2**63 for n in shape):
        raise refuse("RS-F01:header-damaged-extent", path=shown(path))
    header = NpyHeader(path, at + lead, dtype, shape, is_fortran, note)
    if dtype.hasobject:
        raise refuse("RS-F01:holds-pickled-python", path=shown(path))
    if dtype.subdtype is not None:
        raise refuse("RS-F01:elements-arrays-themselves", path=shown(path))
    if header.nbytes > nbytes - lead:
        raise refuse(
            "RS-F01:header-promises-elements",
            path=shown(path),
            shape=f"shape {shape}"[:200],
            header=header,
            itemsize=dtype.itemsize,
            held=nbytes - lead,
        )
    return header


def encode_header(array: StoredArray) -> bytes:
    """Return the bytes before the data: NumPy's own header, plus the descriptor if NumPy cannot express it.

    Raises Unimplemented for elements that neither can name, and for a header longer than NumPy reads.
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
    # The descriptor's own fields at the top level.
    words = {**note.get("desc", {}), **{key: value for key, value in note.items() if key != "desc"}}
    lead = len(_MAGIC) + 4
    text = plain[lead:].rstrip() + f" {_MARK}{json.dumps(words)}".encode()
    text += b" " * (-(lead + len(text) + 1) % _ALIGN) + b"\n"
    check_header(".npy", len(text), _MAX_HEADER)
    return _MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text


def _npy_type(array: StoredArray) -> np.dtype[Any]:
    """Return the type used in the header; only a width if NumPy has no name for the elements."""
    twin = array.kind.numpy
    if twin is not None and twin.isbuiltin == 1:
        return twin
    if array.desc is not None:
        return np.dtype(f"V{array.kind.bits // 8}")
    raise refuse("RS-F03:npy-file", word=array.kind.word, name=array.name)


def _header_text(file: BinaryIO, path: str, at: int, nbytes: int) -> tuple[int, bytes, int]:
    """Return the length of everything before the data, the raw header, and the format's major version."""
    file.seek(at)
    lead = file.read(min(len(_MAGIC) + 2, nbytes))
    if lead[: len(_MAGIC)] != _MAGIC or len(lead) < len(_MAGIC) + 2:
        if not lead:
            raise refuse("RS-F01:file-empty", path=shown(path))
        if lead.startswith(b"PK"):
            hint = "it may be an .npz: save one of its arrays, np.save('x.npy', np.load('x.npz')['name'])"
            raise refuse("RS-F01:zip-archive-no", path=shown(path), hint=hint)
        raise refuse("RS-F01:not-start-npy", path=shown(path), hint="save the array with np.save(file, x)")
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


def _fields(path: str, text: bytes, version: int) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Return shape, order and type, as NumPy reads them."""
    width = _LENGTH_BYTES[version]
    stream = io.BytesIO(len(text).to_bytes(width, "little") + text)
    formats = np.lib.format
    parse = formats.read_array_header_1_0 if width == 2 else formats.read_array_header_2_0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape, is_fortran, dtype = parse(stream, max_header_size=_MAX_HEADER)
    except Exception:
        # The header is a Python expression: a malicious one can make the parser raise nearly anything. NumPy
        # itself writes float8_e5m2 as a type that it cannot read back.
        if b"'<f1'" in text:
            raise refuse("RS-F01:numpy-no-name", path=shown(path)) from None
        raise refuse("RS-F01:header-damaged", path=shown(path)) from None
    return tuple(shape), bool(is_fortran), dtype


def _element_type(path: str, dtype: np.dtype[Any], data_type: DataType) -> np.dtype[Any]:
    """Return the NumPy type of the elements, of which the header may specify only the width."""
    twin = data_type.numpy
    bare = dtype.kind in "Vui" and dtype.names is None and dtype.isnative
    if twin is not None and (
        dtype == twin or (bare and dtype.itemsize == twin.itemsize and data_type.bits >= 8)
    ):
        return twin
    raise refuse("RS-F01:elements-not", path=shown(path), dtype=str(dtype)[:60], data_type=data_type)
