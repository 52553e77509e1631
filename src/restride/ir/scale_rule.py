"""Rules for the scale of a group from its values, and for an element from its scale, as tree expressions."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log2

from ..dtypes import DataType
from .expression import Expr, Scalar, apply

LARGEST = {
    DataType.f4_e2m1: 6.0,
    DataType.f4_e3m0: 16.0,
    DataType.nf4: 1.0,
    DataType.f8_e4m3: 448.0,
    DataType.f8_e5m2: 57344.0,
    DataType.s8: 127.0,
    DataType.s4: 7.0,
    DataType.u8: 127.0,
    DataType.u4: 7.0,
}
"""The value of the largest magnitude of a group if the range is symmetric."""

MIDDLE = {DataType.u8: 128, DataType.u4: 8}
"""The representation of 0 in unsigned integers if the range is symmetric."""

ENDS = {DataType.s8: (-128, 127), DataType.s4: (-8, 7), DataType.u8: (0, 255), DataType.u4: (0, 15)}
"""The quantized range if groups have zero points."""

_LEAST_SCALE = {DataType.f16: 2.0**-24, DataType.f8_e4m3: 2.0**-9, DataType.f8_e5m2: 2.0**-16}
"""The smallest nonzero scales of the types that do not reach down to 2**-126."""

_MOST_SCALE = {
    DataType.f32: float.fromhex("0x1.fffffep127"),
    DataType.f16: 65504.0,
    DataType.bf16: float.fromhex("0x1.fep127"),
    DataType.f8_e4m3: 448.0,
    DataType.f8_e5m2: 57344.0,
}
_LEAST_NORMAL = 2.0**-126


@dataclass(frozen=True, slots=True)
class ScaleRule:
    """The rule for the scale of a group, by the types of its elements and of the scales.

    `is_two_level`: scales are relative to one more scale, that of the whole tensor. `has_zeros`: the range
    of a group is from its smallest to its largest value, including 0, and it has a zero point.
    """

    data_type: DataType
    scale_type: DataType
    is_two_level: bool = False
    has_zeros: bool = False

    @property
    def is_power(self) -> bool:
        """True if scales are powers of two, as in the MX formats."""
        return self.scale_type is DataType.e8m0

    @property
    def middle(self) -> int:
        """The representation of 0 if it is the same for all groups."""
        return 0 if self.has_zeros else MIDDLE.get(self.data_type, 0)

    @property
    def ends(self) -> tuple[str, ...]:
        """The statistics of a group: its largest magnitude, or the largest of its negated values and of its
        values.
        """
        return ("low", "high") if self.has_zeros else ("largest",)

    @property
    def zero_type(self) -> DataType:
        """The type of zero points before they are packed."""
        return DataType.s8 if self.data_type.kind == "int" else DataType.u8

    def scale(self, largest: Expr) -> Expr:
        """Return the scale for the largest magnitude of a group, in f32; 1 for a magnitude of 0.

        The tree's scalar 0 is the scale of the whole tensor, if there is one.
        """
        reach = LARGEST[self.data_type]
        if not self.is_power:
            exact = largest / reach
            return self.storable(exact / Scalar(0) if self.is_two_level else exact)
        if self.data_type.is_integral:
            # The least power of two at which nothing saturates.
            power = apply("binade_above", largest / reach)
        else:
            # The largest value falls into the last binade.
            power = apply("binade", largest) * 2.0 ** -floor(log2(reach))
        return apply("select", apply("gt", largest, 0.0), apply("max", _LEAST_NORMAL, power), 1.0)

    def divisor(self, scale: Expr) -> Expr:
        """Return the divisor of elements for a scale; for a power of two its reciprocal, which is exact."""
        if self.is_power:
            return 1.0 / scale
        return scale * Scalar(0) if self.is_two_level else scale

    def extent(self, low: Expr, high: Expr) -> Expr:
        """Return the exact scale for the smallest and the largest value of a group, in f64."""
        bottom, top = ENDS[self.data_type]
        return (apply("max", high, 0.0) - apply("min", low, 0.0)) / float(top - bottom)

    def zero_point(self, low: Expr, scale: Expr) -> Expr:
        """Return the zero point, in f64."""
        bottom, top = map(float, ENDS[self.data_type])
        exact = apply("round", bottom - apply("min", low, 0.0) / scale)
        return apply("min", top, apply("max", bottom, exact))

    def element(self, value: Expr, divisor: Expr, zero: Expr | None = None) -> Expr:
        """Return an element before it is rounded to its type."""
        value = value * divisor if self.is_power else value / divisor
        if zero is not None:
            value = apply("nan_to_zero", value) + zero
        if self.middle:
            value = apply("nan_to_zero", value) + float(self.middle)
        most = LARGEST[self.data_type]
        return apply("clip", value, -most, most) if self._is_clipped else value

    def storable(self, exact: Expr) -> Expr:
        """Clamp to values that the scale's type does not round to 0 or infinity."""
        most, least = _MOST_SCALE[self.scale_type], _LEAST_SCALE.get(self.scale_type, _LEAST_NORMAL)
        exact = apply("min", most, exact)
        return apply("max", least, apply("select", apply("gt", exact, 0.0), exact, 1.0))

    @property
    def _is_clipped(self) -> bool:
        """True if elements are 8-bit floats, which would become infinite or NaN beyond their limits."""
        return self.data_type in (DataType.f8_e4m3, DataType.f8_e5m2)
