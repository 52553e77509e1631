"""A box of a reduction + machine facts -> how its kernel runs, and the planes that it folds into.

A kernel folds into **planes**: arrays of all outputs, one for each piece of the work whose outputs other
pieces share, (results, planes, outputs) together. Sums are s32. Ranges are **keys**: integers as wide as the
data type, in the order of the values, plus a bias that makes those that are not finite wrap around to below
all others. The smallest value is the largest key of the negated ones.

A **tile** is a run of consecutive elements in several registers. Every lane of it belongs to one output, the
same in each turn of the loops that are **held**: these accumulate in registers, and what they found is folded
into the outputs once, after them. The loops outside of the held ones walk in the order of memory, so that a
tensor larger than the caches is read from its first byte to its last; where one of them is reduced, an output
is folded into several times.

The outermost loops are the **grid**, whose steps threads share. No two steps share an output: where a reduced
loop is cut into steps, each has a **plane** of outputs of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import gcd, prod

import numpy as np

from ..dtypes import DataType
from ..ir.conversion import Array, to_real
from ..ir.reduction import NOT_FINITE, Op, ReductionAxis, ReductionBox, ReductionNest, real_of
from .machine import Machine

# --- reduction planes --------------------------------------------------------
# What the kernels of reductions fold into, and how results come out of it.

_SIGNED = {bits: np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)}
_UNSIGNED = {bits: np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)}


def accumulated_bits(reduction: ReductionNest) -> int:
    """Width of what is folded."""
    return 32 if reduction.op is Op.total else reduction.data_type.bits


def bias_of(data_type: DataType) -> int:
    """What is added to a magnitude's bits so that one that is not finite becomes negative."""
    return int((1 << data_type.bits - 1) - NOT_FINITE[data_type])


def new_planes(reduction: ReductionNest, planes: int) -> Array:
    """Planes in which nothing is folded yet."""
    bits = accumulated_bits(reduction)
    planes_of_results = np.empty((reduction.op.results, planes, reduction.outputs), _SIGNED[bits])
    planes_of_results.fill(0 if reduction.op is Op.total else -(1 << bits - 1))
    return planes_of_results


def finish(reduction: ReductionNest, planes: Array) -> tuple[Array, ...]:
    """The results of what kernels folded into planes of `new_planes`; see `interpret`."""
    if reduction.op is Op.total:
        return (np.add.reduce(planes[0], axis=0, dtype=np.int32).reshape(reduction.shape),)
    keys = planes[:, 0] if planes.shape[1] == 1 else np.maximum.reduce(planes, axis=1)
    if reduction.op is Op.amax:
        return (_magnitudes(reduction, keys[0]).reshape(reduction.shape),)
    ends = _values(reduction, keys).reshape(len(keys), *reduction.shape)
    # Sums with a positive zero are never a negative one.
    zero = ends.dtype.type(0)
    return np.asarray(zero - ends[0]), np.asarray(ends[1] + zero)


def _magnitudes(reduction: ReductionNest, keys: Array) -> Array:
    """The values of keys of magnitudes, which are their bits plus the bias; 0 for lower keys."""
    data_type = reduction.data_type
    bias = keys.dtype.type(bias_of(data_type))
    bits = np.maximum(keys, bias) - bias
    return to_real(bits.view(_UNSIGNED[data_type.bits]), data_type, real_of(data_type))


def _values(reduction: ReductionNest, keys: Array) -> Array:
    """The values of keys; 0 for keys below that of the lowest finite value."""
    data_type, kind = reduction.data_type, keys.dtype.type
    bias = kind(bias_of(data_type))
    lowest = bias - kind(NOT_FINITE[data_type] - 1) - kind(1)
    plain = np.where(keys < lowest, kind(0), keys - bias)
    largest = kind((1 << data_type.bits - 1) - 1)
    bits = plain ^ ((plain >> kind(data_type.bits - 1)) & largest)
    return to_real(bits.view(_UNSIGNED[data_type.bits]), data_type, real_of(data_type))


# --- reduction schedule ------------------------------------------------------
# A box of a reduction + machine facts -> how its kernel runs.

# Lanes of a tile whose elements are loaded one by one.
_STRIDED_LANES = 16
# Registers of a tile that takes a kept axis whole, where lanes would have to be folded for each part of it;
# those that are too many for the machine live on the stack.
_WHOLE_REGISTERS = 32
# Registers of a tile that is folded into its outputs right away. Measured: longer runs are read slower.
_WALKED_REGISTERS = 8
# Work below this many bytes is one grid step.
_STEP_BYTES = 1 << 16
# As many grid steps as make an even split on a large machine; more where a step would take too long.
_ENOUGH_STEPS = 64
_LONGEST_STEP_BYTES = 1 << 22
# Outputs that are folded into again and again should stay in the first cache.
_OUT_BYTES = 1 << 14
# For each output of all planes together at least this many elements are read.
_PLANE_SHARE = 64


