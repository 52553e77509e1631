"""A program compiled for a SYCL device: launches one after the other on a queue.

Passes turn the program into steps that work-items can do. Each step is one kernel; sums take one for each
output. All that does not change from run to run is made once: the kernel, the sizes of its grid, offsets as
SYCL takes them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..errors import RuntimeFailure, Unimplemented
from ..plan.conversion import is_wide
from ..plan.eltwise import ALGORITHMS
from ..plan.machine import DeviceFacts
from ..plan.nest import Compute, LoopNest
from ..plan.passes import split_sums, spread_bytes, unpack_operands
from ..plan.program import NestStep, Place, Program, RepeatStep, SumStep, TreeStep
from ..plan.work_items import ItemPlan, SumPlan, plan_items, plan_sums
from ..targets.spirv import LoweredSpirv
from .alloc import Buffer
from .pending import pending

if TYPE_CHECKING:
    from .device import Waitable
    from .sycl import SyclDevice
    from .sycl_sdk import SyclQueue, Usm

# Sources that one kernel reads.
_MOST_SOURCES = 16
# Below 2**31 groups of 256 items: what every driver takes.
_MOST_GROUPS = 2**31 - 1

Events = list["Waitable"]
Places = tuple[tuple[int, int, ctypes.c_int64], ...]


class SyclExecutable:
    """A program for one device. Immutable but for kernels, compiled when first wanted: threads may share it.

    `name` and `why` say which kernels run and for what reason; without elements there are none.
    Work outlasts its call, so that every run has temporaries of its own and a scratchpad is of no use. Raises
    Unimplemented for computations in f64 on a device that has none.
    """

    __slots__ = ("launches", "name", "program", "why")
    scratch_bytes = 0
    call = None

    def __init__(self, program: Program, device: SyclDevice) -> None:
        self.program = _passed(program, device.facts)
        self.launches = tuple(_launches(self.program, device))
        self.name, self.why = _named(self._nests())

    @property
    def threads(self) -> int:
        """The number of work-items."""
        return max((launch.plan.groups * launch.plan.device.group for launch in self._nests()), default=1)

    @property
    def lowered(self) -> LoweredSpirv | None:
        """The kernel of the nest that does the work; None where there is nothing to do."""
        return next((LoweredSpirv(launch.plan) for launch in self._nests()), None)

    def prepare(self) -> None:
        """Compile."""
        for launch in self.launches:
            launch.prepare()

    def _nests(self) -> list[ItemLaunch]:
        return [each for each in self.launches if isinstance(each, ItemLaunch) and each.step.is_named]


class SyclKernel:
    """A kernel of a device and the grid that it runs on, compiled when it is first wanted."""

    __slots__ = ("_compiled", "_device", "_group", "_items", "plan")

    def __init__(self, plan: ItemPlan | SumPlan, device: SyclDevice) -> None:
        self.plan, self._device = plan, device
        size = device.facts.group
        self._items, self._group = [plan.groups * size], [size]
        self._compiled: object = None

    def prepare(self) -> object:
        """Compile."""
        self._compiled = compiled = self._device.kernel(self.plan)
        return compiled

    def submit(self, queue: SyclQueue, args: list[object], deps: Events) -> Events:
        """Submit to a queue; all that it works on lives until it has ended."""
        kernel = self._compiled or self.prepare()
        try:
            event = queue.submit_async(kernel, args, self._items, self._group, deps)
        except Exception as error:  # dpctl's own errors have no common root
            raise RuntimeFailure(
                "the device refused a kernel",
                code="RS-D03",
                where=repr(self._device),
                why=str(error)[:500],
                hint="update the device's driver; rs.Engine('cpu') needs none",
            ) from error
        args.append(kernel)
        pending.add(event, args)
        return [event]


class ItemLaunch:
    """A nest, planned for the work-items of a device."""

    __slots__ = ("_constants", "_kernel", "_places", "_real", "plan", "step")

    def __init__(self, step: NestStep, device: SyclDevice) -> None:
        self.step, self.plan = step, plan_items(step.nest, device.facts)
        _check_fits(step.nest, self.plan, device)
        self._kernel = SyclKernel(self.plan, device)
        self._places = _arguments(step.src, step.dst, *step.operands)
        self._real = ctypes.c_double if _is_wide(step.nest) else ctypes.c_float
        self._constants = [self._real(value) for value in step.constants]

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
        """Submit on checked memory, after `deps`; what comes next is after the events that are returned.

        `buffers` are those of the slots, and behind them the temporaries in reverse, so that the number of a
        place is an index of it.
        """
        args = _memory(self._places, buffers)
        first, count = self.step.scalars
        args += self._constants or map(self._real, scalars[first : first + count])
        return self._kernel.submit(queue, args, deps)


class ItemSumLaunch:
    """The sums of a tensor, times a factor for each output, which begins where its memory does."""

    __slots__ = ("_device", "_kernel", "_places", "_step", "_zeros")

    def __init__(self, step: SumStep, device: SyclDevice) -> None:
        self._step, self._device, self._places = step, device, _arguments(step.src)
        reduction = step.reduction
        self._kernel = SyclKernel(plan_sums(reduction, device.facts), device) if reduction.boxes else None
        self._zeros = np.zeros(4 * reduction.outputs, np.uint8)

    def prepare(self) -> None:
        """Compile."""
        if self._kernel is not None:
            self._kernel.prepare()

    def submit(
        self, queue: SyclQueue, buffers: Sequence[Buffer], scalars: Sequence[float], deps: Events
    ) -> Events:
        """Submit on checked memory: outputs are overwritten."""
        if self._zeros.nbytes:
            src = _memory(self._places, buffers)
            for out, factor in self._step.outputs:
                deps = self._write(queue, src, (buffers[out.buffer], factor), deps)
        return deps

    def _write(self, queue: SyclQueue, src: list[object], to: tuple[Buffer, int], deps: Events) -> Events:
        (out, factor), nbytes = to, self._zeros.nbytes
        if self._kernel is None:
            return _copy(queue, out, self._zeros, nbytes, deps)
        # What several items add to has to be aligned.
        is_aligned = out.address % 4 == 0
        sums = out if is_aligned else self._device.allocate(nbytes)
        deps = _copy(queue, sums, self._zeros, nbytes, deps)
        args = [*src, sums.owner, ctypes.c_int64(0), ctypes.c_int32(factor)]
        deps = self._kernel.submit(queue, args, deps)
        return deps if is_aligned else _copy(queue, out, sums.owner, nbytes, deps)


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


def _copy(queue: SyclQueue, target: Buffer, source: object, nbytes: int, deps: Events) -> Events:
    """Copy to the start of a buffer's memory."""
    event = queue.memcpy_async(target.owner, source, nbytes, deps)
    pending.add(event, (target.owner, source))
    return [event]


