"""How a quantisation in groups runs: along which axis vectors go, what a step is, what threads share."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from ..ir.group_quantization import GroupAxis, GroupQuantization
from .machine import Machine

# Bytes of a row that a step reads where groups lie across: long enough to be worth its place in memory.
_COLUMN_BYTES = 512
# Registers of a row of a group that stay where they are between finding the scale and dividing by it.
_HELD = 4
# Elements whose scales are computed together: as many as the first cache has room for. The scale of one group
# takes a long chain of operations, which the next elements would wait for.
_TOGETHER = 8192
# Scales that are computed side by side: some registers, since each step of a chain waits for the one before.
_SCALES = 64
# Loops of fewer steps than this are shared among threads together with the innermost one.
_FEWEST_STEPS = 64


@dataclass(frozen=True, slots=True)
class GroupSchedule:
    """How a quantisation runs.

    run      the axis along which vectors go: of the elements of a group, or, with `is_across`, of groups
    lanes    elements of a vector along it
    batch    groups that lie side by side in a few vectors, so that their largest values are found together
    batches  how many batches have their scales computed together
    outer    the other loops over groups, the threads' share first; `walked`, if any, is the innermost
    inner    the other loops within a group

    `asks_ahead`: a step asks for what the next one reads while it writes. `streams`: elements are written
    past the caches, in whole lines. `is_backward`: steps go from the end of the tensor to its beginning.
    """

    quantization: GroupQuantization
    run: GroupAxis
    is_across: bool
    lanes: int
    batch: int
    walked: GroupAxis | None
    outer: tuple[GroupAxis, ...]
    inner: tuple[GroupAxis, ...]
    batches: int = 1
    asks_ahead: bool = False
    streams: bool = False
    is_backward: bool = False

    def without_streams(self) -> GroupSchedule | None:
        """The same for elements that begin between two cache lines, where that is another kernel."""
        return replace(self, streams=False) if self.streams else None

    @property
    def ahead(self) -> int:
        """How far the next step's source is, in elements; 0 where nothing is asked for."""
        if not self.asks_ahead or self.walked is None:
            return 0
        return self.chunk * self.walked.src * (-1 if self.is_backward else 1)

    @property
    def chunk(self) -> int:
        """Positions of the walked axis that a step takes."""
        return self.lanes if self.is_across else self.batch * self.batches

    @property
    def scale_lanes(self) -> int:
        """Scales of a step that are computed side by side."""
        return min(self.chunk & -self.chunk, _SCALES)

    @property
    def turns(self) -> int:
        """Steps along the walked axis; the last one may go over positions of the one before once more."""
        return 1 if self.walked is None else -(-self.walked.extent // self.chunk)

    @property
    def is_walk_shared(self) -> bool:
        """True where threads share the walked axis too."""
        return prod(axis.extent for axis in self.outer) < _FEWEST_STEPS

    @property
    def steps(self) -> int:
        """Steps that threads can share."""
        return prod(axis.extent for axis in self.outer) * (self.turns if self.is_walk_shared else 1)

    @property
    def is_held(self) -> bool:
        """True where a batch fits in registers."""
        return not self.is_across and not self.inner and self.run.extent * self.batch <= _HELD * self.lanes

    @property
    def kind(self) -> str:
        """The name of such kernels."""
        return "group columns" if self.is_across else "group rows"


def schedule_groups(quantization: GroupQuantization, machine: Machine) -> GroupSchedule | None:
    """The schedule, or None where no axis is contiguous on both sides, or elements would begin in a byte."""
    plan = _in_caches(quantization, machine.vector_bytes)
    if plan is None or quantization.moved_bytes < machine.l2:
        return plan
    is_large = quantization.moved_bytes >= machine.l3
    streams = is_large and _writes_lines(plan, machine)
    # The largest value of all has just been looked for, so that the end of the tensor is in the caches.
    return replace(plan, asks_ahead=True, streams=streams, is_backward=quantization.rule.is_two_level)


def _in_caches(quantization: GroupQuantization, vector_bytes: int) -> GroupSchedule | None:
    axes = (*quantization.across, *quantization.within)
    run = next((axis for axis in axes if axis.src == axis.dst == 1), None)
    if run is None or not _begin_bytes(quantization, run):
        return None
    return _columns(quantization, run) if run.scale else _rows(quantization, run, vector_bytes)


def _rows(quantization: GroupQuantization, run: GroupAxis, vector_bytes: int) -> GroupSchedule | None:
    lanes = min(run.extent & -run.extent, vector_bytes)
    if lanes < 8:
        return None
    inner = tuple(axis for axis in quantization.within if axis is not run)
    walked = next((axis for axis in quantization.across if _follows(axis, run)), None)
    most = _HELD * vector_bytes // run.extent
    is_batch = walked is not None and not inner and most > 1 and _is_power(run.extent)
    batch = min(most, _floor_power(walked.extent)) if walked and is_batch else 1
    if is_batch:
        lanes = min(batch * run.extent, vector_bytes)
    else:
        beside = [axis for axis in quantization.across if axis.scale == 1]
        walked = next(reversed((*quantization.across, *beside)), None)
    outer = tuple(axis for axis in quantization.across if axis is not walked)
    schedule = GroupSchedule(quantization, run, False, lanes, batch, walked, outer, inner)
    if walked is None or walked.scale != 1 or not schedule.is_held:
        return schedule
    return replace(schedule, batches=_batches(walked.extent, batch, run.extent))


def _batches(extent: int, batch: int, run: int) -> int:
    """How many batches a step takes: even steps, whole registers of scales, and no more than there are."""
    most = max(_TOGETHER // run, batch)
    even = -(-extent // -(-extent // most))
    unit = max(batch, min(_SCALES, _floor_power(most)))
    chunk = -(-even // unit) * unit
    return (chunk if chunk <= extent else extent) // batch


def _columns(quantization: GroupQuantization, run: GroupAxis) -> GroupSchedule | None:
    lanes = min(_COLUMN_BYTES * 8 // quantization.src_type.bits, _floor_power(run.extent))
    if run.scale != 1 or lanes < 8:
        return None
    outer = tuple(axis for axis in quantization.across if axis is not run)
    return GroupSchedule(quantization, run, True, lanes, 1, run, outer, quantization.within)


def _writes_lines(plan: GroupSchedule, machine: Machine) -> bool:
    """True where every unbroken run of elements that a step writes is of whole lines and begins at one."""
    bits, (_, base, _) = plan.quantization.rule.data_type.bits, plan.quantization.bases
    run = min(machine.vector_bytes, plan.lanes) if plan.is_across else plan.run.extent * plan.batch
    steps = [run, base, *(axis.dst for axis in (*plan.outer, *plan.inner))]
    if plan.walked is not None:
        steps += [plan.walked.dst * plan.chunk, plan.walked.dst * (plan.walked.extent - plan.chunk)]
    return all(step * bits % (8 * machine.line) == 0 for step in steps)


def _follows(axis: GroupAxis, run: GroupAxis) -> bool:
    """True for groups that lie side by side everywhere."""
    return axis.src == axis.dst == run.extent and axis.scale == 1


def _begin_bytes(quantization: GroupQuantization, run: GroupAxis) -> bool:
    """True where whatever is written together begins at a byte: always, but for types of 4 bits."""
    if quantization.rule.data_type.bits >= 8:
        return True
    others = (axis for axis in (*quantization.across, *quantization.within) if axis is not run)
    return all(axis.dst % 2 == 0 for axis in others) and not (quantization.bases[1] % 2 or run.extent % 2)


def _is_power(n: int) -> bool:
    return n & (n - 1) == 0


def _floor_power(n: int) -> int:
    return 1 << (n.bit_length() - 1)
