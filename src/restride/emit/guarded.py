"""A nest with bounds, run by element with bounds checks: for nests that peel into too many boxes."""

from __future__ import annotations

from ..ir.nest import LoopNest
from ..schedule.moves.schedule import Schedule
from .builder import Value, i64
from .kernel import Cursor, NestWriter, Style, load_params, module_text
from .tile import emit_tile
from .tile_shape import TileAxis


def emit_guarded(nest: LoopNest, style: Style) -> str:
    """Return the IR text of a nest with bounds, run element by element."""
    b = style.builder()
    params = load_params(b, [nest])
    why = "too many partial blocks"
    plan = Schedule(nest, (1,) * len(nest.axes), (), (), nest.src_type, "guarded", why, late=True)
    GuardedWriter(b, plan, style, params).emit_all()
    b.line("ret void")
    return module_text(b)


class GuardedWriter(NestWriter):
    """Loops over every axis; the outermost is shared by the parts."""

    def emit_all(self) -> None:
        """Write the outermost axis in shares, the others whole."""
        low, high = self.share(self.nest.axes[0].extent)
        zero: tuple[Value, ...] = (i64(0),) * len(self.nest.bounds)
        self.guarded_loop(0, low, high, self.start(), zero)

    def guarded_loop(
        self, index: int, low: Value, high: Value, cursor: Cursor, at: tuple[Value, ...]
    ) -> None:
        """Write positions from `low` to `high` of an axis, and all of the axes inside it."""
        with self.b.loop(low, high) as position:
            moved, here = self.step(index, position, cursor, at)
            if index + 1 < len(self.nest.axes):
                self.guarded_loop(index + 1, i64(0), i64(self.nest.axes[index + 1].extent), moved, here)
            else:
                self.element(moved, here)

    def step(
        self, index: int, position: Value, cursor: Cursor, at: tuple[Value, ...]
    ) -> tuple[Cursor, tuple[Value, ...]]:
        """Return the cursor and the bounded indices at one position of an axis."""
        axis = self.nest.axes[index]
        moved = self.move_cursor(index, position, cursor, (1, 1))
        here = tuple(
            self.b.op("add", value, self.b.op("mul", position, i64(axis.step))) if i == axis.bound else value
            for i, value in enumerate(at)
        )
        return moved, here

    def element(self, cursor: Cursor, at: tuple[Value, ...]) -> None:
        """Write one element, at these bounded indices: moved, set to zero, or left alone."""
        b, limits = self.b, self.nest.bounds
        written = self._all_below(at, [bound.padded for bound in limits])
        with b.when("eq", written, Value("i1", "true")):
            read = self._all_below(at, [bound.size for bound in limits])
            with b.when("eq", read, Value("i1", "true")):
                emit_tile(b, self.spec, self._one(1), cursor.places)
            with b.when("eq", read, Value("i1", "false")):
                emit_tile(b, self.spec, self._one(0), cursor.places)

    def _one(self, valid: int) -> tuple[TileAxis, ...]:
        """Return a tile of one element that is read, or set to zero."""
        return (TileAxis(1, 1, valid, 0, 0, (0,) * len(self.nest.operands)),)

    def _all_below(self, at: tuple[Value, ...], limits: list[int]) -> Value:
        result = Value("i1", "true")
        for value, limit in zip(at, limits, strict=True):
            below = self.b.value("i1", f"icmp slt {value}, {limit}")
            result = self.b.op("and", result, below)
        return result
