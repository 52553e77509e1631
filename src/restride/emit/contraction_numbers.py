"""Numbers in a contraction's code: constants, or values passed at launch.

The latter are words of 8 bytes, at the place of other kernels' source: `src` of the entry point.
"""

from __future__ import annotations

from ..schedule.contraction.kernel import LaunchNumber, Number
from .builder import Builder, Value, i64

_NUMBERS = Value("ptr", "%src")
_WORD = 8

Distance = int | Value
"""The bytes by which a pointer is moved: a constant, or a number that was read."""


def number_of(b: Builder, number: Number) -> Value:
    """Read a number."""
    if isinstance(number, int):
        return i64(number)
    return b.value("i64", f"load i64, {b.advance(_NUMBERS, _WORD * number.place)}, align {_WORD}")


def row_of(b: Builder, first: LaunchNumber, row: Value, count: int) -> list[Value]:
    """Read a row of a table of numbers, `count` each."""
    at = b.step(b.advance(_NUMBERS, _WORD * first.place), row, _WORD * count)
    return [b.value("i64", f"load i64, {b.advance(at, _WORD * i)}, align {_WORD}") for i in range(count)]


def distance_of(b: Builder, number: Number) -> Distance:
    """Read a stride."""
    return number if isinstance(number, int) else number_of(b, number)


def times(b: Builder, distance: Distance, count: int) -> Distance:
    """Return a multiple of a distance."""
    if isinstance(distance, int):
        return distance * count
    if count == 0:
        return 0
    return distance if count == 1 else b.op("mul", distance, i64(count))
