"""Floats narrower than 32 bits by integer arithmetic: of 16, 8 and 4 bits, also from f64."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass

from ..dtypes import DataType
from .builder import Builder, Value, element_of, lanes_of, vector


@dataclass(frozen=True, slots=True)
class _Format:
    """A small binary float format. Codes from `special` on are not finite.

    Values that round past the largest one become `beyond`, the code that would follow it.
    `keeps_payload`: a NaN keeps its leading mantissa bits (N5); otherwise it is `nan`.
    """

    bits: int
    mantissa: int
    bias: int
    beyond: int
    nan: int
    special: int
    keeps_payload: bool = False

    @property
    def shift(self) -> int:
        """The mantissa bits of f32 that are rounded away."""
        return 23 - self.mantissa

    @property
    def least_nan(self) -> int:
        """The first code that is NaN."""
        return self.special + (self.special != self.nan)

    @property
    def smallest_normal(self) -> int:
        """The smallest normal magnitude, as f32 bits."""
        return (127 + 1 - self.bias) << 23

    def widened(self, code: int) -> int:
        """Return the f32 bits of a magnitude that is not subnormal, by its code; as if none were special."""
        return (code << self.shift) + ((127 - self.bias) << 23)


# e4m3 has no infinity.
_FORMATS = {
    DataType.f16: _Format(16, 10, 15, 0x7C00, 0x7E00, 0x7C00, keeps_payload=True),
    DataType.f8_e5m2: _Format(8, 2, 15, 0x7C, 0x7E, 0x7C),
    DataType.f8_e4m3: _Format(8, 3, 7, 0x7F, 0x7F, 0x7F),
    # All codes are numbers, the last one is the largest. NaN becomes a zero of opposite sign.
    DataType.f4_e2m1: _Format(4, 1, 1, 7, 8, 8),
    DataType.f4_e3m0: _Format(4, 0, 3, 7, 8, 8),
}
# A 16-bit float that holds any 8-bit one: mantissa bits, bias, infinity and the quiet NaN.
_WIDER = {DataType.bf16: (7, 127, 0x7F80, 0x7FC0), DataType.f16: (10, 15, 0x7C00, 0x7E00)}


# The lanes of two 64-byte registers.
_PICKED = 32


def splat(b: Builder, like: Value, element: str, number: int) -> Value:
    """Return an integer constant in as many lanes as `like` has."""
    return b.splat(element, lanes_of(like), str(number))


def _power(exponent: int) -> str:
    """Return 2**exponent in LLVM's syntax for floats: the bits of the f64."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', 2.0**exponent))[0]:016X}"


def small_to_float(b: Builder, v: Value, src: DataType) -> Value:
    """Convert a small float to f32: exact, NaNs quiet."""
    form = _FORMATS[src]
    wide = b.cast("zext", v, "i32")

    def constant(number: int) -> Value:
        return splat(b, v, "i32", number)

    top = 1 << (form.bits - 1)
    sign = b.op("shl", b.op("and", wide, constant(top)), constant(32 - form.bits))
    magnitude = b.op("and", wide, constant(top - 1))
    shifted = b.op("shl", magnitude, constant(form.shift))
    normal = b.op("add", shifted, constant((127 - form.bias) << 23))
    step = b.splat("float", lanes_of(v), _power(1 - form.bias - form.mantissa))
    tiny = b.op("fmul", b.cast("uitofp", magnitude, "float"), step)
    is_tiny = b.compare("icmp ult", magnitude, constant(1 << form.mantissa))
    result = b.select(is_tiny, b.bitcast(tiny, "i32"), normal)
    result = _with_specials(b, result, magnitude, shifted, form)
    return b.bitcast(b.op("or", result, sign), "float")


