"""Lowered work as object code: from the store on disk, else compiled now; loaded, and made visible.

JIT_DUMP names a folder, or is 1 for the working folder, as in oneDNN: each kernel that this process loads is
written there once, as IR (.ll), assembly (.s) and object code (.o). JIT_PROFILE has oneDNN's bits, of which
one is supported, 2: a line for each function in /tmp/perf-<pid>.map.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import struct
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from .. import settings
from ..loading import load_whole
from ..verbose import Line
from ..watching import Watch
from . import store
from .isa import Isa
from .jit import Library, assembly, load
from .lowered import Lowered

# --- symbols -----------------------------------------------------------------
# The functions in object code, read off its symbol table: 64-bit little-endian ELF, which is Linux's.

_ELF64_LITTLE = b"\x7fELF\x02\x01"
_SECTION_TABLE = 0x28
_SECTION_COUNTS = 0x3A
_SYMBOLS = 2
_SYMBOL = struct.Struct("<IBBHQQ")
_FUNCTION = 2


class _ElfSection(NamedTuple):
    kind: int
    offset: int
    size: int
    link: int


def function_sizes(code: bytes) -> dict[str, int]:
    """Return the bytes of each function that is defined there; empty for object code of another format."""
    if not code.startswith(_ELF64_LITTLE):
        return {}
    sections = _sections(code)
    sizes: dict[str, int] = {}
    for table in sections:
        if table.kind == _SYMBOLS:
            names = sections[table.link]
            sizes |= _functions(code, table, code[names.offset : names.offset + names.size])
    return sizes


def _sections(code: bytes) -> list[_ElfSection]:
    (start,) = struct.unpack_from("<Q", code, _SECTION_TABLE)
    width, count = struct.unpack_from("<HH", code, _SECTION_COUNTS)
    heads = (struct.unpack_from("<IIQQQQI", code, start + i * width) for i in range(count))
    return [_ElfSection(kind, offset, size, link) for _, kind, _, _, offset, size, link in heads]


def _functions(code: bytes, table: _ElfSection, names: bytes) -> dict[str, int]:
    symbols = _SYMBOL.iter_unpack(code[table.offset : table.offset + table.size])
    return {
        names[name : names.index(b"\0", name)].decode(): size
        for name, info, _, section, _, size in symbols
        if info & 15 == _FUNCTION and section and info >> 4
    }


# --- kernel files ------------------------------------------------------------
# Kernels made visible: as files to read, and by name to Linux's perf. Failures here are not errors.

_OFF = ("", "0")
_PERF_MAP = 2
_ALL_BITS = 15
_KEY_LETTERS = 16
_warned: set[str] = set()


def dump(lowered: Lowered, key: str, code: bytes) -> None:
    """Write a kernel's files if JIT_DUMP requests it; one warning if that fails."""
    setting = (settings.lookup("JIT_DUMP") or "").strip()
    if setting in _OFF:
        return
    folder = Path("." if setting == "1" else setting)
    stem = f"restride.{lowered.isa.name}.{key[:_KEY_LETTERS]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # If the last of the three exists, so do the others.
        if (folder / f"{stem}.o").exists():
            return
        ir = lowered.ir()
        plan = "".join(f"; {line}\n" for line in str(lowered).splitlines())
        (folder / f"{stem}.ll").write_text(plan + ir, encoding="utf-8")
        (folder / f"{stem}.s").write_text(assembly(ir, lowered.isa), encoding="utf-8")
        (folder / f"{stem}.o").write_bytes(code)
    except OSError as error:
        _warn_once("JIT_DUMP", f"{folder}: {error.strerror}; kernels are not written")


def name_for_perf(library: Library, title: str, code: bytes) -> None:
    """Register the functions of a loaded kernel with perf if JIT_PROFILE requests it."""
    bits = settings.lookup_int("JIT_PROFILE", 0, low=0, high=_ALL_BITS)
    if not bits & _PERF_MAP or os.name != "posix":
        return
    name = re.sub(r"[^\w:.-]", "_", title)
    sizes = function_sizes(code)
    lines = [f"{library.address(at):x} {size:x} {name}:{at}\n" for at, size in sizes.items()]
    path = f"/tmp/perf-{os.getpid()}.map"
    try:
        _append(path, "".join(lines))
    except OSError as error:
        _warn_once("JIT_PROFILE", f"{path}: {error.strerror}; perf will not know kernels by name")


def _append(path: str, text: str) -> None:
    """Append without following links or writing to others' files, as the folder can be shared."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(path, flags, 0o600)
    try:
        if os.fstat(handle).st_uid != os.geteuid():
            raise PermissionError(1, "the file is another user's")
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def _warn_once(name: str, why: str) -> None:
    if name in _warned:
        return
    _warned.add(name)
    warnings.warn(f"RESTRIDE_{name}: {why}", RuntimeWarning, stacklevel=2)


# --- objects -----------------------------------------------------------------
# Lowered work as object code: from the store on disk, else compiled now; loaded into this process.


def object_key(lowered: Lowered) -> str:
    """Return the key of lowered work: it identifies the nest, and everything that its code depends on."""
    return store.object_key(repr((lowered.key, _revision())), lowered.isa)


def object_code(lowered: Lowered, key: str = "") -> bytes:
    """Return object code of lowered work: from the store on disk, else compiled and stored.

    A hit costs no code generation.
    """
    code_store, key = store.default_store(), key or object_key(lowered)
    code = code_store.get(key)
    if code is None:
        code = _compiled(lowered)
        code_store.put(key, code)
    dump(lowered, key, code)
    return code


def _compiled(lowered: Lowered) -> bytes:
    """Return object code, within the time that a compile can take; see `compile_pool`."""
    # Most kernels are found on disk: the compiler is loaded only when one is not.
    load_whole("restride.targets.compile_pool")
    from . import compile_pool

    compile_pool.expect()
    with Watch("compile", Line("compile", "cpu", lowered.kind, f"jit:{lowered.isa.name}")):
        return compile_pool.compile_ir(lowered.ir(), lowered.isa)


class LoadedKernel(NamedTuple):
    """The code of a kernel in this process, and its key in the store."""

    library: Library
    key: str


def load_kernel(lowered: Lowered) -> LoadedKernel:
    """Load the code of lowered work into this process; profilers see its functions by kind."""
    key = object_key(lowered)
    return LoadedKernel(_loaded(object_code(lowered, key), lowered.isa, lowered.kind), key)


def load_stored(key: str, isa: Isa, title: str) -> Library | None:
    """Load the code that the store on disk has under a key; None if there is none."""
    code = store.default_store().get(key)
    return None if code is None else _loaded(code, isa, title)


def _loaded(code: bytes, isa: Isa, title: str) -> Library:
    library = load(code)
    name_for_perf(library, f"restride:{isa.name}:{title}", code)
    return library


@functools.cache
def _revision() -> str:
    """Return a hash of the compiler's own source, so that no kernel of another revision is ever loaded.

    In an archive there is no source to read: there the version, which is in the key anyway, must do.
    """
    digest = hashlib.sha256()
    try:
        for path in _sources():
            digest.update(path.read_bytes())
    except OSError:
        return "archive"
    return digest.hexdigest()


def _sources() -> Iterable[Path]:
    package = Path(__file__).parent.parent
    return sorted(
        path for row in ("ir", "schedule", "emit", "targets") for path in (package / row).rglob("*.py")
    )
