"""One register tile: load, convert, permute, finish, store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..dtypes import DataType
from ..plan.conversion import is_integer_move
from ..plan.expression import is_costly
from ..plan.machine import LINE
from ..plan.nest import Compute
from .access import Side, load, store
from .builder import Builder, Value, element_of, lanes_of, vector
from .code_tables import CodeTables, can_tabulate
from .compute import StepInputs, Tensors, lanes_together, real_steps, run_steps
from .convert import Abilities, canonical_nan, carrier_bits, convert, keeps_zeros, real_type, zeros
from .network import NOTHING, Lanes, RegisterPermutation
from .pack import clamp, integers_of, is_small_float, pack, parts_of
from .small_float import narrow_to_odd, small_code
from .tile_shape import TileAxis, TileLayout, piece, recipe, tile_layout

# The lanes of the widest registers when they hold bytes.
_BYTES_512 = 64
# How many registers AArch64 stores by turns for which shuffles would not do as well.
_TURNS = 3


@dataclass(frozen=True, slots=True)
class TileSpec:
    """What every tile of a kernel shares."""

    src_type: DataType
    dst_type: DataType
    mid_type: DataType
    compute: Compute
    operand_types: tuple[DataType, ...]
    scalars: tuple[Value, ...]
    late: bool
    packs: bool
    is_zero: bool
    streams: bool
    prefetch: int
    vector_bytes: int
    permute_cost: int
    can: Abilities


@dataclass(frozen=True, slots=True)
class TileAddresses:
    """The addresses of a tile's first element in source, destination and the operands of the computation."""

    src: Value
    dst: Value
    more: tuple[Value, ...] = ()


def emit_tile(b: Builder, spec: TileSpec, axes: tuple[TileAxis, ...], at: TileAddresses) -> None:
    """Write the code of one tile whose first element is at `at`."""
    _TileWriter(b, spec, axes, at).emit()


