"""A nest and the sums of what it writes -> IR: a loop over blocks, in each both, the sums last.

`params` points at three words: the address of what the nest's computation reads, the address of the sums,
and their factor, an s32. Where blocks share sums, each part adds to its own, one after the other.
"""

from __future__ import annotations

from dataclasses import replace

from ..plan.staged import Pour
from ..plan.summed import Section, Summed
from .builder import Builder, Value, i64
from .kernel import NestWriter, Params, Style, load_params, load_pointer, module_text, share_of
from .reduction import ReductionWriter
from .staged import LINE, Pourer
from .tile import Places

_WORDS = Value("ptr", "%params")
_SUM_BYTES = 4


def emit_summed(summed: Summed, style: Style) -> str:
    """The IR text that runs the blocks of `summed`."""
    b = Builder()
    _SummedWriter(b, summed, style).emit()
    b.line("ret void")
    return module_text(b)


class _SummedWriter(Pourer):
    """Writes a summed kernel."""

    def __init__(self, b: Builder, summed: Summed, style: Style) -> None:
        super().__init__(b, summed.nest.dst_type.bits // 8)
        self.summed, self.style = summed, style
        self.params = load_params(b, [summed.nest], load_pointer(b, _WORDS, 0))
        factor = b.value("i32", f"load i32, {b.advance(_WORDS, 16)}, align 4")
        can = style.can
        self.sums = ReductionWriter(b, summed.reduction, summed.sums, 1, factor, can.masks)

    def emit(self) -> None:
        """The loop over this part's share of the blocks."""
        b, summed = self.b, self.summed
        out = load_pointer(b, _WORDS, 1)
        if summed.is_shared:
            step = i64(summed.reduction.outputs * _SUM_BYTES)
            out = b.advance(out, b.op("mul", Value("i64", "%part"), step))
        base = summed.nest.dst_base * self.width
        scratch = self._scratch() if summed.poured else None
        low, high = share_of(b, summed.blocks)
        with b.loop(low, high) as block:
            at = self._places(block)
            near = at if scratch is None else replace(at, dst=b.advance(scratch, -base))
            for section in summed.sections:
                self._section(section, block, near)
            self.sums.run(near.dst, self._moved(out, summed.out * _SUM_BYTES, block))
            if scratch is not None:
                run = b.advance(at.dst, base)
                self._pour_run(Pour((), summed.poured, ()), (scratch, run, run), i64(0))

    def _scratch(self) -> Value:
        size = self.summed.poured * self.width
        return self.b.value("ptr", f"alloca [{-(-size // LINE) * LINE} x i8], align {LINE}")

    def _places(self, block: Value) -> Places:
        nest, summed = self.summed.nest, self.summed
        src = self._moved(Value("ptr", "%src"), summed.src * nest.src_type.bits // 8, block)
        dst = self._moved(Value("ptr", "%dst"), summed.dst * nest.dst_type.bits // 8, block)
        more = tuple(
            self._moved(pointer, stride * operand.data_type.bits // 8, block)
            for pointer, stride, operand in zip(self.params.operands, summed.more, nest.operands, strict=True)
        )
        return Places(src, dst, more)

    def _moved(self, pointer: Value, nbytes: int, block: Value) -> Value:
        return self.b.advance(pointer, self.b.op("mul", block, i64(nbytes))) if nbytes else pointer

    def _section(self, section: Section, block: Value, at: Places) -> None:
        """The schedules of a section, if the block is in it."""
        if len(self.summed.sections) == 1:
            self._run(section, at)
            return
        with self.b.when("sge", block, i64(section.first)), self.b.when("slt", block, i64(section.end)):
            self._run(section, at)

    def _run(self, section: Section, at: Places) -> None:
        for plan in section.plans:
            params = Params() if plan.nest.is_zero else self.params
            writer = NestWriter(self.b, plan, self.style, params)
            writer.steps(writer.start_at(at), i64(0), i64(plan.steps()))
