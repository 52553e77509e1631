"""Numbers of a contraction in its code: constants, or read from what the launch brings.

They are words of 8 bytes, and lie where the source of other kernels is: `src` of the entry.
"""

from __future__ import annotations

from ..schedule.contraction.kernel import LaunchNumber, Number
from .builder import Builder, Value, i64

_NUMBERS = Value("ptr", "%src")
_WORD = 8

Distance = int | Value
"""By how many bytes a pointer is moved: a constant, or a number that was read."""


def number_of(b: Builder, number: Number) -> Value:
    """A number, read here."""
    if isinstance(number, int):
        return i64(number)
    return b.value("i64", f"load i64, {b.advance(_NUMBERS, _WORD * number.place)}, align {_WORD}")


def row_of(b: Builder, first: LaunchNumber, row: Value, count: int) -> list[Value]:
    """A row of a table of numbers, of so many each."""
    at = b.step(b.advance(_NUMBERS, _WORD * first.place), row, _WORD * count)
    return [b.value("i64", f"load i64, {b.advance(at, _WORD * i)}, align {_WORD}") for i in range(count)]


def distance_of(b: Builder, number: Number) -> Distance:
    """A stride, read here."""
    return number if isinstance(number, int) else number_of(b, number)


def times(b: Builder, distance: Distance, count: int) -> Distance:
    """So many times a distance."""
    if isinstance(distance, int):
        return distance * count
    if count == 0:
        return 0
    return distance if count == 1 else b.op("mul", distance, i64(count))
