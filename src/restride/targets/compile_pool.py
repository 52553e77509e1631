"""Compiles that can be abandoned: in worker processes, or in this process if there can be none.

A compile that never ends, or a crash of LLVM, costs one call. Threads can compile concurrently, which is
impossible in one process: llvmlite holds one lock for all of LLVM.

No kind of kernel is sure to compile in finite time, so none compiles here if a worker can do it: a compile in
this process cannot be stopped. Starting a worker takes 0.1 s of a processor, while the first text is written.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import threading
from typing import TYPE_CHECKING

from .. import settings
from ..errors import Error, RuntimeFailure, refuse
from ..loading import load_whole
from . import jit
from .compile_failure import WorkerEnded, WorkerUnusable, reason_of, saved_ir
from .compile_server import ASSEMBLY, OBJECT, REFUSED, SEPARATOR, packed
from .isa import Isa

if TYPE_CHECKING:
    from .compile_worker import Worker

_LIMIT_S = 60
_MOST_LIMIT_S = 86_400
_MOST_WORKERS = 8
# Nothing signals when a worker has started: waiting threads poll at this interval.
_LOOK_S = 0.002
_ATTEMPTS = 2


def expect() -> None:
    """Start a worker if there is none, without waiting for it: there will be a text to compile."""
    if _limit_s():
        _pool_of_this_process().expect()


def compile_ir(ir_text: str, isa: Isa) -> bytes:
    """Return the code from `jit.compile_ir`, within the time that RESTRIDE_COMPILE_LIMIT allows.

    Raises RuntimeFailure if LLVM rejects the text, does not finish, or crashes.
    """
    answer = _compile_apart(OBJECT, ir_text, isa)
    return jit.compile_ir(ir_text, isa) if answer is None else answer


def assembly(ir_text: str, isa: Isa) -> str:
    """Return the text from `jit.assembly`, within the time that RESTRIDE_COMPILE_LIMIT allows."""
    answer = _compile_apart(ASSEMBLY, ir_text, isa)
    return jit.assembly(ir_text, isa) if answer is None else answer.decode()


class _Pool:
    """The workers of this process. Any number of threads may share it."""

    def __init__(self) -> None:
        self.process = os.getpid()
        # Also set at interpreter exit.
        self.is_unusable = False
        # Abandoned texts: compiling one of them again fails immediately.
        self.failures: dict[tuple[bytes, bytes], Error] = {}
        self._most = min(_processors(), _MOST_WORKERS)
        self._idle: list[Worker] = []
        # Busy workers, each with the thread that waits for it.
        self._busy: list[tuple[Worker, int]] = []
        self._changed = threading.Condition()

    def expect(self) -> None:
        """Start a worker if there is none."""
        with self._changed:
            if self._is_usable() and not self.workers():
                self._start()

    def take(self) -> Worker | None:
        """Reserve a worker for this thread; None if this process must compile."""
        with self._changed:
            while self._is_usable():
                worker = self._choose()
                if worker is not None:
                    self._idle.remove(worker)
                    self._busy.append((worker, threading.get_ident()))
                    return worker
                self._start_or_wait()
        return None

    def give_back(self, worker: Worker) -> None:
        """Make the worker available to others."""
        with self._changed:
            self._forget(worker)
            self._idle.append(worker)

    def drop(self, worker: Worker) -> int | None:
        """End the worker, whatever it does; return its exit status."""
        status = worker.end()
        with self._changed:
            self._forget(worker)
        return status

    def workers(self) -> list[Worker]:
        """Return busy and idle workers."""
        return [*self._idle, *(worker for worker, _ in self._busy)]

    def _forget(self, worker: Worker) -> None:
        self._busy = [entry for entry in self._busy if entry[0] is not worker]
        self._changed.notify_all()

    def _is_usable(self) -> bool:
        """Return whether workers are available at all; forgets those that have exited."""
        for worker in [worker for worker in self._idle if worker.has_exited()]:
            self._idle.remove(worker)
            # One that was never ready cannot run here, and the next could not either.
            self.is_unusable |= not worker.is_ready()
            worker.end()
        return not self.is_unusable

    def _choose(self) -> Worker | None:
        """Return an idle worker that has started; if there are none, one that has not."""
        ready = [worker for worker in self._idle if worker.is_ready()]
        others = [] if self._has_ready() else self._idle
        return next(reversed(ready or others), None)

    def _has_ready(self) -> bool:
        return any(worker.is_ready() for worker in self._idle) or any(w.has_started for w, _ in self._busy)

    def _start_or_wait(self) -> None:
        """Start one more worker, or wait a moment in which another can become idle."""
        # A signal handler must not wait for the worker of the code that it interrupts.
        is_nested = any(thread == threading.get_ident() for _, thread in self._busy)
        if not self._idle and (len(self._busy) < self._most or is_nested):
            self._start()
        else:
            self._changed.wait(_LOOK_S)

    def _start(self) -> None:
        load_whole("restride.targets.compile_worker")
        from . import compile_worker

        try:
            self._idle.append(compile_worker.start())
        # Hooks that forbid processes can raise anything.
        except Exception:
            self.is_unusable = True


def _limit_s() -> int:
    """Return the seconds that a compile can take; 0 if this process compiles, without a limit."""
    return settings.lookup_int("COMPILE_LIMIT", _LIMIT_S, low=0, high=_MOST_LIMIT_S) * (os.name == "posix")


def _compile_apart(kind: bytes, ir_text: str, isa: Isa) -> bytes | None:
    """Return the answer of a worker; None if this process must compile."""
    limit_s = _limit_s()
    if limit_s == 0:
        return None
    pool, message = _pool_of_this_process(), packed(isa, ir_text)
    key = kind, hashlib.sha256(message).digest()
    if key in pool.failures:
        raise pool.failures[key].with_context()
    try:
        return _ask(pool, kind, message, limit_s)
    except TimeoutError:
        why = f"it did not finish within {limit_s} s, the limit set by RESTRIDE_COMPILE_LIMIT"
    except WorkerEnded as ended:
        why = reason_of(ended.status)
    failure = pool.failures[key] = refuse("RS-D06", name=isa.name, saved=saved_ir(ir_text, isa), why=why)
    raise failure.with_context()


def _ask(pool: _Pool, kind: bytes, message: bytes, limit_s: int) -> bytes | None:
    for attempt in range(_ATTEMPTS):
        worker = pool.take()
        if worker is None:
            return None
        try:
            status, answer = worker.ask(kind, message, limit_s)
        except WorkerUnusable:
            pool.is_unusable = True
            pool.drop(worker)
            return None
        except WorkerEnded:
            # Because of a bug of its own, or a process that ran out of memory: the next can succeed.
            pool.drop(worker)
            if attempt + 1 == _ATTEMPTS:
                raise
        except BaseException:
            # It might never end, and after Ctrl-C nobody waits for it.
            pool.drop(worker)
            raise
        else:
            pool.give_back(worker)
            return _accepted(status, answer)
    return None


def _accepted(status: bytes, answer: bytes) -> bytes:
    if status != REFUSED:
        return answer
    what, code, where, why, hint = answer.decode().split(SEPARATOR)
    raise RuntimeFailure(what, code=code, where=where, why=why, hint=hint)


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pool_of_this_process() -> _Pool:
    # A fork that Python does not know of runs no hooks.
    if _pool.process != os.getpid():
        _leave_to_parent()
    return _pool


def _leave_to_parent() -> None:
    """Run in the child of a fork: workers belong to the parent, and must notice when it exits."""
    global _pool
    pool, _pool = _pool, _Pool()
    for worker in pool.workers():
        worker.abandon()


def _at_exit() -> None:
    _pool.is_unusable = True
    for worker in _pool.workers():
        worker.end()


_pool = _Pool()
atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
