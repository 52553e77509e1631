"""A nest and the sums of what it writes -> IR: a loop over blocks, in each both, the sums last.

`params` points at three words: the address of what the nest's computation reads, the address of the sums,
and their factor, an s32. Where blocks share sums, each part adds to its own, one after the other.
"""

from __future__ import annotations

from ..plan.summed import Summed
from .blocks import BlocksWriter
from .builder import Builder, Value, i64
from .kernel import Style, load_params, load_pointer, module_text
from .reduction import ReductionWriter

_WORDS = Value("ptr", "%params")
_SUM_BYTES = 4


def emit_summed(summed: Summed, style: Style) -> str:
    """The IR text that runs the blocks of `summed`."""
    b = Builder()
    _SummedWriter(b, summed, style).emit()
    b.line("ret void")
    return module_text(b)


class _SummedWriter(BlocksWriter):
    """Writes a summed kernel."""

    def __init__(self, b: Builder, summed: Summed, style: Style) -> None:
        params = load_params(b, [summed.blocks.nest], load_pointer(b, _WORDS, 0))
        super().__init__(b, summed.blocks, style, params)
        factor = b.value("i32", f"load i32, {b.advance(_WORDS, 16)}, align 4")
        self.summed = summed
        self.out = self._own_sums()
        self.sums = ReductionWriter(b, summed.reduction, summed.sums, 1, factor, style.can.masks)

    def _own_sums(self) -> Value:
        """Where this part's sums are."""
        b, out = self.b, load_pointer(self.b, _WORDS, 1)
        if not self.summed.is_shared:
            return out
        step = i64(self.summed.reduction.outputs * _SUM_BYTES)
        return b.advance(out, b.op("mul", Value("i64", "%part"), step))

    def finish(self, block: Value, dst: Value) -> None:
        """Sum a block that has been written."""
        self.sums.run(dst, self.moved(self.out, self.summed.out * _SUM_BYTES, block))
