"""Sums and ranges of a tensor in memory: compiled, kept, and run on as many threads as they are worth.

`sum_over` is for compensation, `amax` and `min_max` are for scales: one pass each, for a whole
tensor or per index of some dims.
"""

from __future__ import annotations

import ctypes

import numpy as np

from ...desc.memory_desc import MemoryDesc
from ...ir.conversion import Array, storage_dtype
from ...ir.reduction import Op, ReductionNest, interpret, reduction_of
from ...schedule.reduction import finish, new_planes
from ...targets.cpu_kernels import lower_reduction
from ...targets.isa import host_caches, host_isa
from ..alloc import address_of
from ..cache import LruCache, cache_level
from .kernel import Kernel, kernel_of

# Dims with blocks that are not full make boxes; past this many, code would outgrow its use.
_MOST_BOXES = 16


class _SumFactor:
    """A factor of sums, modulo 2**32, where kernels read it. Keep it alive while a kernel may run."""

    __slots__ = ("_held", "address", "value")

    def __init__(self, factor: int) -> None:
        # ctypes wraps whatever the size of the integer.
        self._held = ctypes.c_int32(factor)
        self.value = self._held.value
        self.address = ctypes.addressof(self._held)


_ONE = _SumFactor(1)


class ReductionProgram:
    """A reduction planned for this CPU. Immutable but for its kernel, compiled when first wanted."""

    __slots__ = ("_kernel", "_lowered", "_planes", "_reach", "reduction")

    def __init__(self, reduction: ReductionNest) -> None:
        self.reduction = reduction
        self._kernel: Kernel | None = None
        is_compiled = 0 < len(reduction.boxes) <= _MOST_BOXES
        self._lowered = lower_reduction(reduction, host_isa(), host_caches()) if is_compiled else None
        self._planes = sum(plan.planes for plan in self._lowered.plan) if self._lowered else 0
        self._reach = reduction.reach

    def prepare(self) -> None:
        """Compile."""
        if self._kernel is None and self._lowered is not None:
            self._kernel = kernel_of(self._lowered, self.reduction.read_bytes)

    def write_sums(self, src: int, out: int, factor: int) -> None:
        """Overwrite the s32 array of the kept dims, row-major, at `out`: factor * sum, modulo 2**32."""
        sum_factor, nbytes = _SumFactor(factor), 4 * self.reduction.outputs
        if self._lowered is not None and self._planes == 1 and out % 4 == 0:
            ctypes.memset(out, 0, nbytes)
            self._fold(src, out, sum_factor)
            return
        (sums,) = self.run(src, sum_factor)
        whole = np.ascontiguousarray(sums)
        ctypes.memmove(out, address_of(whole), nbytes)

    def run(self, src: int, factor: _SumFactor = _ONE) -> tuple[Array, ...]:
        """The results for the tensor at this address; see `finish`."""
        if self._lowered is None:
            return interpret(self.reduction, self._storage(src), factor.value)
        planes = new_planes(self.reduction, self._planes)
        self._fold(src, address_of(planes), factor)
        return finish(self.reduction, planes)

    def _fold(self, src: int, planes: int, factor: _SumFactor) -> None:
        self.prepare()
        assert self._kernel is not None
        self._kernel.run(src, planes, factor.address)

    def _storage(self, src: int) -> Array:
        """The tensor as a flat array of the storage dtype, from offset 0 on."""
        data_type = self.reduction.data_type
        if not self._reach:
            return np.zeros(0, storage_dtype(data_type))
        data = (ctypes.c_uint8 * data_type.nbytes(self._reach)).from_address(src)
        return np.frombuffer(memoryview(data), storage_dtype(data_type))


_programs: LruCache[ReductionProgram] = cache_level("sums")


def reduction_program(reduction: ReductionNest) -> ReductionProgram:
    """The program of a reduction, from the cache or planned now."""
    program, _ = _programs.get_or_make(reduction, lambda: ReductionProgram(reduction))
    return program


def sum_over(md: MemoryDesc, address: int, keep_mask: int, *, factor: int, padded: bool) -> Array:
    """`factor` times the sum over the dims whose bits `keep_mask` lacks, modulo 2**32.

    int32, of the kept dims in logical order; `padded`: of the kept padded dims. `address` is of element
    offset 0 of an s8, u8, s32 or boolean tensor whose padding is zero. Raises InvalidArguments for a
    mask with bits for other dims, Unimplemented for another type.
    """
    program = reduction_program(reduction_of(md, keep_mask, Op.total))
    (sums,) = program.run(address, _SumFactor(factor))
    logical = tuple(n for d, n in enumerate(md.dims) if keep_mask >> d & 1)
    shape = program.reduction.shape if padded else logical
    return np.array(sums[tuple(map(slice, shape))], order="C")


def amax(md: MemoryDesc, address: int, keep_mask: int) -> Array:
    """The largest magnitude among the finite values for each index of the kept dims; 0 where there is none.

    float32 (float64 of f64), of the kept dims in logical order. Raises InvalidArguments for a mask with bits
    for other dims, Unimplemented for a type that is no float.
    """
    (largest,) = reduction_program(reduction_of(md, keep_mask, Op.amax)).run(address)
    return largest


def min_max(md: MemoryDesc, address: int, keep_mask: int) -> tuple[Array, Array]:
    """The smallest and the largest finite value, in one pass; otherwise as `amax`."""
    low, high = reduction_program(reduction_of(md, keep_mask, Op.min_max)).run(address)
    return low, high
