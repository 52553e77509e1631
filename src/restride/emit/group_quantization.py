"""Scheduled quantisations in groups -> the text of one LLVM module: scales found, written, and applied in one
pass over memory.

`src` is the tensor, `dst` the elements; `params` points at the addresses of the scales and of the zero
points, which are bytes, then at the scale of the whole tensor as a double. The entry runs the share `part` of
`parts` of the steps: `group_batches.py` writes those of groups that fit in registers, `group_passes.py` the
others.
"""

from __future__ import annotations

from ..schedule.groups import GroupSchedule
from .builder import Builder, Value, i64
from .group_batches import BatchWriter
from .group_passes import PassWriter
from .group_vectors import GroupCursor, GroupVectors
from .kernel import Style, load_pointer, module_text, share_of

_PARAMS = Value("ptr", "%params")


def emit_group_quantization(plan: GroupSchedule, style: Style) -> str:
    """The IR text of a kernel."""
    b = style.builder()
    _GroupWriter(b, plan, style).emit()
    b.line("ret void")
    return module_text(b)


class _GroupWriter:
    """Writes the loops of one schedule over groups."""

    def __init__(self, b: Builder, plan: GroupSchedule, style: Style) -> None:
        self.b, self.plan = b, plan
        wide = b.value("double", f"load double, {b.advance(_PARAMS, 16)}, align 8")
        self.vectors = GroupVectors(b, plan, style, b.value("float", f"fptrunc {wide} to float"))
        self.writer = BatchWriter(self.vectors) if plan.is_held else PassWriter(self.vectors)

    def emit(self) -> None:
        """The grid loop over this part's share, and everything inside it."""
        b, plan, step = self.b, self.plan, self.writer.step
        beside = (load_pointer(b, _PARAMS, slot) for slot in (0, 1))
        start = self.vectors.start(GroupCursor(Value("ptr", "%src"), Value("ptr", "%dst"), *beside))
        first, end = share_of(b, plan.steps)
        with b.loop(first, end) as number:
            at, turn = self._decode(self._ordered(number, first, end), start)
            if plan.walked is None:
                step(at)
            elif turn is not None:
                step(self._walk(at, turn))
            else:
                turns = i64(0), i64(plan.turns)
                with b.loop(*turns) as each:
                    step(self._walk(at, self._ordered(each, *turns)))

    def _ordered(self, number: Value, first: Value, end: Value) -> Value:
        """The number of a step of [first, end) in the order in which they run."""
        if not self.plan.is_backward:
            return number
        b = self.b
        return b.op("sub", b.op("add", first, b.op("sub", end, i64(1))), number)

    def _decode(self, step: Value, at: GroupCursor) -> tuple[GroupCursor, Value | None]:
        """The places of a step of the grid, and its turn along the walked axis where that is shared."""
        b, plan, turn, moved = self.b, self.plan, None, self.vectors.moved
        if plan.walked is not None and plan.is_walk_shared:
            if not plan.outer:
                return at, step
            turn, step = b.op("urem", step, i64(plan.turns)), b.op("udiv", step, i64(plan.turns))
        for axis in reversed(plan.outer[1:]):
            extent = i64(axis.extent)
            at, step = moved(at, axis, b.op("urem", step, extent)), b.op("udiv", step, extent)
        return (moved(at, plan.outer[0], step) if plan.outer else at), turn

    def _walk(self, at: GroupCursor, turn: Value) -> GroupCursor:
        """The places of a turn; the last one ends where the axis ends."""
        b, plan = self.b, self.plan
        assert plan.walked is not None
        if plan.chunk == 1:
            return self.vectors.moved(at, plan.walked, turn)
        start = b.op("mul", turn, i64(plan.chunk))
        last = plan.walked.extent - plan.chunk
        if plan.walked.extent % plan.chunk:
            start = b.scalar_intrinsic("umin", start, i64(last))
        return self.vectors.moved(at, plan.walked, start)
