"""Accumulators to outputs: lanes that share an output are folded together, then into memory.

Each lane of a register belongs to one output, given as its distance from the first in elements, or to none.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from .accumulate import Accumulation
from .builder import Builder, Value, lanes_of, vector

Places = tuple[int | None, ...]
"""The output of each lane, in elements; None where a lane holds nothing."""


def fold_into(
    b: Builder,
    how: Accumulation,
    registers: Sequence[tuple[Value, Places]],
    out: Value,
    factor: Value | None,
) -> None:
    """Fold registers into the outputs in memory from `out` on, times `factor` where there is one."""
    for places, value in _alike(b, how, registers):
        _fold_register(b, how, value, places, out, factor)


def _alike(
    b: Builder, how: Accumulation, registers: Sequence[tuple[Value, Places]]
) -> list[tuple[Places, Value]]:
    """Registers whose lanes have the same outputs, folded into one."""
    found: dict[Places, list[Value]] = {}
    for value, places in registers:
        found.setdefault(places, []).append(value)
    return [(places, _tree(b, how, values)) for places, values in found.items()]


def _tree(b: Builder, how: Accumulation, values: list[Value]) -> Value:
    while len(values) > 1:
        pairs = [how.fold(b, x, y) for x, y in zip(values[::2], values[1::2], strict=False)]
        values = pairs + values[2 * len(pairs) :]
    return values[0]


def _fold_register(
    b: Builder, how: Accumulation, value: Value, places: Places, out: Value, factor: Value | None
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
