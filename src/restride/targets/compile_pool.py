"""Compiles that can be given up: in worker processes, and in this one where that is as good or all there is.

A compile that never ends, or a crash of LLVM, costs one call. Threads compile at the same time, which they
cannot in one process: llvmlite holds one lock for all of LLVM.

To start a worker takes 0.1 s of a processor, as long as five compiles. So kinds of kernels that the tests
compile in wide sweeps compile in this process until they have taken that long; then a worker starts beside
it, and once that is ready all goes there. Other kinds go to a worker from the first on.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from .. import settings
from ..errors import RuntimeFailure
from ..loading import load_whole
from . import jit
from .compile_failure import WorkerEnded, WorkerUnusable, given_up, reason_of
from .compile_server import ASSEMBLY, OBJECT, REFUSED, SEPARATOR, packed
from .isa import Isa

if TYPE_CHECKING:
    from .compile_worker import Worker

T = TypeVar("T")
_LIMIT_S = 60
_MOST_LIMIT_S = 86_400
# Processor time of compiles in this process from which on a worker pays.
_WORTH_S = 0.1
_MOST_WORKERS = 8
# Nobody says when a worker has started: those who wait look this often.
_LOOK_S = 0.002
_ATTEMPTS = 2


def compile_ir(ir_text: str, isa: Isa, is_swept: bool = False) -> bytes:
    """What `jit.compile_ir` returns, in the time that RESTRIDE_COMPILE_LIMIT allows.

    `is_swept`: of a kind that the tests compile in wide sweeps, which is unlikely to be endless.
    Raises RuntimeFailure where LLVM refuses the text, does not end, or crashes.
    """
    answer = _compile_apart(OBJECT, ir_text, isa, is_swept)
    return _in_this_process(jit.compile_ir, ir_text, isa) if answer is None else answer


def assembly(ir_text: str, isa: Isa, is_swept: bool = False) -> str:
    """What `jit.assembly` returns, in the time that RESTRIDE_COMPILE_LIMIT allows."""
    answer = _compile_apart(ASSEMBLY, ir_text, isa, is_swept)
    return _in_this_process(jit.assembly, ir_text, isa) if answer is None else answer.decode()


class _Pool:
    """The workers of this process, and what was spent without them. Any number of threads may share it."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.spent_s = 0.0
        # So it is where no worker can be started, and at the end of the interpreter.
        self.is_unusable = False
        # What was given up: to ask for it again is an error at once.
        self.failures: dict[tuple[bytes, bytes], RuntimeFailure] = {}
        self._most = min(_processors(), _MOST_WORKERS)
        self._idle: list[Worker] = []
        # Busy ones, each with the thread that waits for it.
        self._busy: list[tuple[Worker, int]] = []
        self._changed = threading.Condition()

    def take(self, is_swept: bool) -> Worker | None:
        """A worker for this thread alone; None where it had better compile in this process."""
        with self._changed:
            while self._is_usable():
                if is_swept and not self._has_ready():
                    self._start_if_worth()
                    return None
                found = self._choose()
                if found is not None:
                    self._idle.remove(found)
                    self._busy.append((found, threading.get_ident()))
                    return found
                self._start_or_wait()
        return None

    def give_back(self, worker: Worker) -> None:
        """The worker may compile for others."""
        with self._changed:
            self._forget(worker)
            self._idle.append(worker)

    def drop(self, worker: Worker) -> int | None:
        """End the worker, whatever it does; its exit status."""
        status = worker.end()
        with self._changed:
            self._forget(worker)
        return status

    def workers(self) -> list[Worker]:
        """Those that are busy, and those that are not."""
        return [*self._idle, *(worker for worker, _ in self._busy)]

    def _forget(self, worker: Worker) -> None:
        self._busy = [entry for entry in self._busy if entry[0] is not worker]
        self._changed.notify_all()

    def _is_usable(self) -> bool:
        """Whether workers can be had at all; those that are gone are so from here on."""
        for worker in [worker for worker in self._idle if worker.is_gone()]:
            self._idle.remove(worker)
            # One that never was ready cannot run here: the next could not either.
            self.is_unusable |= not worker.is_ready()
            worker.end()
        return not self.is_unusable

    def _choose(self) -> Worker | None:
        """An idle worker that has started; one that has not, where there are no others."""
        ready = [worker for worker in self._idle if worker.is_ready()]
        others = [] if self._has_ready() else self._idle
        return next(reversed(ready or others), None)

    def _has_ready(self) -> bool:
        return any(worker.is_ready() for worker in self._idle) or any(w.has_started for w, _ in self._busy)

    def _start_if_worth(self) -> None:
        if self.spent_s >= _WORTH_S and not self.workers():
            self._start()

    def _start_or_wait(self) -> None:
        """One more worker, or a moment in which another may become idle."""
        # A handler of a signal must not wait for the worker of the code that it interrupts.
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
        # Hooks that forbid processes raise what they like.
        except Exception:
            self.is_unusable = True


def _compile_apart(kind: bytes, ir_text: str, isa: Isa, is_swept: bool) -> bytes | None:
    """What a worker answers; None where this process had better compile."""
    limit_s = settings.lookup_int("COMPILE_LIMIT", _LIMIT_S, low=0, high=_MOST_LIMIT_S)
    if limit_s == 0 or os.name != "posix":
        return None
    pool, message = _pool_of_this_process(), packed(isa, ir_text)
    key = kind, hashlib.sha256(message).digest()
    if key in pool.failures:
        raise pool.failures[key].retold()
    try:
        return _ask(pool, kind, message, limit_s, is_swept)
    except TimeoutError:
        why = f"it did not end within {limit_s} s, the limit that RESTRIDE_COMPILE_LIMIT sets"
    except WorkerEnded as ended:
        why = reason_of(ended.status)
    failure = pool.failures[key] = given_up(ir_text, isa, why)
    raise failure.retold()


def _ask(pool: _Pool, kind: bytes, message: bytes, limit_s: int, is_swept: bool) -> bytes | None:
    for attempt in range(_ATTEMPTS):
        worker = pool.take(is_swept)
        if worker is None:
            return None
        try:
            status, answer = worker.ask(kind, message, limit_s)
        except WorkerUnusable:
            pool.is_unusable = True
            pool.drop(worker)
            return None
        except WorkerEnded:
            # Of a fault of its own, or of somebody's who looked for memory: the next may have more luck.
            pool.drop(worker)
            if attempt + 1 == _ATTEMPTS:
                raise
        except BaseException:
            # It may never end, and after Ctrl-C nobody waits for it.
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


def _in_this_process(call: Callable[[str, Isa], T], ir_text: str, isa: Isa) -> T:
    before = time.thread_time()
    try:
        return call(ir_text, isa)
    finally:
        _pool_of_this_process().spent_s += time.thread_time() - before


def _processors() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _pool_of_this_process() -> _Pool:
    # A fork that Python does not know of runs no hooks.
    if _pool.process != os.getpid():
        _leave_to_parent()
    return _pool


def _leave_to_parent() -> None:
    """In the child of a fork: the workers are the parent's, and must see when that is gone."""
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
