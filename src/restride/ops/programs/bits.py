"""Elements as integers: raw bits, indices, and integer keys ordered like the values.

Loops that only move or compare elements compute in integers: this preserves NaN payloads, and the same loops
serve every data type.
"""

from __future__ import annotations

from ...desc.memory_desc import MemoryDesc
from ...dtypes import DataType
from ...ir.conversion import NF4_NAN
from ...ir.expression import Const, Expr, apply
from ...ir.numbers import Number

# The bits of the largest number of each type: everything above is NaN.
_LARGEST = {
    DataType.f8_e5m2: 0x7C,
    DataType.f8_e4m3: 0x7E,
    DataType.f16: 0x7C00,
    DataType.bf16: 0x7F80,
    DataType.f32: 0x7F80_0000,
    DataType.f64: 0x7FF0_0000_0000_0000,
}


def as_bits(md: MemoryDesc) -> MemoryDesc:
    """Return a tensor whose loads give raw bits: booleans would load as 0 and 1, and 4-bit floats are only
    packed as integers.
    """
    if md.data_type is DataType.boolean:
        return md.as_type(DataType.u8)
    is_packed = md.data_type.bits < 8 and md.data_type.kind == "float"
    return md.as_type(DataType.u4) if is_packed else md


def number_of_bits(*mds: MemoryDesc) -> Number:
    """Return the integer type that holds all bits of an element of any of these."""
    return Number.integer(max(8, *(md.data_type.bits for md in mds)))


def zero_bits(data_type: DataType) -> int:
    """Return the bits of the element 0."""
    return NF4_NAN if data_type is DataType.nf4 else 0


def as_indices(md: MemoryDesc) -> MemoryDesc:
    """Return a tensor of indices as loops read it: u64 values past 63 bits are out of range of any dim."""
    return md.as_type(DataType.s64) if md.data_type is DataType.u64 else md


# --- order --------------------------------------------------------------------------------------------------


def number_of_keys(data_type: DataType) -> Number:
    """Return the integer type of the keys of a type, and of positions next to them."""
    is_wide = data_type.bits == 64 or data_type is DataType.u32
    return Number.i64 if is_wide else Number.i32


def key_of(value: Expr, data_type: DataType) -> Expr:
    """Return an integer key for the bits of an element: larger for larger elements, equal for equal ones.

    -0 equals 0, and NaN is above everything: the largest integer.
    """
    if data_type is DataType.e8m0:
        return apply("and", value, 255)
    if data_type is DataType.nf4 or data_type.kind != "float":
        return value + -(2.0**63) if data_type is DataType.u64 else value
    if data_type.bits == 4:
        value = apply("select", apply("lt", value, 8), value, value - 16)
    # Floats are sign and magnitude: a negative one becomes the complement of its magnitude.
    least = Const(-(1 << data_type.bits - 1))
    key = apply("select", apply("lt", value, 0), apply("sub", least, value), value)
    largest = _LARGEST.get(data_type)
    if largest is None:
        return key
    size = apply("max", key, apply("sub", 0, key))
    return apply("select", apply("gt", size, Const(largest)), NEVER, key)


NEVER = Const(float("inf"))
"""The largest integer: the key of NaN."""
LEAST = Const(-float("inf"))
"""The smallest integer."""


def downwards(key: Expr) -> Expr:
    """Reverse the order of keys."""
    return apply("sub", -1, key)
