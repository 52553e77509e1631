"""The header of GGUF, written, and read as untrusted input.

The format: magic, version, counts; metadata as keys with typed values; for each tensor a name, its dims from
the innermost outwards, a type and an offset; then the data, each tensor at a multiple of the alignment.
Quantized ggml types are copied unchanged. Metadata values are stored as raw bytes.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod
from typing import Any, BinaryIO

from ...errors import Error, refuse
from ..plain_file import read_at, state_of
from ..stored_tensors import (
    BYTES,
    GGML_KINDS,
    KEY,
    KINDS,
    VERSION,
    Contents,
    ElementKind,
    FileImage,
    StoredArray,
    StoredTensor,
    annotate,
    array_of,
    as_bytes,
    check_header,
    name_bytes,
    note_of,
    packed_starts,
    parse_notes,
    plain_array,
)
from ..writing.replacement import shown

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_ALIGNMENT = "general.alignment"
_USUAL_ALIGNMENT = 32
_MOST_ALIGNMENT = 1 << 20
_MOST_AXES = 4
_MOST_HEADER = 256 << 20
_FIRST_READ = 1 << 20

_TYPES = {0: "F32", 1: "F16", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 30: "BF16"}
_KINDS = {number: KINDS[word] for number, word in _TYPES.items()} | GGML_KINDS
_NUMBERS = {kind: number for number, kind in _KINDS.items()}
# Types of metadata values, and the struct formats of numbers.
_TEXT, _ARRAY, _UINT32 = 8, 9, 4
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


def read_gguf(file: BinaryIO, path: str) -> Contents:
    """Return the tensors of an open file, in the order of its header. Raises InvalidArguments if damaged."""
    size = state_of(file).nbytes
    cursor = GgufReader(path, size, lambda start, count: read_at(file, path, start, count))
    cursor.take(len(MAGIC))
    version, tensors, values = cursor.number("I"), cursor.number("Q"), cursor.number("Q")
    if int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS:
        raise refuse("RS-F01:gguf-big-endian", path=shown(path))
    if version not in _VERSIONS:
        raise refuse("RS-F01:gguf-version-not", path=shown(path), version=version)
    if (tensors + values) * 12 > size:
        raise cursor.damaged(f"it claims {tensors} tensors and {values} values")
    metadata = cursor.metadata(values)
    entries = [_Entry.read(cursor) for _ in range(tensors)]
    align = _alignment(path, metadata)
    start = -(-cursor.at // align) * align
    names = frozenset(entry.name for entry in entries)
    if len(names) < len(entries):
        raise cursor.damaged("two of its tensors have one name")
    places = sorted((entry.offset, entry.offset + entry.nbytes) for entry in entries)
    if any(end > begin for (_, end), (begin, _) in pairwise(places)):
        raise cursor.damaged("two of its tensors overlap")
    if any(begin % align or (end > begin and start + end > size) for begin, end in places):
        raise cursor.damaged("a tensor is outside the file, or not at a multiple of the alignment")
    note = metadata.pop(KEY, None)
    notes = {} if note is None else parse_notes(path, note.content[8:] if note.type == _TEXT else b"{}")
    stored_tensors = tuple(
        StoredTensor(_describe(path, entry, notes.get(entry.name), names), path, start + entry.offset)
        for entry in entries
    )
    return Contents(stored_tensors, metadata, ((path, hashlib.sha256(cursor.before()).hexdigest()),))


def gguf_image(arrays: Sequence[StoredArray], metadata: Mapping[str, Any]) -> FileImage:
    """Return the file with these arrays, in order, and with their descriptors among the metadata.

    Raises Unimplemented for arrays that the format has no type for.
    """
    forms = tuple(_gguf_form(array) for array in arrays)
    # If it is text, it belongs to another file and came through a third format.
    rest = {key: value for key, value in metadata.items() if key != _ALIGNMENT or not isinstance(value, str)}
    values = {
        key: value if isinstance(value, GgufValue) else _text_value(_as_text(value))
        for key, value in rest.items()
    }
    notes = {array.name: note for array in forms if (note := _gguf_note(array))}
    if notes:
        values[KEY] = _text_value(json.dumps({"version": VERSION, "tensors": notes}))
    align = _alignment("", values)
    parts = [MAGIC, struct.pack("<IQQ", _VERSIONS[-1], len(forms), len(values))]
    for key, value in values.items():
        parts += _behind_length(key.encode()), struct.pack("<I", value.type), value.content
    *offsets, end = packed_starts(forms, 0, align)
    for array, offset in zip(forms, offsets, strict=True):
        dims = _dims_of(array)[::-1]
        parts += _behind_length(name_bytes(array.name)), struct.pack(f"<I{len(dims)}Q", len(dims), *dims)
        parts.append(struct.pack("<IQ", _NUMBERS[array.kind], offset))
    head = b"".join(parts)
    check_header(".gguf", len(head), _MOST_HEADER)
    head += bytes(-len(head) % align)
    starts = tuple(len(head) + offset for offset in offsets)
    return FileImage(forms, starts, ((0, head),), len(head) + -(-end // align) * align)


@dataclass(frozen=True, slots=True)
class _Entry:
    """The header's entry for a tensor."""

    name: str
    shape: tuple[int, ...]
    kind: ElementKind
    offset: int
    nbytes: int

    @classmethod
    def read(cls, cursor: GgufReader) -> _Entry:
        name = cursor.text()
        count = cursor.number("I")
        if count > _MOST_AXES:
            raise cursor.damaged(f"tensor {name[:60]!r} has {count} axes")
        shape = tuple(reversed([cursor.number("Q") for _ in range(count)]))
        number, offset = cursor.number("I"), cursor.number("Q")
        kind = _KINDS.get(number)
        if kind is None:
            raise cursor.damaged(f"tensor {name[:60]!r} has the unknown type {number}")
        if prod(shape) >= 2**63 or max(shape, default=0) >= 2**63 or offset >= 2**63:
            raise cursor.damaged(f"tensor {name[:60]!r} has a shape or an offset of 2**63 or more")
        if (shape[-1] if shape else 1) % kind.block:
            raise cursor.damaged(f"the rows of {name[:60]!r} are not a multiple of a block of {kind.word}")
        return cls(name, shape, kind, offset, kind.nbytes(shape))


