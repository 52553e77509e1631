"""Launches of kernels on a queue of a SYCL device: nests, sums and loop trees.

All that does not change from run to run is made once: the kernel, the sizes of its grid, offsets as SYCL
takes them. `submit` gets checked memory: `buffers` are those of the slots, and behind them the temporaries in
reverse, so that the number of a place is an index of it. It comes after `deps`; what is next is after the
events that it returns.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from ...errors import refuse
from ...ir.conversion import is_wide
from ...ir.eltwise import ALGORITHMS
from ...ir.nest import Compute, LoopNest
from ...ir.program import NestStep, Place, TreeStep
from ...schedule.work_items import ItemPlan, plan_items
from ...schedule.work_trees import DevicePlan, TreePlan
from ..alloc import Buffer
from .pending import pending

if TYPE_CHECKING:
    from ..device import Waitable
    from .device import SyclDevice
    from .sdk import SyclQueue, Usm

# Below 2**31 groups of 256 items: what every driver takes.
_MOST_GROUPS = 2**31 - 1

_Plan = TypeVar("_Plan", bound=DevicePlan)
_StepPlan = TypeVar("_StepPlan", bound=ItemPlan | TreePlan)
_Step = TypeVar("_Step", bound=NestStep | TreeStep)
Events = list["Waitable"]
Places = tuple[tuple[int, int, ctypes.c_int64], ...]


class DeviceLaunch(Protocol):
    """The interface of every launch."""

    def prepare(self) -> None:
        """Compile."""

    def submit(
        self, queue: SyclQueue, buffers: Sequence[Buffer], scalars: Sequence[float], deps: Events
    ) -> Events:
        """Submit to a queue."""


class SyclKernel(Generic[_Plan]):
    """A kernel of a device and the grid that it runs on, compiled when it is first wanted."""

    __slots__ = ("_compiled", "_device", "_group", "_items", "plan")

    def __init__(self, plan: _Plan, device: SyclDevice) -> None:
        self.plan, self._device = plan, device
        size = plan.device.group
        self._items, self._group = [plan.groups * size], [size]
        self._compiled: object = None

    def prepare(self) -> object:
        """Compile; what is compiled stays."""
        self._compiled = compiled = self._compiled or self._device.kernel(self.plan)
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


class _StepItems(Generic[_StepPlan, _Step]):
    """One kernel of a step, planned for the work-items of a device."""

    __slots__ = ("_kernel", "_places", "_real", "plan", "step")
    plan: _StepPlan
    step: _Step
    _kernel: SyclKernel[_StepPlan]
    _places: Places
    _real: type[ctypes.c_double | ctypes.c_float]

    def __init__(self, step: _Step, kernel: SyclKernel[_StepPlan], places: Places, *, is_wide: bool) -> None:
        self.step, self.plan = step, kernel.plan
        self._kernel, self._places = kernel, places
        self._real = ctypes.c_double if is_wide else ctypes.c_float

    @property
    def why(self) -> str:
        """The reason for this kind of kernel."""
        return f"{self.plan.why}; {self.step.note}" if self.step.note else self.plan.why

    def prepare(self) -> None:
        """Compile."""
        self._kernel.prepare()

    def submit(
        self, queue: SyclQueue, buffers: Sequence[Buffer], scalars: Sequence[float], deps: Events
    ) -> Events:
        """Submit to a queue."""
        first, count = self.step.scalars
        args = [*_memory(self._places, buffers), *self._numbers(scalars[first : first + count])]
        return self._kernel.submit(queue, args, deps)

    def _numbers(self, scalars: Sequence[float]) -> Iterable[object]:
        return map(self._real, scalars)


class ItemLaunch(_StepItems[ItemPlan, NestStep]):
    """A nest."""

    __slots__ = ("_constants", "_read")

    def __init__(self, step: NestStep, device: SyclDevice) -> None:
        plan = plan_items(step.nest, device.facts)
        _check_fits(step.nest, plan, device)
        # A part that writes padding alone reads no operands.
        places = _arguments(step.src, step.dst, *step.operands[: len(plan.nest.operands)])
        super().__init__(step, SyclKernel(plan, device), places, is_wide=_is_wide(step.nest))
        # Neither does it take scalars.
        self._read = plan.nest.compute.scalars
        self._constants = [self._real(value) for value in step.constants[: self._read]]

    def _numbers(self, scalars: Sequence[float]) -> Iterable[object]:
        return self._constants or map(self._real, scalars[: self._read])


class ItemTreeLaunch(_StepItems[TreePlan, TreeStep]):
    """One outermost loop of a tree: a kernel on the tensors of a step. Others may have the same kernel."""

    __slots__ = ()

    def __init__(self, step: TreeStep, kernel: SyclKernel[TreePlan]) -> None:
        super().__init__(step, kernel, _arguments(*step.places), is_wide=step.tree.wide)


def tree_kernel(plan: TreePlan, device: SyclDevice) -> SyclKernel[TreePlan]:
    """The kernel of a plan. Raises Unimplemented for what the device cannot do."""
    _check_size(plan, device)
    if plan.needs_double and not device.has_double:
        raise refuse("RS-D05:device-no-f64", device=device)
    return SyclKernel(plan, device)


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


# --- what a device can run ----------------------------------------------------------------------------------


def _check_fits(nest: LoopNest, plan: ItemPlan, device: SyclDevice) -> None:
    assert not plan.splits_bytes, f"the passes have left elements of one byte to several items:\n{plan}"
    _check_size(plan, device)
    needs_double = _computes_in_double(nest.compute) or (_is_wide(nest) and _computes(nest))
    if needs_double and not device.has_double:
        raise refuse("RS-D05:device-no-f64", device=device)


def _check_size(plan: ItemPlan | TreePlan, device: SyclDevice) -> None:
    if plan.groups > _MOST_GROUPS:
        raise refuse("RS-D05:too-many-elements", device=device, groups=plan.groups, most_groups=_MOST_GROUPS)


def _is_wide(nest: LoopNest) -> bool:
    return is_wide(nest.src_type, nest.dst_type, nest.compute)


def _computes(nest: LoopNest) -> bool:
    return nest.src_type is not nest.dst_type or not nest.compute.is_move


def _computes_in_double(compute: Compute) -> bool:
    return any(step.is_eltwise and ALGORITHMS[step.name].needs_double for step in compute.steps)
