"""The multiplications in a step of a contraction: elements of a row and of a column, or packs of them.

| factors | method |
| --- | --- |
| floats | widened to f32, one fused multiply-add if the instruction set has it |
| bytes without a pack | widened to 32 bits |
| a pack, and an instruction for it | `vpdpbusd`: 4 products of u8 and s8; `vdpbf16ps`: 2 products of bf16 |
| lane by lane, and an instruction | `vpdpwssd` of bytes as 16 bits, `vdpbf16ps`: second elements are zero |
| a pack of bytes | even and odd elements as 16 bits, `pmaddwd` of each |
| 4-bit words | decoded to f32 one by one, or to pairs of bf16 |
| 4-bit words by bytes | even and odd elements: `pmaddubsw`, or `vpdpbusd` |
| a pack of bf16 | even and odd elements as f32, a multiply-add of each |

A pack is 32 bits; in a partial one, only the leading elements count.
"""

from __future__ import annotations

from ..dtypes import DataType
from ..ir.conversion import CODE_VALUES
from ..schedule.contraction.kernel import ContractionKernel
from ..schedule.contraction.strides import FIRST, SECOND
from .builder import Builder, Value, lanes_of, vector
from .contraction_vectors import load_vector, load_words
from .convert import look_up_codes, look_up_floats, to_real
from .kernel import Style

Factor = tuple[Value, ...]
"""A vector to be multiplied, or its halves."""

_REAL = "float"
# The position of the uppermost 4 bits of a word.
_TOP = 28
# The bits of 4-bit floats below 1.
_FRACTION = {DataType.f4_e2m1: 1, DataType.f4_e3m0: 2}
# Elements of this many bits need not be shifted.
_LEFT = 16
_PAIRS = {
    16: "llvm.x86.sse2.pmadd.wd",
    32: "llvm.x86.avx2.pmadd.wd",
    64: "llvm.x86.avx512.pmaddw.d.512",
}
_BYTE_PAIRS = {
    16: "llvm.x86.ssse3.pmadd.ub.sw.128",
    32: "llvm.x86.avx2.pmadd.ub.sw",
    64: "llvm.x86.avx512.pmaddubs.w.512",
}


def products_of(b: Builder, kernel: ContractionKernel, style: Style, *, fused: bool) -> Products:
    """Return how a kernel multiplies."""
    if kernel.packs is None and kernel.is_dot:
        return (ByteLanes if kernel.is_integral else BfloatLanes)(b, kernel, style, fused=fused)
    if kernel.packs is None:
        return Products(b, kernel, style, fused=fused)
    if kernel.types[SECOND].bits < 8:
        of_reals = NibblePairs if kernel.is_dot else NibbleWords
        return (NibbleDots if kernel.sums_integers else of_reals)(b, kernel, style, fused=fused)
    if kernel.sums_integers:
        return (ByteDots if kernel.is_dot else BytePairs)(b, kernel, style, fused=fused)
    return (BfloatDots if kernel.is_dot else BfloatHalves)(b, kernel, style, fused=fused)


