"""Sums and ranges of a tensor in memory: compiled, kept, and run on as many threads as they are worth.

`sum_over` is for compensation (spec 2.4), `amax` and `min_max` are for scales: one pass each, for a whole
tensor or per index of some dims.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from math import prod
from typing import cast

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..emit.entry import ENTRY, WHOLE
from ..plan.contract import Array, storage_dtype
from ..plan.reduction import Op, Reduction, interpret, reduction_of
from ..plan.reduction_planes import finish, new_planes
from ..targets.isa import host_caches, host_isa
from ..targets.jit import Library
from ..targets.objects import load_kernel
from ..targets.reduction import LoweredReduction, lower_reduction
from .alloc import address_of
from .cache import LruCache, shared_cache
from .native import native_call
from .pool import default_pool

# Below this many bytes a second thread costs more than it brings (measured: a region takes 2 to 5 us).
_ALONE_BYTES = 1 << 18
# Below this many bytes (a few microseconds) to let go of Python's lock costs more than it gives others.
_LOCKED_BYTES = 1 << 16
# One part reads about this much, so that Ctrl-C is never far.
_PART_BYTES = 1 << 22
_PARTS_PER_THREAD = 4
# Jobs from here on are cut in pieces between which Python sees signals.
_SHORT_BYTES = 1 << 26
# Dims with blocks that are not full make boxes; past this many, code would outgrow its use.
_MOST_BOXES = 16


class _Kernel:
    """Machine code of one reduction in this process. Holds no state of a run: threads may share it."""

    __slots__ = ("_address", "_call", "_library", "_read_bytes", "_steps")

    def __init__(self, lowered: LoweredReduction) -> None:
        self._steps, self._read_bytes = lowered.steps, lowered.reduction.read_bytes
        self._library: Library = load_kernel(lowered, lowered.reduction.op.name)
        self._address = self._library.address(ENTRY)
        call = native_call(3, keep_lock=self._read_bytes < _LOCKED_BYTES)
        self._call: Callable[[int, int, int], None] = functools.partial(call, self._library.address(WHOLE))

    def run(self, src: int, planes: int, params: int) -> None:
        """Fold the tensor into `planes`, which `new_planes` made, with as many threads as it is worth."""
        pool = default_pool()
        alone = _ALONE_BYTES if pool.threads > 1 else _PART_BYTES
        if self._steps == 1 or self._read_bytes < alone:
            self._call(src, planes, params)
            return
        parts = min(self._steps, max(_PARTS_PER_THREAD * pool.threads, self._read_bytes // _PART_BYTES))
        run = pool.run if self._read_bytes < _SHORT_BYTES else pool.run_long
        run(self._address, src, planes, params, parts)


_kernels: LruCache[_Kernel] = cast("LruCache[_Kernel]", shared_cache("kernels"))


class _Program:
    """A reduction planned for this CPU. Immutable but for its kernel, compiled when first wanted."""

    __slots__ = ("_kernel", "_md", "lowered", "reduction")

    def __init__(self, md: MemoryDesc, keep_mask: int, op: Op) -> None:
        self.reduction: Reduction = reduction_of(md, keep_mask, op)
        self._md = md
        self._kernel: _Kernel | None = None
        is_compiled = 0 < len(self.reduction.boxes) <= _MOST_BOXES
        self.lowered = lower_reduction(self.reduction, host_isa(), host_caches()) if is_compiled else None

    def run(self, src: int, factor: _Factor) -> tuple[Array, ...]:
        """The results for the tensor at this address; see `finish`."""
        if self.lowered is None:
            return interpret(self.reduction, self._storage(src), factor.value)
        planes = new_planes(self.reduction, self.lowered.planes)
        self.fold(src, address_of(planes), factor)
        return finish(self.reduction, planes)

    def fold(self, src: int, planes: int, factor: _Factor) -> None:
        """Fold the tensor at this address, times the factor, into planes at another."""
        assert self.lowered is not None
        if self._kernel is None:
            lowered = self.lowered
            self._kernel, _ = _kernels.get_or_make(lowered.key, lambda: _Kernel(lowered))
        self._kernel.run(src, planes, factor.address)

    def _storage(self, src: int) -> Array:
        """The tensor as a flat array of the storage dtype, from offset 0 on."""
        if not self._md.nelems:
            return np.zeros(0, storage_dtype(self._md.data_type))
        nbytes = self._md.data_type.nbytes(self._md.extent_range()[1])
        data = (ctypes.c_uint8 * nbytes).from_address(src)
        return np.frombuffer(memoryview(data), storage_dtype(self._md.data_type))


class _Factor:
    """A factor of sums, modulo 2**32, where kernels read it. Keep it alive while a kernel may run."""

    __slots__ = ("_held", "address", "value")

    def __init__(self, factor: int) -> None:
        # ctypes wraps whatever the size of the integer.
        self._held = ctypes.c_int32(factor)
        self.value = self._held.value
        self.address = ctypes.addressof(self._held)


_ONE = _Factor(1)
_programs: LruCache[_Program] = cast("LruCache[_Program]", shared_cache("sums"))


def _program(md: MemoryDesc, keep_mask: int, op: Op) -> _Program:
    made, _ = _programs.get_or_make((md, keep_mask, op), lambda: _Program(md, keep_mask, op))
    return made


class SumProgram:
    """Sums of an integer tensor over the dims whose bits `keep_mask` lacks, into memory of the caller's.

    `shape` are the kept dims, padded ones where `padded`: sums of padding are 0. Raises as `reduction_of`.
    """

    __slots__ = ("_cut", "_factor", "_is_direct", "_nbytes", "_program", "shape")

    def __init__(self, md: MemoryDesc, keep_mask: int, factor: int, padded: bool) -> None:
        self._program = _program(md, keep_mask, Op.total)
        self._factor = _Factor(factor)
        whole, lowered = self._program.reduction.shape, self._program.lowered
        logical = tuple(n for d, n in enumerate(md.dims) if keep_mask >> d & 1)
        self.shape = whole if padded else logical
        self._cut = tuple(map(slice, self.shape))
        self._is_direct = lowered is not None and lowered.planes == 1 and self.shape == whole
        self._nbytes = 4 * prod(self.shape)

    def run(self, src_address: int, out_address: int) -> None:
        """Overwrite the s32 array of `shape`, row-major, at `out_address`: factor * sum, modulo 2**32."""
        if self._is_direct and out_address % 4 == 0:
            ctypes.memset(out_address, 0, self._nbytes)
            self._program.fold(src_address, out_address, self._factor)
            return
        found = self.sums(src_address)
        ctypes.memmove(out_address, address_of(found), found.nbytes)

    def sums(self, src_address: int) -> Array:
        """The same as a new int32 array."""
        (found,) = self._program.run(src_address, self._factor)
        return np.array(found[self._cut], order="C")


def sum_over(md: MemoryDesc, address: int, keep_mask: int, *, factor: int, padded: bool) -> Array:
    """`factor` times the sum over the dims whose bits `keep_mask` lacks, modulo 2**32 (spec 2.4).

    int32, of the kept dims in logical order; `padded`: of the kept padded dims. `address` is of element
    offset 0 of an s8, u8, s32 or boolean tensor whose padding is zero (P12). Raises InvalidArguments for a
    mask with bits for other dims, Unimplemented for another type.
    """
    return SumProgram(md, keep_mask, factor, padded).sums(address)


def amax(md: MemoryDesc, address: int, keep_mask: int) -> Array:
    """The largest magnitude among the finite values for each index of the kept dims; 0 where there is none.

    float32 (float64 of f64), of the kept dims in logical order. Raises InvalidArguments for a mask with bits
    for other dims, Unimplemented for a type that is no float.
    """
    (found,) = _program(md, keep_mask, Op.amax).run(address, _ONE)
    return found


def min_max(md: MemoryDesc, address: int, keep_mask: int) -> tuple[Array, Array]:
    """The smallest and the largest finite value, in one pass; otherwise as `amax`."""
    low, high = _program(md, keep_mask, Op.min_max).run(address, _ONE)
    return low, high
