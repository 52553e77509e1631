"""Reorders whose destinations are summed as they are written: cases, and their kernels run by hand."""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from restride.desc.memory_desc import MemoryDesc
from restride.emit import entry
from restride.ir.digits import reorder_nest
from restride.ir.nest import LoopNest, linear
from restride.ir.ranges import sum_tree
from restride.runtime.cpu.kernel import KernelWords
from restride.targets.cpu_kernels import lower_fused_sums
from restride.targets.isa import CacheSizes, Isa
from restride.targets.lowered import Lowered

from .by_offset import positions
from .kernels import COMMON, factors_of
from .machine_code import loaded

Array = npt.NDArray[np.generic]

# A last cache in which the destination of every case is large, so that whole runs are flushed.
SMALL = CacheSizes(l2=1 << 10, l3=1 << 12)


@dataclass(frozen=True)
class Case:
    """Two descriptors, and the mask of the dims whose indices have sums of their own."""

    dims: tuple[int, ...]
    src: str
    dst: str
    mask: int
    types: str = "f32 s8"
    scale: float = 1.0

    @property
    def descs(self) -> tuple[MemoryDesc, MemoryDesc]:
        src_type, dst_type = self.types.split()
        return MemoryDesc(self.dims, src_type, self.src), MemoryDesc(self.dims, dst_type, self.dst)

    @property
    def nest(self) -> LoopNest:
        return reorder_nest(*self.descs, linear(scaled=self.scale != 1.0))

    def lowered(self, isa: Isa, caches: CacheSizes = COMMON) -> Lowered | None:
        return lower_fused_sums(self.nest, sum_tree(self.descs[1], self.mask, (FACTOR, -1)), isa, caches)


CASES = {
    "weights": Case((64, 32, 3, 3), "abcd", "ABcd4b16a4b", 1),
    "scaled weights": Case((64, 32, 3, 3), "abcd", "ABcd4b16a4b", 1, scale=0.37),
    "outputs that fill no block": Case((41, 19, 3, 3), "abcd", "ABcd4b16a4b", 1),
    "one block": Case((7, 300, 3, 3), "abcd", "ABcd4b16a4b", 1),
    "groups": Case((3, 20, 18, 3, 3), "abcde", "aBCde4c16b4c", 3),
    "plain": Case((24, 40, 3, 3), "abcd", "acdb", 1),
    "sums of the last dim": Case((24, 96, 3, 3), "abcd", "cdba", 1),
    "matmul": Case((192, 160), "ab", "BA16a64b4a", 2),
    "matmul with tails": Case((190, 150), "ab", "BA16a64b4a", 2),
    "integers": Case((64, 32, 3, 3), "abcd", "ABcd4b16a4b", 1, "s32 u8"),
    "bytes": Case((64, 32, 5), "abc", "ABc16b16a4b", 1, "s8 s8"),
    "wide sums": Case((2, 512, 24), "abc", "acb", 2, "f32 s32"),
    "one sum of all": Case((64, 64, 9), "abc", "acb", 0),
    "rows that are padding": Case((7, 1024), "ab", "AB16a1024b", 1),
}
FACTOR = -128


class Kernel:
    """The machine code of one case."""

    def __init__(self, case: Case, lowered: Lowered) -> None:
        self.lowered = lowered
        self._library = loaded(lowered.ir(), lowered.isa)
        self._params = KernelWords(factors_of(case.nest.compute, case.scale, 0.0))
        pointer, count = ctypes.c_void_p, ctypes.c_int64
        kind = ctypes.CFUNCTYPE(None, pointer, pointer, pointer, count, count)
        self._entry = kind(self._library.address(entry.ENTRY))

    def planes(self, parts: int) -> Array:
        """Both outputs, in which nothing is yet: a plane for each part where they share sums."""
        fused = self.lowered.plan
        outputs = math.prod(fused.tree.tensors[1].sizes)
        return np.zeros((2, parts if fused.is_shared else 1, outputs), np.int32)

    def part(self, src: int, dst: int, outs: Sequence[int], share: tuple[int, int]) -> None:
        """Run one share, (part, parts), on addresses."""
        words = KernelWords((), [self._params.address, *outs])
        self._entry(src, dst, words.address, *share)

    def __call__(self, src: Array, dst: Array, parts: int) -> Array:
        """Run all shares, the last one first; the first output, all planes together."""
        planes = self.planes(parts)
        for part in reversed(range(parts)):
            self.part(
                src.ctypes.data, dst.ctypes.data, [plane.ctypes.data for plane in planes], (part, parts)
            )
        first, second = planes.sum(axis=1, dtype=np.int32)
        np.testing.assert_array_equal(second * np.int32(-FACTOR), first)
        return np.asarray(first)


@functools.lru_cache(maxsize=256)
def compiled(case: Case, isa: Isa, caches: CacheSizes) -> Kernel:
    """The kernel of a case, compiled once per test process."""
    lowered = case.lowered(isa, caches)
    assert lowered is not None
    return Kernel(case, lowered)


def sums_of(case: Case, written: Array) -> Array:
    """The sums of a destination, each element where its descriptor says."""
    md = case.descs[1]
    places = positions(md, md.padded_dims)
    over = tuple(d for d in range(md.ndims) if not case.mask >> d & 1)
    values = written.view(md.data_type.numpy)[places].astype(np.int64)
    return np.asarray((values.sum(over) * FACTOR).astype(np.int32)).reshape(-1)
