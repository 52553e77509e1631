"""Conversion of a vector of values between data types, by arithmetic or by a table (N1 to N7).

The table lists the results of `ir/conversion.py` for every code. 4-bit types have 16 codes, which nearly
every processor can look up in one register; 8-bit types have 256, for which AVX-512 VBMI and NEON have
instructions.

Vectors carry bits: the element type of every value here is an integer as wide as the data type.
`ir/conversion.py` is the definition; this must match it bit for bit on every instruction set.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..dtypes import DataType
from ..ir.conversion import (
    CODE_VALUES,
    DOUBLE_LIMITS,
    FLOAT_LIMITS,
    INTEGER_LIMITS,
    NF4_ENDS,
    NF4_NAN,
    Inputs,
    is_integer_move,
    is_wide,
)
from ..ir.conversion import convert as convert_codes
from ..ir.nest import Compute
from . import neon
from .builder import Builder, Value, element_of, lanes_of, vector
from .neon import narrow, nearest_integers
from .small_float import (
    can_round_at_once,
    can_widen,
    exponent_to_float,
    float_to_bfloat,
    float_to_small,
    floats_to_bfloat_at_once,
    leading_half,
    narrow_to_odd,
    quiet_float_to_bfloat,
    small_to_float,
    small_to_float_by_half,
    splat,
    widen_small,
)

# --- by a table --------------------------------------------------------------
# Bytes to bytes by a table, if either side is an 8-bit float: a few instructions per register.

_MOVE = Compute()
_SHUFFLE = {16: "llvm.x86.ssse3.pshuf.b.128", 32: "llvm.x86.avx2.pshuf.b", 64: "llvm.x86.avx512.pshuf.b.512"}
_PERMUTE_WORDS = {8: "llvm.x86.avx2.permd", 16: "llvm.x86.avx512.permvar.si.512"}
_PERMUTE, _PERMUTED = "llvm.x86.avx512.vpermi2var.qi.512", 64


def entries(src: DataType, dst: DataType) -> int:
    """Return the size of a table for these types; 0 if arithmetic is as good, or lanes are wider."""
    if src is dst or max(src.bits, dst.bits) > 8 or is_integer_move(src, dst, _MOVE):
        return 0
    return 1 << src.bits


def look_up(b: Builder, v: Value, types: tuple[DataType, DataType], can: Abilities) -> Value:
    """Look up each byte in the table of `types`, a register at a time."""
    codes = _codes(*types)
    if len(codes) == 16:
        return look_up_codes(b, v, codes, can)
    size = can.shuffled_bytes if can.neon else _PERMUTED
    lanes = lanes_of(v)
    pieces = [b.lanes(v, first, size) for first in range(0, lanes, size)]
    return b.lanes(b.join([_look_up_register(b, piece, codes, can) for piece in pieces]), 0, lanes)


def look_up_codes(b: Builder, v: Value, codes: tuple[int, ...], can: Abilities) -> Value:
    """Look up each byte, from 0 to 15, in a table."""
    size, lanes = can.shuffled_bytes, lanes_of(v)
    if not size:
        found = Value(v.type, "zeroinitializer")
        for number, code in enumerate(codes):
            is_one = b.compare("icmp eq", v, b.splat("i8", lanes, str(number)))
            found = b.select(is_one, b.splat("i8", lanes, str(code)), found)
        return found
    pieces = [b.lanes(v, first, size) for first in range(0, lanes, size)]
    return b.lanes(b.join([_look_up_register(b, piece, codes, can) for piece in pieces]), 0, lanes)


def _look_up_register(b: Builder, v: Value, codes: tuple[int, ...], can: Abilities) -> Value:
    if can.neon:
        return neon.look_up(b, v, codes)
    return _in_one(b, v, codes, lanes_of(v)) if len(codes) == 16 else _in_four(b, v, codes)


@functools.cache
def _codes(src: DataType, dst: DataType) -> tuple[int, ...]:
    """Return the result of each code; a 4-bit result is sign-extended to its byte."""
    every = np.arange(1 << src.bits, dtype=np.uint8)
    codes = convert_codes(every, (src, dst), _MOVE, Inputs())
    if dst is DataType.s4:
        codes = (codes ^ np.uint8(8)) - np.uint8(8)
    return tuple(int(code) for code in codes)


def _constant(codes: tuple[int, ...]) -> Value:
    return Value(vector("i8", len(codes)), "<" + ", ".join(f"i8 {code}" for code in codes) + ">")


def _in_one(b: Builder, v: Value, codes: tuple[int, ...], size: int) -> Value:
    """Look up in a table of one register, repeated every 16 bytes."""
    place = b.op("and", v, b.splat("i8", size, "15"))
    table = _constant(codes * (size // 16))
    return b.call(v.type, _SHUFFLE[size], f"{table}, {place}", f"{v.type}, {v.type}")


def _in_four(b: Builder, v: Value, codes: tuple[int, ...]) -> Value:
    """Look up in a table of four registers: its lower half in two, and its upper half, for bytes below 0."""
    quarters = [_constant(codes[first : first + _PERMUTED]) for first in range(0, 256, _PERMUTED)]
    kinds = ", ".join([v.type] * 3)
    lower, upper = (b.call(v.type, _PERMUTE, f"{quarters[i]}, {v}, {quarters[i + 1]}", kinds) for i in (0, 2))
    return b.select(b.compare("icmp slt", v, Value(v.type, "zeroinitializer")), upper, lower)


def _look_up_reals(b: Builder, v: Value, src: DataType) -> Value:
    """Convert registers of 8-bit floats to f32 by tables of 128: both bytes of a bf16, which holds them all.

    The sign is restored, then bytes are interleaved to words and words to floats within each 16 bytes: so the
    source is first permuted so that these steps leave it in order.
    """
    pieces = [b.lanes(v, first, _PERMUTED) for first in range(0, lanes_of(v), _PERMUTED)]
    return b.join([_reals_of_register(b, piece, src) for piece in pieces])


def _reals_of_register(b: Builder, v: Value, src: DataType) -> Value:
    kinds = ", ".join([v.type] * 3)
    v = _transposed_words(b, v)
    low, high = (
        b.call(v.type, _PERMUTE, f"{_constant(half[:_PERMUTED])}, {v}, {_constant(half[_PERMUTED:])}", kinds)
        for half in _bfloat_bytes(src)
    )
    high = b.op("or", high, b.op("and", v, splat(b, v, "i8", 0x80)))
    words = [b.shuffle(low, high, _interleaved(_PERMUTED, 16, upper)) for upper in (0, 1)]
    wide = [b.value("<32 x i16>", f"bitcast {word} to <32 x i16>") for word in words]
    zero = Value("<32 x i16>", "zeroinitializer")
    found = [b.shuffle(zero, each, _interleaved(32, 8, upper)) for each in wide for upper in (0, 1)]
    return b.join([b.value("<16 x float>", f"bitcast {each} to <16 x float>") for each in found])


def _transposed_words(b: Builder, v: Value) -> Value:
    """Transpose the 4 by 4 matrix of 32-bit words in a register."""
    words = b.value("<16 x i32>", f"bitcast {v} to <16 x i32>")
    moved = b.shuffle(words, words, [4 * (i % 4) + i // 4 for i in range(16)])
    return b.value(v.type, f"bitcast {moved} to {v.type}")


def _interleaved(lanes: int, group: int, upper: int) -> list[int]:
    """Return a mask that alternates lanes of two registers, from the lower or upper half of each group."""
    half = group // 2
    starts = [first + upper * half for first in range(0, lanes, group)]
    return [start + i + side * lanes for start in starts for i in range(half) for side in (0, 1)]


@functools.cache
def _bfloat_bytes(src: DataType) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the lower and the upper bytes of the magnitudes of codes, as bf16."""
    words = convert_codes(np.arange(128, dtype=np.uint8), (src, DataType.bf16), _MOVE, Inputs())
    return tuple(int(word) & 255 for word in words), tuple(int(word) >> 8 for word in words)


