"""New memory for results, with a pool from which large results are allocated and to which they return.

Fresh memory from the system costs more than the operation on it: each page is found and cleared when it is
first written. So blocks of freed results are kept here for reuse. A block returns to the pool when nothing
refers to its array any more: the result itself, a view, or a tensor over its bytes.

No code here waits for a lock: it may run in any thread, in a signal handler, in a collector's callback, and
while it is itself running. The end of an array only appends to a deque, in C. Everything else uses atomic
steps of Python: whoever pops a block from a deque, or removes it from a set, owns it.
"""

from __future__ import annotations

import _thread
import contextlib
import os
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..errors import refuse
from ..loading import load_whole
from ..schedule.machine import LINE, PAGE
from ..settings import lookup_int
from .alloc import Array, Buffer, NumpyType, address_of
from .free_memory import free_memory

if TYPE_CHECKING:
    from .result_block import ArrayFinalizer, ResultBlock

# Larger results come from the pool; smaller ones are recycled as well by Python's own allocator.
POOLED_BYTES = 1 << 18
_MOST_IDLE_BYTES = 4 << 30
# After these times in seconds, the system may take idle blocks, and they are returned to it.
_SPARE_S, _IDLE_S = 1.0, 10.0
# Intervals at which the keeper checks while blocks are idle, and while all are in use.
_TICK_S, _WAIT_S = 1.0, 5.0
# If less than this part of all memory is free, nothing idles; the check precedes allocations of large blocks.
_LEAST_FREE = 1 / 16
_LARGE = 16 << 20
_BYTE = np.dtype(np.uint8)


