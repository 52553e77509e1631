"""Scheduled nests -> the text of one LLVM module with the entry `void restride(src, dst, params, part,
parts)`.

`params` points at two floats, alpha and beta. The entry runs the share `part` of `parts` of every nest's
grid, so that any number of threads can share a kernel, each calling it with its own part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..plan.nest import Axis, Compute
from ..plan.schedule import Schedule
from .builder import Builder, Value, i64
from .convert import Abilities, Factors
from .shape import TileAxis
from .tile import TileSpec, emit_tile

ENTRY = "restride"
WHOLE = "restride_whole"

_HEAD = "define void @restride(ptr %src, ptr %dst, ptr %params, i64 %part, i64 %parts) nounwind {\nentry:\n"
# One thread's call of the whole: three arguments cost a foreign call less than five.
_WHOLE = """define void @restride_whole(ptr %src, ptr %dst, ptr %params) nounwind {
  tail call void @restride(ptr %src, ptr %dst, ptr %params, i64 0, i64 1)
  ret void
}"""


@dataclass(frozen=True, slots=True)
class Style:
    """How a target wants its code: vector width, what one permutation costs, what it converts by itself."""

    vector_bytes: int
    permute_cost: int
    byte_permute_cost: int
    can: Abilities


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where the loops stand: both addresses, and how many positions of each axis the tile covers."""

    src: Value
    dst: Value
    spans: tuple[tuple[int, int], ...]


def emit_kernel(plans: Sequence[Schedule], style: Style) -> str:
    """The IR text that runs all of `plans` in turn."""
    b = Builder()
    factors = load_factors(b, [plan.nest.compute for plan in plans])
    for plan in plans:
        NestWriter(b, plan, style, factors).emit()
    b.line("ret void")
    return module_text(b)


def module_text(b: Builder) -> str:
    """A whole module around the body in `b`."""
    parts = [*b.constants, *sorted(b.declared.values()), _HEAD + b.body() + "\n}", _WHOLE, "!0 = !{i32 1}"]
    return "\n".join(parts) + "\n"


def load_factors(b: Builder, computes: Iterable[Compute]) -> Factors:
    """Load alpha and beta, where any of the computations wants them."""
    wanted = list(computes)
    alpha = beta = None
    if any(compute.scaled for compute in wanted):
        alpha = b.value("float", "load float, ptr %params, align 4")
    if any(compute.summed for compute in wanted):
        beta = b.value("float", f"load float, {b.advance(Value('ptr', '%params'), 4)}, align 4")
    return Factors(alpha, beta)


