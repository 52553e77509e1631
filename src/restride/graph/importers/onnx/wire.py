"""Parser of ONNX's messages, without copying: tensors are views of the bytes of the file.

Protocol Buffers write a message as fields: a number, a wire type, and a varint, 4 or 8 bytes, or a
length-delimited sequence of bytes, which can be a message again. The known fields of ONNX's messages are in a
table here; other fields are skipped, as readers of older versions do. Nothing is executed, and nothing is
larger in memory than in the file, except lists of small integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from ....runtime.alloc import Array

__all__ = ["Message", "read_message"]

# Limit on nested graphs, such as branches; each level takes a few frames of Python.
_MOST_DEPTH = 64
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Bytes = memoryview

# Fields that are read from each message, by number: name and kind; * stands for a list.
_SCHEMA: Mapping[str, Mapping[int, tuple[str, str]]] = {
    "model": {
        1: ("ir_version", "int"), 7: ("graph", "graph"), 8: ("opset_import", "opset*"),
        14: ("metadata_props", "entry*"), 25: ("functions", "function*"),
    },
    "function": {
        1: ("name", "text"), 4: ("input", "text*"), 5: ("output", "text*"), 7: ("node", "node*"),
        9: ("opset_import", "opset*"), 10: ("domain", "text"), 11: ("attribute_proto", "attribute*"),
        13: ("overload", "text"),
    },
    "opset": {1: ("domain", "text"), 2: ("version", "int")},
    "graph": {
        1: ("node", "node*"), 5: ("initializer", "tensor*"), 11: ("input", "value*"),
        12: ("output", "value*"), 15: ("sparse_initializer", "bytes*"),
    },
    "node": {
        1: ("input", "text*"), 2: ("output", "text*"), 3: ("name", "text"), 4: ("op_type", "text"),
        5: ("attribute", "attribute*"), 7: ("domain", "text"), 8: ("overload", "text"),
    },
    "attribute": {
        1: ("name", "text"), 2: ("f", "float"), 3: ("i", "int"), 4: ("s", "bytes"), 5: ("t", "tensor"),
        6: ("g", "graph"), 7: ("floats", "float*"), 8: ("ints", "int*"), 9: ("strings", "bytes*"),
        20: ("type", "int"), 21: ("ref_attr_name", "text"),
    },
    "tensor": {
        1: ("dims", "int*"), 2: ("data_type", "int"), 4: ("float_data", "float array"),
        5: ("int32_data", "int*"), 6: ("string_data", "bytes*"), 7: ("int64_data", "int*"),
        8: ("name", "text"), 9: ("raw_data", "bytes"), 10: ("double_data", "double array"),
        11: ("uint64_data", "int*"), 13: ("external_data", "entry*"), 14: ("data_location", "int"),
    },
    "entry": {1: ("key", "text"), 2: ("value", "text")},
    "value": {1: ("name", "text"), 2: ("type", "type")},
    "type": {1: ("tensor_type", "tensor type")},
    "tensor type": {1: ("elem_type", "int"), 2: ("shape", "shape")},
    "shape": {1: ("dim", "dim*")},
    "dim": {1: ("dim_value", "int"), 2: ("dim_param", "text")},
}  # fmt: skip
_DEFAULTS: Mapping[str, Any] = {"text": "", "int": 0, "float": 0.0, "bytes": memoryview(b"")}
_ARRAYS = {"float array": (_FIXED32, "<f4"), "double array": (_FIXED64, "<f8")}
_WAYS = {"int": _VARINT, "float": _FIXED32}


class Message:
    """A message: its fields as attributes, with defaults for absent ones.

    `content`: the bytes of the message; `fields`: the names of the present fields.
    """

    def __init__(self, kind: str, content: Bytes, fields: Mapping[str, Any]) -> None:
        self.content, self.fields = content, frozenset(fields)
        for name, field in _SCHEMA[kind].values():
            vars(self)[name] = fields[name] if name in fields else _default(field)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a message has no field {name!r}")


def read_message(kind: str, content: Bytes, depth: int = 0) -> Message:
    """Parse a message of a kind in the table. Raises ValueError for invalid bytes."""
    if depth > _MOST_DEPTH:
        raise ValueError("messages are nested too deeply")
    values: dict[str, Any] = {}
    for number, way, value in _fields(content):
        name, field = _SCHEMA[kind].get(number, ("", ""))
        if field in _ARRAYS:
            array = _array(field, way, value)
            values[name] = np.concatenate([values[name], array]) if name in values else array
        elif field.endswith("*"):
            values.setdefault(name, []).extend(_elements(field[:-1], way, value, depth))
        elif name:  # the last occurrence of a field that is not a list wins
            values[name] = _single(field, way, value, depth)
    return Message(kind, content, values)


def _default(field: str) -> Any:
    if field.endswith("*"):
        return []
    if field in _ARRAYS:
        return np.empty(0, _ARRAYS[field][1])
    return _DEFAULTS[field] if field in _DEFAULTS else Message(field, memoryview(b""), {})


def _elements(field: str, way: int, value: Any, depth: int) -> list[Any]:
    """Return the elements that a field adds to a list; numbers can be packed, many in one field."""
    if way == _BYTES and field == "int":
        return list(map(_signed, _varints(value)))
    if way == _BYTES and field == "float":
        return list(map(float, _array("float array", way, value)))
    return [_single(field, way, value, depth)]


def _single(field: str, way: int, value: Any, depth: int) -> Any:
    expected = _WAYS.get(field, _BYTES)
    if way != expected:
        raise ValueError(f"a field has wire type {way}, not {expected}")
    if field == "int":
        return _signed(value)
    if field == "float":
        return float(_array("float array", way, value)[0])
    if field == "text":
        return str(value, "utf-8")
    return value if field == "bytes" else read_message(field, value, depth + 1)


def _array(field: str, way: int, value: Any) -> Array:
    expected, dtype = _ARRAYS[field]
    if way not in (_BYTES, expected):
        raise ValueError(f"a field of numbers has wire type {way}")
    # Raises ValueError for trailing bytes.
    return np.frombuffer(value, dtype)


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _fields(content: Bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield number, wire type and value of each field: an integer, or a view of the bytes."""
    at, end = 0, len(content)
    while at < end:
        key, at = _varint(content, at)
        number, way = key >> 3, key & 7
        if not 0 < number < 1 << 29:
            raise ValueError(f"a field has number {number}")
        if way == _VARINT:
            value, at = _varint(content, at)
            yield number, way, value
            continue
        size, at = _SIZES[way](content, at) if way in _SIZES else (-1, at)
        if size < 0:
            raise ValueError(f"field {number} has invalid wire type {way}")
        if at + size > end:
            raise ValueError(f"field {number} has {size} bytes, but {end - at} are left")
        yield number, way, content[at : at + size]
        at += size


def _varint(content: Bytes, at: int) -> tuple[int, int]:
    """Decode a number in groups of seven bits, the lowest first; return it and its end."""
    first = content[at]
    if first < 0x80:
        return first, at + 1
    value, shift = first & 0x7F, 7
    for place in range(at + 1, min(at + 10, len(content))):
        byte = content[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & (1 << 64) - 1, place + 1
        shift += 7
    raise ValueError("a number is truncated, or has more than 64 bits")


def _varints(content: Bytes) -> Iterator[int]:
    at = 0
    while at < len(content):
        value, at = _varint(content, at)
        yield value


_SIZES: Mapping[int, Callable[[Bytes, int], tuple[int, int]]] = {
    _BYTES: _varint,
    _FIXED32: lambda content, at: (4, at),
    _FIXED64: lambda content, at: (8, at),
}
