"""Narrowing to bytes four registers at a time, by the saturating packs of x86.

A pack takes a register of 32-bit lanes from each of four parts of the elements, and writes bytes: within each
16 bytes, first the four lanes of the first part there, then those of the second, and so on. This order costs
nothing, since a permutation follows anyway. Compared with narrowing each register separately, it takes a
quarter of the instructions, and needs no lower limit, as packs saturate.
"""

from __future__ import annotations

from ..dtypes import DataType
from ..ir.conversion import FLOAT_LIMITS, is_integer_move
from ..ir.nest import Compute
from .builder import Builder, Value, element_of, lanes_of, vector
from .convert import splat_limits
from .register_permutation import Lanes

# The lanes of a part that are adjacent in 16 bytes, and the number of parts.
GROUP, PARTS = 4, 4

_X86 = "llvm.x86."
# By bytes of a register: words from two registers of integers, and bytes from two registers of words, signed
# and unsigned.
_TO_WORDS = {16: "sse2.packssdw.128", 32: "avx2.packssdw", 64: "avx512.packssdw.512"}
_TO_BYTES = {
    (16, "int"): "sse2.packsswb.128",
    (16, "uint"): "sse2.packuswb.128",
    (32, "int"): "avx2.packsswb",
    (32, "uint"): "avx2.packuswb",
    (64, "int"): "avx512.packsswb.512",
    (64, "uint"): "avx512.packuswb.512",
}
# f32 and f64 to 32-bit integers.
_ROUND = {16: "sse2.cvtps2dq", 32: "avx.cvt.ps2dq.256", 64: "avx512.mask.cvtps2dq.512"}
_ROUND_DOUBLES = {16: "sse2.cvtpd2dq", 32: "avx.cvt.pd2dq.256", 64: "avx512.mask.cvtpd2dq.512"}


def can_pack(src: DataType, dst: DataType, compute: Compute) -> bool:
    """Return whether values pass through 32-bit lanes on their way to a byte or less."""
    if is_small_float(dst):
        return src is not dst or not compute.is_move
    if not dst.is_integral or dst.bits > 8:
        return False
    return src is DataType.s32 or not is_integer_move(src, dst, compute)


def is_small_float(dst: DataType) -> bool:
    """Return whether it is a float of a byte or less: its codes pass through packs as unsigned numbers."""
    return dst.kind == "float" and dst.bits <= 8 and dst is not DataType.nf4


def parts_of(lanes: Lanes) -> list[Lanes]:
    """Return the elements of each part, from those of a packed register."""
    groups = [lanes[i : i + GROUP] for i in range(0, len(lanes), GROUP)]
    return [tuple(e for group in groups[part::PARTS] for e in group) for part in range(PARTS)]


def packed_order(lanes: Lanes) -> Lanes:
    """Return the elements of a packed register, from those of its parts one after another."""
    size = len(lanes) // PARTS
    return tuple(
        lanes[part * size + start + i]
        for start in range(0, size, GROUP)
        for part in range(PARTS)
        for i in range(GROUP)
    )


def integers_of(b: Builder, value: Value, dst: DataType, *, is_number: bool = False) -> Value:
    """Convert floats to integers that a pack saturates to `dst`: rounded half to even, NaN as 0 (N2, N4).

    Values below all integers become the lowest one by themselves; the upper limit must be applied, and the
    lower one for signed 4-bit types. If the lower limit is 0, comparing with it turns NaN into it.
    `is_number`: no value is NaN.
    """
    low, high = splat_limits(b, value, dst)
    has_sign, ordered = bool(FLOAT_LIMITS[dst][0]), None
    if has_sign and not is_number:
        ordered = b.compare("fcmp ord", value, value)
    if dst.bits == 4 if has_sign else not is_number:
        value = b.select(b.compare("fcmp ogt", value, low), value, low)
    value = b.select(b.compare("fcmp olt", value, high), value, high)
    rounded = _round(b, value)
    return rounded if ordered is None else b.select(ordered, rounded, Value(rounded.type, "zeroinitializer"))


def _round(b: Builder, value: Value) -> Value:
    if element_of(value) == "double":
        return _round_doubles(b, value)
    lanes = lanes_of(value)
    return _convert(b, value, vector("i32", lanes), _ROUND[4 * lanes])


def _round_doubles(b: Builder, value: Value) -> Value:
    """Round a register's worth at a time: a part of a packed register is two of f64."""
    lanes = lanes_of(value)
    half = lanes // 2
    # The narrowest conversion fills the upper half of its register with zeros.
    kind = vector("i32", max(half, 4))
    low, high = (
        _convert(b, b.shuffle(value, value, range(first, first + half)), kind, _ROUND_DOUBLES[8 * half])
        for first in (0, half)
    )
    start = lanes_of(low)
    return b.shuffle(low, high, (*range(half), *range(start, start + half)))


def _convert(b: Builder, value: Value, kind: str, name: str) -> Value:
    if not name.endswith(".512"):
        return b.call(kind, _X86 + name, f"{value}", value.type)
    # All lanes, with the current rounding mode.
    flags = f"i{max(lanes_of(value), 8)}"
    args = f"{value}, {kind} zeroinitializer, {flags} -1, i32 4"
    return b.call(kind, _X86 + name, args, f"{value.type}, {kind}, {flags}, i32")


def clamp(b: Builder, value: Value, dst: DataType) -> Value:
    """Clamp 32-bit integers as a pack saturates them to `dst`: only 4-bit types need explicit limits."""
    if dst.bits != 4:
        return value
    low, high = (int(limit) for limit in FLOAT_LIMITS[dst])
    lanes = lanes_of(value)
    raised = b.intrinsic("smax", value, b.splat("i32", lanes, str(low)))
    return b.intrinsic("smin", raised, b.splat("i32", lanes, str(high)))


def pack(b: Builder, parts: list[Value], dst: DataType) -> Value:
    """Return one register of bytes from four of 32-bit integers."""
    nbytes = 4 * lanes_of(parts[0])
    words, name = f"<{nbytes // 2} x i16>", _TO_WORDS[nbytes]
    low, high = (_two(b, words, name, parts[i], parts[i + 1]) for i in (0, 2))
    kind = "int" if dst.kind == "int" else "uint"
    return _two(b, f"<{nbytes} x i8>", _TO_BYTES[nbytes, kind], low, high)


def _two(b: Builder, kind: str, name: str, first: Value, second: Value) -> Value:
    return b.call(kind, _X86 + name, f"{first}, {second}", f"{first.type}, {second.type}")
