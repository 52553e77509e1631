"""Loads object code into memory without LLVM: just what kernels on x86-64 Linux need.

LLVM's linker accepts any object, but takes 40 MB of memory. Kernels are one section of code, constants, and
references between them that are relative to the code: they run when copied next to each other into fresh
pages, with each reference corrected. Functions of the C library are called through stubs with their address.
Objects with anything else, such as writable data, are left to LLVM.

Pages are first written and only then made executable: never both.
"""

from __future__ import annotations

import ctypes
import mmap
import platform
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["MappedCode", "mapped_code"]

_HEAD = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_ELF64_LITTLE, _RELOCATABLE, _X86_64 = b"\x7fELF\x02\x01", 1, 62
# Kinds of sections: code and constants, symbols, references, and memory that begins as zeros.
_PROGRAM, _SYMBOLS, _REFERENCES, _ZEROS = 1, 2, 4, 8
_WRITTEN, _ALLOCATED, _THREADS = 1, 2, 0x400
_COMMON = 0xFFF2
# References in code: 4 bytes relative to themselves, directly or through a stub; 8 bytes absolute.
_RELATIVE, _CALL, _ADDRESS = 2, 4, 1
# jmp *[rip + 0], followed by the address.
_STUB = b"\xff\x25\x00\x00\x00\x00"
_STUB_BYTES = 16
_READ_WRITE, _READ_EXECUTE = mmap.PROT_READ | mmap.PROT_WRITE, mmap.PROT_READ | mmap.PROT_EXEC
_FAILED = ctypes.c_void_p(-1).value


class _Unfit(Exception):
    """An object, or part of one, that is left to LLVM."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry: int


class _Symbol(NamedTuple):
    name: str
    section: int
    value: int


class MappedCode:
    """The functions of an object in this process, by name. Valid while this lives, unless closed before."""

    def __init__(self, address: int, nbytes: int, symbols: Mapping[str, int]) -> None:
        self._address, self._nbytes, self.symbols = address, nbytes, symbols

    def close(self) -> None:
        """Release the pages; addresses are dangling from here on. Closing again does nothing."""
        address, self._address = self._address, 0
        if address:
            _LIBC.munmap(address, self._nbytes)


def mapped_code(content: bytes) -> MappedCode | None:
    """Return the code of an object; None if LLVM must link it, or the system denies memory for code."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return None
    try:
        return _Object(content).mapped()
    except (_Unfit, struct.error, IndexError, ValueError, OverflowError):
        return None


