"""Code for plans for work-items: the text of one LLVM module with one kernel, `restride`.

    restride(src, src_at, dst, dst_at, (operand, its at)..., scalar...)

Pointers are to the memory of the device; element offset 0 is `at` bytes after each. Scalars are in the real
type of the computation. All boxes of a nest are one launch: a group finds the box that it belongs to, so that
one event covers the whole.

    restride(src, src_at, out, out_at, factor)

Pointers and offsets as above. `out` are the outputs, 32 bits each and aligned, which must hold 0 before;
`factor` multiplies the sum of an item.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

from ..schedule.moves.schedule import Schedule
from ..schedule.work_items import ItemPlan, Items
from .builder import Builder, Value, i64
from .convert import Abilities, bits_type, real_type
from .entry import ENTRY
from .guarded import GuardedWriter
from .kernel import Cursor, KernelParams, NestWriter, Style
from .tile import emit_tile
from .tile_registers import TileAddresses
from .tile_shape import TileAxis

# --- work items --------------------------------------------------------------
# Code for plans for work-items: the text of one LLVM module with one kernel, `restride`.

# The work of items in step is one lane wide, two for the halves of a byte: the device's compiler makes
# vectors of items. SPIR-V has vectors of at most 16 lanes, which limits registers to this many bytes.
ITEM_STYLE = Style(vector_bytes=16, permute_cost=1, byte_permute_cost=1, can=Abilities(round_even=True))
_LOCAL = "ptr addrspace(3)"


@dataclass(frozen=True, slots=True)
class Dialect:
    """The differences between targets of work-items: the text around the code, not the code.

    `group_id`, `local_id` and `barrier` write into a builder; pointers are to the device's memory, and to the
    address space of constants.
    """

    kernel: str
    pointer: str
    table_pointer: str
    group_id: Callable[[Builder], Value]
    local_id: Callable[[Builder], Value]
    barrier: Callable[[Builder], None]
    # Atomically adds a value to an integer in memory: `{out}` and `{value}` with their types.
    # The attribute of a function that declares the number of items in a group.
    group_size: str = "!reqd_work_group_size !1"


def emit_items(plan: ItemPlan, dialect: Dialect) -> str:
    """Return the IR text that runs `plan`."""
    b = Builder(dialect.table_pointer)
    writer = _KernelWriter(b, plan, dialect)
    writer.emit()
    room = f"@restride.tile = internal addrspace(3) global [{plan.local_bytes} x i8] undef, align 16"
    return module_of(b, dialect, writer.signature(), plan.device.group, room if plan.local_bytes else "")


def module_of(b: Builder, dialect: Dialect, signature: str, size: int, room: str = "") -> str:
    """Return the text of a module: the kernel with the written body, what it calls, and its local memory.

    `size` is the number of items in a group; a device's compiler that knows of one item seeks no neighbors.
    """
    b.line("ret void")
    # A function on one lane is short, and LLVM has no SPIR-V for one-lane arguments: all are inlined.
    functions = [text.replace(" noinline {", " alwaysinline {") for text in b.defined.values()]
    outside = [room] * bool(room), b.constants, sorted(b.declared.values()), functions
    head = f"define {dialect.kernel} void @{ENTRY}({signature}) nounwind {dialect.group_size} {{\nentry:\n"
    notes = ["!0 = !{i32 1}", f"!1 = !{{i32 {size}, i32 1, i32 1}}"]
    lines = [line for part in outside for line in part]
    return "\n".join([*lines, head + b.body() + "\n}", *notes]) + "\n"


class _KernelWriter:
    """Writes the kernel: where operands begin, which box a group belongs to, and its work there."""

    def __init__(self, b: Builder, plan: ItemPlan, dialect: Dialect) -> None:
        self.b, self.plan, self.dialect = b, plan, dialect
        nest = plan.nest
        self._real = real_type(nest.src_type, nest.dst_type, nest.compute)
        self._operands = len(nest.operands)
        self._scalars = nest.compute.scalars

    def signature(self) -> str:
        """Return the kernel's parameters."""
        pointer = self.dialect.pointer
        names = ["src", "dst", *(f"x{i}" for i in range(self._operands))]
        pairs = [f"{pointer} %{name}, i64 %{name}.at" for name in names]
        return ", ".join([*pairs, *(f"{self._real} %s{i}" for i in range(self._scalars))])

    def emit(self) -> None:
        """Write all of the kernel's body."""
        src, dst = self._operand("src"), self._operand("dst")
        operands = tuple(self._operand(f"x{i}") for i in range(self._operands))
        params = KernelParams(operands, tuple(Value(self._real, f"%s{i}") for i in range(self._scalars)))
        group, local = self.dialect.group_id(self.b), self.dialect.local_id(self.b)
        places = TileAddresses(src, dst, operands)
        if self.plan.guarded is not None:
            writer = _GuardedItem(self.b, _guarded_plan(self.plan), ITEM_STYLE, params)
            writer.emit_item(self._item(group, local), places, self.plan.guarded_axes)
            return
        first = 0
        for box in self.plan.boxes:
            count = box.groups(self.plan.device.group)
            with (
                self.b.when("sge", group, i64(first)),
                self.b.when("slt", group, i64(first + count)),
            ):
                own = self.b.op("sub", group, i64(first))
                self._box(box, own, local, params, places)
            first += count

    def _operand(self, name: str) -> Value:
        return self.b.advance(Value(self.dialect.pointer, f"%{name}"), Value("i64", f"%{name}.at"))

    def _item(self, group: Value, local: Value) -> Value:
        return self.b.op("add", self.b.op("mul", group, i64(self.plan.device.group)), local)

    def _box(
        self, box: Items, group: Value, local: Value, params: KernelParams, places: TileAddresses
    ) -> None:
        if box.plan.square is not None:
            _SquareItem(self.b, box, ITEM_STYLE, params).emit_group(
                group, local, places, (self.plan.device.group, self.dialect.barrier)
            )
            return
        _Item(self.b, box.plan, ITEM_STYLE, params).emit_item(self._item(group, local), places)


