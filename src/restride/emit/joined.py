"""Nests in step -> IR: a loop over blocks, in each the loops of all nests; `params` holds their sources."""

from __future__ import annotations

from ..plan.joined import Joined
from ..plan.machine import LINE
from .builder import Builder, Value, i64
from .kernel import Params, Style, module_text, share_of
from .staged import Pourer, StageWriter


def emit_joined(joined: Joined, style: Style) -> str:
    """The IR text that runs the blocks of `joined`."""
    b = Builder()
    _JoinedWriter(b, joined, style).emit()
    b.line("ret void")
    return module_text(b)


class _JoinedWriter(Pourer):
    """Writes a joined kernel."""

    def __init__(self, b: Builder, joined: Joined, style: Style) -> None:
        super().__init__(b, joined.dst_type.bits // 8)
        self.joined, self.style = joined, style

    def emit(self) -> None:
        """The loop over this part's share of the blocks."""
        b, joined = self.b, self.joined
        scratch = None
        if joined.pour is not None:
            size = joined.pour.length * self.width
            scratch = b.value("ptr", f"alloca [{-(-size // LINE) * LINE} x i8], align {LINE}")
        sources = [
            b.value("ptr", f"load ptr, {b.advance(Value('ptr', '%params'), 8 * slot)}, align 8")
            for slot in range(len(joined.plans))
        ]
        with b.loop(*share_of(b, joined.steps)) as step:
            self._block(self._places(step), sources, scratch)

    def _places(self, step: Value) -> list[tuple[Value, tuple[int, ...], int]]:
        """Where a block begins on each axis, and how far each position moves sources and destination."""
        b, joined = self.b, self.joined
        block = b.op("urem", step, i64(joined.blocks))
        step = b.op("udiv", step, i64(joined.blocks))
        place, last = b.op("mul", block, i64(joined.block)), joined.along.extent - joined.block
        if joined.along.extent % joined.block:
            is_inside = b.value("i1", f"icmp ult {place}, {last}")
            place = b.value("i64", f"select {is_inside}, {place}, i64 {last}")
        found = [(place, joined.along.srcs, joined.along.dst)]
        for axis in reversed(joined.outer):
            found.append((b.op("urem", step, i64(axis.extent)), axis.srcs, axis.dst))
            step = b.op("udiv", step, i64(axis.extent))
        return found

    def _block(
        self, places: list[tuple[Value, tuple[int, ...], int]], sources: list[Value], scratch: Value | None
    ) -> None:
        joined, dst = self.joined, Value("ptr", "%dst")
        for place, _, stride in places:
            dst = self._along(dst, stride, place)
        for number, plans in enumerate(joined.plans):
            src, width = sources[number], joined.src_types[number].bits // 8
            for place, strides, _ in places:
                src = self.b.advance(src, self.b.op("mul", place, i64(strides[number] * width)))
            for plan in plans:
                StageWriter(self.b, plan, self.style, Params()).run(src, scratch or dst)
        if joined.pour is not None and scratch is not None:
            run = self.b.advance(dst, joined.start * self.width)
            self._pour_run(joined.pour, (scratch, run, run), i64(0))
