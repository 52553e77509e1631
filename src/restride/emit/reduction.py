"""Scheduled reductions -> the text of one LLVM module with the entry of all kernels.

`src` is the tensor, `dst` the planes of outputs (`schedule/reduction.py`), into which
they are folded. `params` points at one s32, the factor of sums. The entry runs the share `part` of `parts` of
every box's grid.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from ..ir.reduction import Op, ReductionNest
from ..schedule.reduction import Lanes, Loop, ReductionPlan
from .access import load_masked, load_prefix
from .builder import Builder, Value, i64, vector
from .fold import Accumulation, LaneOutputs, fold_into, only
from .kernel import Style, module_text

Accumulators = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class _ReductionCursor:
    """Where the loops stand: both addresses, and what there is of some axes.

    `ranges[axis]` are the tiles of a grid step: first, and one past the last. `count` are the positions that
    the tile covers of its last axis.
    """

    src: Value
    out: Value
    ranges: dict[int, tuple[Value, Value]]
    count: int


@dataclass(frozen=True, slots=True)
class _ReductionRange:
    """Tiles [first, end) of an axis, `count` positions each."""

    first: int
    end: int
    count: int


def emit_reduction(reduction: ReductionNest, plans: Sequence[ReductionPlan], style: Style) -> str:
    """The IR text that runs all of `plans` in turn."""
    b = style.builder()
    factor = b.value("i32", "load i32, ptr %params, align 4") if reduction.op is Op.total else None
    planes = sum(plan.planes for plan in plans)
    for plan in plans:
        ReductionWriter(b, reduction, plan, planes, factor, style.can.masks).emit()
    b.line("ret void")
    return module_text(b)


class ReductionWriter:
    """Writes the loops of one plan."""

    def __init__(
        self,
        b: Builder,
        reduction: ReductionNest,
        plan: ReductionPlan,
        planes: int,
        factor: Value | None,
        masks: bool,
    ) -> None:
        self.b, self.plan, self.factor, self.masks = b, plan, factor, masks
        self.axes = plan.box.axes
        self.how = Accumulation(reduction.op, reduction.data_type)
        self.width = reduction.data_type.bits // 8
        self.plane_bytes = reduction.outputs * self.how.bits // 8
        self.result_bytes = planes * self.plane_bytes

    def emit(self) -> None:
        """The grid loop over this part's share, and everything inside it."""
        b, plan = self.b, self.plan
        cursor = self._start(Value("ptr", "%src"), Value("ptr", "%dst"))
        if not plan.grid:
            with b.when("eq", Value("i64", "%part"), i64(0)):
                self._inner_loops(0, cursor)
            return
        part, parts, steps = Value("i64", "%part"), Value("i64", "%parts"), i64(plan.steps)
        low = b.op("udiv", b.op("mul", part, steps), parts)
        high = b.op("udiv", b.op("mul", b.op("add", part, i64(1)), steps), parts)
        with b.loop(low, high) as step:
            self._inner_loops(0, self._decode(step, cursor))

    def run(self, src: Value, out: Value) -> None:
        """All of a plan without a grid, from a tensor into planes whose offsets 0 are there."""
        self._inner_loops(0, self._start(src, out))

    def _start(self, src: Value, out: Value) -> _ReductionCursor:
        plan = self.plan
        start = plan.box.out * self.how.bits // 8 + plan.first_plane * self.plane_bytes
        count = plan.lanes.chunks[-1] if plan.lanes.chunks else 1
        return _ReductionCursor(
            self.b.advance(src, plan.box.base * self.width), self.b.advance(out, start), {}, count
        )

    def _decode(self, step: Value, cursor: _ReductionCursor) -> _ReductionCursor:
        """The cursor at a grid step: which tiles of each cut axis it covers."""
        b = self.b
        for loop in reversed(self.plan.grid):
            turns = i64(self.plan.turns(loop))
            turn, step = b.op("urem", step, turns), b.op("udiv", step, turns)
            if not self.axes[loop.axis].is_kept:
                cursor = replace(cursor, out=self.b.step(cursor.out, turn, self.plane_bytes))
            low = b.op("mul", turn, i64(loop.tiles))
            high = self._clamp("slt", b.op("add", low, i64(loop.tiles)), self.plan.turns(Loop(loop.axis)))
            cursor = replace(cursor, ranges={**cursor.ranges, loop.axis: (low, high)})
        return cursor

    def _clamp(self, name: str, value: Value, limit: int) -> Value:
        condition = self.b.value("i1", f"icmp {name} {value}, {limit}")
        return self.b.value("i64", f"select {condition}, {value}, i64 {limit}")

    # --- loops

    def _inner_loops(self, number: int, cursor: _ReductionCursor) -> None:
        if number == len(self.plan.loop_axes):
            self._accumulate(cursor)
            return
        axis = self.plan.loop_axes[number]
        for section in self._sections(axis):
            with self.b.loop(*self._range(axis, section, cursor)) as tile:
                self._inner_loops(number + 1, self._at(axis, tile, section.count, cursor))

    def _register_loops(self, number: int, cursor: _ReductionCursor, values: Accumulators) -> Accumulators:
        if number == len(self.plan.register_axes):
            return self._tile(cursor, values)
        axis = self.plan.register_axes[number]
        for section in self._sections(axis):

            def turn(tile: Value, now: Accumulators, section: _ReductionRange = section) -> Accumulators:
                return self._register_loops(number + 1, self._at(axis, tile, section.count, cursor), now)

            values = carry(self.b, *self._range(axis, section, cursor), values, turn)
        return values

    def _sections(self, axis: int) -> list[_ReductionRange]:
        """The whole tiles of an axis, and the part of one at its end."""
        chunk = self.plan.chunk(axis)
        whole, rest = divmod(self.axes[axis].extent, chunk)
        sections = [_ReductionRange(0, whole, chunk)] if whole else []
        return [*sections, _ReductionRange(whole, whole + 1, rest)] if rest else sections

    def _range(self, axis: int, section: _ReductionRange, cursor: _ReductionCursor) -> tuple[Value, Value]:
        """The tiles of a section that are in the grid step: first, and one past the last."""
        if axis not in cursor.ranges:
            return i64(section.first), i64(section.end)
        low, high = cursor.ranges[axis]
        if section.end < self.plan.turns(Loop(axis)):
            high = self._clamp("slt", high, section.end)
        return self._clamp("sgt", low, section.first) if section.first else low, high

    def _at(self, axis: int, tile: Value, count: int, cursor: _ReductionCursor) -> _ReductionCursor:
        """The cursor at one tile of an axis, which covers `count` positions."""
        along, chunk = self.axes[axis], self.plan.chunk(axis)
        src = self.b.step(cursor.src, tile, chunk * along.src * self.width)
        out = self.b.step(cursor.out, tile, chunk * along.out * self.how.bits // 8)
        is_cut = axis in self.plan.lanes.axes
        return replace(cursor, src=src, out=out, count=count if is_cut else cursor.count)

    # --- one tile

    def _accumulate(self, cursor: _ReductionCursor) -> None:
        """Accumulate over the held loops, and fold what they found into the outputs."""
        results = range(self.how.op.results)
        places = _places(self.plan, cursor.count)
        empty = tuple(self.how.empty(len(lanes)) for lanes in places for _ in results)
        found = self._register_loops(0, cursor, empty)
        for result in results:
            out = self.b.advance(cursor.out, result * self.result_bytes)
            registers = list(zip(found[result :: len(results)], places, strict=True))
            fold_into(self.b, self.how, registers, out, self.factor)

    def _tile(self, cursor: _ReductionCursor, values: Accumulators) -> Accumulators:
        """One tile folded into the accumulators; those that it does not reach stay."""
        made = list(values)
        size, lanes = _size(self.plan.lanes, cursor.count), self.plan.lanes.width
        for register, first in enumerate(range(0, size, lanes)):
            count = min(lanes, size - first)
            step = self.plan.lanes.pitch * self.width
            bits = self._load(self.b.advance(cursor.src, first * step), lanes, count)
            found = self.how.prepare(self.b, bits)
            for result, value in enumerate(found):
                place = register * len(found) + result
                # What is not there reads as zero bits, which for sums and magnitudes is nothing.
                if count < lanes and self.how.op is Op.min_max:
                    value = only(self.b, value, count, self.how.empty(lanes))
                is_first = made[place] == self.how.empty(lanes)
                made[place] = value if is_first else self.how.fold(self.b, made[place], value)
        return tuple(made)

    # --- loads

    def _load(self, address: Value, lanes: int, count: int) -> Value:
        """The bits of `count` elements, and zero in the other lanes."""
        element = f"i{self.width * 8}"
        kind = vector(element, lanes)
        if self.plan.lanes.pitch != 1 and count > 1:
            return self._gather(address, lanes, count)
        if count == lanes:
            return self.b.value(kind, f"load {kind}, {address}, align 1")
        if self.masks:
            return load_masked(self.b, element, lanes, count, address)
        b = self.b
        return load_prefix(b, element, lanes, count, lambda lane: b.advance(address, lane * self.width))

    def _gather(self, address: Value, lanes: int, count: int) -> Value:
        """Elements apart from each other, one by one."""
        b, element = self.b, f"i{self.width * 8}"
        value = Value(vector(element, lanes), "zeroinitializer")
        for lane in range(count):
            at = b.advance(address, lane * self.plan.lanes.pitch * self.width)
            scalar = b.value(element, f"load {element}, {at}, align 1")
            value = b.value(value.type, f"insertelement {value}, {scalar}, i64 {lane}")
        return value


def _size(lanes: Lanes, count: int) -> int:
    """Elements of a tile that covers `count` positions of its last axis."""
    return prod(lanes.chunks[:-1]) * count


def _places(plan: ReductionPlan, count: int) -> list[LaneOutputs]:
    """The output of each lane of each register of a tile."""
    outs = [0]
    for axis, chunk in zip(plan.lanes.axes, plan.lanes.chunks, strict=True):
        outs = [out + i * plan.box.axes[axis].out for i in range(chunk) for out in outs]
    outs, width = outs[: _size(plan.lanes, count)], plan.lanes.width
    padded: list[int | None] = [*outs, *[None] * (-len(outs) % width)]
    return [tuple(padded[i : i + width]) for i in range(0, len(padded), width)]


def carry(
    b: Builder,
    low: Value,
    high: Value,
    values: Accumulators,
    turn: Callable[[Value, Accumulators], Accumulators],
) -> Accumulators:
    """`for i in range(low, high): values = turn(i, values)`, with values that stay in registers."""
    head, latch, after = b.fresh(), b.fresh(), b.fresh()
    counter, following = Value("i64", f"%{b.fresh()}"), Value("i64", f"%{b.fresh()}")
    now = tuple(Value(value.type, f"%{b.fresh()}") for value in values)
    then = tuple(Value(value.type, f"%{b.fresh()}") for value in values)
    before = b.block
    _branch(b, low, high, head, after)
    b.start(head)
    b.line(f"{counter.ref} = phi i64 [ {low.ref}, %{before} ], [ {following.ref}, %{latch} ]")
    for value, phi, next_ in zip(values, now, then, strict=True):
        b.line(f"{phi.ref} = phi {phi.type} [ {value.ref}, %{before} ], [ {next_.ref}, %{latch} ]")
    made = turn(counter, now)
    b.line(f"br label %{latch}")
    b.start(latch)
    for value, next_ in zip(made, then, strict=True):
        # A name for the value that is known before it is made.
        b.line(f"{next_.ref} = bitcast {value} to {next_.type}")
    b.line(f"{following.ref} = add nuw nsw i64 {counter.ref}, 1")
    _branch(b, following, high, head, after)
    b.start(after)
    last = tuple(Value(value.type, f"%{b.fresh()}") for value in values)
    for value, next_, phi in zip(values, then, last, strict=True):
        b.line(f"{phi.ref} = phi {phi.type} [ {value.ref}, %{before} ], [ {next_.ref}, %{latch} ]")
    return last


def _branch(b: Builder, counter: Value, stop: Value, again: str, after: str) -> None:
    goes_on = b.value("i1", f"icmp slt {counter}, {stop.ref}")
    b.line(f"br {goes_on}, label %{again}, label %{after}")
