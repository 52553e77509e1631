"""Conversions by instructions of AArch64: floats to integers, integers to narrower ones, bytes by tables.

`fcvtns` rounds half to even, saturates to signed 32 or 64 bits, and converts NaN to 0 (N2, N4); `fcvtnu` does
the same for unsigned. Narrowing saturates too, to half of the bits at a time; LLVM selects `sqxtn` and
`sqxtun` for such limits. So limits are never compared as floats: LLVM 22 would turn such a comparison and
selection into `fmaxnm`, which keeps a signaling NaN.

`tbl` looks bytes up in up to four registers. Indices past them give 0, or with `tbx` keep the old value: so a
table of 256 bytes takes four steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtypes import DataType
from ..ir.conversion import DOUBLE_LIMITS, FLOAT_LIMITS, INTEGER_LIMITS
from .builder import Builder, Value, element_of, lanes_of, vector

REGISTER = 16
"""The bytes of a register."""
_TO_NEAREST = {"int": "llvm.aarch64.neon.fcvtns", "uint": "llvm.aarch64.neon.fcvtnu"}
# The integer types as wide as f32 and f64.
_INTEGERS = {"float": ("i32", 32), "double": ("i64", 64)}


def nearest_integers(b: Builder, value: Value, dst: DataType) -> Value:
    """Convert reals to integers of a type, in lanes that carry it."""
    limits = FLOAT_LIMITS if element_of(value) == "float" else DOUBLE_LIMITS
    if dst.bits > _INTEGERS[element_of(value)][1]:
        value = b.cast("fpext", value, "double")
    kind, bits = _INTEGERS[element_of(value)]
    # The widest types have their own limits; signed integers are narrowed to the other types.
    sign = dst.kind if dst.bits == bits else "int"
    size = 8 * REGISTER // bits
    full, name = vector(kind, size), f"{_TO_NEAREST[sign]}.v{size}i{bits}.v{size}f{bits}"
    pieces = [b.lanes(value, first, size) for first in range(0, lanes_of(value), size)]
    whole = b.join([b.call(full, name, str(piece), piece.type) for piece in pieces])
    rounded = b.lanes(whole, 0, lanes_of(value))
    if dst.bits < bits:
        return narrow(b, rounded, dst)
    # From 2**31 on, all become the largest float below it; for other types likewise (N3).
    most = b.splat(kind, lanes_of(rounded), str(int(limits[dst][1])))
    return b.intrinsic("umin" if sign == "uint" else "smin", rounded, most)


def narrow(b: Builder, v: Value, dst: DataType) -> Value:
    """Saturate signed integers in wider lanes to a type, halving the width each time."""
    bits = int(element_of(v)[1:])
    while bits > max(dst.bits, 8):
        bits //= 2
        last = bits <= max(dst.bits, 8)
        low, high = _limits(bits, dst.kind if last else "int")
        v = b.cast("trunc", _clamp(b, v, low, high), f"i{bits}")
    if dst.bits >= bits:
        return v
    low, high = INTEGER_LIMITS[dst]
    if dst.kind == "uint":
        return b.intrinsic("umin", v, b.splat(f"i{bits}", lanes_of(v), str(high)))
    return _clamp(b, v, low, high)


def _limits(bits: int, kind: str) -> tuple[int, int]:
    if kind == "uint":
        return 0, (1 << bits) - 1
    return -(1 << bits - 1), (1 << bits - 1) - 1


def _clamp(b: Builder, v: Value, low: int, high: int) -> Value:
    lanes, kind = lanes_of(v), element_of(v)
    raised = b.intrinsic("smax", v, b.splat(kind, lanes, str(low)))
    return b.intrinsic("smin", raised, b.splat(kind, lanes, str(high)))


def look_up(b: Builder, v: Value, codes: Sequence[int]) -> Value:
    """Look up the bytes of one register in a table of 16 or 256; for 16, by the lower half of each byte."""
    rows = [_row(codes[first : first + REGISTER]) for first in range(0, len(codes), REGISTER)]
    if len(rows) == 1:
        return _table(b, "tbl1", rows, b.op("and", v, b.splat("i8", REGISTER, "15")))
    result = _table(b, "tbl4", rows[:4], v)
    for first in range(4, len(rows), 4):
        rest = b.op("sub", v, b.splat("i8", REGISTER, str(REGISTER * first)))
        result = _table(b, "tbx4", [result, *rows[first : first + 4]], rest)
    return result


def _table(b: Builder, name: str, rows: Sequence[Value], v: Value) -> Value:
    args = [*rows, v]
    types = ", ".join(arg.type for arg in args)
    return b.call(v.type, f"llvm.aarch64.neon.{name}.v{REGISTER}i8", ", ".join(map(str, args)), types)


def _row(codes: Sequence[int]) -> Value:
    return Value(vector("i8", REGISTER), "<" + ", ".join(f"i8 {code}" for code in codes) + ">")