def small_to_float_by_half(b: Builder, v: Value, src: DataType) -> Value:
    """Do the same for 8 bits if an instruction converts f16, whose exponent bias is equal or 8 higher."""
    form, half = _FORMATS[src], _FORMATS[DataType.f16]

    def constant(number: int) -> Value:
        return splat(b, v, "i16", number)

    shift = half.mantissa - form.mantissa
    shifted = b.op("shl", b.cast("sext", v, "i16"), constant(shift))
    sign = b.op("and", shifted, constant(0x8000))
    # With fewer exponent bits, as in e4m3, those below the sign repeat the sign.
    value = shifted
    if form.bias != half.bias:
        value = b.op("and", shifted, constant(0x8000 | (0x80 << shift) - 1))
    magnitude = b.op("and", v, splat(b, v, "i8", 0x7F))
    if form.bias != half.bias and form.special < form.least_nan:
        is_infinite = b.compare("icmp eq", magnitude, splat(b, v, "i8", form.special))
        value = b.select(is_infinite, b.op("or", sign, constant(half.special)), value)
    is_nan = b.compare("icmp sgt", magnitude, splat(b, v, "i8", form.least_nan - 1))
    value = b.select(is_nan, b.op("or", sign, constant(half.nan)), value)
    wide = b.cast("fpext", b.bitcast(value, "half"), "float")
    if form.bias == half.bias:
        return wide
    return b.op("fmul", wide, b.splat("float", lanes_of(v), _power(half.bias - form.bias)))


def can_widen(src: DataType, dst: DataType) -> bool:
    """Return whether a float of 4 or 8 bits becomes a 16-bit one that holds all its values."""
    return src in _FORMATS and src.bits <= 8 and dst in _WIDER


def widen_small(b: Builder, v: Value, src: DataType, dst: DataType) -> Value:
    """Convert a float of 4 or 8 bits to 16: exact, NaNs quiet. In 16-bit lanes, half the work of f32."""
    form, (_, _, infinity, nan) = _FORMATS[src], _WIDER[dst]
    wide = b.cast("zext", v, "i16")

    def constant(number: int) -> Value:
        return splat(b, v, "i16", number)

    top = 1 << (form.bits - 1)
    magnitude = b.op("and", wide, constant(top - 1))
    result = _widen_finite(b, magnitude, form, dst)
    if form.special < form.least_nan:
        result = b.select(b.compare("icmp eq", magnitude, constant(form.special)), constant(infinity), result)
    if form.least_nan < top:
        result = b.select(b.compare("icmp uge", magnitude, constant(form.least_nan)), constant(nan), result)
    sign = b.op("and", b.op("shl", wide, constant(16 - form.bits)), constant(0x8000))
    return b.op("or", result, sign)


def _widen_finite(b: Builder, magnitude: Value, form: _Format, dst: DataType) -> Value:
    """Convert finite magnitudes; subnormals become normal, each leading bit with its own exponent."""
    mantissa, bias, *_ = _WIDER[dst]

    def constant(number: int) -> Value:
        return splat(b, magnitude, "i16", number)

    if form.mantissa == 0:
        normal = b.op("shl", magnitude, constant(mantissa))
        normal = b.op("add", normal, constant((bias - form.bias) << mantissa))
        return b.select(b.compare("icmp eq", magnitude, constant(0)), constant(0), normal)

    def with_leading_bit(top: int) -> Value:
        exponent = bias - form.bias + 1 - form.mantissa + top
        if top == 0:
            # 0 or 1: the product is right for both.
            return b.op("mul", magnitude, constant(exponent << mantissa))
        shifted = b.op("shl", magnitude, constant(mantissa - top))
        return b.op("add", shifted, constant((exponent - 1) << mantissa))

    result = with_leading_bit(form.mantissa)
    if bias == form.bias:
        return result
    for top in range(form.mantissa - 1, -1, -1):
        is_below = b.compare("icmp ult", magnitude, constant(2 << top))
        result = b.select(is_below, with_leading_bit(top), result)
    return result


def exponent_to_float(b: Builder, v: Value) -> Value:
    """Convert e8m0, powers of two by exponent, to f32: 0 is 2**-127, 255 is NaN."""
    wide = b.cast("zext", v, "i32")
    normal = b.op("shl", wide, splat(b, v, "i32", 23))
    is_least = b.compare("icmp eq", wide, splat(b, v, "i32", 0))
    is_nan = b.compare("icmp eq", wide, splat(b, v, "i32", 255))
    result = b.select(is_least, splat(b, v, "i32", 0x00400000), normal)
    return b.bitcast(b.select(is_nan, splat(b, v, "i32", 0x7FC00000), result), "float")


