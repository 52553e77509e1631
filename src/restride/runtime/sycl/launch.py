"""Launches of kernels on a queue of a SYCL device: nests and loop trees.

All that does not change from run to run is made once: the kernel, the sizes of its grid, offsets as SYCL
takes them. `submit` gets checked memory: `buffers` are those of the slots, and behind them the temporaries in
reverse, so that the number of a place is an index of it. It comes after `deps`; what is next is after the
events that it returns.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...errors import refuse
from ...frozen import dataclass
from ...ir.conversion import is_wide
from ...ir.eltwise import ALGORITHMS
from ...ir.program import NestStep, Place, TreeStep
from ...schedule.work_items import plan_items
from ...schedule.work_trees import DevicePlan
from ...targets.spirv import lower_plan
from ..alloc import Buffer
from .pending import pending

if TYPE_CHECKING:
    from ..device import Waitable
    from .device import SyclDevice
    from .sdk import SyclQueue, Usm

# Below 2**31 groups of 256 items: what every driver takes.
_MOST_GROUPS = 2**31 - 1
# What computes in f64 reads scalars as such.
_REALS = (ctypes.c_float, ctypes.c_double)

Events = list["Waitable"]
Places = tuple[tuple[int, int, ctypes.c_int64], ...]


class SyclKernel:
    """A kernel of a device and the grid that it runs on, compiled when it is first wanted.

    Raises Unimplemented for what the device cannot do.
    """

    __slots__ = ("_compiled", "_device", "_group", "_items", "lowered")

    def __init__(self, plan: DevicePlan, device: SyclDevice, *, needs_double: bool = False) -> None:
        if plan.groups > _MOST_GROUPS:
            raise refuse(
                "RS-D05:too-many-elements", device=device, groups=plan.groups, most_groups=_MOST_GROUPS
            )
        if needs_double and not device.has_double:
            raise refuse("RS-D05:device-no-f64", device=device)
        self.lowered, self._device = lower_plan(plan), device
        self._items, self._group = [self.lowered.steps], [plan.device.group]
        self._compiled: object = None

    def prepare(self) -> object:
        """Compile; what is compiled stays."""
        self._compiled = compiled = self._compiled or self._device.kernel(self.lowered)
        return compiled

    def submit(self, queue: SyclQueue, args: list[object], deps: Events) -> Events:
        """Submit to a queue; all that it works on lives until it has ended."""
        kernel = self._compiled or self.prepare()
        try:
            event = queue.submit_async(kernel, args, self._items, self._group, deps)
        except Exception as error:  # dpctl's own errors have no common root
            raise refuse(
                "RS-D03:device-refused-kernel", device=self._device, reason=str(error)[:500]
            ) from error
        args.append(kernel)
        pending.add(event, args)
        return [event]


@dataclass(slots=True, eq=False)
class DeviceLaunch:
    """A kernel of a program, and what it works on: `places`, and then scalars, each a `real`.

    The scalars are `constants`, or these of an execution's. What is not `is_named` only serves another
    launch; `note` is what is to be told of it.
    """

    kernel: SyclKernel
    places: Places
    real: type[ctypes.c_double | ctypes.c_float]
    scalars: slice
    constants: Sequence[object] = ()
    is_named: bool = True
    note: str = ""

    @property
    def why(self) -> str:
        """The reason for this kind of kernel."""
        why = self.kernel.lowered.why
        return f"{why}; {self.note}" if self.note else why

    def prepare(self) -> None:
        """Compile."""
        self.kernel.prepare()

    def submit(
        self, queue: SyclQueue, buffers: Sequence[Buffer], scalars: Sequence[float], deps: Events
    ) -> Events:
        """Submit to a queue."""
        numbers = self.constants or map(self.real, scalars[self.scalars])
        return self.kernel.submit(queue, [*_memory(self.places, buffers), *numbers], deps)


def nest_launch(step: NestStep, device: SyclDevice) -> DeviceLaunch:
    """A nest as work-items. Raises Unimplemented for what the device cannot do."""
    nest, plan = step.nest, plan_items(step.nest, device.facts)
    assert not plan.splits_bytes, f"the passes have left elements of one byte to several items:\n{plan}"
    wide = is_wide(nest.src_type, nest.dst_type, nest.compute)
    in_double = any(one.is_eltwise and ALGORITHMS[one.name].needs_double for one in nest.compute.steps)
    computes = nest.src_type is not nest.dst_type or not nest.compute.is_move
    kernel = SyclKernel(plan, device, needs_double=in_double or (wide and computes))
    # A part that writes padding alone reads no operands, and takes no scalars.
    places = _arguments(step.src, step.dst, *step.operands[: len(plan.nest.operands)])
    (first, count), read = step.scalars, plan.nest.compute.scalars
    real, scalars = _REALS[wide], slice(first, first + min(count, read))
    constants = [real(value) for value in step.constants[:read]]
    return DeviceLaunch(kernel, places, real, scalars, constants, step.is_named, step.note)


def tree_launch(step: TreeStep, kernel: SyclKernel) -> DeviceLaunch:
    """One outermost loop of a tree: a kernel on the tensors of a step. Others may have the same kernel."""
    first, count = step.scalars
    real, scalars = _REALS[step.tree.wide], slice(first, first + count)
    return DeviceLaunch(
        kernel, _arguments(*step.places), real, scalars, is_named=step.is_named, note=step.note
    )


# --- memory as arguments of kernels -------------------------------------------------------------------------


def _arguments(*places: Place) -> Places:
    """Places, each with its offset as a kernel takes it."""
    return tuple((*place, ctypes.c_int64(place.offset)) for place in places)


def _memory(places: Places, buffers: Sequence[Buffer]) -> list[object]:
    """The arguments of places: for each its USM, and how many bytes behind that element offset 0 lies."""
    args: list[object] = []
    for at, offset, word in places:
        buffer = buffers[at]
        usm: Usm = buffer.owner  # type: ignore[assignment]
        skipped = buffer.address - usm._pointer
        args += usm, ctypes.c_int64(offset + skipped) if skipped else word
    return args
