"""Failures of workers, and the error for an abandoned compile, which names a file with its text."""

from __future__ import annotations

import os
import signal

from .. import settings
from .isa import Isa


class WorkerEnded(Exception):
    """The process has exited; `status` is its exit status, negative for a signal, None if unknown."""

    def __init__(self, status: int | None) -> None:
        super().__init__(status)
        self.status = status


class WorkerUnusable(Exception):
    """A process was started, but never became ready to compile."""


def reason_of(status: int | None) -> str:
    """Return why a compiler with this exit status ended."""
    if status is None or status >= 0:
        return "the compiler process exited" + ("" if status is None else f" with status {status}")
    names = {number.value: number.name for number in signal.Signals}
    return f"the compiler process was killed by {names.get(-status, f'signal {-status}')}"


def saved_ir(ir_text: str, isa: Isa) -> str:
    """Write the text to a new file, in the kernel dump folder if there is one, else among temporary files."""
    dump = (settings.lookup("JIT_DUMP") or "").strip()
    folder = dump if os.path.isdir(dump) else os.environ.get("TMPDIR") or "/tmp"
    path = os.path.join(os.path.abspath(folder), f"restride.{isa.name}.{os.urandom(8).hex()}.ll")
    try:
        # A new file, so that nobody else can have put a link there.
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(handle, "w", encoding="utf-8") as file:
            file.write(f"; target triple {isa.triple}, cpu {isa.cpu}, features {isa.features}\n{ir_text}")
    except OSError as error:
        return f"whose IR could not be written to {path}: {error.strerror}"
    return f"IR in {path}"