def _with_specials(b: Builder, result: Value, magnitude: Value, shifted: Value, form: _Format) -> Value:
    def constant(number: int) -> Value:
        return splat(b, magnitude, "i32", number)

    quiet = constant(0x7FC00000)
    if form.special >= 1 << (form.bits - 1):
        return result
    if form.special == form.nan:
        return b.select(b.compare("icmp uge", magnitude, constant(form.special)), quiet, result)
    if form.keeps_payload:
        quiet = b.op("or", shifted, quiet)
    infinity = constant(0x7F800000)
    result = b.select(b.compare("icmp uge", magnitude, constant(form.special)), infinity, result)
    return b.select(b.compare("icmp ugt", magnitude, constant(form.special)), quiet, result)


def float_to_small(b: Builder, bits: Value, dst: DataType) -> Value:
    """Convert f32 bits to a small float: half to even, subnormals kept. A 4-bit one takes a byte."""
    return b.cast("trunc", small_code(b, bits, dst), f"i{max(dst.bits, 8)}")


def small_code(b: Builder, bits: Value, dst: DataType) -> Value:
    """Do the same in 32-bit lanes."""
    if dst is DataType.e8m0:
        return _exponent_code(b, bits)
    form = _FORMATS[dst]

    def constant(number: int) -> Value:
        return splat(b, bits, "i32", number)

    magnitude = b.op("and", bits, constant(0x7FFFFFFF))
    capped = _select_ordered(b, "olt", magnitude, form.widened(form.beyond))
    result = _round_to_code(b, capped, form) if form.mantissa else _round_to_power(b, capped, form)
    if form.nan != form.beyond:
        is_nan = b.compare("icmp sgt", magnitude, constant(0x7F800000))
        result = b.select(is_nan, _nan(b, magnitude, form), result)
    top = 1 << (form.bits - 1)
    sign = b.op("and", b.op("lshr", bits, constant(32 - form.bits)), constant(top))
    return b.op("or" if form.nan < top else "xor", result, sign)


def _exponent_code(b: Builder, bits: Value) -> Value:
    """Convert f32 bits to e8m0: a tie between powers of two rounds up, invalid numbers become NaN."""

    def constant(number: int) -> Value:
        return splat(b, bits, "i32", number)

    # Negative numbers and NaN count as infinity, which becomes code 255 below.
    capped = b.intrinsic("umin", bits, constant(0x7F800000))
    # Values above the least power round up to the next.
    is_subnormal = b.compare("icmp ult", capped, constant(0x00800000))
    half = b.select(is_subnormal, constant(0x003FFFFF), constant(0x00400000))
    code = b.op("lshr", b.op("add", capped, half), constant(23))
    return b.select(b.compare("icmp eq", bits, constant(0)), constant(255), code)


def _round_to_power(b: Builder, magnitude: Value, form: _Format) -> Value:
    """Return the code of a magnitude up to the largest, if codes are exponents: the even code at a tie."""

    def constant(number: int) -> Value:
        return splat(b, magnitude, "i32", number)

    last = b.op("and", b.op("lshr", magnitude, constant(23)), constant(1))
    rounded = b.op("lshr", b.op("add", magnitude, b.op("add", last, constant(0x3FFFFF))), constant(23))
    # Between 0 and the first code, the tie is at half of it, which is a power of two.
    is_above = b.compare("icmp ugt", magnitude, constant(form.smallest_normal - (1 << 23)))
    first = b.cast("zext", is_above, "i32")
    return b.intrinsic("smax", b.op("sub", rounded, constant(127 - form.bias)), first)


def _select_ordered(b: Builder, name: str, bits: Value, number: int) -> Value:
    """Select floats, as bits, for which a comparison with a number holds, else the number; NaN too.

    Not by comparing integers: LLVM would track each of their bits, and take half as long again.
    """
    value, limit = (b.bitcast(v, "float") for v in (bits, splat(b, bits, "i32", number)))
    return b.bitcast(b.select(b.compare(f"fcmp {name}", value, limit), value, limit), "i32")


