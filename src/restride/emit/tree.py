"""Code for scheduled loop trees: the text of one LLVM module with the entry point of all kernels.

`params` points to slots of 8 bytes: the addresses of the tree's tensors, then its scalars as f64. The
entry runs the share `part` of `parts` of the grid, which are tiles of the outermost digits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from math import prod

from ..ir.accesses import Access, items_of
from ..ir.expression import Expr, Load
from ..ir.tree import Each, Fold, Guard, Let, Store
from ..schedule.machine import LIMITS
from ..schedule.trees.interior import interior
from ..schedule.trees.plan import (
    AxisLimits,
    EachPlan,
    TreeDigit,
    TreeSchedule,
    fused_digits,
    loads_of,
    sections_of,
)
from .builder import Builder, Value, i64
from .entry import OPTIMIZE
from .kernel import Style, load_pointer, module_text, share_of
from .tree_items import FoldSlots, ItemWriter
from .tree_values import scalar_index

Names = dict[str, Value]


@dataclass(frozen=True, slots=True)
class VectorRun:
    """Lanes along a digit: their number, how many hold values, and tensors with other numbers written."""

    digit: TreeDigit
    lanes: int
    valid: int
    counts: tuple[tuple[str, int], ...] = ()

    def count(self, tensor: str) -> int:
        """Return the number of lanes of a tensor that are written."""
        return dict(self.counts).get(tensor, self.valid)


@dataclass(frozen=True, slots=True)
class TreeCursor:
    """The state of the loops.

    `pointers`: the address of each access; `indices`: each axis, without the lanes; `limits`: axes with
    remaining digits; `ranges`: the tiles of a grid step. `only`: tensors to write zeros to, None for values.
    `known`: expressions that have a value here; `mask`: the lanes that guards keep. `sure`: guards that hold
    at all positions of the inner loops; None at an edge, where none is sought. `ahead`: what is prefetched,
    in bytes from where it is read. `places`: the offsets of indices that are elements, for a dim of a tensor,
    if they are constant in all inner loops.
    """

    pointers: dict[Access, Value]
    indices: Names
    limits: dict[str, AxisLimits]
    names: Names
    known: dict[Expr, Value]
    run: VectorRun | None = None
    ranges: tuple[tuple[TreeDigit, Value, Value], ...] = ()
    only: frozenset[str] | None = None
    mask: Value | None = None
    sure: frozenset[Guard] | None = frozenset()
    ahead: Mapping[Access, int] = field(default_factory=dict)
    places: Mapping[tuple[str, int, Load], Value] = field(default_factory=dict)

    @property
    def lanes(self) -> int:
        """The lanes of vectors here."""
        return self.run.lanes if self.run else 1


Inside = Callable[[TreeCursor], None]


def emit_tree(schedule: TreeSchedule, style: Style) -> str:
    """Return the IR text of a schedule. One that streams needs tensors that begin at cache lines."""
    b = style.builder()
    params, slots = Value("ptr", "%params"), len(schedule.tree.tensors)
    scalars = [_scalar(b, schedule, b.advance(params, 8 * (slots + i))) for i in range(schedule.tree.scalars)]
    items = ItemWriter(b, schedule, style, scalars)
    writer = TreeWriter(b, schedule, items)
    start = writer.start([load_pointer(b, params, slot) for slot in range(slots)])
    grid = schedule.grid
    count = prod(turns for _, _, turns in grid)
    low, high = share_of(b, count)
    with b.loop(low, high) as turn:
        step = b.op("sub", i64(count - 1), turn) if schedule.tree.backwards and schedule.asks_ahead else turn
        writer.step(grid, step, start)
    b.line("ret void")
    return OPTIMIZE + "\n" + module_text(b)


def _scalar(b: Builder, schedule: TreeSchedule, at: Value) -> Value:
    wide = b.value("<1 x double>", f"load <1 x double>, {at}, align 8")
    return wide if schedule.tree.wide else b.cast("fptrunc", wide, "float")


class TreeWriter:
    """Writes the loops of one schedule."""

    def __init__(self, b: Builder, schedule: TreeSchedule, items: ItemWriter) -> None:
        self.b, self.schedule, self.items = b, schedule, items
        loops_inside = range(len(schedule.plan.inner)) if schedule.asks_ahead else ()
        self.ahead = [schedule.read_ahead(number) for number in loops_inside]
        loops = [item for item in items_of(schedule.tree.items) if isinstance(item, Each)]
        self.extents = {axis.name: axis.extent for loop in loops for axis in loop.axes}
        self.reverses = schedule.tree.backwards and any(self.ahead)
        if self.reverses:
            self.ahead = [{access: -step for access, step in each.items()} for each in self.ahead]

    def start(self, addresses: Sequence[Value]) -> TreeCursor:
        """Return the state before the loops; `addresses` are those of the tree's tensors."""
        names = (tensor.name for tensor in self.schedule.tree.tensors)
        bases = dict(zip(names, addresses, strict=True))
        pointers = {
            access: self.items.begin(access, bases[access[0]])
            for access in self.schedule.accesses
            if access[0] in bases
        }
        return TreeCursor(pointers, {}, {}, {}, {})

    def step(self, grid: Sequence[tuple[TreeDigit, int, int]], step: Value, start: TreeCursor) -> None:
        """Write one step of a grid, and everything inside it."""
        ranges = list(start.ranges)
        for digit, tiles, turns in reversed(grid):
            turn = self.b.op("urem", step, i64(turns))
            step = self.b.op("udiv", step, i64(turns))
            first = self.b.op("mul", turn, i64(tiles))
            ranges.append((digit, first, self.b.op("add", first, i64(tiles))))
        self.each(self.schedule.plan, replace(start, ranges=tuple(ranges)))

    # --- loops

    def each(self, plan: EachPlan, cursor: TreeCursor) -> Names:
        """Write a loop; return the results of its folds."""
        each, is_zero = plan.each, cursor.only is not None
        if each.number not in (None, self.items.number):
            number, self.items.number = self.items.number, each.number
            self.each(plan, replace(cursor, names={}, known={}))
            self.items.number = number
            return {}
        if each.in_order:
            # Values known from tensors that it writes are valid only in its first position.
            cursor = replace(cursor, known=dict(cursor.known))
            self.items.forget(cursor, each)
        joins = plan.lanes > 1 and cursor.run is not None
        if joins and cursor.run:
            digit, count = plan.digits[0], cursor.run.lanes
            run = VectorRun(digit, count * digit.extent, cursor.run.valid * digit.extent)
            cursor, plan = replace(cursor, run=run), replace(plan, digits=())
        if each.positions and not is_zero:
            cursor = replace(cursor, known=cursor.known | self.items.invariants(each, cursor))
        lanes = cursor.lanes if cursor.run else plan.widest
        keeps = cursor.run is not None and not joins
        folds = () if is_zero else each.folds
        states = {item: self.items.new_states(item, lanes, keeps_lanes=keeps) for item in folds}
        limits = {**cursor.limits, **dict(plan.limits)}
        start = replace(cursor, limits=limits)
        # Zeros are written where values would be: never where a guard excludes positions.
        guards = () if is_zero and not _stores(each) else each.guards
        self._guarded(
            plan.digits,
            guards,
            start,
            lambda inner, guards: self._loops(
                plan, plan.digits, guards, inner, lambda at: self._body(plan, at, states)
            ),
        )
        names: Names = {}
        for item, slots in states.items():
            results = self.items.folded(item, slots, count if joins else 1)
            names |= zip(item.names, results, strict=True)
        return names

    def _with_locals(self, each: Each, cursor: TreeCursor) -> TreeCursor:
        pointers = dict(cursor.pointers)
        for tensor in each.locals:
            row = self.items.new_row(tensor, cursor.lanes)
            pointers |= {
                access: self.items.begin(access, row)
                for access in self.schedule.accesses
                if access[0] == tensor.name
            }
        return replace(cursor, pointers=pointers)

    def _body(self, plan: EachPlan, cursor: TreeCursor, states: dict[Fold, FoldSlots]) -> None:
        """Write the items, at one position of the loops."""
        inner = enumerate(plan.inner)
        items, written = plan.each.items, set[int]()
        # Values found here are not known outside.
        cursor = replace(cursor, names=dict(cursor.names), known=dict(cursor.known))
        cursor = self._with_locals(plan.each, cursor)
        for place, item in enumerate(items):
            if place in written:
                continue
            if isinstance(item, Each):
                number, loop = next(inner)
                found = self.each(loop, replace(cursor, ahead=self._ahead(plan, number, cursor)))
                cursor.names.update(found)
                self.items.forget(cursor, item)
            elif isinstance(item, Store):
                behind = takewhile(lambda each: isinstance(each[1], Store), enumerate(items[place:], place))
                pairs = (at for at, each in behind if self.items.store_pair(item, each, cursor))
                pair = next(pairs, None)
                if pair is None:
                    self.items.store(item, cursor)
                else:
                    written.add(pair)
            elif cursor.only is not None:
                continue
            elif isinstance(item, Let):
                cursor.names[item.name] = self.items.value(item.value, cursor)
            else:
                self.items.fold(item, states[item], cursor)

    def _ahead(self, plan: EachPlan, number: int, cursor: TreeCursor) -> Mapping[Access, int]:
        """Return what an inner loop prefetches; of several that read the same, the last one does."""
        if plan is self.schedule.plan:
            return self.ahead[number] if self.ahead else {}
        later = set().union(*map(loads_of, plan.inner[number + 1 :]))
        return {access: step for access, step in cursor.ahead.items() if access not in later}

    def _loops(
        self,
        plan: EachPlan,
        order: tuple[TreeDigit, ...],
        guards: tuple[Guard, ...],
        cursor: TreeCursor,
        inside: Inside,
    ) -> None:
        if not order:
            inside(cursor)
            return
        cursor = self.items.with_places(
            plan.each, {name for digit in order for name, _ in digit.steps}, cursor
        )
        gridded = frozenset(digit for digit, _, _ in cursor.ranges)
        order = fused_digits(order, frozenset(cursor.limits), self.schedule.read_axes, gridded)
        digit, rest = order[0], order[1:]
        if not rest and plan.lanes > 1:
            self._vectors(plan, digit, guards, cursor, inside)
            return

        def onwards(at: TreeCursor) -> None:
            self._guarded(rest, guards, at, lambda c, left: self._loops(plan, rest, left, c, inside))

        for first, end, moved in self._sections(digit, cursor):
            for low, high, at in self._inside_of_guards(plan, digit, (first, end), moved):
                if _is_written_out(plan, at):
                    for position in range(low, high):
                        onwards(self._moved(digit, i64(position), at))
                else:
                    self._span(digit, low, high, at, onwards)

    def _inside_of_guards(
        self, plan: EachPlan, digit: TreeDigit, span: tuple[int, int], cursor: TreeCursor, align: int = 1
    ) -> Iterator[tuple[int, int, TreeCursor]]:
        """Split a span of positions in three, where guards of the inner loops hold for all of the middle one.

        Windows of a pooling: those that extend over one edge, over none, and over the other edge.
        """
        first, end = span
        sure, ((axis, step), *others) = cursor.sure, digit.steps
        is_all = not others and not digit.bound and digit.extent * step == self.extents[axis]
        if sure is None or cursor.only is not None or not is_all or axis not in plan.interior:
            yield first, end, cursor
            return
        low, high, guards = interior(plan.each, axis, self.extents, (first * step, end * step))
        low, high = -(-low // (align * step)) * align, high // (align * step) * align
        if not guards - sure or high - low < 2:
            yield first, end, cursor
            return
        edge, middle = replace(cursor, sure=None), replace(cursor, sure=sure | guards)
        if first < low:
            yield first, low, edge
        yield low, high, middle
        if high < end:
            yield high, end, edge

    def _sections(self, digit: TreeDigit, cursor: TreeCursor) -> Iterator[tuple[int, int, TreeCursor]]:
        """Yield runs of equivalent positions of a digit: first, one past the last, and the state there."""
        limits = cursor.limits.get(digit.bound) if digit.bound else None
        if limits is None:
            yield 0, digit.extent, cursor
            return
        ((name, step),) = digit.steps
        others = {each: limit for each, limit in cursor.limits.items() if each != name}
        for first, end, below in sections_of(limits, step, digit.extent):
            is_whole = below.size == step
            moved = replace(cursor, limits=others if is_whole or step == 1 else {**others, name: below})
            if not below.size:
                padded = frozenset(tensor for tensor, pad in below.pads if pad)
                moved = replace(moved, only=padded if cursor.only is None else padded & cursor.only)
                if not moved.only:
                    continue
                if all(pad in (0, step) for _, pad in below.pads):
                    moved = replace(moved, limits=others)
            yield first, end, moved

    def _span(self, digit: TreeDigit, first: int, end: int, cursor: TreeCursor, inside: Inside) -> None:
        """Write the positions [first, end) of a digit; within a grid step, those of its tiles."""
        tile = next(((low, high) for each, low, high in cursor.ranges if each == digit), None)
        if tile is None and end - first == 1:
            inside(self._moved(digit, i64(first), cursor))
            return
        low, high = i64(first), i64(end)
        if tile is not None:
            low = self._limited("smax", tile[0], first) if first else tile[0]
            high = self._limited("smin", tile[1], end)
        with self.b.loop(low, high) as turn:
            position = turn
            if tile is not None and self.reverses:
                position = self.b.op("sub", self.b.op("add", low, self.b.op("sub", high, i64(1))), turn)
            inside(self._moved(digit, position, cursor))

    def _limited(self, name: str, value: Value, limit: int) -> Value:
        return self.b.call("i64", f"llvm.{name}.i64", f"{value}, i64 {limit}", "i64, i64")

    def _moved(self, digit: TreeDigit, position: Value, cursor: TreeCursor, lanes: int = 1) -> TreeCursor:
        """Return the state at a position of a digit, or at `lanes` of them."""
        pointers = dict(cursor.pointers)
        for access, stride in digit.strides:
            if access in pointers and stride != 0:
                pointers[access] = self.items.advance(access, pointers[access], stride, position, lanes)
        indices = dict(cursor.indices)
        for name, step in digit.steps:
            if name in self.schedule.read_axes:
                move = self.b.op("mul", position, i64(step * lanes))
                indices[name] = self.b.op("add", indices[name], move) if name in indices else move
        return replace(cursor, pointers=pointers, indices=indices)

    # --- vectors

    def _vectors(
        self,
        plan: EachPlan,
        digit: TreeDigit,
        guards: tuple[Guard, ...],
        cursor: TreeCursor,
        inside: Inside,
    ) -> None:
        """Write the last digit in vectors: whole ones, then the rest with the zeros after it."""
        limits = cursor.limits.get(digit.bound) if digit.bound else None
        limits = limits or AxisLimits(digit.extent)
        others = {name: limit for name, limit in cursor.limits.items() if name != digit.bound}
        cursor = replace(cursor, limits=others)
        if cursor.only is not None:
            # Along this digit everything is zero.
            counts = ((name, dict(limits.pads).get(name, limits.size)) for name in sorted(cursor.only))
            limits = AxisLimits(0, tuple(counts))
        is_gridded = any(each == digit for each, _, _ in cursor.ranges)
        if limits.pads or is_gridded:
            self._vector_span(plan, digit, limits, guards, cursor, inside)
            return
        # Whole vectors where they fit: stores that bypass the caches begin at lines, and none is split.
        is_whole = limits.size % plan.widest == 0
        align = plan.widest if is_whole or self.items.streams else 1
        for low, high, at in self._inside_of_guards(plan, digit, (0, limits.size), cursor, align):
            moved = self._moved(digit, i64(low), at) if low else at
            self._vector_span(plan, digit, AxisLimits(high - low), guards, moved, inside)

    def _vector_span(
        self,
        plan: EachPlan,
        digit: TreeDigit,
        limits: AxisLimits,
        guards: tuple[Guard, ...],
        cursor: TreeCursor,
        inside: Inside,
    ) -> None:
        """Write positions of the last digit, from the current one on."""
        lanes = min(plan.widest, 1 << (max(limits.end, 1) - 1).bit_length())
        whole = limits.size // lanes
        tile = next(((low, high) for each, low, high in cursor.ranges if each == digit), None)

        def run(at: TreeCursor) -> None:
            inside(replace(at, mask=self.items.mask(guards, at)) if guards else at)

        def chunk(position: Value, valid: int, count: int, pads: tuple[tuple[str, int], ...]) -> None:
            at = self._moved(digit, position, cursor, lanes)
            size = 1 << (max(count, 1) - 1).bit_length()
            only = cursor.only if valid else frozenset(name for name, pad in pads if pad)
            run(replace(at, run=VectorRun(digit, size, valid, pads), only=only))

        if whole:
            low, high = (i64(0), i64(whole))
            if tile is not None:
                low, high = tile[0], self._limited("smin", tile[1], whole)
            with self.b.loop(low, high) as position:
                at = self._moved(digit, position, cursor, lanes)
                run(replace(at, run=VectorRun(digit, lanes, lanes)))
        behind = limits.behind(whole * lanes)
        if not behind.end:
            return
        if tile is not None:
            with self.b.when("sge", tile[1], i64(max(whole, 1))):
                self._tail(behind, whole, lanes, chunk)
        else:
            self._tail(behind, whole, lanes, chunk)

    def _tail(
        self,
        limits: AxisLimits,
        position: int,
        lanes: int,
        chunk: Callable[[Value, int, int, tuple[tuple[str, int], ...]], None],
    ) -> None:
        """Write what follows the whole vectors: values, and zeros up to the limit of each tensor."""
        while limits.end:
            here = limits.below(lanes)
            zeros = 0 if limits.size else min(pad for _, pad in limits.pads if pad) // lanes
            if zeros > 1:
                with self.b.loop(i64(position), i64(position + zeros)) as at:
                    chunk(at, 0, lanes, here.pads)
            else:
                chunk(i64(position), here.size, here.end, here.pads)
            turns = max(zeros, 1)
            limits, position = limits.behind(turns * lanes), position + turns

    # --- guards

    def _guarded(
        self,
        rest: tuple[TreeDigit, ...],
        guards: tuple[Guard, ...],
        cursor: TreeCursor,
        inside: Callable[[TreeCursor, tuple[Guard, ...]], None],
    ) -> None:
        """Write `inside` under guards that do not depend on remaining digits; pass the others on."""
        guards = tuple(guard for guard in guards if guard not in (cursor.sure or ()))
        moving = {name for digit in rest for name, _ in digit.steps}
        moving |= {name for name, _ in cursor.run.digit.steps} if cursor.run else set()
        ready = [guard for guard in guards if not moving.intersection(name for name, _ in guard.index.terms)]
        left = tuple(guard for guard in guards if guard not in ready)
        if cursor.run is not None and not rest and left:
            cursor, left = replace(cursor, mask=self.items.mask(left, cursor)), ()
        self._when(ready, cursor, lambda at: inside(at, left))

    def _when(self, guards: list[Guard], cursor: TreeCursor, inside: Inside) -> None:
        if not guards:
            inside(cursor)
            return
        guard, *others = guards
        index, divisor = guard.index, guard.index.divisor
        terms = [(cursor.indices[name], factor) for name, factor in index.terms]
        value = scalar_index(self.b, terms, index.constant)
        # Unsigned, a negative index is above every size.
        with self.b.when("ult", value, i64(guard.size * divisor)):
            if divisor == 1:
                self._when(others, cursor, inside)
                return
            with self.b.when("eq", self.b.op("urem", value, i64(divisor)), i64(0)):
                self._when(others, cursor, inside)


def _stores(each: Each) -> bool:
    return any(isinstance(item, Store) for item in items_of((each,)))


def _is_written_out(plan: EachPlan, cursor: TreeCursor) -> bool:
    """Return whether a window is small and needs no tests, so that its positions are unrolled; under masks,
    these are known at an edge.
    """
    positions, guards = prod(digit.extent for digit in plan.digits), plan.each.guards
    lanes = {name for name, _ in cursor.run.digit.steps} if cursor.run else set[str]()
    is_sure = cursor.sure is not None and cursor.sure.issuperset(guards)
    is_masked = all(lanes.intersection(name for name, _ in guard.index.terms) for guard in guards)
    return plan.is_unrolled and (is_sure or (is_masked and positions <= LIMITS.masked))
