"""The header of safetensors, written, and read as untrusted input.

The format: 8 bytes of header length, little endian; a JSON object {name: {dtype, shape, data_offsets}} and
`__metadata__`, which maps strings to strings; then the data, where the offsets begin, without holes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any, BinaryIO

from ...errors import refuse
from ..plain_file import read_at, state_of
from ..stored_tensors import (
    KEY,
    KINDS,
    VERSION,
    Contents,
    FileImage,
    StoredArray,
    StoredTensor,
    annotate,
    check_header,
    name_bytes,
    note_of,
    packed_starts,
    parse_notes,
    parse_object,
    plain_array,
)
from ..writing.replacement import shown

_LENGTH_BYTES = 8
_MOST_HEADER = 100_000_000
_MOST_AXES = 64
_METADATA = "__metadata__"
_FIELDS = frozenset(("dtype", "shape", "data_offsets"))


def read_safetensors(file: BinaryIO, path: str) -> Contents:
    """Return the tensors of an open file, in header order. Raises InvalidArguments if damaged."""
    size = state_of(file).nbytes
    lead = read_at(file, path, 0, min(_LENGTH_BYTES, size))
    length = int.from_bytes(lead, "little")
    start = _LENGTH_BYTES + length
    if size < _LENGTH_BYTES or length > _MOST_HEADER or start > size:
        raise refuse("RS-F01:header-bytes-file", path=shown(path), length=length, size=size)
    text = read_at(file, path, _LENGTH_BYTES, length)
    entries = parse_object(path, text)
    metadata = entries.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise refuse("RS-F01:metadata-no-strings", path=shown(path))
    tensors = [_tensor(path, name, entry, start, size) for name, entry in entries.items()]
    # The tensors fill the space after the header without gaps.
    ends = sorted((t.start, t.start + t.array.nbytes) for t in tensors)
    if any(end > begin for (_, end), (begin, _) in pairwise(ends)):
        raise refuse("RS-F01:two-tensors-overlap", path=shown(path))
    if sum(end - begin for begin, end in ends) != size - start:
        raise refuse("RS-F01:tensors-not-fill", path=shown(path), size=size - start)
    notes_text, names = metadata.pop(KEY, None), frozenset(entries)
    notes = {} if notes_text is None else parse_notes(path, notes_text.encode())
    described = tuple(
        replace(tensor, array=annotate(path, tensor.array, notes[name], names)) if name in notes else tensor
        for name, tensor in zip(entries, tensors, strict=True)
    )
    return Contents(described, metadata, ((path, hashlib.sha256(text).hexdigest()),))


def _tensor(path: str, name: str, entry: object, start: int, size: int) -> StoredTensor:
    """Return the tensor of one entry of the header."""
    if not isinstance(entry, dict) or not entry.keys() >= _FIELDS:
        raise refuse("RS-F01:tensor-lacks-type", path=shown(path), name=name[:60])
    word, shape, ends = entry["dtype"], entry["shape"], entry["data_offsets"]
    kind = KINDS.get(word) if isinstance(word, str) else None
    if kind is None:
        raise refuse("RS-F01:tensor-no-known", path=shown(path), name=name[:60], word=str(word)[:20])
    if not _are_counts(shape) or len(shape) > _MOST_AXES:
        raise refuse("RS-F01:tensor-no-shape", path=shown(path), name=name[:60])
    whole = 1
    for n in shape:
        whole *= n
        if whole >= 2**63:
            raise refuse("RS-F01:tensor-too-large", path=shown(path), name=name[:60])
    if whole * kind.bits % 8:
        raise refuse("RS-F01:tensor-ends-inside", path=shown(path), name=name[:60])
    array = plain_array(name, kind, tuple(shape))
    if not _are_counts(ends) or len(ends) != 2 or ends[1] - ends[0] != array.nbytes or start + ends[1] > size:
        raise refuse(
            "RS-F01:tensor-bytes-not",
            path=shown(path),
            name=name[:60],
            nbytes=array.nbytes,
            ends=str(ends)[:60],
        )
    if len(entry) > len(_FIELDS):
        array = replace(array, unknown={key: entry[key] for key in entry if key not in _FIELDS})
    return StoredTensor(array, path, start + ends[0])


def _are_counts(values: object) -> bool:
    return isinstance(values, list) and all(type(n) is int and 0 <= n < 2**63 for n in values)


def safetensors_image(arrays: Sequence[StoredArray], metadata: Mapping[str, Any]) -> FileImage:
    """Return the file with these arrays, in order, and with their descriptors among the metadata.

    Raises Unimplemented for arrays that the format cannot express, and for more of them than a header can
    list; InvalidArguments for invalid names and metadata that are not strings.
    """
    for key, value in metadata.items():
        if not isinstance(key, str) or not isinstance(value, str) or key == KEY:
            raise refuse("RS-F03:safetensors-strings-name", strange=str(key)[:60], value="restride")
    for array in arrays:
        if array.kind.word not in KINDS:
            raise refuse("RS-F03:safetensors-file", word=array.kind.word, name=array.name)
        if array.name == _METADATA:
            raise refuse("RS-F03:name-no-tensor", name=array.name)
        name_bytes(array.name)
    starts, all_metadata = _starts(arrays), dict(metadata)
    if notes := {array.name: note for array in arrays if (note := note_of(array))}:
        all_metadata[KEY] = json.dumps({"version": VERSION, "tensors": notes})
    header: dict[str, Any] = {_METADATA: all_metadata} if all_metadata else {}
    for array, start in zip(arrays, starts, strict=True):
        header[array.name] = {
            "dtype": array.kind.word,
            "shape": list(array.shape),
            "data_offsets": [start, start + array.nbytes],
            **array.unknown,
        }
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    check_header(".safetensors", len(text), _MOST_HEADER)
    head = len(text).to_bytes(_LENGTH_BYTES, "little") + text
    total = len(head) + sum(array.nbytes for array in arrays)
    return FileImage(tuple(arrays), tuple(len(head) + start for start in starts), ((0, head),), total)


def _starts(arrays: Sequence[StoredArray]) -> list[int]:
    """Return the start of each array, counted from the end of the header.

    If their order would misalign elements, wider types go first: readers map only aligned arrays.
    """
    starts = list(packed_starts(arrays, 0))[: len(arrays)]
    if not any(start * 8 % max(array.kind.bits, 8) for start, array in zip(starts, arrays, strict=True)):
        return starts
    order = sorted(range(len(arrays)), key=lambda i: -arrays[i].kind.bits)
    offsets = dict(zip(order, packed_starts([arrays[i] for i in order], 0), strict=False))
    return [offsets[i] for i in range(len(arrays))]
