"""New memory for results, and a pool that large results come from and go back to when they die.

Memory that is fresh from the system costs more than what is done with it: each page is found and cleared when
it is first written. So the blocks of dead results wait here for new ones. A block goes back to the pool when
nothing refers to its array any more, whether the result itself, a view, or a tensor over its bytes.

No code here waits for a lock: it may run in any thread, in a handler of a signal, in a collector's callback,
and while it runs itself. The end of an array only appends to a deque, in C. All else takes single steps that
Python never divides: who pops a block from a deque, or removes it from a set, is the one who has it.
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

# Results from here on come from the pool; smaller ones Python's own allocator recycles as well.
POOLED_BYTES = 1 << 18
_MOST_IDLE_BYTES = 4 << 30
# Idle blocks are the system's to take after so many seconds, and given back after so many.
_SPARE_S, _IDLE_S = 1.0, 10.0
# The keeper looks so often while blocks are idle, and so often while all are in use.
_TICK_S, _WAIT_S = 1.0, 5.0
# Where less than this part of all memory is free, nothing idles; larger blocks ask before they are new.
_LEAST_FREE = 1 / 16
_LARGE = 16 << 20
_BYTE = np.dtype(np.uint8)


class ResultPool:
    """Blocks that wait for results, at most `limit` bytes of them; any thread may ask for one at any time."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.idle_bytes = 0
        self._idle: dict[int, deque[ResultBlock]] = {}
        self._finalizers: set[ArrayFinalizer] = set()
        self._ended: deque[ArrayFinalizer] = deque()
        self._tell_end = self._ended.append
        self._era = 0
        # Who pops the one entry is the keeper.
        self._keeper = deque([True])
        load_whole("restride.runtime.result_block")
        from .result_block import ArrayFinalizer, new_blocks

        self._new_blocks, self._new_finalizer = new_blocks, ArrayFinalizer

    def take(self, nbytes: int) -> tuple[int, Array]:
        """The address of `nbytes` bytes at a page, and an array that begins with them; content undefined.

        Their block comes back when nobody refers to that array. Raises MemoryError where the system has not
        as much, idle blocks included.
        """
        return self.take_block(block_size(nbytes))

    def take_block(self, size: int) -> tuple[int, Array]:
        """As `take`, of a size that `block_size` gives."""
        block = self._collect(size) if self._ended else None
        if block is None:
            try:
                block = self._idle[size].pop()
                self.idle_bytes -= size
            except (KeyError, IndexError):
                block = self._grown(size)
        # Its base is no array: so it is the base of all its views.
        array: Array = np.ndarray((size,), _BYTE, block.bytes)  # type: ignore[arg-type]  # it has a buffer
        finalizer = self._new_finalizer(array, self._tell_end)
        finalizer.block = block
        self._finalizers.add(finalizer)
        if self._keeper:
            self._start_keeper()
        return block.address, array

    def trim(self, limit: int = 0) -> int:
        """Give idle blocks back to the system until no more than `limit` bytes idle; how many bytes went."""
        self._collect()
        return self._shrink(limit)

    def _shrink(self, limit: int) -> int:
        nbytes = 0
        while self.idle_bytes > limit and (block := self._oldest()) is not None:
            block.discard()
            nbytes += block.size
        return nbytes

    def begin_era(self) -> None:
        """From now on only new blocks are recycled: a fork shares all others, and each write would copy."""
        self._era += 1
        self.trim()

    def forget_threads(self) -> None:
        """In the child of a fork: no other thread is here."""
        self._keeper = deque([True])

    # --- blocks that come back ------------------------------------------------------------------------------

    def _collect(self, size: int = 0) -> ResultBlock | None:
        """Put back the blocks of arrays that have died, but for the last one of `size`."""
        match = None
        while self._ended:
            try:
                finalizer = self._ended.popleft()
            except IndexError:  # another thread was first
                break
            block = self._reclaimed(finalizer)
            if block is not None and block.size == size:
                match, block = block, match
            if block is not None:
                self._put_back(block)
        return match

    def _collect_lost(self) -> None:
        """The same where what told of an end was interrupted before the block was put back."""
        for finalizer in self._finalizers.copy():
            if finalizer() is None and (block := self._reclaimed(finalizer)) is not None:
                self._put_back(block)

    def _reclaimed(self, finalizer: ArrayFinalizer) -> ResultBlock | None:
        """The block of an array that has died; None where another thread has it, or it is not recycled."""
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

    # --- blocks that go -------------------------------------------------------------------------------------

    def _oldest(self, before: float = float("inf")) -> ResultBlock | None:
        """The block that has waited longest, out of the pool; None where none has waited since `before`."""
        # Those that wait for a size are in the order of time but for a moment, which does not matter here.
        firsts = []
        for size, waiting in self._idle.copy().items():
            with contextlib.suppress(IndexError):  # there is none, or another thread is first
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
        """Give back what idles where memory runs short, or will with as many bytes more."""
        total, free = free_memory()
        if free - nbytes < total * _LEAST_FREE:
            self.trim()

    # --- the keeper -----------------------------------------------------------------------------------------

    def _start_keeper(self) -> None:
        """A thread that gives idle blocks back, and ends when none is idle or in use."""
        turn = self._keeper
        if not _popped(turn):
            return
        try:
            # Not one of `threading`: to start one of those waits, and a handler of a signal must not.
            _thread.start_new_thread(self._keep, (turn,))
        except RuntimeError:  # no more threads, or the interpreter is about to end
            turn.append(True)

    def _keep(self, turn: deque[bool]) -> None:
        while self._has_work():
            time.sleep(_TICK_S if self._has_idle() else _WAIT_S)
            with contextlib.suppress(MemoryError):
                self._look_after(time.monotonic())
            if self._has_work():
                continue
            turn.append(True)
            # Who came in between may have found a keeper still.
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
        # Threads that count at the same time may lose a step.
        self.idle_bytes = sum(size * len(waiting) for size, waiting in self._idle.copy().items())

    def _spare(self, waiting: deque[ResultBlock], before: float) -> None:
        """Leave the pages of blocks that have waited since `before` to the system, where it wants them."""
        for _ in range(len(waiting)):
            try:
                block = waiting.popleft()
            except IndexError:  # others take blocks meanwhile
                return
            if block.since < before and not block.is_spare:
                block.release_lazily()
            waiting.append(block)