@dataclass(slots=True)
class _Object:
    """An object as parsed from its file."""

    content: bytes

    def mapped(self) -> MappedCode:
        sections = list(self._sections())
        symbols = list(self._symbols(sections))
        places, end = _lay_out(sections)
        stubs = {name: end + i * _STUB_BYTES for i, name in enumerate(self._imports(sections, symbols))}
        image = bytearray(end + len(stubs) * _STUB_BYTES)
        for number, start in places.items():
            program = sections[number]
            if program.kind == _PROGRAM:
                image[start : start + program.size] = self._bytes(program)
        for name, start in stubs.items():
            image[start : start + _STUB_BYTES] = _STUB + struct.pack("<Q", _function_address(name)) + bytes(2)
        nbytes = -(-max(len(image), 1) // mmap.PAGESIZE) * mmap.PAGESIZE
        base = _LIBC.mmap(None, nbytes, _READ_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
        if base == _FAILED:
            raise _Unfit
        code = MappedCode(base, nbytes, {
            symbol.name: base + places[symbol.section] + symbol.value
            for symbol in symbols
            if symbol.name and symbol.section in places
        })  # fmt: skip
        try:
            for section in sections:
                if section.kind == _REFERENCES and section.info in places:
                    start = places[section.info]
                    self._refer(image, base, start, section, sections, symbols, places, stubs)
            ctypes.memmove(base, bytes(image), len(image))
            if _LIBC.mprotect(base, nbytes, _READ_EXECUTE):
                raise _Unfit
        except BaseException:
            code.close()
            raise
        return code

    def _bytes(self, section: _Section) -> bytes:
        content = self.content[section.offset : section.offset + section.size]
        if len(content) != section.size:
            raise _Unfit
        return content

    def _sections(self) -> Iterator[_Section]:
        head = _HEAD.unpack_from(self.content)
        if not head[0].startswith(_ELF64_LITTLE) or head[1:3] != (_RELOCATABLE, _X86_64):
            raise _Unfit
        start, width, count = head[6], head[11], head[12]
        if width != _SECTION.size:
            raise _Unfit
        for number in range(count):
            section = _Section(*_SECTION.unpack_from(self.content, start + number * width))
            is_held = section.flags & _ALLOCATED
            is_odd = section.flags & (_WRITTEN | _THREADS) or section.kind == _ZEROS
            if is_held and (is_odd or section.size > len(self.content)):
                raise _Unfit
            yield section

    def _symbols(self, sections: list[_Section]) -> Iterator[_Symbol]:
        for table in sections:
            if table.kind != _SYMBOLS:
                continue
            names = self._bytes(sections[table.link])
            for name, _, _, section, value, _ in _SYMBOL.iter_unpack(self._bytes(table)):
                if section == _COMMON:
                    raise _Unfit
                yield _Symbol(names[name : names.index(b"\0", name)].decode(), section, value)

    def _references(self, section: _Section) -> Iterator[tuple[int, int, int, int]]:
        for offset, info, addend in _RELOCATION.iter_unpack(self._bytes(section)):
            yield offset, info >> 32, info & 0xFFFFFFFF, addend

    def _imports(self, sections: list[_Section], symbols: list[_Symbol]) -> list[str]:
        """Return the functions of other libraries that are called."""
        used = dict[str, None]()
        for section in sections:
            if section.kind == _REFERENCES and sections[section.info].flags & _ALLOCATED:
                for _, number, _, _ in self._references(section):
                    if not symbols[number].section:
                        used[symbols[number].name] = None
        return list(used)

    def _refer(
        self,
        image: bytearray,
        base: int,
        start: int,
        section: _Section,
        sections: list[_Section],
        symbols: list[_Symbol],
        places: Mapping[int, int],
        stubs: Mapping[str, int],
    ) -> None:
        """Correct the references of a section that begins at `start`."""
        size = sections[section.info].size
        for offset, number, kind, addend in self._references(section):
            symbol = symbols[number]
            if symbol.section:
                target = places[symbol.section] + symbol.value if symbol.section in places else -1
            else:
                target = stubs[symbol.name] if kind == _CALL else -1
            width = 8 if kind == _ADDRESS else 4
            if target < 0 or kind not in (_RELATIVE, _CALL, _ADDRESS) or offset + width > size:
                raise _Unfit
            at = start + offset
            value = base + target + addend if kind == _ADDRESS else target + addend - at
            image[at : at + width] = value.to_bytes(width, "little", signed=kind != _ADDRESS)


def _lay_out(sections: list[_Section]) -> tuple[dict[int, int], int]:
    """Return the start of each section of code and constants, and of the stubs after them."""
    places, end = dict[int, int](), 0
    for number, section in enumerate(sections):
        if section.flags & _ALLOCATED and section.kind == _PROGRAM:
            alignment = max(section.alignment, 1)
            if alignment > mmap.PAGESIZE:
                raise _Unfit
            places[number] = end = -(-end // alignment) * alignment
            end += section.size
    return places, -(-end // _STUB_BYTES) * _STUB_BYTES


def _function_address(name: str) -> int:
    """Return the address of a function of the libraries in this process."""
    try:
        function = getattr(_LIBC, name)
    except AttributeError:
        raise _Unfit from None
    return ctypes.cast(function, ctypes.c_void_p).value or 0


def _opened() -> Any:
    libc = ctypes.CDLL(None)
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    libc.mmap.restype, libc.mmap.argtypes = pointer, (pointer, size, *[ctypes.c_int] * 3, ctypes.c_long)
    libc.munmap.argtypes, libc.mprotect.argtypes = (pointer, size), (pointer, size, ctypes.c_int)
    return libc


_LIBC: Any = _opened() if sys.platform == "linux" else None
