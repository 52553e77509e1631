"""Elements of 4 bits in registers: a byte for each, with its sign. In memory the low half comes first (M18).

What begins at a whole byte has a pointer. An operand whose tiles may begin in the midst of one has a count of
halves instead: twice its address, and 1 more for a high half.
"""

from __future__ import annotations

from ..dtypes import DataType
from .builder import Builder, Value, i64, lanes_of, vector

HALVES = 8
"""Bits by which such a count moves for each element, where a pointer moves by bytes."""


def halves_at(b: Builder, pointer: Value) -> Value:
    """The count of halves at a pointer."""
    return b.op("shl", b.value("i64", f"ptrtoint {pointer} to i64"), i64(1))


def unpack(b: Builder, packed: Value) -> Value:
    """Bytes as twice as many lanes of 4 bits without a sign."""
    size = lanes_of(packed)
    low = b.op("and", packed, b.splat("i8", size, "15"))
    high = b.op("lshr", packed, b.splat("i8", size, "4"))
    return interleave(b, low, high)


def interleave(b: Builder, even: Value, odd: Value) -> Value:
    """Lanes of `even` and `odd` by turns."""
    size = lanes_of(even)
    return b.shuffle(even, odd, [lane // 2 + size * (lane % 2) for lane in range(2 * size)])


def with_sign(b: Builder, nibbles: Value) -> Value:
    """Lanes of 4 bits as numbers from -8 to 7."""
    eight = b.splat("i8", lanes_of(nibbles), "8")
    return b.op("sub", b.op("xor", nibbles, eight), eight)


def load_run(b: Builder, data_type: DataType, base: Value, first: int, count: int) -> Value:
    """`count` consecutive elements, `first` elements behind `base`; no byte beside theirs is touched."""
    whole = base.type == "ptr"
    nibbles = _from_byte(b, base, first, count) if whole else _from_half(b, base, first, count)
    return with_sign(b, nibbles) if data_type is DataType.s4 else nibbles


def _from_byte(b: Builder, base: Value, first: int, count: int) -> Value:
    half = first % 2
    packed = _bytes(b, b.advance(base, first // 2), (half + count + 1) // 2)
    return _cut(b, unpack(b, packed), half, count)


def _from_half(b: Builder, base: Value, first: int, count: int) -> Value:
    """Which half comes first is known only here: the elements 0, 2, ... are all in that one, the others in
    the other half, of the same bytes or of the next."""
    at = b.op("add", base, i64(first))
    shift = b.value("i8", f"trunc {b.op('shl', b.op('and', at, i64(1)), i64(2))} to i8")
    even = _halves(b, at, shift, (count + 1) // 2)
    if count == 1:
        return even
    other = b.op("sub", Value("i8", "4"), shift)
    odd = _halves(b, b.op("add", at, i64(1)), other, count // 2, lanes_of(even))
    return _cut(b, interleave(b, even, odd), 0, count)


def _halves(b: Builder, at: Value, shift: Value, count: int, lanes: int = 1) -> Value:
    """One half of each of `count` bytes, from the one on that has half number `at`; in `lanes` or more."""
    address = b.value("ptr", f"inttoptr {b.op('lshr', at, i64(1))} to ptr")
    packed = _bytes(b, address, count, lanes)
    size = lanes_of(packed)
    return b.op("and", b.op("lshr", packed, b.broadcast(shift, size)), b.splat("i8", size, "15"))


def _bytes(b: Builder, address: Value, count: int, lanes: int = 1) -> Value:
    """`count` bytes in as many lanes as are a power of two: LLVM takes minutes to interleave 33."""
    kind, size = vector("i8", count), max(lanes, 1 << (count - 1).bit_length())
    packed = b.value(kind, f"load {kind}, {address}, align 1")
    return _cut(b, packed, 0, count, size)


def _cut(b: Builder, value: Value, first: int, count: int, lanes: int = 0) -> Value:
    """The lanes from `first` on, `count` of them, and behind them anything up to `lanes`."""
    if first == 0 and lanes_of(value) == max(count, lanes):
        return value
    return b.shuffle(value, value, [*range(first, first + count), *[-1] * (lanes - count)])
