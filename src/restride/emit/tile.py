"""One tile: registers are loaded, permuted and stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..dtypes import DataType
from .builder import Builder, Value, lanes_of
from .convert import carrier_bits
from .permute import permuted
from .register_permutation import NOTHING, Lanes, RegisterPermutation
from .tile_halves import are_apart, byte_tile, can_exchange, exchanged
from .tile_registers import TileAddresses, TileRegisters, TileSpec
from .tile_shape import TileAxis, TileLayout, recipe, tile_layout

# The numbers of registers that AArch64 stores interleaved and that shuffles cannot handle as well.
_TURNS = 3


def emit_tile(b: Builder, spec: TileSpec, axes: tuple[TileAxis, ...], at: TileAddresses) -> None:
    """Write the code of one tile whose first element is at `at`."""
    is_of_halves = spec.src_type is spec.dst_type and spec.src_type.bits == 4
    writer = _TileWriter(b, spec, axes, at)
    halves = byte_tile(axes) if is_of_halves and spec.compute.is_move and not spec.is_zero else None
    if halves is not None:
        in_bytes = replace(spec, src_type=DataType.u8, dst_type=DataType.u8, mid_type=DataType.u8)
        of_bytes = _TileWriter(b, in_bytes, halves.axes, at, is_torn=halves.is_torn)
        writer = of_bytes if of_bytes.is_possible else writer
    writer.emit()


class _TileWriter:
    """One tile while it is written."""

    def __init__(
        self,
        b: Builder,
        spec: TileSpec,
        axes: tuple[TileAxis, ...],
        at: TileAddresses,
        *,
        is_torn: bool = False,
    ) -> None:
        self.b, self.spec, self.axes, self.is_torn = b, spec, axes, is_torn
        self.layout = tile_layout(axes, len(spec.operand_types))
        self.registers = TileRegisters(b, spec, self.layout, at)

    def emit(self) -> None:
        """Load, permute, store; values are converted where the schedule says."""
        plan = self._plan
        has = self.registers.dst.has
        stores = [(register, lanes) for register, lanes in plan.stores if any(map(has, lanes))]
        if self._can_interleave and self._moves_threes(plan):
            return
        loaded = self.registers.load_all(plan.loads)
        if self._exchanges_early:
            loaded = exchanged(self.b, loaded, plan.loads)
        wanted = {register: {i for i, e in enumerate(lanes) if has(e)} for register, lanes in stores}
        registers = permuted(self.b, plan, loaded, wanted, kept=self._compiles_long)
        stores.sort(key=lambda store: _first_offset(store[1], self.layout))
        values, written = [registers[register] for register, _ in stores], [lanes for _, lanes in stores]
        if self.is_torn and not self._exchanges_early:
            values = exchanged(self.b, values, written)
        self.registers.store_all(values, written)

    @property
    def _plan(self) -> RegisterPermutation:
        """Return the loads, the permutation and the stores of the tile."""
        bits = carrier_bits(self.spec.mid_type)
        axes = tuple(replace(axis, more=()) for axis in self.axes)
        width = self.spec.vector_bytes * 8 // bits
        return recipe(axes, width, 128 // bits, self.spec.permute_cost, self.spec.packs)

    @property
    def is_possible(self) -> bool:
        """Return False if bytes would have to exchange halves but are never in corresponding lanes."""
        return not self.is_torn or any(map(can_exchange, self._sides))

    @property
    def _exchanges_early(self) -> bool:
        """Return whether bytes exchange halves when they are loaded: apart there, or only possible there."""
        loads, stores = self._sides
        is_late = not are_apart(loads) and (are_apart(stores) or not can_exchange(loads))
        return self.is_torn and not is_late

    @property
    def _sides(self) -> tuple[list[Lanes], list[Lanes]]:
        """Return the registers that are loaded, and those that are stored."""
        return list(self._plan.loads), [lanes for _, lanes in self._plan.stores]

    @property
    def _can_interleave(self) -> bool:
        """Return whether one store can interleave registers, or one load separate them: no gaps."""
        spec, is_whole = self.spec, all(self.layout.read) and all(self.layout.written)
        is_plain = not (spec.is_zero or spec.packs or spec.streams)
        return spec.can.neon and is_plain and is_whole and min(spec.src_type.bits, spec.dst_type.bits) >= 8

    def _moves_threes(self, plan: RegisterPermutation) -> bool:
        """Move a tile of three registers that are interleaved on one side; return False if it is not one."""
        stores = sorted((lanes for _, lanes in plan.stores), key=lambda lanes: self.layout.src[lanes[0]])
        if len(plan.loads) == _TURNS and _by_turns(plan.loads) == _run_of(self.layout.dst):
            self._store_by_turns(plan.loads)
        elif len(stores) == _TURNS and _by_turns(stores) == _run_of(self.layout.src):
            self._load_by_turns(stores)
        else:
            return False
        return True

    def _store_by_turns(self, registers: Sequence[Lanes]) -> None:
        """Load registers, and store their lanes interleaved at once: `st3`."""
        b, values = self.b, [self.registers.load(lanes) for lanes in registers]
        if self.spec.late:
            values = [
                self.registers.finish(value, lanes) for value, lanes in zip(values, registers, strict=True)
            ]
        size = lanes_of(values[0])
        pair, last = b.join(values[:2]), b.lanes(values[2], 0, 2 * size)
        whole = b.shuffle(pair, last, [size * (i % _TURNS) + i // _TURNS for i in range(_TURNS * size)])
        b.line(f"store {whole}, {self.registers.dst.at(b, registers[0][0])}, align 1")

    def _load_by_turns(self, registers: Sequence[Lanes]) -> None:
        """Load interleaved lanes into registers at once, `ld3`, and store each."""
        b, run = self.b, _by_turns(registers)
        whole = self.registers.read(run)
        for number, lanes in enumerate(registers):
            part = b.shuffle(whole, Value(whole.type, "poison"), range(number, len(run), _TURNS))
            self.registers.store_finished(part, lanes)

    @property
    def _compiles_long(self) -> bool:
        """Return whether blocks are kept separate: not for moves of wide elements. These compile in time, and
        LLVM mixes their loads and shuffles so that they run up to a tenth faster.
        """
        return carrier_bits(self.spec.mid_type) == 8 or not self.spec.compute.is_move


def _by_turns(registers: Sequence[Lanes]) -> Lanes:
    """Return the elements of registers interleaved: the first of each, the second of each, ..."""
    return tuple(element for elements in zip(*registers, strict=True) for element in elements)


def _run_of(offsets: tuple[int, ...]) -> Lanes:
    """Return all elements in the order of their offsets if these are consecutive; else none."""
    order = sorted(range(len(offsets)), key=offsets.__getitem__)
    first = offsets[order[0]]
    return tuple(order) if all(offsets[e] == first + i for i, e in enumerate(order)) else ()


def _first_offset(lanes: Lanes, places: TileLayout) -> int:
    return min(places.dst[element] for element in lanes if element != NOTHING)
