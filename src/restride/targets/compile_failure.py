"""Faults of workers, and the error of a compile that was given up, which names a file with its text."""

from __future__ import annotations

import os
import signal

from .. import settings
from .isa import Isa


class WorkerEnded(Exception):
    """The process is gone; `status` is its exit status, negative for a signal, None where nobody knows."""

    def __init__(self, status: int | None) -> None:
        super().__init__(status)
        self.status = status


class WorkerUnusable(Exception):
    """A process was started, and does not come to compile."""


def reason_of(status: int | None) -> str:
    """The reason of a compiler that ended with this status."""
    if status is None or status >= 0:
        return "the process of the compiler ended" + ("" if status is None else f" with status {status}")
    names = {number.value: number.name for number in signal.Signals}
    return f"the process of the compiler was ended by {names.get(-status, f'signal {-status}')}"


def saved_ir(ir_text: str, isa: Isa) -> str:
    """Write the text to a new file where kernels are written to be read, else where temporary files are."""
    dump = (settings.lookup("JIT_DUMP") or "").strip()
    folder = dump if os.path.isdir(dump) else os.environ.get("TMPDIR") or "/tmp"
    path = os.path.join(os.path.abspath(folder), f"restride.{isa.name}.{os.urandom(8).hex()}.ll")
    try:
        # Of a new file, so that nobody else can have put a link there.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(f"; target triple {isa.triple}, cpu {isa.cpu}, features {isa.features}\n{ir_text}")
    except OSError as error:
        return f"whose IR could not be written to {path}: {error.strerror}"
    return f"IR in {path}"
