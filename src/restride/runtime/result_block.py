"""Blocks of memory directly from the system, reused for results."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import weakref

from ..schedule.machine import HUGE_PAGE, PAGE

# Blocks below the first size share a region of the second: a huge page is found and cleared in the time of
# forty small ones (measured), and no part of the region is allocated before it is written.
_SHARING_BYTES, _REGION_BYTES = 8 << 20, 16 << 20
_ADVICE_HUGE = getattr(mmap, "MADV_HUGEPAGE", None)
_ADVICE_FREE = getattr(mmap, "MADV_FREE", None)
_ADVICE_DROP = getattr(mmap, "MADV_DONTNEED", None)
_ANONYMOUS = getattr(mmap, "MAP_ANONYMOUS", 0)
_PRIVATE = getattr(mmap, "MAP_PRIVATE", 0)


class ArrayFinalizer(weakref.ref[object]):
    """Signals that a lent array has died, by a callback in C, without running Python code."""

    __slots__ = ("block",)
    block: ResultBlock
    # Identity hash: arrays are not hashable, and dead references are all equal.
    __hash__ = object.__hash__
    __eq__ = object.__eq__


class ResultBlock:
    """`size` bytes from `address` on, content undefined. A region is freed with the last reference to its
    blocks.

    `bytes` are all of them, for arrays. `era`: of the pool, at allocation from the system; `since`: when they
    were last returned; `is_spare`: the system may have taken the pages since.
    """

    __slots__ = ("_offset", "_region", "address", "bytes", "era", "is_spare", "since", "size")

    def __init__(self, region: MappedRegion, offset: int, size: int, era: int) -> None:
        self._region, self._offset = region, offset
        self.address, self.size, self.era = region.start + offset, size, era
        self.since, self.is_spare = 0.0, False
        self.bytes = region.bytes(offset, size)

    def release_lazily(self) -> None:
        """Let the system take the pages if it needs them; later writes are kept."""
        self.is_spare = True
        self._region.advise(_ADVICE_FREE, self._offset, self.size)

    def discard(self) -> None:
        """Return the pages to the system, even if other blocks keep the region."""
        if self.size < _SHARING_BYTES:
            self._region.advise(_ADVICE_DROP, self._offset, self.size)


class MappedRegion:
    """Private memory of this process, on huge pages if the system has them; `start`: the first byte of one.

    Raises MemoryError if the system does not have enough.
    """

    __slots__ = ("_before", "_mapping", "start")

    def __init__(self, nbytes: int) -> None:
        # Untouched pages do not exist: mapping more than is used costs nothing.
        self._mapping = _mapped(nbytes + HUGE_PAGE - PAGE)
        if _ADVICE_HUGE is not None:
            with contextlib.suppress(OSError):
                self._mapping.madvise(_ADVICE_HUGE)
        first = ctypes.addressof(ctypes.c_ubyte.from_buffer(self._mapping))
        self._before = -first % HUGE_PAGE
        self.start = first + self._before

    def bytes(self, offset: int, nbytes: int) -> ctypes.Array[ctypes.c_ubyte]:
        """Return some of the bytes, which keep the region alive."""
        return (ctypes.c_ubyte * nbytes).from_buffer(self._mapping, self._before + offset)

    def advise(self, advice: int | None, offset: int, nbytes: int) -> None:
        """Advise the system about some pages; without support for the advice, the region is only slower."""
        if advice is not None:
            with contextlib.suppress(OSError):
                self._mapping.madvise(advice, self._before + offset, nbytes)


def new_blocks(size: int, era: int, most: int) -> list[ResultBlock]:
    """Allocate blocks of a size of `block_size`: one, or if they are small several, up to `most` bytes.

    Raises MemoryError if the system does not have enough.
    """
    count = max(min(_REGION_BYTES, most) // size, 1) if size < _SHARING_BYTES else 1
    region = MappedRegion(count * size)
    return [ResultBlock(region, i * size, size, era) for i in range(count)]


def _mapped(nbytes: int) -> mmap.mmap:
    try:
        return mmap.mmap(-1, nbytes, flags=_PRIVATE | _ANONYMOUS) if _PRIVATE else mmap.mmap(-1, nbytes)
    except (OSError, OverflowError, ValueError):
        raise MemoryError from None
