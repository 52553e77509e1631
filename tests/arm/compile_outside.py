"""In an emulated process: `restride.targets.jit` compiles outside of the emulator, where ARM_COMPILER says.

Every emulated interpreter imports this first. Where nobody listens, or LLVM refuses a text, LLVM runs in the
emulator as ever, and says what it has to say.
"""

from __future__ import annotations

import functools
import importlib.machinery
import os
import socket
import struct
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

_MODULE = "restride.targets.jit"
_COMPILER = "ARM_COMPILER"
_OWN = threading.local()


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads the module as it is, and then has its two functions that compile ask first."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        compiler = os.environ.get(_COMPILER)
        if compiler:
            from restride.targets import compile_server

            vars(module)["compile_ir"] = _asking(compiler, compile_server.OBJECT, module.compile_ir)
            vars(module)["assembly"] = _asking(compiler, compile_server.ASSEMBLY, module.assembly)


class _Finder:
    """Finds that one module."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path) if name == _MODULE else None
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(name, spec.origin)
        return spec


class _Connection(socket.socket):
    """Ends with the thread that it is of."""

    def __del__(self) -> None:
        self.close()


def _asking(compiler: str, kind: bytes, local: Callable[..., Any]) -> Callable[..., Any]:
    """`local`, which is called only where the compiler does not answer."""

    @functools.wraps(local)
    def compile_outside(ir_text: str, isa: Any) -> Any:
        answer = _ask(compiler, kind, ir_text, isa)
        if answer is None:
            return local(ir_text, isa)
        return answer if local.__annotations__["return"] in (bytes, "bytes") else answer.decode()

    return compile_outside


def _ask(compiler: str, kind: bytes, ir_text: str, isa: Any) -> bytes | None:
    from restride.targets import compile_server as protocol

    message = protocol.packed(isa, ir_text)
    # One that had no work for a minute has ended: a new one is asked then.
    for connect in (_connection, _new_connection):
        try:
            connection = connect(compiler)
            connection.sendall(protocol.HEADER.pack(kind, len(message)) + message)
            status, answer = _receive(connection)
            return answer if status == protocol.DONE else None
        except (OSError, struct.error):
            vars(_OWN).clear()
    return None


def _connection(compiler: str) -> socket.socket:
    """The connection of this thread: a compiler that has worked before is twice as fast."""
    own: socket.socket | None = vars(_OWN).get(str(os.getpid()))
    return _new_connection(compiler) if own is None else own


def _new_connection(compiler: str) -> socket.socket:
    connection = _Connection(socket.AF_UNIX)
    vars(_OWN)[str(os.getpid())] = connection
    connection.connect(compiler)
    _receive(connection)
    return connection


def _receive(connection: socket.socket) -> tuple[bytes, bytes]:
    from restride.targets import compile_server as protocol

    status, size = protocol.HEADER.unpack(_read(connection, protocol.HEADER.size))
    return status, _read(connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(size)
        if not part:
            raise ConnectionError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


sys.meta_path.insert(0, _Finder)
