"""Blocks -> IR: a loop over blocks, in each the loops of all schedules of its section."""

from __future__ import annotations

from dataclasses import replace

from ..plan.blocks import Blocks, Section
from ..plan.machine import LINE
from ..plan.staged import Pour
from .builder import Builder, Value, i64
from .kernel import NestWriter, Params, Style, load_params, module_text, share_of
from .staged import Pourer
from .tile import Places


def emit_blocks(blocks: Blocks, style: Style) -> str:
    """The IR text that runs `blocks`."""
    b = Builder()
    BlocksWriter(b, blocks, style, load_params(b, [blocks.nest])).emit()
    b.line("ret void")
    return module_text(b)


class BlocksWriter(Pourer):
    """Writes a kernel of blocks; `finish` adds to what is done for each."""

    def __init__(self, b: Builder, blocks: Blocks, style: Style, params: Params) -> None:
        super().__init__(b, blocks.nest.dst_type.bits // 8)
        self.blocks, self.style, self.params = blocks, style, params

    def emit(self) -> None:
        """The loop over this part's share of the blocks."""
        b, blocks = self.b, self.blocks
        base = blocks.nest.dst_base * self.width
        scratch = self._scratch() if blocks.poured else None
        with b.loop(*share_of(b, blocks.count)) as block:
            at = self._places(block)
            near = at if scratch is None else replace(at, dst=b.advance(scratch, -base))
            for section in blocks.sections:
                self._section(section, block, near)
            self.finish(block, near.dst)
            if scratch is not None:
                run = b.advance(at.dst, base)
                self._pour_run(Pour((), blocks.poured, ()), (scratch, run, run), i64(0))

    def finish(self, block: Value, dst: Value) -> None:
        """What follows when a block is written, at `dst`; nothing here."""

    def moved(self, pointer: Value, nbytes: int, block: Value) -> Value:
        """A pointer moved by so many bytes for each block."""
        return self.b.advance(pointer, self.b.op("mul", block, i64(nbytes))) if nbytes else pointer

    def _scratch(self) -> Value:
        size = self.blocks.poured * self.width
        return self.b.value("ptr", f"alloca [{-(-size // LINE) * LINE} x i8], align {LINE}")

    def _places(self, block: Value) -> Places:
        nest, blocks = self.blocks.nest, self.blocks
        src = self.moved(Value("ptr", "%src"), blocks.src * nest.src_type.bits // 8, block)
        dst = self.moved(Value("ptr", "%dst"), blocks.dst * nest.dst_type.bits // 8, block)
        more = tuple(
            self.moved(pointer, stride * operand.data_type.bits // 8, block)
            for pointer, stride, operand in zip(self.params.operands, blocks.more, nest.operands, strict=True)
        )
        return Places(src, dst, more)

    def _section(self, section: Section, block: Value, at: Places) -> None:
        """The schedules of a section, if the block is in it."""
        if len(self.blocks.sections) == 1:
            self._run(section, at)
            return
        with self.b.when("sge", block, i64(section.first)), self.b.when("slt", block, i64(section.end)):
            self._run(section, at)

    def _run(self, section: Section, at: Places) -> None:
        for plan in section.plans:
            params = Params() if plan.nest.is_zero else self.params
            writer = NestWriter(self.b, plan, self.style, params)
            writer.steps(writer.start_at(at), i64(0), i64(plan.steps()))