def _guarded_plan(plan: ItemPlan) -> Schedule:
    nest = plan.nest
    return Schedule(nest, (1,) * len(nest.axes), (), (), nest.src_type, "guarded", plan.why, late=True)


def _cursor_at_base(writer: NestWriter, places: TileAddresses) -> Cursor:
    """Return the cursor at the beginning of the nest."""
    b, nest = writer.b, writer.nest
    more = tuple(
        b.advance(pointer, operand.base * operand.data_type.bits // 8)
        for pointer, operand in zip(places.more, nest.operands, strict=False)
    )
    src = b.advance(places.src, nest.src_base * nest.src_type.bits // 8)
    dst = b.advance(places.dst, nest.dst_base * nest.dst_type.bits // 8)
    return Cursor(TileAddresses(src, dst, more), tuple((a.extent, a.valid) for a in nest.axes))


def decode(b: Builder, number: Value, extents: list[int]) -> list[Value]:
    """Return the digits of a number, the last one fastest."""
    digits: list[Value] = []
    for place in range(len(extents) - 1, -1, -1):
        if place == 0:
            digits.append(number)
            break
        digits.append(b.op("urem", number, i64(extents[place])))
        number = b.op("udiv", number, i64(extents[place]))
    return digits[::-1]


class _Item(NestWriter):
    """Writes the work of one item: one tile of a schedule whose grid is every axis."""

    def emit_item(self, item: Value, places: TileAddresses) -> None:
        """Write the tile number `item`, if it exists."""
        plan = self.plan
        with self.b.when("ult", item, i64(plan.steps())):
            digits = decode(self.b, item, [plan.grid_extent(grid) for grid in plan.grid])
            steps = {grid.axis: digit for grid, digit in zip(plan.grid, digits, strict=True)}
            order = [grid.axis for grid in plan.grid if grid.axis not in plan.inner]
            self._loops([*order, *plan.inner], steps, _cursor_at_base(self, places))


class _GuardedItem(GuardedWriter):
    """Writes the work of one item that checks bounds itself."""

    def emit_item(self, item: Value, places: TileAddresses, count: int) -> None:
        """Write position number `item` of the first `count` axes, if it exists, and all of the others."""
        extents = [axis.extent for axis in self.nest.axes]
        with self.b.when("ult", item, i64(prod(extents[:count]))):
            at: tuple[Value, ...] = (i64(0),) * len(self.nest.bounds)
            cursor = _cursor_at_base(self, places)
            for index, digit in enumerate(decode(self.b, item, extents[:count])):
                cursor, at = self.step(index, digit, cursor, at)
            if count < len(extents):
                self.guarded_loop(count, i64(0), i64(extents[count]), cursor, at)
            else:
                self.element(cursor, at)


class _SquareItem(NestWriter):
    """Writes the work of a group: a square of elements into local memory and out again."""

    def __init__(self, b: Builder, box: Items, style: Style, params: KernelParams) -> None:
        super().__init__(b, box.plan, style, params)
        assert box.plan.square is not None
        self._box, self._square = box, box.plan.square

    def emit_group(
        self, group: Value, local: Value, places: TileAddresses, how: tuple[int, Callable[[Builder], None]]
    ) -> None:
        """Write square number `group`; `how` is the number of items, and their barrier."""
        size, barrier = how
        digits = decode(self.b, group, self._box.group_extents())
        origin = _cursor_at_base(self, places).places
        for index, digit in enumerate(digits):
            side = self._side(index)
            step = self.b.op("mul", digit, i64(side)) if side > 1 else digit
            origin = self._step(index, step, origin)
        square = self._square
        left = {i: self._positions_left(i, digits[i]) for i in (square.src_axis, square.dst_axis)}
        rounds = square.src_side * square.dst_side // size
        for number in range(rounds):
            element = self.b.op("add", local, i64(number * size))
            self._load_element(element, origin, left)
        barrier(self.b)
        for number in range(rounds):
            element = self.b.op("add", local, i64(number * size))
            self._store_element(element, origin, left)

    def _side(self, index: int) -> int:
        square = self._square
        return {square.src_axis: square.src_side, square.dst_axis: square.dst_side}.get(index, 1)

    def _positions_left(self, index: int, digit: Value) -> Value:
        """Return the number of positions of an axis from this square's first one on."""
        taken = self.b.op("mul", digit, i64(self._side(index)))
        return self.b.op("sub", i64(self.nest.axes[index].extent), taken)

    def _step(self, index: int, position: Value, at: TileAddresses) -> TileAddresses:
        spans = tuple((a.extent, a.valid) for a in self.nest.axes)
        return self.move_cursor(index, position, Cursor(at, spans), (1, 1)).places

    def _load_element(self, element: Value, origin: TileAddresses, left: dict[int, Value]) -> None:
        """Read along the source."""
        b, square, kind = self.b, self._square, bits_type(self.nest.src_type)
        along = b.op("and", element, i64(square.src_side - 1))
        across = b.op("udiv", element, i64(square.src_side))
        with b.when("slt", along, left[square.src_axis]), b.when("slt", across, left[square.dst_axis]):
            at = self._at(along, across, replace(origin, more=()))
            value = b.value(kind, f"load {kind}, {at.src}, align 1")
            b.line(f"store {value}, {self._local(along, across)}, align {self._bytes}")

    def _store_element(self, element: Value, origin: TileAddresses, left: dict[int, Value]) -> None:
        """Convert, and write along the destination."""
        b, square = self.b, self._square
        across = b.op("and", element, i64(square.dst_side - 1))
        along = b.op("udiv", element, i64(square.dst_side))
        with b.when("slt", along, left[square.src_axis]), b.when("slt", across, left[square.dst_axis]):
            at = self._at(along, across, origin)
            one = (TileAxis(1, 1, 1, 0, 0, (0,) * len(self.nest.operands)),)
            emit_tile(b, self.spec, one, replace(at, src=self._local(along, across)))

    def _at(self, along: Value, across: Value, origin: TileAddresses) -> TileAddresses:
        """Return the addresses of an element of the square."""
        is_bare = not origin.more and bool(self.nest.operands)
        at = replace(origin, more=(origin.src,) * len(self.nest.operands)) if is_bare else origin
        at = self._step(self._square.src_axis, along, at)
        return self._step(self._square.dst_axis, across, at)

    @property
    def _bytes(self) -> int:
        return self.nest.src_type.bits // 8

    def _local(self, along: Value, across: Value) -> Value:
        b = self.b
        place = b.op("add", b.op("mul", across, i64(self._square.row)), along)
        return b.step(Value(_LOCAL, "@restride.tile"), place, self._bytes)
