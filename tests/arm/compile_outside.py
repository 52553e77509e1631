"""In an emulated process: `restride.targets.jit` compiles outside of the emulator, where ARM_COMPILER says.

Every emulated interpreter imports this first. Where nobody listens, or LLVM refuses a text, LLVM runs in the
emulator as ever, and says what it has to say.
"""

from __future__ import annotations

import functools
import importlib.machinery
import os
import socket
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

_MODULE = "restride.targets.jit"
_COMPILER = "ARM_COMPILER"


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
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(compiler)
            connection.sendall(protocol.HEADER.pack(kind, len(message)) + message)
            with connection.makefile("rb") as file:
                for wanted in (protocol.READY, protocol.DONE):
                    status, size = protocol.HEADER.unpack(file.read(protocol.HEADER.size))
                    answer = file.read(size)
                    if status != wanted or len(answer) != size:
                        return None
                return answer
    except (OSError, protocol.struct.error):
        return None


sys.meta_path.insert(0, _Finder)
