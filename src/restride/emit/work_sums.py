"""A plan of sums for work-items -> the text of one LLVM module with one kernel, `restride`.

    restride(src, src_at, out, out_at, factor)

Pointers and offsets as in `emit/work_items.py`. `out` are the outputs, 32 bits each and aligned, which hold 0
before; `factor` multiplies what an item has found.
"""

from __future__ import annotations

from ..plan.reduction import ReductionAxis
from ..plan.work_items import ItemPlan
from ..plan.work_sums import SumItems, SumPlan
from .accumulate import Accumulation
from .builder import Builder, Value, i64, vector
from .reduction import carry
from .work_items import Dialect, decoded, emit_items, module_of

_NOTHING = Value("i32", "0")


def emit_any(plan: ItemPlan | SumPlan, dialect: Dialect) -> str:
    """The IR text that runs a plan for work-items of either kind."""
    return emit_sums(plan, dialect) if isinstance(plan, SumPlan) else emit_items(plan, dialect)


def emit_sums(plan: SumPlan, dialect: Dialect) -> str:
    """The IR text that runs `plan`."""
    b = Builder(dialect.table_pointer)
    _SumWriter(b, plan, dialect).emit()
    pointer = dialect.pointer
    signature = f"{pointer} %src, i64 %src.at, {pointer} %out, i64 %out.at, i32 %factor"
    return module_of(b, dialect, signature, plan.device.group)


class _SumWriter:
    """Writes the kernel: which box a group belongs to, and what each of its items adds to which output."""

    def __init__(self, b: Builder, plan: SumPlan, dialect: Dialect) -> None:
        self.b, self.plan, self.dialect = b, plan, dialect
        self._how = Accumulation(plan.reduction.op, plan.reduction.data_type)
        self._bytes = plan.reduction.data_type.bits // 8

    def emit(self) -> None:
        """All of the kernel's body."""
        b, size, first = self.b, self.plan.device.group, 0
        group, local = self.dialect.group_id(b), self.dialect.local_id(b)
        for box in self.plan.boxes:
            count = box.groups(size)
            with b.when("sge", group, i64(first)), b.when("slt", group, i64(first + count)):
                own = b.op("sub", group, i64(first))
                self._box(box, b.op("add", b.op("mul", own, i64(size)), local))
            first += count

    def _box(self, items: SumItems, item: Value) -> None:
        b, pointer = self.b, self.dialect.pointer
        with b.when("ult", item, i64(items.items)):
            src = b.advance(Value(pointer, "%src"), Value("i64", "%src.at"))
            src = b.advance(src, items.box.base * self._bytes)
            out = b.advance(Value(pointer, "%out"), Value("i64", "%out.at"))
            out = b.advance(out, items.box.out * 4)
            digits = decoded(b, item, [axis.extent for axis in items.grid])
            for axis, digit in zip(items.grid, digits, strict=True):
                src = self._moved(src, digit, axis.src * self._bytes)
                out = self._moved(out, digit, axis.out * 4)
            found = b.op("mul", self._sum(items.loops, src, _NOTHING), Value("i32", "%factor"))
            b.line(f"{self.dialect.add_to.format(out=out, value=found)}")

    def _moved(self, pointer: Value, digit: Value, nbytes: int) -> Value:
        return self.b.advance(pointer, self.b.op("mul", digit, i64(nbytes))) if nbytes else pointer

    def _sum(self, loops: tuple[ReductionAxis, ...], src: Value, so_far: Value) -> Value:
        """The sum so far and what the loops read from `src` on."""
        if not loops:
            return self.b.op("add", so_far, self._element(src))
        axis, *inner = loops

        def turn(position: Value, now: tuple[Value, ...]) -> tuple[Value, ...]:
            here = self._moved(src, position, axis.src * self._bytes)
            return (self._sum(tuple(inner), here, now[0]),)

        return carry(self.b, i64(0), i64(axis.extent), (so_far,), turn)[0]

    def _element(self, src: Value) -> Value:
        kind = vector(f"i{self._bytes * 8}", 1)
        (value,) = self._how.prepare(self.b, self.b.value(kind, f"load {kind}, {src}, align 1"))
        return self.b.value("i32", f"extractelement {value}, i64 0")
