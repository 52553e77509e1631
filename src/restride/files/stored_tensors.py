"""The content of files: tensors by name, each with its place, its physical array and its descriptor.

A tensor in a file is its physical array, which any reader can read. Unless that array is the row-major one,
the file's metadata contain the descriptor. Layouts with gaps, and elements that share bytes and have no type
name, are stored as arrays of bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple, NoReturn

import ml_dtypes
import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..desc.tags import MAX_NDIMS
from ..dtypes import DataType
from ..errors import Error, refuse
from ..runtime.alloc import extent
from .plain_file import about_file
from .writing.replacement import shown

VERSION = 1
KEY = "restride"
"""The metadata key for restride's own notes."""

PIECE = 8 << 20
"""Bytes read or written in one call: Python handles Ctrl-C between pieces."""

# An entry has three brackets and about sixty bytes: a file with far more brackets is not valid and takes
# memory.
_BYTES_PER_BRACKET = 8
_WRITE_AGAIN = "write the file again with rs.save or restride convert"


class ElementKind(NamedTuple):
    """A kind of element: its name, its width in bits, the data type, and NumPy's type if there is one.

    Names are those of safetensors, for all files. Kinds without a restride data type are moved as bits and
    never converted. For kinds in blocks of several elements, the width is that of a `block`.
    """

    word: str
    bits: int
    data_type: DataType | None
    numpy: np.dtype[Any] | None
    block: int = 1

    def nbytes(self, shape: tuple[int, ...]) -> int:
        """Return the size of a dense array of this shape in bytes."""
        return (prod(shape) // self.block * self.bits + 7) // 8

    @property
    def carrier(self) -> DataType | None:
        """The data type that the bits are moved as; None if no type has that width."""
        return self.data_type or (_CARRIERS.get(self.bits) if self.block == 1 else None)


_CARRIERS = {8: DataType.u8, 16: DataType.f16, 32: DataType.f32, 64: DataType.f64}
_ROWS: tuple[tuple[str, int, str, Any], ...] = (
    ("BOOL", 8, "boolean", np.bool_),
    ("F4", 4, "f4_e2m1", None),
    ("F6_E2M3", 6, "", None),
    ("F6_E3M2", 6, "", None),
    ("U8", 8, "u8", np.uint8),
    ("I8", 8, "s8", np.int8),
    ("F8_E5M2", 8, "f8_e5m2", ml_dtypes.float8_e5m2),
    ("F8_E4M3", 8, "f8_e4m3", ml_dtypes.float8_e4m3fn),
    ("F8_E8M0", 8, "e8m0", ml_dtypes.float8_e8m0fnu),
    ("F8_E4M3FNUZ", 8, "", ml_dtypes.float8_e4m3fnuz),
    ("F8_E5M2FNUZ", 8, "", ml_dtypes.float8_e5m2fnuz),
    ("I16", 16, "s16", np.int16),
    ("U16", 16, "u16", np.uint16),
    ("F16", 16, "f16", np.float16),
    ("BF16", 16, "bf16", ml_dtypes.bfloat16),
    ("I32", 32, "s32", np.int32),
    ("U32", 32, "u32", np.uint32),
    ("F32", 32, "f32", np.float32),
    ("C64", 64, "", np.complex64),
    ("F64", 64, "f64", np.float64),
    ("I64", 64, "s64", np.int64),
    ("U64", 64, "u64", np.uint64),
)


KINDS = {
    word: ElementKind(
        word, bits, DataType[name] if name else None, None if scalar is None else np.dtype(scalar)
    )
    for word, bits, name, scalar in _ROWS
}
"""All kinds by name."""

BYTES = KINDS["U8"]
"""The kind of bytes whose meaning a descriptor specifies."""

KIND_OF_TYPE = {kind.data_type: kind for kind in KINDS.values() if kind.data_type is not None}
"""The kind of a data type's elements; none for s4, u4 and f4_e3m0, which files have no name for."""

KIND_OF_DTYPE = {kind.numpy: kind for kind in KINDS.values() if kind.numpy is not None}
"""The kind of the elements of NumPy arrays; none for types that files have no name for."""

# ggml types: number, name, elements and bytes of a block.
_GGML = (
    (2, "Q4_0", 32, 18),
    (3, "Q4_1", 32, 20),
    (6, "Q5_0", 32, 22),
    (7, "Q5_1", 32, 24),
    (8, "Q8_0", 32, 34),
    (9, "Q8_1", 32, 40),
    (10, "Q2_K", 256, 84),
    (11, "Q3_K", 256, 110),
    (12, "Q4_K", 256, 144),
    (13, "Q5_K", 256, 176),
    (14, "Q6_K", 256, 210),
    (15, "Q8_K", 256, 292),
    (16, "IQ2_XXS", 256, 66),
    (17, "IQ2_XS", 256, 74),
    (18, "IQ3_XXS", 256, 98),
    (19, "IQ1_S", 256, 50),
    (20, "IQ4_NL", 32, 18),
    (21, "IQ3_S", 256, 110),
    (22, "IQ2_S", 256, 82),
    (23, "IQ4_XS", 256, 136),
    (29, "IQ1_M", 256, 56),
    (34, "TQ1_0", 256, 54),
    (35, "TQ2_0", 256, 66),
    (39, "MXFP4", 32, 17),
    (40, "NVFP4", 64, 36),
    (41, "Q1_0", 128, 18),
)
GGML_KINDS = {
    number: ElementKind(word, 8 * nbytes, None, None, block) for number, word, block, nbytes in _GGML
}
"""Quantized kinds by ggml's number: values and scales in blocks."""

GGML_KINDS_BY_WORD = {kind.word: kind for kind in GGML_KINDS.values()}
"""The same by name."""


def parse_object(path: str, text: bytes) -> dict[str, Any]:
    """Parse a JSON object in a file's header, without duplicate keys, as untrusted input.

    Raises InvalidArguments, naming the file.
    """

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        values = dict(pairs)
        if len(values) < len(pairs):
            ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
            raise refuse("RS-F01:name-stands-twice", path=shown(path), reason=name[:60])
        return values

    def no_number(text: str) -> NoReturn:
        raise ValueError(text)

    if (text.count(b"{") + text.count(b"[")) * _BYTES_PER_BRACKET > len(text) + 1024:
        raise refuse("RS-F01:header-nested-full", path=shown(path))
    try:
        parsed = json.loads(text.decode(), object_pairs_hook=unique, parse_constant=no_number)
        if b"\\ud" in text or b"\\uD" in text:
            # Surrogate halves, which cannot be written to any file.
            json.dumps(parsed, ensure_ascii=False).encode()
    except Error:
        raise
    except (ValueError, RecursionError):
        raise refuse("RS-F01:header-no-json-text", path=shown(path)) from None
    if not isinstance(parsed, dict):
        raise refuse("RS-F01:header-no-json", path=shown(path))
    return parsed


class Scaling(NamedTuple):
    """The scales of quantized values, as names of tensors in the same file.

    One scale applies to the whole tensor; with `axis` there is one for each index of it, with `groups` for
    that many elements along each axis. `tensor_scale`: an additional one for the whole tensor. `minimum`:
    added at the end.
    """

    scale: str
    zero_point: str = ""
    axis: int | None = None
    groups: tuple[int, ...] = ()
    tensor_scale: str = ""
    minimum: str = ""

    @property
    def parts(self) -> tuple[str, ...]:
        """The names of all parts that belong to the values."""
        return tuple(filter(None, (self.scale, self.zero_point, self.tensor_scale, self.minimum)))


@dataclass(frozen=True, slots=True)
class StoredArray:
    """The physical array of a tensor: its name, its elements, its shape, and its length in bytes.

    `desc` has the elements' data type, or one of the same width for kinds without any. `is_fortran`: readers
    of the file take `shape` as the dims, although elements are in the order of `desc`, Fortran order.
    """

    name: str
    kind: ElementKind
    shape: tuple[int, ...]
    nbytes: int
    desc: MemoryDesc | None = None
    scaling: Scaling | None = None
    is_fortran: bool = False
    # Further properties that the file records but its format does not know.
    unknown: Mapping[str, object] = field(default_factory=dict)

    @property
    def moved_as(self) -> MemoryDesc | None:
        """The descriptor for moving it: its own, or that of bits of the same width; None if there is none."""
        carrier = self.kind.carrier
        if self.desc is not None or carrier is None or not 0 < len(self.shape) <= MAX_NDIMS:
            return self.desc
        return MemoryDesc(self.shape, carrier)

    @property
    def whole_desc(self) -> MemoryDesc:
        """The descriptor for reading or writing the whole array at once."""
        return self.moved_as or MemoryDesc((self.nbytes,), DataType.u8)


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor of a file: its array, and the position of its bytes. `chunks`: extents that are read at a
    time, if the file has chunks; `chunk_bytes`: the memory that takes, if no part of a chunk can be read
    separately.

    `parts`: for computed real numbers, the tensors that they are computed from, by role; boxes of such
    numbers begin and end at multiples of `units`. `zero_shift` is added to their zero points.
    """

    array: StoredArray
    path: str
    start: int
    chunks: tuple[int, ...] = ()
    chunk_bytes: int = 0
    parts: Mapping[str, StoredTensor] = field(default_factory=dict)
    units: tuple[int, ...] = ()
    zero_shift: int = 0

    @property
    def stored_array(self) -> StoredArray:
        """The array in the file: for computed numbers that of the first part."""
        return next(iter(self.parts.values())).array if self.parts else self.array


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a file, or of a folder of files. `metadata`: of the whole file, without restride's own.

    `heads`: for each file the path and a hash of its header, to detect changes of the source. `groups`:
    attributes of groups in it, by name.
    """

    tensors: tuple[StoredTensor, ...]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    heads: tuple[tuple[str, str], ...] = ()
    groups: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@lru_cache(maxsize=1024)
def is_dense(desc: MemoryDesc) -> bool:
    """Return True if elements and padding fill the storage, each at its own place, from offset 0 on."""
    elements = desc.data_type.nbytes(prod(desc.physical_shape))
    return not desc.offset0 and desc.size == elements and min(desc.strides) >= 0 and desc.is_injective()


def is_row_major(desc: MemoryDesc) -> bool:
    """Return True for the layout that every reader expects."""
    # Not by equality, which ignores the position of axes of one element: an NHWC file has its axes in order.
    return desc.layout == MemoryDesc(desc.dims, desc.data_type).layout


def is_private(array: StoredArray) -> bool:
    """Return True if only restride reads the numbers of an array: they have scales of their own, or another
    layout or type than the file says.
    """
    desc = array.desc
    return array.scaling is not None or (
        desc is not None and not (is_row_major(desc) and array.kind is KIND_OF_TYPE.get(desc.data_type))
    )


def array_of(name: str, desc: MemoryDesc, scaling: Scaling | None = None) -> StoredArray:
    """Return the physical array of a tensor with this descriptor."""
    kind = KIND_OF_TYPE.get(desc.data_type)
    if kind is None or not is_dense(desc) or (kind.bits < 8 and desc.physical_shape[-1] % 2):
        reach = extent(desc).high
        return StoredArray(name, BYTES, (reach,), reach, desc, scaling)
    shape = desc.dims if is_row_major(desc) else desc.physical_shape
    return StoredArray(name, kind, shape, desc.size, desc, scaling)


def as_bytes(array: StoredArray) -> StoredArray:
    """Return the array as one of bytes, for files that have no name for its elements."""
    return replace(array, kind=BYTES, shape=(array.nbytes,))


def physical(array: StoredArray) -> StoredArray:
    """Return the array with its axes in memory order."""
    if not array.is_fortran or array.desc is None:
        return array
    return replace(array, shape=array.desc.physical_shape, is_fortran=False)


# Many tensors of a file have the same shape and type.
_row_major = lru_cache(maxsize=4096)(MemoryDesc)


def plain_array(name: str, kind: ElementKind, shape: tuple[int, ...]) -> StoredArray:
    """Return an array as in files of other programs: row-major, if it has a descriptor at all."""
    has_rank = 0 < len(shape) <= MAX_NDIMS
    desc = _row_major(shape, kind.data_type) if kind.data_type is not None and has_rank else None
    return StoredArray(name, kind, shape, kind.nbytes(shape), desc)


def name_bytes(name: str) -> bytes:
    """Return the name of a tensor as bytes for a file. Raises InvalidArguments for invalid text."""
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise refuse("RS-F03:name-no-tensor-file", name=ascii(name[:60])) from None


def check_header(kind: str, nbytes: int, most: int) -> None:
    """Raise Unimplemented for a header longer than readers of the format accept."""
    if nbytes > most:
        raise refuse("RS-F03:header-bytes-file", nbytes=nbytes, kind=kind, most=most)


# --- what restride adds to a file's metadata ------------------------------------------------------------


def note_of(array: StoredArray) -> dict[str, Any]:
    """Return the metadata of an array, as plain values; empty if its own shape is sufficient."""
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
    """Return the notes of all tensors by name, from the value of restride's metadata key."""
    words = parse_object(path, text)
    notes = words.get("tensors")
    if words.get("version") != VERSION or not isinstance(notes, dict):
        raise refuse("RS-F01:layouts-of-another-version", path=shown(path))
    return notes


def annotate(path: str, array: StoredArray, note: object, names: frozenset[str]) -> StoredArray:
    """Return the array as described by the file's metadata, with every value checked as untrusted input.

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
    """Reject a descriptor whose physical array is not the one in the file."""
    try:
        own_array = array_of(array.name, desc)
        forms = [(form.kind, form.shape) for form in (own_array, as_bytes(own_array))]
        if array.kind.data_type is None and array.kind.carrier is desc.data_type:
            forms.append((array.kind, own_array.shape))
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


@dataclass(frozen=True, slots=True)
class FileImage:
    """A file of `nbytes` bytes: `pieces` of fixed bytes, and the starts of `arrays` in it.

    `finish` completes the file, through its handle, once the tensors are written: with checksums, for
    example.
    """

    arrays: tuple[StoredArray, ...]
    starts: tuple[int, ...]
    pieces: tuple[tuple[int, bytes], ...]
    nbytes: int
    finish: Callable[[int], None] | None = None

    @property
    def digest(self) -> str:
        """A hash of everything except the tensors."""
        digest = hashlib.sha256(repr((self.starts, self.nbytes)).encode())
        for start, piece in self.pieces:
            digest.update(start.to_bytes(8, "little") + piece)
        return digest.hexdigest()


def packed_starts(arrays: Sequence[StoredArray], start: int, align: int = 1) -> Iterator[int]:
    """Yield the starts of consecutive arrays, each at a multiple of `align`; and the end of the last."""
    for array in arrays:
        start = -(-start // align) * align
        yield start
        start += array.nbytes
    yield start
