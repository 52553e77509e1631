"""What a file holds: tensors by name, each with its place, its physical array and its descriptor.

A tensor in a file is its physical array: plain to every reader. Where that array is not the row-major one,
the file's metadata hold the descriptor. Layouts with gaps, and elements that share bytes and have no word of
their own, are arrays of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

from ..desc.memory_desc import MemoryDesc
from ..desc.tags import MAX_NDIMS
from ..dtypes import DataType
from ..errors import Error, refuse
from ..runtime.alloc import extent
from .element_kinds import BYTES, ElementKind, kind_of_type
from .formats.json_object import parse_object
from .plain_file import about_file
from .writing.replacement import shown

VERSION = 1
KEY = "restride"
"""The key under which a file's metadata hold what restride writes there."""

_WRITE_AGAIN = "write the file again with rs.save or restride convert"


class Scaling(NamedTuple):
    """Where the scales of quantised values are: names of tensors of the same file.

    One scale is for the whole tensor, with `axis` for each index of it, with `groups` for as many elements
    along each axis. `tensor_scale`: one more, for all of the tensor. `minimum`: what is added in the end.
    """

    scale: str
    zero_point: str = ""
    axis: int | None = None
    groups: tuple[int, ...] = ()
    tensor_scale: str = ""
    minimum: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of all that belongs to the values."""
        return tuple(filter(None, (self.scale, self.zero_point, self.tensor_scale, self.minimum)))


@dataclass(frozen=True, slots=True)
class StoredArray:
    """The physical array of a tensor: its name, its elements, its shape, and the length in bytes.

    `desc` is of the elements' data type, or of one as wide for kinds that have none. `is_fortran`: readers of
    the file take `shape` for the dims, though elements lie as `desc` says, in Fortran order.
    """

    name: str
    kind: ElementKind
    shape: tuple[int, ...]
    nbytes: int
    desc: MemoryDesc | None = None
    scaling: Scaling | None = None
    is_fortran: bool = False
    # What else the file says of the tensor, and its format knows nothing of.
    unknown: Mapping[str, object] = field(default_factory=dict)

    @property
    def moved_as(self) -> MemoryDesc | None:
        """The descriptor by which it is moved: its own, or that of bits as wide; None where there is none."""
        carrier = self.kind.carrier
        if self.desc is not None or carrier is None or not 0 < len(self.shape) <= MAX_NDIMS:
            return self.desc
        return MemoryDesc(self.shape, carrier)

    @property
    def whole_desc(self) -> MemoryDesc:
        """By which all of the array is read or written at once."""
        return self.moved_as or MemoryDesc((self.nbytes,), DataType.u8)


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of a file: its array, and where its bytes are. `chunks`: extents of what is read at a time,
    where the file has them; `chunk_bytes`: the memory that takes, where no part of a chunk can be read.
    """

    array: StoredArray
    path: str
    start: int
    chunks: tuple[int, ...] = ()
    chunk_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Contents:
    """What a file, or a folder of files, holds. `metadata`: of the file as a whole, restride's own left out.

    `heads`: of each file the path and a hash of its header, by which a changed source is noticed. `groups`:
    attributes of groups within it, by name.
    """

    tensors: tuple[StoredTensor, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    heads: tuple[tuple[str, str], ...] = ()
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@lru_cache(maxsize=1024)
def is_dense(desc: MemoryDesc) -> bool:
    """True where elements and padding fill the storage, each at its own place, from offset 0 on."""
    elements = desc.data_type.nbytes(prod(desc.physical_shape))
    return not desc.offset0 and desc.size == elements and min(desc.strides) >= 0 and desc.is_injective()


def is_row_major(desc: MemoryDesc) -> bool:
    """True for the layout that every reader expects."""
    # Not by equality, which does not see where axes of one element stand: an NHWC file has its axes in order.
    return desc.layout == MemoryDesc(desc.dims, desc.data_type).layout


def array_of(name: str, desc: MemoryDesc, scaling: Scaling | None = None) -> StoredArray:
    """The physical array of a tensor with this descriptor."""
    kind = kind_of_type(desc.data_type)
    if kind is None or not is_dense(desc) or (kind.bits < 8 and desc.physical_shape[-1] % 2):
        reach = extent(desc).high
        return StoredArray(name, BYTES, (reach,), reach, desc, scaling)
    shape = desc.dims if is_row_major(desc) else desc.physical_shape
    return StoredArray(name, kind, shape, desc.size, desc, scaling)


def as_bytes(array: StoredArray) -> StoredArray:
    """The array as one of bytes, for files that have no word for its elements."""
    return replace(array, kind=BYTES, shape=(array.nbytes,))


def physical(array: StoredArray) -> StoredArray:
    """The array with its axes in the order of memory."""
    if not array.is_fortran or array.desc is None:
        return array
    return replace(array, shape=array.desc.physical_shape, is_fortran=False)


def plain_array(name: str, kind: ElementKind, shape: tuple[int, ...]) -> StoredArray:
    """An array as files of other programs hold it: row-major, where it has a descriptor at all."""
    has_rank = 0 < len(shape) <= MAX_NDIMS
    desc = MemoryDesc(shape, kind.data_type) if kind.data_type is not None and has_rank else None
    return StoredArray(name, kind, shape, kind.nbytes(shape), desc)


def name_bytes(name: str) -> bytes:
    """The name of a tensor as files have it. Raises InvalidArguments for one that is no text."""
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise refuse("RS-F03:name-no-tensor-file", name=ascii(name[:60])) from None


def check_header(kind: str, nbytes: int, most: int) -> None:
    """Raise Unimplemented for a header that is longer than readers of the format take."""
    if nbytes > most:
        raise refuse("RS-F03:header-bytes-file", nbytes=nbytes, kind=kind, most=most)


# --- what restride adds to a file's metadata ------------------------------------------------------------


def note_of(array: StoredArray) -> dict[str, Any]:
    """What the metadata must say of an array, as plain values; empty where its own shape says all."""
    note: dict[str, Any] = {}
    desc, plain = array.desc, plain_array(array.name, array.kind, array.shape).desc
    is_plain = plain is not None and plain == desc and plain.layout == desc.layout
    if desc is not None and not is_plain:
        note["desc"] = desc.to_dict()
    if array.scaling is not None:
        words = array.scaling._asdict()
        note["scaling"] = {name: value for name, value in words.items() if value not in ("", None, ())}
    return note


def parse_notes(path: str, text: bytes) -> dict[str, Any]:
    """The notes of all tensors by name, from what a file's metadata hold under the key."""
    words = parse_object(path, text)
    notes = words.get("tensors")
    if words.get("version") != VERSION or not isinstance(notes, dict):
        raise refuse("RS-F01:layouts-of-another-version", path=shown(path))
    return notes


def annotated(path: str, array: StoredArray, note: object, names: frozenset[str]) -> StoredArray:
    """The array as the file's metadata describe it, every value checked as if a stranger wrote it.

    `names`: of all tensors of the file. Raises InvalidArguments, naming the file and the tensor.
    """
    if not isinstance(note, dict):
        raise refuse("RS-F01:note-no-object", path=shown(path), name=array.name[:60])
    desc = array.desc
    if "desc" in note:
        desc = about_file(path, MemoryDesc.from_dict, note["desc"], hint=_WRITE_AGAIN)
        _check_desc(path, array, desc)
    scaling = _scaling(path, array.name, note["scaling"], names) if "scaling" in note else None
    return replace(array, desc=desc, scaling=scaling)


def _check_desc(path: str, array: StoredArray, desc: MemoryDesc) -> None:
    """Refuse a descriptor whose physical array is not the one in the file."""
    try:
        stored = array_of(array.name, desc)
        forms = [(form.kind, form.shape) for form in (stored, as_bytes(stored))]
        if array.kind.data_type is None and array.kind.carrier is desc.data_type:
            forms.append((array.kind, stored.shape))
        fits = desc.format_kind == "blocked" and (array.kind, array.shape) in forms
    except Error:
        fits = False
    if not fits:
        raise refuse(
            "RS-F01:descriptor-not-fit",
            path=shown(path),
            desc=f"{desc}; {array.kind.word} {array.shape}"[:300],
            name=array.name[:60],
        )


def _scaling(path: str, name: str, note: object, names: frozenset[str]) -> Scaling:
    words = note if isinstance(note, dict) else {}
    scale, zero, whole, least = (
        str(words.get(word, "")) for word in ("scale", "zero_point", "tensor_scale", "minimum")
    )
    axis, groups = words.get("axis"), words.get("groups", [])
    are_named = scale in names and all(name == "" or name in names for name in (zero, whole, least))
    is_axis = axis is None or (type(axis) is int and 0 <= axis < MAX_NDIMS)
    are_groups = isinstance(groups, list) and all(type(n) is int and 0 < n < 2**63 for n in groups)
    if are_named and is_axis and are_groups and set(words) <= set(Scaling._fields):
        return Scaling(scale, zero, axis, tuple(groups), whole, least)
    raise refuse("RS-F01:scales-not-file", path=shown(path), name=name[:60])
