"""What a reduction does to vectors: bits to accumulators, and accumulators to outputs.

Sums accumulate as 32-bit integers. Ranges accumulate without leaving the bits of their data type: as integers
in the order of the values (**keys**), with a bias that lets values that are not finite wrap around to below
all others. So one `max` of integers is all that a range needs, and every instruction set finds the same bits.
`schedule/reduction.py` says what keys mean.

Each lane of a register belongs to one output, given as its distance from the first in elements, or to none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from ..dtypes import DataType
from ..ir.reduction import Op
from ..schedule.reduction import bias_of
from .builder import Builder, Value, lanes_of, vector

# --- accumulate --------------------------------------------------------------
# What a reduction does to a vector: bits to what accumulates, and how that accumulates.


@dataclass(frozen=True, slots=True)
class Accumulation:
    """The operation of one reduction, on vectors of any number of lanes."""

    op: Op
    data_type: DataType

    @property
    def element(self) -> str:
        """IR type of one accumulated number."""
        return "i32" if self.op is Op.total else f"i{self.data_type.bits}"

    @property
    def bits(self) -> int:
        """Width of one accumulated number."""
        return 32 if self.op is Op.total else self.data_type.bits

    def empty(self, lanes: int) -> Value:
        """Accumulators in which nothing is yet."""
        if self.op is Op.total:
            return Value(vector(self.element, lanes), "zeroinitializer")
        return Value(vector(self.element, lanes), f"splat ({self.element} {-1 << self.bits - 1})")

    def prepare(self, b: Builder, bits: Value) -> tuple[Value, ...]:
        """What to fold for elements with these bits: one vector for each result."""
        if self.op is Op.total:
            return (self._integers(b, bits),)
        if self.op is Op.amax:
            return (b.op("add", b.op("and", bits, self._constant(bits, self._most)), self._bias(bits)),)
        key = self._key(b, bits)
        return b.op("sub", self._bias(bits, -1), key), b.op("add", key, self._bias(bits))

    def fold(self, b: Builder, one: Value, other: Value) -> Value:
        """Both together."""
        return b.op("add", one, other) if self.op is Op.total else b.intrinsic("smax", one, other)

    @property
    def _most(self) -> int:
        return (1 << self.data_type.bits - 1) - 1

    def _constant(self, like: Value, number: int) -> Value:
        return Value(like.type, f"splat (i{self.data_type.bits} {number})")

    def _bias(self, like: Value, more: int = 0) -> Value:
        return self._constant(like, bias_of(self.data_type) + more)

    def _integers(self, b: Builder, bits: Value) -> Value:
        if self.data_type.bits == 32:
            return bits
        if self.data_type is DataType.boolean:
            bits = b.compare("icmp ne", bits, Value(bits.type, "zeroinitializer"))
        return b.cast("sext" if self.data_type.kind == "int" else "zext", bits, "i32")

    def _key(self, b: Builder, bits: Value) -> Value:
        """Integers in the order of the floats: those of negative ones count down."""
        is_negative = b.compare("icmp slt", bits, Value(bits.type, "zeroinitializer"))
        return b.select(is_negative, b.op("xor", bits, self._constant(bits, self._most)), bits)


def only(b: Builder, value: Value, count: int, empty: Value) -> Value:
    """The first `count` lanes of a value, and `empty` in the others."""
    lanes = lanes_of(value)
    flags = ", ".join(f"i1 {'true' if i < count else 'false'}" for i in range(lanes))
    return b.select(Value(vector("i1", lanes), f"<{flags}>"), value, empty)


# --- fold --------------------------------------------------------------------
# Accumulators to outputs: lanes that share an output are folded together, then into memory.

LaneOutputs = tuple[int | None, ...]
"""The output of each lane, in elements; None where a lane holds nothing."""


def fold_into(
    b: Builder,
    how: Accumulation,
    registers: Sequence[tuple[Value, LaneOutputs]],
    out: Value,
    factor: Value | None,
) -> None:
    """Fold registers into the outputs in memory from `out` on, times `factor` where there is one."""
    for places, value in _alike(b, how, registers):
        _fold_register(b, how, value, places, out, factor)


def _alike(
    b: Builder, how: Accumulation, registers: Sequence[tuple[Value, LaneOutputs]]
) -> list[tuple[LaneOutputs, Value]]:
    """Registers whose lanes have the same outputs, folded into one."""
    groups: dict[LaneOutputs, list[Value]] = {}
    for value, places in registers:
        groups.setdefault(places, []).append(value)
    return [(places, _tree(b, how, values)) for places, values in groups.items()]


def _tree(b: Builder, how: Accumulation, values: list[Value]) -> Value:
    while len(values) > 1:
        pairs = [how.fold(b, x, y) for x, y in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[2 * len(pairs) :]
    return values[0]


def _fold_register(
    b: Builder, how: Accumulation, value: Value, places: LaneOutputs, out: Value, factor: Value | None
) -> None:
    outputs = sorted({place for place in places if place is not None})
    members = [[lane for lane, place in enumerate(places) if place == output] for output in outputs]
    value = _fold_lanes(b, how, value, members)
    if factor is not None:
        value = b.op("mul", value, b.broadcast(factor, lanes_of(value)))
    first = 0
    for run in _runs(outputs):
        _update(b, how, value, first, b.advance(out, run[0] * how.bits // 8), len(run))
        first += len(run)


def _fold_lanes(b: Builder, how: Accumulation, value: Value, members: list[list[int]]) -> Value:
    """Lane i of the result: all lanes of `members[i]` folded."""
    lanes, width = lanes_of(value), _ceil_power(len(members))
    depth = _ceil_power(max(map(len, members)))
    mask = [_member(members, i, turn, lanes) for turn in range(depth) for i in range(width)]
    if mask != list(range(lanes)):
        value = b.shuffle(value, how.empty(lanes), mask)
    while lanes_of(value) > width:
        half = lanes_of(value) // 2
        low, high = (b.shuffle(value, value, tuple(range(i, i + half))) for i in (0, half))
        value = how.fold(b, low, high)
    return value


def _member(members: list[list[int]], i: int, turn: int, lanes: int) -> int:
    """The lane that is `turn`th of output i; one of the empty vector behind them where there is none."""
    return members[i][turn] if i < len(members) and turn < len(members[i]) else lanes


def _ceil_power(n: int) -> int:
    return 1 << (n - 1).bit_length()


def _runs(outputs: list[int]) -> list[list[int]]:
    """Outputs in runs without gaps."""
    numbered = groupby(enumerate(outputs), key=lambda pair: pair[1] - pair[0])
    return [[output for _, output in run] for _, run in numbered]


def _update(b: Builder, how: Accumulation, value: Value, first: int, address: Value, count: int) -> None:
    """Fold `count` lanes of a value, from `first` on, into as many outputs at an address."""
    done = 0
    while done < count:
        step = 1 << ((count - done).bit_length() - 1)
        kind = vector(how.element, step)
        at = b.advance(address, done * how.bits // 8)
        part = value
        if step != lanes_of(value):
            part = b.shuffle(value, value, tuple(range(first + done, first + done + step)))
        old = b.value(kind, f"load {kind}, {at}, align {how.bits // 8}")
        b.line(f"store {how.fold(b, old, part)}, {at}, align {how.bits // 8}")
        done += step
