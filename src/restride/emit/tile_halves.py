"""Tiles of 4-bit elements that only move, as tiles of bytes: half the registers, and no unpacking.

If two elements share a byte of the source along one bit x of their number, and a byte of the destination
along another bit y, four elements are a square: two bytes of the source become two of the destination by
exchanging halves. So the tile is one of bytes, in which the bit t selects one of the two; it is y where they
are read, and x where they are written. They exchange halves in whole registers if t is not a lane bit, else
each with its neighbor in the same register.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..ir.nest import as_int
from .builder import Builder, Value, lanes_of, vector
from .register_permutation import Lanes
from .tile_shape import TileAxis

_LOW, _HIGH = 0x0F0F, 0xF0F0


class ByteTile(NamedTuple):
    """A tile of bytes; `is_torn`: bit 0 of an element's number selects one of two that exchange halves."""

    axes: tuple[TileAxis, ...]
    is_torn: bool


def byte_tile(axes: tuple[TileAxis, ...]) -> ByteTile | None:
    """Return the bytes of a tile of 4-bit elements; None unless whole, with whole bytes on both sides."""
    if not all(axis.is_linear and axis.count == axis.valid == axis.template for axis in axes):
        return None
    if any(axis.template & (axis.template - 1) for axis in axes):
        return None
    bits = [
        (as_int(axis.src) << bit, as_int(axis.dst) << bit)
        for axis in axes
        for bit in range(axis.template.bit_length() - 1)
    ]
    src, dst = [s for s, _ in bits], [d for _, d in bits]
    if src.count(1) != 1 or dst.count(1) != 1:
        return None
    x, y = src.index(1), dst.index(1)
    if any(s % 2 for i, s in enumerate(src) if i != x) or any(d % 2 for i, d in enumerate(dst) if i != y):
        return None
    rest = [_bit(s // 2, d // 2) for i, (s, d) in enumerate(bits) if i not in (x, y)]
    if x == y:
        return ByteTile(tuple(rest), is_torn=False) if rest else None
    return ByteTile((_bit(src[y] // 2, dst[x] // 2), *rest), is_torn=True)


def _bit(src: int, dst: int) -> TileAxis:
    return TileAxis(2, 2, 2, src, dst)


def are_apart(registers: Sequence[Lanes]) -> bool:
    """Return whether bytes that exchange halves are in the same lane of two registers."""
    there = set(registers)
    return all(_mate(lanes) in there for lanes in registers)


def can_exchange(registers: Sequence[Lanes]) -> bool:
    """Return whether they are, or are all in one register."""
    return are_apart(registers) or all(set(_mate(lanes)) == set(lanes) for lanes in registers)


def _mate(lanes: Lanes) -> Lanes:
    """Return the bytes with which these exchange halves."""
    return tuple(element ^ 1 for element in lanes)


def exchanged(b: Builder, values: Sequence[Value], registers: Sequence[Lanes]) -> list[Value]:
    """Return the registers after their bytes have exchanged halves."""
    if not are_apart(registers):
        return [_exchanged_within(b, value, lanes) for value, lanes in zip(values, registers, strict=True)]
    found, at = list(values), {lanes: number for number, lanes in enumerate(registers)}
    for lanes, low in at.items():
        high = at[_mate(lanes)]
        if lanes[0] & 1 == 0:
            one, other = _words(b, values[low]), _words(b, values[high])
            found[low] = _joined(b, one, _shifted(b, "shl", other), values[low].type)
            found[high] = _joined(b, _shifted(b, "lshr", one), other, values[low].type)
    return found


def _exchanged_within(b: Builder, value: Value, lanes: Lanes) -> Value:
    """Exchange halves within one register, each byte with its neighbor."""
    size = len(lanes)
    places = {element: lane for lane, element in enumerate(lanes)}
    beside = _words(b, b.shuffle(value, value, [places[e ^ 1] for e in lanes]))
    up, down = (
        b.value(value.type, f"bitcast {_shifted(b, name, beside)} to {value.type}")
        for name in ("shl", "lshr")
    )
    moved = b.shuffle(up, down, [lane + size * (e & 1) for lane, e in enumerate(lanes)])
    kept = ", ".join(f"i8 {-16 if e & 1 else 15}" for e in lanes)
    taken = ", ".join(f"i8 {15 if e & 1 else -16}" for e in lanes)
    ours, theirs = Value(value.type, f"<{kept}>"), Value(value.type, f"<{taken}>")
    return b.op("or", b.op("and", value, ours), b.op("and", moved, theirs))


def _words(b: Builder, value: Value) -> Value:
    kind = vector("i16", lanes_of(value) // 2)
    return b.value(kind, f"bitcast {value} to {kind}")


def _shifted(b: Builder, name: str, words: Value) -> Value:
    return b.op(name, words, b.splat("i16", lanes_of(words), "4"))


def _joined(b: Builder, low: Value, high: Value, kind: str) -> Value:
    """Join the lower halves of the bytes of `low` with the upper ones of `high`."""
    count = lanes_of(low)
    both = b.op(
        "or",
        b.op("and", low, b.splat("i16", count, str(_LOW))),
        b.op("and", high, b.splat("i16", count, str(_HIGH))),
    )
    return b.value(kind, f"bitcast {both} to {kind}")
