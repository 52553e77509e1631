"""Floats of 4 and 8 bits from words: the upper halves of 32-bit floats, in half the registers.

A word is made odd if anything below it was cut off: this far from the last kept bit, it rounds like the float
(N4). Registers are of AVX-512; a pair of words becomes one register of bytes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..dtypes import DataType
from ..ir.conversion import Inputs
from ..ir.conversion import convert as convert_codes
from ..ir.nest import Compute
from .builder import Builder, Value, lanes_of, vector

_MOVE = Compute()
_LANES = 32
_INFINITE, _QUIET_NAN = 0x7F80, 0x7FC0
_MANTISSA, _BIAS = 7, 127
_PERMUTE_TWO = "llvm.x86.avx512.vpermi2var.qi.512"
_PACK = "llvm.x86.avx512.packuswb.512"


class FloatWords(NamedTuple):
    """32 floats: their words, with signs and NaN, and their magnitudes."""

    words: Value
    magnitude: Value


def words_of_reals(b: Builder, reals: Sequence[Value]) -> list[FloatWords]:
    """Convert floats, 16 to a register, to words."""
    pairs = zip(reals[::2], reals[1::2], strict=True)
    words = [_leading_halves(b, one, other) for one, other in pairs]
    return [FloatWords(each, _magnitude(b, each)) for each in words]


def codes_of_words(
    b: Builder, words: Sequence[FloatWords], dst: DataType, exact: Callable[[], Value]
) -> Value:
    """Return a register of codes, a byte each, from two registers of words; NaN is converted like the quiet
    one.

    8-bit floats saturate at the largest number. `exact` is used if one of them is subnormal, or NaN.
    """
    if dst.bits == 4:
        return _nibbles(b, words, dst)
    return _bytes(b, words, dst, exact)


def _word(b: Builder, number: int) -> Value:
    return b.splat("i16", _LANES, str(number))


def _magnitude(b: Builder, words: Value) -> Value:
    return b.op("and", words, _word(b, 0x7FFF))


def _leading_halves(b: Builder, one: Value, other: Value) -> Value:
    """Return the upper halves of two registers of floats, odd if the lower ones are not zero."""
    halves = []
    for value in (one, other):
        bits = b.bitcast(value, "i32")
        rest = b.op("and", bits, b.splat("i32", lanes_of(bits), str(0xFFFF)))
        is_cut = b.compare("icmp ne", rest, Value(bits.type, "zeroinitializer"))
        odd = b.select(is_cut, b.op("or", bits, b.splat("i32", lanes_of(bits), str(0x10000))), bits)
        halves.append(b.value(vector("i16", _LANES), f"bitcast {odd} to {vector('i16', _LANES)}"))
    return b.shuffle(halves[0], halves[1], range(1, 2 * _LANES, 2))


def _bytes_of(b: Builder, words: Value) -> Value:
    kind = vector("i8", 2 * lanes_of(words))
    return b.value(kind, f"bitcast {words} to {kind}")


def _is_nan(b: Builder, words: Value) -> Value:
    return b.compare("icmp ugt", _magnitude(b, words), _word(b, _INFINITE))


def _packed(b: Builder, low: Value, high: Value) -> Value:
    """Pack words below 256 to bytes in order."""
    kind = vector("i8", 2 * _LANES)
    packed = b.call(kind, _PACK, f"{low}, {high}", f"{low.type}, {high.type}")
    eights = b.value("<8 x i64>", f"bitcast {packed} to <8 x i64>")
    moved = b.shuffle(eights, eights, (0, 2, 4, 6, 1, 3, 5, 7))
    return b.value(kind, f"bitcast {moved} to {kind}")


# --- 4 bits ------------------------------------------------------------------
# By a table of 64 for each sign: of exponents from 2**-4 to 2**4 and the next three bits, without the upper
# bits of the exponent. Ties are the first words of such entries. If the code above a tie is even, it begins
# there, otherwise after it: then words are lowered by 1.

_LEAST_WORD, _MOST_WORD, _NAN_PLACE, _PLACES = 0x3DF0, 0x4180, 28, 64
_PLACE_BITS = 4
_EVEN_ABOVE = {DataType.f4_e2m1: 1 << 6, DataType.f4_e3m0: 1 << 7}
"""The bit of a tie that marks that the code above it is even."""


def _nibbles(b: Builder, words: Sequence[FloatWords], dst: DataType) -> Value:
    halves = [_bytes_of(b, _nibble_places(b, word, dst)) for word in words]
    places = b.shuffle(halves[0], halves[1], range(0, 4 * _LANES, 2))
    low, high = (_table_text(dst, half) for half in (0, 1))
    kinds = ", ".join([places.type] * 3)
    return b.call(places.type, _PERMUTE_TWO, f"{places.type} {low}, {places}, {places.type} {high}", kinds)


def _nibble_places(b: Builder, given: FloatWords, dst: DataType) -> Value:
    """Return the table index of each word, in its lower byte; the upper one is undefined."""
    words, magnitude = given
    near = b.intrinsic("smax", b.intrinsic("smin", magnitude, _word(b, _MOST_WORD)), _word(b, _LEAST_WORD))
    is_behind = b.compare("icmp eq", b.op("and", near, _word(b, _EVEN_ABOVE[dst])), _word(b, 0))
    near = b.select(is_behind, b.op("sub", near, _word(b, 1)), near)
    place = b.op("and", b.op("lshr", near, _word(b, _PLACE_BITS)), _word(b, ~_PLACES))
    sign = b.op("and", b.op("lshr", words, _word(b, 9)), _word(b, _PLACES))
    return b.select(_is_nan(b, words), _word(b, _NAN_PLACE), b.op("or", place, sign))


@functools.cache
def _table_text(dst: DataType, sign: int) -> str:
    """Return the code after the first word of each entry, except for `_NAN_PLACE`, which no number has."""
    first = _LEAST_WORD >> _PLACE_BITS
    numbers = np.arange(first, first + _PLACES, dtype=np.uint32)
    words = (numbers << np.uint32(_PLACE_BITS)) + np.uint32(8 + (sign << 15))
    words[numbers % _PLACES == _NAN_PLACE] = _QUIET_NAN
    found = convert_codes(words << np.uint32(16), (DataType.f32, dst), _MOVE, Inputs())
    codes = found[np.argsort(numbers % _PLACES)]
    return "<" + ", ".join(f"i8 {int(code)}" for code in codes) + ">"


# --- 8 bits ------------------------------------------------------------------


class _ByteFloat(NamedTuple):
    """An 8-bit float: bits of the mantissa, bias, the code of the largest number."""

    mantissa: int
    bias: int
    most: int

    @property
    def cut(self) -> int:
        """The bits of a word that are rounded off."""
        return _MANTISSA - self.mantissa

    @property
    def moved(self) -> int:
        """The offset of a word from the code that its leading bits are."""
        return _BIAS - self.bias << _MANTISSA


_BYTE_FLOATS = {
    DataType.f8_e4m3: _ByteFloat(3, 7, 0x7E),
    DataType.f8_e5m2: _ByteFloat(2, 15, 0x7B),
}


def _bytes(b: Builder, words: Sequence[FloatWords], dst: DataType, exact: Callable[[], Value]) -> Value:
    form = _BYTE_FLOATS[dst]
    moved = [b.intrinsic("ssub.sat", word.magnitude, _word(b, form.moved)) for word in words]
    moved = [b.intrinsic("smax", each, _word(b, 0)) for each in moved]
    rare = [_is_rare(b, word, part) for word, part in zip(words, moved, strict=True)]
    flags = b.value(f"i{_LANES}", f"bitcast {b.op('or', *rare)} to i{_LANES}")
    is_plain = b.value("i1", f"icmp eq {flags}, 0")

    def rounded() -> Value:
        codes = (_byte_codes(b, word, part, form) for word, part in zip(words, moved, strict=True))
        return _packed(b, *codes)

    return b.one_of(is_plain, rounded, exact)


def _is_rare(b: Builder, given: FloatWords, moved: Value) -> Value:
    """Return the lanes that are NaN or subnormal; zeros are neither, whatever their magnitude."""
    # Normal numbers have an exponent of at least 1.
    is_tiny = b.compare("icmp ult", moved, _word(b, 1 << _MANTISSA))
    is_some = b.compare("icmp ne", _magnitude(b, given.words), _word(b, 0))
    return b.op("or", b.op("and", is_tiny, is_some), _is_nan(b, given.words))


def _byte_codes(b: Builder, given: FloatWords, moved: Value, form: _ByteFloat) -> Value:
    """Round half to even: half a step minus one is added, plus the last kept bit."""
    near = b.intrinsic("smin", moved, _word(b, form.most << form.cut))
    half = b.op("add", near, _word(b, (1 << form.cut - 1) - 1))
    is_last = b.compare("icmp ne", b.op("and", near, _word(b, 1 << form.cut)), _word(b, 0))
    half = b.select(is_last, b.op("add", half, _word(b, 1)), half)
    sign = b.op("and", b.op("lshr", given.words, _word(b, 8)), _word(b, 0x80))
    return b.op("or", b.op("lshr", half, _word(b, form.cut)), sign)
