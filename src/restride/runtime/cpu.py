"""The CPU device: kernels compiled, kept and called, on one thread or on all of the pool's."""

from __future__ import annotations

import ctypes
import functools
import struct
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from ..emit.entry import ENTRY, WHOLE
from ..loading import load_whole
from ..plan.machine import LINE
from ..plan.nest import LoopNest
from ..targets.compilable import Compilable
from ..targets.isa import CacheSizes, Isa, host_caches, host_isa
from .alloc import Array, address_of
from .cache import LruCache, shared_cache
from .huge_pages import page_offsets
from .pool import default_pool

if TYPE_CHECKING:
    from ..plan.staged import Chain
    from ..targets.cpu import Lowered

# Below this many bytes a second thread costs more than it brings (measured: a region takes 2 to 5 us).
_ALONE_BYTES = 1 << 18
# One part moves about this much, so that Ctrl-C is never far.
_PART_BYTES = 1 << 22
_PARTS_PER_THREAD = 4
# Jobs from here on are cut in pieces between which Python sees signals.
_SHORT_BYTES = 1 << 26

# Below this many bytes (a few microseconds) to let go of Python's lock costs more than it gives others.
_LOCKED_BYTES = 1 << 16


class Work(Compilable, Protocol):
    """What was lowered, and how finely threads can share it."""

    @property
    def kind(self) -> str:
        """The name of such kernels."""

    @property
    def steps(self) -> int:
        """The finest pieces that threads can share."""

    @property
    def nests(self) -> tuple[LoopNest, ...]:
        """The nests that write the destination here and there in it; none where it is written in order."""