@dataclass(frozen=True, slots=True)
class Lanes:
    """A tile: the axes it spans, innermost first, `chunks` positions of each; elements `pitch` apart.

    All axes but the last are whole. Elements fill registers of `width` lanes.
    """

    axes: tuple[int, ...]
    chunks: tuple[int, ...]
    pitch: int
    width: int

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.chunks)


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop over one axis, `tiles` tiles of it in each turn."""

    axis: int
    tiles: int = 1


@dataclass(frozen=True, slots=True)
class ReductionPlan:
    """A box and how to run it: the tile, the grid, the axes of the loops in a grid step, and of those held.

    `planes` is how many planes of outputs a cut reduced loop needs, `first_plane` the first of them.
    """

    box: ReductionBox
    lanes: Lanes
    grid: tuple[Loop, ...]
    loop_axes: tuple[int, ...]
    register_axes: tuple[int, ...]
    planes: int = 1
    first_plane: int = 0

    def chunk(self, axis: int) -> int:
        """Positions of an axis in one tile."""
        return dict(zip(self.lanes.axes, self.lanes.chunks, strict=True)).get(axis, 1)

    def turns(self, loop: Loop) -> int:
        """Number of turns of a loop, all of its axis long."""
        return -(-self.box.axes[loop.axis].extent // (self.chunk(loop.axis) * loop.tiles))

    @property
    def steps(self) -> int:
        """Number of grid steps."""
        return prod(self.turns(loop) for loop in self.grid)

    def __str__(self) -> str:
        sizes = zip(self.lanes.axes, self.lanes.chunks, strict=True)
        tile = " x ".join(f"{chunk} of {self.box.axes[i].extent}" for i, chunk in sizes)
        grid = ", ".join(f"axis {loop.axis} by {loop.tiles * self.chunk(loop.axis)}" for loop in self.grid)
        walk, held = (", ".join(map(str, part)) for part in (self.loop_axes, self.register_axes))
        return f"tile {tile or '1'}; grid [{grid}]; axes [{walk}]; held [{held}]; planes {self.planes}"


def schedule_reduction(reduction: ReductionNest, machine: Machine) -> tuple[ReductionPlan, ...]:
    """One plan for each box; their planes follow one another."""
    plans: list[ReductionPlan] = []
    for box in reduction.boxes:
        first = sum(plan.planes for plan in plans)
        plan = _with_loops(reduction, box, machine)
        plans.append(_with_grid(replace(plan, first_plane=first), reduction))
    return tuple(plans)


def plan_block(reduction: ReductionNest, block: ReductionBox, machine: Machine) -> ReductionPlan:
    """How one block of a box runs, on one thread and in the caches."""
    return _with_loops(reduction, block, machine)


def _with_loops(reduction: ReductionNest, box: ReductionBox, machine: Machine) -> ReductionPlan:
    """The tile and the loops around it. Where nothing is held, a tile along kept axes is a short one."""
    registers = machine.registers // 2
    plan = _with_inner_loops(reduction, box, machine, registers)
    if plan.register_axes or not plan.lanes.axes or not box.axes[plan.lanes.axes[0]].is_kept:
        return plan
    return _with_inner_loops(
        reduction, box, machine, min(registers, _WALKED_REGISTERS) // reduction.op.results
    )


def _with_inner_loops(
    reduction: ReductionNest, box: ReductionBox, machine: Machine, registers: int
) -> ReductionPlan:
    """Reduced loops inside of all kept ones are held; in the caches, where order is free, all of them."""
    plan = ReductionPlan(box, _lanes(reduction, box, machine, registers), (), (), ())
    loops = [i for i in range(len(box.axes)) if plan.turns(Loop(i)) > 1]
    last_kept = max((i for i in loops if box.axes[i].is_kept), default=-1)
    is_small = box.positions * reduction.data_type.bits // 8 < machine.l2
    held = tuple(i for i in loops if not box.axes[i].is_kept and (is_small or i > last_kept))
    return replace(plan, loop_axes=tuple(i for i in loops if i not in held), register_axes=held)


# --- the tile -----------------------------------------------------------------------------------------------


def _lanes(reduction: ReductionNest, box: ReductionBox, machine: Machine, registers: int) -> Lanes:
    """As many consecutive elements as accumulators can be held, so that lanes keep their outputs."""
    width = machine.vector_bytes * 8 // accumulated_bits(reduction)
    chain = _chain(box)
    if not chain:
        return _strided(box, width)
    first = box.axes[chain[0]]
    most = _most_registers(first, registers, reduction) * width
    whole = _WHOLE_REGISTERS // reduction.op.results * width
    chunks = _chunks([box.axes[i] for i in chain], width, most, max(most, whole))
    return Lanes(tuple(chain[: len(chunks)]), tuple(chunks), 1, _fitting(prod(chunks), width))


def _most_registers(first: ReductionAxis, registers: int, reduction: ReductionNest) -> int:
    """Outputs apart from each other are written one by one: a long tile of them would be long code."""
    if abs(first.out) > 1:
        return 1
    return registers if first.is_kept else registers // reduction.op.results


def _fitting(size: int, width: int) -> int:
    return min(width, 1 << (size - 1).bit_length())


def _chain(box: ReductionBox) -> list[int]:
    """Axes that follow each other in memory without a gap, innermost first."""
    chain: list[int] = []
    expected = 1
    for index in reversed(range(len(box.axes))):
        if box.axes[index].src == expected:
            chain.append(index)
            expected *= box.axes[index].extent
    return chain


def _chunks(axes: list[ReductionAxis], width: int, most: int, whole: int) -> list[int]:
    """Positions of each axis of a chain in a tile of about `most` elements.

    A kept axis around a reduced one is taken whole up to `whole` elements. Otherwise an axis is taken up to
    where registers begin anew with the same lanes: of rows of 3, as many as fill registers evenly. Where that
    is not possible, a tile ends with the axis, unless it filled no register.
    """
    chunks: list[int] = []
    size = 1
    for axis in axes:
        room, even = most // size, width // gcd(size, width)
        fits = axis.extent <= (whole // size if axis.is_kept and chunks else room)
        if fits and (even == 1 or 2 * size <= width):
            chunks.append(axis.extent)
            size *= axis.extent
            continue
        part = min(room, axis.extent)
        if part >= even:
            return [*chunks, part // even * even]
        return [*chunks, part] if 2 * size <= width else chunks
    return chunks


def _strided(box: ReductionBox, width: int) -> Lanes:
    """No axis is contiguous: lanes along the nearest one, loaded one by one."""
    near = [i for i, a in enumerate(box.axes) if a.src] or list(range(len(box.axes)))
    if not near:
        return Lanes((), (), 1, 1)
    axis = box.axes[near[-1]]
    size = min(axis.extent, _STRIDED_LANES)
    return Lanes((near[-1],), (size,), axis.src, _fitting(size, width))


# --- the grid -----------------------------------------------------------------------------------------------


def _with_grid(plan: ReductionPlan, reduction: ReductionNest) -> ReductionPlan:
    """Cut the outermost loops into steps for threads, of reduced ones only one."""
    plan = replace(plan, grid=_output_blocks(plan, reduction))
    total = plan.box.positions * reduction.data_type.bits // 8
    wanted = min(total // _STEP_BYTES, max(_ENOUGH_STEPS, total // _LONGEST_STEP_BYTES))
    most_planes = plan.box.positions // (reduction.outputs * _PLANE_SHARE)
    for axis in (*plan.loop_axes, *plan.register_axes):
        missing = -(-wanted // plan.steps)
        if axis in {loop.axis for loop in plan.grid}:
            continue
        if plan.box.axes[axis].is_kept and missing > 1:
            plan = replace(plan, grid=(*plan.grid, _loop_of_steps(plan, axis, missing)))
        elif plan.planes == 1 and min(missing, most_planes) > 1:
            cut = _loop_of_steps(plan, axis, min(missing, most_planes))
            plan = replace(plan, grid=(*plan.grid, cut), planes=plan.turns(cut))
    return plan


def _output_blocks(plan: ReductionPlan, reduction: ReductionNest) -> tuple[Loop, ...]:
    """The cut of a kept loop that is walked again and again for too many outputs at a time."""
    axes = plan.box.axes
    first = next(
        (place for place, axis in enumerate(plan.loop_axes) if not axes[axis].is_kept), len(plan.loop_axes)
    )
    again = [axis for axis in plan.loop_axes[first:] if axes[axis].is_kept]
    outputs = prod(axes[axis].extent for axis in again)
    parts = outputs * reduction.op.results * accumulated_bits(reduction) // 8 // _OUT_BYTES
    return (_loop_of_steps(plan, again[0], parts),) if parts > 1 else ()


def _loop_of_steps(plan: ReductionPlan, axis: int, steps: int) -> Loop:
    """A loop over an axis of about so many turns."""
    tiles = plan.turns(Loop(axis))
    return Loop(axis, -(-tiles // min(steps, tiles)))