class Products:
    """One element of each factor at a time, widened."""

    def __init__(self, b: Builder, kernel: ContractionKernel, style: Style, *, fused: bool) -> None:
        self.b, self.kernel, self.style, self.fused = b, kernel, style, fused
        self.types = kernel.types[FIRST], kernel.types[SECOND]
        # Whether a row costs less than a vector of columns: work that suits either is done on it.
        self.keeps_places = False

    def turns(self, count: int) -> int:
        """Return how many times each sum is added to for `count` elements."""
        return 1

    def row(self, pointer: Value, count: int, *, is_alone: bool = False, turn: int = 0) -> Factor:
        """Return an element of the rows' factor, or `count` of them, in every lane. `is_alone`: to be summed,
        not multiplied.
        """
        one = self._widened(load_vector(self.b, self.types[FIRST], pointer, 1, 1), FIRST)
        return (self.b.shuffle(one, one, (0,) * self.kernel.lanes),)

    def column(self, pointer: Value, valid: int, count: int, access: int = SECOND, turn: int = 0) -> Factor:
        """Return a vector of columns, or `count` elements of each; lanes past the columns are zero."""
        bits = load_vector(self.b, self.types[access], pointer, self.kernel.lanes, valid)
        return (self._widened(bits, access),)

    def added(self, row: Factor, column: Factor, total: Value) -> Value:
        """Return a sum with the products added."""
        return self._one_added(row[0], column[0], total)

    def summed(self, factor: Factor, access: int, count: int, total: Value) -> Value:
        """Return an integer sum with the elements of one factor alone added, `count` of each pack."""
        return self.b.op("add", total, factor[0])

    def _one_added(self, a: Value, b: Value, total: Value) -> Value:
        if self.kernel.sums_integers:
            return self.b.op("add", total, self.b.op("mul", a, b))
        return self.b.multiply_add(a, b, total, fused=self.fused)

    def _widened(self, bits: Value, access: int) -> Value:
        """Return elements as they are multiplied: reals, or 32-bit integers."""
        data_type = self.types[access]
        if self.kernel.sums_integers:
            return self.b.cast("zext" if data_type.kind == "uint" else "sext", bits, "i32")
        return to_real(self.b, bits, data_type, _REAL, self.style.can)

    def _row_word(self, pointer: Value, turn: int) -> Value:
        """Return the word of an iteration of the rows' factor in every lane."""
        word = self.b.value("i32", f"load i32, {self.b.advance(pointer, 4 * turn)}, align 1")
        return self.b.broadcast(word, self.kernel.lanes)

    def _dot_of_bfloat(self, first: Factor, second: Factor, total: Value) -> Value:
        """Return the sums with products of pairs of bf16 added. Only the second can be in memory."""
        pairs = (_halves(self.b, each[0], "bfloat") for each in (first, second))
        return self._dot("llvm.x86.avx512bf16.dpbf16ps", total, *pairs)

    def _dot(self, name: str, total: Value, a: Value, b: Value) -> Value:
        """Call an instruction that multiplies packs and adds them to sums."""
        full = f"{name}.{lanes_of(total) * 32}"
        types = f"{total.type}, {a.type}, {b.type}"
        return self.b.call(total.type, full, f"{total}, {a}, {b}", types)


class BfloatLanes(Products):
    """`vdpbf16ps` of numbers, each followed by a zero."""

    def column(self, pointer: Value, valid: int, count: int, access: int = SECOND, turn: int = 0) -> Factor:
        """Return a vector of columns, each in 32 bits."""
        bits = load_vector(self.b, self.types[access], pointer, self.kernel.lanes, valid)
        return (self.b.cast("zext", bits, "i32"),)

    def added(self, row: Factor, column: Factor, total: Value) -> Value:
        """Return the sums with a product each."""
        return self._dot_of_bfloat(row, column, total)


class ByteLanes(Products):
    """`vpdpwssd` of bytes as 16 bits; those of the second factor are followed by zeros."""

    def column(self, pointer: Value, valid: int, count: int, access: int = SECOND, turn: int = 0) -> Factor:
        """Return a vector of columns, each in 32 bits."""
        (words,) = super().column(pointer, valid, count, access)
        if access != SECOND:
            return (words,)
        return (self.b.op("and", words, self.b.splat("i32", self.kernel.lanes, "65535")),)

    def added(self, row: Factor, column: Factor, total: Value) -> Value:
        """Return the sums with a product each."""
        return self._dot("llvm.x86.avx512.vpdpwssd", total, row[0], column[0])

    def summed(self, factor: Factor, access: int, count: int, total: Value) -> Value:
        """Return a sum with the elements of the second factor added: each times 1."""
        return self._dot(
            "llvm.x86.avx512.vpdpwssd", total, factor[0], self.b.splat("i32", self.kernel.lanes, "1")
        )


