"""The scales of groups: from the keys of their largest values to numbers, as `ScaleRule` says."""

from __future__ import annotations

from collections.abc import Sequence

from ..dtypes import DataType
from ..ir.arithmetic import Term
from ..ir.ranges import NOT_FINITE, ends_of
from ..ir.scale_rule import ScaleRule
from .builder import Builder, Value, element_of, lanes_of
from .compute import VectorArithmetic
from .convert import Abilities, from_real, to_real


class ScaleWriter:
    """Writes scales and zero points, those of a vector of groups at a time. `tensor_scale` is one float."""

    def __init__(
        self, b: Builder, rule: ScaleRule, src_type: DataType, tensor_scale: Value, can: Abilities
    ) -> None:
        self.b, self.rule, self.src_type, self.can = b, rule, src_type, can
        self.tensor_scale = tensor_scale
        self.real = VectorArithmetic(b, can.round_even)

    def write(self, keys: Sequence[Value], scale_at: Value, zero_at: Value) -> tuple[Value, ...]:
        """Write the scales of groups and their zero points; what values are divided by, and what is added.

        Of a scale that is a power of two its reciprocal is given, by which they are multiplied.
        """
        b = self.b
        if self.rule.has_zeros:
            low, high = self._ends(keys)
            scale, zero = self.rule.ranged(low, high, self._stored)
            self._store(scale, scale_at)
            kind = DataType.s8 if self.rule.data_type.kind == "int" else DataType.u8
            shift = self.real.narrow(zero.value, scale.value)
            b.line(f"store {from_real(b, shift, kind, self.can)}, {zero_at}, align 1")
            return scale.value, shift
        bias = _constant(keys[0], ends_of(self.src_type)[1])
        bits = b.op("sub", b.intrinsic("smax", keys[0], bias), bias)
        whole = Term(self.real, b.broadcast(self.tensor_scale, lanes_of(bits)))
        scale, used = self.rule.scales(
            self._number(bits), whole if self.rule.is_two_level else None, self._stored
        )
        self._store(scale, scale_at)
        return ((1.0 / used).value if self.rule.is_power else used.value,)

    def _ends(self, keys: Sequence[Value]) -> tuple[Term[Value], Term[Value]]:
        """The smallest and the largest values; 0 where nothing is finite (`ir/ranges.py`)."""
        b, ends = self.b, []
        bias, limit = ends_of(self.src_type)[1], NOT_FINITE[self.src_type]
        for key in keys:
            is_none = b.compare("icmp slt", key, _constant(key, bias - limit))
            plain = b.op("sub", key, _constant(key, bias))
            plain = b.select(is_none, Value(key.type, "zeroinitializer"), plain)
            sign = b.op("ashr", plain, _constant(key, self.src_type.bits - 1))
            most = _constant(key, (1 << self.src_type.bits - 1) - 1)
            ends.append(self._number(b.op("xor", plain, b.op("and", sign, most))))
        return 0.0 - ends[0], ends[1]

    def _number(self, bits: Value) -> Term[Value]:
        return Term(self.real, to_real(self.b, bits, self.src_type, "float", self.can))

    def _stored(self, scales: Term[Value]) -> Term[Value]:
        """The values of floats, or of doubles that are floats, in the type of the scales."""
        b, kind = self.b, self.rule.scale_type
        value = scales.value
        if element_of(value) == "double":
            value = b.cast("fptrunc", value, "float")
        if kind is not DataType.f32:
            value = to_real(b, from_real(b, value, kind, self.can), kind, "float", self.can)
        return Term(self.real, value)

    def _store(self, scale: Term[Value], at: Value) -> None:
        held = from_real(self.b, scale.value, self.rule.scale_type, self.can)
        self.b.line(f"store {held}, {at}, align 1")


def _constant(like: Value, number: int) -> Value:
    return Value(like.type, f"splat ({element_of(like)} {number})")
