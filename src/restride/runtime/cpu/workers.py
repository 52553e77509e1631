"""Teams of threads that run the parts of a region: native ones (`emit.thread_pool_ir`) or Python's.

A team is opened with a fixed number of workers, runs regions, and is closed. Its `run` has the signature (fn,
src, dst, params, parts, first, count) and can be called at any time: after closing, the caller works alone.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import os
import queue
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from restride import settings
from restride.emit.thread_pool_ir import POOL_ALIGNMENT, POOL_BYTES, pool_ir
from restride.runtime.cpu.native import NativeCall, native_call
from restride.targets import jit, store
from restride.targets.isa import host_isa

from ...errors import refuse
from ...schedule.machine import NOMINAL

# Upper limit in microseconds on the spin time of workers (RESTRIDE_SPIN_US).
_MOST_SPIN_US = 100_000
_CLOSE_POLL_S = 0.0005
_RUN_WORDS = 8
# Not blocked in workers: a fault must reach the handler that prints the traceback.
_FAULTS = frozenset({"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS"})

Run = NativeCall


class Team(Protocol):
    """The interface of a pool to its workers."""

    @property
    def run(self) -> Run:
        """Run parts first..first+count-1 of a kernel."""

    @property
    def native(self) -> NativeTeam | None:
        """The team itself if native code can open regions on it."""

    @property
    def prefault(self) -> int:
        """A kernel that touches the bytes of `dst` at the `src` offsets in `params`; 0 if there is none."""

    def close(self) -> None:
        """Stop the workers once their current region is done."""


def open_team(workers: int, *, spin: bool) -> Team:
    """Return a team of `workers` workers; of fewer, with one warning, if the system refuses threads."""
    if os.name == "posix":
        return NativeTeam(workers, spin=spin)
    return PythonTeam(workers)


class NativeTeam:
    """Workers made with pthread_create, which never need Python's lock. Spin between regions if `spin`."""

    # A class attribute, as modules are cleared at exit, this one before the pool that holds the team.
    _exiting = staticmethod(sys.is_finalizing)

    def __init__(self, workers: int, *, spin: bool) -> None:
        # Set first: a partially opened team is still disposed of.
        self._address, self._threads, self._pid = 0, list[int](), os.getpid()
        self._native = native = _native()
        self._address = _allocate()
        native.open(self._address, native.spins if spin else 0)
        self.run: Run = functools.partial(native.call, native.run, self._address)
        self.prefault = native.prefault
        with _signals_blocked():
            self._create(workers)
        native.join(self._address, len(self._threads))

    @property
    def native(self) -> NativeTeam:
        """The team itself."""
        return self

    @property
    def native_run(self) -> tuple[int, int]:
        """The address of `restride_pool_run`, and its first argument; valid as long as the team lives."""
        return self._native.run, self._address

    def _create(self, workers: int) -> None:
        for _ in range(workers):
            thread = _create_thread(self._native.worker, self._address)
            if thread is None:
                _tell_refused(len(self._threads) + 1, workers + 1)
                return
            self._threads.append(thread)

    def close(self) -> None:
        """Stop the workers once their current region is done, and wait until they are gone."""
        if self._pid != os.getpid():
            return  # made before a fork: there are no workers in this process
        while self._threads and not self._native.close(self._address):
            time.sleep(_CLOSE_POLL_S)
        while self._threads:
            _libc().pthread_join(self._threads.pop(), None)

    def __del__(self) -> None:
        # At interpreter exit workers still read the team's memory: it stays until the process has ended.
        if self._exiting() or not self._address or self._pid != os.getpid():
            return
        self.close()
        _libc().free(self._address)


class PythonTeam:
    """Workers for systems without POSIX threads: Python threads, which release Python's lock in each part."""

    prefault = 0

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._regions: queue.SimpleQueue[_Region | None] = queue.SimpleQueue()
        self._busy, self._closed = threading.Lock(), False
        for _ in range(workers):
            threading.Thread(target=_serve, args=(self._regions,), name="restride", daemon=True).start()

    @property
    def native(self) -> None:
        """None: native code cannot open regions."""

    def run(self, fn: int, src: int, dst: int, params: int, parts: int, first: int, count: int) -> None:
        """Run parts first..first+count-1; on the caller alone if the team is busy or closed."""
        region = _Region(functools.partial(_KERNEL(fn), src, dst, params), first, count, parts)
        if count < 2 or not self._busy.acquire(blocking=False):
            region.work()
            return
        try:
            for _ in range(min(self._workers, count - 1)):
                self._regions.put(region)
            region.finish()
        finally:
            self._busy.release()

    def close(self) -> None:
        """Stop the workers once their current region is done."""
        if self._closed:
            return
        self._closed = True
        self._busy.acquire()  # permanently: with a closed team the caller works alone
        for _ in range(self._workers):
            self._regions.put(None)

    def __del__(self) -> None:
        self.close()


_KERNEL = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, *[ctypes.c_int64] * 2)


