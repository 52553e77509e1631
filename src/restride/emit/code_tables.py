"""Computations on 4-bit elements by a table: the result of each of the 16 codes is computed once for all
elements that share their operands, such as a group with a scale, and looked up for each of them.

An AVX-512 register has a table of 16 results of 32 bits, or two of 16 bits, one after the other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from ..dtypes import DataType
from ..ir.conversion import Inputs
from ..ir.conversion import convert as convert_codes
from ..ir.nest import Compute
from .builder import Builder, Value, lanes_of, vector
from .compute import StepInputs, run_steps
from .convert import Abilities, real_type
from .register_permutation import NOTHING, Lanes

_CODES = 16
_LOOK_UP = {16: "llvm.x86.avx512.permvar.hi.512", 32: "llvm.x86.avx512.permvar.si.512"}
_REGISTER_BITS = 512


def can_tabulate(src: DataType, dst: DataType, compute: Compute, can: Abilities) -> bool:
    """Return whether a register can look up the results of a source's codes."""
    is_known = src.bits == 4 and dst.bits in _LOOK_UP and real_type(src, dst, compute) == "float"
    return is_known and can.masks and not (compute.is_move or compute.reads_destination)


@dataclass(frozen=True, slots=True)
class CodeTables:
    """The tables of a tile. `inputs` reads the operands of elements, `operands` gives their locations."""

    b: Builder
    types: tuple[DataType, DataType]
    compute: Compute
    can: Abilities
    inputs: Callable[[Lanes], StepInputs]
    operands: Callable[[Lanes], Sequence[tuple[int, ...]]]
    made: dict[tuple[tuple[int, ...], ...], Value] = field(default_factory=dict)

    def look_up(self, codes: Value, lanes: Lanes) -> Value | None:
        """Look up a register of codes, a byte each; None if too few elements share operands."""
        size = _REGISTER_BITS // self.types[1].bits
        run = self._shared_run(lanes)
        if not run or len(lanes) < size:
            return None
        # With one table, all its entries are the same 16 repeated: bits above the code do not matter.
        held = size // _CODES
        spans = min(held, max(len(lanes) // run, 1))
        if spans > 1:
            codes = self._numbered(codes, run, spans)
        places = self.b.cast("zext", codes, f"i{self.types[1].bits}")
        parts = []
        for first in range(0, len(lanes), size):
            start = first // (run * spans) * run * spans
            firsts = [lanes[start + run * i] for i in range(spans)]
            parts.append(self._permuted(self._table(firsts, held), self.b.lanes(places, first, size)))
        return self.b.join(parts)

    def _shared_run(self, lanes: Lanes) -> int:
        """Return how many lanes in a row share their operands, at least 16; else 0."""
        if NOTHING in lanes:
            return 0
        counts = [len(list(same)) for _, same in groupby(self.operands(lanes))]
        run = min(counts)
        return run if run % _CODES == 0 and run & (run - 1) == 0 and all(n % run == 0 for n in counts) else 0

    def _numbered(self, codes: Value, run: int, spans: int) -> Value:
        """Return codes with the number of their table above them."""
        b, size = self.b, lanes_of(codes)
        numbers = [i // run % spans * _CODES for i in range(size)]
        low = b.op("and", codes, b.splat("i8", size, str(_CODES - 1))) if self._has_sign else codes
        return b.op("or", low, Value(codes.type, "<" + ", ".join(f"i8 {n}" for n in numbers) + ">"))

    @property
    def _has_sign(self) -> bool:
        return self.types[0] is DataType.s4

    def _table(self, firsts: Sequence[int], held: int) -> Value:
        """Return the results of all codes with the operands of these elements; perhaps in one table."""
        key = tuple(self.operands(tuple(firsts)))
        if key not in self.made:
            elements = tuple(first for first in firsts for _ in range(_CODES))
            reals = Value(vector("i32", len(elements)), _reals_text(self.types[0], len(firsts)))
            types = DataType.f32, self.types[1]
            values = run_steps(self.b, reals, types, self.compute, self.inputs(elements), self.can)
            count = _CODES * held
            self.made[key] = self.b.shuffle(values, values, [i % len(elements) for i in range(count)])
        return self.made[key]

    def _permuted(self, table: Value, places: Value) -> Value:
        kind = table.type
        return self.b.call(kind, _LOOK_UP[self.types[1].bits], f"{table}, {places}", f"{kind}, {kind}")


@functools.cache
def _reals_text(src: DataType, times: int) -> str:
    """Return the values of the codes, as bits of floats."""
    every = np.arange(_CODES, dtype=np.uint8)
    bits = convert_codes(every, (src, DataType.f32), Compute(), Inputs()).view(np.uint32)
    return "<" + ", ".join(f"i32 {int(bits[i % _CODES])}" for i in range(_CODES * times)) + ">"
