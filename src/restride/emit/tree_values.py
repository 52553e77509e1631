"""Values of loop trees as LLVM IR: vectors of real numbers, loads and stores of them, masks.

A value has as many lanes as the vectors of its loop, or one lane if it is the same for all of them; `align`
makes operands equal. `ir/conversion.py` and `ir/expression.py` are the definition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from ..dtypes import DataType
from ..ir.expression import evaluate, is_costly
from ..ir.nest import Stride
from ..ir.numbers import Number
from .access import load_masked, load_prefix, prefix_mask, prefix_of, store_masked
from .builder import Builder, Value, element_of, i64, lanes_of, vector
from .byte_codes import byte_codes, has_byte_codes
from .compute import VectorArithmetic, call_function, lanes_together
from .convert import Abilities, bits_type, canonical_nan, from_real, to_real

Address = Callable[[int], Value]
"""The address of a lane."""


def constant(number: Number, value: float) -> Value:
    """Return a number in one lane."""
    return VectorArithmetic(Builder()).constant(
        number.constant(value), Value(vector(element_type(number), 1), "")
    )


def element_type(number: Number) -> str:
    """Return the IR type of a value."""
    return {Number.f32: "float", Number.f64: "double"}.get(number, number.name)


def broadcast(b: Builder, value: Value, lanes: int) -> Value:
    """Broadcast a value of one lane to all."""
    if lanes_of(value) == lanes:
        return value
    if value.ref.startswith("splat"):
        return Value(vector(element_of(value), lanes), value.ref)
    return b.shuffle(value, value, (0,) * lanes)


def align(b: Builder, values: Sequence[Value]) -> list[Value]:
    """Return values with as many lanes as the longest of them."""
    lanes = max(map(lanes_of, values))
    return [broadcast(b, value, lanes) for value in values]


def lane_of(b: Builder, value: Value, lane: int) -> Value:
    """Return one lane of a value; if it has one lane, that one."""
    place = lane if lanes_of(value) > 1 else 0
    return b.value(element_of(value), f"extractelement {value}, i64 {place}")


def with_lanes(b: Builder, value: Value, first: int, count: int) -> Value:
    """Return some lanes of a value."""
    if count == lanes_of(value) and not first:
        return value
    return b.shuffle(value, value, tuple(range(first, first + count)))


def operation(b: Builder, op: str, args: Sequence[Value], can: Abilities, vector_bytes: int) -> Value:
    """Write an operation on values; long functions are called, some registers at a time."""
    if not is_costly(op):
        return evaluate(op, VectorArithmetic(b, can.round_even), align(b, args))
    lanes = max(map(lanes_of, args))
    first, *others = args
    whole = [broadcast(b, first, lanes), *others]
    size = min(lanes, lanes_together(op, element_of(first), vector_bytes, can))
    parts = [
        call_function(b, op, [_part(b, each, start, size) for each in whole], can)
        for start in range(0, lanes, size)
    ]
    return b.join(parts)


def _part(b: Builder, value: Value, first: int, count: int) -> Value:
    return value if lanes_of(value) == 1 else with_lanes(b, value, first, count)


# --- masks --------------------------------------------------------------------------------------------------


def lanes_below(b: Builder, lanes: int, count: int) -> Value:
    """Return the condition that holds in the first `count` lanes."""
    kind = vector("i1", lanes)
    return Value(kind, prefix_mask(lanes, count).removeprefix(f"{kind} "))


def index_lanes(b: Builder, first: Value, step: int, lanes: int) -> Value:
    """Return `first + step * lane` in every lane, as i64."""
    whole = b.broadcast(first, lanes)
    offsets = ", ".join(f"i64 {step * lane}" for lane in range(lanes))
    return b.op("add", whole, Value(whole.type, f"<{offsets}>"))


# --- loads --------------------------------------------------------------------------------------------------


def load_scalar(b: Builder, data_type: DataType, address: Value, number: Number, can: Abilities) -> Value:
    """Load one element as a number in one lane."""
    kind = vector(bits_type(data_type), 1)
    return value_of(b, b.value(kind, f"load {kind}, {address}, align 1"), data_type, number, can)


def value_of(b: Builder, bits: Value, data_type: DataType, number: Number, can: Abilities) -> Value:
    """Convert the bits of elements to numbers (`ir/numbers.py`)."""
    if not number.is_integer:
        return to_real(b, bits, data_type, element_type(number), can)
    if data_type is DataType.boolean:
        bits = b.compare("icmp ne", bits, Value(bits.type, "zeroinitializer"))
    elif data_type.bits == number.bits:
        return bits
    elif data_type.bits > number.bits:
        return b.cast("trunc", bits, number.name)
    return b.cast("zext" if data_type.kind in ("uint", "bool") else "sext", bits, number.name)


def load_lanes(
    b: Builder,
    element: str,
    at: Address,
    stride: Stride,
    lanes: int,
    count: int,
    mask: Value | None,
    can: Abilities,
) -> Value:
    """Load the bits of the first `count` of `lanes`, `stride` elements apart; zero in the others."""
    kind, bits = vector(element, lanes), int(element[1:])
    if mask is not None:
        return _load_chosen(b, element, at, stride, lanes, mask)
    if stride == 1:
        if count == lanes:
            return b.value(kind, f"load {kind}, {at(0)}, align 1")
        if can.masks:
            return load_masked(b, element, lanes, count, at(0))
        return load_prefix(b, element, lanes, count, at)
    if stride == 2 and count == lanes and bits <= 32:
        return _load_pairs(b, element, at, 0, lanes)
    if stride == 2 and count > 1 and can.masks:
        both = load_masked(b, element, 2 * lanes, 2 * count - 1, at(0))
        return b.shuffle(both, both, range(0, 2 * lanes, 2))
    if stride == 2 and bits <= 32:
        return prefix_of(b, element, lanes, count, partial(_load_pairs, b, element, at))
    value = Value(kind, "zeroinitializer")
    for lane in range(count):
        scalar = b.value(element, f"load {element}, {at(lane)}, align 1")
        value = b.value(kind, f"insertelement {value}, {scalar}, i64 {lane}")
    return value


def _load_pairs(b: Builder, element: str, at: Address, first: int, lanes: int) -> Value:
    """Load every second element: two loads of adjacent ones, the second ending at the last element."""
    if lanes < 4:
        value = Value(vector(element, lanes), "zeroinitializer")
        for lane in range(lanes):
            scalar = b.value(element, f"load {element}, {at(first + lane)}, align 1")
            value = b.value(value.type, f"insertelement {value}, {scalar}, i64 {lane}")
        return value
    kind, half, size = vector(element, lanes), lanes // 2, int(element[1:]) // 8
    low = b.value(kind, f"load {kind}, {at(first)}, align 1")
    high = b.value(kind, f"load {kind}, {b.advance(at(first + half), -size)}, align 1")
    return b.shuffle(low, high, [*range(0, lanes, 2), *range(lanes + 1, 2 * lanes, 2)])


def _load_chosen(b: Builder, element: str, at: Address, stride: Stride, lanes: int, mask: Value) -> Value:
    kind = vector(element, lanes)
    empty = f"{kind} zeroinitializer"
    if stride == 1:
        name = f"llvm.masked.load.v{lanes}{element}.p0"
        return b.call(kind, name, f"{at(0)}, i32 1, {mask}, {empty}", f"ptr, i32, {mask.type}, {kind}")
    name = f"llvm.masked.gather.v{lanes}{element}.v{lanes}p0"
    where = pointers(b, at, lanes)
    return b.call(kind, name, f"{where}, i32 1, {mask}, {empty}", f"{where.type}, i32, {mask.type}, {kind}")


def pointers(b: Builder, at: Address, lanes: int) -> Value:
    """Return the addresses of all lanes."""
    value = Value(vector("ptr", lanes), "poison")
    for lane in range(lanes):
        value = b.value(value.type, f"insertelement {value}, {at(lane)}, i64 {lane}")
    return value


# --- stores -------------------------------------------------------------------------------------------------


def bits_of(
    b: Builder,
    value: Value,
    data_type: DataType,
    number: Number,
    style: tuple[Abilities, int],
    *,
    is_number: bool,
    is_clipped: bool,
) -> Value:
    """Convert numbers to bits of a data type. `style`: the available instructions, and the bytes of a
    register; `is_number`: none is NaN; `is_clipped`: no 8-bit float exceeds the largest one.
    """
    if number.is_integer:
        kind = bits_type(data_type)
        is_wider = data_type.bits > number.bits
        return (
            value if data_type.bits == number.bits else b.cast("sext" if is_wider else "trunc", value, kind)
        )
    if has_byte_codes(value, data_type, *style):
        return byte_codes(b, value, data_type, style, is_number=is_number, is_clipped=is_clipped)
    if data_type.kind == "float" and not is_number:
        value = canonical_nan(b, value)
    return from_real(b, value, data_type, style[0])


NONTEMPORAL = "!nontemporal !0"
"""The attribute of stores that bypass the caches."""


def store_lanes(
    b: Builder,
    bits: Value,
    at: Address,
    stride: Stride,
    count: int,
    mask: Value | None,
    can: Abilities,
    how: str,
) -> None:
    """Store the first `count` lanes, `stride` elements apart; `how`: the attributes of the address, and of
    that of every whole line after it.
    """
    lanes = lanes_of(bits)
    if mask is not None:
        _store_chosen(b, bits, at, stride, mask)
    elif stride == 1 and count == lanes:
        b.line(f"store {bits}, {at(0)}, {how}")
    elif stride == 1 and can.masks and NONTEMPORAL not in how:
        store_masked(b, bits, count, at(0))
    else:
        _store_parts(b, bits, at, stride, count, how if stride == 1 else "align 1")


def _store_parts(b: Builder, bits: Value, at: Address, stride: Stride, count: int, how: str) -> None:
    """Store runs of powers of two if elements are adjacent, else one element after another."""
    done, lanes = 0, lanes_of(bits)
    while done < count:
        step = 1 << ((count - done).bit_length() - 1) if stride == 1 else 1
        part = bits if step == lanes else b.shuffle(bits, bits, tuple(range(done, done + step)))
        b.line(f"store {part}, {at(done)}, {how}")
        done += step


def _store_chosen(b: Builder, bits: Value, at: Address, stride: Stride, mask: Value) -> None:
    lanes, element = lanes_of(bits), element_of(bits)
    if stride == 1:
        if int(element[1:]) < 32:
            mask = b.op("and", mask, _hidden_lanes(b, lanes))
        types = f"{bits.type}, ptr, i32, {mask.type}"
        b.call_void(f"llvm.masked.store.v{lanes}{element}.p0", f"{bits}, {at(0)}, i32 1, {mask}", types)
        return
    where = pointers(b, at, lanes)
    types = f"{bits.type}, {where.type}, i32, {mask.type}"
    b.call_void(f"llvm.masked.scatter.v{lanes}{element}.v{lanes}p0", f"{bits}, {where}, i32 1, {mask}", types)


def _hidden_lanes(b: Builder, lanes: int) -> Value:
    """Return a mask of all lanes, hidden from LLVM.

    If it knows a mask, and this is of one lane, it stores 32 bits of that lane (`store_masked`).
    """
    whole = b.hidden(i64(-1))
    bits = whole if lanes == 64 else b.value(f"i{lanes}", f"trunc {whole} to i{lanes}")
    return b.value(vector("i1", lanes), f"bitcast {bits} to {vector('i1', lanes)}")


def clear_lanes(b: Builder, bits: Value, valid: int) -> Value:
    """Keep the first `valid` lanes, with zero in the others."""
    zeros = Value(bits.type, "zeroinitializer")
    return zeros if not valid else b.select(lanes_below(b, lanes_of(bits), valid), bits, zeros)


def number_of(b: Builder, index: Value, element: str) -> Value:
    """Convert 64-bit integers, one or a vector of them, to the computed numbers."""
    if index.type == "i64":
        index = b.value(vector("i64", 1), f"insertelement <1 x i64> poison, {index}, i64 0")
    if not element.startswith("i"):
        return b.cast("sitofp", index, element)
    return index if element == "i64" else b.cast("trunc", index, element)


def scalar_index(b: Builder, terms: Sequence[tuple[Value, int]], start: int) -> Value:
    """Return `start + sum of value * factor`."""
    total = i64(start)
    for value, factor in terms:
        total = b.op("add", total, b.op("mul", value, i64(factor)))
    return total
