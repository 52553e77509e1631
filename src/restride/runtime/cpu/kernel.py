"""Kernels of the CPU: cached machine code, run on one thread or on all of the pool's."""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from ...emit.entry import ENTRY, WHOLE
from ...loading import load_whole
from ...schedule.machine import NOMINAL
from ..alloc import Array, address_of
from ..cache import LruCache, cache_level
from .huge_pages import page_offsets
from .thread_pool import default_pool

if TYPE_CHECKING:
    from ...targets.lowered import Lowered

# Larger jobs are cut into pieces, between which Python handles signals.
SHORT_BYTES = 1 << 26
# The same for repeats, whose turns work in the caches: 7 ms of products. Pieces of 2 ms cost 2 to 6 percent.
REPEAT_BYTES = 1 << 28


class KernelCode:
    """Machine code in this process, which work of several sizes can share.

    `address` runs a part and `whole` all; `key`: its key in the cache on disk; `kind`: the name of such
    kernels.
    """

    __slots__ = ("_library", "address", "key", "kind", "whole")

    def __init__(self, lowered: Lowered) -> None:
        # Linking and the disk cache are loaded with the first kernel.
        load_whole("restride.targets.objects")
        from ...targets.objects import load_kernel

        self.kind = lowered.kind
        self._library, self.key = load_kernel(lowered)
        self.address = self._library.address(ENTRY)
        self.whole = self._library.address(WHOLE)


class Kernel:
    """Code, and work of one size. Holds no state of a run: threads can share it.

    `numbers`: parameters that code for several sizes reads at its source; their address is 0 without any.
    `inner`: kernels that it calls, by the positions of their two addresses among the numbers.
    """

    __slots__ = (
        "_nests",
        "_pages",
        "_words",
        "call",
        "code",
        "inner",
        "numbers",
        "numbers_address",
        "steps",
        "work_bytes",
    )

    def __init__(
        self, code: KernelCode, lowered: Lowered, work_bytes: int, inner: Mapping[int, KernelCode]
    ) -> None:
        # Native calls are loaded with the first kernel.
        load_whole("restride.runtime.cpu.native")
        from .native import native_call

        self.code, self.steps, self.work_bytes = code, lowered.steps, work_bytes
        self._nests = lowered.nests
        self._pages: Array | None = None
        self.inner = inner
        numbers = list(lowered.numbers)
        for at, called in inner.items():
            numbers[at : at + 2] = called.address, called.whole
        self.numbers = tuple(numbers)
        self._words = (ctypes.c_int64 * len(self.numbers))(*self.numbers)
        self.numbers_address = ctypes.addressof(self._words) if self.numbers else 0
        call = native_call(3, keep_lock=work_bytes < NOMINAL.lock_bytes)
        self.call: Callable[[int, int, int], None] = functools.partial(call, code.whole)

    @property
    def is_small(self) -> bool:
        """True if the work is never worth a second thread."""
        return is_small(self.steps, self.work_bytes)

    def run(self, src: int, dst: int, params: int) -> None:
        """Run on checked addresses, with as many threads as the work is worth."""
        self.run_in(src, dst, params, self.parts())

    def parts(self) -> int:
        """Return the best number of parts of a run; 1 if one thread does it all."""
        threads = default_pool().threads
        if self.is_small or (threads == 1 and self.work_bytes < NOMINAL.part_bytes):
            return 1
        return min(self.steps, max(NOMINAL.parts_per_thread * threads, self.work_bytes // NOMINAL.part_bytes))

    def run_in(self, src: int, dst: int, params: int, parts: int) -> None:
        """Run in this many parts."""
        if parts == 1:
            self.call(src, dst, params)
        elif self.work_bytes < SHORT_BYTES:
            default_pool().run(self.code.address, src, dst, params, parts)
        else:
            self._prefault(dst)
            default_pool().run_long(self.code.address, src, dst, params, parts)

    def _prefault(self, dst: int) -> None:
        """Prefault the destination, so that no part of a long run waits for many pages."""
        pages = self._pages
        if pages is None:
            pages = self._pages = page_offsets(self._nests)
        # The local name keeps them alive: another thread may have replaced the attribute.
        default_pool().prefault(dst, address_of(pages), len(pages))


def is_small(steps: int, work_bytes: int) -> bool:
    """True if work is never worth a second thread."""
    return steps == 1 or work_bytes < NOMINAL.alone_bytes


_kernels: LruCache[KernelCode] = cache_level("kernels")


def kernel_of(
    lowered: Lowered, work_bytes: int, inner: Mapping[int, KernelCode] = MappingProxyType({})
) -> Kernel:
    """Return the kernel of lowered loops, with code from the cache or compiled now."""
    code, _ = _kernels.get_or_make(lowered.key, lambda: KernelCode(lowered))
    return Kernel(code, lowered, work_bytes, inner)


# --- parameters of kernels ----------------------------------------------------------------------------------


class KernelWords:
    """The words of a computation, in the layout of kernels: addresses of operands, then scalars as doubles.

    Keep it alive while a kernel may run; the caller keeps the memory at the addresses alive.
    """

    __slots__ = ("_slots", "address")

    def __init__(self, scalars: Sequence[float] = (), operands: Sequence[int] = ()) -> None:
        packed = struct.pack(f"={len(operands)}Q{len(scalars)}d", *operands, *scalars)
        self._slots = (ctypes.c_uint64 * max(len(packed) // 8, 1)).from_buffer_copy(packed or bytes(8))
        self.address = ctypes.addressof(self._slots)


@functools.cache
def packer(operands: int, scalars: int) -> Callable[..., bytes]:
    """Return a function that packs addresses and then scalars as `KernelWords` does, but several times
    faster.

    `packed_address` returns their address, valid as long as the result lives.
    """
    return struct.Struct(f"={operands}Q{scalars}d").pack


def _packed_address(packed: bytes) -> int:
    return id(packed) + _BYTES_AT


# CPython keeps the bytes of a bytes object, and a zero after them, at its end.
_BYTES_AT = bytes.__basicsize__ - 1


def _is_as_expected() -> bool:
    if sys.implementation.name != "cpython":
        return False
    probe = bytes(range(64))
    return ctypes.string_at(_packed_address(probe), len(probe)) == probe


def _address_by_ctypes(packed: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(packed), ctypes.c_void_p).value or 0


packed_address: Callable[[bytes], int] = _packed_address if _is_as_expected() else _address_by_ctypes
