"""Values in the header of GGUF: kept as the bytes that they are, and read where another format wants text."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ...errors import Error, refuse
from ..stored_tensors import name_bytes
from ..writing.replacement import shown

MOST_HEADER = 256 << 20
_FIRST_READ = 1 << 20

TEXT, _ARRAY, UINT32 = 8, 9, 4
# Types of values: how struct reads them.
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True, slots=True)
class GgufValue:
    """A value of the metadata: its type, and its bytes as the file has them."""

    type: int
    content: bytes

    def as_text(self) -> str:
        """The value for formats whose metadata are text: itself, or as JSON."""
        parsed_value = GgufReader.over(self.content).value(self.type, is_read=True)
        return parsed_value if isinstance(parsed_value, str) else json.dumps(parsed_value)


def metadata_as_text(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Metadata of any file as text by name."""
    return {key: _as_text(value) for key, value in metadata.items()}


def plain_metadata(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Metadata of any file for formats that hold any plain values; those of GGUF as text."""
    return {
        key: value.as_text() if isinstance(value, GgufValue) else value for key, value in metadata.items()
    }


def _as_text(value: object) -> str:
    if isinstance(value, GgufValue):
        return value.as_text()
    return value if isinstance(value, str) else json.dumps(value)


class GgufReader:
    """Reads a header from its start, as much of the file as it needs."""

    def __init__(self, path: str, size: int, read: Callable[[int, int], bytes]) -> None:
        self.path, self.at = path, 0
        self._size, self._read = size, read
        self._held = b""

    @classmethod
    def over(cls, content: bytes) -> GgufReader:
        """Over bytes that were read before."""
        return cls("", len(content), lambda start, count: content[start : start + count])

    def before(self) -> bytes:
        """All that was read."""
        return self._held[: self.at]

    def damaged(self, why: str) -> Error:
        """The error for this file."""
        return refuse("RS-F01:damaged", path=shown(self.path), why=why)

    def take(self, count: int) -> bytes:
        """So many bytes."""
        end = self.at + count
        if end > min(self._size, MOST_HEADER):
            raise self.damaged(f"its header ends behind byte {min(self._size, MOST_HEADER)}")
        if end > len(self._held):
            whole = min(max(end, 2 * len(self._held), _FIRST_READ), self._size, MOST_HEADER)
            self._held += self._read(len(self._held), whole - len(self._held))
        content = self._held[self.at : end]
        self.at = end
        return content

    def number(self, form: str) -> int:
        """An integer, little endian."""
        found: int = struct.unpack(f"<{form}", self.take(struct.calcsize(f"<{form}")))[0]
        return found

    def text(self) -> str:
        """A text of a given length."""
        content = self.take(self.number("Q"))
        try:
            return content.decode()
        except UnicodeDecodeError:
            raise self.damaged("a text in its header is no UTF-8") from None

    def metadata(self, count: int) -> dict[str, GgufValue]:
        """Keys with their values, unread."""
        values: dict[str, GgufValue] = {}
        for _ in range(count):
            key, type = self.text(), self.number("I")
            if key in values:
                raise self.damaged(f"the key {key[:60]!r} stands there twice")
            first = self.at
            self.value(type)
            values[key] = GgufValue(type, self._held[first : self.at])
        return values

    def value(self, type: int, *, is_read: bool = False) -> Any:
        """A value of a type, passed over unless it `is_read`."""
        if type in _SCALARS:
            form = f"<{_SCALARS[type]}"
            content = self.take(struct.calcsize(form))
            return struct.unpack(form, content)[0] if is_read else None
        if type == TEXT:
            content = self.take(self.number("Q"))
            return content.decode("utf-8", "replace") if is_read else None
        if type != _ARRAY:
            raise self.damaged(f"a value of type {type} is not known")
        inner, count = self.number("I"), self.number("Q")
        if inner in _SCALARS:
            width = struct.calcsize(f"<{_SCALARS[inner]}")
            content = self.take(count * width)
            return list(struct.unpack(f"<{count}{_SCALARS[inner]}", content)) if is_read else None
        if inner != TEXT:
            raise self.damaged(f"an array of values of type {inner} is not known")
        if count * 8 > self._size:
            raise self.damaged(f"an array of {count} texts")
        keys = [self.value(TEXT, is_read=is_read) for _ in range(count)]
        return keys if is_read else None


def value_of(value: object) -> GgufValue:
    """A value of any file's metadata as this format has it."""
    return value if isinstance(value, GgufValue) else text_value(_as_text(value))


def text_value(text: str) -> GgufValue:
    """A text as a value."""
    return GgufValue(TEXT, encode_text(text))


def encode_text(text: str) -> bytes:
    """A text behind its length."""
    return _behind_length(text.encode())


def encode_name(name: str) -> bytes:
    """The name of a tensor behind its length. Raises InvalidArguments for one that is no text."""
    return _behind_length(name_bytes(name))


def _behind_length(content: bytes) -> bytes:
    return len(content).to_bytes(8, "little") + content