def _popped(turn: deque[bool]) -> bool:
    """True where there was an entry to pop; another thread may have been first."""
    with contextlib.suppress(IndexError):
        return turn.pop()
    return False


_pools: dict[str, ResultPool] = {}


def result_pool() -> ResultPool:
    """The pool of this process; RESTRIDE_RESULT_POOL bytes may wait in it.

    Raises InvalidArguments where that is no number of bytes.
    """
    pool = _pools.get("results")
    if pool is None:
        usual = min(free_memory().total // 4, _MOST_IDLE_BYTES)
        limit = lookup_int("RESULT_POOL", usual, low=0, high=2**63 - 1)
        pool = _pools.setdefault("results", ResultPool(limit))
    return pool


def empty_cache() -> int:
    """Give the memory of dead results that waits for new ones back to the system; how many bytes that was.

    That happens by itself, too: after ten seconds, and where memory runs short.
    """
    for release in _owners:
        release()
    return sum(pool.trim() for pool in _pools.values())


_owners: list[Callable[[], None]] = []


def on_empty(release: Callable[[], None]) -> None:
    """Let `empty_cache` call `release` first: what holds memory between calls then lets it go."""
    _owners.append(release)


trim = empty_cache  # by which earlier versions have pickled it


def allocate(nbytes: int) -> Buffer:
    """`nbytes` bytes of undefined content, aligned to a cache line, where they are many to a page.

    Raises OutOfMemory where the system has not as much.
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
    """The address of `nbytes` bytes of the pool, at a page, there while the array or a view of it lives.

    Raises OutOfMemory where the system has not as much.
    """
    try:
        return result_pool().take(nbytes)
    except MemoryError:
        raise refuse("RS-D01:cannot-allocate-bytes", nbytes=nbytes) from None


def block_size(nbytes: int) -> int:
    """The size of the blocks for so many bytes: whole pages, eight sizes to each power of two."""
    step = max(1 << max((nbytes - 1).bit_length() - 4, 0), PAGE)
    return -(-nbytes // step) * step


def new_array(
    size: int, shape: tuple[int, ...], dtype: NumpyType, offset: int, strides: tuple[int, ...]
) -> tuple[int, Array]:
    """The address of a block of the pool, of a size of `block_size`, and an array `offset` bytes on in it.

    Raises OutOfMemory where the system has not as much.
    """
    pool = _pools.get("results") or result_pool()
    try:
        address, block = pool.take_block(size)
    except MemoryError:
        raise refuse("RS-D01:cannot-allocate-bytes", nbytes=size) from None
    return address, np.ndarray(shape, dtype, block, offset, strides)


def new_buffer(size: int, nbytes: int) -> Buffer:
    """The first `nbytes` of a block of the pool, of a size of `block_size`.

    Raises OutOfMemory where the system has not as much.
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