def _alignment(path: str, metadata: Mapping[str, GgufValue]) -> int:
    alignment = metadata.get(_ALIGNMENT)
    if alignment is None:
        return _USUAL_ALIGNMENT
    align = int.from_bytes(alignment.content, "little") if alignment.type == _UINT32 else 0
    if 0 < align <= _MOST_ALIGNMENT and not align & (align - 1):
        return align
    raise refuse("RS-F01:alignment-no-power", path=shown(path))


def _describe(path: str, entry: _Entry, note: object, names: frozenset[str]) -> StoredArray:
    """Return the array of an entry, as the metadata describe it."""
    if not isinstance(note, dict):
        return plain_array(entry.name, entry.kind, entry.shape)
    kind, shape = entry.kind, entry.shape
    extents = note.get("shape")
    if isinstance(extents, list) and all(type(n) is int and n >= 0 for n in extents) and len(extents) < 64:
        # More axes than the format allows, or bytes declared as another type.
        kind = BYTES if kind.word == "I8" and note.get("kind") == "U8" else kind
        if prod(extents) == prod(shape):
            shape = tuple(extents)
    words = {key: value for key, value in note.items() if key not in ("shape", "kind")}
    return annotate(path, plain_array(entry.name, kind, shape), words, names)


def _gguf_form(array: StoredArray) -> StoredArray:
    """Return the array in a form that the format supports: as bytes if it has no type for the elements."""
    form = array if array.kind in _NUMBERS or array.desc is None else as_bytes(array)
    if form.kind is BYTES and form.desc is not None:
        return replace(form, kind=KINDS["I8"])
    if form.kind not in _NUMBERS or (len(form.shape) > _MOST_AXES and form.desc is None):
        raise refuse("RS-F03:axes-gguf-file", word=form.kind.word, count=len(form.shape), name=form.name)
    return form


def _gguf_note(array: StoredArray) -> dict[str, Any]:
    """Return the metadata of an array to be written."""
    note = note_of(array)
    if array.desc is None:
        return note if array.shape else note | {"shape": []}
    is_bytes = array.kind.word == "I8" and array.kind != array_of("", array.desc).kind
    if len(_dims_of(array)) != len(array.shape) or is_bytes:
        note |= {"desc": array.desc.to_dict(), "shape": list(array.shape)}
        note |= {"kind": BYTES.word} if is_bytes else {}
    return note


def _dims_of(array: StoredArray) -> tuple[int, ...]:
    """Return at most four axes, merging outer ones."""
    shape = array.shape or (1,)
    extra = len(shape) - _MOST_AXES
    return shape if extra <= 0 else (prod(shape[: extra + 1]), *shape[extra + 1 :])


