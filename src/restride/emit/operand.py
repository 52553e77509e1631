"""Operands of a computation in the lanes of a register: loaded once for a tile."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ..dtypes import DataType
from .builder import Builder, Value, lanes_of, vector
from .convert import Abilities, bits_type, to_real
from .network import NOTHING, Lanes
from .nibble import load_run


class Tensors:
    """The operands at one tile: their addresses, types, and the offset of each element of the tile."""

    def __init__(
        self,
        b: Builder,
        pointers: Sequence[Value],
        types: Sequence[DataType],
        offsets: Sequence[tuple[int, ...]],
        present: tuple[bool, ...],
        real: str,
        can: Abilities,
    ) -> None:
        self._b, self._pointers, self._types, self._offsets = b, pointers, types, offsets
        self._present, self._real, self._can = present, real, can
        self._known: dict[tuple[int, tuple[int, ...]], Value] = {}

    def lanes(self, index: int, lanes: Lanes) -> Value:
        """Real values of operand `index` for the elements in `lanes`; anything where there is none."""
        offsets = self._offsets[index]
        wanted = [offsets[e] if e != NOTHING and self._present[e] else None for e in lanes]
        distinct = tuple(sorted({offset for offset in wanted if offset is not None}))
        values = self._values(index, distinct)
        place = {offset: lane for lane, offset in enumerate(distinct)}
        mask = [0 if offset is None else place[offset] for offset in wanted]
        if mask == list(range(lanes_of(values))):
            return values
        return self._b.shuffle(values, values, mask)

    def _values(self, index: int, distinct: tuple[int, ...]) -> Value:
        key = index, distinct
        if key not in self._known:
            bits = self._load(index, distinct)
            self._known[key] = to_real(self._b, bits, self._types[index], self._real, self._can)
        return self._known[key]

    def _load(self, index: int, distinct: tuple[int, ...]) -> Value:
        """One load for each run of consecutive offsets."""
        b, kind = self._b, bits_type(self._types[index])
        parts = [self._run(index, run) for run in _runs(distinct)]
        value = parts[0]
        for part in parts[1:]:
            value = _append(b, value, part, kind)
        return value

    def _run(self, index: int, run: list[int]) -> Value:
        data_type = self._types[index]
        if data_type.bits == 4:
            return load_run(self._b, data_type, self._pointers[index], run[0], len(run))
        address = self._b.advance(self._pointers[index], run[0] * data_type.bits // 8)
        full = vector(bits_type(data_type), len(run))
        return self._b.value(full, f"load {full}, {address}, align 1")


def _runs(offsets: tuple[int, ...]) -> list[list[int]]:
    numbered = groupby(enumerate(offsets), key=lambda pair: pair[1] - pair[0])
    return [[offset for _, offset in run] for _, run in numbered]


def _append(b: Builder, value: Value, part: Value, kind: str) -> Value:
    """Lanes of `value`, then those of `part`."""
    have, more = lanes_of(value), lanes_of(part)
    if more == 1:
        scalar = b.value(kind, f"extractelement {part}, i64 0")
        wide = b.shuffle(value, value, [*range(have), -1])
        return b.value(wide.type, f"insertelement {wide}, {scalar}, i64 {have}")
    size = max(have, more)
    first = b.shuffle(value, value, [*range(have), *[-1] * (size - have)])
    second = b.shuffle(part, part, [*range(more), *[-1] * (size - more)])
    return b.shuffle(first, second, [*range(have), *range(size, size + more)])
