"""Sums of a tensor in a device's memory, modulo 2**32: what compensations are made of (spec 2.4)."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping

import numpy as np

from ..desc.memory_desc import MemoryDesc
from ..plan.compute import Compute
from ..plan.nibbles import wide_type
from ..plan.reduction import Op, reduction_of
from ..plan.reorder import reorder_nest
from ..plan.work_sums import SumPlan, plan_sums
from .alloc import extent
from .sycl import Place, Run, SyclDevice
from .sycl_program import Given, SyclProgram


class SyclSums:
    """Sums over the dims whose bits `keep_mask` lacks, padded ones kept; those of padding are 0.

    4-bit elements are spread over bytes first. Immutable: threads and queues may share it.
    """

    def __init__(self, md: MemoryDesc, keep_mask: int, device: SyclDevice) -> None:
        self._device = device
        self._bytes = _Bytes(md, device) if md.data_type.bits < 8 else None
        reduction = reduction_of(self._bytes.desc if self._bytes else md, keep_mask, Op.total)
        self._nbytes = 4 * reduction.outputs
        self._plan = plan_sums(reduction, device.facts) if reduction.boxes else None

    def prepare(self) -> None:
        """Compile."""
        if self._bytes:
            self._bytes.program.prepare()
        if self._plan:
            self._device.kernel(self._plan)

    def submit(self, run: Run, src: Place, outputs: Mapping[int, Place]) -> None:
        """Overwrite each output, s32, with the sums times the number that it goes by."""
        if self._plan and self._bytes:
            src = self._bytes.spread(run, src)
        for factor, out in outputs.items():
            if self._plan is None:
                self._clear(run, out)
            else:
                self._write(run, self._plan, src, (out, factor))

    def _write(self, run: Run, plan: SumPlan, src: Place, to: tuple[Place, int]) -> None:
        out, factor = to
        # What several items add to has to be aligned.
        is_aligned = (out.usm._pointer + out.at) % 4 == 0
        room = out if is_aligned else run.room(self._nbytes)
        self._clear(run, room)
        args = [arg for place in (src, room) for arg in (place.usm, ctypes.c_int64(place.at))]
        run.submit(self._device.kernel(plan), [*args, ctypes.c_int32(factor)], plan.groups)
        if not is_aligned:
            run.copy(out.usm, room.usm, self._nbytes)

    def _clear(self, run: Run, out: Place) -> None:
        if self._nbytes:
            run.copy(out.usm, np.zeros(self._nbytes, np.uint8), self._nbytes)


class _Bytes:
    """A packed tensor with each element in a byte; its padding is zero there too."""

    def __init__(self, packed: MemoryDesc, device: SyclDevice) -> None:
        self.desc = packed.as_type(wide_type(packed.data_type))
        spans = packed.extent_range(), self.desc.extent_range()
        self.program = SyclProgram(reorder_nest(packed, self.desc, Compute()), device, *spans)

    def spread(self, run: Run, packed: Place) -> Place:
        """Where the bytes will be."""
        room = run.room(extent(self.desc).needed)
        self.program.submit(run, packed, room, Given())
        return room
