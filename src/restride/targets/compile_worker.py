"""A worker process that compiles, as seen by its parent: starting, requests, ending. POSIX only.

It does not run any part of the program again, neither `__main__` nor what site-packages start: the
interpreter begins without `site`, and finds this package and llvmlite where the parent has them.
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

# An interpreter with llvmlite takes 0.1 s to start; much longer on a busy machine and a cold disk.
_START_S = 60.0
# Waits are counted in slices of this length.
_SLICE_S = 0.25
# A process that has closed its end exits in a moment.
_END_S = 1.0
# The program may have restored SIGPIPE's default action, as many do that write to a pipe.
_NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
# The variables the interpreter needs to find its own library. Its other variables could change what it runs.
_PASSED_ON = ("PYTHONHOME", "PYTHONPLATLIBDIR", "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
# `restride/__init__.py` imports the library, including NumPy: a bare package in its place loads none of that.
# Files that the parent left open for its children are closed.
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
    """A time limit for waiting on a connection, excluding time in which this process was stopped.

    Stopping a program with Ctrl-Z stops its workers too: no compile times out because both were suspended.
    """

    def __init__(self, seconds: float) -> None:
        self.left_s = seconds

    def receive(self, connection: socket.socket, most: int) -> bytes:
        """Return the next bytes, at most `most`; raise TimeoutError when the time is up."""
        while True:
            wait_s = min(self.left_s, _SLICE_S)
            connection.settimeout(max(wait_s, 1e-3))
            try:
                return connection.recv(most)
            except TimeoutError:
                # A slice counts the same, however long it took by the clock.
                self.left_s -= wait_s
                if self.left_s <= 0:
                    raise


class Worker:
    """A process that compiles one text at a time. Its owner decides who uses it."""

    def __init__(self, process: int, connection: socket.socket) -> None:
        self.process, self._connection = process, connection
        # Whether it is known to have started.
        self.has_started = False

    def is_ready(self) -> bool:
        """Return whether it has started, without waiting. For the owner of an idle one."""
        if not self.has_started:
            # If it has exited, the next request reports it.
            with contextlib.suppress(OSError, WorkerEnded):
                self.has_started = self._has_bytes() and self._receive_ready(Deadline(1.0))
        return self.has_started

    def has_exited(self) -> bool:
        """Return whether it has exited, as one does that had no work for a while, without waiting."""
        try:
            return self._peek() == b""
        except OSError:
            return True

    def ask(self, kind: bytes, message: bytes, limit_s: float) -> tuple[bytes, bytes]:
        """Send a message and return the answer, waiting up to the limit once the process has started.

        Raises WorkerUnusable if it does not start, WorkerEnded, or TimeoutError after the limit.
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
        """End the process, whatever it does; return its exit status, None if it was reaped elsewhere."""
        self.abandon()
        try:
            # If someone else has reaped it, its number can be another process's by now.
            os.waitid(os.P_PID, self.process, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            os.kill(self.process, signal.SIGKILL)
            return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])
        except ChildProcessError:
            return None

    def _end_by_itself(self) -> int | None:
        """Return the exit status of a process that has closed its end."""
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
        """Close this end: the process exits by itself unless another process also holds this end."""
        self._connection.close()

    def _wait_until_ready(self) -> None:
        try:
            self.has_started = self._receive_ready(Deadline(_START_S))
        except (WorkerEnded, TimeoutError) as error:
            raise WorkerUnusable from error

    def _has_bytes(self) -> bool:
        return self._peek() not in (None, b"")

    def _peek(self) -> bytes | None:
        """Return the next byte without consuming it; empty at the end, None if none has arrived yet."""
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
    """Return whether a Python interpreter for workers is known; not in a frozen or embedding program.

    A program that embeds Python can name itself as the interpreter, and would be started a second time.
    """
    if not hasattr(os, "posix_spawn") or getattr(sys, "frozen", False):
        return False
    name = os.path.basename(sys.executable or "")
    return re.fullmatch(r"(python|pypy)[0-9.]*[a-z]?", name) is not None and os.access(
        sys.executable, os.X_OK
    )


def start() -> Worker:
    """Start a worker without waiting for it.

    Raises WorkerUnusable if there is no interpreter, or whatever the system or a hook of the program raises.
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
                # Ctrl-C in a terminal is for the parent only, which ends a worker that it waits for.
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
    """Return the folder of llvmlite, which this process might never load."""
    spec = importlib.util.find_spec("llvmlite")
    if spec is None or spec.origin is None:
        raise WorkerUnusable
    return os.path.dirname(os.path.dirname(os.path.abspath(spec.origin)))


def _environment() -> dict[str, str]:
    variables = os.environ.items()
    return {k: v for k, v in variables if not k.startswith("PYTHON") or k in _PASSED_ON}


def _above_standard(end: socket.socket) -> socket.socket:
    """Move an end above the standard file numbers: if these are closed, prints would go there."""
    if end.fileno() > 2:
        return end
    with end:
        return socket.socket(fileno=fcntl.fcntl(end.fileno(), fcntl.F_DUPFD_CLOEXEC, 3))
