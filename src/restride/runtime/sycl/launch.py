"""Launches of kernels on a queue of a SYCL device: nests and loop trees.

What does not change between runs is computed once: the kernel, the sizes of its grid, offsets in SYCL's form.
`submit` gets checked memory: `buffers` has those of the slots, followed by the temporaries in reverse, so
that the number of a place is an index of it. It runs after `deps`; what follows runs after the events that it
returns.
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

# Limit on groups of 256 items, below 2**31: supported by every driver.
_MOST_GROUPS = 2**31 - 1
# f64 computations read scalars as f64.
_REALS = (ctypes.c_float, ctypes.c_double)

Events = list["Waitable"]
Places = tuple[tuple[int, int, ctypes.c_int64], ...]


class SyclKernel:
    """A kernel of a device with its grid, compiled at first use.

    Raises Unimplemented for what the device does not support.
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
        """Compile, once."""
        self._compiled = compiled = self._compiled or self._device.kernel(self.lowered)
        return compiled

    def submit(self, queue: SyclQueue, args: list[object], deps: Events) -> Events:
        """Submit to a queue; all its memory is kept alive until it has ended."""
        kernel = self._compiled or self.prepare()
        try:
            event = queue.submit_async(kernel, args, self._items, self._group, deps)
        except Exception as error:  # dpctl's own errors have no common base class
            raise refuse(
                "RS-D03:device-refused-kernel", device=self._device, reason=str(error)[:500]
            ) from error
        args.append(kernel)
        pending.add(event, args)
        return [event]


@dataclass(slots=True, eq=False)
class DeviceLaunch:
    """A kernel of a program with its arguments: `places`, and then scalars, each a `real`.

    The scalars are `constants`, or these of an execution's. A launch that is not `is_named` only serves
    another one; `note` is shown with it.
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
    """Return the launch of a nest as work-items. Raises Unimplemented if the device does not support it."""
    nest, plan = step.nest, plan_items(step.nest, device.facts)
    assert not plan.splits_bytes, f"the passes have left elements of one byte to several items:\n{plan}"
    wide = is_wide(nest.src_type, nest.dst_type, nest.compute)
    in_double = any(one.is_eltwise and ALGORITHMS[one.name].needs_double for one in nest.compute.steps)
    computes = nest.src_type is not nest.dst_type or not nest.compute.is_move
    kernel = SyclKernel(plan, device, needs_double=in_double or (wide and computes))
    # A part that only writes padding reads no operands, and takes no scalars.
    places = _arguments(step.src, step.dst, *step.operands[: len(plan.nest.operands)])
    (first, count), read = step.scalars, plan.nest.compute.scalars
    real, scalars = _REALS[wide], slice(first, first + min(count, read))
    constants = [real(value) for value in step.constants[:read]]
    return DeviceLaunch(kernel, places, real, scalars, constants, step.is_named, step.note)


def tree_launch(step: TreeStep, kernel: SyclKernel) -> DeviceLaunch:
    """Return the launch of one outermost loop of a tree on a step's tensors. Others can share its kernel."""
    first, count = step.scalars
    real, scalars = _REALS[step.tree.wide], slice(first, first + count)
    return DeviceLaunch(
        kernel, _arguments(*step.places), real, scalars, is_named=step.is_named, note=step.note
    )


# --- memory as arguments of kernels -------------------------------------------------------------------------


def _arguments(*places: Place) -> Places:
    """Return places, each with its offset in the form for kernels."""
    return tuple((*place, ctypes.c_int64(place.offset)) for place in places)


def _memory(places: Places, buffers: Sequence[Buffer]) -> list[object]:
    """Return the arguments of places: for each its USM, and the offset in bytes of element offset 0."""
    args: list[object] = []
    for at, offset, word in places:
        buffer = buffers[at]
        usm: Usm = buffer.owner  # type: ignore[assignment]
        skipped = buffer.address - usm._pointer
        args += usm, ctypes.c_int64(offset + skipped) if skipped else word
    return args
