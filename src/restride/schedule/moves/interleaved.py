"""Several nests that write one destination, interleaved: one block of each in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from ...dtypes import DataType
from ...ir.nest import Axis, LoopNest, as_int, highest, lowest
from ...ir.nest_rewrites import normalize, peel, peeled_boxes
from ...ir.staged_nest import Flush
from ..machine import LIMITS, Machine
from .schedule import Schedule, schedule, writes_whole_lines
from .tiling import contiguous


@dataclass(frozen=True, slots=True)
class CommonAxis:
    """An axis that all nests share: how far the destination and each source move."""

    extent: int
    dst: int
    srcs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class InterleavedNests:
    """Blocks of `block` positions of `along`, within `outer`; `plans` are the schedules of each source.

    The last block begins earlier if it does not divide the axis: some elements are written twice, equally.
    With `flush`, the plans write scratch, and `start` is the destination of its first element.
    """

    dst_type: DataType
    src_types: tuple[DataType, ...]
    outer: tuple[CommonAxis, ...]
    along: CommonAxis
    block: int
    plans: tuple[tuple[Schedule, ...], ...]
    flush: Flush | None
    start: int

    @property
    def blocks(self) -> int:
        """The number of blocks along the cut axis."""
        return -(-self.along.extent // self.block)

    @property
    def steps(self) -> int:
        """The total number of blocks, which threads can share."""
        return prod(axis.extent for axis in self.outer) * self.blocks

    def __str__(self) -> str:
        flushed = f", flushed in runs of {self.flush.length}" if self.flush else ""
        return f"interleaved: {self.steps} blocks of {self.block} from {len(self.plans)} nests{flushed}"


def interleave(nests: Sequence[LoopNest], machine: Machine) -> InterleavedNests | None:
    """Interleave all nests; None if they have no axis in common, or would not gain."""
    if len(nests) < 2 or any(nest.operands or nest.compute.scalars for nest in nests):
        return None
    if sum(map(peeled_boxes, nests)) > LIMITS.interleaved:
        return None
    written = sum(nest.positions * nest.dst_type.bits // 8 for nest in nests)
    if written < machine.l2 or any(nest.dst_type.bits < 8 or nest.src_type.bits < 8 for nest in nests):
        return None
    if not _is_short(nests, machine):
        return None
    commons = _common_axes(nests)
    row = written // prod(axis.extent for axis in commons) if commons else 0
    while len(commons) > 1 and row * commons[-1].extent < machine.block:
        row *= commons.pop().extent
    if not commons or row > 2 * machine.l1 or row * commons[-1].extent < machine.block:
        return None
    *outer, along = commons
    inner = [_remove_axes(nest, commons) for nest in nests]
    block = _even(along.extent, max(machine.block // max(row, 1), 1))
    return _schedule_blocks(inner, (tuple(outer), along, block), written, machine)


def _is_short(nests: Sequence[LoopNest], machine: Machine) -> bool:
    """Return whether a good part of the destination is written in short runs, between those of other nests:
    these share cache lines.
    """
    boxes = [normalize(box) for nest in nests for box in peel(nest)]
    short = sum(box.positions for box in boxes if _run_bytes(box) < machine.run_bytes)
    return 4 * short > sum(box.positions for box in boxes)


def _run_bytes(box: LoopNest) -> int:
    return prod(box.axes[i].extent for i in contiguous(box, "dst")) * box.dst_type.bits // 8


def _schedule_blocks(
    inner: Sequence[LoopNest],
    cut: tuple[tuple[CommonAxis, ...], CommonAxis, int],
    written: int,
    machine: Machine,
) -> InterleavedNests | None:
    outer, along, block = cut
    start = _start_of_row([normalize(box) for nest in inner for box in peel(nest)], along.dst)
    whole = [_add_axis(nest, Axis(block, along.srcs[i], along.dst)) for i, nest in enumerate(inner)]
    plans = [_schedules(nest, machine) for nest in whole]
    fills = all(writes_whole_lines(plan, machine) for each in plans for plan in each)
    if fills or sum(map(len, plans)) > LIMITS.interleaved:
        return None
    types = tuple(nest.src_type for nest in inner)
    nests = InterleavedNests(inner[0].dst_type, types, outer, along, block, tuple(plans), None, 0)
    if start is None or written < machine.l3:
        return nests
    plans = [_schedules(replace(nest, dst_base=nest.dst_base - start), machine) for nest in whole]
    return replace(nests, plans=tuple(plans), flush=Flush((), block * along.dst, ()), start=start)


def _schedules(nest: LoopNest, machine: Machine) -> tuple[Schedule, ...]:
    return tuple(plan for box in peel(nest) for plan in schedule(normalize(box), machine))


def _common_axes(nests: Sequence[LoopNest]) -> list[CommonAxis]:
    """Return the axes that all nests have, outermost in the destination first."""
    axes: list[CommonAxis] = []
    for axis in nests[0].axes:
        alike = [other for nest in nests for other in nest.axes if _is_alike(axis, other)]
        if axis.extent > 1 and len(alike) == len(nests):
            axes.append(
                CommonAxis(axis.extent, as_int(axis.dst), tuple(as_int(other.src) for other in alike))
            )
    return sorted(axes, key=lambda common: -abs(common.dst))


def _is_alike(axis: Axis, other: Axis) -> bool:
    """Return whether both are free and move the destination equally; a nest has at most one such axis."""
    return _is_free(axis) and _is_free(other) and (axis.extent, axis.dst) == (other.extent, other.dst)


def _is_free(axis: Axis) -> bool:
    """Return whether all positions of an axis are equivalent."""
    return axis.bound < 0 and axis.is_whole and axis.is_linear


def _remove_axes(nest: LoopNest, commons: Sequence[CommonAxis]) -> LoopNest:
    """Return the nest at one position of the common axes."""
    gone = {(common.extent, common.dst) for common in commons}
    axes = tuple(axis for axis in nest.axes if not (_is_free(axis) and (axis.extent, axis.dst) in gone))
    return replace(nest, axes=axes)


def _add_axis(nest: LoopNest, axis: Axis) -> LoopNest:
    return replace(nest, axes=(axis, *nest.axes)).verify()


def _start_of_row(boxes: Sequence[LoopNest], length: int) -> int | None:
    """Return where the boxes begin if they fill a run of `length` elements, without writing any twice."""
    low = min(box.dst_base + sum(lowest(axis.dst, axis.extent) for axis in box.axes) for box in boxes)
    high = max(box.dst_base + sum(highest(axis.dst, axis.extent) for axis in box.axes) for box in boxes)
    is_full = sum(box.positions for box in boxes) == length == high + 1 - low
    return low if is_full else None


def _even(extent: int, most: int) -> int:
    """Return the positions of a block: an even part of the axis, if there is one of about that size."""
    most = min(extent, most)
    return next((n for n in range(most, most // 2, -1) if extent % n == 0), most)
