"""Reading and writing .npy files, with the memory format inside.

An array on disk is the physical array: the outer axes in the order of memory, then the inner blocks, as
`Memory.physical()` gives it. Row-major arrays are ordinary .npy files. For every other format, and for
elements that .npy has no name for (bf16, f8), the descriptor stands as a comment in the file's own header:

    {'descr': '<f4', 'fortran_order': False, 'shape': (1, 2, 2, 2, 16), } # restride: {"format_kind": ...}

The header is a Python expression, so NumPy and others read such a file as the physical array, and one file
says all: there is no second file to lose, and one rename replaces it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np

from ..desc.build import Format
from ..desc.layout import block_products
from ..desc.memory_desc import MemoryDesc
from ..desc.tags import MAX_NDIMS, GenericTag, Tag, parse_tag
from ..dtypes import DataType
from ..errors import OutOfMemory
from ..runtime.alloc import Array
from ..runtime.engine import Engine
from ..runtime.memory import Memory
from .memory_limit import check_fits
from .npy_header import Header, about_file, bad_file, encode_header, parse_header
from .whole import Replacement, shown, system_error

# Python sees Ctrl-C between pieces.
_PIECE = 64 << 20


class Meaning(NamedTuple):
    """What a person may say of a file that cannot say it: format, logical dims, element type."""

    src: str | None = None
    dims: tuple[int, ...] | None = None
    data_type: DataType | None = None


_NOTHING = Meaning()


def read_desc(path: str, meaning: Meaning = _NOTHING) -> MemoryDesc:
    """The descriptor of the tensor in the .npy file at `path`; no data are read. Errors as `read`."""
    with _opened(path) as file:
        return _described(parse_header(file, path, meaning.data_type), meaning)


def read(path: str, meaning: Meaning = _NOTHING) -> Memory:
    """The tensor in the .npy file at `path`, read whole.

    It is not mapped: a mapped file that another program cuts short kills the process that reads it.

    Raises InvalidArguments for a file that is no array or not what `meaning` says, RuntimeFailure where the
    system refuses, OutOfMemory; all before anything is allocated that the file's length does not cover.
    """
    with _opened(path) as file:
        header = parse_header(file, path, meaning.data_type)
        return Memory(_described(header, meaning), Engine("cpu"), _data(file, header))


def write(replacement: Replacement, memory: Memory) -> None:
    """Write the physical array of a dense memory, with its descriptor where .npy alone cannot say it."""
    desc, data = memory.desc, memory.data
    header = encode_header(desc)
    content = memoryview(b"") if data is None else data.view(np.uint8)[: desc.size].data
    with replacement.open(len(header) + desc.size) as file:
        file.write(header)
        for at in range(0, desc.size, _PIECE):
            file.write(content[at : at + _PIECE])


def _opened(path: str) -> BinaryIO:
    """The plain file at `path`. Opening a pipe would wait for its writer, and no length bounds a device."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        raise system_error(
            "read", path, error, "check the name" if error.errno == errno.ENOENT else ""
        ) from None
    except ValueError:
        raise bad_file(path, "no file name holds a zero byte", "name a .npy file") from None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return os.fdopen(handle, "rb")
    os.close(handle)
    raise bad_file(path, "it is a folder, a pipe or a device", "name a .npy file")


def _data(file: BinaryIO, header: Header) -> Array:
    """The bytes after the header, as many as it promises; read-only."""
    data = _reserve(header)
    content = data.data
    try:
        file.seek(header.start)
        count = sum(_counts(file, content))
    except OSError as error:
        raise system_error("read", header.path, error) from None
    if count != header.nbytes:
        raise bad_file(header.path, "it got shorter while it was read", "wait for its writer, then try again")
    data.flags.writeable = False
    return data


