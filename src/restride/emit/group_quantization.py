"""Scheduled quantisations in groups -> the text of one LLVM module: scales found, written, and applied in one
pass over memory.

`src` is the tensor, `dst` the elements; `params` points at the addresses of the scales and of the zero
points, which are bytes, then at the scale of the whole tensor as a double. The entry runs the share `part` of
`parts` of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ..dtypes import DataType
from ..plan.arithmetic import Term
from ..plan.group_quantization import GroupAxis, GroupSchedule
from ..plan.reduction import NOT_FINITE, Op
from ..plan.reduction_schedule import bias_of
from .builder import Builder, Value, element_of, i64, lanes_of, vector
from .compute import StepInputs, VectorArithmetic, real_steps, run_steps
from .convert import bits_type, canonical_nan, from_real, to_real
from .fold import Accumulation
from .kernel import Style, load_pointer, module_text, share_of
from .pack import GROUP, PARTS, can_pack, integers_of, is_small_float, pack
from .small_float import small_code
from .word_codes import LEAST_OVER, codes_of_words, power_of, word_over, words_of_reals, words_over_power

_PARAMS = Value("ptr", "%params")

_Keys = tuple[Value, ...]
"""A vector for each result of a range, or for each operand of the conversion."""


class _GroupCursor(NamedTuple):
    """The addresses of the first element that a step reads and writes, of its first scale and zero point."""

    src: Value
    dst: Value
    scale: Value
    zero: Value


def emit_group_quantization(plan: GroupSchedule, style: Style) -> str:
    """The IR text of a kernel."""
    b = style.builder()
    _GroupWriter(b, plan, style).emit()
    b.line("ret void")
    return module_text(b)


@dataclass(frozen=True, slots=True)
class _VectorAt:
    """Some lanes of a step: how many elements behind its first one they begin."""

    src: int
    dst: int


class _GroupWriter:
    """Writes the loops of one schedule."""

    def __init__(self, b: Builder, plan: GroupSchedule, style: Style) -> None:
        self.b, self.plan, self.style = b, plan, style
        quantization = plan.quantization
        self.rule, self.src_type = quantization.rule, quantization.src_type
        self.widths = (self.src_type.bits, self.rule.data_type.bits, self.rule.scale_type.bits, 8)
        self.how = Accumulation(Op.min_max if self.rule.has_zeros else Op.amax, self.src_type)
        self.real = VectorArithmetic(b, style.can.round_even)
        # Elements that are converted together: a register of bytes.
        self.size = min(style.vector_bytes, plan.lanes)
        numbers = self.rule.conversion_numbers()
        self.scalars = tuple(Value("float", _float_text(number)) for number in numbers)
        count = plan.chunk if plan.is_held else 0
        key = f"i{self.src_type.bits}"
        self.key_slots = [b.slot(key, count) for _ in range(self.how.op.results if count else 0)]
        self.operand_slots = [b.slot("float", count) for _ in range(self.rule.operands if count else 0)]
        is_word = (
            self.src_type is DataType.bf16 and self.rule.is_power and is_small_float(self.rule.data_type)
        )
        is_whole = style.can.has_tables and style.can.masks and self.size == style.vector_bytes
        self.power_slot = b.slot("i16", count) if count and is_word and is_whole else None

    # --- loops

    def emit(self) -> None:
        """The grid loop over this part's share, and everything inside it."""
        b, plan, bases = self.b, self.plan, self.plan.quantization.bases
        beside = (load_pointer(b, _PARAMS, slot) for slot in (0, 1))
        pointers = (Value("ptr", "%src"), Value("ptr", "%dst"), *beside)
        start = _GroupCursor(
            *(
                b.advance(pointer, base * bits // 8)
                for pointer, base, bits in zip(pointers, (*bases, 0), self.widths, strict=True)
            )
        )
        wide = b.value("double", f"load double, {b.advance(_PARAMS, 16)}, align 8")
        self.tensor_scale = b.value("float", f"fptrunc {wide} to float")
        with b.loop(*share_of(b, plan.steps)) as step:
            at, turn = self._decode(step, start)
            if plan.walked is None:
                self._step(at)
            elif turn is not None:
                self._step(self._walk(at, turn))
            else:
                with b.loop(i64(0), i64(plan.turns)) as each:
                    self._step(self._walk(at, each))

    def _decode(self, step: Value, at: _GroupCursor) -> tuple[_GroupCursor, Value | None]:
        """The places of a step of the grid, and its turn along the walked axis where that is shared."""
        b, plan, turn = self.b, self.plan, None
        if plan.walked is not None and plan.is_walk_shared:
            if not plan.outer:
                return at, step
            turn, step = b.op("urem", step, i64(plan.turns)), b.op("udiv", step, i64(plan.turns))
        for axis in reversed(plan.outer[1:]):
            extent = i64(axis.extent)
            at, step = self._moved(at, axis, b.op("urem", step, extent)), b.op("udiv", step, extent)
        return (self._moved(at, plan.outer[0], step) if plan.outer else at), turn

    def _walk(self, at: _GroupCursor, turn: Value) -> _GroupCursor:
        """The places of a turn; the last one ends where the axis ends."""
        b, plan = self.b, self.plan
        assert plan.walked is not None
        if plan.chunk == 1:
            return self._moved(at, plan.walked, turn)
        start = b.op("mul", turn, i64(plan.chunk))
        last = plan.walked.extent - plan.chunk
        if plan.walked.extent % plan.chunk:
            start = b.scalar_intrinsic("umin", start, i64(last))
        return self._moved(at, plan.walked, start)

    def _moved(self, at: _GroupCursor, axis: GroupAxis, position: Value) -> _GroupCursor:
        moves = (axis.src, axis.dst, axis.scale, axis.scale)
        return _GroupCursor(
            *(
                self.b.step(pointer, position, move * bits // 8)
                if move * bits % 8 == 0
                else self._half_step(pointer, position, move)
                for pointer, move, bits in zip(at, moves, self.widths, strict=True)
            )
        )

    def _half_step(self, pointer: Value, position: Value, move: int) -> Value:
        """A pointer moved by elements of 4 bits, an even number of them."""
        halves = self.b.op("mul", position, i64(move))
        return self.b.advance(pointer, self.b.op("ashr", halves, i64(1)))

    # --- one step

    def _step(self, at: _GroupCursor) -> None:
        """Groups side by side: their scales, then their elements."""
        if self.plan.is_held:
            self._step_in_passes(at)
            return
        tiles = self._tiles()
        self._convert_all(at, tiles, self._found(self._search(at, tiles), at))

    def _step_in_passes(self, at: _GroupCursor) -> None:
        """The largest values of all groups, then all scales, then all elements, which are near still."""
        with self.b.loop(i64(0), i64(self.plan.batches)) as number:
            self._find(at, number)
        powers = self._scale_all(at)
        if powers is None:
            with self.b.loop(i64(0), i64(self.plan.batches)) as number:
                self._convert_batch(at, number, self._write)
            return
        for name, write in (("eq", self._write_over_power), ("ne", self._write)):
            with (
                self.b.when(name, powers, Value(powers.type, "0")),
                self.b.loop(i64(0), i64(self.plan.batches)) as number,
            ):
                self._convert_batch(at, number, write)

    def _find(self, at: _GroupCursor, number: Value) -> None:
        """The keys of a batch, into their slots."""
        b, there = self.b, self._batch(at, number)
        held = [self._load(there, tile) for tile in self._tiles()]
        keys = self._joined(held) if self.plan.batch > 1 else self._fold(held)
        first = b.op("mul", number, i64(self.plan.batch))
        for slot, key in zip(self.key_slots, keys, strict=True):
            b.line(
                f"store {self._lanes_folded(key)}, {b.step(slot, first, self.src_type.bits // 8)}, align 1"
            )

    def _scale_all(self, at: _GroupCursor) -> Value | None:
        """Keys to scales, and to the operands of elements. Where elements are divided as words, whether a
        power is too small for that: 0 if none is.
        """
        b, width = self.b, self.plan.scale_lanes
        kind, nbytes = vector(f"i{self.src_type.bits}", width), self.src_type.bits // 8
        least = b.splat("i16", width, str(_MOST_WORD))
        with b.carried_loop(i64(0), i64(self.plan.chunk // width), [least]) as (number, carried):
            first = b.op("mul", number, i64(width))
            addresses = [b.step(slot, first, nbytes) for slot in self.key_slots]
            keys = tuple(b.value(kind, f"load {kind}, {address}, align 1") for address in addresses)
            operands = self._written(keys, self._moved(at, GroupAxis(0, 0, 0, 1), first))
            for slot, operand in zip(self.operand_slots, operands, strict=True):
                b.line(f"store {operand}, {b.step(slot, first, 4)}, align 1")
            if self.power_slot is not None:
                over = word_over(b, operands[0])
                b.line(f"store {over}, {b.step(self.power_slot, first, 2)}, align 1")
                carried[0] = b.intrinsic("smin", carried[0], over)
        if self.power_slot is None:
            return None
        is_small = b.compare("icmp slt", carried[0], b.splat("i16", width, str(LEAST_OVER)))
        return b.value(f"i{width}", f"bitcast {is_small} to i{width}")

    def _convert_batch(
        self, at: _GroupCursor, number: Value, write: Callable[[_GroupCursor, _VectorAt, Value, _Keys], None]
    ) -> None:
        b, there = self.b, self._batch(at, number)
        first = b.op("mul", number, i64(self.plan.batch))
        if write == self._write_over_power:
            assert self.power_slot is not None
            slots, kind = [b.step(self.power_slot, first, 2)], "i16"
        else:
            slots, kind = [b.step(slot, first, 4) for slot in self.operand_slots], "float"
        for tile in self._tiles():
            write(there, tile, self._load(there, tile), self._operands_of(tile, slots, kind))

    def _batch(self, at: _GroupCursor, number: Value) -> _GroupCursor:
        """The places of a batch of a step."""
        if self.plan.walked is None:
            return at
        first = self.b.op("mul", number, i64(self.plan.batch))
        return self._moved(at, self.plan.walked, first)

    def _operands_of(self, tile: _VectorAt, slots: Sequence[Value], kind: str) -> _Keys:
        """What the lanes of a vector are computed with, from memory: those of a batch lie there."""
        b, extent, nbytes = self.b, self.plan.run.extent, 4 if kind == "float" else 2
        same = min(extent & -extent, self.size)
        groups = [(tile.src + lane) // extent for lane in range(0, self.size, same)]
        found = []
        for slot in slots:
            ones = [
                b.value(kind, f"load {kind}, {b.advance(slot, nbytes * group)}, align {nbytes}")
                for group in groups
            ]
            found.append(b.join([b.broadcast(one, same) for one in ones]))
        return tuple(found)

    def _tiles(self) -> list[_VectorAt]:
        """The vectors of one row of a step."""
        plan = self.plan
        if plan.is_across:
            return [_VectorAt(i, i) for i in range(0, plan.lanes, self.size)]
        return [_VectorAt(i, i) for i in range(0, plan.run.extent * plan.batch, plan.lanes)]

    def _load(self, at: _GroupCursor, tile: _VectorAt) -> Value:
        kind = vector(bits_type(self.src_type), self.size)
        address = self.b.advance(at.src, tile.src * self.src_type.bits // 8)
        return self.b.value(kind, f"load {kind}, {address}, align 1")

    def _fold(self, bits: Sequence[Value]) -> _Keys:
        """The ends of some vectors, lane by lane, as keys of a range."""
        found = [self.how.prepare(self.b, each) for each in bits]
        while len(found) > 1:
            pairs = [self._both(x, y) for x, y in zip(found[::2], found[1::2], strict=False)]
            found = pairs + found[2 * len(pairs) :]
        return found[0]

    def _joined(self, bits: Sequence[Value]) -> _Keys:
        """The keys of all lanes of some vectors, one vector behind the other."""
        found = [self.how.prepare(self.b, each) for each in bits]
        return tuple(self.b.join(keys) for keys in zip(*found, strict=True))

    def _both(self, one: _Keys, other: _Keys) -> _Keys:
        return tuple(self.how.fold(self.b, x, y) for x, y in zip(one, other, strict=True))

    def _search(self, at: _GroupCursor, tiles: Sequence[_VectorAt]) -> list[_Keys]:
        """Keys of all rows of a group: of each tile where groups lie across."""
        count = len(tiles) if self.plan.is_across else 1
        keys = [(self.how.empty(self.size),) * self.how.op.results for _ in range(count)]
        return self._rows(at, self.plan.inner, keys, tiles)

    def _rows(
        self, at: _GroupCursor, axes: Sequence[GroupAxis], keys: list[_Keys], tiles: Sequence[_VectorAt]
    ) -> list[_Keys]:
        if axes:

            def turn(position: Value, now: list[_Keys]) -> list[_Keys]:
                return self._rows(self._moved(at, axes[0], position), axes[1:], now, tiles)

            return self._repeated(axes[0].extent, keys, turn)
        if self.plan.is_across:
            return [
                self._both(key, self.how.prepare(self.b, self._load(at, tile)))
                for key, tile in zip(keys, tiles, strict=True)
            ]
        if len(tiles) <= _UNROLLED:
            return [self._both(keys[0], self._fold([self._load(at, tile) for tile in tiles]))]

        def along(position: Value, now: list[_Keys]) -> list[_Keys]:
            bits = self._load(self._along(at, position), tiles[0])
            return [self._both(now[0], self.how.prepare(self.b, bits))]

        return self._repeated(len(tiles), keys, along)

    def _repeated(
        self, count: int, keys: list[_Keys], turn: Callable[[Value, list[_Keys]], list[_Keys]]
    ) -> list[_Keys]:
        """`count` turns, each of which takes the keys of the one before."""
        flat = [key for each in keys for key in each]
        with self.b.carried_loop(i64(0), i64(count), flat) as (position, inside):
            inside[:] = [key for each in turn(position, self._grouped(inside)) for key in each]
        return self._grouped(inside)

    def _grouped(self, flat: Sequence[Value]) -> list[_Keys]:
        results = self.how.op.results
        return [tuple(flat[i : i + results]) for i in range(0, len(flat), results)]

    def _along(self, at: _GroupCursor, position: Value) -> _GroupCursor:
        """The places so many vectors behind."""
        step = GroupAxis(0, self.plan.lanes, self.plan.lanes)
        return self._moved(at, step, position)

    # --- scales

    def _found(self, keys: Sequence[_Keys], at: _GroupCursor) -> list[tuple[Value, ...]]:
        """What the lanes of each tile are computed with, for the keys of its groups; it is written too."""
        b = self.b
        if self.plan.is_across:
            step = GroupAxis(0, 0, 0, self.size)
            return [self._written(key, self._moved(at, step, i64(i))) for i, key in enumerate(keys)]
        found = self._written(tuple(map(self._lanes_folded, keys[0])), at)
        return [tuple(b.shuffle(x, x, (0,) * self.size) for x in found)]

    def _lanes_folded(self, key: Value) -> Value:
        """One lane for each group, of vectors of groups side by side."""
        b, groups = self.b, self.plan.batch
        while lanes_of(key) > groups:
            half = lanes_of(key) // groups // 2
            masks = [[(2 * g + k) * half + i for g in range(groups) for i in range(half)] for k in (0, 1)]
            key = self.how.fold(b, *(b.shuffle(key, key, mask) for mask in masks))
        return key

    def _written(self, keys: _Keys, at: _GroupCursor) -> tuple[Value, ...]:
        """Write the scales of groups and their zero points; what values are divided by, and what is added."""
        b = self.b
        if self.rule.has_zeros:
            low, high = self._ends(keys)
            scale, zero = self.rule.ranged(low, high, self._stored)
            self._store_scale(scale, at)
            kind = DataType.s8 if self.rule.data_type.kind == "int" else DataType.u8
            shift = self.real.narrow(zero.value, scale.value)
            b.line(f"store {from_real(b, shift, kind, self.style.can)}, {at.zero}, align 1")
            return scale.value, shift
        bias = self._constant(keys[0], bias_of(self.src_type))
        bits = b.op("sub", b.intrinsic("smax", keys[0], bias), bias)
        whole = Term(self.real, b.broadcast(self.tensor_scale, lanes_of(bits)))
        scale, used = self.rule.scales(
            self._number(bits), whole if self.rule.is_two_level else None, self._stored
        )
        self._store_scale(scale, at)
        return ((1.0 / used).value if self.rule.is_power else used.value,)

    def _ends(self, keys: _Keys) -> tuple[Term[Value], Term[Value]]:
        """The smallest and the largest values; 0 where nothing is finite (`plan/reduction_schedule.py`)."""
        b, ends = self.b, []
        bias, limit = bias_of(self.src_type), NOT_FINITE[self.src_type]
        for key in keys:
            is_none = b.compare("icmp slt", key, self._constant(key, bias - limit))
            plain = b.op("sub", key, self._constant(key, bias))
            plain = b.select(is_none, Value(key.type, "zeroinitializer"), plain)
            sign = b.op("ashr", plain, self._constant(key, self.src_type.bits - 1))
            most = self._constant(key, (1 << self.src_type.bits - 1) - 1)
            ends.append(self._number(b.op("xor", plain, b.op("and", sign, most))))
        return 0.0 - ends[0], ends[1]

    def _constant(self, like: Value, number: int) -> Value:
        return Value(like.type, f"splat ({element_of(like)} {number})")

    def _number(self, bits: Value) -> Term[Value]:
        return Term(self.real, to_real(self.b, bits, self.src_type, "float", self.style.can))

    def _stored(self, scales: Term[Value]) -> Term[Value]:
        """The values of floats, or of doubles that are floats, in the type of the scales."""
        b, can, kind = self.b, self.style.can, self.rule.scale_type
        value = scales.value
        if element_of(value) == "double":
            value = b.cast("fptrunc", value, "float")
        if kind is not DataType.f32:
            value = to_real(b, from_real(b, value, kind, can), kind, "float", can)
        return Term(self.real, value)

    def _store_scale(self, scale: Term[Value], at: _GroupCursor) -> None:
        held = from_real(self.b, scale.value, self.rule.scale_type, self.style.can)
        self.b.line(f"store {held}, {at.scale}, align 1")

    # --- elements

    def _convert_all(self, at: _GroupCursor, tiles: Sequence[_VectorAt], operands: Sequence[_Keys]) -> None:
        """Each tile of all rows, with the operands of its lanes."""
        if not self.plan.is_across and len(tiles) > _UNROLLED:
            self._convert_rows(at, self.plan.inner, tiles, operands[0])
            return
        # Of groups that lie across one tile after the other, so that its operands stay in registers.
        parts = [[tile] for tile in tiles] if self.plan.is_across else [list(tiles)]
        for part, each in zip(parts, operands, strict=True):
            self._convert_rows(at, self.plan.inner, part, each)

    def _convert_rows(
        self, at: _GroupCursor, axes: Sequence[GroupAxis], tiles: Sequence[_VectorAt], operands: _Keys
    ) -> None:
        b = self.b
        if axes:
            with b.loop(i64(0), i64(axes[0].extent)) as position:
                self._convert_rows(self._moved(at, axes[0], position), axes[1:], tiles, operands)
        elif len(tiles) > _UNROLLED:
            with b.loop(i64(0), i64(len(tiles))) as position:
                there = self._along(at, position)
                self._write(there, tiles[0], self._load(there, tiles[0]), operands)
        else:
            for tile in tiles:
                self._write(at, tile, self._load(at, tile), operands)

    def _write(self, at: _GroupCursor, tile: _VectorAt, bits: Value, operands: _Keys) -> None:
        b, types, compute = self.b, (self.src_type, self.rule.data_type), self.rule.compute()
        if self.style.can.packs and self.size == self.style.vector_bytes and can_pack(*types, compute):
            made = self._packed(bits, operands)
        else:
            inputs = StepInputs(self.scalars, operands.__getitem__, lambda _: bits)
            made = run_steps(b, bits, types, compute, inputs, self.style.can)
        self._store(at, tile, made)

    def _store(self, at: _GroupCursor, tile: _VectorAt, made: Value) -> None:
        b, bits = self.b, self.rule.data_type.bits
        address = b.advance(at.dst, tile.dst * bits // 8)
        b.line(f"store {_pairs(b, made) if bits == 4 else made}, {address}, align 1")

    def _write_over_power(self, at: _GroupCursor, tile: _VectorAt, bits: Value, operands: _Keys) -> None:
        """The same of bf16 over powers of two, without a float of 32 bits."""
        (over,), kind = operands, self.rule.data_type
        words = words_over_power(self.b, bits, over)
        made = codes_of_words(self.b, words, kind, lambda: self._packed(bits, (power_of(self.b, over),)))
        self._store(at, tile, made)

    def _packed(self, bits: Value, operands: _Keys) -> Value:
        """A register of bytes from four parts, each narrowed to 32 bits for itself."""
        b, can, kind = self.b, self.style.can, self.rule.data_type
        count, types, compute = self.size // PARTS, (self.src_type, self.rule.data_type), self.rule.compute()
        reals: list[Value] = []
        for first in range(0, self.size, count):
            part = tuple(b.lanes(operand, first, count) for operand in operands)
            inputs = StepInputs(self.scalars, part.__getitem__, lambda _: bits)
            reals.append(real_steps(b, b.lanes(bits, first, count), types, compute, inputs, can))
        if is_small_float(kind) and can.has_tables:
            return codes_of_words(b, words_of_reals(b, reals), kind, lambda: self._packed_codes(reals))
        if is_small_float(kind):
            return self._packed_codes(reals)
        return _in_order(b, pack(b, [integers_of(b, real, kind) for real in reals], kind))

    def _packed_codes(self, reals: Sequence[Value]) -> Value:
        """Small floats of any size."""
        b, kind = self.b, self.rule.data_type
        parts = [small_code(b, b.bitcast(canonical_nan(b, real), "i32"), kind) for real in reals]
        return _in_order(b, pack(b, parts, kind))


def _in_order(b: Builder, packed: Value) -> Value:
    """The elements of a packed register in the order of its parts."""
    words, groups = lanes_of(packed) // 4, lanes_of(packed) // (GROUP * PARTS)
    wide = b.value(vector("i32", words), f"bitcast {packed} to {vector('i32', words)}")
    moved = b.shuffle(wide, wide, [PARTS * group + part for part in range(PARTS) for group in range(groups)])
    return b.value(packed.type, f"bitcast {moved} to {packed.type}")


# The largest word that has a sign.
_MOST_WORD = (1 << 15) - 1
# Vectors of a row that are written one after the other; of more there is a loop.
_UNROLLED = 4


def _pairs(b: Builder, nibbles: Value) -> Value:
    """Lanes of 4 bits, two to a byte, the first in the low half."""
    lanes = lanes_of(nibbles) // 2
    both = b.value(vector("i16", lanes), f"bitcast {nibbles} to {vector('i16', lanes)}")
    low = b.op("and", both, b.splat("i16", lanes, "15"))
    high = b.op("and", b.op("lshr", both, b.splat("i16", lanes, "4")), b.splat("i16", lanes, "240"))
    return b.cast("trunc", b.op("or", low, high), "i8")


def _float_text(number: float) -> str:
    """A number that f32 holds, as LLVM writes it."""
    return VectorArithmetic(Builder()).constant(number, Value("<1 x float>", "")).ref.split()[-1].rstrip(")")