class ResultPool:
    """Idle blocks for results, at most `limit` bytes; any thread can request one at any time."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.idle_bytes = 0
        self._idle: dict[int, deque[ResultBlock]] = {}
        self._finalizers: set[ArrayFinalizer] = set()
        self._ended: deque[ArrayFinalizer] = deque()
        self._tell_end = self._ended.append
        self._era = 0
        # The thread that pops the one entry is the keeper.
        self._keeper = deque([True])
        load_whole("restride.runtime.result_block")
        from .result_block import ArrayFinalizer, new_blocks

        self._new_blocks, self._new_finalizer = new_blocks, ArrayFinalizer

    def take(self, nbytes: int) -> tuple[int, Array]:
        """Return the address of `nbytes` bytes at a page, and an array that begins with them; content
        undefined.

        Their block returns when nobody refers to that array. Raises MemoryError if the system does not have
        enough, idle blocks included.
        """
        return self.take_block(block_size(nbytes))

    def take_block(self, size: int) -> tuple[int, Array]:
        """As `take`, for a size returned by `block_size`."""
        block = self._collect(size) if self._ended else None
        if block is None:
            try:
                block = self._idle[size].pop()
                self.idle_bytes -= size
            except (KeyError, IndexError):
                block = self._grown(size)
        # Its base is not an array, so it is the base of all its views.
        array: Array = np.ndarray((size,), _BYTE, block.bytes)  # type: ignore[arg-type]  # it has a buffer
        finalizer = self._new_finalizer(array, self._tell_end)
        finalizer.block = block
        self._finalizers.add(finalizer)
        if self._keeper:
            self._start_keeper()
        return block.address, array

    def trim(self, limit: int = 0) -> int:
        """Return idle blocks to the system until at most `limit` bytes are idle; returns the bytes freed."""
        self._collect()
        return self._shrink(limit)

    def _shrink(self, limit: int) -> int:
        nbytes = 0
        while self.idle_bytes > limit and (block := self._oldest()) is not None:
            block.discard()
            nbytes += block.size
        return nbytes

    def begin_era(self) -> None:
        """Recycle only new blocks from now on: a fork shares all others, and each write would copy."""
        self._era += 1
        self.trim()

    def forget_threads(self) -> None:
        """Adapt to the child of a fork, which has no other threads."""
        self._keeper = deque([True])

    # --- returning blocks -----------------------------------------------------------------------------------

    def _collect(self, size: int = 0) -> ResultBlock | None:
        """Put back the blocks of arrays that have died, but return the last one of `size`."""
        match = None
        while self._ended:
            try:
                finalizer = self._ended.popleft()
            except IndexError:  # another thread took it
                break
            block = self._reclaimed(finalizer)
            if block is not None and block.size == size:
                match, block = block, match
            if block is not None:
                self._put_back(block)
        return match

    def _collect_lost(self) -> None:
        """Collect likewise where a notification was interrupted before the block was put back."""
        for finalizer in self._finalizers.copy():
            if finalizer() is None and (block := self._reclaimed(finalizer)) is not None:
                self._put_back(block)

    def _reclaimed(self, finalizer: ArrayFinalizer) -> ResultBlock | None:
        """Return the block of a dead array; None if another thread has it, or it is not recycled."""
        try:
            self._finalizers.remove(finalizer)
        except KeyError:
            return None
        block = finalizer.block
        if block.era == self._era and block.size <= self.limit:
            return block
        block.discard()
        return None

    def _put_back(self, block: ResultBlock) -> None:
        block.is_spare = False
        block.since = time.monotonic()
        waiting = self._idle.get(block.size)
        if waiting is None:
            waiting = self._idle.setdefault(block.size, deque())
        waiting.append(block)
        self.idle_bytes += block.size
        if self.idle_bytes > self.limit:
            self._shrink(self.limit)

    # --- releasing blocks -----------------------------------------------------------------------------------

    def _oldest(self, before: float = float("inf")) -> ResultBlock | None:
        """Remove and return the block that is idle longest; None if none has been idle since `before`."""
        # Blocks of a size are in the order of time, with brief exceptions that do not matter here.
        firsts = []
        for size, waiting in self._idle.copy().items():
            with contextlib.suppress(IndexError):  # there is none, or another thread took it
                firsts.append((waiting[0].since, size))
        since, size = min(firsts, default=(before, 0))
        with contextlib.suppress(IndexError):
            if since < before:
                block = self._idle[size].popleft()
                self.idle_bytes -= size
                return block
        return None

    def _grown(self, size: int) -> ResultBlock:
        if size >= _LARGE and self.idle_bytes:
            self._yield_to_others(size)
        try:
            block, *others = self._new_blocks(size, self._era, self.limit)
        except MemoryError:
            self.trim()
            block, *others = self._new_blocks(size, self._era, size)
        for other in others:
            self._put_back(other)
        return block

    def _yield_to_others(self, nbytes: int = 0) -> None:
        """Release idle blocks if memory is short, or will be with `nbytes` more."""
        total, free = free_memory()
        if free - nbytes < total * _LEAST_FREE:
            self.trim()

    # --- the keeper -----------------------------------------------------------------------------------------

    def _start_keeper(self) -> None:
        """Start a thread that releases idle blocks, and ends when none is idle or in use."""
        turn = self._keeper
        if not _popped(turn):
            return
        try:
            # Not one of `threading`: starting those waits, which a signal handler must not do.
            _thread.start_new_thread(self._keep, (turn,))
        except RuntimeError:  # no more threads, or the interpreter is shutting down
            turn.append(True)

    def _keep(self, turn: deque[bool]) -> None:
        while self._has_work():
            time.sleep(_TICK_S if self._has_idle() else _WAIT_S)
            with contextlib.suppress(MemoryError):
                self._look_after(time.monotonic())
            if self._has_work():
                continue
            turn.append(True)
            # A concurrent caller may have relied on this keeper meanwhile.
            if not self._has_work() or not _popped(turn):
                return

    def _has_work(self) -> bool:
        return bool(self._finalizers) or self._has_idle()

    def _has_idle(self) -> bool:
        return any(self._idle.copy().values())

    def _look_after(self, now: float) -> None:
        self._collect()
        self._collect_lost()
        while (block := self._oldest(now - _IDLE_S)) is not None:
            block.discard()
        for waiting in self._idle.copy().values():
            self._spare(waiting, now - _SPARE_S)
        if self.idle_bytes:
            self._yield_to_others()
        # Concurrent updates of the count can be lost.
        self.idle_bytes = sum(size * len(waiting) for size, waiting in self._idle.copy().items())

    def _spare(self, waiting: deque[ResultBlock], before: float) -> None:
        """Let the system take the pages of blocks that have been idle since `before`."""
        for _ in range(len(waiting)):
            try:
                block = waiting.popleft()
            except IndexError:  # other threads took blocks
                return
            if block.since < before and not block.is_spare:
                block.release_lazily()
            waiting.append(block)


def _popped(turn: deque[bool]) -> bool:
    """True if there was an entry to pop, which another thread may have taken."""
    with contextlib.suppress(IndexError):
        return turn.pop()
    return False


_pools: dict[str, ResultPool] = {}


def result_pool() -> ResultPool:
    """Return the pool of this process; up to RESTRIDE_RESULT_POOL bytes can be idle in it.

    Raises InvalidArguments if that is not a number of bytes.
    """
    pool = _pools.get("results")
    if pool is None:
        usual = min(free_memory().total // 4, _MOST_IDLE_BYTES)
        limit = lookup_int("RESULT_POOL", usual, low=0, high=2**63 - 1)
        pool = _pools.setdefault("results", ResultPool(limit))
    return pool


def empty_cache() -> int:
    """Return the memory of freed results kept for reuse to the system; returns the number of bytes.

    This also happens automatically: after ten seconds, and if memory runs short.
    """
    for release in _owners:
        release()
    return sum(pool.trim() for pool in _pools.values())


_owners: list[Callable[[], None]] = []


def on_empty(release: Callable[[], None]) -> None:
    """Register `release` to be called first by `empty_cache`, to release memory held between calls."""
    _owners.append(release)


trim = empty_cache  # the name in pickles of earlier versions


def allocate(nbytes: int) -> Buffer:
    """Allocate `nbytes` bytes of undefined content, aligned to a cache line, or to a page if they are many.

    Raises OutOfMemory if the system does not have enough.
    """
    if nbytes >= POOLED_BYTES:
        address, lent = take_bytes(nbytes)
        return Buffer(address, nbytes, False, lent)
    try:
        small = np.empty(nbytes + LINE, np.uint8)
    except MemoryError:
        raise refuse("RS-D01:cannot-allocate-bytes", nbytes=nbytes) from None
    start = address_of(small)
    return Buffer(start + -start % LINE, nbytes, False, small)


def take_bytes(nbytes: int) -> tuple[int, Array]:
    """Return the address of `nbytes` bytes of the pool, at a page, valid while the array or a view of it
    lives.

    Raises OutOfMemory if the system does not have enough.
    """
    try:
        return result_pool().take(nbytes)
    except MemoryError:
        raise refuse("RS-D01:cannot-allocate-bytes", nbytes=nbytes) from None


def block_size(nbytes: int) -> int:
    """Return the size of blocks for `nbytes` bytes: whole pages, eight sizes per power of two."""
    step = max(1 << max((nbytes - 1).bit_length() - 4, 0), PAGE)
    return -(-nbytes // step) * step


def new_array(
    size: int, shape: tuple[int, ...], dtype: NumpyType, offset: int, strides: tuple[int, ...]
) -> tuple[int, Array]:
    """Return the address of a block of the pool, of a size of `block_size`, and an array at `offset` bytes in
    it.

    Raises OutOfMemory if the system does not have enough.
    """
    pool = _pools.get("results") or result_pool()
    try:
        address, block = pool.take_block(size)
    except MemoryError:
        raise refuse("RS-D01:cannot-allocate-bytes", nbytes=size) from None
    return address, np.ndarray(shape, dtype, block, offset, strides)


def new_buffer(size: int, nbytes: int) -> Buffer:
    """Return the first `nbytes` of a block of the pool, of a size of `block_size`.

    Raises OutOfMemory if the system does not have enough.
    """
    pool = _pools.get("results") or result_pool()
    try:
        address, block = pool.take_block(size)
    except MemoryError:
        raise refuse("RS-D01:cannot-allocate-bytes", nbytes=size) from None
    return Buffer(address, nbytes, False, block)


def _before_fork() -> None:
    for pool in _pools.values():
        pool.begin_era()


def _after_fork_in_child() -> None:
    for pool in _pools.values():
        pool.forget_threads()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_child=_after_fork_in_child)
