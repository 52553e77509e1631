"""Reading safetensors, read as if a stranger wrote it: lengths, names, types, shapes and places are checked.

The format: 8 bytes of header length, little endian; a JSON object {name: {dtype, shape, data_offsets}};
then the data, to which the offsets count.
"""

from __future__ import annotations

import json
from itertools import pairwise
from math import prod
from typing import Any

import ml_dtypes
import numpy as np

from restride import InvalidArguments
from restride.runtime.alloc import Array

_TYPES: dict[str, Any] = {
    "F64": np.float64,
    "F32": np.float32,
    "F16": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "I64": np.int64,
    "I32": np.int32,
    "I16": np.int16,
    "I8": np.int8,
    "U8": np.uint8,
    "BOOL": np.bool_,
}
_LENGTH_BYTES = 8
_MAX_HEADER = 16 << 20
_MAX_AXES = 12


def parse_safetensors(content: bytes) -> dict[str, Array]:
    """The tensors of a file by name, each an array of its own. Raises InvalidArguments for a damaged file."""
    length = int.from_bytes(content[:_LENGTH_BYTES], "little")
    start = _LENGTH_BYTES + length
    if len(content) < _LENGTH_BYTES or length > _MAX_HEADER or start > len(content):
        raise _damaged(f"a header of {length} bytes in a file of {len(content)}")
    entries = _header(content[_LENGTH_BYTES:start])
    body = memoryview(content)[start:]
    places = {name: _place(name, entry, len(body)) for name, entry in entries.items()}
    for (_, end), (begin, _) in pairwise(sorted(places.values())):
        if begin < end:
            raise _damaged("two tensors overlap")
    return {name: _tensor(entries[name], body[begin:end]) for name, (begin, end) in places.items()}


def _header(text: bytes) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise _damaged("the header is no JSON") from None
    if not isinstance(found, dict):
        raise _damaged("the header is no JSON object")
    entries = {name: entry for name, entry in found.items() if name != "__metadata__"}
    for name, entry in entries.items():
        if not _is_entry(entry):
            raise _damaged(f"tensor {name[:60]!r} has no known type, or no shape")
    return entries


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("dtype"), str):
        return False
    return entry["dtype"] in _TYPES and _is_shape(entry.get("shape"))


def _is_shape(value: object) -> bool:
    return isinstance(value, list) and len(value) <= _MAX_AXES and all(_is_count(n) for n in value)


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _place(name: str, entry: dict[str, Any], length: int) -> tuple[int, int]:
    """First and one past the last byte of a tensor's data."""
    offsets = entry.get("data_offsets")
    needed = prod(entry["shape"]) * np.dtype(_TYPES[entry["dtype"]]).itemsize
    if isinstance(offsets, list) and len(offsets) == 2 and all(_is_count(at) for at in offsets):
        begin, end = offsets
        if end - begin == needed and end <= length:
            return begin, end
    raise _damaged(f"tensor {name[:60]!r} of {needed} bytes does not lie at {str(offsets)[:60]}")


def _tensor(entry: dict[str, Any], data: memoryview) -> Array:
    return np.frombuffer(data, _TYPES[entry["dtype"]]).reshape(entry["shape"]).copy()


def _damaged(why: str) -> InvalidArguments:
    return InvalidArguments("the safetensors file is damaged", code="RS-F01", why=why, hint="get it again")