class NestWriter:
    """Writes the loops of one schedule."""

    def __init__(self, b: Builder, plan: Schedule, style: Style, factors: Factors) -> None:
        self.b, self.plan, self.nest, self.factors = b, plan, plan.nest, factors
        cost = style.byte_permute_cost if plan.mid_type.bits == 8 else style.permute_cost
        self.spec = TileSpec(
            self.nest.src_type,
            self.nest.dst_type,
            plan.mid_type,
            self.nest.compute,
            self.nest.is_zero,
            plan.streams,
            plan.prefetch,
            style.vector_bytes,
            cost,
            style.can,
        )

    def emit(self) -> None:
        """The grid loop over this part's share, and everything inside it."""
        b, plan = self.b, self.plan
        start = self.start()
        order = [g.axis for g in plan.grid if g.axis not in plan.inner] + list(plan.inner)
        total = plan.steps()
        if not plan.grid:
            # Nothing to share: the first part does it all.
            with b.when("eq", Value("i64", "%part"), i64(0)):
                self._loops(order, {}, start)
            return
        low, high = self.share(total)
        with b.loop(low, high) as step:
            self._loops(order, self._decode(step), start)

    def start(self) -> Cursor:
        """Where the nest begins."""
        nest = self.nest
        src = self.b.advance(Value("ptr", "%src"), nest.src_base * nest.src_type.bits // 8)
        dst = self.b.advance(Value("ptr", "%dst"), nest.dst_base * nest.dst_type.bits // 8)
        return Cursor(src, dst, tuple((a.extent, a.valid) for a in nest.axes))

    def share(self, total: int) -> tuple[Value, Value]:
        """This part's share of `total` steps: first, and one past the last."""
        b, part, parts = self.b, Value("i64", "%part"), Value("i64", "%parts")
        low = b.op("udiv", b.op("mul", part, i64(total)), parts)
        high = b.op("udiv", b.op("mul", b.op("add", part, i64(1)), i64(total)), parts)
        return low, high

    def _decode(self, step: Value) -> dict[int, Value]:
        """The position of each grid loop in a flat step number."""
        found: dict[int, Value] = {}
        for grid in reversed(self.plan.grid):
            extent = self.plan.grid_extent(grid)
            found[grid.axis] = self.b.op("urem", step, i64(extent))
            step = self.b.op("udiv", step, i64(extent))
        return found

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
        """All tiles of an axis: the full ones in a loop, the partial ones after it."""
        full, partial = self._partition(index)
        if full == 1:
            inside(self.moved(index, i64(0), cursor, self._full_span(index)))
        elif full:
            with self.b.loop(i64(0), i64(full)) as tile:
                inside(self.moved(index, tile, cursor, self._full_span(index)))
        for tile_number, span in partial:
            inside(self.moved(index, i64(tile_number), cursor, span))

    def _block(self, index: int, step: Value, cursor: Cursor, inside: Callable[[Cursor], None]) -> None:
        """The tiles of one grid step of an axis."""
        b = self.b
        tiles = next(g.tiles for g in self.plan.grid if g.axis == index)
        full, partial = self._partition(index)
        if tiles == 1 and not partial:
            inside(self.moved(index, step, cursor, self._full_span(index)))
            return
        start = b.op("mul", step, i64(tiles))
        stop = b.op("add", start, i64(tiles))
        if full:
            limit = b.value("i1", f"icmp slt {stop}, {full}")
            stop = b.value("i64", f"select {limit}, {stop}, i64 {full}")
            with b.loop(start, stop) as tile:
                inside(self.moved(index, tile, cursor, self._full_span(index)))
        for tile_number, span in partial:
            with b.when("eq", step, i64(tile_number // tiles)):
                inside(self.moved(index, i64(tile_number), cursor, span))

    def _full_span(self, index: int) -> tuple[int, int]:
        return self.plan.chunks[index], self.plan.chunks[index]

    def _partition(self, index: int) -> tuple[int, list[tuple[int, tuple[int, int]]]]:
        """How many leading tiles are full, and the (number, (count, valid)) of those that are not."""
        axis, chunk = self.nest.axes[index], self.plan.chunks[index]
        valid = axis.extent if self.nest.is_zero else axis.valid
        full = min(valid, axis.extent) // chunk
        partial = []
        for number in range(full, -(-axis.extent // chunk)):
            count = min(chunk, axis.extent - number * chunk)
            partial.append((number, (count, min(max(valid - number * chunk, 0), count))))
        return full, partial

    def moved(self, index: int, tile: Value, cursor: Cursor, span: tuple[int, int]) -> Cursor:
        """The cursor at one piece of an axis, which covers `span` (count, valid) of it."""
        axis, nest = self.nest.axes[index], self.nest
        chunk = self.plan.chunks[index]
        src = self._advance(cursor.src, axis, "src", tile, chunk * nest.src_type.bits // 8)
        dst = self._advance(cursor.dst, axis, "dst", tile, chunk * nest.dst_type.bits // 8)
        spans = (*cursor.spans[:index], span, *cursor.spans[index + 1 :])
        return Cursor(src, dst, spans)

    def _advance(self, pointer: Value, axis: Axis, side: str, tile: Value, width: int) -> Value:
        stride = axis.src if side == "src" else axis.dst
        if isinstance(stride, int):
            if tile.ref.isdigit():
                return self.b.advance(pointer, int(tile.ref) * stride * width)
            return self.b.advance(pointer, self.b.op("mul", tile, i64(stride * width))) if stride else pointer
        table = self.b.table([offset * width for offset in stride])
        slot = self.b.value("ptr", f"getelementptr i64, ptr {table}, {tile}")
        return self.b.advance(pointer, self.b.value("i64", f"load i64, {slot}, align 8"))

    def _tile(self, cursor: Cursor) -> None:
        axes = tuple(
            _tile_axis(axis, chunk, span)
            for axis, chunk, span in zip(self.nest.axes, self.plan.chunks, cursor.spans, strict=True)
            if chunk > 1
        )
        emit_tile(self.b, self.spec, axes, cursor.src, cursor.dst, self.factors)


def _tile_axis(axis: Axis, chunk: int, span: tuple[int, int]) -> TileAxis:
    count, valid = span
    template = count if count == chunk else min(chunk, 1 << (count - 1).bit_length())
    if chunk & (chunk - 1) == 0 and template & (template - 1):
        template = 1 << (template - 1).bit_length()
    assert isinstance(axis.src, int)
    assert isinstance(axis.dst, int)
    return TileAxis(template, count, valid, axis.src, axis.dst)
