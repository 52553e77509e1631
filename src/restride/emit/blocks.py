"""Code for kernels that work block by block: one nest, interleaved nests, or a nest and sums.

If blocks share sums, each part adds to its own, one after another.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from ..ir.staged_nest import Flush
from ..schedule.machine import LINE
from ..schedule.moves.blocks import BlockRange, Blocks, FusedSums
from ..schedule.moves.interleaved import InterleavedNests
from ..schedule.trees.schedule import schedule_tree
from .builder import Builder, Value, i64
from .entry import OPTIMIZE
from .kernel import KernelParams, NestWriter, Style, load_params, load_pointer, module_text, share_of
from .staged import FlushWriter, StageWriter
from .tile_registers import TileAddresses
from .tree import TreeWriter
from .tree_items import ItemWriter

# --- blocks ------------------------------------------------------------------
# Blocks: a loop over blocks, containing the loops of all schedules of each section.


def emit_blocks(blocks: Blocks, style: Style) -> str:
    """Return the IR text that runs `blocks`."""
    b = style.builder()
    BlocksWriter(b, blocks, style, load_params(b, [blocks.nest])).emit()
    b.line("ret void")
    return module_text(b)


class BlocksWriter(FlushWriter):
    """Writes a kernel of blocks; `finish` adds work after each."""

    def __init__(self, b: Builder, blocks: Blocks, style: Style, params: KernelParams) -> None:
        super().__init__(b, blocks.nest.dst_type.bits // 8)
        self.blocks, self.style, self.params = blocks, style, params

    def emit(self) -> None:
        """Write the loop over this part's share of the blocks."""
        b, blocks = self.b, self.blocks
        base = blocks.nest.dst_base * self.width
        scratch = self._scratch() if blocks.scratch_elements else None
        with b.loop(*share_of(b, blocks.count)) as block:
            at = self._places(block)
            near = at if scratch is None else replace(at, dst=b.advance(scratch, -base))
            for section in blocks.sections:
                self._section(section, block, near)
            self.finish(block, near.dst)
            if scratch is not None:
                run = b.advance(at.dst, base)
                self._flush_run(Flush((), blocks.scratch_elements, ()), (scratch, run, run), i64(0))

    def finish(self, block: Value, dst: Value) -> None:
        """Write the work after a block is written, at `dst`; none here."""

    def moved(self, pointer: Value, nbytes: int, block: Value) -> Value:
        """Return a pointer moved by `nbytes` for each block."""
        return self.b.step(pointer, block, nbytes)

    def _scratch(self) -> Value:
        size = self.blocks.scratch_elements * self.width
        return self.b.value("ptr", f"alloca [{-(-size // LINE) * LINE} x i8], align {LINE}")

    def _places(self, block: Value) -> TileAddresses:
        nest, blocks = self.blocks.nest, self.blocks
        src = self.moved(Value("ptr", "%src"), blocks.src * nest.src_type.bits // 8, block)
        dst = self.moved(Value("ptr", "%dst"), blocks.dst * nest.dst_type.bits // 8, block)
        more = tuple(
            self.moved(pointer, stride * operand.data_type.bits // 8, block)
            for pointer, stride, operand in zip(self.params.operands, blocks.more, nest.operands, strict=True)
        )
        return TileAddresses(src, dst, more)

    def _section(self, section: BlockRange, block: Value, at: TileAddresses) -> None:
        """Write the schedules of a section, if the block is in it."""
        if len(self.blocks.sections) == 1:
            self._run(section, at)
            return
        with self.b.when("sge", block, i64(section.first)), self.b.when("slt", block, i64(section.end)):
            self._run(section, at)

    def _run(self, section: BlockRange, at: TileAddresses) -> None:
        for plan in section.plans:
            params = KernelParams() if plan.nest.is_zero else self.params
            writer = NestWriter(self.b, plan, self.style, params)
            writer.steps(writer.start_at(at), i64(0), i64(plan.steps()))


# --- interleaved nests -------------------------------------------------------
# Nests in step: a loop over blocks, containing the loops of all nests; `params` holds their sources.


def emit_interleaved(interleaved: InterleavedNests, style: Style) -> str:
    """Return the IR text that runs the blocks of `interleaved`."""
    b = style.builder()
    _InterleavedWriter(b, interleaved, style).emit()
    b.line("ret void")
    return module_text(b)


class _InterleavedWriter(FlushWriter):
    """Writes the kernel of interleaved nests."""

    def __init__(self, b: Builder, interleaved: InterleavedNests, style: Style) -> None:
        super().__init__(b, interleaved.dst_type.bits // 8)
        self.interleaved, self.style = interleaved, style

    def emit(self) -> None:
        """Write the loop over this part's share of the blocks."""
        b, interleaved = self.b, self.interleaved
        scratch = None
        if interleaved.flush is not None:
            size = interleaved.flush.length * self.width
            scratch = b.value("ptr", f"alloca [{-(-size // LINE) * LINE} x i8], align {LINE}")
        sources = [
            b.value("ptr", f"load ptr, {b.advance(Value('ptr', '%params'), 8 * slot)}, align 8")
            for slot in range(len(interleaved.plans))
        ]
        with b.loop(*share_of(b, interleaved.steps)) as step:
            self._block(self._places(step), sources, scratch)

    def _places(self, step: Value) -> list[tuple[Value, tuple[int, ...], int]]:
        """Return where a block begins on each axis, and how far positions move sources and destination."""
        b, interleaved = self.b, self.interleaved
        block = b.op("urem", step, i64(interleaved.blocks))
        step = b.op("udiv", step, i64(interleaved.blocks))
        place, last = b.op("mul", block, i64(interleaved.block)), interleaved.along.extent - interleaved.block
        if interleaved.along.extent % interleaved.block:
            is_inside = b.value("i1", f"icmp ult {place}, {last}")
            place = b.value("i64", f"select {is_inside}, {place}, i64 {last}")
        found = [(place, interleaved.along.srcs, interleaved.along.dst)]
        for axis in reversed(interleaved.outer):
            found.append((b.op("urem", step, i64(axis.extent)), axis.srcs, axis.dst))
            step = b.op("udiv", step, i64(axis.extent))
        return found

    def _block(
        self, places: list[tuple[Value, tuple[int, ...], int]], sources: list[Value], scratch: Value | None
    ) -> None:
        interleaved, dst = self.interleaved, Value("ptr", "%dst")
        for place, _, stride in places:
            dst = self._along(dst, stride, place)
        for number, plans in enumerate(interleaved.plans):
            src, width = sources[number], interleaved.src_types[number].bits // 8
            for place, strides, _ in places:
                src = self.b.step(src, place, strides[number] * width)
            for plan in plans:
                StageWriter(self.b, plan, self.style, KernelParams()).run(src, scratch or dst)
        if interleaved.flush is not None and scratch is not None:
            run = self.b.advance(dst, interleaved.start * self.width)
            self._flush_run(interleaved.flush, (scratch, run, run), i64(0))


# --- fused sums --------------------------------------------------------------
# A nest and the sums of its output: a loop over blocks, containing both, the sums last.

_WORDS = Value("ptr", "%params")
_SUMS = "sums_of_block"


def emit_fused_sums(fused: FusedSums, style: Style) -> str:
    """Return the IR text that runs the blocks of `fused`."""
    b = style.builder()
    _FusedSumsWriter(b, fused, style).emit()
    b.line("ret void")
    return f"{OPTIMIZE} {_SUMS}\n{module_text(b)}"


class _FusedSumsWriter(BlocksWriter):
    """Writes the kernel of fused sums. `params` points to the address of the nest's operands, and to that of
    each output.
    """

    def __init__(self, b: Builder, fused: FusedSums, style: Style) -> None:
        super().__init__(
            b, fused.blocks, style, load_params(b, [fused.blocks.nest], load_pointer(b, _WORDS, 0))
        )
        self.fused, outputs = fused, fused.tree.tensors[1:]
        self.outs = [load_pointer(b, _WORDS, 1 + number) for number in range(len(outputs))]
        if fused.is_shared:
            part, sizes = Value("i64", "%part"), [out.data_type.nbytes(prod(out.sizes)) for out in outputs]
            self.outs = [b.step(out, part, size) for out, size in zip(self.outs, sizes, strict=True)]

    def finish(self, block: Value, dst: Value) -> None:
        """Sum a block that was written, in a separate function: its loops need other optimizations than those
        of the nest.
        """
        moves = zip(self.outs, self.fused.outs, self.fused.tree.tensors[1:], strict=True)
        outs = [self.moved(out, step * tensor.data_type.bits // 8, block) for out, step, tensor in moves]
        self.b.call_own(_SUMS, [dst, *outs], self._sums)

    def _sums(self, b: Builder, tensors: list[Value]) -> Value:
        schedule = schedule_tree(self.fused.tree)
        writer = TreeWriter(b, schedule, ItemWriter(b, schedule, self.style, ()))
        writer.each(schedule.plan, writer.start(tensors))
        return tensors[0]