# --- by arithmetic -----------------------------------------------------------
# Conversion of a vector of values between data types by the numeric contract (N1 to N7).

# Adding 1.5 * 2**23 to a float of magnitude below 2**22 rounds it half to even into the low mantissa bits.
_ROUND_FLOAT, _ROUND_BITS = "12582912.0", 0x4B400000
# The widths of integer types for which this rounding is correct.
_MOST_ROUNDED_BITS = 16
_QUIET_NAN = {"float": ("i32", 0x7FC00000), "double": ("i64", 0x7FF8000000000000)}
# Magnitudes from which on every value is an integer: 2**23 and 2**52.
_WHOLE_FROM = {"float": "8388608.0", "double": "4503599627370496.0"}


@dataclass(frozen=True, slots=True)
class Abilities:
    """The conversions that the instruction set provides, with the correct bits."""

    half: bool = False
    round_even: bool = False
    masks: bool = False
    packs: bool = False
    # Whether products of bytes are added in pairs.
    byte_pairs: bool = False
    # The conversions in `neon.py`; and floats to bf16: always correct, or except for subnormals.
    neon: bool = False
    bfloat: bool = False
    bfloat_of_normals: bool = False
    # The bytes of a register in which a byte selects one of 16; and whether it can select one of 256.
    shuffled_bytes: int = 0
    has_tables: bool = False

    def looks_up(self, src: DataType, dst: DataType) -> bool:
        """Return whether bytes are converted to bytes by a table."""
        count = entries(src, dst)
        return self.has_tables if count > 16 else count > 0 and self.shuffled_bytes > 0


