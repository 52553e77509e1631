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
from .convert import bits_type, canonical_nan, from_real, nibble_codes, to_real
from .fold import Accumulation
from .kernel import Style, load_pointer, module_text, share_of
from .pack import GROUP, PARTS, can_pack, integers_of, is_small_float, pack
from .small_float import small_code

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
        tiles = self._tiles()
        if self.plan.is_held:
            held = [self._load(at, tile) for tile in tiles]
            keys = self._joined(held) if self.plan.batch > 1 else self._fold(held)
            operands = self._found([keys], at)
            for i, (tile, bits) in enumerate(zip(tiles, held, strict=True)):
                self._write(at, tile, bits, operands[i % len(operands)])
            return
        self._convert_all(at, tiles, self._found(self._search(at, tiles), at))

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
        # Groups of one vector after the other; without a batch all lanes are of one.
        extent = self.plan.run.extent
        starts = range(0, extent * self.plan.batch, self.size) if self.plan.batch > 1 else (0,)
        places = [[(start + lane) // extent for lane in range(self.size)] for start in starts]
        return [tuple(b.shuffle(x, x, place) for x in found) for place in places]

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
        if types[1].bits == 4:
            made = _pairs(b, made)
        address = b.advance(at.dst, tile.dst * types[1].bits // 8)
        b.line(f"store {made}, {address}, align 1")

    def _packed(self, bits: Value, operands: _Keys) -> Value:
        """A register of bytes from four parts, each narrowed to 32 bits for itself."""
        b, can, kind = self.b, self.style.can, self.rule.data_type
        count, types, compute = self.size // PARTS, (self.src_type, self.rule.data_type), self.rule.compute()
        reals: list[Value] = []
        for first in range(0, self.size, count):
            part = tuple(b.lanes(operand, first, count) for operand in operands)
            inputs = StepInputs(self.scalars, part.__getitem__, lambda _: bits)
            reals.append(real_steps(b, b.lanes(bits, first, count), types, compute, inputs, can))
        if can.has_tables and kind.kind == "float" and kind.bits == 4:
            return nibble_codes(b, reals, kind)
        if is_small_float(kind):
            parts = [small_code(b, b.bitcast(canonical_nan(b, real), "i32"), kind) for real in reals]
        else:
            parts = [integers_of(b, real, kind) for real in reals]
        return _in_order(b, pack(b, parts, kind))


def _in_order(b: Builder, packed: Value) -> Value:
    """The elements of a packed register in the order of its parts."""
    words, groups = lanes_of(packed) // 4, lanes_of(packed) // (GROUP * PARTS)
    wide = b.value(vector("i32", words), f"bitcast {packed} to {vector('i32', words)}")
    moved = b.shuffle(wide, wide, [PARTS * group + part for part in range(PARTS) for group in range(groups)])
    return b.value(packed.type, f"bitcast {moved} to {packed.type}")


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
