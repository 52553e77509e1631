"""Quantisation in groups as a value: how the scale of a group comes from its values, and what loops run.

It says: *for every group, find the largest finite magnitude; write a scale; write every value divided by it*.
Its grammar::

    quantization := types rule bases across* within*
    across       := extent src dst scale      one loop over groups; how far each moves, in elements
    within       := extent src dst            one loop over the elements of a group

`ScaleRule` says what the scale is, over any arithmetic (`plan/arithmetic.py`): NumPy's where scales are
computed apart, vectors of LLVM in the kernel that does all in one pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import floor, log2, prod

from ..desc.memory_desc import MemoryDesc
from ..dtypes import DataType
from .arithmetic import Term, V
from .nest import Axis, Compute, LoopNest, Step, as_int
from .reorder import TensorOperand, reorder_nest
from .rewrites import normalise

LARGEST = {
    DataType.f4_e2m1: 6.0,
    DataType.f4_e3m0: 16.0,
    DataType.f8_e4m3: 448.0,
    DataType.f8_e5m2: 57344.0,
    DataType.s8: 127.0,
    DataType.s4: 7.0,
    DataType.u8: 127.0,
    DataType.u4: 7.0,
}
"""What the largest magnitude of a group becomes where the range is symmetric."""

MIDDLE = {DataType.u8: 128, DataType.u4: 8}
"""What stands for 0 in integers without a sign, where the range is symmetric."""

ENDS = {DataType.s8: (-128, 127), DataType.s4: (-8, 7), DataType.u8: (0, 255), DataType.u4: (0, 15)}
"""What the range becomes where groups have zero points."""

_LEAST_SCALE = {DataType.f16: 2.0**-24, DataType.f8_e4m3: 2.0**-9, DataType.f8_e5m2: 2.0**-16}
"""The smallest scales but 0 of the types that do not go down to 2**-126."""

_MOST_SCALE = {
    DataType.f32: float.fromhex("0x1.fffffep127"),
    DataType.f16: 65504.0,
    DataType.bf16: float.fromhex("0x1.fep127"),
    DataType.f8_e4m3: 448.0,
    DataType.f8_e5m2: 57344.0,
}
_EXPONENT = 0x7F800000
_BELOW_EXPONENT = 0x007FFFFF
_LEAST_NORMAL = 2.0**-126

Stored = Callable[[Term[V]], Term[V]]
"""The values that the type of scales has for some reals, as reals."""


@dataclass(frozen=True, slots=True)
class ScaleRule:
    """What the scale of a group is, by the type of its elements and of the scales.

    `is_two_level`: scales are of the tensor divided by one more scale, of all of it. `has_zeros`: the range
    of a group is from its smallest to its largest value, 0 among them, and it has a zero point.
    """

    data_type: DataType
    scale_type: DataType
    is_two_level: bool = False
    has_zeros: bool = False

    @property
    def is_power(self) -> bool:
        """True for scales that are powers of two, as the MX formats have them."""
        return self.scale_type is DataType.e8m0

    @property
    def middle(self) -> int:
        """What stands for 0 where that is the same for all groups."""
        return 0 if self.has_zeros else MIDDLE.get(self.data_type, 0)

    @property
    def operands(self) -> int:
        """How many numbers of its group an element is computed with."""
        return 2 if self.has_zeros else 1

    def scales(
        self, largest: Term[V], tensor_scale: Term[V] | None, stored: Stored[V]
    ) -> tuple[Term[V], Term[V]]:
        """The scales that are stored, and what values are divided by, for the largest magnitudes of groups.

        All are f32. A group of zeros has the scale 1.
        """
        if self.is_power:
            power = self._power(largest)
            return power, power
        exact = largest / LARGEST[self.data_type]
        if tensor_scale is not None:
            exact = exact / tensor_scale
        held = self.held(exact, stored)
        return held, held if tensor_scale is None else held * tensor_scale

    def ranged(self, low: Term[V], high: Term[V], stored: Stored[V]) -> tuple[Term[V], Term[V]]:
        """The scales, and the zero points as whole numbers, for the smallest and largest values of groups.

        Both are computed in f64 from f32 or f64, and rounded once.
        """
        bottom, top = ENDS[self.data_type]
        least, most = (low < 0.0).where(low, 0.0).widen(), (high > 0.0).where(high, 0.0).widen()
        held = self.held(((most - least) / float(top - bottom)).single(), stored)
        exact = (float(bottom) - least / held.widen()).round()
        exact = (exact < float(bottom)).where(float(bottom), exact)
        return held, (exact > float(top)).where(float(top), exact)

    def held(self, exact: Term[V], stored: Stored[V]) -> Term[V]:
        """Scales as their type holds them: 1 instead of 0, none of them infinite or 0."""
        most, least = _MOST_SCALE[self.scale_type], _LEAST_SCALE.get(self.scale_type, _LEAST_NORMAL)
        exact = (exact > most).where(most, exact)
        return _raised(stored((exact > 0.0).where(exact, 1.0)), least)

    def _power(self, largest: Term[V]) -> Term[V]:
        """Of floats as the MX formats have them, that the largest falls into the last binade; of integers the
        least power of two at which nothing saturates.
        """
        reach = LARGEST[self.data_type]
        if self.data_type.is_integral:
            # From one power to the next, what is above it takes the next.
            power = ((largest / reach).bits() + _BELOW_EXPONENT & _EXPONENT).real()
        else:
            power = (largest.bits() & _EXPONENT).real() * 2.0 ** -floor(log2(reach))
        return (largest > 0.0).where(_raised(power, _LEAST_NORMAL), 1.0)

    def compute(self) -> Compute:
        """What is done to a value; its group's scale is operand 0, its zero point operand 1. The numbers are
        those of `conversion_numbers`. Of a power of two the operand is the reciprocal, which is exact.
        """
        steps = [Step("mul" if self.is_power else "div", operand=0)]
        if self.has_zeros:
            steps += [Step("nan_to_zero"), Step("add", operand=1)]
        if self.middle:
            steps += [Step("nan_to_zero"), Step("linear")]
        if self._is_clipped:
            steps.append(Step("clip"))
        return Compute(tuple(steps))

    def conversion_numbers(self) -> tuple[float, ...]:
        """The scalars of `compute`."""
        numbers: tuple[float, ...] = (0.0, 0.0, 1.0) if self.has_zeros else ()
        if self.middle:
            numbers += (0.0, 0.0, 1.0, 1.0, float(self.middle), 1.0)
        most = LARGEST[self.data_type]
        return (*numbers, -most, most, 1.0) if self._is_clipped else numbers

    @property
    def _is_clipped(self) -> bool:
        """True for floats of 8 bits, which would become infinite or NaN beyond their ends."""
        return self.data_type in (DataType.f8_e4m3, DataType.f8_e5m2)


def _raised(value: Term[V], least: float) -> Term[V]:
    return (value < least).where(least, value)


# --- loops --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupAxis:
    """One loop; `scale` is 0 within a group."""

    extent: int
    src: int
    dst: int
    scale: int = 0

    def __str__(self) -> str:
        scale = f", scale += {self.scale}" if self.scale else ""
        return f"for {self.extent}: src += {self.src}, dst += {self.dst}{scale}"


@dataclass(frozen=True, slots=True)
class GroupQuantization:
    """A frozen quantisation; equal ones share a kernel. Axes stand outermost first."""

    src_type: DataType
    rule: ScaleRule
    across: tuple[GroupAxis, ...]
    within: tuple[GroupAxis, ...]
    bases: tuple[int, int, int] = (0, 0, 0)

    @property
    def moved_bytes(self) -> int:
        """Bytes read and written."""
        groups = prod(axis.extent for axis in self.across)
        elements = groups * prod(axis.extent for axis in self.within)
        widths = self.src_type.bits + self.rule.data_type.bits
        return (elements * widths + groups * self.rule.scale_type.bits) // 8

    def __str__(self) -> str:
        head = f"{self.rule.data_type}({self.src_type}) in scales of {self.rule.scale_type}"
        axes = [*self.across, *self.within]
        return "\n".join([head, *("  " * (depth + 1) + str(axis) for depth, axis in enumerate(axes))])


def group_quantization(
    src: MemoryDesc, dst: MemoryDesc, scale: MemoryDesc, rule: ScaleRule
) -> GroupQuantization | None:
    """The quantisation of tensors of equal dims, in which `scale` has 1 along the axes within a group.

    None where blocks are not whole, or cut otherwise on both sides.
    """
    operand = TensorOperand.of_desc(scale)
    nest = reorder_nest(src, dst, Compute((Step("div", operand=0),)), [operand])
    if nest.bounds or nest.is_empty or not all(axis.is_linear for axis in nest.axes):
        return None
    axes = _axes_of(normalise(nest))
    return GroupQuantization(
        src.data_type,
        rule,
        tuple(axis for axis in axes if axis.scale),
        tuple(axis for axis in axes if not axis.scale),
        (src.offset0, dst.offset0, scale.offset0),
    )


def _axes_of(nest: LoopNest) -> list[GroupAxis]:
    return [_group_axis(axis) for axis in nest.axes if axis.extent > 1]


def _group_axis(axis: Axis) -> GroupAxis:
    return GroupAxis(axis.extent, as_int(axis.src), as_int(axis.dst), as_int(axis.more[0]))


# --- schedule -----------------------------------------------------------------------------------------------

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


def schedule_groups(quantization: GroupQuantization, vector_bytes: int) -> GroupSchedule | None:
    """The schedule, or None where no axis is contiguous on both sides, or elements would begin in a byte."""
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
    found = GroupSchedule(quantization, run, False, lanes, batch, walked, outer, inner)
    if walked is None or walked.scale != 1 or not found.is_held:
        return found
    return replace(found, batches=_batches(walked.extent, batch, run.extent))


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