class _Packs(Products):
    """Packs as words of 32 bits."""

    def row(self, pointer: Value, count: int, *, is_alone: bool = False, turn: int = 0) -> Factor:
        """Return a pack of the rows' factor in every lane."""
        return self._split(self._row_words(pointer, count, is_alone=is_alone), FIRST)

    def _row_words(self, pointer: Value, count: int, *, is_alone: bool) -> Value:
        """Return packs as words. Elements from `count` on are zero, except for integers, for which zeros in
        the columns suffice.
        """
        b, lanes = self.b, self.kernel.lanes
        assert self.kernel.packs is not None
        bits, packs = self.types[FIRST].bits, self.kernel.packs
        if count == packs.count or packs.has_whole_rows:
            word = b.value("i32", f"load i32, {pointer}, align {bits // 8}")
            found = b.broadcast(word, lanes)
            needs_zeros = is_alone or not self.kernel.sums_integers
            return self._leading(found, count * bits) if needs_zeros else found
        return b.broadcast(self._pieces(pointer, count * bits), lanes)

    def column(self, pointer: Value, valid: int, count: int, access: int = SECOND, turn: int = 0) -> Factor:
        """Return a pack of each column."""
        bits = self.types[access].bits
        words = load_words(self.b, pointer, self.kernel.lanes, valid, bits // 8)
        return self._split(self._leading(words, count * bits), access)

    def _leading(self, words: Value, bits: int) -> Value:
        """Return the leading bits of each word, followed by zeros."""
        if bits == 32:
            return words
        return self.b.op("and", words, self.b.splat("i32", lanes_of(words), str((1 << bits) - 1)))

    def _pieces(self, pointer: Value, bits: int) -> Value:
        """Return a word of its leading 8, 16 or 24 bits; nothing after them is read."""
        b, found, at = self.b, None, 0
        for size in (16, 8):
            if not bits & size:
                continue
            piece = b.value(f"i{size}", f"load i{size}, {b.advance(pointer, at // 8)}, align 1")
            word = b.value("i32", f"zext {piece} to i32")
            word = b.op("shl", word, Value("i32", str(at))) if at else word
            found = word if found is None else b.op("or", found, word)
            at += size
        assert found is not None
        return found

    def _split(self, words: Value, access: int) -> Factor:
        return (words,)


class NibbleWords(Products):
    """4-bit elements, decoded to f32 from words of eight of a column."""

    def turns(self, count: int) -> int:
        """An element of each column at a time."""
        return count

    def row(self, pointer: Value, count: int, *, is_alone: bool = False, turn: int = 0) -> Factor:
        """Return an iteration's element in every lane, divided by the remaining factor of `column`."""
        (row,) = super().row(self.b.advance(pointer, self.types[FIRST].bits // 8 * turn), 1)
        return (self._divided(row, self._place(turn)),)

    def _divided(self, value: Value, bits: int) -> Value:
        """Return a value divided by 2**bits."""
        factor = self.b.splat(_REAL, self.kernel.lanes, f"{0.5**bits:.20e}")
        return self.b.op("fmul", value, factor) if bits else value

    def _place(self, turn: int) -> int:
        """Return how many bits the elements of an iteration stay shifted: f32 can hold their products."""
        if not self.keeps_places:
            return 0
        if self.types[SECOND] in _FRACTION:
            return _FRACTION[self.types[SECOND]]
        is_positive = self._is_moved or self.types[SECOND] is DataType.u4
        return 4 * turn % _LEFT if is_positive else 0

    @property
    def _is_moved(self) -> bool:
        """True if an offset makes signed integers nonnegative."""
        groups = self.kernel.groups_of_sums
        return groups is not None and groups.moved > 0

    def column(self, pointer: Value, valid: int, count: int, access: int = SECOND, turn: int = 0) -> Factor:
        """Return the elements of an iteration."""
        b, kind, lanes = self.b, self.types[SECOND], self.kernel.lanes
        words = load_words(b, pointer, lanes, valid, 1)
        if self._is_moved:
            words = b.op("xor", words, _bytes(b, lanes, 0x88))
        elif kind is DataType.s4:
            above = b.op("shl", words, b.splat("i32", lanes, str(_TOP - 4 * turn))) if turn < 7 else words
            return (b.cast("sitofp", b.op("ashr", above, b.splat("i32", lanes, str(_TOP))), _REAL),)
        place = self._place(turn)
        if kind is DataType.nf4:
            codes = b.op("lshr", words, b.splat("i32", lanes, str(4 * turn))) if turn else words
            return (look_up_floats(b, codes, kind, self.style.can),)
        if kind in _FRACTION:
            codes = four_bit_numbers(b, words, turn % 2, kind, 0, self.style)
            above = b.op("shl", codes, b.splat("i32", lanes, str(24 - turn // 2 * 8))) if turn < 6 else codes
            whole = b.cast("sitofp", b.op("ashr", above, b.splat("i32", lanes, "24")), _REAL)
            return (self._divided(whole, _FRACTION[kind] - place),)
        shift = 4 * turn - place
        codes = b.op("lshr", words, b.splat("i32", lanes, str(shift))) if shift else words
        codes = b.op("and", codes, b.splat("i32", lanes, str(15 << place)))
        return (b.cast("sitofp", codes, _REAL),)


class NibblePairs(NibbleWords):
    """`vdpbf16ps` of 4-bit elements as bf16, two at a time."""

    def turns(self, count: int) -> int:
        """Two elements of each column at a time."""
        return count // 2

    def row(self, pointer: Value, count: int, *, is_alone: bool = False, turn: int = 0) -> Factor:
        """Return the two elements of an iteration in every lane."""
        return (self._row_word(pointer, turn),)

    def column(self, pointer: Value, valid: int, count: int, access: int = SECOND, turn: int = 0) -> Factor:
        """Return both elements of an iteration, the first in the lower half."""
        b, lanes = self.b, self.kernel.lanes
        reals = [super(NibblePairs, self).column(pointer, valid, 1, access, 2 * turn + i)[0] for i in (0, 1)]
        even, odd = (b.bitcast(real, "i32") for real in reals)
        if self.types[SECOND] is DataType.nf4:  # to the nearest
            half = b.splat("i32", lanes, str(0x8000))
            even, odd = b.op("add", even, half), b.op("add", odd, half)
        low = b.op("lshr", even, b.splat("i32", lanes, "16"))
        return (b.op("or", low, b.op("and", odd, b.splat("i32", lanes, str(-0x10000)))),)

    def _place(self, turn: int) -> int:
        return 0

    def added(self, row: Factor, column: Factor, total: Value) -> Value:
        """Return the sums with two products each."""
        return self._dot_of_bfloat(column, row, total)


class NibbleDots(Products):
    """4-bit elements as bytes, times bytes: those at even positions of a word in one iteration, those at odd
    ones in the next. Without an instruction that adds them to 32 bits, some words are summed in 16.
    """

    def turns(self, count: int) -> int:
        """Four elements of each column at a time."""
        return count // 4

    def row(self, pointer: Value, count: int, *, is_alone: bool = False, turn: int = 0) -> Factor:
        """Return the four bytes of an iteration in every lane."""
        return (self._row_word(pointer, turn),)

    def column(self, pointer: Value, valid: int, count: int, access: int = SECOND, turn: int = 0) -> Factor:
        """Return the elements of an iteration, from 0 to 15."""
        b, lanes = self.b, self.kernel.lanes
        words, kind = load_words(b, pointer, lanes, valid, 1), self.types[SECOND]
        if kind in _FRACTION:
            assert self.kernel.groups_of_sums is not None
            return (four_bit_numbers(b, words, turn, kind, self.kernel.groups_of_sums.moved, self.style),)
        if kind is DataType.s4:
            words = b.op("xor", words, _bytes(b, lanes, 0x88))
        return (_four_bits(b, words, turn),)

    def added(self, row: Factor, column: Factor, total: Value) -> Value:
        """Return the sums with four products each; 16-bit ones with two."""
        if self.kernel.is_dot:
            return self._dot("llvm.x86.avx512.vpdpbusd", total, column[0], row[0])
        return self.b.op("add", total, byte_pairs(self.b, column[0], row[0], self.style))

    @property
    def short_level(self) -> int:
        """The summed loop from which on sums have 16 bits; -1 if none have."""
        packs = self.kernel.packs
        assert packs is not None
        return -1 if self.kernel.is_dot else len(self.kernel.loops) - (not packs.is_alone)

    @property
    def short_zero(self) -> Value:
        """The zero of 16-bit sums."""
        return Value(vector("i16", 2 * self.kernel.lanes), "zeroinitializer")

    def with_short(self, before: Value, total: Value) -> Value:
        """Return a sum with two of 16 bits added."""
        b = self.b
        if self.style.can.byte_pairs:
            ones = b.splat("i16", lanes_of(total), "1")
            return b.op("add", before, word_pairs(b, total, ones, before.type))
        half = b.splat("i32", lanes_of(before), "16")
        odd = b.value(before.type, f"bitcast {total} to {before.type}")
        for words in (b.op("shl", odd, half), odd):
            before = b.op("add", before, b.op("ashr", words, half))
        return before


class ByteDots(_Packs):
    """`vpdpbusd`: u8 by s8. Sums wrap, but the final ones fit (`schedule/contraction/parts.py`)."""

    def row(self, pointer: Value, count: int, *, is_alone: bool = False, turn: int = 0) -> Factor:
        """Return a pack; for s8 by s8, each element plus 128, as u8."""
        words = self._row_words(pointer, count, is_alone=is_alone)
        if not self.kernel.moves_rows or is_alone:
            return (words,)
        return (self.b.op("xor", words, _bytes(self.b, self.kernel.lanes, 0x80)),)

    def summed(self, factor: Factor, access: int, count: int, total: Value) -> Value:
        """Return a sum with the elements of a pack added: each times 1."""
        ones = _bytes(self.b, self.kernel.lanes, 1)
        pair = (factor[0], ones) if self.types[access] is DataType.u8 else (ones, factor[0])
        return self._dot("llvm.x86.avx512.vpdpbusd", total, *pair)

    def added(self, row: Factor, column: Factor, total: Value) -> Value:
        """Return the sums with four products each."""
        is_unsigned = self.kernel.moves_rows or self.types[FIRST] is DataType.u8
        first, second = (row[0], column[0]) if is_unsigned else (column[0], row[0])
        return self._dot("llvm.x86.avx512.vpdpbusd", total, first, second)


class BytePairs(_Packs):
    """Even and odd bytes as 16 bits."""

    def summed(self, factor: Factor, access: int, count: int, total: Value) -> Value:
        """Return a sum with the elements of a pack added: each times 1."""
        one = self.b.splat("i16", lanes_of(factor[0]), "1")
        return self.added(factor, (one, one), total)

    def _split(self, words: Value, access: int) -> Factor:
        b = self.b
        pairs = _halves(b, words, "i16")
        lanes, eight = lanes_of(pairs), b.splat("i16", lanes_of(pairs), "8")
        if self.types[access] is DataType.u8:
            return b.op("and", pairs, b.splat("i16", lanes, "255")), b.op("lshr", pairs, eight)
        return b.op("ashr", b.op("shl", pairs, eight), eight), b.op("ashr", pairs, eight)

    def added(self, row: Factor, column: Factor, total: Value) -> Value:
        """Return the sums with the products of even elements, then of odd ones."""
        for a, b in zip(row, column, strict=True):
            total = self.b.op("add", total, word_pairs(self.b, a, b, total.type))
        return total


class BfloatDots(_Packs):
    """`vdpbf16ps`: two multiply-adds, in which subnormal numbers count as zero."""

    def added(self, row: Factor, column: Factor, total: Value) -> Value:
        """Return the sums with two products each."""
        return self._dot_of_bfloat(column, row, total)


def _four_bits(b: Builder, words: Value, place: int) -> Value:
    """Return the lower or the upper 4-bit elements of all bytes."""
    lanes = lanes_of(words)
    words = b.op("lshr", words, b.splat("i32", lanes, "4")) if place else words
    return b.op("and", words, _bytes(b, lanes, 0x0F))


def four_bit_numbers(b: Builder, words: Value, place: int, kind: DataType, moved: int, style: Style) -> Value:
    """Return the bytes of the lower or upper 4-bit floats of all bytes: their values plus `moved`, scaled to
    integers.
    """
    codes = _four_bits(b, words, place)
    kind_of_bytes = vector("i8", 4 * lanes_of(words))
    magnitudes = [int((number + moved) * (1 << _FRACTION[kind])) for number in CODE_VALUES[kind]]
    found = look_up_codes(
        b, b.value(kind_of_bytes, f"bitcast {codes} to {kind_of_bytes}"), tuple(magnitudes), style.can
    )
    return b.value(words.type, f"bitcast {found} to {words.type}")


def word_pairs(b: Builder, one: Value, other: Value, kind: str) -> Value:
    """Return 32-bit sums of the products of adjacent pairs of 16-bit words."""
    return b.call(kind, _PAIRS[lanes_of(one) * 2], f"{one}, {other}", f"{one.type}, {other.type}")


def byte_pairs(b: Builder, unsigned: Value, signed: Value, style: Style) -> Value:
    """Return 16-bit sums of the products of adjacent pairs of bytes."""
    kind = vector("i16", 2 * lanes_of(unsigned))
    if style.can.byte_pairs:
        name, byte = _BYTE_PAIRS[lanes_of(unsigned) * 4], vector("i8", 4 * lanes_of(unsigned))
        args = [b.value(byte, f"bitcast {each} to {byte}") for each in (unsigned, signed)]
        return b.call(kind, name, f"{args[0]}, {args[1]}", f"{byte}, {byte}")
    a, c = (_halves(b, each, "i16") for each in (unsigned, signed))
    eight = b.splat("i16", lanes_of(a), "8")
    low = b.op("ashr", b.op("shl", c, eight), eight)
    even = b.op("mul", b.op("and", a, b.splat("i16", lanes_of(a), "255")), low)
    return b.op("add", even, b.op("mul", b.op("lshr", a, eight), b.op("ashr", c, eight)))


def _bytes(b: Builder, lanes: int, byte: int) -> Value:
    """Return words with a byte in all positions."""
    word = int.from_bytes(bytes([byte]) * 4, "little", signed=True)
    return b.splat("i32", lanes, str(word))


def _halves(b: Builder, words: Value, element: str) -> Value:
    """Return the same bits in 16-bit lanes."""
    kind = vector(element, 2 * lanes_of(words))
    return b.value(kind, f"bitcast {words} to {kind}")


class BfloatHalves(_Packs):
    """Even and odd elements as f32: their bits followed by zeros."""

    def _split(self, words: Value, access: int) -> Factor:
        b, lanes = self.b, lanes_of(words)
        even = b.op("shl", words, b.splat("i32", lanes, "16"))
        odd = b.op("and", words, b.splat("i32", lanes, str(0xFFFF0000 - (1 << 32))))
        return b.bitcast(even, _REAL), b.bitcast(odd, _REAL)

    def added(self, row: Factor, column: Factor, total: Value) -> Value:
        """Return the sums with the products of even elements, then of odd ones."""
        for a, b in zip(row, column, strict=True):
            total = self._one_added(a, b, total)
        return total
