"""How the scale of a group comes from its values, over any arithmetic (`ir/arithmetic.py`): NumPy's where
scales are computed apart, vectors of LLVM in the kernel that does all in one pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import floor, log2

from ..dtypes import DataType
from .arithmetic import Term, V
from .nest import Compute, Step

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
        """The number of numbers of its group an element is computed with."""
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
