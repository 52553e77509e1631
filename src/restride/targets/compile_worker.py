"""One worker process that compiles, as its parent sees it: started, asked, ended. POSIX only.

Nothing of the program is run again in it, neither `__main__` nor what site-packages start: the interpreter
begins without `site`, and finds this package and llvmlite where the parent has them.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import re
import signal
import socket
import sys
import time

from ..version import VERSION
from .compile_failure import WorkerEnded, WorkerUnusable
from .compile_server import HEADER, READY

# An interpreter with llvmlite takes 0.1 s to start, on a busy machine and a cold disk much more.
_START_S = 60.0
# Waits are counted in slices of this length.
_SLICE_S = 0.25
# One that has closed its end is gone in a moment.
_END_S = 1.0
# A program may have let SIGPIPE end it, as many do that write to a pipe.
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
# What the interpreter needs to find its own library. Other variables of its own may change what it runs.
_PASSED_ON = ("PYTHONHOME", "PYTHONPLATLIBDIR", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
# `restride/__init__.py` gathers the library, NumPy with it: a bare package in its place loads none of that.
# Files that the parent left open to its children are none of the worker's.
_BEGIN = """
import os, sys, types
for name in os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else ():
    try:
        os.close(int(name)) if int(name) > 2 else None
    except OSError:
        pass
os.chdir("/")
root, more = sys.argv[1:]
sys.path.append(more)
package = types.ModuleType("restride")
package.__path__ = [root]
sys.modules["restride"] = package
from restride.targets.compile_server import serve
serve(0)
"""


class Deadline:
    """So many seconds of waiting for a connection; those in which this process was stopped are none of them.

    A program that Ctrl-Z stops, stops its workers too: no compile is late because both slept.
    """

    def __init__(self, seconds: float) -> None:
        self.left_s = seconds

    def receive(self, connection: socket.socket, most: int) -> bytes:
        """At most so many bytes, those that come next; TimeoutError when there is no patience left."""
        while True:
            wait_s = min(self.left_s, _SLICE_S)
            connection.settimeout(max(wait_s, 1e-3))
            try:
                return connection.recv(most)
            except TimeoutError:
                # However long it was by the clock.
                self.left_s -= wait_s
                if self.left_s <= 0:
                    raise


class Worker:
    """A process that compiles one text at a time. Its owner says who may use it when."""

    def __init__(self, process: int, connection: socket.socket) -> None:
        self.process, self._connection = process, connection
        # Whether it is known to have started, which who waits for it may know first.
        self.has_started = False

    def is_ready(self) -> bool:
        """True where it has started; looks without waiting. For the owner of an idle one."""
        if not self.has_started:
            # Where it is gone, whoever asks it is told.
            with contextlib.suppress(OSError, WorkerEnded):
                self.has_started = self._has_bytes() and self._receive_ready(Deadline(1.0))
        return self.has_started

    def has_exited(self) -> bool:
        """True where it has ended, as one does that had no work for a while; looks without waiting."""
        try:
            return self._peek() == b""
        except OSError:
            return True

    def ask(self, kind: bytes, message: bytes, limit_s: float) -> tuple[bytes, bytes]:
        """Send a message and return the answer, which may take so long once the process has started.

        Raises WorkerUnusable where it does not start, WorkerEnded, or TimeoutError after the limit.
        """
        if not self.has_started:
            self._wait_until_ready()
        try:
            self._connection.settimeout(limit_s)
            self._connection.sendall(HEADER.pack(kind, len(message)) + message, _NO_SIGNAL)
        except TimeoutError:
            raise
        except OSError:
            raise WorkerEnded(self._end_by_itself()) from None
        return self._receive(Deadline(limit_s))

    def end(self) -> int | None:
        """End the process, whatever it does; its exit status, None where somebody else has taken that."""
        self.abandon()
        try:
            # Where somebody else has waited for it, its number may be another process's by now.
            os.waitid(os.P_PID, self.process, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            os.kill(self.process, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        except ChildProcessError:
            return None

    def _end_by_itself(self) -> int | None:
        """The exit status of a process that has closed its end."""
        end = time.monotonic() + _END_S
        while time.monotonic() < end:
            try:
                if os.waitid(os.P_PID, self.process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                    break
            except ChildProcessError:
                break
            time.sleep(1e-3)
        return self.end()

    def abandon(self) -> None:
        """Close this end: the process ends by itself unless another process holds this end, too."""
        self._connection.close()

    def _wait_until_ready(self) -> None:
        try:
            self.has_started = self._receive_ready(Deadline(_START_S))
        except (WorkerEnded, TimeoutError) as error:
            raise WorkerUnusable from error

    def _has_bytes(self) -> bool:
        return self._peek() not in (None, b"")

    def _peek(self) -> bytes | None:
        """The next byte, which stays; nothing at the end, and None where none has come yet."""
        self._connection.settimeout(0)
        try:
            return self._connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return None

    def _receive_ready(self, deadline: Deadline) -> bool:
        kind, version = self._receive(deadline)
        if kind != READY or version != VERSION.encode():
            raise WorkerEnded(self.end())
        return True

    def _receive(self, deadline: Deadline) -> tuple[bytes, bytes]:
        kind, size = HEADER.unpack(self._receive_bytes(HEADER.size, deadline))
        return kind, self._receive_bytes(size, deadline)

    def _receive_bytes(self, size: int, deadline: Deadline) -> bytes:
        parts = []
        while size:
            try:
                part = deadline.receive(self._connection, min(size, 1 << 20))
            except TimeoutError:
                raise
            except OSError:
                part = b""
            if not part:
                raise WorkerEnded(self._end_by_itself())
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def _can_start() -> bool:
    """True where a Python interpreter for workers is known: none in a frozen or embedding program.

    A program that embeds Python may name itself as the interpreter, and would be started a second time.
    """
    if not hasattr(os, "posix_spawn") or getattr(sys, "frozen", False):
        return False
    name = os.path.basename(sys.executable or "")
    return re.fullmatch(r"(python|pypy)[0-9.]*[a-z]?", name) is not None and os.access(
        sys.executable, os.X_OK
    )


def start() -> Worker:
    """Start a worker, and do not wait for it.

    Raises WorkerUnusable where there is no interpreter, else what the system or a hook of the program says.
    """
    if not _can_start():
        raise WorkerUnusable
    near, far = (_above_standard(end) for end in socket.socketpair())
    try:
        with far:
            process = os.posix_spawn(
                sys.executable,
                _command(),
                _environment(),
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, far.fileno(), 0),
                    (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
                ],
                # Ctrl-C of a terminal is for the parent alone, which ends a worker that it waits for.
                setpgroup=0,
                setsigmask=(),
            )
    except BaseException:
        near.close()
        raise
    return Worker(process, near)


def _command() -> list[str]:
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    options = ["-s", "-S", "-P", *(["-B"] if sys.dont_write_bytecode else [])]
    return [sys.executable, *options, "-c", _BEGIN, root, _folder_of_llvmlite()]


def _folder_of_llvmlite() -> str:
    """The folder of llvmlite; this process needs it for less, and may never load it."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        raise WorkerUnusable
    return os.path.dirname(os.path.dirname(os.path.abspath(spec.origin)))


def _environment() -> dict[str, str]:
    variables = os.environ.items()
    return {k: v for k, v in variables if not k.startswith("PYTHON") or k in _PASSED_ON}


def _above_standard(end: socket.socket) -> socket.socket:
    """The same end above the standard three files: where these are closed, what prints would print there."""
    if end.fileno() > 2:
        return end
    with end:
        return socket.socket(fileno=fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, 3))
