"""Code for scheduled nests: an LLVM module with the entry `void restride(src, dst, params, part, parts)`.

`params` points to slots of 8 bytes: the addresses of the operands of the computation, then its scalars as
f64. The entry runs the share `part` of `parts` of every nest's grid, so that any number of threads can share
a kernel, each calling it with its own part.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..dtypes import DataType
from ..ir.nest import Axis, LoopNest, Stride
from ..schedule.moves.schedule import Schedule, splits_operand
from .access import HALVES, halves_at
from .builder import ANYWHERE, Builder, Value, i64
from .compute import load_scalars
from .convert import Abilities, carrier_bits, real_type
from .entry import ENTRY
from .pack import can_pack
from .tile import emit_tile
from .tile_registers import TileAddresses, TileSpec
from .tile_shape import TileAxis

_PARAMS = Value("ptr", "%params")
_HEAD = "define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {\nentry:\n"
# A single thread's call of the whole kernel: three arguments make a foreign call cheaper than five.
_WHOLE = """define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}"""


@dataclass(frozen=True, slots=True)
class Style:
    """The code style of a target: vector width, cost of a permutation, available conversions, and the largest
    constant distances that LLVM may see (`Builder`).
    """

    vector_bytes: int
    permute_cost: int
    byte_permute_cost: int
    can: Abilities
    reach: int = ANYWHERE

    def builder(self) -> Builder:
        """Return a builder for code of this style."""
        return Builder(reach=self.reach)


@dataclass(frozen=True, slots=True)
class _TileRange:
    """Similar tiles of one axis: the first, how many, and the (count, valid) positions of each."""

    first: int
    tiles: int
    span: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Cursor:
    """The state of the loops: all addresses, and how many positions of each axis the tile covers."""

    places: TileAddresses
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class KernelParams:
    """The contents of %params: the addresses of the operands, and the scalars in the real type."""

    operands: tuple[Value, ...] = ()
    scalars: tuple[Value, ...] = ()


def emit_kernel(plans: Sequence[Schedule], style: Style) -> str:
    """Return the IR text that runs all of `plans` in turn."""
    b = style.builder()
    params = load_params(b, [plan.nest for plan in plans])
    for plan in plans:
        NestWriter(b, plan, style, params).emit()
    b.line("ret void")
    return module_text(b)


def share_of(b: Builder, total: int | Value) -> tuple[Value, Value]:
    """Return the share %part of %parts of `total` steps: first, and one past the last."""
    part, parts = Value("i64", "%part"), Value("i64", "%parts")
    steps = i64(total) if isinstance(total, int) else total
    low = b.op("udiv", b.op("mul", part, steps), parts)
    high = b.op("udiv", b.op("mul", b.op("add", part, i64(1)), steps), parts)
    return low, high


def module_text(b: Builder) -> str:
    """Return a whole module around the body in `b`."""
    outside = *b.constants, *sorted(b.declared.values()), *b.defined.values()
    notes = ["!0 = !{i32 1}", *(['!1 = !{!"branch_weights", i32 1000, i32 1}'] if b.has_seldom else [])]
    parts = [*outside, _HEAD + b.body() + "\n}", _WHOLE, *b.block_table(ENTRY), *notes]
    return "\n".join(parts) + "\n"


def load_params(b: Builder, nests: Sequence[LoopNest], at: Value = _PARAMS) -> KernelParams:
    """Load the inputs of the computation from `at` on; nests that only write zeros read nothing."""
    nest = next((nest for nest in nests if not nest.is_zero), None)
    if nest is None:
        return KernelParams()
    count = len(nest.operands)
    operands = tuple(load_pointer(b, at, slot) for slot in range(count))
    real = real_type(nest.src_type, nest.dst_type, nest.compute)
    return KernelParams(operands, load_scalars(b, nest.compute, at, count, real))


def load_pointer(b: Builder, at: Value, slot: int) -> Value:
    """Load the address in a slot of 8 bytes."""
    return b.value("ptr", f"load ptr, {b.advance(at, 8 * slot)}, align 8")


def _packs(plan: Schedule, can: Abilities) -> bool:
    """Return whether values converted before they are permuted are packed to bytes."""
    nest = plan.nest
    types = nest.src_type, nest.dst_type
    if not can.packs or plan.late or (nest.compute.is_move and can.looks_up(*types)):
        return False
    return can_pack(*types, nest.compute)


class NestWriter:
    """Writes the loops of one schedule."""

    def __init__(self, b: Builder, plan: Schedule, style: Style, params: KernelParams) -> None:
        self.b, self.plan, self.nest, self.params = b, plan, plan.nest, params
        # The bits by which each operand moves for an element.
        self.widths = tuple(
            HALVES if splits_operand(plan, i) else operand.data_type.bits
            for i, operand in enumerate(self.nest.operands)
        )
        is_bytes = carrier_bits(plan.mid_type) == 8
        types = self.nest.src_type, self.nest.dst_type
        self.spec = TileSpec(
            *types,
            plan.mid_type,
            self.nest.compute,
            tuple(operand.data_type for operand in self.nest.operands),
            params.scalars,
            plan.late,
            _packs(plan, style.can),
            self.nest.is_zero,
            plan.streams,
            plan.prefetch,
            style.vector_bytes,
            style.byte_permute_cost if is_bytes else style.permute_cost,
            style.can,
        )

    def emit(self) -> None:
        """Write the grid loop over this part's share, and everything inside it."""
        start = self.start()
        if not self.plan.grid:
            # Nothing to share: the first part does all of it.
            with self.b.when("eq", Value("i64", "%part"), i64(0)):
                self._loops(self._order, {}, start)
            return
        self.steps(start, *self.share(self.plan.steps()))

    def steps(self, start: Cursor, low: Value, high: Value) -> None:
        """Write the grid's steps [low, high), and everything inside them."""
        if not self.plan.grid:
            self._loops(self._order, {}, start)
            return
        with self.b.loop(low, high) as step:
            self._loops(self._order, self._decode(step), start)

    @property
    def _order(self) -> list[int]:
        """Return the axes of all loops, outermost first."""
        plan = self.plan
        return [g.axis for g in plan.grid if g.axis not in plan.inner] + list(plan.inner)

    def start(self) -> Cursor:
        """Return the cursor at the beginning of the nest."""
        return self.start_at(TileAddresses(Value("ptr", "%src"), Value("ptr", "%dst"), self.params.operands))

    def start_at(self, at: TileAddresses) -> Cursor:
        """Return the cursor at the beginning of the nest, given the address of offset 0 of each operand."""
        nest = self.nest
        src = self._begin(at.src, nest.src_base, nest.src_type)
        dst = self._begin(at.dst, nest.dst_base, nest.dst_type)
        more = tuple(
            self._begin_operand(index, pointer) for index, pointer in enumerate(at.more[: len(nest.operands)])
        )
        return Cursor(TileAddresses(src, dst, more), tuple((a.extent, a.valid) for a in nest.axes))

    def _begin(self, pointer: Value, base: int, data_type: DataType) -> Value:
        return self.b.advance(pointer, base * data_type.bits // 8)

    def _begin_operand(self, index: int, pointer: Value) -> Value:
        operand = self.nest.operands[index]
        if not splits_operand(self.plan, index):
            return self._begin(pointer, operand.base, operand.data_type)
        return self.b.advance(halves_at(self.b, pointer), operand.base)

    def share(self, total: int) -> tuple[Value, Value]:
        """Return this part's share of `total` steps: first, and one past the last."""
        return share_of(self.b, total)

    def _decode(self, step: Value) -> dict[int, Value]:
        """Return the position of each grid loop in a flat step number."""
        values: dict[int, Value] = {}
        for grid in reversed(self.plan.grid):
            extent = self.plan.grid_extent(grid)
            values[grid.axis] = self.b.op("urem", step, i64(extent))
            step = self.b.op("udiv", step, i64(extent))
        return values

    def _loops(self, order: list[int], steps: dict[int, Value], cursor: Cursor) -> None:
        if not order:
            self._tile(cursor)
            return
        index, rest = order[0], order[1:]

        def inside(moved: Cursor) -> None:
            self._loops(rest, steps, moved)

        if index in steps:
            self._block(index, steps[index], cursor, inside)
        else:
            self._whole(index, cursor, inside)

    def _whole(self, index: int, cursor: Cursor, inside: Callable[[Cursor], None]) -> None:
        """Write all tiles of an axis, section by section."""
        for section in self._sections(index):
            if section.tiles == 1:
                inside(self.move_cursor(index, i64(section.first), cursor, section.span))
                continue
            with self.b.loop(i64(section.first), i64(section.first + section.tiles)) as tile:
                inside(self.move_cursor(index, tile, cursor, section.span))

    def _block(self, index: int, step: Value, cursor: Cursor, inside: Callable[[Cursor], None]) -> None:
        """Write the tiles of one grid step of an axis."""
        b, sections = self.b, self._sections(index)
        tiles = next(g.tiles for g in self.plan.grid if g.axis == index)
        if tiles == 1 and len(sections) == 1:
            inside(self.move_cursor(index, step, cursor, sections[0].span))
            return
        start = b.op("mul", step, i64(tiles))
        stop = b.op("add", start, i64(tiles))
        for section in sections:
            if section.tiles == 1:
                with b.when("eq", step, i64(section.first // tiles)):
                    inside(self.move_cursor(index, i64(section.first), cursor, section.span))
                continue
            low = self._clamp("sgt", start, section.first) if section.first else start
            high = self._clamp("slt", stop, section.first + section.tiles)
            with b.loop(low, high) as tile:
                inside(self.move_cursor(index, tile, cursor, section.span))

    def _clamp(self, name: str, value: Value, limit: int) -> Value:
        condition = self.b.value("i1", f"icmp {name} {value}, {limit}")
        return self.b.value("i64", f"select {condition}, {value}, i64 {limit}")

    def _sections(self, index: int) -> list[_TileRange]:
        """Return the tiles of an axis: those read whole, a partly read one, those of zeros, a cut-off one."""
        axis, chunk = self.nest.axes[index], self.plan.chunks[index]
        valid = axis.extent if self.nest.is_zero else axis.valid
        full, whole = valid // chunk, axis.extent // chunk
        sections = [_TileRange(0, full, (chunk, chunk))]
        at = full
        if valid % chunk:
            sections.append(_TileRange(full, 1, (min(chunk, axis.extent - full * chunk), valid % chunk)))
            at += 1
        sections.append(_TileRange(at, whole - at, (chunk, 0)))
        if axis.extent % chunk and at <= whole:
            sections.append(_TileRange(whole, 1, (axis.extent % chunk, 0)))
        return [section for section in sections if section.tiles > 0]

    def move_cursor(self, index: int, tile: Value, cursor: Cursor, span: tuple[int, int]) -> Cursor:
        """Return the cursor at one piece of an axis, which covers `span` (count, valid) of it."""
        axis, nest, at = self.nest.axes[index], self.nest, cursor.places
        chunk = self.plan.chunks[index]
        src = self._advance(at.src, axis.src, tile, chunk * nest.src_type.bits)
        dst = self._advance(at.dst, axis.dst, tile, chunk * nest.dst_type.bits)
        more = tuple(
            self._advance(pointer, stride, tile, chunk * width)
            for pointer, stride, width in zip(at.more, axis.more, self.widths, strict=True)
        )
        spans = (*cursor.spans[:index], span, *cursor.spans[index + 1 :])
        return Cursor(TileAddresses(src, dst, more), spans)

    def _advance(self, pointer: Value, stride: Stride, tile: Value, bits: int) -> Value:
        """Return the pointer at a piece of an axis; `bits`: of stride 1. 4-bit pieces are whole bytes."""
        if isinstance(stride, int):
            return self.b.step(pointer, tile, stride * bits // 8)
        return self.b.step_by_table(pointer, tile, [offset * bits // 8 for offset in stride])

    def _tile(self, cursor: Cursor) -> None:
        axes = tuple(
            _tile_axis(axis, chunk, span)
            for axis, chunk, span in zip(self.nest.axes, self.plan.chunks, cursor.spans, strict=True)
            if chunk > 1
        )
        emit_tile(self.b, self.spec, axes, cursor.places)


def _tile_axis(axis: Axis, chunk: int, span: tuple[int, int]) -> TileAxis:
    count, valid = span
    template = count if count == chunk else min(chunk, 1 << (count - 1).bit_length())
    assert axis.is_linear or template == axis.extent
    return TileAxis(template, count, valid, axis.src, axis.dst, axis.more)
