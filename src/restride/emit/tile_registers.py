"""The registers of one tile: each is loaded, converted and stored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..dtypes import DataType
from ..ir.conversion import is_integer_move
from ..ir.expression import is_costly
from ..ir.nest import Compute
from ..schedule.machine import LINE
from .access import Side, load, span_of, store
from .builder import Builder, Value, element_of, vector
from .code_tables import CodeTables, can_tabulate
from .compute import StepInputs, Tensors, lanes_together, real_steps, run_steps
from .convert import Abilities, canonical_nan, carrier_bits, convert, keeps_zeros, real_type, zeros
from .pack import clamp, integers_of, is_small_float, pack, parts_of
from .register_permutation import Lanes
from .small_float import narrow_to_odd, small_code
from .tile_shape import TileLayout, piece


@dataclass(frozen=True, slots=True)
class TileSpec:
    """The properties that all tiles of a kernel share."""

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


class TileRegisters:
    """Operations on single registers of a tile, which the tile's writer permutes in between.

    Values become destination bits when they are loaded, or when they are stored if `late` is set.
    """

    def __init__(self, b: Builder, spec: TileSpec, layout: TileLayout, at: TileAddresses) -> None:
        self.b, self.spec, self.layout = b, spec, layout
        self.src = Side(at.src, spec.src_type, layout.src, layout.read)
        self.dst = Side(at.dst, spec.dst_type, layout.dst, layout.written)
        real = real_type(spec.src_type, spec.dst_type, spec.compute)
        self._tensors = Tensors(b, at.more, spec.operand_types, layout.more, layout.read, real, spec.can)
        self._tables = (
            CodeTables(b, self._types, spec.compute, spec.can, self._inputs, self._tensors.offsets)
            if can_tabulate(*self._types, spec.compute, spec.can)
            else None
        )

    def load_all(self, registers: Sequence[Lanes]) -> list[Value]:
        """Load all registers, ready to be permuted."""
        spec = self.spec
        if spec.late or spec.packs or spec.is_zero or self._group_size < 2:
            return [self.load(lanes) for lanes in registers]
        found: list[Value] = []
        for group in self._together(registers):
            found += self._finish_all([self._value(lanes) for lanes in group], group)
        return found

    def store_all(self, values: Sequence[Value], registers: Sequence[Lanes]) -> None:
        """Store all permuted registers."""
        if not self.spec.late or self.spec.is_zero or self._group_size < 2:
            for value, lanes in zip(values, registers, strict=True):
                self._store(value, lanes)
            return
        done = 0
        for group in self._together(registers):
            made = self._finish_all(values[done : done + len(group)], group)
            for value, lanes in zip(made, group, strict=True):
                self._write(value, lanes)
            done += len(group)

    def load(self, lanes: Lanes) -> Value:
        """Load one register, ready to be permuted."""
        spec = self.spec
        if spec.is_zero or not any(map(self.src.has, lanes)):
            return zeros(spec.mid_type, len(lanes))
        if spec.packs and len(lanes) == spec.vector_bytes:
            packed = pack(self.b, [self._part(part) for part in parts_of(lanes)], spec.dst_type)
            return _zero_where(self.b, packed, [not self.src.has(e) for e in lanes])
        value = self.read(lanes)
        return value if spec.late else self.finish(value, lanes)

    def read(self, lanes: Lanes) -> Value:
        """Return the source bits of these elements."""
        if self.spec.prefetch:
            _prefetch(self.b, self.src, lanes, self.spec.prefetch)
        return load(self.b, self.spec.can, self.src, lanes)

    def finish(self, value: Value, lanes: Lanes) -> Value:
        """Convert source bits to destination bits; zero where nothing is read."""
        spec = self.spec
        if spec.compute.is_move and keeps_zeros(*self._types):
            return convert(self.b, value, *self._types, spec.can)
        if not any(map(self.src.has, lanes)):
            return zeros(spec.dst_type, len(lanes))
        if self._tables and all(map(self.src.has, lanes)) and (found := self._tables.look_up(value, lanes)):
            return found
        value = run_steps(self.b, value, self._types, spec.compute, self._inputs(lanes), spec.can)
        return _zero_where(self.b, value, [not self.src.has(e) for e in lanes])

    def store_finished(self, value: Value, lanes: Lanes) -> None:
        """Convert source bits to destination bits, and store them."""
        self._write(self.finish(value, lanes), lanes)

    def _value(self, lanes: Lanes) -> Value:
        if not any(map(self.src.has, lanes)):
            return zeros(self.spec.src_type, len(lanes))
        return self.read(lanes)

    def _part(self, lanes: Lanes) -> Value:
        """Return a quarter of a packed register: source values as 32-bit integers."""
        spec = self.spec
        if not any(map(self.src.has, lanes)):
            return zeros(DataType.s32, len(lanes))
        value = self.read(lanes)
        if is_integer_move(spec.src_type, spec.dst_type, spec.compute):
            return clamp(self.b, value, spec.dst_type)
        real = real_steps(self.b, value, self._types, spec.compute, self._inputs(lanes), spec.can)
        if is_small_float(spec.dst_type):
            return small_code(self.b, self.b.bitcast(self._after_steps(real), "i32"), spec.dst_type)
        return integers_of(self.b, real, spec.dst_type)

    def _after_steps(self, real: Value) -> Value:
        """Canonicalize floats after the last step: except in a move, every NaN is the one quiet NaN."""
        ended = real if self.spec.compute.is_move else canonical_nan(self.b, real)
        if element_of(ended) != "double":
            return ended
        return narrow_to_odd(self.b, ended, can_cut=self.spec.can.masks)

    def _store(self, value: Value, lanes: Lanes) -> None:
        if self.spec.is_zero:
            value = zeros(self.spec.dst_type, len(lanes))
        elif self.spec.late:
            value = self.finish(value, lanes)
        self._write(value, lanes)

    def _write(self, bits: Value, lanes: Lanes) -> None:
        store(self.b, self.spec.can, self.dst, bits, lanes, self.spec.streams)

    def _together(self, registers: Sequence[Lanes]) -> list[Sequence[Lanes]]:
        """Return registers in groups, each for one call of the chain's functions."""
        size, done, groups = self._group_size, 0, list[Sequence[Lanes]]()
        while done < len(registers):
            count = min(size, 1 << (len(registers) - done).bit_length() - 1)
            groups.append(registers[done : done + count])
            done += count
        return groups

    @property
    def _group_size(self) -> int:
        """The number of registers that are converted together: 1 if no function is called."""
        spec = self.spec
        names = [step.name for step in spec.compute.steps if step.is_eltwise and is_costly(step.name)]
        real = real_type(spec.src_type, spec.dst_type, spec.compute)
        lanes = min((lanes_together(name, real, spec.vector_bytes, spec.can) for name in names), default=1)
        return max(1, lanes * carrier_bits(spec.mid_type) // (8 * spec.vector_bytes))

    def _finish_all(self, values: Sequence[Value], registers: Sequence[Lanes]) -> list[Value]:
        """Convert registers of source bits to destination bits, with one call of each function."""
        if len(values) == 1:
            return [self.finish(values[0], registers[0])]
        b, lanes = self.b, tuple(element for register in registers for element in register)
        made, size = self.finish(b.join(values), lanes), len(registers[0])
        return [b.lanes(made, first, size) for first in range(0, len(lanes), size)]

    @property
    def _types(self) -> tuple[DataType, DataType]:
        return self.spec.src_type, self.spec.dst_type

    def _inputs(self, lanes: Lanes) -> StepInputs:
        """Return the inputs of the steps in these lanes."""
        return StepInputs(
            self.spec.scalars,
            lambda index: self._tensors.lanes(index, lanes),
            lambda data_type: self._old(data_type, lanes),
        )

    def _old(self, data_type: DataType, lanes: Lanes) -> Value:
        """Return the old destination, read as a data type, where something is read and written."""
        both = tuple(r and w for r, w in zip(self.layout.read, self.layout.written, strict=True))
        return load(self.b, self.spec.can, replace(self.dst, data_type=data_type, present=both), lanes)


def _zero_where(b: Builder, value: Value, absent: list[bool]) -> Value:
    if not any(absent):
        return value
    flags = ", ".join(f"i1 {'false' if a else 'true'}" for a in absent)
    keep = Value(vector("i1", len(absent)), f"<{flags}>")
    return b.select(keep, value, Value(value.type, "zeroinitializer"))


def _prefetch(b: Builder, side: Side, lanes: Lanes, ahead: int) -> None:
    """Prefetch `ahead` bytes further in each source row: hardware does not follow so many rows.

    Into the L2 cache, which holds a whole block; it can point past the end.
    """
    size, bits = piece(lanes, side.offsets), side.data_type.bits
    if (span := span_of(side, lanes)) is not None:
        for line in range(0, len(span) * bits // 8, LINE):
            b.prefetch(b.advance(side.base, span[0] * bits // 8 + line + ahead))
        return
    for group in (lanes[i : i + size] for i in range(0, len(lanes), size)):
        for line in range(0, max(size * bits // 8, 1), LINE):
            if side.has(first := group[line * 8 // bits]):
                b.prefetch(b.advance(side.at(b, first), ahead))
