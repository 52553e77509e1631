"""The functions in object code, read off its symbol table: 64-bit little-endian ELF, which is Linux's."""

from __future__ import annotations

import struct
from typing import NamedTuple

_ELF64_LITTLE = b"\x7fELF\x02\x01"
_SECTION_TABLE = 0x28
_SECTION_COUNTS = 0x3A
_SYMBOLS = 2
_SYMBOL = struct.Struct("<IBBHQQ")
_FUNCTION = 2


class _Section(NamedTuple):
    kind: int
    offset: int
    size: int
    link: int


def function_sizes(code: bytes) -> dict[str, int]:
    """The bytes of each function that is defined there; empty for object code of another form."""
    if not code.startswith(_ELF64_LITTLE):
        return {}
    sections = _sections(code)
    sizes: dict[str, int] = {}
    for table in sections:
        if table.kind == _SYMBOLS:
            names = sections[table.link]
            sizes |= _functions(code, table, code[names.offset : names.offset + names.size])
    return sizes


def _sections(code: bytes) -> list[_Section]:
    (start,) = struct.unpack_from("<Q", code, _SECTION_TABLE)
    width, count = struct.unpack_from("<HH", code, _SECTION_COUNTS)
    heads = (struct.unpack_from("<IIQQQQI", code, start + i * width) for i in range(count))
    return [_Section(kind, offset, size, link) for _, kind, _, _, offset, size, link in heads]


def _functions(code: bytes, table: _Section, names: bytes) -> dict[str, int]:
    symbols = _SYMBOL.iter_unpack(code[table.offset : table.offset + table.size])
    return {
        names[name : names.index(b"\0", name)].decode(): size
        for name, info, _, section, _, size in symbols
        if info & 15 == _FUNCTION and section and info >> 4
    }
