"""Kernels made visible: as files to read, and by name to Linux's perf (P17). No fault of it is an error.

JIT_DUMP names a folder, or is 1 for the working folder, as oneDNN has it: each kernel that this process
loads is written there once, as IR (.ll), assembly (.s) and object code (.o). JIT_PROFILE has the bits of
oneDNN; one of them is done here, 2: a line for each function in /tmp/perf-<pid>.map.
"""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Protocol

from .. import settings
from .isa import Isa
from .jit import Library, assembly
from .symbols import function_sizes

_OFF = ("", "0")
_PERF_MAP = 2
_ALL_BITS = 15
_KEY_LETTERS = 16
_told: set[str] = set()


class Readable(Protocol):
    """What has been lowered: `str` tells its plan."""

    @property
    def isa(self) -> Isa:
        """What it is lowered for."""

    def ir(self) -> str:
        """The kernel as LLVM IR text."""


def dump(lowered: Readable, key: str, code: bytes) -> None:
    """Write a kernel's files where JIT_DUMP says so; one warning where that cannot be."""
    wanted = (settings.lookup("JIT_DUMP") or "").strip()
    if wanted in _OFF:
        return
    folder = Path("." if wanted == "1" else wanted)
    stem = f"restride.{lowered.isa.name}.{key[:_KEY_LETTERS]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # The last of the three is there: so are the others.
        if (folder / f"{stem}.o").exists():
            return
        ir = lowered.ir()
        plan = "".join(f"; {line}\n" for line in str(lowered).splitlines())
        (folder / f"{stem}.ll").write_text(plan + ir, encoding="utf-8")
        (folder / f"{stem}.s").write_text(assembly(ir, lowered.isa), encoding="utf-8")
        (folder / f"{stem}.o").write_bytes(code)
    except OSError as error:
        _tell("JIT_DUMP", f"{folder}: {error.strerror}; kernels are not written")


def name_for_perf(library: Library, title: str, code: bytes) -> None:
    """Tell perf the functions of a loaded kernel where JIT_PROFILE says so."""
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
        _tell("JIT_PROFILE", f"{path}: {error.strerror}; perf will not know kernels by name")


def _append(path: str, text: str) -> None:
    """Others may write to that folder: a link is not followed, and a file of somebody else is left alone."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(path, flags, 0o600)
    try:
        if os.fstat(handle).st_uid != os.geteuid():
            raise PermissionError(1, "the file is another user's")
        os.write(handle, text.encode())
    finally:
        os.close(handle)


def _tell(name: str, why: str) -> None:
    if name in _told:
        return
    _told.add(name)
    warnings.warn(f"RESTRIDE_{name}: {why}", RuntimeWarning, stacklevel=2)
