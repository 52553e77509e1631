"""One vector of values from one data type to another, as the numeric contract says (N1 to N6).

Vectors carry bits: the element type of every value here is an integer as wide as the data type.
`plan/contract.py` is the definition; this must match it bit for bit on every instruction set.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..dtypes import DataType
from ..plan.contract import FLOAT_LIMITS, is_integer_move
from ..plan.nest import Compute
from .builder import Builder, Value, lanes_of, vector

# Adding 1.5 * 2**23 to a float of magnitude below 2**22 rounds it half to even into the low mantissa bits.
_ROUND_FLOAT, _ROUND_BITS = "12582912.0", 0x4B400000
_QUIET_NAN = 0x7FC00000


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the instruction set converts by itself, with the right bits."""

    half: bool = False
    round_even: bool = False
    masks: bool = False


@dataclass(frozen=True, slots=True)
class Factors:
    """alpha and beta as scalar float values, where the nest has them."""

    alpha: Value | None = None
    beta: Value | None = None


def bits_type(data_type: DataType) -> str:
    """The IR integer type that carries a data type."""
    return f"i{data_type.bits}"


def convert(b: Builder, v: Value, src: DataType, dst: DataType, can: Abilities) -> Value:
    """Convert without arithmetic: saturate, round half to even, keep NaN signs."""
    if src is dst:
        return v
    if is_integer_move(src, dst, Compute()):
        return _saturate_integers(b, v, src, dst)
    return _from_float(b, _to_float(b, v, src, can), dst, can)


def compute(
    b: Builder,
    v: Value,
    old: Value | None,
    types: tuple[DataType, DataType],
    factors: Factors,
    can: Abilities,
) -> Value:
    """`saturate(alpha * v + beta * old)`, rounded after each step; a NaN result is the one quiet NaN."""
    src, dst = types
    value = _to_float(b, v, src, can)
    lanes = lanes_of(v)
    if factors.alpha is not None:
        value = b.op("fmul", b.broadcast(factors.alpha, lanes), value)
    if factors.beta is not None and old is not None:
        value = b.op(
            "fadd", value, b.op("fmul", b.broadcast(factors.beta, lanes), _to_float(b, old, dst, can))
        )
    if not dst.is_integral:
        value = _canonical_nan(b, value)
    return _from_float(b, value, dst, can)


def _canonical_nan(b: Builder, value: Value) -> Value:
    lanes = lanes_of(value)
    is_nan = b.compare("fcmp uno", value, value)
    quiet = b.splat("i32", lanes, str(_QUIET_NAN))
    return b.bitcast(b.select(is_nan, quiet, b.bitcast(value, "i32")), "float")


def _saturate_integers(b: Builder, v: Value, src: DataType, dst: DataType) -> Value:
    lanes = lanes_of(v)
    low, high = (int(limit) for limit in FLOAT_LIMITS[dst])
    if dst is DataType.s32:
        return b.cast("zext" if src is DataType.u8 else "sext", v, "i32")
    if src is DataType.u8:
        return b.intrinsic("umin", v, b.splat("i8", lanes, str(high)))
    kind = bits_type(src)
    v = b.intrinsic("smax", v, b.splat(kind, lanes, str(low)))
    if src is DataType.s8:
        return v
    return b.cast("trunc", b.intrinsic("smin", v, b.splat(kind, lanes, str(high))), "i8")


def _to_float(b: Builder, v: Value, src: DataType, can: Abilities) -> Value:
    if src is DataType.f32:
        return b.bitcast(v, "float")
    if src is DataType.bf16:
        wide = b.cast("zext", v, "i32")
        return b.bitcast(b.op("shl", wide, b.splat("i32", lanes_of(v), "16")), "float")
    if src is DataType.f16:
        return b.cast("fpext", b.bitcast(v, "half"), "float") if can.half else _half_to_float(b, v)
    return b.cast("uitofp" if src is DataType.u8 else "sitofp", v, "float")


def _from_float(b: Builder, value: Value, dst: DataType, can: Abilities) -> Value:
    if dst is DataType.f32:
        return b.bitcast(value, "i32")
    if dst is DataType.bf16:
        return _float_to_bfloat(b, b.bitcast(value, "i32"))
    if dst is DataType.f16:
        half = b.bitcast(b.cast("fptrunc", value, "half"), "i16") if can.half else None
        return half if half is not None else _float_to_half(b, b.bitcast(value, "i32"))
    return _float_to_integer(b, value, dst, can)