# --- from programs to launches ------------------------------------------------------------------------------


def _passed(program: Program, facts: DeviceFacts) -> Program:
    """The program in steps that work-items can do."""

    def splits_bytes(step: NestStep) -> bool:
        return not step.nest.is_empty and plan_items(step.nest, facts).splits_bytes

    made = split_sums(unpack_operands(program, lambda _step, _operand: True), _MOST_SOURCES)
    return spread_bytes(made, splits_bytes)


def _launches(program: Program, device: SyclDevice) -> Iterator[ItemLaunch | ItemSumLaunch]:
    for step in program.steps:
        if isinstance(step, SumStep):
            yield ItemSumLaunch(step, device)
        elif isinstance(step, TreeStep | RepeatStep):
            raise _no_trees(device)
        elif not step.nest.is_empty:
            yield ItemLaunch(step, device)


def _named(launches: Sequence[ItemLaunch]) -> tuple[str, str]:
    """A name and a reason for all launches: `jit:spirv:copy+transpose`."""
    if not launches:
        return "jit:nothing", "there are no elements"
    kinds, whys = (
        dict.fromkeys(each.plan.kind for each in launches),
        dict.fromkeys(each.why for each in launches),
    )
    return f"jit:spirv:{'+'.join(kinds)}", "; ".join(whys)


def _no_trees(device: SyclDevice) -> Unimplemented:
    return Unimplemented(
        "no kernels for loop trees on SYCL devices",
        code="RS-D05",
        where=repr(device),
        why="what computes over several tensors is compiled for the CPU",
        hint='use rs.Engine("cpu")',
    )


def _check_fits(nest: LoopNest, plan: ItemPlan, device: SyclDevice) -> None:
    assert not plan.splits_bytes, f"the passes have left elements of one byte to several items:\n{plan}"
    if plan.groups > _MOST_GROUPS:
        raise Unimplemented(
            "reorder: too many elements for one launch",
            code="RS-D05",
            where=repr(device),
            why=f"{plan.groups} groups of work-items; devices take {_MOST_GROUPS}",
            hint="work in parts, through submemory_desc",
        )
    needs_double = _computes_in_double(nest.compute) or (_is_wide(nest) and _computes(nest))
    if needs_double and not device.has_double:
        raise Unimplemented(
            "reorder: the device has no f64",
            code="RS-D05",
            where=repr(device),
            why="f64 tensors, and post-ops such as exp and tanh, are computed in f64 (N1)",
            hint='use another device, or rs.Engine("cpu")',
        )


def _is_wide(nest: LoopNest) -> bool:
    return is_wide(nest.src_type, nest.dst_type, nest.compute)


def _computes(nest: LoopNest) -> bool:
    return nest.src_type is not nest.dst_type or not nest.compute.is_move


def _computes_in_double(compute: Compute) -> bool:
    return any(step.is_eltwise and ALGORITHMS[step.name].in_double for step in compute.steps)
