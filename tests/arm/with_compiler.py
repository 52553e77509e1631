"""Run a command with LLVM at its service: with_compiler.py COMMAND ...

An emulated process compiles ten times as slowly as one of this machine. So this process listens on a socket,
which ARM_COMPILER names to the command; each connection is served by a fork of it. `compile_outside.py` is
the other end. The code is the same: LLVM is told the target, and looks at no machine.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from restride.targets.compile_server import serve
from restride.targets.llvm import binding_with_targets

_PR_SET_PDEATHSIG = 1


@contextlib.contextmanager
def compiler() -> Iterator[dict[str, str]]:
    """A compiler that listens for as long as the context lasts; what its users need in their environment."""
    with (
        tempfile.TemporaryDirectory(prefix="restride-arm-") as folder,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        path = str(Path(folder) / "compiler")
        listener.bind(path)
        listener.listen(64)
        server = os.fork()
        if server == 0:
            _accept(listener)
        try:
            yield {"ARM_COMPILER": path}
        finally:
            os.kill(server, signal.SIGKILL)
            os.waitpid(server, 0)


def _accept(listener: socket.socket) -> None:
    """Serve every connection by a process of its own, which ends with it; returns never."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # Who started it ends it, at Ctrl-C too; and where that dies, the system does.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    binding_with_targets()
    while True:
        connection, _ = listener.accept()
        if os.fork() == 0:
            listener.close()
            serve(connection.detach())
        connection.close()


if __name__ == "__main__":
    with compiler() as variables:
        sys.exit(subprocess.run(sys.argv[1:], env=os.environ | variables, check=False).returncode)