def _reserve(header: Header) -> Array:
    """Memory for the data. Raises OutOfMemory where there is not as much."""
    check_fits("the file does not fit into memory", header.nbytes, shown(header.path))
    try:
        return np.empty(header.nbytes, np.uint8)
    except MemoryError:
        raise OutOfMemory(
            f"no memory for the {header.nbytes} bytes of the file",
            code="RS-D01",
            where=header.path,
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


def _described(header: Header, meaning: Meaning) -> MemoryDesc:
    """The descriptor of the array as its header, or the person who asks, says that it lies."""
    return _stored(header, meaning) if header.stored else _said(header, meaning)


def _stored(header: Header, meaning: Meaning) -> MemoryDesc:
    """The file's own descriptor, which what is said besides must not contradict."""
    stored = header.stored or MemoryDesc()
    if meaning == _NOTHING:
        return stored
    dims = stored.dims if meaning.dims is None else meaning.dims
    said = _desc(header, dims, meaning.data_type or stored.data_type, meaning.src or stored.tag)
    if said == stored:
        return stored
    why = "its header holds a descriptor, which the options contradict"
    hint = "leave --src, --dims and --src-dtype out"
    raise bad_file(header.path, why, hint, f"options {said}; file {stored}")


def _said(header: Header, meaning: Meaning) -> MemoryDesc:
    """The descriptor of an ordinary .npy file, read as `meaning` says."""
    data_type = DataType.parse(header.dtype)
    axes = range(len(header.shape))
    order = Tag(tuple(reversed(axes) if header.is_fortran else axes)) if len(axes) <= MAX_NDIMS else None
    plain = _desc(header, header.shape, data_type, order)
    if meaning.src is None and meaning.dims is None:
        return plain
    if meaning.dims is not None:
        return _checked(header, _desc(header, meaning.dims, data_type, meaning.src), plain)
    tag = _tag_of_physical(header, meaning.src or "")
    if not tag.inner_blks:
        return plain.permute_axes(tag.order)
    return _checked(header, _desc(header, _whole_dims(plain.dims, tag), data_type, tag), plain)


def _desc(header: Header, dims: tuple[int, ...], data_type: DataType, format: Format) -> MemoryDesc:
    """A descriptor of the tensor in the file; what is wrong with it is the file's fault."""
    found: MemoryDesc = about_file(header.path, MemoryDesc, dims, data_type, format)
    return found


def _checked(header: Header, said: MemoryDesc, plain: MemoryDesc) -> MemoryDesc:
    """`said`, where the array in the file can be its physical array."""
    if said.physical_shape == plain.dims and plain == MemoryDesc(plain.dims, plain.data_type):
        return said
    why = f"as the options say, its array would be of shape {said.physical_shape}, in C order"
    hint = "--dims gives the logical extents, without padding"
    raise bad_file(header.path, why, hint, f"options {said}; array {plain}")


def _tag_of_physical(header: Header, src: str) -> Tag:
    """The tag that `src` is for the file's array, taken as the physical one."""
    tag = parse_tag(src)
    ndims = len(header.shape) - len(tag.inner_blks)
    if ndims >= 1 and isinstance(tag, GenericTag):
        tag = tag.resolve(ndims)
    if isinstance(tag, Tag) and tag.ndims == ndims and header.shape[ndims:] == tag.inner_blks:
        return tag
    blocks = f", the last of them the blocks {tag.inner_blks}" if tag.inner_blks else ""
    why = f"its axes are not those of {tag} in the order of memory{blocks}"
    hint = "leave --src out for a row-major array; --dst says what to make of it"
    raise bad_file(header.path, why, hint, f"--src {src}, array of shape {header.shape}")


def _whole_dims(shape: tuple[int, ...], tag: Tag) -> tuple[int, ...]:
    """The dims of a physical array without padding."""
    blocks = block_products(tag.ndims, tag.inner_blks, tag.inner_idxs)
    extents = dict(zip(tag.order, shape, strict=False))
    return tuple(extents[d] * blocks[d] for d in range(tag.ndims))
