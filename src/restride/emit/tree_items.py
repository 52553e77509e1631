"""The items of loop trees as LLVM IR: values, stores, folds, at a position of the loops (`emit/tree.py`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from ..dtypes import DataType
from ..ir.accesses import Access, accesses_of, items_of
from ..ir.digits import IndexDigits
from ..ir.expression import (
    FOLDS,
    Affine,
    Apply,
    Const,
    Coordinate,
    Expr,
    Index,
    Load,
    Ref,
    Scalar,
    fold,
    is_never_nan,
    parts_of,
)
from ..ir.numbers import Number
from ..ir.scale_rule import LARGEST
from ..ir.tree import Each, Fold, Guard, Item, Let, Store, TreeTensor, values_of
from ..schedule.machine import LINE
from ..schedule.trees.plan import RepeatedStride, TreeSchedule, TreeStride
from ..schedule.trees.streams import streamed
from .access import pairs, unpack, with_sign
from .builder import Builder, Value, i64, lanes_of, vector
from .compute import VectorArithmetic
from .convert import bits_type
from .kernel import Style
from .tree_values import (
    NONTEMPORAL,
    bits_of,
    broadcast,
    clear_lanes,
    constant,
    element_type,
    index_lanes,
    lane_of,
    lanes_below,
    load_lanes,
    load_scalar,
    number_of,
    operation,
    scalar_index,
    store_lanes,
    value_of,
    with_lanes,
)

if TYPE_CHECKING:
    from .tree import TreeCursor, VectorRun


class ItemWriter:
    """Writes items. `scalars`: the tree's, in one lane."""

    def __init__(self, b: Builder, schedule: TreeSchedule, style: Style, scalars: Sequence[Value]) -> None:
        self.b, self.schedule, self.can, self.register = b, schedule, style.can, style.vector_bytes
        self.number = schedule.tree.number
        self.streams, self.scalars = schedule.streams, scalars
        self._streamed: dict[int, frozenset[Access]] = {}
        self._read_again = schedule.read_again
        self.rows: dict[str, int] = {}
        tensors = schedule.tensors.values()
        self.integral = {tensor.name for tensor in tensors if tensor.data_type.is_integral}

    # --- addresses

    def _tensor(self, name: str) -> TreeTensor:
        return self.schedule.tensors[name]

    def _element_bits(self, name: str) -> int:
        return self.rows.get(name, 1) * self._data_type(name).bits

    def _data_type(self, name: str) -> DataType:
        tensor = self._tensor(name)
        return self.schedule.tree.row_type(tensor) if name in self.schedule.rows else tensor.data_type

    @property
    def element(self) -> str:
        """The IR type of computed values."""
        return element_type(self.number)

    def begin(self, access: Access, base: Value) -> Value:
        """Return the address of an access where all axes are at 0."""
        name, index = access
        tensor = self._tensor(name)
        offset = tensor.base
        for dim, at in enumerate(index):
            if dim not in self.schedule.computed[access] and isinstance(at, Affine):
                offset += at.constant * tensor.digits[dim][0].stride if len(tensor.digits[dim]) == 1 else 0
        return self.b.advance(base, offset * self._element_bits(name) // 8)

    def advance(
        self, access: Access, pointer: Value, stride: TreeStride, position: Value, lanes: int
    ) -> Value:
        """Return the address of an access at a position of a digit, or at `lanes` of them."""
        bits = self._element_bits(access[0])
        if isinstance(stride, RepeatedStride):
            return self.b.step(pointer, position, stride.stride * lanes // stride.times * bits // 8)
        if isinstance(stride, int):
            return self.b.step(pointer, position, stride * lanes * bits // 8)
        return self.b.step_by_table(pointer, position, [offset * bits // 8 for offset in stride])

    def new_row(self, tensor: TreeTensor, lanes: int) -> Value:
        """Allocate a local tensor whose elements are vectors of `lanes`."""
        self.rows[tensor.name] = lanes
        data_type = self._data_type(tensor.name)
        element = self.element if data_type is self.number.storage else bits_type(data_type)
        return self.b.slot(element, max(prod(tensor.sizes), 1) * lanes)

    def _is_row(self, name: str) -> bool:
        return self.rows.get(name, 1) > 1

    def _address(self, access: Access, cursor: TreeCursor) -> tuple[TreeStride, Callable[[int], Value]]:
        """Return the distance of an access's lanes, and the address of each; for rows, of all together."""
        name, index = access
        pointer, tensor, run = cursor.pointers[access], self._tensor(name), cursor.run
        bits = self._element_bits(name)
        computed = self.schedule.computed[access]
        if self._is_row(name):
            return 1, lambda lane: self.b.advance(pointer, lane * bits // self.rows[name] // 8)
        stride = run.digit.stride(access) if run else 0
        if not computed:
            step = stride.stride if isinstance(stride, RepeatedStride) else stride
            assert isinstance(step, int)
            return stride, lambda lane: self.b.advance(pointer, lane * step * bits // 8)
        steps = dict(run.digit.steps) if run else {}
        is_moved = any(not index[dim].axes.isdisjoint(steps) for dim in computed)
        elements = {
            dim: cursor.places.get((name, dim, load)) or self._element_offsets(load, tensor, dim, cursor)
            for dim, load in enumerate(index)
            if isinstance(load, Load)
        }

        def at(lane: int) -> Value:
            place = self.b.advance(pointer, lane * int(stride if isinstance(stride, int) else 0) * bits // 8)
            for dim in computed:
                by = index[dim]
                if isinstance(by, Load):
                    offset = lane_of(self.b, elements[dim], lane)
                else:
                    offset = self._computed(by, tensor.digits[dim], tensor.sizes[dim], cursor, lane)
                place = self.b.step(place, offset, bits // 8)
            return place

        if is_moved:
            return bits + 2, at
        first = at(0)
        return stride, lambda lane: self.b.advance(
            first, lane * int(stride if isinstance(stride, int) else 0) * bits // 8
        )

    def _computed(
        self, index: Affine, digits: IndexDigits, size: int, cursor: TreeCursor, lane: int
    ) -> Value:
        """Return the offset of an index in one dim, in elements; where guards exclude it, it is clamped."""
        b = self.b
        steps = dict(cursor.run.digit.steps) if cursor.run else {}
        moved = sum(factor * steps.get(name, 0) * lane for name, factor in index.terms)
        terms = [(cursor.indices[name], factor) for name, factor in index.terms if name in cursor.indices]
        value = scalar_index(b, terms, index.constant + moved)
        value = b.call("i64", "llvm.smax.i64", f"{value}, i64 0", "i64, i64")
        if index.divisor > 1:
            value = b.op("udiv", value, i64(index.divisor))
        value = b.call("i64", "llvm.smin.i64", f"{value}, i64 {max(size - 1, 0)}", "i64, i64")
        offset = i64(0)
        for digit in reversed(digits):
            place = b.op("udiv", value, i64(digit.step))
            offset = b.op("add", offset, b.op("mul", place, i64(digit.stride)))
            value = b.op("urem", value, i64(digit.step))
        return offset

    def with_places(self, each: Each, moving: set[str], cursor: TreeCursor) -> TreeCursor:
        """Compute the offsets of indices that are elements before the loops in which they are constant.

        `moving`: the axes of these loops.
        """
        if each.guards or cursor.only is not None or cursor.mask is not None:
            return cursor
        places, written = dict(cursor.places), self.schedule.tree.written
        accesses = (
            access for item in each.items if not isinstance(item, Each) for access in accesses_of(item)
        )
        for name, index in accesses:
            for dim, load in enumerate(index):
                if not isinstance(load, Load) or (name, dim, load) in places:
                    continue
                if load.axes.isdisjoint(moving) and load.tensor not in written:
                    places[name, dim, load] = self._element_offsets(load, self._tensor(name), dim, cursor)
        return replace(cursor, places=places)

    def _element_offsets(self, load: Load, tensor: TreeTensor, dim: int, cursor: TreeCursor) -> Value:
        """Return the offsets of an index that is an element, in elements: of every lane, or one for all.

        Lanes that guards exclude, or that are empty, have the first element.
        """
        digits, size = tensor.digits[dim], tensor.sizes[dim]
        b, run, access = self.b, cursor.run, (load.tensor, load.index)
        stride, at = self._address(access, cursor)
        data_type = self._tensor(load.tensor).data_type
        element = bits_type(data_type)
        if run is None or stride == 0:
            kind = vector(element, 1)
            bits = b.value(kind, f"load {kind}, {at(0)}, align 1")
        else:
            assert not isinstance(stride, RepeatedStride)
            mask = None if cursor.mask is None else self._present(cursor)
            bits = load_lanes(b, element, at, stride, run.lanes, run.valid, mask, self.can)
        lanes = lanes_of(bits)

        def number(value: int) -> Value:
            return b.splat("i64", lanes, str(value))

        value = value_of(b, bits, data_type, Number.i64, self.can)
        from_end = b.op("add", value, number(size))
        value = b.select(b.compare("icmp slt", value, number(0)), from_end, value)
        value = b.select(b.compare("icmp slt", value, number(0)), number(0), value)
        last = number(max(size - 1, 0))
        value = b.select(b.compare("icmp sgt", value, last), last, value)
        offset = number(0)
        for digit in reversed(digits):
            place = b.op("udiv", value, number(digit.step))
            offset = b.op("add", offset, b.op("mul", place, number(digit.stride)))
            value = b.op("urem", value, number(digit.step))
        return offset

    # --- values

    def value(self, expr: Expr, cursor: TreeCursor) -> Value:
        """Return the value of an expression; known values are not computed again."""
        if isinstance(expr, Ref):
            return cursor.names[expr.name]
        if isinstance(expr, Const):
            return constant(self.number, expr.number)
        if isinstance(expr, Scalar):
            return self.scalars[expr.number]
        if expr not in cursor.known:
            cursor.known[expr] = self._new_value(expr, cursor)
        return cursor.known[expr]

    def _new_value(self, expr: Expr, cursor: TreeCursor) -> Value:
        if isinstance(expr, Apply):
            args = [self.value(arg, cursor) for arg in expr.args]
            return operation(self.b, expr.op, args, self.can, self.register)
        if isinstance(expr, Coordinate):
            return self._coordinate(expr.index, cursor)
        assert isinstance(expr, Load)
        return self._load(expr, cursor)

    def _coordinate(self, index: Affine, cursor: TreeCursor) -> Value:
        terms = [(cursor.indices[name], factor) for name, factor in index.terms if name in cursor.indices]
        first = scalar_index(self.b, terms, index.constant)
        step = self._lane_step(index, cursor)
        if not step or cursor.run is None:
            return number_of(self.b, first, self.element)
        return number_of(self.b, index_lanes(self.b, first, step, cursor.lanes), self.element)

    def _lane_step(self, index: Affine, cursor: TreeCursor) -> int:
        steps = dict(cursor.run.digit.steps) if cursor.run else {}
        return sum(factor * steps.get(name, 0) for name, factor in index.terms)

    def _load(self, expr: Load, cursor: TreeCursor) -> Value:
        access = expr.tensor, expr.index
        stride, at = self._address(access, cursor)
        run, data_type = cursor.run, self._data_type(expr.tensor)
        if run is None or stride == 0:
            return load_scalar(self.b, data_type, at(0), self.number, self.can)
        if isinstance(stride, RepeatedStride):
            times, count = stride.times, run.lanes // stride.times
            kind = bits_type(data_type)
            bits = load_lanes(self.b, kind, at, stride.stride, count, run.valid // times, None, self.can)
            value = value_of(self.b, bits, data_type, self.number, self.can)
            return self.b.shuffle(value, value, [lane // times for lane in range(run.lanes)])
        if stride == 1 and access in cursor.ahead:
            self._ask(at(0), cursor.ahead[access], run.lanes * data_type.bits // 8)
        is_row = self._is_row(expr.tensor)
        valid, mask = (run.lanes, None) if is_row else (run.valid, cursor.mask)
        # Under a mask, lanes after the last are excluded too.
        mask = None if mask is None else self._present(cursor)
        if data_type.bits == 4:
            halves = load_lanes(
                self.b, "i8", lambda lane: at(2 * lane), 1, run.lanes // 2, valid // 2, None, self.can
            )
            bits = unpack(self.b, halves)
            bits = with_sign(self.b, bits) if data_type is DataType.s4 else bits
        else:
            bits = load_lanes(self.b, bits_type(data_type), at, stride, run.lanes, valid, mask, self.can)
        return value_of(self.b, bits, data_type, self.number, self.can)

    def _ask(self, address: Value, ahead: int, nbytes: int) -> None:
        """Prefetch lines ahead of an address, into the L2 cache."""
        for line in range(0, nbytes, LINE):
            at = self.b.advance(address, ahead + line)
            self.b.call_void("llvm.prefetch.p0", f"{at}, i32 0, i32 2, i32 1", "ptr, i32, i32, i32")

    def invariants(self, each: Each, cursor: TreeCursor) -> dict[Expr, Value]:
        """Compute the loop-invariant values before a loop."""
        axes = {axis.name for axis in each.axes}
        lets = {item.name for item in items_of((each,)) if isinstance(item, Let)}
        lets |= {name for item in items_of((each,)) if isinstance(item, Fold) for name in item.names}
        written = {item.tensor for item in items_of((each,)) if isinstance(item, Store)}
        at = replace(cursor, known=dict(cursor.known))
        for item in each.items:
            for value in () if isinstance(item, Each) else values_of(item):
                self._hoist(value, axes, lets, written, at, is_guarded=bool(each.guards))
        return at.known

    def _hoist(
        self,
        expr: Expr,
        axes: set[str],
        lets: set[str],
        written: set[str],
        cursor: TreeCursor,
        *,
        is_guarded: bool,
    ) -> None:
        parts = list(parts_of(expr))
        moves = any(
            (isinstance(part, Load) and (is_guarded or part.tensor in written or _is_of(part.index, axes)))
            or (isinstance(part, Coordinate) and _is_of((part.index,), axes))
            or (isinstance(part, Ref) and part.name in lets)
            for part in parts
        )
        if not moves:
            self.value(expr, cursor)
        elif isinstance(expr, Apply):
            for arg in expr.args:
                self._hoist(arg, axes, lets, written, cursor, is_guarded=is_guarded)

    # --- stores

    def store(self, item: Store, cursor: TreeCursor) -> None:
        """Store a value, or the zeros after it."""
        if cursor.only is not None and item.tensor not in cursor.only:
            return
        access = item.tensor, item.index
        stride, at = self._address(access, cursor)
        run, can = cursor.run, self.can
        is_row = item.tensor in self.schedule.rows
        data_type = self._data_type(item.tensor)
        if cursor.only is not None:
            bits = Value(vector(bits_type(data_type), cursor.lanes), "zeroinitializer")
        else:
            value = self.value(item.value, cursor)
            bits = self._bits(value, item, is_row=is_row)
            self._forget_tensors(cursor, {item.tensor})
        if run is None or stride == 0:
            self.b.line(f"store {with_lanes(self.b, bits, 0, 1)}, {at(0)}, align 1")
            return
        # Stores move along every digit of vectors.
        assert not isinstance(stride, RepeatedStride)
        bits = broadcast(self.b, bits, run.lanes)
        if self._is_row(item.tensor):
            store_lanes(self.b, bits, at, 1, run.lanes, None, can, "align 1")
            return
        count = run.count(item.tensor)
        if cursor.only is None and count > run.valid:
            bits = clear_lanes(self.b, bits, run.valid)
        mask = None if cursor.mask is None else self._first(cursor, count)
        how = self._how(access, data_type, run, count)
        if data_type.bits == 4:
            bytes_of = pairs(self.b, bits, self.can, are_clean=data_type.kind != "int")
            store_lanes(self.b, bytes_of, lambda lane: at(2 * lane), 1, count // 2, None, can, how)
            return
        store_lanes(self.b, bits, at, stride, count, mask, can, how)

    def store_pair(self, even: Store, odd: Item, cursor: TreeCursor) -> bool:
        """Merge two interleaved stores of every second element into one of adjacent elements.

        Returns False, and writes nothing, if they are not such.
        """
        run = cursor.run
        if run is None or cursor.only is not None or cursor.mask is not None or not isinstance(odd, Store):
            return False
        accesses = [(item.tensor, item.index) for item in (even, odd)]
        tensor = self._tensor(even.tensor)
        if run.count(even.tensor) != run.valid or not self._are_neighbors(*accesses):
            return False
        if even.tensor in self._read_again or any(
            self.schedule.computed[access] or run.digit.stride(access) != 2 for access in accesses
        ):
            return False
        values = ((self.value(item.value, cursor), item) for item in (even, odd))
        first, second = (
            broadcast(self.b, self._bits(value, item, is_row=False), run.lanes) for value, item in values
        )
        order = [place for lane in range(run.lanes) for place in (lane, run.lanes + lane)]
        _, at = self._address(accesses[0], cursor)
        both = self.b.shuffle(first, second, order)
        # A lane of the first store is two elements of both: runs of adjacent elements begin there.
        how = self._how(accesses[0], tensor.data_type, run, 2 * run.valid, near=2)
        store_lanes(self.b, both, lambda place: at(place // 2), 1, 2 * run.valid, None, self.can, how)
        self._forget_tensors(cursor, {even.tensor})
        return True

    def _are_neighbors(self, first: Access, second: Access) -> bool:
        """Return whether the second element follows the first."""
        (name, before), (other, after) = first, second
        if name != other:
            return False
        moved = [(dim, a, b) for dim, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        if len(moved) != 1:
            return False
        ((dim, a, b),) = moved
        if isinstance(a, Load):
            return False
        is_next = replace(a, constant=a.constant + 1) == b
        digits = self._tensor(name).digits[dim]
        return is_next and len(digits) == 1 and digits[0].stride == 1

    def _bits(self, value: Value, item: Store, *, is_row: bool) -> Value:
        data_type = self._data_type(item.tensor)
        if is_row and data_type is self.number.storage:
            return self.b.bitcast(value, bits_type(data_type))
        return bits_of(
            *(self.b, value, data_type, self.number, (self.can, self.register)),
            is_number=is_never_nan(item.value, self.integral),
            is_clipped=_is_clipped(item.value, data_type),
        )

    def _how(self, access: Access, data_type: DataType, run: VectorRun, count: int, near: int = 1) -> str:
        """Return the address attributes of `count` elements, `near` for each lane: whole lines that bypass
        the caches are aligned.
        """
        nbytes = data_type.nbytes(count)
        is_cut = count < near * run.lanes and nbytes % LINE
        if not self.streams or is_cut:
            return "align 1"
        if run.lanes not in self._streamed:
            self._streamed[run.lanes] = streamed(self.schedule, run.lanes)
        if access not in self._streamed[run.lanes]:
            return "align 1"
        return f"align {min(LINE, nbytes)}, {NONTEMPORAL}"

    def forget(self, cursor: TreeCursor, each: Each) -> None:
        """Forget values known from tensors that a loop has written."""
        written = {item.tensor for item in items_of((each,)) if isinstance(item, Store)}
        if written:
            self._forget_tensors(cursor, written)

    def _forget_tensors(self, cursor: TreeCursor, names: set[str]) -> None:
        if self._read_again.isdisjoint(names):
            return
        stale = [
            expr
            for expr in cursor.known
            if any(isinstance(part, Load) and part.tensor in names for part in parts_of(expr))
        ]
        for expr in stale:
            del cursor.known[expr]

    # --- folds

    def new_states(self, item: Fold, lanes: int, *, keeps_lanes: bool) -> FoldSlots:
        """Allocate the states of a fold, with neutral elements."""
        kind = vector(self.element, lanes)
        slots = FoldSlots(lanes, tuple(self.b.slot(kind) for _ in item.names), keeps_lanes)
        for slot, number in zip(slots.places, FOLDS[item.op].identity, strict=True):
            self.b.line(f"store {broadcast(self.b, constant(self.number, number), lanes)}, {slot}, align 64")
        return slots

    def _states(self, slots: FoldSlots) -> list[Value]:
        kind = vector(self.element, slots.lanes)
        return [self.b.value(kind, f"load {kind}, {slot}, align 64") for slot in slots.places]

    def fold(self, item: Fold, slots: FoldSlots, cursor: TreeCursor) -> None:
        """Fold the values of one position, or of a vector of them, into the states."""
        b, lanes = self.b, cursor.lanes
        values = [broadcast(b, self.value(value, cursor), lanes) for value in item.values]
        states = self._states(slots)
        before = [with_lanes(b, state, 0, lanes) for state in states]
        made = fold(item.op, self._arithmetic, before, values)
        # If lanes have separate results, those after the last are discarded.
        mask = cursor.mask if slots.keeps_lanes else self._present(cursor)
        for slot, whole, old, new in zip(slots.places, states, before, made, strict=True):
            chosen = new if mask is None else b.select(mask, new, old)
            b.line(f"store {_with_first(b, whole, chosen)}, {slot}, align 64")

    def _present(self, cursor: TreeCursor) -> Value | None:
        """Return the lanes that hold values; None if all do."""
        return self._first(cursor, cursor.run.valid) if cursor.run else cursor.mask

    def _first(self, cursor: TreeCursor, count: int) -> Value | None:
        """Return those of the first lanes that guards keep; None if these are all."""
        if count == cursor.lanes:
            return cursor.mask
        below = lanes_below(self.b, cursor.lanes, count)
        return below if cursor.mask is None else self.b.op("and", cursor.mask, below)

    @property
    def _arithmetic(self) -> VectorArithmetic:
        return VectorArithmetic(self.b, self.can.round_even)

    def folded(self, item: Fold, slots: FoldSlots, results: int = 1) -> list[Value]:
        """Return the results of a fold: separate ones per lane or, for lanes along the folded axis, combined;
        `results` of them, whose lanes are adjacent.
        """
        states = self._states(slots)
        while not slots.keeps_lanes and lanes_of(states[0]) > results:
            half = lanes_of(states[0]) // results // 2
            low, high = (
                [(2 * number + part) * half + lane for number in range(results) for lane in range(half)]
                for part in (0, 1)
            )
            sides = ([self.b.shuffle(state, state, side) for state in states] for side in (low, high))
            states = list(fold(item.op, self._arithmetic, *sides))
        return states

    # --- masks

    def mask(self, guards: Sequence[Guard], cursor: TreeCursor) -> Value | None:
        """Return the lanes in which guards hold, out of the remaining ones; None for all."""
        mask = cursor.mask
        for guard in guards:
            holds = self._holds(guard, cursor)
            mask = holds if mask is None else self.b.op("and", mask, holds)
        return mask

    def _holds(self, guard: Guard, cursor: TreeCursor) -> Value:
        b, index, lanes = self.b, guard.index, cursor.lanes
        terms = [(cursor.indices[name], factor) for name, factor in index.terms if name in cursor.indices]
        first = scalar_index(b, terms, index.constant)
        places = index_lanes(b, first, self._lane_step(index, cursor), lanes)
        limit = broadcast(b, Value("<1 x i64>", f"splat (i64 {guard.size * index.divisor})"), lanes)
        # Unsigned, a negative index is above every size.
        holds = b.compare("icmp ult", places, limit)
        if index.divisor == 1:
            return holds
        divisor = Value(places.type, f"splat (i64 {index.divisor})")
        divides = b.compare("icmp eq", b.op("urem", places, divisor), Value(places.type, "zeroinitializer"))
        return b.op("and", holds, divides)


@dataclass(frozen=True, slots=True)
class FoldSlots:
    """The memory of a fold's states while its loops run, as vectors of lanes.

    `keeps_lanes`: each lane has a separate result.
    """

    lanes: int
    places: tuple[Value, ...]
    keeps_lanes: bool


def _is_clipped(value: Expr, data_type: DataType) -> bool:
    """Return whether a value is clipped to the numbers of a type."""
    if not isinstance(value, Apply) or value.op != "clip":
        return False
    most = LARGEST.get(data_type)
    return [end.number for end in value.args[1:] if isinstance(end, Const)] == [most and -most, most]


def _with_first(b: Builder, whole: Value, first: Value) -> Value:
    """Replace the first lanes of `whole`."""
    lanes, count = lanes_of(whole), lanes_of(first)
    if lanes == count:
        return first
    wide = b.shuffle(first, first, [*range(count), *[-1] * (lanes - count)])
    return b.shuffle(wide, whole, [*range(count), *range(lanes + count, 2 * lanes)])


def _is_of(indices: Sequence[Index], axes: set[str]) -> bool:
    return any(not index.axes.isdisjoint(axes) for index in indices)
