"""Code for work in stages: a loop over chunks, with the loops of their stages, between stack buffers."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ..ir.nest import Axis, Stride
from ..ir.staged_nest import Flush, StridedRun
from ..schedule.machine import LINE
from ..schedule.moves.staged import ChunkStages, StagedSchedule
from .builder import Builder, Value, i64, vector
from .kernel import Cursor, KernelParams, NestWriter, Style, module_text, share_of
from .tile_registers import TileAddresses

# Writes prefetches for this many further lines of the next chunk.
Prefetch = Callable[[int], None]
_NOTHING = KernelParams()


def emit_staged(staged: StagedSchedule, style: Style) -> str:
    """Return the IR text that runs the chunks of `staged`."""
    b = style.builder()
    StagedWriter(b, staged, style).emit()
    b.line("ret void")
    return module_text(b)


class StageWriter(NestWriter):
    """Writes all loops of one schedule between two addresses, however the chunks are shared."""

    def run(self, src: Value, dst: Value, ask: Prefetch | None = None) -> None:
        """Run from `src` to `dst` (offset 0); `ask` prefetches as many lines as a tile has."""
        nest = self.nest
        self._ask = ask
        places = TileAddresses(
            self.b.advance(src, nest.src_base * nest.src_type.bits // 8),
            self.b.advance(dst, nest.dst_base * nest.dst_type.bits // 8),
        )
        cursor = Cursor(places, tuple((a.extent, a.valid) for a in nest.axes))
        self._loops(self._order, {}, cursor)

    def _tile(self, cursor: Cursor) -> None:
        super()._tile(cursor)
        if self._ask is not None:
            self._ask(-(-prod(self.plan.chunks) * self.nest.dst_type.bits // (8 * LINE)))


class FlushWriter:
    """Writes how a chunk in scratch is flushed; elements are of `width` bytes."""

    def __init__(self, b: Builder, width: int) -> None:
        self.b, self.width = b, width

    def _along(self, pointer: Value, stride: Stride, place: Value) -> Value:
        assert isinstance(stride, int)
        return self.b.step(pointer, place, stride * self.width)

    def _flush(
        self, flush: Flush, loops: tuple[Axis, ...], at: tuple[Value, Value, Value], offset: Value
    ) -> None:
        b = self.b
        if not loops:
            self._flush_run(flush, at, offset)
            return
        axis, (src, dst, ahead) = loops[0], at
        assert isinstance(axis.src, int)
        with b.loop(i64(0), i64(axis.extent)) as place:
            moved = b.op("add", offset, b.op("mul", place, i64(axis.src * self.width)))
            self._flush(flush, loops[1:], (src, self._along(dst, axis.dst, place), ahead), moved)

    def _flush_run(self, flush: Flush, at: tuple[Value, Value, Value], offset: Value) -> None:
        """Write bytes up to the first line, whole lines past the caches, and bytes after the last line."""
        b, (scratch, dst, ahead) = self.b, at
        src = b.advance(scratch, offset)
        if flush.way != "runs":
            self._copy_run(flush, (src, dst, ahead), offset)
            return
        address = b.value("i64", f"ptrtoint {dst} to i64")
        head, length = b.op("and", b.op("sub", i64(0), address), i64(LINE - 1)), flush.length * self.width
        if length < LINE:
            # A last chunk can end before the first line does.
            is_less = b.value("i1", f"icmp ult {head}, {length}")
            head = b.value("i64", f"select {is_less}, {head}, i64 {length}")
        self._piece(src, dst, i64(0), head)
        rest = b.op("sub", i64(length), head)
        lines = b.op("lshr", rest, i64(LINE.bit_length() - 1))
        kind = vector("i8", LINE)
        with b.loop(i64(0), lines) as line:
            asked = b.op("mul", line, i64(LINE))
            place = b.op("add", head, asked)
            self._prefetch(flush.ahead, ahead, b.op("add", offset, asked))
            value = b.value(kind, f"load {kind}, {b.advance(src, place)}, align 1")
            b.line(f"store {value}, {b.advance(dst, place)}, align {LINE}, !nontemporal !0")
        asked = b.op("mul", lines, i64(LINE))
        with b.when("ult", asked, i64(length)):
            # The pieces at both ends belong to one more line.
            self._prefetch(flush.ahead, ahead, b.op("add", offset, asked))
        self._piece(src, dst, b.op("add", head, asked), b.op("and", rest, i64(LINE - 1)))

    def _copy_run(self, flush: Flush, at: tuple[Value, Value, Value], offset: Value) -> None:
        """Write a short run: as whole lines past the caches, or through them."""
        b, (src, dst, ahead), length = self.b, at, flush.length * self.width
        place, is_past = 0, flush.way == "lines"
        while place < length:
            size = min(LINE, 1 << ((length - place).bit_length() - 1))
            if is_past:
                self._prefetch(flush.ahead, ahead, b.op("add", offset, i64(place)))
            kind, align = vector("i8", size), f"{LINE}, !nontemporal !0" if is_past else "1"
            value = b.value(kind, f"load {kind}, {b.advance(src, place)}, align 1")
            b.line(f"store {value}, {b.advance(dst, place)}, align {align}")
            place += size

    def _prefetch(self, runs: tuple[StridedRun, ...], ahead: Value, offset: Value) -> None:
        """Prefetch a line of the next chunk's source, at the same distance into it as the flushed line.

        By its last byte: the first bytes of a run are in the line where the previous run ended.
        """
        if not runs:
            return
        b = self.b
        *inner, last = runs
        place = b.op("lshr", offset, i64(self.width.bit_length() - 1))
        for run in inner:
            ahead = self._along(ahead, run.stride, b.op("urem", place, i64(run.extent)))
            place = b.op("udiv", place, i64(run.extent))
        b.prefetch(b.advance(self._along(ahead, last.stride, place), LINE - self.width))

    def _piece(self, src: Value, dst: Value, first: Value, count: Value) -> None:
        """Write `count` bytes, fewer than a line, from `first` on: a power of two for each count bit."""
        b, size = self.b, LINE // 2
        while size:
            bit = b.op("and", count, i64(size))
            before = b.op("and", count, i64(-2 * size))
            at = b.op("add", first, before)
            with b.when("ne", bit, i64(0)):
                kind = vector("i8", size)
                value = b.value(kind, f"load {kind}, {b.advance(src, at)}, align 1")
                b.line(f"store {value}, {b.advance(dst, at)}, align 1")
            size //= 2


class StagedWriter(FlushWriter):
    """Writes a staged kernel."""

    def __init__(self, b: Builder, staged: StagedSchedule, style: Style) -> None:
        super().__init__(b, staged.data_type.bits // 8)
        self.staged, self.style = staged, style

    def emit(self) -> None:
        """Write the loop over this part's share of the chunks."""
        b, staged = self.b, self.staged
        size = -(-staged.scratch * self.width // LINE) * LINE
        buffers = [b.value("ptr", f"alloca [{size} x i8], align {LINE}") for _ in range(2)]
        self.asked = b.value("ptr", "alloca i64, align 8") if staged.whole.ahead else None
        with b.loop(*share_of(b, staged.steps)) as step:
            self._chunk(step, buffers)

    def _chunk(self, step: Value, buffers: list[Value]) -> None:
        b, staged = self.b, self.staged
        chunk, src, dst = self._place(step)
        _, ahead, _ = self._place(b.op("add", step, i64(1)))
        if staged.rest is None:
            self._steps(staged.whole, (src, dst, ahead), buffers)
            return
        last = i64(staged.chunks - 1)
        with b.when("ne", chunk, last):
            self._steps(staged.whole, (src, dst, ahead), buffers)
        with b.when("eq", chunk, last):
            self._steps(staged.rest, (src, dst, ahead), buffers)

    def _place(self, step: Value) -> tuple[Value, Value, Value]:
        """Return the number of a chunk along the cut axis, and where it begins on both sides."""
        b, staged = self.b, self.staged
        chunk = b.op("urem", step, i64(staged.chunks))
        step = b.op("udiv", step, i64(staged.chunks))
        src, dst = (
            b.advance(Value("ptr", name), base * self.width)
            for name, base in zip(("%src", "%dst"), staged.bases, strict=True)
        )
        src, dst = self._move((src, dst), staged.along, b.op("mul", chunk, i64(staged.chunk)))
        for axis in reversed(staged.outer):
            src, dst = self._move((src, dst), axis, b.op("urem", step, i64(axis.extent)))
            step = b.op("udiv", step, i64(axis.extent))
        return chunk, src, dst

    def _move(self, at: tuple[Value, Value], axis: Axis, place: Value) -> tuple[Value, Value]:
        """Return both addresses moved to a position of an axis."""
        return self._along(at[0], axis.src, place), self._along(at[1], axis.dst, place)

    def _steps(self, steps: ChunkStages, at: tuple[Value, Value, Value], buffers: list[Value]) -> None:
        read, dst, ahead = at
        ask = self._prefetcher(steps.ahead, ahead, len(steps.stages)) if steps.ahead else None
        for number, plans in enumerate(steps.stages):
            is_last = number == len(steps.stages) - 1 and steps.flush is None
            written = dst if is_last else buffers[number % 2]
            for plan in plans:
                StageWriter(self.b, plan, self.style, _NOTHING).run(read, written, ask)
            read = written
        if steps.flush is not None:
            self._flush(steps.flush, steps.flush.loops, (read, dst, ahead), i64(0))

    def _prefetcher(self, runs: tuple[StridedRun, ...], ahead: Value, stages: int) -> Prefetch:
        """Return a function that prefetches the next chunk line by line, so that memory is never idle; the
        stages share the lines. Its progress is kept in memory.
        """
        b, asked = self.b, self.asked
        b.line(f"store i64 0, {asked}, align 8")

        def ask(lines: int) -> None:
            first, share = b.value("i64", f"load i64, {asked}, align 8"), -(-lines // stages)
            for line in range(share):
                self._prefetch(runs, ahead, b.op("add", first, i64(line * LINE)))
            b.line(f"store {b.op('add', first, i64(share * LINE))}, {asked}, align 8")

        return ask
