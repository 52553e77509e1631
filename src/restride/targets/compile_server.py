"""The compiler as a separate process: compiles texts that arrive on a socket, one after another.

It is started with nothing but this package (see `compile_worker`), so that it loads little except llvmlite.
It ends when the socket closes, as when the process at the other end exits, and when it had no work for a
while.
"""

from __future__ import annotations

import os
import queue
import struct
import threading

from ..errors import RuntimeFailure
from ..version import VERSION
from . import jit
from .isa import Isa
from .llvm import LLVM_LOCK, binding_with_targets

HEADER = struct.Struct("<cQ")
"""The header of each message: its kind, and the number of bytes that follow."""
OBJECT, ASSEMBLY, READY, DONE, REFUSED = b"o", b"a", b"r", b"d", b"x"
SEPARATOR = "\0"
# LLVM's memory, some 70 MB, is released after this long without work.
_IDLE_S = 60.0
_Job = tuple[bytes, bytes]


def packed(isa: Isa, ir_text: str) -> bytes:
    """Return a text and its target as the bytes of a message."""
    parts = (isa.name, str(isa.vector_bytes), isa.triple, isa.cpu, isa.features, ir_text)
    return SEPARATOR.join(parts).encode()


def serve(handle: int) -> None:
    """Compile what arrives on the socket until it closes; then end the process."""
    jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
    # Compiling releases Python's lock, so that the other thread notices the end even during a compile.
    threading.Thread(target=_receive_all, args=(handle, jobs), daemon=True).start()
    with LLVM_LOCK:
        binding_with_targets()
    _send(handle, READY, VERSION.encode())
    while True:
        try:
            kind, message = jobs.get(timeout=_IDLE_S)
        except queue.Empty:
            os._exit(0)
        _send(handle, *_answer(kind, message))


def _answer(kind: bytes, message: bytes) -> _Job:
    name, vector_bytes, triple, cpu, features, ir_text = message.decode().split(SEPARATOR, 5)
    isa = Isa(name, int(vector_bytes), triple, cpu, features)
    try:
        if kind == ASSEMBLY:
            return DONE, jit.assembly(ir_text, isa).encode()
        return DONE, jit.compile_ir(ir_text, isa)
    except RuntimeFailure as error:
        return REFUSED, SEPARATOR.join((error.what, error.code, error.where, error.why, error.hint)).encode()


def _receive_all(handle: int, jobs: queue.SimpleQueue[_Job]) -> None:
    try:
        while True:
            kind, size = HEADER.unpack(_receive(handle, HEADER.size))
            jobs.put((kind, _receive(handle, size)))
    except OSError:
        os._exit(0)


def _receive(handle: int, size: int) -> bytes:
    parts = []
    while size:
        part = os.read(handle, min(size, 1 << 20))
        if not part:
            raise ConnectionError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _send(handle: int, kind: bytes, message: bytes) -> None:
    rest = memoryview(HEADER.pack(kind, len(message)) + message)
    try:
        while rest:
            rest = rest[os.write(handle, rest) :]
    except OSError:
        os._exit(0)
