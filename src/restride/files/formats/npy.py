""".npy files, with the memory format inside.

An array on disk is the physical array: the outer axes in the order of memory, then the inner blocks, as
`Memory.physical()` gives it. Row-major arrays are ordinary .npy files. For every other format, and for
elements that .npy has no name for (bf16, f8), the descriptor stands as a comment in the file's own header:

    {'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 2, 2, 16), } # restride: {"format_kind": ...}

The header is a Python expression, so NumPy and others read such a file as the physical array, and one file
says all: there is no second file to lose, and one rename replaces it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
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
from ..element_kinds import ElementKind, kind_of_dtype
from ..plain_file import about_file, opened, read_at
from ..stored_tensors import Contents, StoredArray, StoredTensor, annotated, as_bytes, plain_array
from ..writing.file_image import FileImage
from ..writing.replacement import shown
from .npy_header import NpyHeader, encode_header, parse_header, typed

_WRITE_AGAIN = "write the file again with restride reorder, or save the array: np.save(file, x)"


class NpyOverride(NamedTuple):
    """What a person may say of a file that cannot say it: format, logical dims, element type."""

    src: str | None = None
    dims: tuple[int, ...] | None = None
    data_type: DataType | None = None


_NOTHING = NpyOverride()


def read_desc(path: str, override: NpyOverride = _NOTHING) -> MemoryDesc:
    """The descriptor of the tensor in the .npy file at `path`; no data are read. Errors as `read_npy`."""
    with opened(path, "a .npy file") as file:
        return _desc_of(read_npy(file, path, override).tensors[0].array, path)


def read_npy(file: BinaryIO, path: str, override: NpyOverride = _NOTHING) -> Contents:
    """The one tensor of an open .npy file, named after it.

    Raises InvalidArguments for a file that is no array, or not what `meaning` says.
    """
    header = parse_header(file, path)
    digest = hashlib.sha256(read_at(file, path, 0, header.start)).hexdigest()
    array = tensor_array(header, PurePath(path).stem, override)
    return Contents((StoredTensor(array, path, header.start),), {}, ((path, digest),))


def tensor_array(header: NpyHeader, name: str, override: NpyOverride = _NOTHING) -> StoredArray:
    """The array that a header describes, or the person who asks."""
    said = override.data_type
    stored = header.note if header.note and "data_type" in header.note else None
    if stored is not None:
        said = about_file(header.path, DataType.parse, str(stored["data_type"])[:60])
    is_packed = stored is not None and header.dtype == np.uint8
    dtype = header.dtype if said is None or is_packed else typed(header.path, header.dtype, said)
    array = plain_array(name, _kind_of(header, dtype), header.shape)
    if header.note is not None:
        if header.is_fortran:
            raise refuse("RS-F01:descriptor-header-not", path=shown(header.path))
        note = {"desc": header.note} if stored is not None else {}
        return _agreed(annotated(header.path, array, note, frozenset()), header, override)
    if override == _NOTHING:
        return _in_fortran_order(array, header) if header.is_fortran and len(header.shape) > 1 else array
    desc = _said(header, _desc_of(array, header.path).data_type, override)
    return StoredArray(name, array.kind, array.shape, array.nbytes, desc)


def npy_image(arrays: Sequence[StoredArray], metadata: Mapping[str, Any]) -> FileImage:
    """The .npy file of one array. Raises Unimplemented for any other number of them."""
    if len(arrays) != 1:
        raise refuse("RS-F03:tensors-npy-file", count=len(arrays))
    (array,) = (npy_form(array) for array in arrays)
    head = encode_header(array)
    return FileImage((array,), (len(head),), ((0, head),), len(head) + array.nbytes)


def npy_form(array: StoredArray) -> StoredArray:
    """The array as .npy can have it: elements that share bytes as those bytes."""
    return as_bytes(array) if array.kind.bits < 8 and array.desc is not None else array


def _kind_of(header: NpyHeader, dtype: np.dtype[Any]) -> ElementKind:
    """The kind of elements of this type. Raises InvalidArguments for a type that no file is written with."""
    found = kind_of_dtype(dtype)
    if found is not None:
        return found
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
    """The descriptor of an array that is to be reordered. Raises InvalidArguments where it has none."""
    has_type = array.kind.data_type is not None or not array.is_fortran
    if array.desc is not None and has_type:
        return array.desc
    if not array.shape:
        raise refuse("RS-F01:array-no-axes", path=shown(path))
    if array.kind.numpy is not None and array.kind.data_type is None:
        raise _refused_type(path, array.kind.numpy)
    raise refuse("RS-F01:array-axes-no", path=shown(path), count=len(array.shape))


def _in_fortran_order(array: StoredArray, header: NpyHeader) -> StoredArray:
    """The array with the descriptor of that order."""
    carrier = array.kind.carrier
    if carrier is None or len(array.shape) > MAX_NDIMS:
        raise refuse(
            "RS-F01:elements-axes-lie", path=shown(header.path), word=array.kind.word, count=len(array.shape)
        )
    return replace(array, desc=_desc(header, array.shape, carrier, _order_of(header)), is_fortran=True)


def _order_of(header: NpyHeader) -> Tag | None:
    """The order in which the header says that elements lie; None for more axes than formats have."""
    axes = range(len(header.shape))
    return Tag(tuple(reversed(axes) if header.is_fortran else axes)) if len(axes) <= MAX_NDIMS else None


def _agreed(array: StoredArray, header: NpyHeader, override: NpyOverride) -> StoredArray:
    """The array with the file's own descriptor, which what is said besides must not contradict."""
    if override == _NOTHING:
        return array
    stored = _desc_of(array, header.path)
    dims = stored.dims if override.dims is None else override.dims
    said = _desc(header, dims, override.data_type or stored.data_type, override.src or stored.tag)
    if said == stored:
        return array
    raise refuse("RS-F01:header-holds-descriptor", path=shown(header.path), said=said, stored=stored)