# --- metadata values, stored as raw bytes --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GgufValue:
    """A metadata value: its type, and its bytes in the file."""

    type: int
    content: bytes

    def read(self) -> Any:
        """Return the value: a number, a text, or a list of these."""
        content = self.content
        reader = GgufReader("", len(content), lambda start, count: content[start : start + count])
        return reader.value(self.type, is_read=True)

    def as_text(self) -> str:
        """Return the value for formats with text metadata: a text as is, anything else as JSON."""
        value = self.read()
        return value if isinstance(value, str) else json.dumps(value)


def metadata_as_text(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return metadata of any file as text by name."""
    return {key: _as_text(value) for key, value in metadata.items()}


def plain_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata of any file for formats that store plain values; GGUF values as text."""
    return {
        key: value.as_text() if isinstance(value, GgufValue) else value for key, value in metadata.items()
    }


def _as_text(value: object) -> str:
    if isinstance(value, GgufValue):
        return value.as_text()
    return value if isinstance(value, str) else json.dumps(value)


class GgufReader:
    """Reads a header from its start, as much of the file as necessary."""

    def __init__(self, path: str, size: int, read: Callable[[int, int], bytes]) -> None:
        self.path, self.at = path, 0
        self._size, self._read = size, read
        self._held = b""

    def before(self) -> bytes:
        """Everything read so far."""
        return self._held[: self.at]

    def damaged(self, why: str) -> Error:
        """Return the error for this file."""
        return refuse("RS-F01:damaged", path=shown(self.path), why=why)

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        end = self.at + count
        if end > min(self._size, _MOST_HEADER):
            raise self.damaged(f"its header ends after byte {min(self._size, _MOST_HEADER)}")
        if end > len(self._held):
            whole = min(max(end, 2 * len(self._held), _FIRST_READ), self._size, _MOST_HEADER)
            self._held += self._read(len(self._held), whole - len(self._held))
        content = self._held[self.at : end]
        self.at = end
        return content

    def number(self, form: str) -> int:
        """Return a little-endian integer."""
        return int(struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0])

    def text(self) -> str:
        """Return a text preceded by its length."""
        content = self.take(self.number("Q"))
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise self.damaged("a text in its header is not UTF-8") from None

    def metadata(self, count: int) -> dict[str, GgufValue]:
        """Return keys with their values, unparsed."""
        values: dict[str, GgufValue] = {}
        for _ in range(count):
            key, type = self.text(), self.number("I")
            if key in values:
                raise self.damaged(f"the key {key[:60]!r} occurs twice")
            first = self.at
            self.value(type)
            values[key] = GgufValue(type, self._held[first : self.at])
        return values

    def value(self, type: int, *, is_read: bool = False) -> Any:
        """Return a value of a type, skipped unless it `is_read`."""
        if type in _SCALARS:
            form = f"<{_SCALARS[type]}"
            content = self.take(struct.calcsize(form))
            return struct.unpack(form, content)[0] if is_read else None
        if type == _TEXT:
            content = self.take(self.number("Q"))
            return content.decode("utf-8", "replace") if is_read else None
        if type != _ARRAY:
            raise self.damaged(f"the value type {type} is unknown")
        inner, count = self.number("I"), self.number("Q")
        if inner in _SCALARS:
            width = struct.calcsize(f"<{_SCALARS[inner]}")
            content = self.take(count * width)
            return list(struct.unpack(f"<{count}{_SCALARS[inner]}", content)) if is_read else None
        if inner != _TEXT:
            raise self.damaged(f"the array element type {inner} is unknown")
        if count * 8 > self._size:
            raise self.damaged(f"it contains an array of {count} texts")
        texts, held, at = [], self._held, self.at
        for _ in range(count):  # a vocabulary has hundreds of thousands
            begin = at + 8
            end = begin + int.from_bytes(held[at:begin], "little")
            if max(begin, end) > len(held):
                self.at = at
                self.take(self.number("Q"))
                held, end = self._held, self.at
            if is_read:
                texts.append(held[begin:end].decode("utf-8", "replace"))
            at = end
        self.at = at
        return texts if is_read else None


def _text_value(text: str) -> GgufValue:
    return GgufValue(_TEXT, _behind_length(text.encode()))


def _behind_length(content: bytes) -> bytes:
    return len(content).to_bytes(8, "little") + content
