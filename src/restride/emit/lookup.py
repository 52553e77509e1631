"""Bytes to bytes by a table, where a float of 8 bits is on either side: a few instructions for a register.

The table is what `plan/contract.py`, the definition, makes of every code. Types of 4 bits have 16 codes,
which nearly every x86 looks up in one register; types of 8 have 256, for which AVX-512 VBMI has an
instruction.
"""

from __future__ import annotations

import functools

import numpy as np

from ..dtypes import DataType
from ..plan.compute import Compute
from ..plan.contract import Inputs, is_integer_move
from ..plan.contract import convert as convert_codes
from .builder import Builder, Value, lanes_of, vector

_MOVE = Compute()
_SHUFFLE = {16: "llvm.x86.ssse3.pshuf.b.128", 32: "llvm.x86.avx2.pshuf.b", 64: "llvm.x86.avx512.pshuf.b.512"}
_PERMUTE, _PERMUTED = "llvm.x86.avx512.vpermi2var.qi.512", 64


def entries(src: DataType, dst: DataType) -> int:
    """How many codes a table for these types has; 0 where arithmetic does as well, or lanes are wider."""
    if src is dst or max(src.bits, dst.bits) > 8 or is_integer_move(src, dst, _MOVE):
        return 0
    return 1 << src.bits


def look_up(b: Builder, v: Value, types: tuple[DataType, DataType], register: int) -> Value:
    """Each byte as the table of `types` says; `register` is how many bytes a shuffle takes."""
    codes = _codes(*types)
    size = register if len(codes) == 16 else _PERMUTED
    lanes = lanes_of(v)
    pieces = [_piece(b, v, first, size) for first in range(0, lanes, size)]
    found = [_in_one(b, x, codes, size) if len(codes) == 16 else _in_four(b, x, codes) for x in pieces]
    whole = b.join(found)
    return whole if lanes_of(whole) == lanes else b.shuffle(whole, whole, tuple(range(lanes)))


@functools.cache
def _codes(src: DataType, dst: DataType) -> tuple[int, ...]:
    """What each code becomes; a result of 4 bits fills its byte, with its sign."""
    every = np.arange(1 << src.bits, dtype=np.uint8)
    found = convert_codes(every, (src, dst), _MOVE, Inputs())
    if dst is DataType.s4:
        found = (found ^ np.uint8(8)) - np.uint8(8)
    return tuple(int(code) for code in found)


def _piece(b: Builder, v: Value, first: int, size: int) -> Value:
    """So many lanes from `first` on; past the last one there is nothing."""
    lanes = lanes_of(v)
    if lanes == size:
        return v
    return b.shuffle(v, v, tuple(i if i < lanes else -1 for i in range(first, first + size)))


def _constant(codes: tuple[int, ...]) -> Value:
    return Value(vector("i8", len(codes)), "<" + ", ".join(f"i8 {code}" for code in codes) + ">")


def _in_one(b: Builder, v: Value, codes: tuple[int, ...], size: int) -> Value:
    """A table of one register, the same in every 16 bytes."""
    place = b.op("and", v, b.splat("i8", size, "15"))
    table = _constant(codes * (size // 16))
    return b.call(v.type, _SHUFFLE[size], f"{table}, {place}", f"{v.type}, {v.type}")


def _in_four(b: Builder, v: Value, codes: tuple[int, ...]) -> Value:
    """A table of four registers: the lower half of it in two, the upper half, for bytes below 0, in two."""
    quarters = [_constant(codes[first : first + _PERMUTED]) for first in range(0, 256, _PERMUTED)]
    kinds = ", ".join([v.type] * 3)
    lower, upper = (b.call(v.type, _PERMUTE, f"{quarters[i]}, {v}, {quarters[i + 1]}", kinds) for i in (0, 2))
    return b.select(b.compare("icmp slt", v, Value(v.type, "zeroinitializer")), upper, lower)
