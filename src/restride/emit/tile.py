"""One register tile: load, convert, permute, finish, store."""

from __future__ import annotations

from dataclasses import dataclass

from ..dtypes import DataType
from ..plan.nest import Compute
from .builder import Builder, Value, element_of, lanes_of, vector
from .convert import Abilities, Factors, bits_type, compute, convert, zeros
from .network import NOTHING, Lanes, Recipe
from .shape import Layout, TileAxis, layout, piece, prefix, recipe


@dataclass(frozen=True, slots=True)
class TileSpec:
    """What every tile of a kernel shares."""

    src_type: DataType
    dst_type: DataType
    mid_type: DataType
    compute: Compute
    is_zero: bool
    streams: bool
    prefetch: int
    vector_bytes: int
    permute_cost: int
    can: Abilities


@dataclass(frozen=True, slots=True)
class _Side:
    """One operand of a tile: its address, element type and the offset of each element."""

    base: Value
    data_type: DataType
    offsets: tuple[int, ...]
    present: tuple[bool, ...]

    def at(self, b: Builder, element: int) -> Value:
        return b.advance(self.base, self.offsets[element] * self.data_type.bits // 8)


def emit_tile(
    b: Builder, spec: TileSpec, axes: tuple[TileAxis, ...], src: Value, dst: Value, factors: Factors
) -> None:
    """Write the code of one tile whose first element is at `src` and `dst`."""
    lanes = spec.vector_bytes * 8 // spec.mid_type.bits
    places = layout(axes)
    plan = recipe(axes, lanes, 128 // spec.mid_type.bits, spec.permute_cost)
    source = _Side(src, spec.src_type, places.src, places.read)
    target = _Side(dst, spec.dst_type, places.dst, places.written)
    stores = [(register, ids) for register, ids in plan.stores if _any(ids, places.written)]
    loaded = [_load_register(b, spec, source, ids, factors) for ids in plan.loads]
    registers = _permute(b, plan, loaded, {register for register, _ in stores})
    for register, ids in sorted(stores, key=lambda store: _first_offset(store[1], places)):
        _store_register(b, spec, target, places, (registers[register], ids), factors)


def _first_offset(lanes: Lanes, places: Layout) -> int:
    return min(places.dst[element] for element in lanes if element != NOTHING)


def _permute(b: Builder, plan: Recipe, loaded: list[Value], stored: set[int]) -> list[Value]:
    """Run a recipe's shuffles; those that reach no store, or have nothing but zeros to move, are left out."""
    registers = list(loaded)
    needed = _needed(plan, stored)
    for number, step in enumerate(plan.shuffles):
        if number in plan.rounds:
            b.cut()
        a, c = registers[step.a], registers[step.b]
        # A shuffle of zeros is written as the zero it is: LLVM 22 aborts on storing one that interleaves.
        is_zero = a.ref == c.ref == "zeroinitializer"
        is_wanted = len(registers) in needed and not is_zero
        registers.append(b.shuffle(a, c, step.mask) if is_wanted else a)
    return registers


def _needed(plan: Recipe, stored: set[int]) -> set[int]:
    """Registers that reach a store; a tail tile stores few."""
    needed = set(stored)
    for number in range(len(plan.shuffles) - 1, -1, -1):
        if len(plan.loads) + number in needed:
            needed |= {plan.shuffles[number].a, plan.shuffles[number].b}
    return needed


def _any(lanes: Lanes, flags: tuple[bool, ...]) -> bool:
    return any(e != NOTHING and flags[e] for e in lanes)


def _converts_early(spec: TileSpec) -> bool:
    return spec.mid_type is spec.dst_type and not spec.compute.summed


def _load_register(b: Builder, spec: TileSpec, side: _Side, lanes: Lanes, factors: Factors) -> Value:
    if spec.is_zero or not _any(lanes, side.present):
        return zeros(spec.mid_type, len(lanes))
    if spec.prefetch:
        _prefetch(b, side, lanes, spec.prefetch)
    value = _load(b, spec.can, side, lanes)
    if not _converts_early(spec):
        return value
    if spec.compute.is_move:
        return convert(b, value, spec.src_type, spec.dst_type, spec.can)
    value = compute(b, value, None, (spec.src_type, spec.dst_type), factors, spec.can)
    return _zero_where(b, value, [e == NOTHING or not side.present[e] for e in lanes])


def _zero_where(b: Builder, value: Value, absent: list[bool]) -> Value:
    if not any(absent):
        return value
    flags = ", ".join(f"i1 {'false' if a else 'true'}" for a in absent)
    keep = Value(vector("i1", len(absent)), f"<{flags}>")
    return b.select(keep, value, Value(value.type, "zeroinitializer"))


def _prefetch(b: Builder, side: _Side, lanes: Lanes, ahead: int) -> None:
    """Ask for what lies `ahead` bytes further in each source row: hardware does not follow so many rows.

    Into the second cache, which holds a whole block; a prefetch never faults, so it may point past the end.
    """
    size = piece(lanes, side.offsets)
    for group in (lanes[i : i + size] for i in range(0, len(lanes), size)):
        if group[0] != NOTHING and side.present[group[0]]:
            address = b.advance(side.at(b, group[0]), ahead)
            b.call_void("llvm.prefetch.p0", f"{address}, i32 0, i32 2, i32 1", "ptr, i32, i32, i32")


# --- loads --------------------------------------------------------------------------------------------------


def _load(b: Builder, can: Abilities, side: _Side, lanes: Lanes) -> Value:
    """The bits of the present elements of `lanes`; zero in the other lanes."""
    size = piece(lanes, side.offsets)
    groups = [lanes[i : i + size] for i in range(0, len(lanes), size)]
    counts = [prefix([e != NOTHING and side.present[e] for e in group]) for group in groups]
    if size == 1 or None in counts:
        return _load_lanes(b, side, lanes)
    parts = [_load_piece(b, can, side, g, c or 0) for g, c in zip(groups, counts, strict=True)]
    while len(parts) > 1:
        parts = [_concat(b, x, y) for x, y in zip(parts[::2], parts[1::2], strict=True)]
    return parts[0]


def _concat(b: Builder, x: Value, y: Value) -> Value:
    return b.shuffle(x, y, tuple(range(2 * lanes_of(x))))


def _load_lanes(b: Builder, side: _Side, lanes: Lanes) -> Value:
    kind = bits_type(side.data_type)
    value = zeros(side.data_type, len(lanes))
    for lane, element in enumerate(lanes):
        if element == NOTHING or not side.present[element]:
            continue
        scalar = b.value(kind, f"load {kind}, {side.at(b, element)}, align 1")
        value = b.value(value.type, f"insertelement {value}, {scalar}, i64 {lane}")
    return value


def _load_piece(b: Builder, can: Abilities, side: _Side, group: Lanes, count: int) -> Value:
    size, kind = len(group), bits_type(side.data_type)
    if count == 0:
        return zeros(side.data_type, size)
    address = side.at(b, group[0])
    full = vector(kind, size)
    if count == size:
        return b.value(full, f"load {full}, {address}, align 1")
    if can.masks:
        name, mask = f"llvm.masked.load.v{size}{kind}.p0", _prefix_mask(size, count)
        args = f"{address}, i32 1, {mask}, {full} zeroinitializer"
        return b.call(full, name, args, f"ptr, i32, <{size} x i1>, {full}")
    return _load_prefix(b, side, group, count)


def _load_prefix(b: Builder, side: _Side, group: Lanes, count: int) -> Value:
    """A few leading lanes by loads of powers of two, never past the last one."""
    size, kind = len(group), bits_type(side.data_type)
    value, done = zeros(side.data_type, size), 0
    while done < count:
        step = 1 << ((count - done).bit_length() - 1)
        part_type = vector(kind, step)
        part = b.value(part_type, f"load {part_type}, {side.at(b, group[done])}, align 1")
        wide = b.shuffle(part, part, [*range(step), *[-1] * (size - step)])
        mask = [size + i - done if done <= i < done + step else i for i in range(size)]
        value = b.shuffle(value, wide, mask)
        done += step
    return value


def _prefix_mask(size: int, count: int) -> Value:
    flags = ", ".join("i1 true" if i < count else "i1 false" for i in range(size))
    return Value(vector("i1", size), f"<{flags}>")


# --- stores -------------------------------------------------------------------------------------------------


def _store_register(
    b: Builder, spec: TileSpec, side: _Side, places: Layout, register: tuple[Value, Lanes], factors: Factors
) -> None:
    value, lanes = register
    if not _converts_early(spec) and not spec.is_zero:
        value = _finish(b, spec, side, places, register, factors)
    if spec.is_zero:
        value = zeros(spec.dst_type, len(lanes))
    size = piece(lanes, side.offsets)
    groups = [(i, lanes[i : i + size]) for i in range(0, len(lanes), size)]
    counts = [prefix([e != NOTHING and side.present[e] for e in group]) for _, group in groups]
    if size == 1 or None in counts:
        _store_lanes(b, side, value, lanes)
        return
    for (first, group), count in zip(groups, counts, strict=True):
        _store_piece(b, spec, side, (value, first), group, count or 0)


def _finish(
    b: Builder, spec: TileSpec, side: _Side, places: Layout, register: tuple[Value, Lanes], factors: Factors
) -> Value:
    value, lanes = register
    if spec.compute.is_move:
        return convert(b, value, spec.src_type, spec.dst_type, spec.can)
    old = None
    if spec.compute.summed:
        both = tuple(r and w for r, w in zip(places.read, places.written, strict=True))
        old = _load(b, spec.can, _Side(side.base, side.data_type, side.offsets, both), lanes)
    value = compute(b, value, old, (spec.src_type, spec.dst_type), factors, spec.can)
    return _zero_where(b, value, [e == NOTHING or not places.read[e] for e in lanes])


def _store_lanes(b: Builder, side: _Side, value: Value, lanes: Lanes) -> None:
    kind = element_of(value)
    for lane, element in enumerate(lanes):
        if element == NOTHING or not side.present[element]:
            continue
        scalar = b.value(kind, f"extractelement {value}, i64 {lane}")
        b.line(f"store {scalar}, {side.at(b, element)}, align 1")


def _store_piece(
    b: Builder, spec: TileSpec, side: _Side, register: tuple[Value, int], group: Lanes, count: int
) -> None:
    value, first = register
    size, kind = len(group), element_of(value)
    if count == 0:
        return
    address = side.at(b, group[0])
    if count < size and spec.can.masks:
        part = _lanes(b, value, first, size)
        types = f"{part.type}, ptr, i32, <{size} x i1>"
        args = f"{part}, {address}, i32 1, {_prefix_mask(size, count)}"
        b.call_void(f"llvm.masked.store.v{size}{kind}.p0", args, types)
        return
    done = 0
    while done < count:
        step = 1 << ((count - done).bit_length() - 1)
        part = _lanes(b, value, first + done, step)
        offset = side.offsets[group[done]] * spec.dst_type.bits // 8
        b.line(f"store {part}, {side.at(b, group[done])}, {_alignment(spec, step, offset)}")
        done += step


def _alignment(spec: TileSpec, lanes: int, offset: int) -> str:
    """Streaming stores must be aligned to their size: a tile begins at a line, its offset says the rest."""
    nbytes = lanes * spec.dst_type.bits // 8
    if not spec.streams or nbytes < 16 or offset % min(nbytes, 64):
        return "align 1"
    return f"align {min(nbytes, 64)}, !nontemporal !0"


def _lanes(b: Builder, value: Value, first: int, count: int) -> Value:
    if count == lanes_of(value):
        return value
    return b.shuffle(value, value, tuple(range(first, first + count)))