def bits_type(data_type: DataType) -> str:
    """Return the IR integer type that carries a data type; 4-bit types take a byte each in registers."""
    return f"i{carrier_bits(data_type)}"


def carrier_bits(data_type: DataType) -> int:
    """Return the bits of a lane that carries a data type."""
    return max(data_type.bits, 8)


def zeros(data_type: DataType, lanes: int) -> Value:
    """Return a vector of zero bits."""
    return Value(vector(bits_type(data_type), lanes), "zeroinitializer")


def keeps_zeros(src: DataType, dst: DataType) -> bool:
    """Return whether zero bits become zero bits: not in e8m0, where they are the least power of two, and nf4,
    where they are -1.
    """
    return src is dst or not {DataType.e8m0, DataType.nf4} & {src, dst}


def convert(b: Builder, v: Value, src: DataType, dst: DataType, can: Abilities) -> Value:
    """Convert without arithmetic: saturate, round half to even, keep NaN signs."""
    if src is dst:
        return v
    if is_integer_move(src, dst, _MOVE):
        return _saturate_integers(b, v, src, dst, can)
    if can.looks_up(src, dst):
        return look_up(b, v, (src, dst), can)
    if can_widen(src, dst):
        return widen_small(b, v, src, dst)
    value = to_real(b, v, src, real_type(src, dst), can)
    if dst is DataType.bf16 and src.kind != "float" and src.bits <= 8:
        # At most 8 bits, as many as are kept.
        return leading_half(b, b.bitcast(value, "i32"))
    return from_real(b, value, dst, can)


def real_type(src: DataType, dst: DataType, compute: Compute = _MOVE) -> str:
    """Return the IR type in which values are computed (N1)."""
    return "double" if is_wide(src, dst, compute) else "float"


def canonical_nan(b: Builder, value: Value) -> Value:
    """Replace every NaN by the one quiet NaN."""
    real = element_of(value)
    kind, quiet = _QUIET_NAN[real]
    is_nan = b.compare("fcmp uno", value, value)
    return b.bitcast(b.select(is_nan, splat(b, value, kind, quiet), b.bitcast(value, kind)), real)


# --- integers -----------------------------------------------------------------------------------------------


def _saturate_integers(b: Builder, v: Value, src: DataType, dst: DataType, can: Abilities) -> Value:
    if src is DataType.boolean:
        v, src = _is_set(b, v), DataType.u8
    if dst is DataType.boolean:
        return _is_set(b, v)
    if can.neon and src.kind == "int" and carrier_bits(src) > carrier_bits(dst):
        return narrow(b, v, dst)
    (least, most), (low, high) = INTEGER_LIMITS[src], INTEGER_LIMITS[dst]
    lanes, kind, sign = lanes_of(v), bits_type(src), "u" if src.kind == "uint" else "s"
    if low > least:
        v = b.intrinsic(f"{sign}max", v, b.splat(kind, lanes, str(low)))
    if high < most:
        v = b.intrinsic(f"{sign}min", v, b.splat(kind, lanes, str(high)))
    if carrier_bits(dst) == carrier_bits(src):
        return v
    if carrier_bits(dst) > carrier_bits(src):
        return b.cast("zext" if src.kind == "uint" else "sext", v, bits_type(dst))
    return b.cast("trunc", v, bits_type(dst))


def _is_set(b: Builder, v: Value) -> Value:
    """Return 1 where a lane is not zero, as bytes."""
    zero = Value(v.type, "zeroinitializer")
    name = "fcmp une" if element_of(v) in _QUIET_NAN else "icmp ne"
    return b.cast("zext", b.compare(name, v, zero), "i8")


