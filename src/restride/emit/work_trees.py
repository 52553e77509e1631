"""Code for loop trees planned for work-items: the text of one LLVM module with one kernel, `restride`.

    restride((tensor, its at)..., scalar...)

Pointers, offsets and scalars are as in `emit/work_items.py`. An item is one lane wide.
"""

from __future__ import annotations

from dataclasses import replace

from ..schedule.work_items import ItemPlan
from ..schedule.work_trees import DevicePlan, TreePlan
from .builder import Builder, Value, i64
from .tree import TreeWriter
from .tree_items import ItemWriter
from .tree_values import element_type
from .work_items import ITEM_STYLE, Dialect, emit_items, module_of


def emit_plan(plan: DevicePlan, dialect: Dialect) -> str:
    """Return the IR text that runs a plan for a device, of any kind."""
    return emit_items(plan, dialect) if isinstance(plan, ItemPlan) else emit_trees(plan, dialect)


def emit_trees(plan: TreePlan, dialect: Dialect) -> str:
    """Return the IR text that runs `plan`."""
    b, schedule = _ItemBuilder(dialect.table_pointer), plan.schedule
    tensors, real = range(len(plan.tree.tensors)), element_type(plan.tree.number)
    names = [f"%s{i}" for i in range(plan.tree.scalars)]
    scalars = [b.broadcast(Value(real, name), 1) for name in names]
    writer = TreeWriter(b, schedule, ItemWriter(b, schedule, ITEM_STYLE, scalars))
    starts = [b.advance(Value(dialect.pointer, f"%t{i}"), Value("i64", f"%t{i}.at")) for i in tensors]
    # Separate code for edges takes longer to compile, and items in step would wait for each other.
    start = replace(writer.start(starts), sure=None)
    size, group, local = plan.device.group, dialect.group_id(b), dialect.local_id(b)
    if plan.row_groups:
        *outer, (digit, _, count) = plan.grid
        first = b.op("mul", b.op("urem", group, i64(plan.row_groups)), i64(size))
        position = b.op("add", first, local)
        with b.when("ult", position, i64(count)):
            own = (digit, position, b.op("add", position, i64(1)))
            writer.step(outer, b.op("udiv", group, i64(plan.row_groups)), replace(start, ranges=(own,)))
    else:
        item = b.op("add", b.op("mul", group, i64(size)), local)
        with b.when("ult", item, i64(plan.items)):
            writer.step(plan.grid, item, start)
    places = (f"{dialect.pointer} %t{i}, i64 %t{i}.at" for i in tensors)
    return module_of(b, dialect, ", ".join([*places, *(f"{real} {name}" for name in names)]), size)


class _ItemBuilder(Builder):
    """A builder whose memory is arrays: SPIR-V cannot allocate a number of values."""

    def slot(self, type_: str, count: int = 1) -> Value:
        """Allocate memory of an item for `count` values of a type."""
        return super().slot(f"[{count} x {type_}]")