class _Region:
    """Parts that several Python threads take from one iterator, each part once."""

    def __init__(self, kernel: Callable[[int, int], None], first: int, count: int, parts: int) -> None:
        self._kernel, self._parts = kernel, parts
        self._turns = iter(range(first, first + count))
        self._helpers, self._over = 0, False
        self._change = threading.Condition()

    def work(self) -> None:
        while (part := self._take()) is not None:
            self._kernel(part, self._parts)

    def _take(self) -> int | None:
        with self._change:
            return next(self._turns, None)

    def help(self) -> None:
        """Work, on a worker; not at all if the region is over."""
        with self._change:
            if self._over:
                return
            self._helpers += 1
        try:
            self.work()
        finally:
            with self._change:
                self._helpers -= 1
                self._change.notify_all()

    def finish(self) -> None:
        """Work, on the caller. Whatever is raised here, no helper is still working when it propagates."""
        interruption = _attempt(self.work)
        while not self._over or self._helpers:
            interruption = _attempt(self._leave) or interruption
        if interruption is not None:
            raise interruption

    def _leave(self) -> None:
        with self._change:
            self._over = True
            self._change.wait_for(lambda: not self._helpers)


def _attempt(step: Callable[[], None]) -> BaseException | None:
    try:
        step()
    except BaseException as error:
        return error
    return None


def _serve(regions: queue.SimpleQueue[_Region | None]) -> None:
    """Body of a Python worker. It does not reference the team, so that an unreferenced team is closed."""
    while (region := regions.get()) is not None:
        region.help()


@dataclass(frozen=True)
class _Native:
    """The pool's machine code. It stays loaded: workers may be running in it at exit."""

    library: jit.Library
    call: Run  # (fn, eight words), without Python's lock
    run: int
    worker: int
    prefault: int
    open: Callable[[int, int], None]
    join: Callable[[int, int], None]
    close: Callable[[int], int]
    spins: int


@functools.cache
def _native() -> _Native:
    isa = host_isa()
    pool = jit.load(store.object_code(pool_ir(isa.triple), isa))
    pointer, number = ctypes.c_void_p, ctypes.c_int32
    return _Native(
        library=pool,
        call=native_call(_RUN_WORDS),
        run=pool.address("restride_pool_run"),
        worker=pool.address("restride_pool_worker"),
        prefault=pool.address("restride_pool_prefault"),
        open=ctypes.CFUNCTYPE(None, pointer, number)(pool.address("restride_pool_open")),
        join=ctypes.CFUNCTYPE(None, pointer, number)(pool.address("restride_pool_join")),
        close=ctypes.CFUNCTYPE(number, pointer)(pool.address("restride_pool_close")),
        spins=_count_spins(ctypes.CFUNCTYPE(None, ctypes.c_int64)(pool.address("restride_pool_spin"))),
    )


def _count_spins(spin: Callable[[int], None]) -> int:
    """Return the iterations of the spin loop in the spin time: a pause takes 1 to 140 cycles, by model."""
    spin_us = settings.lookup_int("SPIN_US", NOMINAL.spin_us, low=0, high=_MOST_SPIN_US)
    turns = 500
    fastest = min(_time_ns(spin, turns) for _ in range(4))
    return min(turns * spin_us * 1000 // max(1, fastest), 2**31 - 1)


def _time_ns(call: Callable[[int], None], argument: int) -> int:
    start = time.perf_counter_ns()
    call(argument)
    return time.perf_counter_ns() - start


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None)
    pointer = ctypes.c_void_p
    libc.pthread_create.argtypes = (pointer, pointer, pointer, pointer)
    libc.pthread_join.argtypes = (pointer, pointer)
    libc.posix_memalign.argtypes = (pointer, ctypes.c_size_t, ctypes.c_size_t)
    libc.free.argtypes, libc.free.restype = (pointer,), None
    return libc


def _allocate() -> int:
    """Return the address of zeroed memory for a team, which no collector takes away from its workers."""
    address = ctypes.c_void_p()
    if _libc().posix_memalign(ctypes.byref(address), POOL_ALIGNMENT, POOL_BYTES) or not address.value:
        raise refuse("RS-D01:no-memory-thread")
    ctypes.memset(address.value, 0, POOL_BYTES)
    return address.value


def _create_thread(function: int, argument: int) -> int | None:
    """Return the pthread_t of a new native thread, None if the system refuses one."""
    thread = ctypes.c_void_p()
    if _libc().pthread_create(ctypes.byref(thread), None, function, argument):
        return None
    return thread.value or 0


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Block signals for threads made inside: handlers and Ctrl-C stay with Python's threads."""
    faults = {getattr(signal, name) for name in _FAULTS if hasattr(signal, name)}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        # Inside: a signal that came just before is handled here, and its handler may raise.
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - faults)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_REFUSALS = itertools.count()


def _tell_refused(got: int, wanted: int) -> None:
    if next(_REFUSALS) == 0:
        text = f"the system refused more threads: running with {got} of {wanted}"
        warnings.warn(text, RuntimeWarning, stacklevel=2)