def _float_to_integer(b: Builder, value: Value, dst: DataType, can: Abilities) -> Value:
    lanes = lanes_of(value)
    low, high = (b.splat("float", lanes, f"{limit:.1f}") for limit in FLOAT_LIMITS[dst])
    if (
        dst is not DataType.u8
    ):  # for u8 the lower limit is what a NaN must become: the comparison below does it
        ordered = b.compare("fcmp ord", value, value)
        value = b.select(ordered, value, b.splat("float", lanes, "0.0"))
    value = b.select(b.compare("fcmp ogt", value, low), value, low)
    value = b.select(b.compare("fcmp olt", value, high), value, high)
    if dst is DataType.s32:
        return b.cast("fptosi", _round_even(b, value, can), "i32")
    shifted = b.bitcast(b.op("fadd", value, b.splat("float", lanes, _ROUND_FLOAT)), "i32")
    return b.cast("trunc", b.op("sub", shifted, b.splat("i32", lanes, str(_ROUND_BITS))), "i8")


def _round_even(b: Builder, value: Value, can: Abilities) -> Value:
    """Round half to even where the magnitude is below 2**23; above it every float is whole."""
    if can.round_even:
        return b.intrinsic("roundeven", value)
    lanes = lanes_of(value)
    limit = b.splat("float", lanes, "8388608.0")
    magic = b.intrinsic("copysign", limit, value)
    rounded = b.op("fsub", b.op("fadd", value, magic), magic)
    small = b.compare("fcmp olt", b.intrinsic("fabs", value), limit)
    return b.select(small, rounded, value)


def _float_to_bfloat(b: Builder, bits: Value) -> Value:
    def constant(number: int) -> Value:
        return b.splat("i32", lanes_of(bits), str(number))

    high = b.op("lshr", bits, constant(16))
    bias = b.op("add", b.op("and", high, constant(1)), constant(0x7FFF))
    rounded = b.op("lshr", b.op("add", bits, bias), constant(16))
    is_nan = b.compare("icmp ugt", b.op("and", bits, constant(0x7FFFFFFF)), constant(0x7F800000))
    return b.cast("trunc", b.select(is_nan, b.op("or", high, constant(0x40)), rounded), "i16")


def _half_to_float(b: Builder, v: Value) -> Value:
    wide = b.cast("zext", v, "i32")

    def constant(number: int) -> Value:
        return b.splat("i32", lanes_of(v), str(number))

    sign = b.op("shl", b.op("and", wide, constant(0x8000)), constant(16))
    magnitude = b.op("and", wide, constant(0x7FFF))
    shifted = b.op("shl", magnitude, constant(13))
    normal = b.op("add", shifted, constant((127 - 15) << 23))
    special = b.op("or", shifted, constant(0x7F800000))
    quiet = b.op("or", special, constant(0x400000))
    is_nan = b.compare("icmp ugt", magnitude, constant(0x7C00))
    is_special = b.compare("icmp uge", magnitude, constant(0x7C00))
    is_small = b.compare("icmp ult", magnitude, constant(0x400))
    tiny = b.op(
        "fmul", b.cast("uitofp", magnitude, "float"), b.splat("float", lanes_of(v), "0x3E70000000000000")
    )
    result = b.select(is_small, b.bitcast(tiny, "i32"), normal)
    result = b.select(is_nan, quiet, b.select(is_special, special, result))
    return b.bitcast(b.op("or", result, sign), "float")


def _float_to_half(b: Builder, bits: Value) -> Value:
    def constant(number: int) -> Value:
        return b.splat("i32", lanes_of(bits), str(number))

    sign = b.op("and", b.op("lshr", bits, constant(16)), constant(0x8000))
    magnitude = b.op("and", bits, constant(0x7FFFFFFF))
    odd = b.op("and", b.op("lshr", magnitude, constant(13)), constant(1))
    rounded = b.op("lshr", b.op("add", b.op("add", magnitude, constant(0xFFF)), odd), constant(13))
    normal = b.op("sub", rounded, constant((127 - 15) << 10))
    # Adding 0.5, whose last place is the subnormal step 2**-24, rounds a small value half to even.
    half = b.splat("float", lanes_of(bits), "0.5")
    small = b.op(
        "sub", b.bitcast(b.op("fadd", b.bitcast(magnitude, "float"), half), "i32"), constant(0x3F000000)
    )
    payload = b.op("and", b.op("lshr", magnitude, constant(13)), constant(0x1FF))
    quiet = b.op("or", payload, constant(0x7E00))
    result = b.select(b.compare("icmp ult", magnitude, constant(0x38800000)), small, normal)
    result = b.select(b.compare("icmp uge", magnitude, constant(0x477FF000)), constant(0x7C00), result)
    result = b.select(b.compare("icmp ugt", magnitude, constant(0x7F800000)), quiet, result)
    return b.cast("trunc", b.op("or", result, sign), "i16")


def zeros(data_type: DataType, lanes: int) -> Value:
    """A vector of zero bits."""
    return Value(vector(bits_type(data_type), lanes), "zeroinitializer")