# --- to real ------------------------------------------------------------------------------------------------


def to_real(b: Builder, v: Value, src: DataType, real: str, can: Abilities) -> Value:
    """Convert values of `src` to reals: exact, but s32 past 2**24 rounds half to even as f32."""
    if src is DataType.boolean:
        v, src = _is_set(b, v), DataType.u8
    if src.is_integral:
        return b.cast("uitofp" if src.kind == "uint" else "sitofp", v, real)
    if src is DataType.f64:
        value = b.bitcast(v, "double")
        return value if real == "double" else b.cast("fptrunc", value, "float")
    value = _to_float(b, v, src, can)
    return value if real == "float" else b.cast("fpext", value, "double")


def look_up_floats(b: Builder, codes: Value, src: DataType, can: Abilities) -> Value:
    """Look up 4-bit floats in tables: codes are the lowest bits of words, whose other bits do not matter."""
    numbers = [int(number) for number in np.array(CODE_VALUES[src], np.float32).view(np.uint32)]
    lanes = lanes_of(codes)
    size = 16 if can.masks else 8 if can.shuffled_bytes == 32 else 0
    if not size or lanes % size:
        return _join_bytes(b, b.op("and", codes, splat(b, codes, "i32", 15)), numbers, can)
    kind, found = vector("i32", size), []
    tables = [
        Value(kind, "<" + ", ".join(f"i32 {number}" for number in numbers[first : first + size]) + ">")
        for first in range(0, 16, size)
    ]
    for first in range(0, lanes, size):
        piece = b.shuffle(codes, codes, range(first, first + size))
        halves = [
            b.call(kind, _PERMUTE_WORDS[size], f"{table}, {piece}", f"{kind}, {kind}") for table in tables
        ]
        if size == 8:
            sign = b.op("shl", piece, splat(b, piece, "i32", 28))
            is_upper = b.compare("icmp slt", sign, Value(kind, "zeroinitializer"))
            halves = [b.select(is_upper, halves[1], halves[0])]
        found += halves
    return b.bitcast(b.join(found), "float")


def _join_bytes(b: Builder, codes: Value, numbers: Sequence[int], can: Abilities) -> Value:
    """Do the same with a separate table for each byte of a float."""
    place_of_table, found = b.cast("trunc", codes, "i8"), Value(codes.type, "zeroinitializer")
    for bits in range(0, 32, 8):
        table = tuple(number >> bits & 255 for number in numbers)
        word = b.cast("zext", look_up_codes(b, place_of_table, table, can), "i32")
        found = b.op("or", found, b.op("shl", word, splat(b, word, "i32", bits)) if bits else word)
    return b.bitcast(found, "float")


def _to_float(b: Builder, v: Value, src: DataType, can: Abilities) -> Value:
    if src is DataType.f32:
        return b.bitcast(v, "float")
    if src is DataType.bf16:
        wide = b.cast("zext", v, "i32")
        return b.bitcast(b.op("shl", wide, splat(b, v, "i32", 16)), "float")
    if src is DataType.f16 and can.half:
        return b.cast("fpext", b.bitcast(v, "half"), "float")
    if src is DataType.e8m0:
        return exponent_to_float(b, v)
    if src is DataType.nf4 or (src.bits == 4 and can.masks and lanes_of(v) % 16 == 0):
        return look_up_floats(b, b.cast("zext", v, "i32"), src, can)
    if src.bits == 4:
        # Half of the work in 16-bit lanes.
        wide = b.cast("zext", widen_small(b, v, src, DataType.bf16), "i32")
        return b.bitcast(b.op("shl", wide, splat(b, v, "i32", 16)), "float")
    if src.bits == 8 and can.masks and can.has_tables and lanes_of(v) % _PERMUTED == 0:
        return _look_up_reals(b, v, src)
    if src.bits == 8 and can.half:
        return small_to_float_by_half(b, v, src)
    return small_to_float(b, v, src)


# --- from real ----------------------------------------------------------------------------------------------


def from_real(b: Builder, value: Value, dst: DataType, can: Abilities, *, is_result: bool = False) -> Value:
    """Convert real numbers to values of `dst`: saturated, rounded half to even once (N2 to N5).

    `is_result`: they are computed, so that every NaN is the one quiet NaN.
    """
    if dst is DataType.bf16 and can.bfloat_of_normals and can_round_at_once(value):
        return floats_to_bfloat_at_once(
            b, value, lambda: _by_arithmetic(b, value, dst, can, is_result), is_nan_exact=not is_result
        )
    return _by_arithmetic(b, value, dst, can, is_result)