def _round_to_code(b: Builder, magnitude: Value, form: _Format) -> Value:
    """Return the code of a magnitude up to `beyond`: its steps in its binade, after those of lower binades.

    Adding the power of two whose last place is such a step rounds to whole steps, half to even.
    """

    def constant(number: int) -> Value:
        return splat(b, magnitude, "i32", number)

    exponent = b.op("and", magnitude, constant(0x7F800000))
    binade = _select_ordered(b, "ogt", exponent, form.smallest_normal)
    base = b.op("add", binade, constant(form.shift << 23))
    total = b.op("fadd", b.bitcast(magnitude, "float"), b.bitcast(base, "float"))
    steps = b.op("sub", b.bitcast(total, "i32"), base)
    below = b.op("lshr", b.op("sub", binade, constant(form.smallest_normal)), constant(form.shift))
    return b.op("add", steps, below)


def _nan(b: Builder, magnitude: Value, form: _Format) -> Value:
    """Return the result for a NaN of this f32 magnitude."""
    nan = splat(b, magnitude, "i32", form.nan)
    if not form.keeps_payload:
        return nan
    payload = b.op("lshr", magnitude, splat(b, magnitude, "i32", form.shift))
    return b.op("or", nan, b.op("and", payload, splat(b, magnitude, "i32", (1 << form.mantissa) - 1)))


def float_to_bfloat(b: Builder, bits: Value) -> Value:
    """Convert f32 bits to bf16: half to even, subnormals kept, a NaN keeps sign and leading payload."""

    def constant(number: int) -> Value:
        return splat(b, bits, "i32", number)

    high = b.op("lshr", bits, constant(16))
    bias = b.op("add", b.op("and", high, constant(1)), constant(0x7FFF))
    rounded = b.op("lshr", b.op("add", bits, bias), constant(16))
    is_nan = b.compare("icmp ugt", b.op("and", bits, constant(0x7FFFFFFF)), constant(0x7F800000))
    return b.cast("trunc", b.select(is_nan, b.op("or", high, constant(0x40)), rounded), "i16")


def quiet_float_to_bfloat(b: Builder, bits: Value, can_pick_halves: bool) -> Value:
    """Do the same if every NaN is the one quiet NaN, which rounds to itself.

    `can_pick_halves`: one instruction takes the upper halves of two registers, and one the lower. Then only
    the upper ones are rounded, by comparing the lower with half a step, at a tie to even.
    """
    lanes = lanes_of(bits)
    if not can_pick_halves or lanes % _PICKED:
        last = b.op("and", b.op("lshr", bits, splat(b, bits, "i32", 16)), splat(b, bits, "i32", 1))
        bias = b.op("add", last, splat(b, bits, "i32", 0x7FFF))
        return leading_half(b, b.op("add", bits, bias))
    pieces = [b.shuffle(bits, bits, range(i, i + _PICKED)) for i in range(0, lanes, _PICKED)]
    return b.join([_round_halves(b, bits if lanes == _PICKED else piece) for piece in pieces])


def _round_halves(b: Builder, bits: Value) -> Value:
    count = lanes_of(bits)
    words = b.value(f"<{2 * count} x i16>", f"bitcast {bits} to <{2 * count} x i16>")
    low, high = (b.shuffle(words, words, range(half, 2 * count, 2)) for half in (0, 1))
    tie = b.op("sub", splat(b, low, "i16", 0x8000), b.op("and", high, splat(b, high, "i16", 1)))
    return b.select(b.compare("icmp ugt", low, tie), b.op("add", high, splat(b, high, "i16", 1)), high)


# AVX-512's classes of floats: both kinds of NaN, and subnormals.
_CLASSES, _NAN_CLASS, _SUBNORMAL_CLASS = "llvm.x86.avx512.fpclass.ps.512", 0x81, 0x20
_TO_BFLOAT, _TWO_TO_BFLOAT = "llvm.x86.avx512bf16.cvtneps2bf16.512", "llvm.x86.avx512bf16.cvtne2ps2bf16.512"
_LANES_512 = 16


def can_round_at_once(value: Value) -> bool:
    """Return whether values are whole registers of f32."""
    return element_of(value) == "float" and lanes_of(value) % _LANES_512 == 0