class Kernel:
    """Machine code of one nest in this process. Holds no state of a run: threads may share it."""

    __slots__ = ("_library", "_pages", "address", "call", "lowered", "moved_bytes", "whole")

    def __init__(self, lowered: Work, moved_bytes: int) -> None:
        # Linking, the store and native calls are loaded with the first kernel.
        load_whole("restride.targets.objects")
        load_whole("restride.runtime.native")
        from ..targets.objects import load_kernel
        from .native import native_call

        self.lowered = lowered
        self.moved_bytes = moved_bytes
        self._library = load_kernel(lowered, lowered.kind)
        self.address = self._library.address(ENTRY)
        self.whole = self._library.address(WHOLE)
        call = native_call(3, keep_lock=moved_bytes < _LOCKED_BYTES)
        self.call: Callable[[int, int, int], None] = functools.partial(call, self.whole)
        self._pages: Array | None = None

    @property
    def is_small(self) -> bool:
        """True where the work is never worth a second thread."""
        return _is_small(self.lowered, self.moved_bytes)

    def run(self, src: int, dst: int, params: int) -> None:
        """Run on addresses that the caller has checked, with as many threads as the work is worth."""
        self.run_in(src, dst, params, self.parts())

    def parts(self) -> int:
        """In how many parts a run is best done; 1 where one thread does it all."""
        threads = default_pool().threads
        if self.is_small or (threads == 1 and self.moved_bytes < _PART_BYTES):
            return 1
        return min(self.lowered.steps, max(_PARTS_PER_THREAD * threads, self.moved_bytes // _PART_BYTES))

    def run_in(self, src: int, dst: int, params: int, parts: int) -> None:
        """Run in so many parts."""
        if parts == 1:
            self.call(src, dst, params)
        elif self.moved_bytes < _SHORT_BYTES:
            default_pool().run(self.address, src, dst, params, parts)
        else:
            self._prefault(dst)
            default_pool().run_long(self.address, src, dst, params, parts)

    def _prefault(self, dst: int) -> None:
        """Ask for the pages of the destination, so that no part of a long run waits for many of them."""
        if self._pages is None:
            self._pages = page_offsets(self.lowered.nests)
        default_pool().prefault(dst, address_of(self._pages), len(self._pages))


def _is_small(lowered: Work, moved_bytes: int) -> bool:
    return lowered.steps == 1 or moved_bytes < _ALONE_BYTES


_kernels: LruCache[Kernel] = cast("LruCache[Kernel]", shared_cache("kernels"))


def kernel_of(lowered: Work, moved_bytes: int) -> Kernel:
    """The kernel of what was lowered, from the cache or compiled now."""
    kernel, _ = _kernels.get_or_make(lowered.key, lambda: Kernel(lowered, moved_bytes))
    return kernel


class Program:
    """A nest planned for this CPU. Immutable but for kernels, compiled when first wanted.

    `name` and `why` say which kernel runs and for what reason; an empty nest compiles to nothing.
    """

    __slots__ = (
        "_aligned",
        "_chain",
        "_moved_bytes",
        "_unaligned",
        "_wants_alignment",
        "lowered",
        "name",
        "nest",
        "why",
    )

    def __init__(
        self, nest: LoopNest, moved_bytes: int, chain: Chain | None = None, may_stream: bool = True
    ) -> None:
        self.nest, self._moved_bytes, self._chain = nest, moved_bytes, chain
        self.lowered = None if nest.is_empty else self._lower(host_isa(), host_caches(), may_stream)
        self.name = f"jit:{self.lowered.isa.name}:{self.lowered.kind}" if self.lowered else "jit:nothing"
        self.why = self.lowered.why if self.lowered else "there are no elements"
        self._wants_alignment = self.lowered is not None and self.lowered.streams
        self._aligned: Kernel | None = None
        self._unaligned: Kernel | None = None

    def _lower(self, isa: Isa, caches: CacheSizes, may_stream: bool) -> Lowered:
        # What schedules is loaded with the first problem: descriptors and memories do without.
        load_whole("restride.targets.cpu")
        from ..targets.cpu import lower

        return lower(self.nest, isa, caches, may_stream=may_stream, chain=self._chain)

    @property
    def threads(self) -> int:
        """How many threads may share a run."""
        if self.lowered is None or _is_small(self.lowered, self._moved_bytes):
            return 1
        return min(default_pool().threads, self.lowered.steps)

    def direct_call(self) -> Callable[[int, int, int], None] | None:
        """The machine code itself, compiled now, where one thread always runs all of it at any address."""
        kernel = self.direct_kernel()
        return None if kernel is None else kernel.call

    def direct_kernel(self) -> Kernel | None:
        """The kernel, compiled now, where one thread always runs all of it at any address."""
        if self.lowered is None or self._wants_alignment:
            return None
        kernel = self.kernel(0)
        return kernel if kernel.is_small else None

    def kernel(self, dst: int) -> Kernel:
        """The kernel for a destination at this address: streaming stores need whole cache lines."""
        assert self.lowered is not None
        if self._wants_alignment and dst % LINE:
            if self._unaligned is None:
                plain = self._lower(self.lowered.isa, self.lowered.caches, may_stream=False)
                self._unaligned = kernel_of(plain, self._moved_bytes)
            return self._unaligned
        if self._aligned is None:
            self._aligned = kernel_of(self.lowered, self._moved_bytes)
        return self._aligned

    @property
    def scratch_bytes(self) -> int:
        """None: a nest runs from source to destination."""
        return 0

    def run(self, src: int, dst: int, params: int, scratch: int = 0) -> None:
        """Run on checked addresses of element offset 0; `params` is that of a `Params`."""
        if self.lowered is not None:
            self.kernel(dst).run(src, dst, params)


class Params:
    """What a computation reads, where kernels read it: addresses of operands, then scalars as doubles.

    Keep it alive while a kernel may run; the addresses are the caller's to keep.
    """

    __slots__ = ("_slots", "address")

    def __init__(self, scalars: Sequence[float] = (), operands: Sequence[int] = ()) -> None:
        packed = struct.pack(f"={len(operands)}Q{len(scalars)}d", *operands, *scalars)
        self._slots = (ctypes.c_uint64 * max(len(packed) // 8, 1)).from_buffer_copy(packed or bytes(8))
        self.address = ctypes.addressof(self._slots)


@functools.cache
def packer(operands: int, scalars: int) -> Callable[..., bytes]:
    """A function that puts addresses and then scalars as `Params` does, several times as fast.

    `packed_address` says where they are, for as long as the result lives.
    """
    return struct.Struct(f"={operands}Q{scalars}d").pack


def _packed_address(packed: bytes) -> int:
    return id(packed) + _BYTES_AT


# CPython keeps the bytes of a bytes object, and a zero behind them, at its end.
_BYTES_AT = bytes.__basicsize__ - 1


def _is_as_expected() -> bool:
    if sys.implementation.name != "cpython":
        return False
    probe = bytes(range(64))
    return ctypes.string_at(_packed_address(probe), len(probe)) == probe


def _address_by_ctypes(packed: bytes) -> int:
    return ctypes.cast(ctypes.c_char_p(packed), ctypes.c_void_p).value or 0


packed_address: Callable[[bytes], int] = _packed_address if _is_as_expected() else _address_by_ctypes