def _by_arithmetic(b: Builder, value: Value, dst: DataType, can: Abilities, is_result: bool) -> Value:
    if is_result and dst.kind == "float":
        value = canonical_nan(b, value)
    if dst is DataType.boolean:
        return _is_set(b, value)
    if dst.is_integral:
        return _to_integer(b, value, dst, can)
    if dst is DataType.f64:
        return b.bitcast(value, "i64")
    if element_of(value) == "double":
        is_last = dst is DataType.f32
        value = b.cast("fptrunc", value, "float") if is_last else narrow_to_odd(b, value, can_cut=can.masks)
    return _from_float(b, value, dst, can, is_result)


def _from_float(b: Builder, value: Value, dst: DataType, can: Abilities, is_result: bool) -> Value:
    if dst is DataType.f32:
        return b.bitcast(value, "i32")
    if dst is DataType.bf16 and can.bfloat:
        return b.bitcast(b.cast("fptrunc", value, "bfloat"), "i16")
    if dst is DataType.bf16:
        bits = b.bitcast(value, "i32")
        return quiet_float_to_bfloat(b, bits, can.masks) if is_result else float_to_bfloat(b, bits)
    if dst is DataType.f16 and can.half:
        return b.bitcast(b.cast("fptrunc", value, "half"), "i16")
    if dst is DataType.nf4:
        return _nearest_code(b, value)
    return float_to_small(b, b.bitcast(value, "i32"), dst)


def _nearest_code(b: Builder, value: Value) -> Value:
    """Return how many upper limits of codes are below a number."""
    lanes = lanes_of(value)
    code = b.splat("i32", lanes, "0")
    for end in NF4_ENDS:
        is_above = b.compare("fcmp ogt", value, b.splat("float", lanes, f"{end:.20e}"))
        code = b.op("sub", code, b.cast("sext", is_above, "i32"))
    is_nan = b.compare("fcmp uno", value, value)
    return b.cast("trunc", b.select(is_nan, splat(b, value, "i32", NF4_NAN), code), "i8")


def splat_limits(b: Builder, value: Value, dst: DataType) -> tuple[Value, Value]:
    """Return the least and the greatest value of an integer type, in the type and lanes of real values."""
    lanes, real = lanes_of(value), element_of(value)
    low, high = (FLOAT_LIMITS if real == "float" else DOUBLE_LIMITS)[dst]
    return b.splat(real, lanes, f"{low:.1f}"), b.splat(real, lanes, f"{high:.1f}")


def _to_integer(b: Builder, value: Value, dst: DataType, can: Abilities) -> Value:
    if can.neon:
        return nearest_integers(b, value, dst)
    lanes, real = lanes_of(value), element_of(value)
    low, high = splat_limits(b, value, dst)
    # A lower limit of 0 is also the result for NaN: the comparison below gives it.
    if FLOAT_LIMITS[dst][0]:
        ordered = b.compare("fcmp ord", value, value)
        value = b.select(ordered, value, b.splat(real, lanes, "0.0"))
    value = b.select(b.compare("fcmp ogt", value, low), value, low)
    value = b.select(b.compare("fcmp olt", value, high), value, high)
    if dst.bits > _MOST_ROUNDED_BITS:
        whole = "fptoui" if dst.kind == "uint" else "fptosi"
        return b.cast(whole, _round_even(b, value, can), bits_type(dst))
    if real == "double":
        return b.cast("trunc", b.cast("fptosi", _round_even(b, value, can), "i32"), bits_type(dst))
    shifted = b.bitcast(b.op("fadd", value, b.splat("float", lanes, _ROUND_FLOAT)), "i32")
    return b.cast("trunc", b.op("sub", shifted, b.splat("i32", lanes, str(_ROUND_BITS))), bits_type(dst))


def _round_even(b: Builder, value: Value, can: Abilities) -> Value:
    """Round half to even if there are fractions."""
    if can.round_even:
        return b.intrinsic("roundeven", value)
    real = element_of(value)
    limit = b.splat(real, lanes_of(value), _WHOLE_FROM[real])
    magic = b.intrinsic("copysign", limit, value)
    rounded = b.op("fsub", b.op("fadd", value, magic), magic)
    small = b.compare("fcmp olt", b.intrinsic("fabs", value), limit)
    return b.select(small, rounded, value)
