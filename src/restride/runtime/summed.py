"""Nests whose destination is summed as it is written, by one kernel."""

from __future__ import annotations

import ctypes
import struct

import numpy as np

from ..plan.nest import LoopNest
from ..plan.reduction import Reduction
from ..plan.reduction_planes import finish
from ..targets.isa import host_caches, host_isa
from ..targets.summed import LoweredSums, lower_sums
from .alloc import address_of
from .cpu import Kernel, kernel_of, packed_address


class SummedProgram:
    """A nest and its sums, planned for this CPU; compiled when first wanted."""

    def __init__(self, lowered: LoweredSums, moved_bytes: int, factor: int) -> None:
        self._lowered, self._moved_bytes, self._factor = lowered, moved_bytes, factor
        self._reduction = lowered.summed.reduction
        self._nbytes = 4 * self._reduction.outputs
        self._kernel: Kernel | None = None
        self.why = f"{lowered.steps} blocks, each summed while it is in the cache"

    def prepare(self) -> Kernel:
        """Compile."""
        if self._kernel is None:
            self._kernel = kernel_of(self._lowered, self._moved_bytes)
        return self._kernel

    def run(self, src: int, dst: int, params: int, out: int) -> None:
        """Run on checked addresses of element offset 0, and overwrite the sums, s32, at `out`."""
        kernel = self.prepare()
        parts = kernel.parts()
        if not self._lowered.summed.is_shared and out % 4 == 0:
            ctypes.memset(out, 0, self._nbytes)
            self._call(kernel, (src, dst, params), out, parts)
            return
        planes = np.zeros(
            (1, parts if self._lowered.summed.is_shared else 1, self._reduction.outputs), np.int32
        )
        self._call(kernel, (src, dst, params), address_of(planes), parts)
        (found,) = finish(self._reduction, planes)
        ctypes.memmove(out, address_of(np.ascontiguousarray(found)), self._nbytes)

    def _call(self, kernel: Kernel, at: tuple[int, int, int], sums: int, parts: int) -> None:
        src, dst, params = at
        words = struct.pack("=QQq", params, sums, self._factor)
        kernel.run_in(src, dst, packed_address(words), parts)


def summed_program(
    nest: LoopNest, reduction: Reduction, moved_bytes: int, factor: int
) -> SummedProgram | None:
    """The program of a nest and `factor` times the sums of what it writes; None where it takes two passes."""
    lowered = lower_sums(nest, reduction, host_isa(), host_caches())
    return None if lowered is None else SummedProgram(lowered, moved_bytes, factor)
