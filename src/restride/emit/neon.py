"""Conversions by the instructions of AArch64: floats to integers, integers to narrower ones, bytes by tables.

`fcvtns` rounds half to even, saturates to 32 or 64 bits with a sign, and makes 0 of a NaN (N2, N4); `fcvtnu`
does the same without a sign. What narrows saturates too, to half of the bits at a time; LLVM picks `sqxtn`
and `sqxtun` for limits like these. So no limit is compared with as a float: of such a comparison and the
selection after it LLVM 22 makes `fmaxnm`, which keeps a signalling NaN.

`tbl` looks bytes up in up to four registers. What lies behind them gives 0, or with `tbx` what was there
before: so a table of 256 bytes takes four steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..dtypes import DataType
from ..ir.conversion import DOUBLE_LIMITS, FLOAT_LIMITS, INTEGER_LIMITS
from .builder import Builder, Value, element_of, lanes_of, vector

REGISTER = 16
"""Bytes of a register."""
_TO_NEAREST = {"int": "llvm.aarch64.neon.fcvtns", "uint": "llvm.aarch64.neon.fcvtnu"}
# Integers as wide as floats, and doubles.
_INTEGERS = {"float": ("i32", 32), "double": ("i64", 64)}


def nearest_integers(b: Builder, value: Value, dst: DataType) -> Value:
    """Real numbers as integers of a type, in lanes that carry it."""
    limits = FLOAT_LIMITS if element_of(value) == "float" else DOUBLE_LIMITS
    if dst.bits > _INTEGERS[element_of(value)][1]:
        value = b.cast("fpext", value, "double")
    kind, bits = _INTEGERS[element_of(value)]
    # What is as wide has limits of its own; to what is narrower integers with a sign are narrowed.
    sign = dst.kind if dst.bits == bits else "int"
    size = 8 * REGISTER // bits
    full, name = vector(kind, size), f"{_TO_NEAREST[sign]}.v{size}i{bits}.v{size}f{bits}"
    pieces = [b.lanes(value, first, size) for first in range(0, lanes_of(value), size)]
    whole = b.join([b.call(full, name, str(piece), piece.type) for piece in pieces])
    rounded = b.lanes(whole, 0, lanes_of(value))
    if dst.bits < bits:
        return narrow(b, rounded, dst)
    # From 2**31 on all become the largest float below it, of other types likewise (N3).
    most = b.splat(kind, lanes_of(rounded), str(int(limits[dst][1])))
    return b.intrinsic("umin" if sign == "uint" else "smin", rounded, most)


def narrow(b: Builder, v: Value, dst: DataType) -> Value:
    """Integers with a sign, in lanes of more bits than the type has, saturated to it half by half."""
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
    """Bytes of one register as a table of 16 or of 256 says; of 16 by the lower half of each byte."""
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
