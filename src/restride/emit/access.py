"""Loads and stores of registers: whole vectors, masked, or in pieces; also 4-bit elements.

Tensors that begin at a whole byte have a pointer. An operand whose tiles can begin inside a byte has a count
of halves instead: twice its address, plus 1 for a high half.

A 4-bit element takes a byte in registers, sign-extended; in memory two share a byte, the first in the low
half. Every tile begins at a whole byte on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ..dtypes import DataType
from ..schedule.machine import LINE, SHORTEST_VECTOR
from .builder import Builder, Value, element_of, i64, lanes_of, vector
from .convert import Abilities, bits_type, zeros
from .register_permutation import NOTHING, Lanes
from .tile_shape import piece, prefix

# --- elements of 4 bits ------------------------------------------------------
# 4-bit elements in registers: a byte for each, sign-extended. In memory the low half comes first.

# By lanes: weights of bytes, whose products are summed in pairs.
_TO_WORDS = {
    16: "llvm.x86.ssse3.pmadd.ub.sw.128",
    32: "llvm.x86.avx2.pmadd.ub.sw",
    64: "llvm.x86.avx512.pmaddubs.w.512",
}

HALVES = 8
"""The bits by which such a count moves for each element; a pointer moves by bytes."""


def halves_at(b: Builder, pointer: Value) -> Value:
    """Return the count of halves at a pointer."""
    return b.op("shl", b.value("i64", f"ptrtoint {pointer} to i64"), i64(1))


def unpack(b: Builder, packed: Value) -> Value:
    """Expand bytes to twice as many lanes of unsigned 4-bit values."""
    size = lanes_of(packed)
    low = b.op("and", packed, b.splat("i8", size, "15"))
    high = b.op("lshr", packed, b.splat("i8", size, "4"))
    return interleave(b, low, high)


def interleave(b: Builder, even: Value, odd: Value) -> Value:
    """Interleave the lanes of `even` and `odd`."""
    size = lanes_of(even)
    return b.shuffle(even, odd, [lane // 2 + size * (lane % 2) for lane in range(2 * size)])


def with_sign(b: Builder, nibbles: Value) -> Value:
    """Sign-extend 4-bit lanes to numbers from -8 to 7."""
    eight = b.splat("i8", lanes_of(nibbles), "8")
    return b.op("sub", b.op("xor", nibbles, eight), eight)


def pairs(b: Builder, nibbles: Value, can: Abilities, *, are_clean: bool) -> Value:
    """Pack 4-bit lanes, two to a byte, the first in the low half; `are_clean`: bits above the 4 are zero."""
    lanes = lanes_of(nibbles) // 2
    if can.packs and 2 * lanes <= can.shuffled_bytes and 2 * lanes in _TO_WORDS:
        if not are_clean:
            nibbles = b.op("and", nibbles, b.splat("i8", 2 * lanes, "15"))
        weights = Value(nibbles.type, "<" + ", ".join(["i8 1, i8 16"] * lanes) + ">")
        kinds = f"{nibbles.type}, {nibbles.type}"
        words = b.call(vector("i16", lanes), _TO_WORDS[2 * lanes], f"{nibbles}, {weights}", kinds)
        return b.cast("trunc", words, "i8")
    both = b.value(vector("i16", lanes), f"bitcast {nibbles} to {vector('i16', lanes)}")
    low = b.op("and", both, b.splat("i16", lanes, "15"))
    high = b.op("and", b.op("lshr", both, b.splat("i16", lanes, "4")), b.splat("i16", lanes, "240"))
    return b.cast("trunc", b.op("or", low, high), "i8")


def load_run(b: Builder, data_type: DataType, base: Value, first: int, count: int) -> Value:
    """Load `count` consecutive elements, `first` elements after `base`, touching no other byte."""
    whole = base.type.startswith("ptr")
    nibbles = _from_byte(b, base, first, count) if whole else _from_half(b, base, first, count)
    return with_sign(b, nibbles) if data_type is DataType.s4 else nibbles


def are_scattered(base: Value, offsets: Sequence[int], runs: int) -> bool:
    """Return whether 4-bit elements, in this many runs, take fewer instructions one by one.

    Measured: for runs of up to 6; for any length if only the kernel knows which half comes first.
    """
    return runs > 2 and (len(offsets) <= 6 * runs or not base.type.startswith("ptr"))


def load_apart(b: Builder, data_type: DataType, base: Value, offsets: Sequence[int]) -> Value:
    """Load the elements at these offsets after `base`, in runs of a few.

    Every second one is a half of each of consecutive bytes. For others, the bytes are inserted one by one
    into the lanes of one vector, which is shifted as a whole. If halves were inserted lane by lane, LLVM
    might never finish: it combines what it has just taken apart.
    """
    count = len(offsets)
    if list(offsets) == list(range(offsets[0], offsets[-1] + 1, 2)):
        nibbles = _take_halves(b, *_place(b, base, offsets[0]), count)
    else:
        nibbles = _take_scattered(b, base, offsets)
    nibbles = _take_lanes(b, nibbles, 0, count)
    return with_sign(b, nibbles) if data_type is DataType.s4 else nibbles


def _take_scattered(b: Builder, base: Value, offsets: Sequence[int]) -> Value:
    """Load the elements, followed by undefined lanes up to a power of two."""
    size = 1 << (len(offsets) - 1).bit_length()
    # An element an even number of halves after `base` is in the same half of its byte.
    places = {half: _place(b, base, half) for half in sorted({offset % 2 for offset in offsets})}
    packed = Value(vector("i8", size), "zeroinitializer")
    for lane, offset in enumerate(offsets):
        byte = b.value("i8", f"load i8, {b.advance(places[offset % 2][0], offset // 2)}, align 1")
        packed = b.value(packed.type, f"insertelement {packed}, {byte}, i64 {lane}")
    first, *other = (_half_of(b, packed, shift) for _, shift in places.values())
    if not other:
        return first
    order = [lane + size * (offset % 2) for lane, offset in enumerate(offsets)]
    return b.shuffle(first, other[0], order + [-1] * (size - len(order)))


def _place(b: Builder, base: Value, offset: int) -> tuple[Value, Value]:
    """Return the byte of an element this far after `base`, and the shift to its half."""
    if base.type.startswith("ptr"):
        return b.advance(base, offset // 2), Value("i8", str(4 * (offset % 2)))
    at = b.op("add", base, i64(offset))
    shift = _shift_of(b, at)
    return _byte_at(b, at), shift


def _shift_of(b: Builder, at: Value) -> Value:
    return b.value("i8", f"trunc {b.op('shl', b.op('and', at, i64(1)), i64(2))} to i8")


def _byte_at(b: Builder, at: Value) -> Value:
    return b.value("ptr", f"inttoptr {b.op('lshr', at, i64(1))} to ptr")


def _from_byte(b: Builder, base: Value, first: int, count: int) -> Value:
    half = first % 2
    packed = _bytes(b, b.advance(base, first // 2), (half + count + 1) // 2)
    return _take_lanes(b, unpack(b, packed), half, count)


def _from_half(b: Builder, base: Value, first: int, count: int) -> Value:
    """Load elements if which half comes first is known only at run time: the elements 0, 2, ... are all in
    that half, the others in the other half, of the same bytes or of the next."""
    at = b.op("add", base, i64(first))
    shift = _shift_of(b, at)
    even = _take_halves(b, _byte_at(b, at), shift, (count + 1) // 2)
    if count == 1:
        return even
    other = b.op("sub", Value("i8", "4"), shift)
    odd = _take_halves(b, _byte_at(b, b.op("add", at, i64(1))), other, count // 2, lanes_of(even))
    return _take_lanes(b, interleave(b, even, odd), 0, count)


def _take_halves(b: Builder, address: Value, shift: Value, count: int, lanes: int = 1) -> Value:
    """Extract one half of each of `count` bytes, the one selected by `shift`; in at least `lanes` lanes."""
    return _half_of(b, _bytes(b, address, count, lanes), shift)


def _half_of(b: Builder, packed: Value, shift: Value) -> Value:
    size = lanes_of(packed)
    return b.op("and", b.op("lshr", packed, b.broadcast(shift, size)), b.splat("i8", size, "15"))


def _bytes(b: Builder, address: Value, count: int, lanes: int = 1) -> Value:
    """Load `count` bytes into a power of two of lanes: LLVM takes minutes to interleave 33."""
    kind, size = vector("i8", count), max(lanes, 1 << (count - 1).bit_length())
    packed = b.value(kind, f"load {kind}, {address}, align 1")
    return _take_lanes(b, packed, 0, count, size)


def _take_lanes(b: Builder, value: Value, first: int, count: int, lanes: int = 0) -> Value:
    """Take `count` lanes from `first` on, followed by undefined lanes up to `lanes`."""
    if first == 0 and lanes_of(value) == max(count, lanes):
        return value
    return b.shuffle(value, value, [*range(first, first + count), *[-1] * (lanes - count)])


# --- leading elements --------------------------------------------------------
# The leading elements of a register: loads that never touch memory after the last of them.


def prefix_mask(lanes: int, count: int) -> str:
    """Return a constant mask of the leading lanes."""
    flags = ", ".join(f"i1 {'true' if i < count else 'false'}" for i in range(lanes))
    return f"<{lanes} x i1> <{flags}>"


def load_masked(b: Builder, kind: str, lanes: int, count: int, address: Value) -> Value:
    """Load `count` leading lanes of elements `kind` by one masked load, with zero in the others."""
    full, mask = vector(kind, lanes), prefix_mask(lanes, count)
    args = f"{address}, i32 1, {mask}, {full} zeroinitializer"
    types = f"ptr, i32, <{lanes} x i1>, {full}"
    return b.call(full, f"llvm.masked.load.v{lanes}{kind}.p0", args, types)


def store_masked(b: Builder, value: Value, count: int, address: Value) -> None:
    """Store the leading `count` lanes by one masked store.

    A single lane of 8 or 16 bits is a plain store: if elements are truncated from wider ones, LLVM turns a
    one-lane mask into a 32-bit store on AVX-512.
    """
    if count == 1 and int(element_of(value)[1:]) < 32:
        b.line(f"store {b.lanes(value, 0, 1)}, {address}, align 1")
        return
    lanes, kind = lanes_of(value), element_of(value)
    types = f"{value.type}, ptr, i32, <{lanes} x i1>"
    args = f"{value}, {address}, i32 1, {prefix_mask(lanes, count)}"
    b.call_void(f"llvm.masked.store.v{lanes}{kind}.p0", args, types)


def load_prefix(b: Builder, kind: str, lanes: int, count: int, at: Callable[[int], Value]) -> Value:
    """Do the same by loads of powers of two; `at` gives the address of a lane."""

    def load(first: int, size: int) -> Value:
        part = vector(kind, size)
        return b.value(part, f"load {part}, {at(first)}, align 1")

    return prefix_of(b, kind, lanes, count, load)


def prefix_of(b: Builder, kind: str, lanes: int, count: int, load: Callable[[int, int], Value]) -> Value:
    """Build the first `count` of `lanes`, with zero in the others, from parts of powers of two, each given by
    its first lane and its size.
    """
    value, done = Value(vector(kind, lanes), "zeroinitializer"), 0
    while done < count:
        step = 1 << ((count - done).bit_length() - 1)
        part = load(done, step)
        wide = b.shuffle(part, part, [*range(step), *[-1] * (lanes - step)])
        mask = [lanes + i - done if done <= i < done + step else i for i in range(lanes)]
        value = b.shuffle(value, wide, mask)
        done += step
    return value


# --- registers ---------------------------------------------------------------
# Loads and stores of registers: whole vectors if elements are consecutive, else masked or in pieces.

# Consecutive elements, and how many leading ones are present.
Piece = tuple[Lanes, int]


@dataclass(frozen=True, slots=True)
class Side:
    """One operand of a tile: its address, element type and the offset of each element."""

    base: Value
    data_type: DataType
    offsets: tuple[int, ...]
    present: tuple[bool, ...]

    def at(self, b: Builder, element: int) -> Value:
        """Return the address of an element; for a 4-bit one, that of its byte."""
        return b.advance(self.base, self.offsets[element] * self.data_type.bits // 8)

    def has(self, element: int) -> bool:
        """Return whether the element is to be moved."""
        return element != NOTHING and self.present[element]


# --- loads --------------------------------------------------------------------------------------------------


def load(b: Builder, can: Abilities, side: Side, lanes: Lanes) -> Value:
    """Load the bits of the present elements of `lanes`, with zero in the other lanes."""
    if (span := span_of(side, lanes)) is not None:
        return _load_span(b, can, side, lanes, span)
    cut = _pieces(side, lanes)
    if side.data_type.bits == 4:
        nibbles = _load_nibble_lanes(b, side, lanes) if cut is None else _load_nibbles(b, can, side, cut)
        return with_sign(b, nibbles) if side.data_type is DataType.s4 else nibbles
    if cut is None:
        return _load_lanes(b, side, lanes)
    return b.join([_load_piece(b, can, side, group, count) for group, count in cut])


def _pieces(side: Side, lanes: Lanes) -> list[Piece] | None:
    """Return groups of consecutive elements, and how many leading ones of each are present; None if lanes
    must be moved one by one."""
    size = piece(lanes, side.offsets)
    groups = [lanes[i : i + size] for i in range(0, len(lanes), size)]
    counts = [prefix([side.has(e) for e in group]) for group in groups]
    if size == 1 or None in counts:
        return None
    return [(group, count or 0) for group, count in zip(groups, counts, strict=True)]


def span_of(side: Side, lanes: Lanes) -> range | None:
    """Return the range of offsets if one load covers all lanes: some elements are in several lanes, or no two
    are adjacent. None for elements far apart, or with a load for each piece.
    """
    offsets = [side.offsets[e] for e in lanes if side.has(e)]
    if len(offsets) < 2:
        return None
    span = range(min(offsets), max(offsets) + 1)
    if not are_close(side.data_type, len(span), len(lanes)):
        return None
    is_of_pieces = len(set(offsets)) == len(offsets) and _pieces(side, lanes) is not None
    return None if is_of_pieces else span


def are_close(data_type: DataType, extent: int, lanes: int) -> bool:
    """Return whether one or two loads cover the whole range of elements for these lanes.

    Two vectors if every second element is needed; byte shuffles of that many take long.
    """
    return data_type.bits >= 8 and extent <= lanes * (1 if data_type.bits == 8 else 2)


def _load_span(b: Builder, can: Abilities, side: Side, lanes: Lanes, span: range) -> Value:
    first = next(e for e in lanes if side.has(e) and side.offsets[e] == span[0])
    places = [side.offsets[e] - span[0] if side.has(e) else None for e in lanes]
    return load_close(b, can, side.data_type, side.at(b, first), places)


def load_close(
    b: Builder, can: Abilities, data_type: DataType, base: Value, places: Sequence[int | None]
) -> Value:
    """Load elements at these offsets from an address, one of them 0, by one or two loads; zero for None."""
    kind, count = bits_type(data_type), max(place for place in places if place is not None) + 1
    size = 1 << (count.bit_length() - 1)
    full = vector(kind, size)
    if size == count:
        whole = b.value(full, f"load {full}, {base}, align 1")
    elif can.masks:
        whole = load_masked(b, kind, 2 * size, count, base)
    else:
        # The last elements are in both vectors, so that nothing after them is read.
        last = b.advance(base, (count - size) * data_type.bits // 8)
        whole = b.join([b.value(full, f"load {full}, {at}, align 1") for at in (base, last)])
        places = [None if at is None else at if at < size else at + 2 * size - count for at in places]
    absent = lanes_of(whole)
    return b.shuffle(whole, zeros(data_type, absent), [absent if at is None else at for at in places])


def _load_lanes(b: Builder, side: Side, lanes: Lanes) -> Value:
    kind = bits_type(side.data_type)
    value = zeros(side.data_type, len(lanes))
    for lane, element in enumerate(lanes):
        if not side.has(element):
            continue
        scalar = b.value(kind, f"load {kind}, {side.at(b, element)}, align 1")
        value = b.value(value.type, f"insertelement {value}, {scalar}, i64 {lane}")
    return value


def _load_piece(b: Builder, can: Abilities, side: Side, group: Lanes, count: int) -> Value:
    size, kind = len(group), bits_type(side.data_type)
    if count == 0:
        return zeros(side.data_type, size)
    address = side.at(b, group[0])
    full = vector(kind, size)
    if count == size:
        return b.value(full, f"load {full}, {address}, align 1")
    if can.masks:
        return load_masked(b, kind, size, count, address)
    return load_prefix(b, kind, size, count, lambda lane: side.at(b, group[lane]))


def _bytes_of(side: Side) -> Side:
    """Return the bytes that contain the elements of a 4-bit operand."""
    return replace(side, data_type=DataType.u8, offsets=tuple(offset >> 1 for offset in side.offsets))


def _load_nibbles(b: Builder, can: Abilities, side: Side, cut: list[Piece]) -> Value:
    return b.join([_load_nibble_piece(b, can, side, group, count) for group, count in cut])


def _load_nibble_piece(b: Builder, can: Abilities, side: Side, group: Lanes, count: int) -> Value:
    both = _load_pairs(b, can, side, group, count)
    if count % 2 == 0:
        return both
    kept = ", ".join(f"i8 {-1 if lane < count else 0}" for lane in range(lanes_of(both)))
    return b.op("and", both, Value(both.type, f"<{kept}>"))


def _load_pairs(b: Builder, can: Abilities, side: Side, group: Lanes, count: int) -> Value:
    """Load elements in whole bytes, or all but the first half of the first byte."""
    near = _load_piece(b, can, _bytes_of(side), group[::2], (count + 1) // 2)
    if side.offsets[group[0]] % 2 == 0:
        return unpack(b, near)
    size = lanes_of(near)
    far = _load_piece(b, can, _bytes_of(side), group[1::2], count // 2)
    high = b.op("lshr", near, b.splat("i8", size, "4"))
    return interleave(b, high, b.op("and", far, b.splat("i8", size, "15")))


def _load_nibble_lanes(b: Builder, side: Side, lanes: Lanes) -> Value:
    value = zeros(side.data_type, len(lanes))
    for lane, element in enumerate(lanes):
        if not side.has(element):
            continue
        packed = b.value("i8", f"load i8, {side.at(b, element)}, align 1")
        shifted = b.op("lshr", packed, Value("i8", str(4 * (side.offsets[element] % 2))))
        nibble = b.op("and", shifted, Value("i8", "15"))
        value = b.value(value.type, f"insertelement {value}, {nibble}, i64 {lane}")
    return value


# --- stores -------------------------------------------------------------------------------------------------


def store(b: Builder, can: Abilities, side: Side, value: Value, lanes: Lanes, streams: bool) -> None:
    """Write the lanes whose elements are present, and nothing else."""
    cut = _pieces(side, lanes)
    if cut is None:
        _store_lanes(b, side, value, lanes)
        return
    size = len(cut[0][0])
    for number, (group, count) in enumerate(cut):
        part = b.lanes(value, number * size, size)
        if side.data_type.bits == 4:
            _store_nibbles(b, can, side, part, group, count, streams)
        else:
            _store_piece(b, can, side, part, group, count, streams)


def _store_lanes(b: Builder, side: Side, value: Value, lanes: Lanes) -> None:
    for lane, element in enumerate(lanes):
        if side.has(element):
            _store_lane(b, side, value, lane, element)


def _store_lane(b: Builder, side: Side, value: Value, lane: int, element: int) -> None:
    scalar = b.value(element_of(value), f"extractelement {value}, i64 {lane}")
    address = side.at(b, element)
    if side.data_type.bits == 4:
        scalar = _replace_half(b, scalar, address, side.offsets[element] % 2)
    b.line(f"store {scalar}, {address}, align 1")


def _replace_half(b: Builder, nibble: Value, address: Value, half: int) -> Value:
    """Return the byte at an address with one half replaced."""
    old = b.value("i8", f"load i8, {address}, align 1")
    kept = b.op("and", old, Value("i8", str(15 if half else -16)))
    moved = b.op("shl", nibble, Value("i8", "4")) if half else b.op("and", nibble, Value("i8", "15"))
    return b.op("or", kept, moved)


def _store_nibbles(
    b: Builder, can: Abilities, side: Side, value: Value, group: Lanes, count: int, streams: bool
) -> None:
    """Store pairs as bytes; for an odd last one, or a first one in a high half, only its half of the byte."""
    if count and side.offsets[group[0]] % 2:
        _store_lane(b, side, value, 0, group[0])
        value, group, count = _past_first(b, value), (*group[1:], NOTHING), count - 1
    half = lanes_of(value) // 2
    low = b.op("and", b.shuffle(value, value, range(0, 2 * half, 2)), b.splat("i8", half, "15"))
    high = b.op("shl", b.shuffle(value, value, range(1, 2 * half, 2)), b.splat("i8", half, "4"))
    _store_piece(b, can, _bytes_of(side), b.op("or", low, high), group[::2], count // 2, streams)
    if count % 2:
        _store_lane(b, side, value, count - 1, group[count - 1])


def _past_first(b: Builder, value: Value) -> Value:
    """Return the lanes after the first, plus an undefined one."""
    return b.shuffle(value, value, (*range(1, lanes_of(value)), -1))


def _store_piece(
    b: Builder, can: Abilities, side: Side, part: Value, group: Lanes, count: int, streams: bool
) -> None:
    size = len(group)
    if count == 0:
        return
    if count < size and can.masks:
        store_masked(b, part, count, side.at(b, group[0]))
        return
    done = 0
    while done < count:
        step = 1 << ((count - done).bit_length() - 1)
        piece_of = b.lanes(part, done, step)
        offset, nbytes = (n * side.data_type.bits // 8 for n in (side.offsets[group[done]], step))
        how = alignment(streams, nbytes, offset)
        b.line(f"store {piece_of}, {side.at(b, group[done])}, {how}")
        done += step


def alignment(streams: bool, nbytes: int, offset: int) -> str:
    """Return the attributes of a store of `nbytes`, at an offset from a tile's first byte.

    Streaming stores must be aligned to their size: a tile begins at a line, so its offset determines it.
    """
    if not streams or nbytes < SHORTEST_VECTOR or offset % min(nbytes, LINE):
        return "align 1"
    return f"align {min(nbytes, LINE)}, !nontemporal !0"