class _TileWriter:
    """One tile while it is written."""

    def __init__(self, b: Builder, spec: TileSpec, axes: tuple[TileAxis, ...], at: TileAddresses) -> None:
        self.b, self.spec, self.axes = b, spec, axes
        places = self.layout = tile_layout(axes, len(spec.operand_types))
        self.src = Side(at.src, spec.src_type, places.src, places.read)
        self.dst = Side(at.dst, spec.dst_type, places.dst, places.written)
        real = real_type(spec.src_type, spec.dst_type, spec.compute)
        self.tensors = Tensors(b, at.more, spec.operand_types, places.more, places.read, real, spec.can)
        self.tables = (
            CodeTables(b, self._types, spec.compute, spec.can, self._inputs, self.tensors.offsets)
            if can_tabulate(*self._types, spec.compute, spec.can)
            else None
        )

    def emit(self) -> None:
        """Load, permute, store; values are finished where the schedule says."""
        bits = carrier_bits(self.spec.mid_type)
        axes = tuple(replace(axis, more=()) for axis in self.axes)
        width = self.spec.vector_bytes * 8 // bits
        plan = recipe(axes, width, 128 // bits, self.spec.permute_cost, self.spec.packs)
        stores = [(register, lanes) for register, lanes in plan.stores if _any(lanes, self.dst.present)]
        if self._can_interleave and self._moves_threes(plan):
            return
        loaded = self._loaded(plan.loads)
        wanted = {register: {i for i, e in enumerate(lanes) if self.dst.has(e)} for register, lanes in stores}
        registers = _permute(self.b, plan, loaded, wanted, kept=self._compiles_long)
        stores.sort(key=lambda store: _first_offset(store[1], self.layout))
        self._store_all([registers[register] for register, _ in stores], [lanes for _, lanes in stores])

    @property
    def _can_interleave(self) -> bool:
        """True where one store may take registers by turns, or one load give them: nothing is absent."""
        spec, is_whole = self.spec, all(self.layout.read) and all(self.layout.written)
        is_plain = not (spec.is_zero or spec.packs or spec.streams)
        return spec.can.neon and is_plain and is_whole and min(spec.src_type.bits, spec.dst_type.bits) >= 8

    def _moves_threes(self, plan: RegisterPermutation) -> bool:
        """Move a tile of three registers that lie by turns on one side; False where it is none."""
        stores = sorted((lanes for _, lanes in plan.stores), key=lambda lanes: self.layout.src[lanes[0]])
        if len(plan.loads) == _TURNS and _by_turns(plan.loads) == _run_of(self.layout.dst):
            self._store_by_turns(plan.loads)
        elif len(stores) == _TURNS and _by_turns(stores) == _run_of(self.layout.src):
            self._load_by_turns(stores)
        else:
            return False
        return True

    def _store_by_turns(self, registers: Sequence[Lanes]) -> None:
        """Registers as they are loaded, and one store of their lanes by turns: `st3`."""
        b, values = self.b, [self._load(lanes) for lanes in registers]
        if self.spec.late:
            values = [self._finish(value, lanes) for value, lanes in zip(values, registers, strict=True)]
        size = lanes_of(values[0])
        pair, last = b.join(values[:2]), b.lanes(values[2], 0, 2 * size)
        whole = b.shuffle(pair, last, [size * (i % _TURNS) + i // _TURNS for i in range(_TURNS * size)])
        b.line(f"store {whole}, {self.dst.at(b, registers[0][0])}, align 1")

    def _load_by_turns(self, registers: Sequence[Lanes]) -> None:
        """One load whose lanes are those of registers by turns, `ld3`, and each as it is stored."""
        b, run = self.b, _by_turns(registers)
        whole = self._read(run)
        for number, lanes in enumerate(registers):
            part = b.shuffle(whole, Value(whole.type, "poison"), range(number, len(run), _TURNS))
            store(b, self.spec.can, self.dst, self._finish(part, lanes), lanes, False)

    def _loaded(self, registers: Sequence[Lanes]) -> list[Value]:
        """All registers as they are permuted."""
        spec = self.spec
        if spec.late or spec.packs or spec.is_zero or self._group_size < 2:
            return [self._load(lanes) for lanes in registers]
        found: list[Value] = []
        for group in self._together(registers):
            found += self._finish_all([self._value(lanes) for lanes in group], group)
        return found

    def _value(self, lanes: Lanes) -> Value:
        if not _any(lanes, self.src.present):
            return zeros(self.spec.src_type, len(lanes))
        return self._read(lanes)

    def _store_all(self, values: Sequence[Value], registers: Sequence[Lanes]) -> None:
        """All registers, as they are stored."""
        if not self.spec.late or self.spec.is_zero or self._group_size < 2:
            for value, lanes in zip(values, registers, strict=True):
                self._store(value, lanes)
            return
        done = 0
        for group in self._together(registers):
            made = self._finish_all(values[done : done + len(group)], group)
            for value, lanes in zip(made, group, strict=True):
                store(self.b, self.spec.can, self.dst, value, lanes, self.spec.streams)
            done += len(group)

    def _together(self, registers: Sequence[Lanes]) -> list[Sequence[Lanes]]:
        """Registers in groups, each for one call of the functions of the chain."""
        size, done, groups = self._group_size, 0, list[Sequence[Lanes]]()
        while done < len(registers):
            count = min(size, 1 << (len(registers) - done).bit_length() - 1)
            groups.append(registers[done : done + count])
            done += count
        return groups

    @property
    def _group_size(self) -> int:
        """How many registers are finished together: 1 where no function is called."""
        spec = self.spec
        names = [step.name for step in spec.compute.steps if step.is_eltwise and is_costly(step.name)]
        real = real_type(spec.src_type, spec.dst_type, spec.compute)
        lanes = min((lanes_together(name, real, spec.vector_bytes, spec.can) for name in names), default=1)
        return max(1, lanes * carrier_bits(spec.mid_type) // (8 * spec.vector_bytes))

    def _finish_all(self, values: Sequence[Value], registers: Sequence[Lanes]) -> list[Value]:
        """Registers of source bits as destination bits, by one call of each function."""
        if len(values) == 1:
            return [self._finish(values[0], registers[0])]
        b, lanes = self.b, tuple(element for register in registers for element in register)
        made, size = self._finish(b.join(values), lanes), len(registers[0])
        return [b.lanes(made, first, size) for first in range(0, len(lanes), size)]

    def _load(self, lanes: Lanes) -> Value:
        spec = self.spec
        if spec.is_zero or not _any(lanes, self.src.present):
            return zeros(spec.mid_type, len(lanes))
        if spec.packs and len(lanes) == spec.vector_bytes:
            packed = pack(self.b, [self._part(part) for part in parts_of(lanes)], spec.dst_type)
            return _zero_where(self.b, packed, [not self.src.has(e) for e in lanes])
        value = self._read(lanes)
        return value if spec.late else self._finish(value, lanes)

    def _read(self, lanes: Lanes) -> Value:
        if self.spec.prefetch:
            _prefetch(self.b, self.src, lanes, self.spec.prefetch)
        return load(self.b, self.spec.can, self.src, lanes)

    def _part(self, lanes: Lanes) -> Value:
        """A quarter of a packed register: source values as integers of 32 bits."""
        spec = self.spec
        if not _any(lanes, self.src.present):
            return zeros(DataType.s32, len(lanes))
        value = self._read(lanes)
        if is_integer_move(spec.src_type, spec.dst_type, spec.compute):
            return clamp(self.b, value, spec.dst_type)
        real = real_steps(self.b, value, self._types, spec.compute, self._inputs(lanes), spec.can)
        if is_small_float(spec.dst_type):
            return small_code(self.b, self.b.bitcast(self._after_steps(real), "i32"), spec.dst_type)
        return integers_of(self.b, real, spec.dst_type)

    def _after_steps(self, real: Value) -> Value:
        """Floats as the last step leaves them: but for a move every NaN is the one quiet NaN."""
        ended = real if self.spec.compute.is_move else canonical_nan(self.b, real)
        if element_of(ended) != "double":
            return ended
        return narrow_to_odd(self.b, ended, can_cut=self.spec.can.masks)

    def _store(self, value: Value, lanes: Lanes) -> None:
        spec = self.spec
        if spec.is_zero:
            value = zeros(spec.dst_type, len(lanes))
        elif spec.late:
            value = self._finish(value, lanes)
        store(self.b, spec.can, self.dst, value, lanes, spec.streams)

    def _finish(self, value: Value, lanes: Lanes) -> Value:
        """Source bits as destination bits; zero where nothing is read."""
        spec = self.spec
        if spec.compute.is_move and keeps_zeros(*self._types):
            return convert(self.b, value, *self._types, spec.can)
        if not _any(lanes, self.src.present):
            return zeros(spec.dst_type, len(lanes))
        if self.tables and all(map(self.src.has, lanes)) and (found := self.tables.look_up(value, lanes)):
            return found
        value = run_steps(self.b, value, self._types, spec.compute, self._inputs(lanes), spec.can)
        return _zero_where(self.b, value, [not self.src.has(e) for e in lanes])

    @property
    def _compiles_long(self) -> bool:
        """True where blocks are kept apart: not for moves of wide elements. These compile in time, and LLVM
        mixes their loads and shuffles so that they run up to a tenth faster.
        """
        return carrier_bits(self.spec.mid_type) == 8 or not self.spec.compute.is_move

    @property
    def _types(self) -> tuple[DataType, DataType]:
        return self.spec.src_type, self.spec.dst_type

    def _inputs(self, lanes: Lanes) -> StepInputs:
        """What the steps read in these lanes."""
        return StepInputs(
            self.spec.scalars,
            lambda index: self.tensors.lanes(index, lanes),
            lambda data_type: self._old(data_type, lanes),
        )

    def _old(self, data_type: DataType, lanes: Lanes) -> Value:
        """The old destination, read as a data type, where something is read and written."""
        both = tuple(r and w for r, w in zip(self.layout.read, self.layout.written, strict=True))
        return load(self.b, self.spec.can, replace(self.dst, data_type=data_type, present=both), lanes)


def _by_turns(registers: Sequence[Lanes]) -> Lanes:
    """The elements of registers by turns: the first of each, the second of each, ..."""
    return tuple(element for elements in zip(*registers, strict=True) for element in elements)


def _run_of(offsets: tuple[int, ...]) -> Lanes:
    """All elements in the order of their offsets where these follow each other; else none."""
    order = sorted(range(len(offsets)), key=offsets.__getitem__)
    first = offsets[order[0]]
    return tuple(order) if all(offsets[e] == first + i for i, e in enumerate(order)) else ()


def _first_offset(lanes: Lanes, places: TileLayout) -> int:
    return min(places.dst[element] for element in lanes if element != NOTHING)


def _permute(
    b: Builder, plan: RegisterPermutation, loaded: list[Value], stored: dict[int, set[int]], *, kept: bool
) -> list[Value]:
    """Run a recipe's shuffles; those that reach no store, or have nothing but zeros to move, are left out."""
    registers = list(loaded)
    needed = _needed(plan, stored)
    for number, step in enumerate(plan.shuffles):
        if number in plan.rounds:
            b.start_block(kept=kept)
        a, c = registers[step.a], registers[step.b]
        wanted = needed.get(len(registers), set())
        # A shuffle of zeros is written as the zero it is: LLVM 22 aborts on storing one that interleaves.
        is_zero = a.ref == c.ref == "zeroinitializer"
        if is_zero or all(step.mask[i] == i for i in wanted):
            registers.append(a)
        else:
            registers.append(b.shuffle_wide(a, c, _wanted_part(step.mask, wanted, is_alone=a == c)))
    return registers


def _wanted_part(mask: Lanes, wanted: set[int], *, is_alone: bool) -> Lanes:
    """The mask with nothing in the eighths of a register that no store needs; `is_alone`: of one register."""
    if len(wanted) == len(mask):
        return mask
    eighths = _parts_with(mask, wanted, 8)
    picks_one = is_alone or len({m < len(mask) for m in eighths if m != NOTHING}) < 2
    return _parts_with(mask, wanted, 4) if picks_one and _may_circle(eighths) else eighths


def _parts_with(mask: Lanes, wanted: set[int], count: int) -> Lanes:
    """The mask with nothing in those of `count` equal parts where nothing is wanted."""
    size = max(len(mask) // count, 1)
    kept = {i // size for i in wanted}
    return tuple(m if i // size in kept else NOTHING for i, m in enumerate(mask))


def _may_circle(mask: Lanes) -> bool:
    """True for a permutation of one register that LLVM 22 may split and join again in turns, without end.

    It makes two steps of a permutation of 64 bytes: words of 4 or 8 bytes to the right 16, then bytes within
    these. Where half of such 16 is of no interest, the first step may become the permutation that it began
    with. No step of the kind is tried where 16 bytes take from more than four words.
    """
    if len(mask) != _BYTES_512:
        return False
    sixteens = [mask[i : i + 16] for i in range(0, len(mask), 16)]
    return all(len({m // 4 for m in part if m != NOTHING}) <= 4 for part in sixteens)


def _needed(plan: RegisterPermutation, stored: dict[int, set[int]]) -> dict[int, set[int]]:
    """The lanes that reach a store, by register; a tail tile stores few."""
    needed = {register: set(lanes) for register, lanes in stored.items()}
    is_whole = all(len(lanes) == len(plan.loads[0]) for lanes in stored.values())
    for number in range(len(plan.shuffles) - 1, -1, -1):
        step, lanes = plan.shuffles[number], needed.get(len(plan.loads) + number, set())
        if is_whole and lanes:
            needed[step.a] = needed[step.b] = lanes
            continue
        size, picked = len(step.mask), [step.mask[i] for i in lanes]
        needed.setdefault(step.a, set()).update([m for m in picked if 0 <= m < size])
        needed.setdefault(step.b, set()).update([m - size for m in picked if m >= size])
    return needed


def _any(lanes: Lanes, flags: tuple[bool, ...]) -> bool:
    return any(e != NOTHING and flags[e] for e in lanes)


def _zero_where(b: Builder, value: Value, absent: list[bool]) -> Value:
    if not any(absent):
        return value
    flags = ", ".join(f"i1 {'false' if a else 'true'}" for a in absent)
    keep = Value(vector("i1", len(absent)), f"<{flags}>")
    return b.select(keep, value, Value(value.type, "zeroinitializer"))


def _prefetch(b: Builder, side: Side, lanes: Lanes, ahead: int) -> None:
    """Ask for what lies `ahead` bytes further in each source row: hardware does not follow so many rows.

    Into the second cache, which holds a whole block; it may point past the end.
    """
    size, bits = piece(lanes, side.offsets), side.data_type.bits
    for group in (lanes[i : i + size] for i in range(0, len(lanes), size)):
        for line in range(0, max(size * bits // 8, 1), LINE):
            if side.has(first := group[line * 8 // bits]):
                b.prefetch(b.advance(side.at(b, first), ahead))