def _said(header: NpyHeader, data_type: DataType, override: NpyOverride) -> MemoryDesc:
    """The descriptor of an ordinary .npy file, read as `meaning` says."""
    plain = _desc(header, header.shape, data_type, _order_of(header))
    if override.src is None and override.dims is None:
        return plain
    if override.dims is not None:
        return _checked(header, _desc(header, override.dims, data_type, override.src), plain)
    tag = _tag_of_physical(header, override.src or "")
    if not tag.inner_blks:
        return plain.permute_axes(tag.order)
    return _checked(header, _desc(header, _whole_dims(plain.dims, tag), data_type, tag), plain)


def _desc(header: NpyHeader, dims: tuple[int, ...], data_type: DataType, format: Format) -> MemoryDesc:
    """A descriptor of the tensor in the file; what is wrong with it is the file's fault."""
    found: MemoryDesc = about_file(header.path, MemoryDesc, dims, data_type, format, hint=_WRITE_AGAIN)
    return found


def _checked(header: NpyHeader, said: MemoryDesc, plain: MemoryDesc) -> MemoryDesc:
    """`said`, where the array in the file can be its physical array."""
    if said.physical_shape == plain.dims and plain == MemoryDesc(plain.dims, plain.data_type):
        return said
    raise refuse("RS-F01:options-say-array", path=shown(header.path), said=said, plain=plain)


def _tag_of_physical(header: NpyHeader, src: str) -> Tag:
    """The tag that `src` is for the file's array, taken as the physical one."""
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


def _whole_dims(shape: tuple[int, ...], tag: Tag) -> tuple[int, ...]:
    """The dims of a physical array without padding."""
    blocks = block_products(tag.ndims, tag.inner_blks, tag.inner_idxs)
    extents = dict(zip(tag.order, shape, strict=False))
    return tuple(extents[d] * blocks[d] for d in range(tag.ndims))
