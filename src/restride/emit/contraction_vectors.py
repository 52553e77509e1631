"""Loads and stores of vectors in which only the leading lanes are elements."""

from __future__ import annotations

from ..dtypes import DataType
from .access import load_masked, store_masked
from .builder import Builder, Value, vector
from .convert import bits_type, zeros


def load_vector(b: Builder, data_type: DataType, pointer: Value, lanes: int, valid: int) -> Value:
    """Load `valid` elements into the leading lanes, zeros into the others; nothing after them is read."""
    kind = bits_type(data_type)
    if valid == 0:
        return zeros(data_type, lanes)
    if valid < lanes:
        return load_masked(b, kind, lanes, valid, pointer)
    full = vector(kind, lanes)
    return b.value(full, f"load {full}, {pointer}, align {data_type.bits // 8}")


def load_words(b: Builder, pointer: Value, lanes: int, valid: int, align: int) -> Value:
    """Load `valid` 32-bit words into the leading lanes, zeros into the others."""
    full = vector("i32", lanes)
    if valid == 0:
        return Value(full, "zeroinitializer")
    if valid < lanes:
        return load_masked(b, "i32", lanes, valid, pointer)
    return b.value(full, f"load {full}, {pointer}, align {align}")


def store_vector(
    b: Builder, data_type: DataType, value: Value, pointer: Value, lanes: int, written: int
) -> None:
    """Store the leading `written` lanes."""
    if written >= lanes:
        b.line(f"store {value}, {pointer}, align {data_type.bits // 8}")
    elif written:
        store_masked(b, value, written, pointer)


def only_leading(b: Builder, value: Value, lanes: int, valid: int) -> Value:
    """Keep the leading lanes, with zeros in the others."""
    if valid >= lanes:
        return value
    zero = Value(value.type, "zeroinitializer")
    return b.shuffle(value, zero, [lane if lane < valid else lanes for lane in range(lanes)])