def floats_to_bfloat_at_once(
    b: Builder, value: Value, exact: Callable[[], Value], *, is_nan_exact: bool
) -> Value:
    """Convert f32 to bf16 by an instruction that flushes subnormals; if there are any, use `exact`.

    A NaN keeps its sign and leading payload; `exact` handles it too unless `is_nan_exact`.
    """
    parts = [b.lanes(value, i, _LANES_512) for i in range(0, lanes_of(value), _LANES_512)]
    wanted = _SUBNORMAL_CLASS if is_nan_exact else _SUBNORMAL_CLASS | _NAN_CLASS
    flags = vector("i1", _LANES_512)
    odd = [b.call(flags, _CLASSES, f"{part}, i32 {wanted}", f"{part.type}, i32") for part in parts]
    while len(odd) > 1:
        odd = [b.op("or", one, other) for one, other in zip(odd[::2], odd[1::2], strict=True)]
    bits = b.value(f"i{_LANES_512}", f"bitcast {odd[0]} to i{_LANES_512}")
    is_plain = b.value("i1", f"icmp eq {bits}, 0")

    def rounded() -> Value:
        if len(parts) == 1:
            made = [b.call("<16 x bfloat>", _TO_BFLOAT, str(parts[0]), parts[0].type)]
        else:
            # The first operand is the upper half.
            made = [
                b.call("<32 x bfloat>", _TWO_TO_BFLOAT, f"{high}, {low}", f"{high.type}, {low.type}")
                for low, high in zip(parts[::2], parts[1::2], strict=True)
            ]
        return b.join([b.bitcast(part, "i16") for part in made])

    return b.one_of(is_plain, rounded, exact)


def normal_floats_to_bfloat(b: Builder, value: Value) -> Value:
    """Convert a register of f32 without subnormals to bf16 by that instruction."""
    made = b.call(f"<{_LANES_512} x bfloat>", _TO_BFLOAT, str(value), value.type)
    return b.bitcast(made, "i16")


def leading_half(b: Builder, bits: Value) -> Value:
    """Return the upper 16 bits of f32 bits: the bf16 if nothing is rounded."""
    return b.cast("trunc", b.op("lshr", bits, splat(b, bits, "i32", 16)), "i16")


# An AVX-512 instruction that narrows this many f64, and its rounding mode: toward zero.
_CUT, _CUT_LANES, _TOWARDS_ZERO = "llvm.x86.avx512.mask.cvtpd2ps.512", 8, 11


def narrow_to_odd(b: Builder, value: Value, *, can_cut: bool) -> Value:
    """Convert f64 to f32, rounding inexact values to odd: a later rounding then acts as if it were the only
    one.

    `can_cut`: AVX-512 is available, which can round toward zero directly: otherwise the lower neighbor must
    be computed.
    """
    if can_cut and lanes_of(value) % _CUT_LANES == 0:
        near = _cut(b, value)
        bits, back = b.bitcast(near, "i32"), b.cast("fpext", near, "double")
        odd = b.op("or", bits, splat(b, bits, "i32", 1))
        return b.bitcast(b.select(b.compare("fcmp one", back, value), odd, bits), "float")
    near = b.cast("fptrunc", value, "float")
    back = b.cast("fpext", near, "double")
    bits = b.bitcast(near, "i32")
    is_past = b.compare("fcmp ogt", b.intrinsic("fabs", back), b.intrinsic("fabs", value))
    lower = b.op("sub", bits, b.cast("zext", is_past, "i32"))
    is_inexact = b.compare("fcmp one", back, value)
    odd = b.op("or", lower, splat(b, bits, "i32", 1))
    return b.bitcast(b.select(is_inexact, odd, bits), "float")


def _cut(b: Builder, value: Value) -> Value:
    """Truncate f64 to f32, toward zero."""
    zeros = Value(vector("float", _CUT_LANES), "zeroinitializer")
    types = f"{vector('double', _CUT_LANES)}, {zeros.type}, i8, i32"
    parts = [b.lanes(value, first, _CUT_LANES) for first in range(0, lanes_of(value), _CUT_LANES)]
    return b.join(
        [b.call(zeros.type, _CUT, f"{part}, {zeros}, i8 -1, i32 {_TOWARDS_ZERO}", types) for part in parts]
    )
