"""Schedules of loop trees as values: digits of axes, their limits, and the loops that have them.

Digits are in the order in which they run. The emitters use `grid_of`, `sections_of` and `fused_digits` while
they write the loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod

from ...ir.accesses import Access
from ...ir.digits import IndexDigit, IndexDigits, stride_at
from ...ir.expression import Index, Load
from ...ir.nest import Stride, highest, lowest
from ...ir.numbers import Number
from ...ir.tree import Each, LoopTree, TreeTensor, loads_in
from ..machine import NOMINAL

# The approximate number of steps that threads share.
_GRID_STEPS = 1024


@dataclass(frozen=True, slots=True)
class RepeatedStride:
    """The move of an access that stays in place for `repeats` positions, and then advances by a stride."""

    times: int
    stride: int


TreeStride = Stride | RepeatedStride


@dataclass(frozen=True, slots=True)
class TreeDigit:
    """A digit of an axis, or of several contiguous ones: how far it moves each axis and each access.

    `bound` names the axis whose digits do not cover it exactly. `fused`: the names of merged digits,
    outermost first.
    """

    extent: int
    steps: tuple[tuple[str, int], ...]
    strides: tuple[tuple[Access, TreeStride], ...]
    bound: str = ""
    fused: tuple[str, ...] = field(default=(), compare=False)

    @property
    def name(self) -> str:
        """The name in a schedule; for a merged digit, that of the innermost."""
        return "+".join(f"{name}/{step}" for name, step in self.steps)

    def stride(self, access: Access) -> TreeStride:
        """Return how far an access moves for one position."""
        return next((stride for each, stride in self.strides if each == access), 0)

    def reach(self, widths: dict[str, int]) -> int:
        """Return how far the accesses move together, in bits."""
        return sum(_reach(stride) * widths[access[0]] for access, stride in self.strides)

    def __str__(self) -> str:
        return f"{self.name} {self.extent}"


@dataclass(frozen=True, slots=True)
class AxisLimits:
    """The limits of an axis whose digits exceed its positions: how many are computed, and for each tensor the
    end of the zeros after them.
    """

    size: int
    pads: tuple[tuple[str, int], ...] = ()

    def below(self, step: int) -> AxisLimits:
        """Return the limits within the first `step` positions."""
        return AxisLimits(min(self.size, step), tuple((name, min(pad, step)) for name, pad in self.pads))

    def behind(self, positions: int) -> AxisLimits:
        """Return the limits after some positions."""
        pads = tuple((name, max(pad - positions, 0)) for name, pad in self.pads)
        return AxisLimits(max(self.size - positions, 0), pads)

    @property
    def end(self) -> int:
        """One past the last position that is computed or zeroed."""
        return max(self.size, *(pad for _, pad in self.pads)) if self.pads else self.size


@dataclass(frozen=True, slots=True)
class EachPlan:
    """A loop: its digits, outermost first; `lanes` is above 1 if vectors run along the last of them.

    `inner` are the plans of the inner loops, in order; one that also has lanes is **joined** to it: its
    vectors are of as many adjacent results as this loop has lanes (`can_join`). `is_unrolled`: the positions
    of a window are unrolled where they need no tests. `interior`: the axes whose positions at which all
    guards of the inner loops hold are separate loops. `number`: the type of the computation.
    """

    each: Each
    digits: tuple[TreeDigit, ...]
    limits: tuple[tuple[str, AxisLimits], ...]
    lanes: int
    inner: tuple[EachPlan, ...]
    is_unrolled: bool = False
    interior: tuple[str, ...] = ()
    number: Number = Number.f32

    @property
    def widest(self) -> int:
        """The lanes of the longest vectors: no more than there are positions."""
        positions = prod(digit.extent for digit in self.digits)
        return min(self.lanes, 1 << (max(positions, 1) - 1).bit_length())

    @property
    def longest(self) -> int:
        """The lanes of the longest vectors that occur: fewer than the widest if the last digit is short."""
        extent = self.digits[-1].extent if self.digits else 1
        return min(self.widest, 1 << (extent - 1).bit_length())

    def lines(self) -> Iterator[str]:
        """Yield the loops as text."""
        lanes = f" in vectors of {self.widest}" if self.lanes > 1 else ""
        yield f"for {', '.join(map(str, self.digits)) or 'once'}{lanes}"
        for plan in self.inner:
            yield from ("  " + line for line in plan.lines())


Grid = tuple[tuple[TreeDigit, int, int], ...]


@dataclass(frozen=True)
class TreeSchedule:
    """The plan of a tree with one outermost loop.

    `grid`: the digits of the outermost loop that threads share, outermost first: the positions of a step (for
    the digit of vectors, whole vectors), and the number of steps. `computed`: for each access, the dims whose
    index is computed at run time; `read_axes`: the axes whose positions are needed as numbers; `uncovered`:
    tensors whose padding its stores do not reach. `streams`: stores that fill lines bypass the caches;
    `asks_ahead`: elements in memory are prefetched.
    """

    tree: LoopTree
    plan: EachPlan
    grid: Grid
    tensors: dict[str, TreeTensor]
    computed: dict[Access, tuple[int, ...]]
    read_axes: frozenset[str]
    uncovered: tuple[str, ...]
    streams: bool = False
    asks_ahead: bool = False

    @property
    def rows(self) -> set[str]:
        """The local tensors."""
        return set(self.tensors) - {tensor.name for tensor in self.tree.tensors}

    @property
    def read_again(self) -> set[str]:
        """The tensors that are read where they are written, and so stay in cache."""
        return self.rows | {load.tensor for load in self.tree.loads}

    @property
    def accesses(self) -> tuple[Access, ...]:
        """All accesses."""
        return tuple(self.computed)

    def read_ahead(self, number: int) -> dict[Access, int]:
        """Return what an inner loop prefetches: how far accesses move to the next outer position.

        In bytes. Of loops that read the same, the last one prefetches, so that the first of the next position
        does not wait; what only one loop reads is prefetched by hardware, unless it is windows. `number`:
        which of the inner loops.
        """
        plan, loops = self.plan, [loads_of(each) for each in self.plan.inner]
        again = set().union(*loops[:number], *loops[number + 1 :])
        rows = self._rows_ahead(plan.inner[number])
        streams = {access: step for access, step in rows.items() if access not in again}
        for access in loops[number]:
            is_last = access not in set().union(*loops[number + 1 :])
            is_again = access in set().union(*loops[:number])
            step = self._next_step(plan, access)
            if is_last and is_again and access[0] not in self.rows and 0 < step <= NOMINAL.far_ahead:
                streams[access] = step
        return streams

    def _rows_ahead(self, windows: EachPlan) -> dict[Access, int]:
        """Return what a loop over windows prefetches: how far its accesses move to the next row of windows.

        Processors prefetch within a row, but not if several rows are read in turn, piece by piece.
        """
        outside = {axis.name for axis in self.plan.each.axes}
        axes = (axis for plan in plans_of(windows) for axis in plan.each.axes)
        inside = {axis.name for axis in axes if axis.extent > 1}
        steps: dict[Access, int] = {}
        for access in loads_of(windows):
            names = [index.axes for index in access[1]]
            is_window = any(each & inside and each & outside for each in names)
            if is_window and not self.computed[access]:
                steps[access] = self._row_step(access)
        return {access: step for access, step in steps.items() if step}

    def _row_step(self, access: Access) -> int:
        """Return how far an access moves for the innermost digit that changes its page; 0 if that is far."""
        width = self.tensors[access[0]].data_type.bits // 8
        strides = (digit.stride(access) for digit in reversed(self.plan.digits) if digit.extent > 1)
        steps = (stride * width for stride in strides if isinstance(stride, int))
        step = next((step for step in steps if step >= NOMINAL.page), 0)
        return step if step <= NOMINAL.far_ahead else 0

    def _next_step(self, plan: EachPlan, access: Access) -> int:
        """Return how far an access moves between positions of a loop, in bytes; 0 if it is computed."""
        if self.computed[access]:
            return 0
        for place in range(len(plan.digits) - 1, -1, -1):
            digit, is_vector = plan.digits[place], plan.lanes > 1 and place + 1 == len(plan.digits)
            size = plan.widest if is_vector else 1
            stride = digit.stride(access)
            if digit.extent >= 2 * size and isinstance(stride, int):
                return stride * size * self.tensors[access[0]].data_type.bits // 8
        return 0

    @property
    def kind(self) -> str:
        """The name of such kernels, by the direction of vectors."""
        if self.plan.lanes > 1:
            return "columns" if self.plan.inner else "lines"
        return "rows" if any(each.lanes > 1 for each in self.plan.inner) else "elements"

    @property
    def why(self) -> str:
        """The reason for it."""
        return {
            "lines": "elements are contiguous",
            "columns": "folded elements are strided",
            "rows": "folded elements are contiguous",
            "elements": "no axis has contiguous elements",
        }[self.kind]

    def __str__(self) -> str:
        return "\n".join(self.plan.lines())


def repeats_of(digit: TreeDigit) -> tuple[int, ...]:
    """Return the numbers of positions for which accesses stay in place."""
    return tuple(stride.times for _, stride in digit.strides if isinstance(stride, RepeatedStride))


def plans_of(plan: EachPlan) -> Iterator[EachPlan]:
    """Yield a loop, and its inner loops."""
    yield plan
    for inner in plan.inner:
        yield from plans_of(inner)


def loads_of(plan: EachPlan) -> set[Access]:
    """Return what the items of a loop load, including those of inner loops."""
    items = (item for each in plans_of(plan) for item in each.each.items)
    return {(load.tensor, load.index) for load in loads_in(items)}


def _reach(stride: TreeStride) -> int:
    if isinstance(stride, RepeatedStride):
        return abs(stride.stride)
    return (
        abs(stride) if isinstance(stride, int) else highest(stride, len(stride)) - lowest(stride, len(stride))
    )


# --- digits -------------------------------------------------------------------------------------------------


def axis_digits(digits: IndexDigits, index: Index, extents: dict[str, int]) -> dict[str, IndexDigits] | None:
    """Return how each axis of an index moves through the digits of a dim; None if it must be computed.

    `g * 4 + k` through blocks of 16  ->  g: 1 of 4 positions, then blocks; k: positions.
    """
    if isinstance(index, Load) or index.divisor > 1:
        return None
    if len(digits) == 1:
        return {name: (IndexDigit(1, digits[0].stride * factor),) for name, factor in index.terms}
    terms = sorted(index.terms, key=lambda term: term[1])
    found: dict[str, IndexDigits] = {}
    reach = 1
    if index.constant:
        return None
    for place, (name, factor) in enumerate(terms):
        # Each axis begins where the one before it ends, or after that, at the edge of a block or of a part
        # of one: there are no carries between them.
        if not _divides_all(factor, digits) or factor < (reach if place > 0 else 0):
            return None
        reach = factor * extents[name]
        inside = [
            digit
            for digit in digits
            if digit.step > factor and (digit.step < reach or place + 1 == len(terms))
        ]
        if any(digit.step % factor for digit in inside):
            return None
        first = IndexDigit(1, stride_at(digits, factor))
        found[name] = (first, *(IndexDigit(digit.step // factor, digit.stride) for digit in inside))
    return found


def _divides_all(factor: int, digits: IndexDigits) -> bool:
    return all(digit.step % factor == 0 or factor % digit.step == 0 for digit in digits)


# --- for the emitters ---------------------------------------------------------------------------------------


def grid_of(plan: EachPlan) -> list[tuple[TreeDigit, int, int]]:
    """Return the digits that threads share, outermost first: the positions of a step, and the steps.

    For the digit of vectors, a position is a whole vector. A loop in order is one step.
    """
    if plan.each.in_order:
        return []
    grid: list[tuple[TreeDigit, int, int]] = []
    steps = 1
    for place, digit in enumerate(plan.digits):
        count = shared_positions(plan, place)
        if count < 2:
            continue
        tiles = -(-count // max(_GRID_STEPS // steps, 1))
        grid.append((digit, tiles, -(-count // tiles)))
        steps *= grid[-1][2]
        if steps > _GRID_STEPS // 2 or tiles > 1:
            break
        if decides_inside(plan, place):
            break
    return grid


def shared_positions(plan: EachPlan, place: int) -> int:
    """Return how many positions of a digit have work; for the digit of vectors, whole vectors."""
    digit, count, is_vector = plan.digits[place], plan.digits[place].extent, _has_vectors(plan, place)
    if digit.bound:
        ((name, step),) = digit.steps
        limits = dict(plan.limits)[name]
        count = min(count, -(-(limits.size if is_vector else limits.end) // step))
    return count // min(plan.widest, 1 << (max(count, 1) - 1).bit_length()) if is_vector else count


def decides_inside(plan: EachPlan, place: int) -> bool:
    """Return whether the work inside a digit depends on which of its positions it is."""
    bound = plan.digits[place].bound
    inside = (digit.bound for digit in plan.digits[place + 1 :])
    return bool(bound) and not _has_vectors(plan, place) and bound in inside


def _has_vectors(plan: EachPlan, place: int) -> bool:
    return plan.lanes > 1 and place + 1 == len(plan.digits)


def sections_of(limits: AxisLimits, step: int, extent: int) -> Iterator[tuple[int, int, AxisLimits]]:
    """Yield runs of equivalent positions of a digit: first, one past the last, and the limits inside.

    17 of 32 in steps of 16  ->  1 position of 16, and 1 of which 1 is computed and 15 are zero.
    """
    end = min(extent, -(-limits.end // step))
    edges = {0, end}
    for limit in (limits.size, *(pad for _, pad in limits.pads)):
        edges |= {min(limit // step, end), min(-(-limit // step), end)}
    borders = sorted(edges)
    for first, last in pairwise(borders):
        yield first, last, limits.behind(first * step).below(step)


def fused_digits(
    order: tuple[TreeDigit, ...],
    bounded: frozenset[str],
    read_axes: frozenset[str],
    fixed: frozenset[TreeDigit],
    stays: frozenset[Access] = frozenset(),
) -> tuple[TreeDigit, ...]:
    """Merge the first digit with those contiguous to it; the `fixed` ones stay unchanged. Accesses of `stays`
    can be constant along the inner digit.

    `for 5: src += 3` around `for 3: src += 1`  ->  `for 15: src += 1`.
    """
    while len(order) > 1:
        outer, inner = order[:2]
        names = {name for digit in (outer, inner) for name, _ in digit.steps}
        if names & (bounded | read_axes) or {outer, inner} & fixed:
            break
        strides = _fused_strides(outer, inner, stays)
        if strides is None:
            break
        fused = (*(outer.fused or (outer.name,)), *(inner.fused or (inner.name,)))
        extent = outer.extent * inner.extent
        order = (replace(inner, extent=extent, strides=strides, bound="", fused=fused), *order[2:])
    return order


def _fused_strides(
    outer: TreeDigit, inner: TreeDigit, stays: frozenset[Access]
) -> tuple[tuple[Access, TreeStride], ...] | None:
    """Return the strides of both digits as one; None if some access is not contiguous."""
    accesses = dict.fromkeys(access for digit in (inner, outer) for access, _ in digit.strides)
    strides = dict(inner.strides)
    for access in accesses:
        before, after = outer.stride(access), inner.stride(access)
        if not isinstance(before, int) or not isinstance(after, int):
            return None
        if access in stays and before and not after:
            strides[access] = RepeatedStride(inner.extent, before)
        elif before != after * inner.extent:
            return None
    return tuple(strides.items())
